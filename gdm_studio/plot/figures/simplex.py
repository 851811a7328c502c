"""Three states on a triangle: each corner is one state alone, the middle is all three alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, Figure, figure, names_of, note, plane, points, typed

EDGE = 0.01  # of a share; less than the width of a dot
HELD = (0.9, 0.7, 0.5, 0.3, 0.1)  # shares of draws inside the lines of a shading
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def barycentric(points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """[n, 2] where soft states [n, 3] lie on the triangle."""
    p = np.asarray(points, np.float64)
    if p.ndim != 2 or p.shape[1] != 3:
        raise DataError(f"A triangle shows three states; got shape {p.shape}.")
    result: npt.NDArray[np.float64] = p @ CORNERS
    return result


def inside(states: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Soft states [..., 3] moved off the edges, where densities are zero or beyond all bounds."""
    moved = np.maximum(np.asarray(states, np.float64), EDGE)
    result: npt.NDArray[np.float64] = moved / moved.sum(axis=-1, keepdims=True)
    return result


def simplex_grid(
    around: npt.ArrayLike, n: int = 72
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(x [n], y [n], soft states [n, n, 3]) of a grid over the soft states `around` [m, 3], so that a small spot is as
    smooth as a wide one; beyond the triangle's edges the states of the edge."""
    where = barycentric(around)
    low, high = np.quantile(where, [0.002, 0.998], axis=0)  # not the farthest few, which would widen it for nothing
    margin = 0.15 * (high - low) + 0.01
    (x0, y0), (x1, y1) = np.maximum(low - margin, 0), np.minimum(high + margin, [1, CORNERS[2, 1]])
    x, y = np.linspace(x0, x1, n), np.linspace(y0, y1, n)
    top = y[:, None] / CORNERS[2, 1] * np.ones(n)
    second = x[None, :] - 0.5 * top
    return x, y, inside(np.stack([1 - second - top, second, top], axis=-1))


def holding(log_density: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """[5] log-densities above which lie the shares HELD of draws, from the log-densities of many draws."""
    return np.quantile(np.asarray(log_density, np.float64), [1 - share for share in HELD])


def _bands(values: npt.NDArray[Any], levels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """`values` on a scale where the levels are 1, 2, ...: contours are drawn at equal steps alone."""
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
    caption: str = "Each dot is one soft state; corners are one state alone. The shaded areas hold 90, 70, 50, 30 "
    "and 10\u00a0% of all draws.",
) -> Figure:
    """Samples [n, 3] in their own mixed colours.

    log_density  (x [W], y [H], values [H, W]) as on `simplex_grid`, shaded beneath the samples from each of `levels` to
                 the next; `holding` finds those that hold given shares of draws
    other        [m, 3] samples of a second distribution, drawn as hollow dots
    """
    soft = np.asarray(samples, np.float32)
    where = barycentric(soft)
    shown = names_of(3, list(names) if names else None)
    traces: list[Dict] = []
    if log_density is not None:
        x, y, values = (np.asarray(v, np.float64) for v in log_density)
        at_levels = np.asarray(levels, np.float64)
        if len(at_levels) < 2:
            raise DataError("A shading needs two levels or more; `holding` finds them.")
        traces.append(
            {
                "type": "contour",
                "x": typed(x),
                "y": typed(y),
                "z": typed(_bands(values, at_levels)),
                "colorscale": [[0, "$band0"], [0.16, "$band"], [1, "$band"]],  # fills lie on each other and add up
                "contours": {"coloring": "fill", "showlines": True, "start": 1, "end": len(at_levels), "size": 1},
                "line": {"width": 0.6, "color": "$line"},
                "zmin": 0,
                "zmax": len(at_levels) + 1,
                "showscale": False,
                "hoverinfo": "skip",
            }
        )
    edge = CORNERS[[0, 1, 2, 0]]
    # A frame makes room for the labels and covers what the shading spills over the edges. It is a trace and not a range,
    # because Plotly forgets the zoom where tied axes have a range of their own.
    low, high, floor, roof = -0.06, 1.06, -0.05, float(CORNERS[2, 1]) + 0.05
    x, y = edge[[0, 2, 1, 0]].T  # against the turn of the frame, so that it stays open
    across, up = [low, high, high, low, low, *x, low], [floor, floor, roof, roof, floor, *y, floor]
    frame = points("lines", across, up, fill="toself", fillcolor="$surface", line={"width": 0})
    traces += [frame, points("lines", *edge.T, line={"color": "$line", "width": 1.5})]
    hover = "%{customdata[0]} % · %{customdata[1]} % · %{customdata[2]} %"
    if other is not None:
        second = np.asarray(other, np.float32)
        at = barycentric(second)
        dots: Dict = {"size": 6, "symbol": "circle-open", "color": "$muted", "opacity": 0.7}
        percent = typed(np.round(second * 100), "u1")
        traces.append(points("markers", at[:, 0], at[:, 1], f"second: {hover}", customdata=percent, marker=dots))
    # One trace a colour: a list of a thousand colour strings is what makes a scatter slow.
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
        note(name, float(corner[0]), float(corner[1]), xref="x", yref="y", font={"size": 13, "color": "$ink"}) | anchor
        for name, corner, anchor in zip(shown, CORNERS, anchors, strict=True)
    ]
    mean = soft.mean(axis=0) if len(soft) else np.zeros(3)
    usual = ", ".join(f"{n} {m:.0%}" for n, m in zip(shown, mean, strict=True))
    alt = f"{len(soft)} draws on a triangle of three states; on average {usual}."
    place: Dict = {"annotations": marks, "margin": {"l": 4, "r": 4, "t": 4, "b": 4}}
    return figure(traces, caption, alt, height, phone_height=330, **place, **plane())
