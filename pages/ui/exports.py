"""Exports of a page: scripts, notebooks, figures, and a zip of all files. pages/lab/export.py offers them."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.components.v2 import component as inline_component

from gdm_core.models.registry import FAMILIES
from gdm_studio.plot.figures.base import Figure, fit_to_width
from pages.ui import shell, theme, wheel
from pages.ui.component import component

INSTALL = f"pip install {wheel.FILE} (a file of Export)"
DATA_SUMMARY = (
    'for side, trials in (("Training", train), ("Held-out", test)):',
    "    n_samples = sum(trial.n_samples for trial in trials)",
    '    print(f"{side} trials: {len(trials)}, samples: {n_samples:,}, channels: {trials[0].n_channels}")',
)


def import_package(first: str) -> list[str]:
    """Return lines that import this project by the statement `first`, or exit with the command that installs it."""
    advice = f"{{missing}}. Install GDM Studio: {INSTALL}"
    return [
        "try:",
        f"    {first}",
        "except ModuleNotFoundError as missing:",
        f"    raise SystemExit(f{advice!r}) from None",
    ]


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


def cells(recipe: Recipe, fit: Fit, title: str, link: str = "") -> list[tuple[str, str]]:
    """Return (comment, code) of each cell."""
    name = FAMILIES[fit.family][1]
    note = f" {recipe.note}" if recipe.note else ""
    imports = import_package(f"from gdm_core import {name}{', load_model' if fit.shipped else ''}")
    own = ["from gdm_core.analysis.tables import csv, states_table", "from gdm_studio import plot"]
    head = ["from pathlib import Path", "", *imports, "", "import numpy as np", "import torch", *own, *recipe.imports]
    fitting = [f"model = {fit.call}", "model.fit(train)"]
    if fit.shipped:
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
        "trial, soft = train[0], states[0]",
        'Path("states.csv").write_bytes(csv(states_table(soft, trial)))  # one row per time step',
        "figure = plot.strip(soft) if trial.position is None else plot.track(trial, soft)",
        'figure.write_html("states.html")  # as on the page; needs no other file',
    ]
    parts = [
        (f"{title}.{note} Needs GDM Studio: {INSTALL}" + (f"\n{link}" if link else ""), head),
        ("Data.", [*recipe.lines, *DATA_SUMMARY]),
        ("Fit.", fitting),
        ("Soft states.", inference),
        ("Names, bouts and scores, as on the page.", [*recipe.after]),
        ("Save.", saving),
    ]
    return [(comment, "\n".join(lines)) for comment, lines in parts if lines]


def script(recipe: Recipe, fit: Fit, title: str, link: str = "") -> str:
    """Return the cells as a script, which reads and writes files in its own folder."""
    first, *rest = cells(recipe, fit, title, link)
    comment = first[0].replace("\\", "\\\\").replace('"', '\\"')  # the title may hold the name of a user's file
    folder = "import os\n\nos.chdir(os.path.dirname(os.path.abspath(__file__)))  # files are next to this script"
    parts = [f'"""{comment}"""\n\n{folder}\n\n{first[1]}', *(f"# {comment}\n{code}" for comment, code in rest)]
    return "\n\n".join(parts) + "\n"


def notebook(recipe: Recipe, fit: Fit, title: str, link: str = "") -> str:
    """Return the cells as a Jupyter notebook."""
    found: list[dict[str, Any]] = []
    for number, (words, code) in enumerate(cells(recipe, fit, title, link)):
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


# ---- the address -----------------------------------------------------------------------------------------------------
def link() -> str:
    """Return the page's address with its settings; "" without a browser."""
    address = (st.context.url or "").partition("?")[0]  # Streamlit gives the address without its query
    pairs = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    return f"{address}?{urlencode(pairs)}" if address and pairs else address


def slug(name: str) -> str:
    """Return a name as part of a file name: small letters and digits with dashes."""
    return "-".join(re.findall(r"[^\W_]+", name.lower())) or "file"


# ---- image files, which the browser draws (components/figure_files.js) -----------------------------------------------
PRINT_WIDTH = 480  # pixels of a layout that is printed 85 mm wide

_JS = """
export default function ({ data, parentElement }) {
  parentElement.querySelectorAll("button").forEach((button) => {
    button.onclick = () => {
      const plot = document.querySelector(`.st-key-${data.figure} .gdm-plot`);
      plot?.gdm?.save(button.dataset.format, data.name);
    };
  });
}
"""
_buttons = inline_component(
    "gdm_save",
    html="<div><button type='button' data-format='svg'>SVG</button><button type='button' data-format='png'>PNG</button></div>",
    css="div { display: flex; gap: 0.5rem; flex-wrap: wrap; }" + shell.BUTTON_LOOK,
    js=_JS,
)


def save_picture(key: str, name: str) -> None:
    """Show buttons that save the figure drawn by `plot(figure, key=key)` as the file `name`."""
    _buttons(key=f"save-{key}", data={"figure": key, "name": name})


def _print_figure(figure: Figure) -> dict[str, Any]:
    """Return a figure for figure_files.js, in the light theme."""
    sized = fit_to_width(figure, PRINT_WIDTH)
    resolved: dict[str, Any] = theme.resolve({"data": sized["data"], "layout": sized["layout"]}, "light")
    return resolved | {"height": sized["height"]}


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
