"""Figures of states over time, and of their occupancy and dwell times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import runs
from gdm_core.analysis.tables import state_entropy
from gdm_core.errors import DataError
from gdm_core.text import plural
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    LINE,
    NARROW,
    TEXT,
    THIN,
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
    points,
    rows_axis,
    shape,
    time_cursor,
    typed,
)

MAX_COLUMNS = 4_000  # more than any screen shows; finer samples are averaged before mixing colours
MAX_AREA_COLUMNS = 1_200
FEW_COLUMNS = 150  # distinguishable by eye if neighbouring columns differ
LONG = 300  # samples; shorter recordings show every sample
SHORT = 9  # characters of a name in a narrow panel
LABELLED = 0.35  # least share of an area at its label
LABEL_ON_TOP: Dict = {"t": 11}  # room for the topmost tick label, which Plotly drops otherwise


def one_hot(labels: npt.ArrayLike, n_states: int) -> npt.NDArray[np.float32]:
    """Return one-hot rows [T, K] for labels [T]; NaN for negative labels."""
    z = np.asarray(labels, np.int64)
    if z.size and z.max() >= n_states:
        raise DataError(f"Label {z.max()} does not fit {n_states} states (they are numbered from 0).")
    hot = np.eye(n_states, dtype=np.float32)[np.maximum(z, 0)]
    hot[z < 0] = np.nan
    return hot


def averaged(values: npt.NDArray[Any], limit: int) -> tuple[npt.NDArray[np.float32], int]:
    """Average `values` [T, ...] to at most `limit` rows; return them and the bin width."""
    width = -(-len(values) // limit) if len(values) else 1
    if width == 1:
        return np.asarray(values, np.float32), 1
    starts = np.arange(0, len(values), width)
    known = np.isfinite(values)
    count = np.add.reduceat(known, starts, axis=0)
    total = np.add.reduceat(np.where(known, values, 0), starts, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (total / count).astype(np.float32), width


def is_flickering(states: npt.ArrayLike) -> bool:
    """Return whether the strongest state changes too often to draw every sample."""
    soft = np.asarray(states)
    return len(soft) > LONG and 3 * int(np.count_nonzero(np.diff(soft.argmax(axis=1)))) > len(soft)


def window_length(n_samples: int, columns: int = FEW_COLUMNS) -> int:
    """Return how many samples to average for at most `columns` columns."""
    return -(-n_samples // columns)


def _average(
    states: npt.NDArray[Any], values: npt.NDArray[Any], step: float, unit: str
) -> tuple[npt.NDArray[Any], int, str]:
    """Average `values` at a resolution for `states`; return them, the bin width and a note."""
    cells, width = averaged(values, FEW_COLUMNS if is_flickering(states) else MAX_AREA_COLUMNS)
    many = f"{width} steps" if unit == "step" else f"{width * step:.2g} {unit}"
    return cells, width, f" Averages over {many}." if width > 1 else ""


def top_two(states: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return numbers and percentages [T, 4] of the two strongest states."""
    percent = np.round(np.nan_to_num(states) * 100)
    at = np.arange(len(percent))
    first = percent.argmax(axis=1)
    rest = percent.copy()
    rest[at, first] = -1
    second = rest.argmax(axis=1)
    least = np.maximum(rest[at, second], 0)
    return np.column_stack([first + 1, percent[at, first], second + 1, least]).astype(np.uint8)


def _with_room(made: Figure, ticks: Sequence[tuple[float, str]], span: float) -> Figure:
    """Return a figure that leaves out named ticks whose texts would overlap at its width."""
    widths = []
    for least, share in ((0, 0.085), (NARROW, 0.04)) if ticks else ():
        shown: list[tuple[float, str]] = []
        for time, text in sorted(ticks):
            if not shown or time - shown[-1][0] >= share * span:
                shown.append((time, text))
        places: Dict = {"tickvals": [time for time, _ in shown], "ticktext": [text for _, text in shown]}
        along = made["layout"]["xaxis"] | places
        widths.append({"least": least, "height": made["height"], "layout": {"xaxis": along}})
    result: Figure = {**made, "widths": widths}
    return result if widths else made


