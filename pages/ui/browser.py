"""The parts of the app that run in the browser: modules in pages/ui/components, as components of Streamlit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from streamlit.components.v2 import component

from pages.ui.streamlit_internals import register_components

_NAMES = ("plot", "slider", "simplex", "held", "history", "download", "channel", "text")


def renderer(name: str) -> Callable[..., Any]:
    """The component of components/<name>.js, registered with the server that runs this script (each test brings its own)."""
    if register_components("gdm", _NAMES, Path(__file__).parent):
        _make.cache_clear()
    return _make(name)


@cache
def _make(name: str) -> Callable[..., Any]:
    return component(f"gdm.{name}", js=f"{name}.js", isolate_styles=False)
