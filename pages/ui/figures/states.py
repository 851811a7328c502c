"""Summaries of states: how much each is used, how long it lasts, what follows it, and where it wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from pages.ui import palette
from pages.ui.figures.base import Dict, Figure, axis, bare, layout, names_of, note, typed
from pages.ui.figures.strips import discrete


def usage(
    states: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    reference: npt.ArrayLike | None = None,
    height: int | None = None,
    caption: str = "How much of the time each state takes, soft shares counted as they are.",
) -> Figure:
    """A bar for each state; `reference` [K] shares are marked on them as ticks."""
    soft = np.asarray(states, np.float32)
    share = np.nanmean(soft, axis=0)  # [K]
    shown = names_of(len(share), list(names) if names else None)
    top = max(0.05, float(np.nanmax(share)) * 1.22)
    marks: list[Dict] = []
    if reference is not None:
        marks = [
            {
                "type": "line",
                "x0": float(r),
                "x1": float(r),
                "y0": k - 0.42,
                "y1": k + 0.42,
                "line": {"color": "$ink", "width": 2},
            }
            for k, r in enumerate(np.asarray(reference, np.float32))
        ]
        top = max(top, float(np.max(np.asarray(reference))) * 1.1)
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": share.tolist(),
                "y": list(range(len(share))),
                "text": [f"{s:.0%}" if s >= 0.005 else "<1%" for s in share],
                "textposition": "outside",
                "cliponaxis": False,
                "marker": {"color": palette.colours(len(share))},
                "customdata": shown,
                "hovertemplate": "%{customdata} %{x:.1%}<extra></extra>",
            }
        ],
        "layout": layout(
            bargap=0.28,
            shapes=marks,
            xaxis=bare(range=[0, top], fixedrange=True),
            yaxis=axis(
                autorange="reversed",
                tickvals=list(range(len(share))),
                ticktext=shown,
                showgrid=False,
                fixedrange=True,
                tickfont={"size": 12, "color": "$ink"},
            ),
        ),
        "caption": caption,
        "alt": "Use of states: " + ", ".join(f"{n} {s:.0%}" for n, s in zip(shown, share, strict=True)) + ".",
        "height": height or 30 + 26 * len(share),
    }


def usage_by_segment(
    states: npt.ArrayLike,
    segments: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    what: str = "lap",
    height: int = 220,
    caption: str = "How the use of states changes from one to the next; each column adds up to 100 %.",
) -> Figure:
    """Stacked use of states in each segment (lap, bout) [T]."""
    soft, where = np.asarray(states, np.float32), np.asarray(segments)
    if len(soft) != len(where):
        raise DataError(f"There are {len(soft)} states but {len(where)} segment numbers.")
    numbers, index = np.unique(where, return_inverse=True)
    count = np.bincount(index)
    shown = names_of(soft.shape[1], list(names) if names else None)
    clean = np.nan_to_num(soft)
    return {
        "data": [
            {
                "type": "bar",
                "x": numbers.tolist(),
                "y": typed(np.bincount(index, clean[:, k]) / count),
                "name": shown[k],
                "marker": {"color": colour},
                "hovertemplate": f"{what} %{{x}} · {shown[k]} %{{y:.0%}}<extra></extra>",
            }
            for k, colour in enumerate(palette.colours(soft.shape[1]))
        ],
        "layout": layout(
            barmode="stack",
            bargap=0.12,
            xaxis=axis(what, showgrid=False, dtick=max(1, len(numbers) // 12)),
            yaxis=axis("", range=[0, 1.001], tickformat=".0%", tickvals=[0, 0.5, 1], fixedrange=True, showgrid=False),
        ),
        "caption": caption,
        "alt": f"Use of {soft.shape[1]} states in each of {len(numbers)} {what}s.",
        "height": height,
    }


def runs(labels: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(state, length in samples) of each uninterrupted stay; negative labels interrupt and are left out."""
    z = np.asarray(labels, np.int64)
    if not len(z):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.diff(z, prepend=z[0] - 1))
    length = np.diff(np.append(starts, len(z)))
    kept = z[starts] >= 0
    return z[starts][kept], length[kept]


def dwell(
    labels: npt.ArrayLike,
    n_states: int,
    *,
    step: float = 1.0,
    unit: str = "steps",
    names: Sequence[str] | None = None,
    height: int | None = None,
    caption: str = "Each dot is one uninterrupted stay; the bar marks the median, with its value beside it.",
) -> Figure:
    """How long each state lasts once entered, from the strongest state [T] of every sample."""
    state, length = runs(labels)
    shown = names_of(n_states, list(names) if names else None)
    jitter = np.random.default_rng(0).uniform(-0.28, 0.28, len(state))
    seconds = length * step
    marks: list[Dict] = []
    notes: list[Dict] = []
    for k in range(n_states):
        mine = seconds[state == k]
        if not len(mine):
            continue
        middle = float(np.median(mine))
        marks.append(
            {
                "type": "line",
                "x0": middle,
                "x1": middle,
                "y0": k - 0.4,
                "y1": k + 0.4,
                "line": {"color": "$ink", "width": 2},
            }
        )
        # On a logarithmic axis annotations are placed by exponent, shapes by value.
        notes.append(
            note(
                f"{middle:.3g}",
                float(np.log10(middle)),
                k - 0.4,
                xref="x",
                yref="y",
                yanchor="bottom",
                font={"size": 11, "color": "$ink"},
            )
        )
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "x": typed(seconds[state == k]),
                "y": typed(k + jitter[state == k]),
                "marker": {"color": colour, "size": 6, "opacity": 0.6},
                "hovertemplate": f"{shown[k]} %{{x:.3~g}} {unit}<extra></extra>",
            }
            for k, colour in enumerate(palette.colours(n_states))
        ],
        "layout": layout(
            xaxis=axis(f"stay ({unit}, logarithmic)", type="log"),
            yaxis=axis(
                range=[n_states - 0.4, -0.75],
                tickvals=list(range(n_states)),
                ticktext=shown,
                showgrid=False,
                fixedrange=True,
                tickfont={"size": 12, "color": "$ink"},
            ),
            shapes=marks,
            annotations=notes,
        ),
        "caption": caption,
        "alt": f"Lengths of {len(state)} stays in {n_states} states.",
        "height": height or 70 + 40 * n_states,
    }


