"""Export & reproduce: what a page shows, to take along, as a script, a notebook and HTML. pages/lab/export.py offers it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st
from plotly.io import to_html
from plotly.offline import get_plotlyjs
from streamlit.components.v2 import component

from gdm_core.models.registry import FAMILIES
from gdm_studio.plot.figures.base import Figure, fit_to_width
from pages.ui import theme
from pages.ui.card import VERDICTS, Score, describe_baseline

# Data comes from gdm_studio.datasets: it has that name in a checkout and where the package is installed.
INSTALL = "pip install path/to/gdm-studio"


def installed(first: str, install: str) -> list[str]:
    """Statements that import `first`, the project's own, or say in a line how to get it."""
    return [
        "try:",
        f"    {first}",
        "except ModuleNotFoundError as missing:",
        f"    raise SystemExit(f{f'{{missing}}. This needs GDM Studio: {install}'!r}) from None",
    ]


@dataclass(frozen=True)
class Recipe:
    """How a page's data is made or read.

    imports   lines that bring in what `lines` need
    lines     statements after which `train` is what the model is fitted to and `test` another recording
    note      a sentence on what has to be there first, such as a file
    after     statements on `states` and `new_states` (soft states in the order of colours) that follow the fit
    """

    imports: Sequence[str]
    lines: Sequence[str]
    note: str = ""
    after: Sequence[str] = ()


@dataclass(frozen=True)
class Fit:
    """The model of the view: family, configuration, and which of its states has which colour.

    shipped   the model file beside the script, where the fit came with the app: a fit anew on another machine than the
              one that made it may differ in places
    """

    family: str
    config: Mapping[str, Any]
    order: Sequence[int]
    shipped: str = ""

    @property
    def call(self) -> str:
        """The model's constructor, as one writes it."""
        name = FAMILIES[self.family][1]
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"


def _loaded(file: str) -> list[str]:
    """Statements that take a fit from its file, up to the `else` in which it is fitted anew."""
    return [
        "# This fit ships with the app. Fitted anew on another machine it may differ in places; the model file that the",
        "# page offers beside this script is the very fit.",
        f'if Path("{file}").is_file():',
        f'    model = load_model("{file}")',
        "else:",
        f'    print("{file} is not in this folder: fitting anew.")',
    ]


