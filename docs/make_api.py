"""The API reference, from docstrings: `make api` writes it to build/api (open index.html)."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pdoc
from pdoc import render, render_helpers

FOLDER = Path(__file__).resolve().parents[1] / "build" / "api"
# What a user of the library meets, in reading order. tests/unit/test_api_reference.py holds that all of it is documented.
MODULES = (
    "gdm_core",
    "gdm_core.relaxed",
    "gdm_core.models.online",
    "gdm_core.forecast",
    "gdm_core.adaptation",
    "gdm_core.streams",
    "gdm_core.errors",
    "gdm_core.engine",
    "gdm_core.engine.sweep",
    "gdm_core.engine.suggest",
    "gdm_core.engine.spread",
    "gdm_core.analysis.bouts",
    "gdm_core.study",
    "gdm_core.analysis.tables",
    "datasets.nascar",
    "datasets.formula1",
    "datasets.calms21",
    "datasets.mice",
    "datasets.cohort",
    "datasets.cohort_files",
    "datasets.tables",
    "datasets.keypoints",
    "datasets.large",
)
# "name, other (symbol)   what it means", with more of it on indented lines
_ENTRY = re.compile(
    r"^(?P<names>[a-zA-Z_]\w*(?: \(\w+\))?(?:, \w+(?: \(\w+\))?)*) {2,}(?P<words>\S.*(?:\n {4,}\S.*)*)", re.M
)


def as_markdown(docstring: str) -> str:
    """Aligned columns of names and words as a list."""

    def item(match: re.Match[str]) -> str:
        names = re.sub(r"(?<!\()\b(\w+)\b", r"`\1`", match["names"])
        return f"* {names}: {' '.join(match['words'].split())}"

    return _ENTRY.sub(item, docstring)


def main() -> int:
    plain = render_helpers.to_markdown
    render_helpers.to_markdown = lambda docstring, module, docformat: as_markdown(plain(docstring, module, docformat))
    render.configure(docformat="markdown", show_source=False, footer_text="GDM Studio")
    for name in MODULES:  # names that load when first used are not looked for: use them
        module = import_module(name)
        vars(module).update({public: getattr(module, public) for public in getattr(module, "__all__", ())})
    pdoc.pdoc(*MODULES, output_directory=FOLDER)
    print(FOLDER / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
