"""What the Playground shows, to take along: its figures, its numbers, and a script that draws the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import csv
from gdm_studio.plot.figures.base import Figure
from pages.playground import gumbel
from pages.ui import exports, shell
from pages.ui.downloads import download
from pages.ui.exports import INSTALL, installed

PICTURE_WIDTH = 640  # a triangle is as high as it is wide


def draws_table(z: gumbel.Array, other: gumbel.Array) -> pd.DataFrame:
    """The dots: shares of each state, the strongest, and which distribution they are drawn from."""
    table = pd.DataFrame(np.concatenate([z, other]), columns=["p_1", "p_2", "p_3"])
    table["state"] = [f"S{k + 1}" for k in table.to_numpy().argmax(axis=1)]
    table.insert(0, "drawn_from", ["evidence"] * len(z) + ["compared_with"] * len(other))
    return table


def divergence_table(sampled: gumbel.SampledKl, exact: float) -> pd.DataFrame:
    """The divergence by chance at each softness, beside the exact one, in nats."""
    return pd.DataFrame(
        {"softness": sampled.temperatures, "sampled": sampled.mean, "standard_error": sampled.error, "exact": exact}
    )


def script(
    logits: gumbel.Array, other: gumbel.Array, softness: float, noise: float, seed: int, n: int, m: int,
    link: str = "", install: str = INSTALL,
) -> str:  # fmt: skip
    """A script that draws the dots of the page again, and works out the divergence."""
    where = f"\n{link}" if link else ""
    lines = [
        f'"""Soft states of three, as on the Playground. Needs GDM Studio: {install.replace(chr(34), chr(39))}{where}"""',
        "",
        *installed("from gdm_core.maths.relaxed import gumbel_softmax_kl", install),
        "",
        "import numpy as np",
        "import torch",
        "from scipy.special import softmax",
        "",
        f"evidence = np.array({logits.tolist()})",
        f"other = np.array({other.tolist()})  # the hollow dots",
        f"softness, noise = {softness!r}, {noise!r}",
        "",
        "",
        "def draw(logits, n, seed):",
        '    """[n, 3] soft states; the same seed throws the same dice."""',
        "    dice = np.random.default_rng(seed).gumbel(size=(n, 3))",
        "    return softmax((logits + noise * dice) / softness, axis=1)",
        "",
        "",
        f"states = draw(evidence, {n}, {seed})",
        f"hollow = draw(other, {m}, {seed + 2})",
        "exact = float(gumbel_softmax_kl(torch.from_numpy(evidence / noise), torch.from_numpy(other / noise)))",
        'print(f"divergence {exact:.4f} nats; which state wins: {softmax(evidence / noise).round(3)}")',
        'np.savez("playground.npz", states=states, hollow=hollow)',
    ]
    return "\n".join(lines) + "\n"


def tab(figures: Mapping[str, tuple[str, Figure]], tables: Mapping[str, pd.DataFrame], code: str) -> None:
    """The panel. `figures` are those of the page: (the key under which each stands there, itself) by name."""
    left, right = st.columns([0.5, 0.5], gap="small")
    with left, shell.panel("playground-figures", "Figures"):
        for name, (key, figure) in figures.items():
            st.markdown(name)
            stem = f"playground-{key}"
            first, second = st.columns(2, gap="small")
            with first:
                _file("HTML", partial(exports.figure_html, figure, name), f"{stem}.html")
            with second:
                exports.save_picture(key, stem, figure, least=PICTURE_WIDTH)
        shell.quiet("SVG and PNG are saved as the figures stand here, theme included.")
    with right, shell.panel("playground-numbers", "Numbers"):
        for name, table in tables.items():
            _file(f"{name} (CSV)", partial(csv, table), f"playground-{name.lower().replace(' ', '-')}.csv")
        _file("Python script", lambda: code.encode(), "playground.py")
        shell.quiet("The script throws the same dice: its draws are the dots of the page.")
    with st.expander("The script", icon=":material/code:"):
        st.code(code, language="python")


def _file(label: str, make: Callable[[], bytes], name: str) -> None:
    download(label, make, name, key=f"download-{name}")
