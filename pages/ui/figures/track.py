"""A path in the mixed colours of its soft states: one trace for each of a few colours, never one for each segment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from pages.ui import palette
from pages.ui.figures.base import Dict, Figure, bare, layout, names_of, note, path_cursor, typed

WEBGL_ABOVE = 4_000  # segments; SVG is sharper and quicker below
COLOURS_SVG, COLOURS_WEBGL = 20, 40  # every trace costs the browser most of a millisecond
RICH_HOVER_BELOW = 8_000  # samples; above, a hover tells the strongest state and nothing else


def bucket_lines(x: npt.NDArray[Any], y: npt.NDArray[Any], bucket: npt.NDArray[Any]) -> list[npt.NDArray[np.int64]]:
    """For each bucket, the samples its line visits, -1 where the pen is lifted.

    Segment i joins sample i to i + 1 and is drawn in bucket[i]; neighbours of one bucket become one stroke.
    """
    drawn = np.isfinite(x[:-1]) & np.isfinite(y[:-1]) & np.isfinite(x[1:]) & np.isfinite(y[1:])  # [T-1]
    code = np.where(drawn, bucket.astype(np.int64), -1)
    starts = np.flatnonzero(np.diff(code, prepend=-2))  # [runs]
    ends = np.append(starts[1:], len(code))
    keep = code[starts] >= 0
    starts, ends = starts[keep], ends[keep]
    order = np.argsort(code[starts], kind="stable")
    starts, ends = starts[order], ends[order]
    length = ends - starts + 2  # both ends of each segment, and the lifted pen
    stop = np.cumsum(length)
    visit = np.arange(int(stop[-1]) if len(stop) else 0) - np.repeat(stop - length - starts, length)
    visit[stop - 1] = -1
    owner = np.repeat(code[starts], length)
    edges = np.searchsorted(owner, np.arange(int(code.max(initial=-1)) + 2))
    return [visit[a:b] for a, b in pairwise(edges.tolist())]


def _hover(states: npt.NDArray[Any], rich: bool) -> npt.NDArray[np.uint16]:
    """[T, 5] the sample's number, its two strongest states and their percentages; [T, 2] the strongest alone if not rich."""
    percent = np.round(np.nan_to_num(states) * 100)
    at = np.arange(len(percent))
    first = percent.argmax(axis=1)
    strongest = [first + 1, percent[at, first]]
    if not rich:
        return np.column_stack(strongest).astype(np.uint16)
    if states.shape[1] == 1:
        return np.column_stack([at, *strongest]).astype(np.uint16)
    rest = percent.copy()
    rest[at, first] = -1
    second = rest.argmax(axis=1)
    return np.column_stack([at, *strongest, second + 1, percent[at, second]]).astype(np.uint16)


def _room(x: npt.NDArray[Any], y: npt.NDArray[Any], width: float) -> Dict:
    """Unseen marks at the corners of a path: Plotly leaves room around marks, and would cut a line along its edge."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [float(np.nanmin(x)), float(np.nanmax(x))],
        "y": [float(np.nanmin(y)), float(np.nanmax(y))],
        "marker": {"size": width + 2, "color": "$clear"},
        "hoverinfo": "skip",
    }


def track(
    position: npt.ArrayLike,
    states: npt.ArrayLike,
    *,
    title: str = "",
    labels: Sequence[tuple[float, float, str]] = (),
    badges: Sequence[Dict] = (),
    names: Sequence[str] | None = None,
    width: float = 4.0,
    height: int = 440,
    start: float = 0.0,
    step: float = 1.0,
    ghost: npt.ArrayLike | None = None,
    caption: str = "Each piece of the path wears the mixed colour of its soft states; faint pieces are undecided.",
) -> Figure:
    """The path `position` [T, 2] coloured by `states` [T, K].

    labels   (x, y, text) for corner numbers and the like; badges: more Plotly annotations in data coordinates
    start, step  time of the first sample and from one to the next, so that strips of the same group point at the place
    ghost    [M, 2] another path drawn beneath in grey
    """
    where, soft = np.asarray(position, np.float32), np.asarray(states, np.float32)
    if where.ndim != 2 or where.shape[1] != 2 or soft.ndim != 2 or len(where) != len(soft):
        raise DataError(f"A track needs positions [T, 2] and states [T, K]; got {where.shape} and {soft.shape}.")
    x, y = where.T
    gl = len(x) - 1 > WEBGL_ABOVE
    buckets = palette.quantise(soft, limit=COLOURS_WEBGL if gl else COLOURS_SVG)
    rich = len(x) <= RICH_HOVER_BELOW
    hover = _hover(soft, rich)
    shown = names_of(soft.shape[1], list(names) if names else None)
    first = 1 if rich else 0
    # Names cannot travel with every sample; their numbers do.
    text = f"S%{{customdata[{first}]}} %{{customdata[{first + 1}]}} %"
    if rich and soft.shape[1] > 1:
        text += " · S%{customdata[3]} %{customdata[4]} %"
    traces: list[Dict] = []
    if ghost is not None:
        gx, gy = np.asarray(ghost, np.float32).T
        traces.append(
            {
                "type": "scattergl" if gl else "scatter",
                "mode": "lines",
                "x": typed(gx),
                "y": typed(gy),
                "line": {"color": "$line", "width": width * 2.2},
                "hoverinfo": "skip",
            }
        )
    for colour, visit in zip(buckets.css, bucket_lines(x, y, buckets.index[:-1]), strict=False):
        if not len(visit):
            continue
        lifted = visit < 0
        traces.append(
            {
                "type": "scattergl" if gl else "scatter",
                "mode": "lines",
                "x": typed(np.where(lifted, np.nan, x[visit])),
                "y": typed(np.where(lifted, np.nan, y[visit])),
                "customdata": typed(hover[visit], "u2" if rich else "u1"),
                "line": {"color": colour, "width": width} | ({} if gl else {"simplify": False}),
                "hovertemplate": ("sample %{customdata[0]}<br>" if rich else "") + text + "<extra></extra>",
                "connectgaps": False,
            }
        )
    if np.isfinite(where).any():
        traces.append(_room(x, y, width))
    marks = [
        note(str(label), float(lx), float(ly), font={"size": 11, "color": "$muted"}, xref="x", yref="y")
        for lx, ly, label in labels
    ]
    if title:
        marks.append(
            note(
                title,
                0,
                1,
                xref="paper",
                yref="paper",
                xanchor="left",
                yanchor="top",
                font={"size": 13, "color": "$ink"},
            )
        )
    usage = np.nanmean(soft, axis=0)
    top = np.argsort(-usage)[:3]
    return {
        "data": traces,
        "layout": layout(
            xaxis=bare(),
            yaxis=bare(scaleanchor="x", scaleratio=1),
            annotations=[*marks, *badges],
            margin={"l": 4, "r": 4, "t": 4, "b": 4},
        ),
        "caption": caption,
        "alt": f"{title or 'Path'} of {len(x)} samples in the colours of {soft.shape[1]} states. Most used: "
        + ", ".join(f"{shown[k]} {usage[k]:.0%}" for k in top)
        + ".",
        "height": height,
        "phone_height": min(height, 320),
        "cursor": path_cursor(x, y, start, step, rich),
    }
