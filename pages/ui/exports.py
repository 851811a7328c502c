"""Exports of a page: scripts, notebooks, reports, figures, and a zip of all files. pages/lab/export.py offers them."""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from time import time_ns
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st
from plotly.io import to_html
from plotly.offline import get_plotlyjs
from streamlit.components.v2 import component as inline_component

from gdm_core.models.registry import FAMILIES
from gdm_studio.plot.figures.base import Figure, fit_to_width
from pages.ui import theme
from pages.ui.card import VERDICTS, Score, describe_baseline
from pages.ui.component import component

CHECKOUT = Path(__file__).resolve().parents[2]
LOCAL = ("localhost", "127.0.0.1", "::1")
INSTALL = "pip install path/to/gdm-studio"


def import_package(first: str, install: str) -> list[str]:
    """Return lines that import this project by the statement `first`, or exit with how to install it.

    On the machine that serves the page, the script finds the code of the page itself.
    """
    fallback = [f"    raise SystemExit(f{f'{{missing}}. Install GDM Studio: {install}'!r}) from None"]
    if is_local():
        fallback = [
            "    import sys",
            "",
            f"    sys.path.append({str(CHECKOUT)!r})  # the code that exported this script",
        ]
        fallback.append(f"    {first}")
    error = "ModuleNotFoundError" if is_local() else "ModuleNotFoundError as missing"
    return ["try:", f"    {first}", f"except {error}:", *fallback]


@dataclass(frozen=True)
class Recipe:
    """Code that recreates the data of a page.

    imports   import statements of `lines`
    lines     statements that define `train` and `test`
    note      what the script needs, such as a file
    after     statements that use `states` and `new_states` (in the order of colours) after the fit
    """

    imports: Sequence[str]
    lines: Sequence[str]
    note: str = ""
    after: Sequence[str] = ()


@dataclass(frozen=True)
class Fit:
    """The displayed model: family, configuration, and the order of its states on the page.

    shipped   model file of a precomputed result, which a refit on another machine may not reproduce exactly
    """

    family: str
    config: Mapping[str, Any]
    order: Sequence[int]
    shipped: str = ""

    @property
    def call(self) -> str:
        """The call of the model's constructor."""
        name = FAMILIES[self.family][1]
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"


