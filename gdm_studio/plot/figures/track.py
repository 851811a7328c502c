"""Paths in the mixed colours of soft states, and soft states on the simplex of three states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    INK,
    THIN,
    TIME_MARGIN,
    Dict,
    Figure,
    axis,
    figure,
    headline,
    names_of,
    narrow_and_wide,
    note,
    plane,
    points,
    rows_axis,
    time_cursor,
    typed,
)
from gdm_studio.plot.figures.states import averaged, top_two

MAX_PIECES = 4_000  # of a path; the ends of shorter ones would fade, so the states of finer samples are averaged
WIDEST = 1_200  # pixels of a figure
COLOURS = 40
MOST_DOTS = 1_500
BELOW: Dict = {"type": "path", "xref": "x", "yref": "y", "layer": "below"}  # a shape in data coordinates
RICH_HOVER_BELOW = 8_000  # samples; above, a hover shows the strongest state only


def bucket_lines(x: npt.NDArray[Any], y: npt.NDArray[Any], bucket: npt.NDArray[Any]) -> list[npt.NDArray[np.int64]]:
    """Return the samples along the lines of each bucket, with -1 between separate lines.

    Segment i joins sample i to i + 1 and belongs to bucket[i]; consecutive segments of one bucket form a line.
    """
    drawn = np.isfinite(x[:-1]) & np.isfinite(y[:-1]) & np.isfinite(x[1:]) & np.isfinite(y[1:])  # [T-1]
    code = np.where(drawn, bucket.astype(np.int64), -1)
    starts = np.flatnonzero(np.diff(code, prepend=-2))  # [runs]
    ends = np.append(starts[1:], len(code))
    keep = code[starts] >= 0
    starts, ends = starts[keep], ends[keep]
    order = np.argsort(code[starts], kind="stable")
    starts, ends = starts[order], ends[order]
    length = ends - starts + 2  # both ends and the separator
    stop = np.cumsum(length)
    visit = np.arange(int(stop[-1]) if len(stop) else 0) - np.repeat(stop - length - starts, length)
    visit[stop - 1] = -1
    owner = np.repeat(code[starts], length)
    edges = np.searchsorted(owner, np.arange(int(code.max(initial=-1)) + 2))
    return [visit[a:b] for a, b in pairwise(edges.tolist())]


def _dot_shapes(places: npt.NDArray[np.float32], size: float) -> Dict:
    """Return squares of `size` in data units as one shape, which stays below the path."""
    few = places[:: -(-len(places) // MOST_DOTS)]
    corners = few[np.isfinite(few).all(axis=1)] - size / 2
    path = "".join(
        f"M{x:.5g},{y:.5g}L{x + size:.5g},{y:.5g}L{x + size:.5g},{y + size:.5g}L{x:.5g},{y + size:.5g}Z"
        for x, y in corners.tolist()
    )
    return BELOW | {"path": path, "fillcolor": "$faint", "opacity": 0.55, "line": {"width": 0}}


def _line_shape(
    x: npt.NDArray[Any], y: npt.NDArray[Any], visit: npt.NDArray[np.int64], colour: str, width: float
) -> Dict:
    """Return the pieces of a path in one colour as a shape, faster than a trace or WebGL."""
    known = np.isfinite(x) & np.isfinite(y)
    span = max(float(np.ptp(x[known])), float(np.ptp(y[known])), 1e-12) if known.any() else 1.0
    digits = max(0, 4 - int(np.floor(np.log10(span))))  # 1/10,000 of the path is less than a pixel
    parts, pen = [], "M"
    for i, here, there in zip(visit.tolist(), x[visit].tolist(), y[visit].tolist(), strict=True):
        if i < 0 or not known[i]:
            pen = "M"
            continue
        parts.append(f"{pen}{here:.{digits}f},{there:.{digits}f}")
        pen = "L"
    line = {"color": colour, "width": width}
    return BELOW | {"path": "".join(parts), "line": line}


def track(
    position: npt.ArrayLike,
    states: npt.ArrayLike,
    *,
    title: str = "",
    names: Sequence[str] | None = None,
    width: float = 4.0,
    height: int = 440,
    start: float = 0.0,
    step: float = 1.0,
    dots: npt.ArrayLike | None = None,
    moment: str = "sample %{customdata[0]}",
    caption: str = "The path in the mixed colours of its soft states; muted where several states share the time step.",
) -> Figure:
    """Draw the path `position` [T, 2] coloured by `states` [T, K].

    start, step  time of the first sample and between samples, for the cursor of the group
    dots         [M, 2] positions, drawn below in grey
    moment       hover template of a sample of a short path
    """
    where, soft = np.asarray(position, np.float32), np.asarray(states, np.float32)
    if where.ndim != 2 or where.shape[1] != 2 or soft.ndim != 2 or len(where) != len(soft):
        raise DataError(f"A track needs positions [T, 2] and states [T, K]; got {where.shape} and {soft.shape}.")
    x, y = where.T
    cells, per_piece = averaged(soft, MAX_PIECES)
    buckets = palette.quantise(cells, limit=COLOURS)
    pieces = np.repeat(buckets.index, per_piece)[: len(soft) - 1]
    rich = len(x) <= RICH_HOVER_BELOW
    strongest = top_two(soft)[:, : 4 if rich and soft.shape[1] > 1 else 2]
    hover = np.column_stack([np.arange(len(soft)), strongest] if rich else [strongest]).astype(np.uint16)
    titles = names_of(soft.shape[1], list(names) if names else None)
    first = 1 if rich else 0
    # Samples carry state numbers instead of names, which would multiply the size.
    text = f"S%{{customdata[{first}]}} %{{customdata[{first + 1}]}}%"
    if rich and soft.shape[1] > 1:
        text += " · S%{customdata[3]} %{customdata[4]}%"
    hover_text = (f"{moment}<br>" if rich else "") + text
    visits = [(c, v) for c, v in zip(buckets.css, bucket_lines(x, y, pieces), strict=False) if len(v)]
    shapes = [_line_shape(x, y, visit, colour, width) for colour, visit in visits]
    # Shapes have no hover, so an invisible trace of the whole path provides it.
    invisible = {"color": "$clear", "width": width, "simplify": False}
    code = "u2" if rich else "u1"
    traces = [points("lines", x, y, hover_text, customdata=typed(hover, code), line=invisible, connectgaps=False)]
    extent = where if dots is None else np.concatenate([where, np.asarray(dots, np.float32)])
    if dots is not None:
        shapes.insert(0, _dot_shapes(np.asarray(dots, np.float32), 0.006 * float(np.nanmax(np.ptp(extent, axis=0)))))
    if np.isfinite(where).any():
        across, up = ([np.nanmin(each), np.nanmax(each)] for each in extent.T)  # keeps Plotly from clipping lines
        traces.append(points("markers", across, up, marker={"size": width + 2, "color": "$clear"}))
    marks = [headline(title) | {"yanchor": "bottom"}] if title else []  # above the path
    usage = np.nanmean(soft, axis=0)
    top = np.argsort(-usage)[:3]
    most = ", ".join(f"{titles[k]} {usage[k]:.0%}" for k in top)
    alt = f"{title or 'Path'} of {len(x)} samples in the colours of {soft.shape[1]} states. Most used: {most}."
    place: Dict = {"annotations": marks, "margin": {"l": 4, "r": 4, "t": 24 if title else 4, "b": 4}}
    moments: Dict = {"kind": "path", "start": float(start), "step": float(step)}
    made = figure(traces, caption, alt, height, cursor=moments, shapes=shapes, **place, **plane())
    return made | {"widths": _heights(extent, height)}


def _heights(extent: npt.NDArray[np.float32], most: int) -> list[Dict]:
    """Return layouts for figure widths that leave no empty room above and below a wide path."""
    known = extent[np.isfinite(extent).all(axis=1)]
    across, along = np.ptp(known, axis=0).tolist() if len(known) else (0.0, 0.0)
    if across <= along:
        return narrow_and_wide(min(most, 320), most)
    room, widest = 36, min(round(most * across / max(along, 1e-9)), WIDEST)  # room: pixels of the title and margins
    return [
        {"least": width, "height": min(most, round((width + 40) * along / across) + room), "layout": {}}
        for width in range(0, widest + 40, 40)
    ]


def repeat_channels(values: npt.ArrayLike, n_channels: int) -> npt.NDArray[np.float32]:
    """Repeat values [T, N] for each channel, separated by rows of NaN."""
    one = np.asarray(values, np.float32)
    return np.tile(np.concatenate([one, np.full((1, one.shape[1]), np.nan, np.float32)]), (n_channels, 1))


def channels(
    values: npt.ArrayLike,
    states: npt.ArrayLike,
    *,
    names: Sequence[str],
    title: str = "",
    height: int = 190,
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
    caption: str = "The channels over time, in the mixed colours of the soft states.",
) -> Figure:
    """Draw channels [T, N] over time, coloured by `states` [T, K]."""
    y = np.asarray(values, np.float32)
    if y.ndim != 2 or len(names) != y.shape[1]:
        raise DataError(f"Channels need samples [T, N] and N names; got shape {y.shape} and {len(names)} names.")
    low, high = np.nanmin(y, axis=0), np.nanmax(y, axis=0)
    middles = -1.1 * np.arange(y.shape[1], dtype=np.float32)
    rows = (y - (low + high) / 2) / np.where(high > low, high - low, 1) + middles
    time = start + step * np.arange(len(y), dtype=np.float32)
    path = np.concatenate([repeat_channels(np.column_stack([time, row]), 1) for row in rows.T])
    soft = repeat_channels(states, y.shape[1])
    result = track(path, soft, title=title, width=1.5, height=height, moment=f"{unit} %{{x:.4~g}}", caption=caption)
    across = axis(showgrid=False, showticklabels=False, range=[start - step / 2, start + step * (len(y) - 0.5)])
    up = rows_axis(names, middles.tolist(), range=[float(middles[-1]) - 0.55, 0.55], automargin=False)
    margin = {**TIME_MARGIN, "t": result["layout"]["margin"]["t"]}
    return {
        **result,
        "layout": {**result["layout"], "xaxis": across, "yaxis": up, "margin": margin},
        "cursor": time_cursor(),
        "widths": [],
    }


EDGE = 0.01  # smallest share of a state; less than the width of a dot
DENSITY_SHARES = (0.9, 0.7, 0.5, 0.3, 0.1)  # shares of draws inside the contours
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def barycentric(points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return positions [n, 2] of soft states [n, 3] on the triangle."""
    p = np.asarray(points, np.float64)
    if p.ndim != 2 or p.shape[1] != 3:
        raise DataError(f"A triangle shows three states; got shape {p.shape}.")
    result: npt.NDArray[np.float64] = p @ CORNERS
    return result


