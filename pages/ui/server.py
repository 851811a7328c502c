"""Routes for browser modules and files, error messages, and security headers."""

from __future__ import annotations

import gc
import logging
import secrets
import threading
import time
from functools import cache
from importlib import import_module
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdm_core.errors import GdmError
from pages.ui import component, shell

log = logging.getLogger(__name__)

MAIN = Path(__file__).with_name("main.py")
QUIET_S = 2.0  # until the first page is there
# Needed by the first fit; importing them takes two seconds.
LOAD_AHEAD = ("pages.lab.live", "gdm_core.models.gdm.model", "scipy.stats", "scipy.optimize")


@cache
def get_ready() -> threading.Thread:
    """Start the workers and import what a first fit needs, in the background."""

    def prepare() -> None:
        time.sleep(QUIET_S)
        for name in LOAD_AHEAD:
            import_module(name)
        gc.collect()
        gc.freeze()  # a full collection of all libraries would stop the server for 0.2 s
        import_module("pages.lab.live.panels").engine().start()

    thread = threading.Thread(target=prepare, name="gdm-get-ready", daemon=True)
    thread.start()
    return thread


def show_error(error: Exception) -> bool:
    """Show an uncaught error: the message of a GdmError, otherwise a number that the log has as well."""
    if isinstance(error, GdmError):
        shell.error("This page cannot be shown", str(error))
        return True
    number = secrets.token_hex(3)
    log.error("error %s", number, exc_info=error)
    shell.error(
        "Something went wrong on this page",
        f"Reload the page. If it happens again, look for error {number} in the server's log.",
    )
    return True


def routes() -> list[BaseRoute]:
    """Return the routes, below server.baseUrlPath."""
    base = component.base_path()
    modules = base + component.route()
    return [
        Route(f"{modules}/{component.CARTESIAN}", _serve_cartesian),
        Mount(modules, StaticFiles(directory=component.FOLDER, packages=[component.PLOTLY])),
    ]


def _serve_cartesian(_: Request) -> Response:
    packed = component.FOLDER / f"{component.CARTESIAN}.gz"
    return FileResponse(packed, media_type="text/javascript", headers={"Content-Encoding": "gzip"})


# ---- headers of every response --------------------------------------------------------------------------------------
# Streamlit needs inline styles and scripts, components start from memory (blob:), and Plotly's WebGL compiles code
# (unsafe-eval). Everything else comes from this server.
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
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}  # an address below /gdm/static names its content


class _Headers:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        more = KEPT if "/gdm/static/" in path else {}
        is_home = path.rstrip("/") == component.base_path()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (HEADERS | more).items():
                    headers[name] = value
                if not is_home and headers.get("content-type", "").startswith("text/html"):
                    headers["Link"] = component.preload_header()
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


MIDDLEWARE = [Middleware(_Headers)]
