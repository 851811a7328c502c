"""The security headers of every response."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit import config

from pages.ui.server import HEADERS, MIDDLEWARE, POLICY
from tests.support.asgi import ask

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
