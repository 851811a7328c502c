"""States over time: mixed-colour strips, stacked proportions, how undecided the model is. And their summaries: how much each is
used, how long it lasts, what follows it, and where it wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import runs
from gdm_core.analysis.tables import entropy_of
from gdm_core.errors import DataError
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    CELLS,
    SMALL,
    TIME_MARGIN,
    Dict,
    Figure,
    axis,
    bare,
    cut_to,
    figure,
    heatmap,
    names_of,
    note,
    plain,
    plane,
    points,
    rows_axis,
    shape,
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
    cells = [averaged(s, -(-len(s) // width))[0] if width > 1 else s for s in soft.values()]
    drawn, n_states = max(len(c) for c in cells), max(c.shape[1] for c in cells)
    joined = np.full((len(cells), drawn, n_states), np.nan, np.float32)  # [R, columns, K]
    tips = np.zeros((len(cells), drawn, 4), np.uint8)
    for i, cell in enumerate(cells):
        known = np.flatnonzero(np.isfinite(cell).any(axis=1))
        joined[i, known] = 0
        joined[i, known, : cell.shape[1]] = np.nan_to_num(cell[known])
        tips[i, : len(cell)] = top_two(cell)
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
    def only(shown: Sequence[bool], **more: Any) -> Dict:
        return heatmap(np.where(np.array(shown)[:, None], index, len(scale) - 1), says, "u1", **look, **more)

    traces = [only([row not in marked for row in rows_shown])]
    traces += [only([row == name for row in rows_shown], opacity=opacity) for name, (_, opacity) in marked.items()]
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
