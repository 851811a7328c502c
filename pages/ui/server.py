"""What the web server does besides pages: it hands out the plotting library, once a browser, words an error, and tells every
browser where scripts may come from, that no other site may frame the app, and what not to guess."""

from __future__ import annotations

import gc
import gzip
import logging
import secrets
import sys
import threading
import time
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import plotly
import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdm_core.errors import GdmError
from pages.ui import downloads, navigation, shell
from pages.ui.streamlit_internals import page_source

log = logging.getLogger(__name__)

MAIN = Path(__file__).with_name("main.py")
PLOTLY_ROUTE = "/gdm/plotly.min.js"
NEW_MODULES = 25  # fewer are not worth a walk
QUIET_S = 2.0  # the first page comes first
# What a first look at a fit and the matching of colours need: two seconds together.
LOAD_AHEAD = ("pages.lab.live", "gdm_core.models.gdm.model", "scipy.stats", "scipy.optimize")


@cache
def _plotly(compressed: bool) -> bytes:
    source = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    return gzip.compress(source, compresslevel=6) if compressed else source


async def _serve_plotly(request: Request) -> Response:
    """4.8 MB of source as 1.5 MB, compressed once; the address names the version, so a browser may keep it for good."""
    compressed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(_plotly(compressed), media_type="text/javascript", headers=headers)


async def _serve_page(request: Request) -> Response:
    """A page that a link leads to. Home lies where its server is, and needs no word."""
    return Response(page_source(), media_type="text/html", headers={"Cache-Control": "no-cache"})


@cache
def plotly_address() -> str:
    return f"{PLOTLY_ROUTE}?v={version('plotly')}"


_modules_kept = 0


def keep_modules() -> bool:
    """Set what loaded modules hold aside from the garbage collector; whether there was anything new.

    With all libraries loaded a full walk takes 0.2 s, in which the server answers nobody. Modules stay for good anyway.
    """
    global _modules_kept
    if len(sys.modules) < _modules_kept + NEW_MODULES:
        return False
    _modules_kept = len(sys.modules)
    gc.collect()
    gc.freeze()
    return True


@cache
def get_ready() -> threading.Thread:
    """Start the workers, and load what a first fit needs here, while the first visitor looks at the first page."""

    def prepare() -> None:
        time.sleep(QUIET_S)
        for name in LOAD_AHEAD:
            import_module(name)
            keep_modules()
        import_module("pages.lab.live.screen").engine().start()

    thread = threading.Thread(target=prepare, name="gdm-get-ready", daemon=True)
    thread.start()
    return thread


def show_error(error: Exception) -> bool:
    """An error that no page caught: its own words where they were meant for a reader, else a number to find it by."""
    if isinstance(error, GdmError):
        shell.error("This does not work as it stands", str(error))
        return True
    number = secrets.token_hex(3)
    log.error("error %s", number, exc_info=error)
    shell.error(
        "Something went wrong on this page",
        f"Reload it to go on. If it happens again, the server's log tells more under the number {number}.",
    )
    return True


def routes() -> list[Route]:
    """Our addresses, below the path that the app was put under (server.baseUrlPath)."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    below = f"/{base}" if base else ""
    return [
        Route(below + PLOTLY_ROUTE, _serve_plotly),
        *(Route(f"{below}/{entry.url}", _serve_page) for entry in navigation.available()),
        Route(f"{below}{downloads.ROUTE}/{{token}}/{{key:path}}", downloads.serve),
    ]


# ---- what every answer says -----------------------------------------------------------------------------------------
# Streamlit writes styles and its start into the page, components come as modules from memory (blob:), and what Plotly draws
# with WebGL is compiled in the browser (unsafe-eval). Everything else comes from here, and goes nowhere else.
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "media-src": "'self' data: blob:",
    "connect-src": "'self' ws: wss: blob: data:",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {sources}" for name, sources in POLICY.items()),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class _Headers:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


MIDDLEWARE = [Middleware(_Headers)]
