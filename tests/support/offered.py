"""Download buttons of a page under test."""

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.testing.v1 import AppTest

_makers: dict[str, tuple[str, Callable[[], bytes]]] = {}  # Streamlit's file id -> file name and function


def record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the files of download buttons."""
    plain = MediaFileManager.add_deferred

    def add_deferred(self: MediaFileManager, make: Callable[[], bytes], *args: Any, **more: Any) -> str:
        key = plain(self, make, *args, **more)
        _makers[key] = more["file_name"], make
        return key

    _makers.clear()
    monkeypatch.setattr(MediaFileManager, "add_deferred", add_deferred)


def offered(app: AppTest) -> set[str]:
    """Return the labels of the download buttons."""
    return {button.proto.label for button in app.get("download_button")}


def files(app: AppTest) -> set[str]:
    """Return the names of the files."""
    return set(file_makers(app))


def file_makers(app: AppTest) -> dict[str, Callable[[], bytes]]:
    """Return the function that makes each file, by name."""
    return dict(_makers[button.proto.deferred_file_id] for button in app.get("download_button"))


def script_of(app: AppTest) -> str:
    """Return the exported Python script."""
    makers = file_makers(app)
    return next(make() for name, make in makers.items() if name.endswith("reproduce.py")).decode()