def _time_axis(unit: str, ticks: Sequence[tuple[float, str]], **more: Any) -> Dict:
    """Return a time axis, without a unit if it has named ticks."""
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
    names: Sequence[str] | None = None,
    columns: int = MAX_COLUMNS,
    caption: str = "Soft states over time. Mixed, muted colours: several states share the time step.",
) -> Figure:
    """Draw strips of soft states [T, K] over one time axis.

    start, step   time of the first sample, and between samples
    ticks         (time, text) in place of numbers, such as corners
    names         names of the states in hover texts
    columns       maximum number of columns; finer samples are averaged
    """
    if not rows:
        raise DataError("A strip needs at least one row of states.")
    soft = {name: np.asarray(states, np.float32) for name, states in rows.items()}
    length = max(len(s) for s in soft.values())
    width = window_length(length, columns) if length else 1
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
    hover = "S%{customdata[0]} %{customdata[1]}% · S%{customdata[2]} %{customdata[3]}%"
    look: Dict = {"x0": start + (dx - step) / 2, "dx": dx, "y": rows_shown, "ygap": 3 if len(cells) > 1 else 0}
    look |= {"customdata": typed(tips, "u1"), **numbered_colours(scale)}
    if names:
        hover = "%{text}"
        look["text"] = [_hover_texts(row, blank, names) for row, blank in zip(tips, blanks, strict=True)]
    hover = f"{unit} %{{x:.4~g}} · %{{y}}<br>{hover}"

    short = [cut_to(name, 10) for name in rows_shown]
    axes: Dict = {
        "xaxis": _time_axis(unit, ticks),
        "yaxis": rows_axis(short, rows_shown, autorange="reversed", automargin=False),
    }
    alt, high = f"State strips of {length} samples: {', '.join(rows_shown)}.", height or 52 + 34 * len(cells)
    place: Dict = {"margin": TIME_MARGIN, "annotations": []}
    made = figure([heatmap(index, hover, "u1", **look)], caption, alt, high, cursor=time_cursor(), **axes, **place)
    return _with_room(made, ticks, length * step)


def _hover_texts(tips: npt.NDArray[np.uint8], missing: npt.NDArray[np.bool_], names: Sequence[str]) -> list[str]:
    """Return the names and percentages of the two strongest states per column; "" if missing."""
    titles = [plain(name) for name in names]
    return [
        "" if blank else f"{titles[first - 1]} {most}%" + (f"<br>{titles[second - 1]} {rest}%" if rest else "")
        for (first, most, second, rest), blank in zip(tips.tolist(), missing.tolist(), strict=True)
    ]


def channel_strip(
    values: npt.ArrayLike,
    *,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
) -> Figure:
    """Draw observations [T, N] as rows of shades."""
    y = np.asarray(values, np.float32)
    if y.ndim != 2 or not y.size:
        raise DataError(f"Channels need shape [time, channels] and at least one value; got shape {y.shape}.")
    channels = "recorded channel" if y.shape[1] == 1 else f"{y.shape[1]} recorded channels"
    caption = f"The {channels}; stronger shade = higher value."
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
    return figure([cells], caption, alt, 120, cursor=time_cursor(), margin=TIME_MARGIN, **axes)


