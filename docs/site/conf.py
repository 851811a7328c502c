"""Sphinx configuration; `python -m docs.site.make` prepares the sources and treats warnings as errors."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.site.docstrings import as_rst
from docs.site.modules import MODULES
from gdm_core import __version__

project = "GDM Studio"
copyright = "the authors of GDM Studio. MIT licence"
release = version = __version__
language = "en"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
default_role = "code"

myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # nginx and shell listings

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"TrialsLike": "TrialsLike", "npt.ArrayLike": "ArrayLike"}  # by name, not expanded
autodoc_default_options = {"members": True}
add_module_names = False
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = "GDM Studio"
html_static_path = ["static"]
html_css_files = ["gdm.css"]
html_logo = "../../assets/logo.svg"
html_favicon = "../../assets/icon.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "sidebar_hide_name": True,
    "light_css_variables": {
        "color-brand-primary": "#0f5f80",
        "color-brand-content": "#17789f",
        "color-brand-visited": "#17789f",
        "font-stack": '"Source Sans 3", "Source Sans Pro", system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fc3d4",
        "color-brand-content": "#6fc3d4",
        "color-brand-visited": "#6fc3d4",
        "color-background-primary": "#14161b",
        "color-background-secondary": "#1a1d23",
    },
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True


def _convert_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    text = "\n".join(lines)
    if not re.search(r"^\w+\n-{3,}$", text, re.M):  # napoleon reads docstrings with NumPy sections
        lines[:] = as_rst(text).split("\n")


def setup(app: Any) -> None:
    """Load lazy names for autodoc and convert our docstrings."""
    for name in MODULES:
        module = import_module(name)
        vars(module).update({public: getattr(module, public) for public in getattr(module, "__all__", ())})
    app.connect("autodoc-process-docstring", _convert_docstring, priority=400)  # before napoleon