def cells(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> list[tuple[str, str]]:
    """Return (comment, code) of each cell. `install` is the command that installs this project."""
    name = FAMILIES[fit.family][1]
    note = f" {recipe.note}" if recipe.note else ""
    imports = import_package(f"from gdm_core import {name}{', load_model' if fit.shipped else ''}", install)
    head = [*imports, "", "import numpy as np", "import torch", *recipe.imports]
    fitting = [f"model = {fit.call}", "model.fit(train)"]
    if fit.shipped:
        head = ["from pathlib import Path", "", *head]
        fitting = [
            f'if Path("{fit.shipped}").is_file():  # the precomputed result',
            f'    model = load_model("{fit.shipped}")',
            "else:",
            *(f"    {line}" for line in fitting),
        ]
    fitting = ["torch.set_num_threads(1)  # makes results reproducible", *fitting, "print(model)"]
    inference = [
        f"order = {list(fit.order)}  # the model's states in the order of the page",
        "states = [np.asarray(soft)[:, order] for soft in model.predict_proba(train)]  # each [time, states]",
        "new_states = [np.asarray(soft)[:, order] for soft in model.predict_proba(test)]",
    ]
    saving = [
        'model.save("model.safetensors")  # load it with gdm_core.load_model("model.safetensors")',
        'arrays = {f"trial_{i}": soft for i, soft in enumerate(states)}',
        'arrays |= {f"new_trial_{i}": soft for i, soft in enumerate(new_states)}',
        'np.savez("states.npz", **arrays)',
    ]
    parts = [
        (f"{title}.{note} {run_instructions(install)}" + (f"\n{link}" if link else ""), head),
        ("Data.", [*recipe.lines]),
        ("Fit.", fitting),
        ("Soft states.", inference),
        ("Names and bouts, as on the page.", [*recipe.after]),
        ("Save.", saving),
    ]
    return [(comment, "\n".join(lines)) for comment, lines in parts if lines]


def script(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> str:
    """Return the cells as a script, which reads and writes files in its own folder."""
    first, *rest = cells(recipe, fit, title, link, install)
    comment = first[0].replace("\\", "\\\\").replace('"', '\\"')  # the title may hold the name of a user's file
    folder = "import os\n\nos.chdir(os.path.dirname(os.path.abspath(__file__)))  # files are next to this script"
    parts = [f'"""{comment}"""\n\n{folder}\n\n{first[1]}', *(f"# {comment}\n{code}" for comment, code in rest)]
    return "\n\n".join(parts) + "\n"


def notebook(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> str:
    """Return the cells as a Jupyter notebook."""
    found: list[dict[str, Any]] = []
    for number, (words, code) in enumerate(cells(recipe, fit, title, link, install)):
        text = {"cell_type": "markdown", "id": f"words-{number}", "metadata": {}, "source": _lines(words)}
        work: dict[str, Any] = {
            "cell_type": "code",
            "id": f"code-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": _lines(code),
        }
        found += [text, work]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": found,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


# ---- addresses and commands -----------------------------------------------------------------------------------------
def link() -> str:
    """Return the page's address with its settings; "" without a browser."""
    address = (st.context.url or "").partition("?")[0]  # Streamlit gives the address without its query
    pairs = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    return f"{address}?{urlencode(pairs)}" if address and pairs else address


def slug(name: str) -> str:
    """Return a name as part of a file name: small letters and digits with dashes."""
    return "-".join(re.findall(r"[^\W_]+", name.lower())) or "file"


def is_local() -> bool:
    """Return whether the visitor's browser runs on the server's machine, on which the code is a checkout."""
    return urlsplit(st.context.url or "").hostname in LOCAL and (CHECKOUT / "pyproject.toml").is_file()


def install() -> str:
    """Return the command that installs this project, from its checkout if the visitor has it."""
    return f'pip install "{CHECKOUT}"' if is_local() else INSTALL


def run_instructions(install: str) -> str:
    """Return how to run a script: with the server's Python, or after installing the project."""
    return f"Run it with {sys.executable}" if is_local() else f"Needs GDM Studio: {install}"


# ---- self-contained HTML files --------------------------------------------------------------------------------------
CONFIG = {"displaylogo": False, "responsive": True}
PAGE_WIDTH = 900  # pixels of a figure in an HTML file

_LOOK = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d1f27; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 0.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: 0.25rem 1.2rem 0.25rem 0; border-bottom: 1px solid #dfe1e8; vertical-align: top; }
figure { margin: 1rem 0; } figcaption, .quiet { color: #5d6172; font-size: 0.85rem; }
a { overflow-wrap: anywhere; }
pre { background: #f0f1f5; padding: 0.9rem; border-radius: 8px; overflow-x: auto; }
"""


def _figure(figure: Figure, number: int = 0) -> str:
    """Return a figure as HTML that Plotly draws."""
    sized = fit_to_width(figure, PAGE_WIDTH)
    resolved = theme.resolve({"data": sized["data"], "layout": sized["layout"]}, "light")
    resolved["layout"] |= {"height": sized["height"], "paper_bgcolor": theme.TOKENS["light"]["surface"]}
    drawn = to_html(
        resolved, CONFIG, include_plotlyjs=False, full_html=False, validate=False, div_id=f"figure-{number}"
    )
    alt, caption = escape(sized["alt"]), escape(sized["caption"])
    return f'<figure role="img" aria-label="{alt}">{drawn}<figcaption>{caption}</figcaption></figure>'


def _page(title: str, body: str) -> bytes:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_LOOK}</style><script>{get_plotlyjs()}</script></head><body>{body}</body></html>"
    ).encode()


def figure_html(figure: Figure, title: str) -> bytes:
    """Return one figure as HTML that needs no network."""
    return _page(title, f"<h1>{escape(title)}</h1>{_figure(figure)}")


def report_html(
    title: str,
    about: str,
    facts: Sequence[tuple[str, str]],
    scores: Sequence[tuple[str, str, str, str]],
    figures: Mapping[str, Figure],
    code: str,
    link: str = "",
) -> bytes:
    """Return the report: settings, scores with baselines, figures, and the script."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    body = [f"<h1>{escape(title)}</h1><p>{escape(about)}</p><h2>Settings</h2><table>{rows}</table>"]
    if scores:
        lines = "".join(
            f"<tr><td>{escape(n)}</td><td><b>{escape(v)}</b></td><td>{escape(w)}</td><td>{escape(b)}</td></tr>"
            for n, v, w, b in scores
        )
        head = "<tr><th>Score</th><th>Model</th><th>Verdict</th><th>Baselines</th></tr>"
        body.append(f"<h2>Fit quality</h2><table>{head}{lines}</table>")
    body += [f"<h2>{escape(name)}</h2>{_figure(one, i)}" for i, (name, one) in enumerate(figures.items())]
    body.append(f"<h2>Script</h2><pre>{escape(code)}</pre>")
    if link:
        body.append(f'<p class="quiet">This page: <a href="{escape(link)}">{escape(link)}</a></p>')
    return _page(title, "".join(body))


def plain_score(score: Score) -> tuple[str, str, str, str]:
    """Return a row of the scorecard as text: name, value with interval, verdict, baselines."""
    value = f"{score.format(score.value)} {score.interval}".strip()
    verdict = VERDICTS[score.verdict][0] if score.verdict else ""
    baselines = [f"{describe_baseline(name)[0]} {score.format(number)}" for name, number in score.references]
    return score.name, value, verdict, "; ".join(baselines)


# ---- image files, which the browser draws (components/figure_files.js) -----------------------------------------------
PRINT_WIDTH = 480  # pixels of a layout that is printed 85 mm wide

_JS = """
export default function ({ data, parentElement }) {
  parentElement.querySelectorAll("button").forEach((button) => {
    button.onclick = () => {
      const plot = document.querySelector(`.st-key-${data.figure} .gdm-plot`);
      plot?.gdm?.save(button.dataset.format, data.name, data.height);
    };
  });
}
"""
_BUTTONS_LOOK = """
div { display: flex; gap: 0.5rem; flex-wrap: wrap; }
button { font: inherit; cursor: pointer; padding: 0.42rem 0.8rem; border-radius: var(--st-button-radius);
  border: 1px solid var(--st-border-color); background: transparent; color: var(--st-text-color); white-space: nowrap; }
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color); }
"""
_buttons = inline_component(
    "gdm_save",
    html="<div><button type='button' data-format='svg'>SVG</button><button type='button' data-format='png'>PNG</button></div>",
    css=_BUTTONS_LOOK,
    js=_JS,
)


def save_picture(key: str, name: str, figure: Figure) -> None:
    """Show buttons that save the figure drawn by `plot(figure, key=key)` as the file `name`."""
    _buttons(key=f"save-{key}", data={"figure": key, "name": name, "height": _print_height(figure)})


def _print_height(figure: Figure) -> int:
    return figure.get("phone_height") or figure["height"]


def _print_figure(figure: Figure) -> dict[str, Any]:
    """Return a figure for figure_files.js, in the light theme."""
    sized = fit_to_width(figure, PRINT_WIDTH)
    resolved: dict[str, Any] = theme.resolve({"data": sized["data"], "layout": sized["layout"]}, "light")
    return resolved | {"height": _print_height(sized)}


Files = Mapping[str, bytes]


def download_all(name: str, make: Callable[[], tuple[Mapping[str, Figure], Files]], *, key: str) -> None:
    """Show the button that saves figures and files as one zip.

    make   returns figures by file name without ending, and files by path; called after a click
    """
    pending = f"pending-{key}"
    package = None
    if st.session_state.pop(pending, False):
        figures, files = make()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in files.items():
                archive.writestr(path, content)
        package = {
            "number": time_ns(),
            "zip": base64.b64encode(buffer.getvalue()).decode("ascii"),
            "figures": {stem: _print_figure(figure) for stem, figure in figures.items()},
            "surface": theme.TOKENS["light"]["surface"],
        }
    request = {pending: True}
    component("download_all")(
        key=key, data={"name": name, "package": package}, on_request_change=lambda: st.session_state.update(request)
    )