def clip_to_interior(states: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Move soft states [..., 3] off the edges, where densities are zero or infinite."""
    moved = np.maximum(np.asarray(states, np.float64), EDGE)
    result: npt.NDArray[np.float64] = moved / moved.sum(axis=-1, keepdims=True)
    return result


def simplex_grid(
    around: npt.ArrayLike, n: int = 72
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return x [n], y [n] and soft states [n, n, 3] of a grid over `around` [m, 3].

    Points outside the triangle have the states of its edge.
    """
    where = barycentric(around)
    low, high = np.quantile(where, [0.002, 0.998], axis=0)  # ignores outliers
    margin = 0.15 * (high - low) + 0.01
    (x0, y0), (x1, y1) = np.maximum(low - margin, 0), np.minimum(high + margin, [1, CORNERS[2, 1]])
    x, y = np.linspace(x0, x1, n), np.linspace(y0, y1, n)
    top = y[:, None] / CORNERS[2, 1] * np.ones(n)
    second = x[None, :] - 0.5 * top
    return x, y, clip_to_interior(np.stack([1 - second - top, second, top], axis=-1))


def density_levels(log_density: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the log-densities [5] that the shares DENSITY_SHARES of draws exceed."""
    return np.quantile(np.asarray(log_density, np.float64), [1 - share for share in DENSITY_SHARES])


def _level_indices(values: npt.NDArray[Any], levels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Map `values` so the levels become 1, 2, ...; Plotly draws contours at equal steps."""
    steps = np.maximum.accumulate(levels + 1e-9 * np.arange(len(levels)))
    steps = np.concatenate([[2 * steps[0] - steps[1]], steps, [2 * steps[-1] - steps[-2]]])
    banded: npt.NDArray[np.float64] = np.interp(values, steps, np.arange(len(steps)))
    return banded


def simplex(
    samples: npt.ArrayLike,
    *,
    log_density: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
    levels: npt.ArrayLike = (),
    other: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    height: int = 460,
    caption: str = "Each dot is a soft state; corners are single states. Shaded areas contain 90, 70, 50, 30 and 10% of draws.",
) -> Figure:
    """Draw samples [n, 3] on the triangle in their mixed colours.

    log_density  (x [W], y [H], values [H, W]) on `simplex_grid`, shaded below the samples
    levels       contours of the shading, from `density_levels`
    other        [m, 3] samples of a second distribution, drawn as hollow dots
    """
    soft = np.asarray(samples, np.float32)
    where = barycentric(soft)
    titles = names_of(3, list(names) if names else None)
    traces: list[Dict] = []
    if log_density is not None:
        x, y, values = (np.asarray(v, np.float64) for v in log_density)
        at_levels = np.asarray(levels, np.float64)
        if len(at_levels) < 2:
            raise DataError("A shading needs two levels or more; compute them with `density_levels`.")
        traces.append(
            {
                "type": "contour",
                "x": typed(x),
                "y": typed(y),
                "z": typed(_level_indices(values, at_levels)),
                "colorscale": [[0, "$band0"], [0.16, "$band"], [1, "$band"]],  # overlapping fills add up
                "contours": {"coloring": "fill", "showlines": True, "start": 1, "end": len(at_levels), "size": 1},
                "line": {"width": 0.6, "color": "$line"},
                "zmin": 0,
                "zmax": len(at_levels) + 1,
                "showscale": False,
                "hoverinfo": "skip",
            }
        )
    edge = CORNERS[[0, 1, 2, 0]]
    # A frame leaves room for the labels and covers shading outside the triangle. It is a trace, because Plotly forgets the
    # zoom if tied axes have explicit ranges.
    low, high, floor, roof = -0.06, 1.06, -0.05, float(CORNERS[2, 1]) + 0.05
    x, y = edge[[0, 2, 1, 0]].T  # in the opposite direction to the frame, so the triangle is not filled
    across, up = [low, high, high, low, low, *x, low], [floor, floor, roof, roof, floor, *y, floor]
    frame = points("lines", across, up, fill="toself", fillcolor="$surface", line={"width": 0})
    traces += [frame, points("lines", *edge.T, line={"color": "$line", "width": THIN})]
    hover = "%{customdata[0]}% · %{customdata[1]}% · %{customdata[2]}%"
    if other is not None:
        second = np.asarray(other, np.float32)
        at = barycentric(second)
        dots: Dict = {"size": 6, "symbol": "circle-open", "color": "$muted", "opacity": 0.7}
        percent = typed(np.round(second * 100), "u1")
        traces.append(points("markers", at[:, 0], at[:, 1], f"second: {hover}", customdata=percent, marker=dots))
    # One trace per colour: long lists of colour strings make a scatter slow.
    buckets = palette.quantise(soft)
    for b, colour in enumerate(palette.hex_colours(buckets.rgb)):
        mine = buckets.index == b
        if mine.any():
            dots = {"size": 6, "color": colour, "line": {"width": 0.5, "color": "$surface"}}
            percent = typed(np.round(soft[mine] * 100), "u1")
            traces.append(points("markers", where[mine, 0], where[mine, 1], hover, customdata=percent, marker=dots))
    anchors: tuple[dict[str, Any], ...] = (
        {"xanchor": "right", "yanchor": "top", "xshift": -2},
        {"xanchor": "left", "yanchor": "top", "xshift": 2},
        {"xanchor": "center", "yanchor": "bottom", "yshift": 4},
    )
    marks = [
        note(name, float(corner[0]), float(corner[1]), xref="x", yref="y", font=INK) | anchor
        for name, corner, anchor in zip(titles, CORNERS, anchors, strict=True)
    ]
    mean = soft.mean(axis=0) if len(soft) else np.zeros(3)
    usual = ", ".join(f"{n} {m:.0%}" for n, m in zip(titles, mean, strict=True))
    alt = f"{len(soft)} draws on a triangle of three states; on average {usual}."
    place: Dict = {"annotations": marks, "margin": {"l": 4, "r": 4, "t": 4, "b": 4}}
    heights = _heights(np.array([across, up], np.float32).T, height)
    return figure(traces, caption, alt, height, **place, **plane()) | {"widths": heights}
