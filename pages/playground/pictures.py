"""Figures that only the Playground needs; and what it gives to take along, its dots in numbers and a script that draws the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, Figure, axis, bare, figure, note, points, shape, typed
from pages.playground import gumbel
from pages.playground.gumbel import Array, Stays
from pages.ui.exports import INSTALL, installed


def winners(
    names: Sequence[str], counted: npt.NDArray[np.float64], expected: npt.NDArray[np.float64], n_draws: int
) -> Figure:
    """How often each state has the largest share, as bars, and how often it should, as a tick across each."""
    error = float(np.max(np.abs(counted - expected) / np.sqrt(expected * (1 - expected) / n_draws)))
    rows: Dict = {"y": list(names), "hoverinfo": "skip"}
    bars = rows | {
        "type": "bar", "orientation": "h", "x": typed(counted), "width": 0.6,
        "marker": {"color": palette.colours(len(names)), "cornerradius": 3},
    }  # fmt: skip
    tick: Dict = {"symbol": "line-ns", "size": 18, "line": {"color": "$ink", "width": 2.5}}
    ticks = rows | {"type": "scatter", "mode": "markers", "x": typed(expected), "marker": tick}
    # Beside bar and tick: as the bar's own text the tick would run through it.
    said = [
        note(f"{share:.1%}", float(max(share, right)), name, xanchor="left", xshift=6)
        for name, share, right in zip(names, counted, expected, strict=True)
    ]
    caption = (
        f"Bars: how often each state has the largest share in {n_draws:,} draws. Ticks: softmax of the evidence, at "
        f"most {error:.1f} standard errors apart. Softness changes how sure a winner looks, never who wins."
    )
    told = ", ".join(f"{name} {share:.1%}" for name, share in zip(names, counted, strict=True))
    across = bare(range=[0, 1.35 * float(max(counted.max(), expected.max()))])
    down = axis(autorange="reversed", showgrid=False, tickfont={"size": 12, "color": "$ink"})
    alt = f"How often each state wins: {told}."
    return figure([bars, ticks], caption, alt, 104, xaxis=across, yaxis=down, annotations=said)


def kl_against_softness(tau: Array, sampled: Array, error: Array, exact: float) -> Figure:
    """The sampled divergence at several softnesses around the exact one."""
    reach = max(float(np.max(np.abs(sampled - exact) + 2 * error)), 0.05 * max(exact, 0.1))
    spread: Dict = {"array": typed(2 * error), "color": "$muted", "thickness": 1.2, "width": 4}
    dots = points(
        "markers", tau, sampled, "τ %{x:.2~g}: %{y:.4f} nats", marker={"color": "$ink", "size": 7}, error_y=spread
    )
    line = shape("line", (0, 1), (exact, exact), xref="paper", line={"color": "$accent", "width": 2})
    across = axis("softness τ (logarithmic)", type="log", tickvals=tau.tolist(), showgrid=False)
    up = axis("divergence (nats)", range=[exact - 1.35 * reach, exact + 1.35 * reach], nticks=5)
    caption = (
        "Divergence (KL) of the dots in the triangle from the hollow ones: estimates with two standard errors, "
        "and the exact integral, which does not contain the softness at all."
    )
    alt = f"Sampled divergence at {len(tau)} softnesses; the exact value is {exact:.4f} nats at each of them."
    place: Dict = {"shapes": [line], "annotations": [_in_corner(f"exact: {exact:.4f}", "$accent")]}
    return figure([dots], caption, alt, 215, xaxis=across, yaxis=up, **place)


def _in_corner(text: str, colour: str, row: int = 0) -> Dict:
    """A label in the upper right corner, below `row` others."""
    at: Dict = {"xref": "paper", "yref": "paper", "xanchor": "right", "yanchor": "top"}
    return note(text, 1, 1 - 0.09 * row, font={"size": 12, "color": colour}, **at)


def survival(stays: Stays, chosen: int, longest: int) -> Figure:
    """How long stays last with the chosen stickiness and with none."""
    steps = np.arange(1, longest + 1)
    traces: list[Dict] = []
    marks: list[Dict] = []
    looks = [(0, "not sticky", {"color": "$muted", "width": 1.5, "dash": "dash"})]
    if chosen != 0:
        looks.append((chosen, f"γ {stays.gammas[chosen]:.2f}", {"color": "$accent", "width": 2.2}))
    for index, name, line in looks:
        share = stays.survival(index, longest)
        seen = share > 0
        says = name + ": %{y:.1%} last %{x} steps or more"
        traces.append(points("lines", steps[seen], share[seen], says, line=line))
        said = f"{name}: {stays.mean()[index]:.1f} steps on average"
        marks.append(_in_corner(said, str(line["color"]), len(marks)))
    across = axis("steps in one state", showgrid=False, range=[0.5, longest + 0.5])
    ticks: Dict = {"tickvals": [1, 0.1, 0.01, 0.001], "ticktext": ["100%", "10%", "1%", "0.1%"]}
    up = axis("share of stays", type="log", range=[-3, 0.05], **ticks)
    caption = (
        "The share of stays that last at least so many steps; a straight line means forgetting at a constant rate."
    )
    alt = f"Lengths of stays with stickiness {stays.gammas[chosen]:.2f} beside none."
    return figure(traces, caption, alt, 260, xaxis=across, yaxis=up, annotations=marks)


def mean_stay(stays: Stays, chosen: int) -> Figure:
    """Mean length of a stay against the stickiness."""
    mean = stays.mean()
    look: Dict = {"line": {"color": "$ink", "width": 1.5}, "marker": {"color": "$ink", "size": 5}}
    drawn = [
        points("lines+markers", stays.gammas, mean, "γ %{x:.2f}: %{y:.1f} steps", **look),
        points("markers", [stays.gammas[chosen]], [mean[chosen]], marker={"color": "$accent", "size": 12}),
    ]
    across = axis("how long to stay (γ)", showgrid=False, range=[-0.03, 1.03])
    caption = "Mean stay at every stickiness, for the evidence, softness and noise chosen at the left."
    alt = f"Mean stay against stickiness; {mean[chosen]:.1f} steps at {stays.gammas[chosen]:.2f}."
    return figure(drawn, caption, alt, 260, xaxis=across, yaxis=axis("mean stay (steps)", rangemode="tozero"))


# ---- to take along --------------------------------------------------------------------------------------------------
PICTURE_WIDTH = 640  # a triangle is as high as it is wide


def draws_table(z: gumbel.Array, other: gumbel.Array) -> pd.DataFrame:
    """The dots: shares of each state, the strongest, and which distribution they are drawn from."""
    table = pd.DataFrame(np.concatenate([z, other]), columns=["p_1", "p_2", "p_3"])
    table["state"] = [f"S{k + 1}" for k in table.to_numpy().argmax(axis=1)]
    table.insert(0, "drawn_from", ["evidence"] * len(z) + ["compared_with"] * len(other))
    return table


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
