"""Components of the app: modules of components/, served by this server (README.md says why)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly
import streamlit as st

FOLDER = Path(__file__).parent / "components"
PLOTLY = Path(plotly.__file__).parent / "package_data"
PLOTLY_ROUTE = f"/gdm/static/plotly-{version('plotly')}"
PLOTLY_ADDRESS = f"{PLOTLY_ROUTE}/plotly.min.js"


def base_path() -> str:
    """Return the path that the app is served below, such as "/lab"; "" for none."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    return f"/{base}" if base else ""


@cache
def route() -> str:
    """Return the address of the modules, which changes with their content and may be cached."""
    content = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("*.js")))
    return f"/gdm/static/{hashlib.sha256(content).hexdigest()[:12]}"


@cache
def component(name: str) -> Callable[..., Any]:
    """Return the component of components/<name>.js.

    Streamlit runs an inline script from memory. This one loads the module by its address, which lets components share imports.
    """
    address = f"{base_path()}{route()}/{name}.js"
    js = f'const {{ default: show }} = await import(new URL("{address}", location.origin));\nexport default show;\n'
    return st.components.v2.component(f"gdm_{name}", js=js, isolate_styles=False)
