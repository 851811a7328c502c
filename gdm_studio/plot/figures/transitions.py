"""Figures of transitions between states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    CELLS,
    INK,
    TEXT,
    THIN,
    Dict,
    Figure,
    figure,
    heatmap,
    names_of,
    note,
    path_cursor,
    plane,
    points,
    rows_axis,
    typed,
)
from gdm_studio.plot.figures.states import display_names, numbered_colours


def transition_matrix(
    matrix: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    caption: str = "Transition probabilities from the state in the row to the state in the column.",
) -> Figure:
    """Draw a heat map of transition probabilities [K, K]."""
    m = np.asarray(matrix, np.float32)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise DataError(f"A transition matrix must be square; got shape {m.shape}.")
    titles = display_names(len(m), names)
    places = list(range(len(m)))  # not names, which may repeat
    hover = [
        [f"{a} to {b}: {v:.1%}" if np.isfinite(v) else "" for b, v in zip(titles, row, strict=True)]
        for a, row in zip(titles, m, strict=True)
    ]
    text = [["" if not np.isfinite(v) else f"{v:.0%}" if v >= 0.005 else "·" for v in row] for row in m]
    words: Dict = {"text": text, "texttemplate": "%{text}", "textfont": {"size": TEXT}}
    cells = heatmap(m, x=places, y=places, zmin=0, zmax=1, hovertext=hover, hoverinfo="text", **words, **CELLS)
    axes: Dict = {
        "xaxis": rows_axis(titles, title="to", side="top"),
        "yaxis": rows_axis(titles, title="from", autorange="reversed"),
    }
    alt = f"Transition probabilities between {len(m)} states."
    return figure([cells], caption, alt, 70 + 36 * len(m), **axes)


def transition_map(
    xs: npt.ArrayLike,
    ys: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    path: npt.ArrayLike | None = None,
    start: float = 0.0,
    step: float = 1.0,
    caption: str = "Probabilities of the next state at each position, in mixed colours.",
) -> Figure:
    """Draw the probabilities of states over the plane.

    xs, ys          [W] and [H] coordinates of the grid
    probabilities   [H, W, K] of the states
    path            [T, 2] positions of the data, drawn on top
    start, step     time of the first sample of the path, and between samples
    """
    p = np.asarray(probabilities, np.float32)
    x, y = np.asarray(xs, np.float32), np.asarray(ys, np.float32)
    if p.ndim != 3 or p.shape[:2] != (len(y), len(x)):
        raise DataError(f"Probabilities have shape {p.shape}; expected [{len(y)}, {len(x)}, states].")
    n_states = p.shape[2]
    buckets = palette.quantise(p.reshape(-1, n_states), limit=60, cell=0.03)
    winner = p.argmax(axis=2)
    cells: Dict = {"x": typed(x), "y": typed(y), "customdata": typed(winner + 1, "u1"), **numbered_colours(buckets.css)}
    traces = [heatmap(buckets.index.reshape(len(y), len(x)), "S%{customdata}", "u1", opacity=0.75, **cells)]
    moments = None
    if path is not None:
        where = np.asarray(path, np.float32)
        moments = path_cursor(where[:, 0], where[:, 1], start, step)
        traces.append(points("lines", *where.T, line={"color": "$ink", "width": THIN}, opacity=0.45))
    alt = f"Map of the most probable of {n_states} states over the plane."
    labels = _labels_in_regions(x, y, winner, names_of(n_states))
    return figure(traces, caption, alt, 380, phone_height=300, cursor=moments, annotations=labels, **plane())


def _labels_in_regions(
    x: npt.NDArray[Any], y: npt.NDArray[Any], winner: npt.NDArray[Any], names: Sequence[str]
) -> list[Dict]:
    """Label each state's region at its point nearest to the region's median."""
    marks = []
    for k, name in enumerate(names):
        rows, columns = np.nonzero(winner == k)
        if len(rows) < 0.015 * winner.size:
            continue
        nearest = ((rows - np.median(rows)) ** 2 + (columns - np.median(columns)) ** 2).argmin()
        marks.append(
            note(name, float(x[columns[nearest]]), float(y[rows[nearest]]), xref="x", yref="y")
            | {"bgcolor": "$surface", "borderpad": 2, "font": INK}
        )
    return marks
