"""Components of the app: modules of components/, served by this server (README.md says why)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import streamlit as st

FOLDER = Path(__file__).parent / "components"
PLOTLY = ("plotly", "package_data")  # package and folder of plotly.min.js
CARTESIAN = "plotly-cartesian.min.js"  # starts in a third of the time; stored compressed

EARLY = (
    "plot",
    "axes",
    "channel",
    "colours",
    "cursor",
    "figure_files",
    "plotly",
    "states_canvas",
    "history",
    "slider",
    "text",
)


def base_path() -> str:
    """Return the path that the app is served below, such as "/lab"; "" for none."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    return f"/{base}" if base else ""


@cache
def route() -> str:
    """Return the address of the modules, which changes with their content and may be cached."""
    content = version("plotly").encode() + b"".join(path.read_bytes() for path in sorted(FOLDER.iterdir()))
    return f"/gdm/static/{hashlib.sha256(content).hexdigest()[:12]}"


def preload_header() -> str:
    """Return the Link header by which a browser loads what figures need while Streamlit starts."""
    modules = base_path() + route()
    links = [f"<{modules}/{name}.js>; rel=modulepreload" for name in EARLY]
    return ", ".join([*links, f"<{modules}/{CARTESIAN}>; rel=preload; as=script"])


@cache
def component(name: str) -> Callable[..., Any]:
    """Return the component of components/<name>.js.

    Streamlit runs an inline script from memory. This one loads the module by its address, which lets components share imports.
    """
    address = f"{base_path()}{route()}/{name}.js"
    js = f'const {{ default: show }} = await import(new URL("{address}", location.origin));\nexport default show;\n'
    return st.components.v2.component(f"gdm_{name}", js=js, isolate_styles=False)
