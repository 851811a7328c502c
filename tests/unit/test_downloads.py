"""Videos served by the app, and the security headers of every response."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit import config

from pages.ui import downloads
from pages.ui.server import HEADERS, MIDDLEWARE, POLICY
from tests.support.asgi import ask


def test_video_is_served_at_an_address_that_cannot_be_guessed(tmp_path):
    app = Starlette(routes=downloads.routes(""))
    film = tmp_path / "mouse.mp4"
    film.write_bytes(b"frames")
    address = downloads.video_address(film)
    assert address == downloads.video_address(film)
    assert len(address.rpartition("/")[2]) >= 32
    status, headers, body = ask(app, address)
    assert (status, body) == (200, b"frames")
    assert headers["content-type"] == "video/mp4"
    assert headers["accept-ranges"] == "bytes"
    assert ask(app, address[:-1])[0] == 410
    film.unlink()
    assert ask(app, address)[0] == 410


SMALL = Starlette(routes=[Route("/", lambda _: PlainTextResponse("hello"))], middleware=MIDDLEWARE)


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/nothing", 404)])
def test_every_response_has_security_headers(path, status):
    found, headers, _ = ask(SMALL, path)
    assert found == status
    assert {name: headers[name.lower()] for name in HEADERS} == HEADERS


def test_content_policy_allows_no_other_origin():
    assert POLICY["frame-ancestors"] == "'none'"
    assert POLICY["object-src"] == "'none'"
    assert not any("http" in sources or "*" in sources for sources in POLICY.values())


def test_xsrf_and_cors_protection_are_on():
    assert config.get_option("server.enableXsrfProtection") is True
    assert config.get_option("server.enableCORS") is True
