"""Downloads, and videos of this server."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

VIDEOS = "/gdm/videos"
_SECRET = secrets.token_bytes(24)  # makes addresses of videos unguessable
_videos: dict[str, Path] = {}


def download(label: str, make: Callable[[], bytes], name: str, *, key: str, **look: Any) -> None:
    """Show a button that saves what `make` returns as the file `name`; the page does not rerun."""
    look = {"icon": ":material/download:", "width": "stretch"} | look
    st.download_button(label, make, name, key=key, on_click="ignore", **look)


def video_address(path: Path) -> str:
    """Return the address of a video on this server."""
    token = hmac.digest(_SECRET, str(path).encode(), "sha256").hex()
    _videos[token] = path
    return f"{VIDEOS}/{token}"


def routes(base: str) -> list[BaseRoute]:
    """Return the route of videos, below the path `base`."""
    return [Route(f"{base}{VIDEOS}/{{token}}", _serve_video)]


def _serve_video(request: Request) -> Response:
    path = _videos.get(request.path_params["token"])
    if path is None or not path.is_file():
        return PlainTextResponse("This video is not here. Reload the page and choose it again.", 410)
    return FileResponse(path)