def numbered_colours(colours: Sequence[str]) -> Dict:
    """Return the colour scale of a heat map whose values are indices into `colours`."""
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
    caption: str = "Proportions of the states at each time step.",
) -> Figure:
    """Draw stacked proportions of soft states [T, K], with labels on the areas.

    colours  colours of the states; None for the first K of the palette
    labels   labels of the areas; None for the names
    """
    soft = np.asarray(states, np.float32)
    palette.mix(soft[:1])  # validates the shape and the number of states
    shares, width, window = _average(soft, soft, step, unit)
    titles = display_names(soft.shape[1], names)
    written = [plain(label) for label in labels] if labels else titles
    x = start + step * (np.arange(len(shares)) * width + (width - 1) / 2)
    base = np.cumsum(np.nan_to_num(shares), axis=1) - np.nan_to_num(shares)
    traces = []
    for k, colour in enumerate(colours or palette.colours(soft.shape[1])):
        area: Dict = {
            "stackgroup": "states",
            "fillcolor": colour,
            "line": {"width": 0, "color": colour},
            "name": titles[k],
        }
        traces.append(points("lines", x, shares[:, k], f"{titles[k]} %{{y:.0%}}", **area))
    marks = [
        note(written[k], float(x[at]), height, xref="x", yref="y", name="area")
        | {"font": {"size": TEXT, "color": palette.text_colour(traces[k]["fillcolor"])}}
        for k, at, height in _place_labels(shares, base + shares / 2, written)
    ]
    axes: Dict = {"xaxis": _full_time_axis(unit, x, ticks), "yaxis": _shares_axis([0, 0.5, 1], tickformat=".0%")}
    alt = f"Stacked shares of {soft.shape[1]} states over {len(soft)} samples."
    place: Dict = {"margin": TIME_MARGIN | LABEL_ON_TOP, "annotations": marks, "hovermode": "x unified"}
    made = figure(traces, caption + window, alt, height, cursor=time_cursor(), **axes, **place)
    return _with_room(made, ticks, len(soft) * step)


def _full_time_axis(unit: str, x: npt.NDArray[Any], ticks: Sequence[tuple[float, str]] = ()) -> Dict:
    """Return a time axis over the range of x."""
    return _time_axis(unit, ticks, range=[float(x[0]), float(x[-1])] if len(x) else None)


def _shares_axis(ticks: Sequence[float], **more: Any) -> Dict:
    return axis(range=[0, 1], fixedrange=True, tickvals=list(ticks), showgrid=False, automargin=False, **more)


