"""Headers of every answer: nothing from elsewhere, no framing, no guessing."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit import config

from pages.ui.headers import HEADERS, POLICY, middleware
from tests.support.asgi import ask

SMALL = Starlette(routes=[Route("/", lambda _: PlainTextResponse("hello"))], middleware=middleware())


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/nothing", 404)])
def test_every_answer_has_them_errors_too(path, status):
    found, headers, _ = ask(SMALL, path)
    assert found == status
    assert {name: headers[name.lower()] for name in HEADERS} == HEADERS


def test_the_policy_lets_nothing_in_from_elsewhere_and_nobody_frame_the_app():
    assert POLICY["frame-ancestors"] == "'none'"
    assert POLICY["object-src"] == "'none'"
    assert not any("http" in sources or "*" in sources for sources in POLICY.values())


def test_forged_requests_of_other_sites_are_refused():
    assert config.get_option("server.enableXsrfProtection") is True
    assert config.get_option("server.enableCORS") is True
