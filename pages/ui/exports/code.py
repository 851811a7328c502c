"""A Python script, and the same as a notebook, that reproduces what a page shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st

from gdm_core.models.registry import FAMILIES

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
    taught    statements that teach `model` words once it is fitted; `shipped` is then the file of what came of it
    """

    family: str
    config: Mapping[str, Any]
    order: Sequence[int]
    shipped: str = ""
    taught: Sequence[str] = ()

    @property
    def call(self) -> str:
        """The model's constructor, as one writes it."""
        name = FAMILIES[self.family][1]
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"


def _loaded(file: str, taught: bool) -> list[str]:
    """Statements that take a fit from its file, up to the `else` in which it is fitted anew."""
    why = "was taught words" if taught else "ships with the app"
    return [
        f"# This fit {why}. Fitted anew on another machine it may differ in places; the model file that the",
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
        *(_loaded(fit.shipped, bool(fit.taught)) if fit.shipped else ()),
        *(f"    {line}" if fit.shipped else line for line in (f"model = {fit.call}", "model.fit(train)", *fit.taught)),
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
    """A script that reproduces the view."""
    first, *rest = cells(recipe, fit, title, link, install)
    words = first[0].replace("\\", "\\\\").replace('"', '\\"')  # the title may hold the name of a visitor's file
    parts = [f'"""{words}"""\n\n{first[1]}']
    parts += [f"# {words}\n{code}" for words, code in rest]
    return "\n\n".join(parts) + "\n"


def notebook(recipe: Recipe, fit: Fit, title: str, link: str = "", install: str = INSTALL) -> str:
    """The script as a Jupyter notebook."""
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
CHECKOUT = Path(__file__).resolve().parents[3]
HERE = ("localhost", "127.0.0.1", "::1")


def link() -> str:
    """The page's address with everything that is set on it; "" where no browser has asked for the page."""
    address = (st.context.url or "").partition("?")[0]  # a page's address comes without what stands behind the "?"
    pairs = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    return f"{address}?{urlencode(pairs)}" if address and pairs else address


def slug(name: str) -> str:
    """A name as a part of a file's: small letters and numbers with dashes between them."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in kept.split("-") if part) or "file"


def install() -> str:
    """The command that installs this project: from where it lies, for who sits at the machine that serves the page."""
    here = urlsplit(st.context.url or "").hostname in HERE
    return f'pip install "{CHECKOUT}"' if here and (CHECKOUT / "pyproject.toml").is_file() else INSTALL
