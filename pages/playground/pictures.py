"""Figures and the script of the Playground."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import INK, LINE, TEXT, Dict, Figure, axis, bare, figure, note, points, shape, typed
from pages.playground import gumbel
from pages.playground.gumbel import Array
from pages.ui.exports import INSTALL, import_package


def winners(
    names: Sequence[str], counted: npt.NDArray[np.float64], expected: npt.NDArray[np.float64], n_draws: int
) -> Figure:
    """Draw how often each state is the strongest, as bars, and the probability, as ticks."""
    rows: Dict = {"y": list(names), "hoverinfo": "skip"}
    bars = rows | {
        "type": "bar", "orientation": "h", "x": typed(counted), "width": 0.6,
        "marker": {"color": palette.colours(len(names)), "cornerradius": 3},
    }  # fmt: skip
    tick: Dict = {"symbol": "line-ns", "size": 18, "line": {"color": "$ink", "width": 2.5}}
    ticks = rows | {"type": "scatter", "mode": "markers", "x": typed(expected), "marker": tick}
    labels = [
        note(f"{share:.1%}", float(max(share, right)), name, xanchor="left", xshift=6)
        for name, share, right in zip(names, counted, expected, strict=True)
    ]
    caption = f"Bars: {n_draws:,} draws. Ticks: softmax(π / β)."
    shares = ", ".join(f"{name} {share:.1%}" for name, share in zip(names, counted, strict=True))
    across = bare(range=[0, 1.35 * float(max(counted.max(), expected.max()))])
    down = axis(autorange="reversed", showgrid=False, tickfont=INK)
    alt = f"How often each state is the strongest: {shares}."
    return figure([bars, ticks], caption, alt, 104, xaxis=across, yaxis=down, annotations=labels)


def divergence(tau: Array, sampled: Array, error: Array, exact: float) -> Figure:
    """Draw the sampled KL divergence at several temperatures, and the exact value."""
    reach = max(float(np.max(np.abs(sampled - exact) + 2 * error)), 0.05 * max(exact, 0.1))
    spread: Dict = {"array": typed(2 * error), "color": "$muted", "thickness": 1.2, "width": 4}
    dots = points(
        "markers", tau, sampled, "τ %{x:.2~g}: %{y:.4f} nats", marker={"color": "$ink", "size": 7}, error_y=spread
    )
    line = shape("line", (0, 1), (exact, exact), xref="paper", line={"color": "$accent", "width": LINE})
    across = axis("temperature τ", type="log", tickvals=tau.tolist(), showgrid=False)
    up = axis("KL divergence (nats)", range=[exact - 1.35 * reach, exact + 1.35 * reach], nticks=5)
    caption = "KL divergence from the hollow dots' distribution: estimates ± 2 standard errors, and the exact value."
    alt = f"Sampled KL divergence at {len(tau)} temperatures; exact: {exact:.4g} nats."
    corner: Dict = {"xref": "paper", "yref": "paper", "xanchor": "right", "yanchor": "top"}
    label = note(f"exact: {exact:.3g}", 1, 1, font={"size": TEXT, "color": "$accent"}, **corner)
    place: Dict = {"shapes": [line], "annotations": [label]}
    return figure([dots], caption, alt, 215, xaxis=across, yaxis=up, **place)


def script(
    logits: gumbel.Array, other: gumbel.Array, temperature: float, noise: float, seed: int, n: int, m: int,
    link: str = "",
) -> str:  # fmt: skip
    """Return a script that repeats the draws of the page and computes the divergence."""
    package = "\n".join(import_package("from gdm_core.maths.relaxed import gumbel_softmax_kl"))
    return f'''"""Soft states of the Playground. Needs GDM Studio: {INSTALL}
{link}"""

import os

{package}

import numpy as np
import pandas as pd
import torch
from gdm_studio.plot import figures, to_plotly
from scipy.special import softmax

os.chdir(os.path.dirname(os.path.abspath(__file__)))  # files are next to this script
logits = np.array({logits.tolist()})
other = np.array({other.tolist()})  # hollow dots
temperature, noise = {temperature!r}, {noise!r}


def draw(logits, n, seed):
    """Return soft states [n, 3]."""
    gumbel = np.random.default_rng(seed).gumbel(size=(n, 3))
    return softmax((logits + noise * gumbel) / temperature, axis=1)


states = draw(logits, {n}, {seed})
hollow = draw(other, {m}, {seed + 2})
exact = float(gumbel_softmax_kl(torch.from_numpy(logits / noise), torch.from_numpy(other / noise)))
print(f"divergence {{exact:.4f}} nats; strongest state: {{softmax(logits / noise).round(3)}}")
for name, z in (("playground", states), ("playground-hollow", hollow)):
    pd.DataFrame(z, columns=["S1", "S2", "S3"]).to_csv(f"{{name}}.csv", index=False)
to_plotly(figures.simplex(states, other=hollow)).write_html("playground.html")
'''
