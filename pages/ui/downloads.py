"""Buttons for files that are made when they are asked for, whatever the page does meanwhile.

Streamlit's own button gives a file that is made on demand a new address at every run of the page, and forgets the one before
when any visitor's run ends: now and then a click found nothing. Here the address stays, and gives what was offered last.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from mimetypes import MimeTypes
from pathlib import Path
from urllib.parse import quote
from weakref import WeakValueDictionary

import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from gdm_core.errors import GdmError
from pages.ui.streamlit_internals import renderer

log = logging.getLogger(__name__)

ROUTE = "/gdm/files"
KINDS = MimeTypes()  # as Python knows them, whatever this machine says
KINDS.add_type("application/x-ipynb+json", ".ipynb")
GONE = "This page was away for too long. Reload it, and the file can be saved."
_KEPT = "_downloads"  # the underscore: it stays when the visitor turns to another page


@dataclass(frozen=True)
class File:
    """One that is offered: its name, and what makes it; one that lies on the disk is given in parts."""

    name: str
    make: Callable[[], bytes]
    path: Path | None = None


@dataclass
class Shelf:
    """What one visitor's pages offer, by the keys of the buttons. It goes with the session."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    files: dict[str, File] = field(default_factory=dict)


_shelves: WeakValueDictionary[str, Shelf] = WeakValueDictionary()


def download(label: str, make: Callable[[], bytes], name: str, *, key: str) -> None:
    """A button that saves what `make` returns as the file `name`. The page does not run again for it."""
    data = {"label": label, "name": name, "address": _offered(key, File(name, make))}
    renderer("download")(key=key, data=data, width="stretch", height="content")


def address_of(path: Path, *, key: str) -> str:
    """Where this visitor's browser finds a file of the disk, of which it may ask for any part."""
    return _offered(key, File(path.name, path.read_bytes, path))


def _offered(key: str, file: File) -> str:
    """The address of a file that this visitor is offered from now on."""
    shelf = _shelf()
    shelf.files[key] = file
    return f"{ROUTE}/{shelf.token}/{quote(key, safe='')}"


def _shelf() -> Shelf:
    shelf: Shelf = st.session_state.setdefault(_KEPT, Shelf())
    _shelves[shelf.token] = shelf
    return shelf


def serve(request: Request) -> Response:
    """A file, made now; a sentence in its place where there is none. Runs in a thread of its own."""
    shelf = _shelves.get(request.path_params["token"])
    file = None if shelf is None else shelf.files.get(request.path_params["key"])
    if file is None:
        return PlainTextResponse(GONE, 410)
    kind = KINDS.guess_type(file.name)[0] or "application/octet-stream"
    if file.path is not None:
        return FileResponse(file.path, media_type=kind) if file.path.is_file() else PlainTextResponse(GONE, 410)
    try:
        content = file.make()
    except GdmError as error:
        return PlainTextResponse(str(error), 422)
    except Exception:  # said to the visitor, and told in the log
        number = secrets.token_hex(3)
        log.exception("error %s", number)
        return PlainTextResponse(
            f"The file could not be made. The server's log tells more under the number {number}.", 500
        )
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "Cache-Control": "no-store",
    }
    return Response(content, media_type=kind, headers=headers)
