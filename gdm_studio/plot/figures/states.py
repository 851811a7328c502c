"""Summaries of states: how much each is used, how long it lasts, what follows it, and where it wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import runs
from gdm_core.errors import DataError
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    CELLS,
    Dict,
    Figure,
    axis,
    bare,
    figure,
    heatmap,
    names_of,
    note,
    plain,
    plane,
    points,
    rows_axis,
    shape,
    typed,
)
from gdm_studio.plot.figures.strips import numbered_colours

BESIDE_VALUES = {"l": 8, "r": 52, "t": 8, "b": 8}  # room at the right of a figure, for one number a row
LEAST_DECADES = 1.0  # of a logarithmic axis: a single stay is a dot in the middle, not a scale of rounding errors


def _named(n_states: int, names: Sequence[str] | None) -> list[str]:
    return [plain(name) for name in names_of(n_states, list(names) if names else None)]


def _values(texts: Sequence[str]) -> list[Dict]:
    """One number for each row, in a column right of the axes, where no bar, dot or tick crosses it."""
    place: Dict = {"xref": "paper", "yref": "y", "xanchor": "left", "xshift": 6}
    return [note(text, 1, k, **place, font={"size": 12, "color": "$ink"}) for k, text in enumerate(texts) if text]


def usage(
    states: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    reference: npt.ArrayLike | None = None,
    height: int | None = None,
    caption: str = "How much of the time each state takes, soft shares counted as they are.",
) -> Figure:
    """A bar for each state; `reference` [K] shares are marked on them as ticks. `colours`: others than the first K."""
    soft = np.asarray(states, np.float32)
    known = np.isfinite(soft).any(axis=1)
    share = (
        np.nan_to_num(np.nanmean(soft[known], axis=0)) if known.any() else np.zeros(soft.shape[1], np.float32)
    )  # [K]
    shown = _named(len(share), names)
    top = max(0.05, float(share.max()) * 1.02)
    marks: list[Dict] = []
    if reference is not None:
        marks = [_tick(float(r), k, 0.42) for k, r in enumerate(np.asarray(reference, np.float32))]
        top = max(top, float(np.max(np.asarray(reference))) * 1.02)
    bars: Dict = {
        "type": "bar",
        "orientation": "h",
        "x": share.tolist(),
        "y": list(range(len(share))),
        "marker": {"color": list(colours) if colours else palette.colours(len(share))},
        "customdata": shown,
        "hovertemplate": "%{customdata} %{x:.1%}<extra></extra>",
    }
    said = [f"{n} {s:.0%}" for n, s in zip(names_of(len(share), list(names) if names else None), share, strict=True)]
    values = _values([f"{s:.0%}" if s >= 0.005 or s == 0 else "<1%" for s in share])
    axes: Dict = {"xaxis": bare(range=[0, top], fixedrange=True), "yaxis": rows_axis(shown, autorange="reversed")}
    place: Dict = {"bargap": 0.28, "shapes": marks, "annotations": values, "margin": BESIDE_VALUES}
    alt = f"Use of states: {', '.join(said)}."
    return figure([bars], caption, alt, height or 30 + 26 * len(share), **axes, **place)


def _tick(x: float, row: int, reach: float) -> Dict:
    """A short upright line in a row."""
    return shape("line", (x, x), (row - reach, row + reach), line={"color": "$ink", "width": 2})


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
    shown = _named(soft.shape[1], names)
    clean = np.nan_to_num(soft)
    bars = [
        {
            "type": "bar",
            "x": numbers.tolist(),
            "y": typed(np.bincount(index, clean[:, k]) / count),
            "name": shown[k],
            "marker": {"color": colour},
            "hovertemplate": f"{what} %{{x}} · {shown[k]} %{{y:.0%}}<extra></extra>",
        }
        for k, colour in enumerate(palette.colours(soft.shape[1]))
    ]
    shares = axis("", range=[0, 1.001], tickformat=".0%", tickvals=[0, 0.5, 1], fixedrange=True, showgrid=False)
    axes: Dict = {"xaxis": axis(what, showgrid=False, dtick=max(1, len(numbers) // 12)), "yaxis": shares}
    alt = f"Use of {soft.shape[1]} states in each of {len(numbers)} {what}s."
    return figure(bars, caption, alt, height, barmode="stack", bargap=0.12, **axes)


def dwell(
    labels: npt.ArrayLike,
    n_states: int,
    *,
    step: float = 1.0,
    unit: str = "steps",
    names: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    beside: npt.ArrayLike | None = None,
    height: int | None = None,
    caption: str = "Each dot is one uninterrupted stay; the bar marks the median, whose value stands at the right.",
) -> Figure:
    """How long each state lasts once entered, from the strongest state [T] of every sample.

    beside   lengths in samples of a figure to compare with: both get the same axis
    """
    state, length = runs(labels)
    shown = _named(n_states, names)
    jitter = np.random.default_rng(0).uniform(-0.28, 0.28, len(state))
    seconds = (length * step).astype(np.float32)
    reach = seconds if beside is None else np.concatenate([seconds, np.asarray(beside, np.float32) * step])
    medians = [float(np.median(mine)) if len(mine := seconds[state == k]) else np.nan for k in range(n_states)]
    marks = [_tick(middle, k, 0.4) for k, middle in enumerate(medians) if np.isfinite(middle)]
    dots = [
        points(
            "markers", seconds[state == k], k + jitter[state == k], f"{shown[k]} %{{x:.3~g}} {unit}",
            marker={"color": colour, "size": 6, "opacity": 0.6},
        )
        for k, colour in enumerate(colours or palette.colours(n_states))
    ]  # fmt: skip
    values = _values([f"{middle:.3g}" if np.isfinite(middle) else "" for middle in medians])
    along = axis(f"stay ({unit}, logarithmic)", type="log", **_decades(reach))
    axes: Dict = {"xaxis": along, "yaxis": rows_axis(shown, range=[n_states - 0.4, -0.6])}
    alt = f"Lengths of {len(state)} {'stay' if len(state) == 1 else 'stays'} in {n_states} states."
    place: Dict = {"shapes": marks, "annotations": values, "margin": BESIDE_VALUES}
    return figure(dots, caption, alt, height or 70 + 36 * n_states, **axes, **place)


def _decades(lengths: npt.NDArray[Any]) -> Dict:
    """Range and ticks of a logarithmic axis: at least a decade, at 1, 2 and 5 or, where that is crowded, at 1 alone."""
    low, high = np.log10([lengths.min(), lengths.max()]) if len(lengths) else (0.0, 0.0)
    low, high = low - 0.06, high + 0.06
    if (missing := LEAST_DECADES - (high - low)) > 0:
        low, high = low - missing / 2, high + missing / 2
    steps = (1, 2, 5) if high - low <= 2.5 else (1,)
    ticks = [n * 10.0**e for e in range(int(np.floor(low)), int(np.ceil(high)) + 1) for n in steps]
    ticks = [tick for tick in ticks if low <= np.log10(tick) <= high]
    return {"range": [float(low), float(high)], "tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}


def transition_matrix(
    matrix: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    caption: str = "From the state in the row to the state in the column; rows add up to 100 %.",
) -> Figure:
    """A heat map of transition probabilities [K, K]."""
    m = np.asarray(matrix, np.float32)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise DataError(f"A transition matrix is square; got {m.shape}.")
    shown = _named(len(m), names)
    places = list(range(len(m)))  # not the names: two states may share one
    hover = [
        [f"{a} to {b}: {v:.1%}" if np.isfinite(v) else "" for b, v in zip(shown, row, strict=True)]
        for a, row in zip(shown, m, strict=True)
    ]
    text = [["" if not np.isfinite(v) else f"{v:.0%}" if v >= 0.005 else "·" for v in row] for row in m]
    words: Dict = {"text": text, "texttemplate": "%{text}", "textfont": {"size": 11}}
    cells = heatmap(m, x=places, y=places, zmin=0, zmax=1, hovertext=hover, hoverinfo="text", **words, **CELLS)
    axes: Dict = {
        "xaxis": rows_axis(shown, title="to", side="top"),
        "yaxis": rows_axis(shown, title="from", autorange="reversed"),
    }
    alt = f"Transition probabilities between {len(m)} states."
    return figure([cells], caption, alt, 70 + 36 * len(m), **axes)


def transition_map(
    xs: npt.ArrayLike,
    ys: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    path: npt.ArrayLike | None = None,
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
    winner = p.argmax(axis=2)
    cells: Dict = {"x": typed(x), "y": typed(y), "customdata": typed(winner + 1, "u1"), **numbered_colours(buckets.css)}
    traces = [heatmap(buckets.index.reshape(len(y), len(x)), "S%{customdata}", "u1", opacity=0.75, **cells)]
    if path is not None:
        where = np.asarray(path, np.float32)
        kind, line = "scattergl" if len(where) > 4000 else "scatter", {"color": "$ink", "width": 1}
        traces.append(points("lines", *where.T, type=kind, line=line, opacity=0.45))
    alt = f"Map of the plane by winning state, {n_states} states."
    labels = _labels_in_regions(x, y, winner, names_of(n_states))
    return figure(traces, caption, alt, 380, phone_height=300, annotations=labels, **plane())


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