def transition_matrix(
    matrix: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    height: int | None = None,
    caption: str = "From the state in the row to the state in the column; rows add up to 100 %.",
) -> Figure:
    """A heat map of transition probabilities [K, K]."""
    m = np.asarray(matrix, np.float32)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise DataError(f"A transition matrix is square; got {m.shape}.")
    shown = names_of(len(m), list(names) if names else None)
    text = [["" if not np.isfinite(v) else f"{v:.0%}" if v >= 0.005 else "·" for v in row] for row in m]
    return {
        "data": [
            {
                "type": "heatmap",
                "z": typed(m),
                "x": shown,
                "y": shown,
                "text": text,
                "texttemplate": "%{text}",
                "textfont": {"size": 11},
                "colorscale": [[0, "$surface"], [1, "$accent"]],
                "zmin": 0,
                "zmax": 1,
                "showscale": False,
                "xgap": 2,
                "ygap": 2,
                "hovertemplate": "%{y} to %{x}: %{z:.1%}<extra></extra>",
            }
        ],
        "layout": layout(
            xaxis=axis("to", side="top", showgrid=False, fixedrange=True, tickfont={"size": 12, "color": "$ink"}),
            yaxis=axis(
                "from", autorange="reversed", showgrid=False, fixedrange=True, tickfont={"size": 12, "color": "$ink"}
            ),
        ),
        "caption": caption,
        "alt": f"Transition probabilities between {len(m)} states.",
        "height": height or 70 + 36 * len(m),
    }


def transition_map(
    xs: npt.ArrayLike,
    ys: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    path: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    height: int = 380,
    caption: str = "Which state the model moves to from each place: the mixed colour of its probabilities there.",
) -> Figure:
    """The plane coloured by the state that wins there.

    xs [W], ys [H]       the grid
    probabilities        [H, W, K], over states
    path                 [T, 2] where the data went, drawn on top
    """
    p = np.asarray(probabilities, np.float32)
    x, y = np.asarray(xs, np.float32), np.asarray(ys, np.float32)
    if p.ndim != 3 or p.shape[:2] != (len(y), len(x)):
        raise DataError(f"Probabilities have shape {p.shape}; expected [{len(y)}, {len(x)}, states].")
    n_states = p.shape[2]
    buckets = palette.quantise(p.reshape(-1, n_states), limit=60, cell=0.03)
    shown = names_of(n_states, list(names) if names else None)
    winner = p.argmax(axis=2)
    traces: list[Dict] = [
        {
            "type": "heatmap",
            "x": typed(x),
            "y": typed(y),
            "z": typed(buckets.index.reshape(len(y), len(x)), "u1"),
            "customdata": typed(winner + 1, "u1"),
            "colorscale": discrete(buckets.css),
            "zmin": -0.5,
            "zmax": len(buckets.css) - 0.5,
            "showscale": False,
            "opacity": 0.75,
            "hovertemplate": "S%{customdata}<extra></extra>",
        }
    ]
    if path is not None:
        where = np.asarray(path, np.float32)
        traces.append(
            {
                "type": "scattergl" if len(where) > 4000 else "scatter",
                "mode": "lines",
                "x": typed(where[:, 0]),
                "y": typed(where[:, 1]),
                "line": {"color": "$ink", "width": 1},
                "opacity": 0.45,
                "hoverinfo": "skip",
            }
        )
    return {
        "data": traces,
        "layout": layout(
            xaxis=bare(),
            yaxis=bare(scaleanchor="x", scaleratio=1),
            annotations=_labels_in_regions(x, y, winner, shown),
        ),
        "caption": caption,
        "alt": f"Map of the plane by winning state, {n_states} states.",
        "height": height,
        "phone_height": min(height, 300),
    }


def _labels_in_regions(
    x: npt.NDArray[Any], y: npt.NDArray[Any], winner: npt.NDArray[Any], names: Sequence[str]
) -> list[Dict]:
    """A label inside each state's region: at the member nearest to the region's median."""
    marks = []
    for k, name in enumerate(names):
        rows, columns = np.nonzero(winner == k)
        if len(rows) < 0.015 * winner.size:
            continue
        nearest = ((rows - np.median(rows)) ** 2 + (columns - np.median(columns)) ** 2).argmin()
        marks.append(
            note(name, float(x[columns[nearest]]), float(y[rows[nearest]]), xref="x", yref="y")
            | {"bgcolor": "$surface", "borderpad": 2, "font": {"size": 11, "color": "$ink"}}
        )
    return marks