def _place_labels(
    shares: npt.NDArray[Any], middle: npt.NDArray[Any], texts: Sequence[str]
) -> Iterator[tuple[int, int, float]]:
    """Yield (state, column, height) of the labels of areas: where the share is largest and no other label is near."""
    n, places = len(shares), np.arange(len(shares))
    window = min(n, max(3, n // 40))
    known = np.nan_to_num(shares).T if n else []
    smooth, around = (
        [np.convolve(share, np.ones(size) / size, mode="same") for share in known]
        for size in (window, min(n, 5 * window))
    )
    middle = np.clip(middle, 0.1, 0.9)  # the edge of the figure would cut others
    placed: list[tuple[int, int]] = []
    for k in sorted(range(len(smooth)), key=lambda k: -smooth[k].max()):
        inside = np.minimum(places, n - 1 - places) >= 0.008 * n * len(texts[k])
        share = np.where((smooth[k] > LABELLED) & inside, smooth[k] * around[k], 0.0)
        for other, at in placed:
            wide = 0.008 * (len(texts[k]) + len(texts[other]))
            share[(np.abs(places - at) < wide * n) & (np.abs(middle[:, k] - middle[at, other]) < 0.14)] = 0.0
        if share.any():
            placed.append((k, int(share.argmax())))
            yield *placed[-1], float(middle[placed[-1][1], k])


def entropy_strip(
    states: npt.ArrayLike,
    *,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
) -> Figure:
    """Draw the entropy of soft states [T, K] over time."""
    entropy = state_entropy(states)
    values, width, window = _average(np.asarray(states), entropy, step, unit)
    x = start + step * (np.arange(len(values)) * width + (width - 1) / 2)
    look: Dict = {"fill": "tozeroy", "fillcolor": "$band", "line": {"width": THIN, "color": "$accent"}}
    curve = points("lines", x, values, f"{unit} %{{x:.4~g}} · %{{y:.2f}}", **look)
    alt = f"Entropy of the soft states, on average {np.nanmean(entropy) if len(entropy) else 0:.2f}."
    place: Dict = {
        "xaxis": _full_time_axis(unit, x),
        "yaxis": _shares_axis([0, 1]),
        "margin": TIME_MARGIN | LABEL_ON_TOP,
    }
    caption = f"Entropy of the states: 0 if one state is certain, 1 if all are equally likely.{window}"
    return figure([curve], caption, alt, 104, cursor=time_cursor(), **place)  # if lower, Plotly reduces the margins


VALUES_MARGIN = {"l": 8, "r": 52, "t": 8, "b": 8}  # room on the right for a number per row
LEAST_DECADES = 1.0  # of a logarithmic axis, also if all lengths are equal


def display_names(n_states: int, names: Sequence[str] | None) -> list[str]:
    return [plain(name) for name in names_of(n_states, list(names) if names else None)]


def _value_labels(texts: Sequence[str]) -> list[Dict]:
    """Return annotations to the right of the axes, one per row."""
    place: Dict = {"xref": "paper", "yref": "y", "xanchor": "left", "xshift": 6}
    return [note(text, 1, k, **place) for k, text in enumerate(texts) if text]


def usage(
    states: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    reference: npt.ArrayLike | None = None,
    caption: str = "Occupancy: the mean proportion of each state.",
) -> Figure:
    """Draw the occupancy of each state as bars.

    colours    colours of the states; None for the first K of the palette
    reference  [K] occupancies to mark for comparison
    """
    soft = np.asarray(states, np.float32)
    known = np.isfinite(soft).any(axis=1)
    share = (
        np.nan_to_num(np.nanmean(soft[known], axis=0)) if known.any() else np.zeros(soft.shape[1], np.float32)
    )  # [K]
    titles = display_names(len(share), names)
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
        "customdata": titles,
        "hovertemplate": "%{customdata} %{x:.1%}<extra></extra>",
    }
    called = names_of(len(share), list(names) if names else None)
    words = [f"{name} {s:.0%}" for name, s in zip(called, share, strict=True)]
    values = _value_labels([f"{s:.0%}" if s >= 0.005 or s == 0 else "<1%" for s in share])
    height, rows = 30 + 26 * len(share), rows_axis(titles, autorange="reversed")
    short = [plain(cut_to(name, SHORT)) for name in called]
    widths = [{"least": 0, "height": height, "layout": {"yaxis": rows | {"ticktext": short}}}]
    widths += [{"least": NARROW // 2, "height": height, "layout": {}}]
    axes: Dict = {"xaxis": bare(range=[0, top], fixedrange=True), "yaxis": rows}
    place: Dict = {"bargap": 0.28, "shapes": marks, "annotations": values, "margin": VALUES_MARGIN}
    place |= {"minreducedwidth": 24}  # room for long names in a narrow panel
    alt = f"Occupancy of states: {', '.join(words)}."
    return figure([bars], caption, alt, height, **axes, **place) | {"widths": widths}


def _tick(x: float, row: int, reach: float) -> Dict:
    """Return a short vertical line in a row."""
    return shape("line", (x, x), (row - reach, row + reach), line={"color": "$ink", "width": LINE})


def usage_by_segment(
    states: npt.ArrayLike,
    segments: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    what: str = "lap",
    height: int = 220,
    caption: str = "Occupancy of the states in each segment.",
) -> Figure:
    """Draw the stacked occupancy of states in each segment (such as a lap) [T]."""
    soft, where = np.asarray(states, np.float32), np.asarray(segments)
    if len(soft) != len(where):
        raise DataError(f"There are {len(soft)} states but {len(where)} segment numbers.")
    numbers, index = np.unique(where, return_inverse=True)
    count = np.bincount(index)
    titles = display_names(soft.shape[1], names)
    clean = np.nan_to_num(soft)
    bars = [
        {
            "type": "bar",
            "x": numbers.tolist(),
            "y": typed(np.bincount(index, clean[:, k]) / count),
            "name": titles[k],
            "marker": {"color": colour},
            "hovertemplate": f"{what} %{{x}} · {titles[k]} %{{y:.0%}}<extra></extra>",
        }
        for k, colour in enumerate(palette.colours(soft.shape[1]))
    ]
    shares = axis("", range=[0, 1.001], tickformat=".0%", tickvals=[0, 0.5, 1], fixedrange=True, showgrid=False)
    axes: Dict = {"xaxis": axis(what, showgrid=False, dtick=max(1, len(numbers) // 12)), "yaxis": shares}
    alt = f"Occupancy of {soft.shape[1]} states in each of {len(numbers)} {what}s."
    return figure(bars, caption, alt, height, barmode="stack", bargap=0.12, **axes)


def dwell(
    labels: npt.ArrayLike,
    n_states: int,
    *,
    step: float = 1.0,
    unit: str = "steps",
    names: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    other_lengths: npt.ArrayLike | None = None,
    caption: str = "Each dot is the length of a bout; the bar marks the median, printed on the right.",
) -> Figure:
    """Draw the dwell times of each state, from the strongest state [T] of every sample.

    other_lengths   dwell times in samples of another figure that shares the axis
    """
    state, length = runs(labels)
    titles = display_names(n_states, names)
    jitter = np.random.default_rng(0).uniform(-0.28, 0.28, len(state))
    seconds = (length * step).astype(np.float32)
    reach = (
        seconds if other_lengths is None else np.concatenate([seconds, np.asarray(other_lengths, np.float32) * step])
    )
    medians = [float(np.median(mine)) if len(mine := seconds[state == k]) else np.nan for k in range(n_states)]
    marks = [_tick(middle, k, 0.4) for k, middle in enumerate(medians) if np.isfinite(middle)]
    dots = [
        points(
            "markers", seconds[state == k], k + jitter[state == k], f"{titles[k]} %{{x:.3~g}} {unit}",
            marker={"color": colour, "size": 6, "opacity": 0.6},
        )
        for k, colour in enumerate(colours or palette.colours(n_states))
    ]  # fmt: skip
    whole = not np.mod(np.nan_to_num(medians), 1).any()
    texts = [f"{middle:.0f}" if whole or middle >= 100 else f"{middle:#.3g}" for middle in medians]
    values = _value_labels([text if np.isfinite(middle) else "" for middle, text in zip(medians, texts, strict=True)])
    along = axis(f"dwell time ({unit}, logarithmic)", type="log", **_log_axis(reach))
    axes: Dict = {"xaxis": along, "yaxis": rows_axis(titles, range=[n_states - 0.4, -0.6])}
    alt = f"Dwell times of {plural(len(state), 'bout')} in {n_states} states."
    place: Dict = {"shapes": marks, "annotations": values, "margin": VALUES_MARGIN}
    return figure(dots, caption, alt, 70 + 36 * n_states, **axes, **place)


def _log_axis(lengths: npt.NDArray[Any]) -> Dict:
    """Return range and ticks of a logarithmic axis of at least a decade."""
    low, high = np.log10([lengths.min(), lengths.max()]) if len(lengths) else (0.0, 0.0)
    low, high = low - 0.06, high + 0.06
    if (missing := LEAST_DECADES - (high - low)) > 0:
        low, high = low - missing / 2, high + missing / 2
    steps = (1, 2, 5) if high - low <= 2.5 else (1,)
    ticks = [n * 10.0**e for e in range(int(np.floor(low)), int(np.ceil(high)) + 1) for n in steps]
    ticks = [tick for tick in ticks if low <= np.log10(tick) <= high]
    return {"range": [float(low), float(high)], "tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}
