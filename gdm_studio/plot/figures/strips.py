"""States over time: mixed-colour strips, stacked proportions, and how undecided the model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.tables import entropy_of
from gdm_core.errors import DataError
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    SMALL,
    TIME_MARGIN,
    Dict,
    Figure,
    axis,
    cut_to,
    figure,
    heatmap,
    names_of,
    note,
    plain,
    points,
    rows_axis,
    time_cursor,
    typed,
)

MAX_COLUMNS = 4_000  # more than any screen shows; finer samples are averaged before their colours are mixed
MAX_AREA_COLUMNS = 1_200
FEW_COLUMNS = 150  # that an eye can tell apart where neighbours have nothing in common
LONG = 300  # samples; a shorter recording can be seen sample by sample
LABEL_ON_TOP: Dict = {"t": 11}  # Plotly drops the number at the upper end of an axis where half of it finds no room


def one_hot(labels: npt.ArrayLike, n_states: int) -> npt.NDArray[np.float32]:
    """[T, K] from labels [T]; a negative label becomes a missing row."""
    z = np.asarray(labels, np.int64)
    if z.size and z.max() >= n_states:
        raise DataError(f"Label {z.max()} does not fit {n_states} states (they are numbered from 0).")
    hot = np.eye(n_states, dtype=np.float32)[np.maximum(z, 0)]
    hot[z < 0] = np.nan
    return hot


def averaged(values: npt.NDArray[Any], limit: int) -> tuple[npt.NDArray[np.float32], int]:
    """(`values` [T, ...] averaged over equal bins so that at most `limit` rows remain, samples a bin)."""
    width = -(-len(values) // limit) if len(values) else 1
    if width == 1:
        return np.asarray(values, np.float32), 1
    starts = np.arange(0, len(values), width)
    known = np.isfinite(values)
    count = np.add.reduceat(known, starts, axis=0)
    total = np.add.reduceat(np.where(known, values, 0), starts, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (total / count).astype(np.float32), width


def flickers(states: npt.ArrayLike) -> bool:
    """Whether the strongest state changes so often, in so long a recording, that a strip of all samples is a barcode."""
    soft = np.asarray(states)
    return len(soft) > LONG and 3 * int(np.count_nonzero(np.diff(soft.argmax(axis=1)))) > len(soft)


def window_of(n_samples: int, columns: int = FEW_COLUMNS) -> int:
    """How many samples are averaged where at most `columns` are drawn."""
    return -(-n_samples // columns)


def _areas(
    states: npt.NDArray[Any], values: npt.NDArray[Any], step: float, unit: str
) -> tuple[npt.NDArray[Any], int, str]:
    """(`values` averaged as finely as `states` can be seen, samples an average, words for it)."""
    cells, width = averaged(values, FEW_COLUMNS if flickers(states) else MAX_AREA_COLUMNS)
    many = f"{width} steps" if unit == "step" else f"{width * step:.3g} {unit}"
    return cells, width, f" Averages over {many}." if width > 1 else ""


def top_two(states: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """[T, 4] number and percentage of the two strongest states; of one alone, the second has 0."""
    percent = np.round(np.nan_to_num(states) * 100)
    at = np.arange(len(percent))
    first = percent.argmax(axis=1)
    rest = percent.copy()
    rest[at, first] = -1
    second = rest.argmax(axis=1)
    least = np.maximum(rest[at, second], 0)
    return np.column_stack([first + 1, percent[at, first], second + 1, least]).astype(np.uint8)


def _along(unit: str, ticks: Sequence[tuple[float, str]], **more: Any) -> Dict:
    """A time axis. Names in place of numbers say themselves what they are: no unit stands below them."""
    if not ticks:
        return axis(unit, showgrid=False, **more)
    return axis(tickvals=[t for t, _ in ticks], ticktext=[s for _, s in ticks], showgrid=False, **more)


def state_strips(
    rows: Mapping[str, npt.ArrayLike],
    *,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
    ticks: Sequence[tuple[float, str]] = (),
    height: int | None = None,
    marks: Mapping[str, tuple[str, float]] | None = None,
    names: Sequence[str] | None = None,
    columns: int = MAX_COLUMNS,
    caption: str = "One strip a row, time to the right, in the mixed colour of the soft states; faint means undecided.",
) -> Figure:
    """Strips of soft states [T, K], one for each named row, over one time axis.

    start, step   time of the first sample, and from one sample to the next
    ticks         (time, text) in place of numbers, for corners and the like
    marks         (word, opacity) of rows that are in question while others are not
    names         of the states, for who points at them
    columns       that are drawn at most: finer samples are averaged
    """
    if not rows:
        raise DataError("A strip needs at least one row of states.")
    soft = {name: np.asarray(states, np.float32) for name, states in rows.items()}
    length = max(len(s) for s in soft.values())
    width = window_of(length, columns) if length else 1
    cells, hover = [], []
    for states in soft.values():
        binned, _ = averaged(states, -(-len(states) // width)) if width > 1 else (states, 1)
        cells.append(binned)
        hover.append(top_two(binned))
    drawn = max(len(c) for c in cells)
    n_states = max(c.shape[1] for c in cells)
    joined = np.full((len(cells), drawn, n_states), np.nan, np.float32)  # [R, columns, K]
    tips = np.zeros((len(cells), drawn, 4), np.uint8)
    for i, (cell, tip) in enumerate(zip(cells, hover, strict=True)):
        joined[i, : len(cell), : cell.shape[1]] = np.where(
            np.isfinite(cell).any(axis=1, keepdims=True), np.nan_to_num(cell), np.nan
        )
        joined[i, : len(cell), cell.shape[1] :] = np.where(np.isfinite(cell).any(axis=1, keepdims=True), 0, np.nan)
        tips[i, : len(tip)] = tip
    flat = joined.reshape(-1, n_states)
    buckets = palette.quantise(flat, limit=60, cell=0.03)
    missing = np.isnan(flat).all(axis=1)
    scale = [*buckets.css, "$clear"]
    blanks = missing.reshape(len(cells), drawn)
    index = np.where(blanks, len(scale) - 1, buckets.index.reshape(blanks.shape)).astype(np.uint8)
    rows_shown = list(soft)
    dx = step * width
    marked = {row: mark for row, mark in (marks or {}).items() if row in soft}
    says = "S%{customdata[0]} %{customdata[1]} % · S%{customdata[2]} %{customdata[3]} %"
    look: Dict = {"x0": start + (dx - step) / 2, "dx": dx, "y": rows_shown, "ygap": 3 if len(cells) > 1 else 0}
    look |= {"customdata": typed(tips, "u1"), **numbered_colours(scale)}
    if names:
        says = "%{text}"
        look["text"] = [_in_words(row, blank, names) for row, blank in zip(tips, blanks, strict=True)]
    says = f"{unit} %{{x:.4~g}} · %{{y}}<br>{says}"
    # One trace, and one for each row that is marked: opacity belongs to a whole trace. All have all rows, blank where
    # they are another's, since Plotly cannot draw a heat map of one row over names.
    blank = np.full_like(index, len(scale) - 1)
    at = {row: rows_shown.index(row) for row in marked}
    whole = index.copy()
    whole[list(at.values())] = len(scale) - 1
    traces = [heatmap(whole, says, "u1", **look)]
    for row, (_, opacity) in marked.items():
        alone = blank.copy()
        alone[at[row]] = index[at[row]]
        traces.append(heatmap(alone, says, "u1", opacity=opacity, **look))
    badges = [
        note(word, 0.5, row, xref="paper", yref="y", bgcolor="$surface", borderpad=3) | {"font": SMALL}
        for row, (word, _) in marked.items()
        if word
    ]
    short = [cut_to(name, 10) for name in rows_shown]
    axes: Dict = {
        "xaxis": _along(unit, ticks),
        "yaxis": rows_axis(short, rows_shown, autorange="reversed", automargin=False),
    }
    alt, high = f"State strips of {length} samples: {', '.join(rows_shown)}.", height or 52 + 34 * len(cells)
    place: Dict = {"margin": TIME_MARGIN, "annotations": badges}
    return figure(traces, caption, alt, high, cursor=time_cursor(), **axes, **place)


def _in_words(tips: npt.NDArray[np.uint8], missing: npt.NDArray[np.bool_], names: Sequence[str]) -> list[str]:
    """[columns] the two strongest states by name, with their percentages; "" where nothing is known."""
    shown = [plain(name) for name in names]
    return [
        "" if blank else f"{shown[first - 1]} {most} %" + (f"<br>{shown[second - 1]} {rest} %" if rest else "")
        for (first, most, second, rest), blank in zip(tips.tolist(), missing.tolist(), strict=True)
    ]


def channel_strip(
    values: npt.ArrayLike,
    *,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
    height: int = 120,
    caption: str = "The channels as they are fitted, one a row, each on its own scale: low fades into the page, high stands out.",
) -> Figure:
    """What was observed [T, N], as a model sees it."""
    y = np.asarray(values, np.float32)
    if y.ndim != 2 or not y.size:
        raise DataError(f"A strip of channels needs samples and channels; got shape {y.shape}.")
    binned, width = averaged(y, MAX_AREA_COLUMNS)
    centre, spread = np.nanmean(y, axis=0), np.nanstd(y, axis=0)
    scaled = (binned - centre) / np.where(spread > 0, spread, 1)
    shade = np.where(np.isfinite(scaled), np.clip(128 + 50 * scaled, 1, 255), 0)
    look: Dict = {"zmin": 0, "zmax": 255, "colorscale": [[0, "$clear"], [1 / 255, "$surface"], [1, "$ink"]]}
    place: Dict = {"x0": start + step * (width - 1) / 2, "dx": step * width, "y0": 1, "dy": 1}
    cells = heatmap(shade.T, f"{unit} %{{x:.4~g}} · channel %{{y}}", "u1", **place, **look)
    axes: Dict = {
        "xaxis": axis("", showgrid=False, showticklabels=False),
        "yaxis": rows_axis(["channels"], [(y.shape[1] + 1) / 2], autorange="reversed", automargin=False),
    }
    alt = f"{y.shape[1]} channels over {len(y)} samples."
    return figure([cells], caption, alt, height, cursor=time_cursor(), margin=TIME_MARGIN, **axes)


def numbered_colours(colours: Sequence[str]) -> Dict:
    """The look of a heat map whose numbers, from 0 on, each stand for one of the colours."""
    n = len(colours)
    scale = [[edge, colour] for i, colour in enumerate(colours) for edge in (i / n, (i + 1) / n)]
    return {"colorscale": scale, "zmin": -0.5, "zmax": n - 0.5, "showscale": False}


def proportions(
    states: npt.ArrayLike,
    *,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
    names: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    ticks: Sequence[tuple[float, str]] = (),
    height: int = 170,
    caption: str = "The share of each state at every moment; the shares of one moment add up to 100 %.",
) -> Figure:
    """Stacked proportions of soft states [T, K], each area labelled where it is widest.

    colours  others than the first K
    labels   of the areas, where names are too long to be written on them
    """
    soft = np.asarray(states, np.float32)
    palette.mix(soft[:1])  # refuses shapes and numbers of states that cannot be drawn
    shares, width, window = _areas(soft, soft, step, unit)
    shown = [plain(name) for name in names_of(soft.shape[1], list(names) if names else None)]
    written = [plain(label) for label in labels] if labels else shown
    x = start + step * (np.arange(len(shares)) * width + (width - 1) / 2)
    base = np.cumsum(np.nan_to_num(shares), axis=1) - np.nan_to_num(shares)
    traces, marks = [], []
    for k, colour in enumerate(colours or palette.colours(soft.shape[1])):
        area: Dict = {
            "stackgroup": "states",
            "fillcolor": colour,
            "line": {"width": 0, "color": colour},
            "name": shown[k],
        }
        traces.append(points("lines", x, shares[:, k], f"{shown[k]} %{{y:.0%}}", **area))
        if len(shares) and np.nanmax(shares[:, k], initial=0) > 0.35:
            at = _widest(shares[:, k])
            marks.append(
                note(written[k], float(x[at]), float(base[at, k] + shares[at, k] / 2), xref="x", yref="y")
                | {"font": {"size": 11, "color": palette.ink_on(colour)}, "name": "area"}
            )
    axes: Dict = {"xaxis": _whole(unit, x, ticks), "yaxis": _shares_axis([0, 0.5, 1], tickformat=".0%")}
    alt = f"Stacked shares of {soft.shape[1]} states over {len(soft)} samples."
    place: Dict = {"margin": TIME_MARGIN | LABEL_ON_TOP, "annotations": marks, "hovermode": "x unified"}
    return figure(traces, caption + window, alt, height, cursor=time_cursor(), **axes, **place)


def _whole(unit: str, x: npt.NDArray[Any], ticks: Sequence[tuple[float, str]] = ()) -> Dict:
    """A time axis from the first moment to the last."""
    return _along(unit, ticks, range=[float(x[0]), float(x[-1])] if len(x) else None)


def _shares_axis(ticks: Sequence[float], **more: Any) -> Dict:
    return axis(range=[0, 1], fixedrange=True, tickvals=list(ticks), showgrid=False, automargin=False, **more)


def _widest(share: npt.NDArray[Any]) -> int:
    """Where an area has room for its label: the middle of its widest stretch, not a lone peak."""
    window = max(3, len(share) // 40)
    smooth = np.convolve(np.nan_to_num(share), np.ones(window) / window, mode="same")
    return int(smooth.argmax())


def entropy_strip(
    states: npt.ArrayLike,
    *,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
    height: int = 104,  # below, Plotly takes the room for its least plot, 64, from the margins
    caption: str = "How undecided the model is: 0 means one state alone, 1 means all states alike.",
) -> Figure:
    """Entropy of soft states [T, K] over time."""
    entropy = entropy_of(states)
    values, width, window = _areas(np.asarray(states), entropy, step, unit)
    x = start + step * (np.arange(len(values)) * width + (width - 1) / 2)
    look: Dict = {"fill": "tozeroy", "fillcolor": "$band", "line": {"width": 1, "color": "$accent"}}
    curve = points("lines", x, values, f"{unit} %{{x:.4~g}} · %{{y:.2f}}", **look)
    alt = f"Entropy of the soft states, on average {np.nanmean(entropy) if len(entropy) else 0:.2f}."
    place: Dict = {"xaxis": _whole(unit, x), "yaxis": _shares_axis([0, 1]), "margin": TIME_MARGIN | LABEL_ON_TOP}
    return figure([curve], caption + window, alt, height, cursor=time_cursor(), **place)
