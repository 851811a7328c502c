"""Downloads served by the app, and the security headers of every response."""

from __future__ import annotations

import gc
from urllib.parse import quote

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit import config

from gdm_core.errors import DataError
from pages.ui import downloads, server
from pages.ui.downloads import File, Shelf
from pages.ui.server import HEADERS, MIDDLEWARE, POLICY
from tests.support.asgi import ask


def asked(path: str) -> tuple[int, dict[str, str], bytes]:
    return ask(Starlette(routes=server.routes()), path)


@pytest.fixture
def shelf(monkeypatch) -> Shelf:
    """The files of one visitor."""
    monkeypatch.setattr(st, "session_state", {})
    monkeypatch.setattr(downloads, "renderer", lambda name: lambda **given: None)
    return downloads._shelf()


def fails(error: Exception) -> bytes:
    raise error


def test_address_serves_latest_file(shelf):
    address = f"{downloads.ROUTE}/{shelf.token}/table"
    downloads.download("Table", lambda: b"1", "table.csv", key="table")
    assert asked(address)[2] == asked(address)[2] == b"1"
    downloads.download("Table", lambda: b"2", "table.csv", key="table")
    assert asked(address)[2] == b"2"


def test_any_name_and_key_is_encoded(shelf):
    name = 'a "b"; c\r\nX: 1/../ä.csv'
    key = "page-export-Every block (CSV)/../?#%"
    shelf.files[key] = File(name, lambda: b"a,b\n")
    status, headers, body = asked(f"{downloads.ROUTE}/{shelf.token}/{key}")
    assert (status, body) == (200, b"a,b\n")
    assert headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    assert headers["content-type"].startswith("text/csv")
    assert headers["cache-control"] == "no-store"


def test_file_needs_its_visitors_token(shelf):
    shelf.files["table"] = File("table.csv", lambda: b"secret")
    other = Shelf()
    for token in ("", "x", other.token, shelf.token[:-1]):
        status, _, body = asked(f"{downloads.ROUTE}/{token}/table")
        assert status in {404, 410}
        assert b"secret" not in body
    assert asked(f"{downloads.ROUTE}/{shelf.token}/other")[0] == 410


def test_ended_session_serves_nothing():
    shelf = Shelf()
    token = shelf.token
    downloads._shelves[token] = shelf
    del shelf
    gc.collect()
    status, _, body = asked(f"{downloads.ROUTE}/{token}/table")
    assert (status, body.decode()) == (410, downloads.GONE)


def test_unexpected_error_hides_details_and_logs_id(shelf, caplog):
    shelf.files["bad"] = File("bad.csv", lambda: fails(DataError("The trial has no channel.")))
    shelf.files["broken"] = File("broken.csv", lambda: fails(ZeroDivisionError("secret of the house")))
    assert asked(f"{downloads.ROUTE}/{shelf.token}/bad")[::2] == (422, b"The trial has no channel.")
    status, _, body = asked(f"{downloads.ROUTE}/{shelf.token}/broken")
    assert status == 500
    assert b"secret" not in body
    assert body.decode().rstrip(".").split()[-1] in caplog.text


def test_files_follow_base_path(shelf, monkeypatch):
    shelf.files["table"] = File("table.csv", lambda: b"1")
    monkeypatch.setattr(st, "get_option", lambda name: "/lab/")
    assert asked(f"/lab{downloads.ROUTE}/{shelf.token}/table")[0] == 200
    assert asked(f"{downloads.ROUTE}/{shelf.token}/table")[0] == 404


# ---- headers of every answer ----------------------------------------------------------------------------------------
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