def cells(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> list[tuple[str, str]]:
    """(what it does, code) in order. `install` is the command that brings this project to another machine."""
    name = FAMILIES[fit.family][1]
    note = f" {recipe.note}" if recipe.note else ""
    own = f"from gdm_core import {name}{', load_model' if fit.shipped else ''}"
    head = [*installed(own, install), "", "import numpy as np", "import torch", *recipe.imports]
    if fit.shipped:
        head = ["from pathlib import Path", "", *head]
    data = [*recipe.lines]
    model = [
        "torch.set_num_threads(1)  # one thread: the same numbers each time, and on another processor the same to rounding",
        *(_loaded(fit.shipped) if fit.shipped else ()),
        *(f"    {line}" if fit.shipped else line for line in (f"model = {fit.call}", "model.fit(train)")),
        "print(model)",
    ]
    order = f"order = {list(fit.order)}  # the model's states in the order of the page's colours"
    look = [
        order,
        "states = [np.asarray(soft)[:, order] for soft in model.predict_proba(train)]  # each [time, states]",
        "new_states = [np.asarray(soft)[:, order] for soft in model.predict_proba(test)]",
    ]
    keep = [
        'model.save("model.safetensors")  # another day: model = gdm_core.load_model("model.safetensors")',
        'arrays = {f"trial_{i}": soft for i, soft in enumerate(states)}',
        'arrays |= {f"new_trial_{i}": soft for i, soft in enumerate(new_states)}',
        'np.savez("states.npz", **arrays)',
    ]
    where = f"\n{link}" if link else ""
    return [
        (f"{title}.{note} Needs GDM Studio: {install}{where}", "\n".join(head)),
        ("The data.", "\n".join(data)),
        ("The fit.", "\n".join(model)),
        ("Its soft states.", "\n".join(look)),
        *([("Names and bouts, as on the page.", "\n".join(recipe.after))] if recipe.after else []),
        ("To keep.", "\n".join(keep)),
    ]


def script(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> str:
    first, *rest = cells(recipe, fit, title, link, install)
    words = first[0].replace("\\", "\\\\").replace('"', '\\"')  # the title may hold the name of a visitor's file
    parts = [f'"""{words}"""\n\n{first[1]}']
    parts += [f"# {words}\n{code}" for words, code in rest]
    return "\n\n".join(parts) + "\n"


def notebook(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> str:
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


# ---- the address that shows this view again, and the command that brings the project to where a script runs ---------
CHECKOUT = Path(__file__).resolve().parents[2]
HERE = ("localhost", "127.0.0.1", "::1")


def link() -> str:
    """The page's address with everything that is set on it; "" where no browser has asked for the page."""
    address = (st.context.url or "").partition("?")[0]  # a page's address comes without what stands behind the "?"
    pairs = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    return f"{address}?{urlencode(pairs)}" if address and pairs else address


def slug(name: str) -> str:
    """A name as a part of a file's: small letters and numbers with dashes between them."""
    return "-".join(re.findall(r"[^\W_]+", name.lower())) or "file"


def install() -> str:
    """The command that installs this project: from where it lies, for who sits at the machine that serves the page."""
    here = urlsplit(st.context.url or "").hostname in HERE
    return f'pip install "{CHECKOUT}"' if here and (CHECKOUT / "pyproject.toml").is_file() else INSTALL


# ---- figures and whole reports as HTML files that need nothing else -------------------------------------------------
CONFIG = {"displaylogo": False, "responsive": True}
PAGE_WIDTH = 900  # pixels of a figure in a file, as the sheet below leaves them

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
    """Return a figure as HTML that draws itself once the library has loaded."""
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
    """One figure, to open anywhere without a network."""
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
    """Everything of a view in one file: settings, scores beside what they have to beat, figures, and the script."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    body = [f"<h1>{escape(title)}</h1><p>{escape(about)}</p><h2>Settings</h2><table>{rows}</table>"]
    if scores:
        lines = "".join(
            f"<tr><td>{escape(n)}</td><td><b>{escape(v)}</b></td><td>{escape(w)}</td><td>{escape(b)}</td></tr>"
            for n, v, w, b in scores
        )
        head = "<tr><th>Score</th><th>Model</th><th>Verdict</th><th>To beat</th></tr>"
        body.append(f"<h2>How good is it</h2><table>{head}{lines}</table>")
    body += [f"<h2>{escape(name)}</h2>{_figure(one, i)}" for i, (name, one) in enumerate(figures.items())]
    body.append(f"<h2>To reproduce it</h2><pre>{escape(code)}</pre>")
    if link:
        body.append(f'<p class="quiet">The view itself: <a href="{escape(link)}">{escape(link)}</a></p>')
    return _page(title, "".join(body))


def plain_score(score: Score) -> tuple[str, str, str, str]:
    """A row of the card as words: name, value with its spread, the card's verdict, what it has to beat."""
    value = f"{score.value:.{score.digits}f}{score.unit}" if score.value == score.value else "not measured"
    if score.spread is not None:
        value += f" ± {score.spread:.{score.digits}f}"
    said = VERDICTS[score.verdict][0] if score.verdict else ""
    beat = (
        ""
        if score.line is None
        else f"{describe_baseline(score.line_name)[0]} {score.line:.{score.digits}f}{score.unit}"
    )
    more = [f"{describe_baseline(name)[0]} {number:.{score.digits}f}{score.unit}" for name, number in score.others]
    return score.name, value, said, " · ".join(part for part in (beat, *more) if part)


# ---- SVG and PNG, which the browser draws from what stands there ----------------------------------------------------
LEAST_WIDTH = 900  # a file is read elsewhere: it is as wide as a page of text, however narrow the window is

_JS = """
export default function ({ data, parentElement }) {
  parentElement.querySelectorAll("button").forEach((button) => {
    button.onclick = () => {
      const plot = document.querySelector(`.st-key-${data.figure} .gdm-plot`);
      plot?.gdm?.save(button.dataset.format, data.name, data);
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
_buttons = component(
    "gdm_save",
    html="<div><button type='button' data-format='svg'>SVG</button><button type='button' data-format='png'>PNG</button></div>",
    css=_BUTTONS_LOOK,
    js=_JS,
)


def save_picture(key: str, name: str, figure: Figure, *, least: int = LEAST_WIDTH) -> None:
    """Buttons for what `plot(figure, key=key)` has drawn; `name` is that of the file, without its ending."""
    _buttons(key=f"save-{key}", data={"figure": key, "name": name, "least": least, "height": figure["height"]})
