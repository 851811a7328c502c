"""Forecasts with intervals, scores against settings, and the ELBO during a fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_studio.plot.figures.base import (
    CELLS,
    LINE,
    SMALL,
    TEXT,
    THIN,
    Dict,
    Figure,
    axis,
    figure,
    heatmap,
    note,
    points,
    shape,
    time_cursor,
    typed,
)

Band = tuple[npt.ArrayLike, npt.ArrayLike]
BOUND = "ELBO per sample (nats)"


def _band(x: npt.NDArray[Any], band: Band, colour: str, line: Dict | None = None) -> list[Dict]:
    low, high = (np.asarray(edge, np.float32) for edge in band)
    if low.shape != x.shape or high.shape != x.shape:
        raise DataError(f"A band has edges {low.shape} and {high.shape}; the times are {x.shape}.")
    line = line or {"width": 0}
    return [points("lines", x, low, line=line), points("lines", x, high, line=line, fill="tonexty", fillcolor=colour)]


def envelope(
    time: npt.ArrayLike,
    mean: npt.ArrayLike,
    *,
    band90: Band,
    band50: Band | None = None,
    three_sigma: Band | None = None,
    observed: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    persistence: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    now: float | None = None,
    unit: str = "step",
    channel: str = "",
    height: int = 300,
    caption: str = "Bands are 50% and 90% prediction intervals; dots are observations.",
) -> Figure:
    """Draw a prediction over `time` with its intervals.

    observed, persistence   (times, values) of the observations and of the persistence forecast
    now                     time of the last observation before the forecast, marked by a line
    """
    x = np.asarray(time, np.float32)
    traces: list[Dict] = []
    if three_sigma is not None:
        caption += " Dotted lines are at three standard deviations."
        traces += _band(x, three_sigma, "$clear", {"width": THIN, "dash": "dot", "color": "$faint"})
    traces += _band(x, band90, "$band")
    if band50 is not None:
        traces += _band(x, band50, "$band2")
    middle = np.asarray(mean, np.float32)
    accent: Dict = {"color": "$accent", "width": LINE}
    traces.append(points("lines", x, middle, f"{unit} %{{x:.4~g}} · predicted %{{y:.4~g}}", line=accent))
    marks: list[Dict] = []
    if len(x):
        marks.append(_end_label("predicted", x, middle, "$accent"))
    if persistence is not None:
        px, py = (np.asarray(v, np.float32) for v in persistence)
        dashed: Dict = {"color": "$muted", "width": THIN, "dash": "dash"}
        traces.append(points("lines", px, py, "persistence %{y:.4~g}", line=dashed))
        if len(px):
            marks.append(_end_label("persistence", px, py, "$muted"))
    if observed is not None:
        ox, oy = (np.asarray(v, np.float32) for v in observed)
        mode, ink = "lines+markers" if len(ox) <= 400 else "lines", {"color": "$ink", "width": THIN}
        hover = f"{unit} %{{x:.4~g}} · observed %{{y:.4~g}}"
        traces.append(points(mode, ox, oy, hover, line=ink, marker={"color": "$ink", "size": 4}))
    shapes: list[Dict] = []
    if now is not None:
        shapes.append(shape("line", (now, now), (0, 1), line={"color": "$line", "width": THIN}, yref="paper"))
        marks.append(note("now", now, 1, xref="x", yref="paper", yanchor="bottom", font=SMALL))
    _separate_labels(marks, [np.asarray(edge, np.float32) for edge in (three_sigma or band90)], height)
    alt = f"Prediction of {channel or 'a channel'} over {len(x)} time steps with 50% and 90% intervals."
    place: Dict = {"annotations": marks, "shapes": shapes, "margin": {"l": 8, "r": 84, "t": 20, "b": 8}}
    seen = x if observed is None else np.concatenate([x, ox])
    axes: Dict = {"xaxis": axis(unit, showgrid=False, **_range_of(seen)), "yaxis": axis(channel)}
    return figure(traces, caption, alt, height, cursor=time_cursor(), **axes, **place)


def _range_of(x: npt.NDArray[np.float32], joined: bool = True) -> Dict:
    """Return the range of an axis; Plotly's own leaves room for labels within the axes, half of them on a phone."""
    if not len(x):
        return {}
    room = 0.03 * float(np.ptp(x)) if joined and len(x) > 1 else 0.5
    return {"range": [float(x.min()) - room, float(x.max()) + room]}


def _end_label(text: str, x: npt.NDArray[Any], y: npt.NDArray[Any], colour: str) -> Dict:
    known = np.flatnonzero(np.isfinite(y))
    at = known[-1] if len(known) else -1
    over_lines: Dict = {"bgcolor": "$surface", "borderpad": 0}  # hides lines behind the text
    place: Dict = {"xref": "x", "yref": "y", "xanchor": "left", "xshift": 6, "font": {"size": TEXT, "color": colour}}
    return note(text, float(x[at]), float(np.nan_to_num(y[at])), **place, **over_lines)


def _separate_labels(marks: list[Dict], values: Sequence[npt.NDArray[Any]], height: int) -> None:
    """Shift overlapping labels at line ends apart.

    values   values that the vertical axis spans
    height   height of the figure in pixels
    """
    ends = sorted((m for m in marks if m.get("xshift")), key=lambda m: float(m["y"]))
    span = np.concatenate([np.ravel(v) for v in values])
    reach = float(np.nanmax(span) - np.nanmin(span)) if np.isfinite(span).any() else 0.0
    if len(ends) < 2 or reach == 0:
        return
    last = -np.inf
    for mark in ends:
        place = float(mark["y"]) / reach * 0.8 * height  # axes and margins take about a fifth
        mark["yshift"] = max(0.0, last + 14 - place)
        last = place + float(mark["yshift"])


# Colours of families, which differ in shade because colours are reserved for states; others have $faint.
FAMILIES = {"ar-hmm": "$ink", "slds": "$muted", "gdm": "$accent", "gumbel": "$accent"}
DASHES = (("solid", "circle"), ("dash", "circle-open"), ("dot", "square"), ("dashdot", "square-open"))


def _styles(names: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    """Return the colour of each model's family, and a dash and a symbol that tell models of one colour apart."""
    found: dict[str, tuple[str, str, str]] = {}
    count: Counter[str] = Counter()
    for name in names:
        words = name.lower()
        family = next((colour for part, colour in FAMILIES.items() if part in words), "$faint")
        colour = "$faint" if "untrained" in words else family
        found[name] = colour, *DASHES[count[colour] % len(DASHES)]
        count[colour] += 1
    return found


MODEL_OFFSET = 0.12  # between models at one setting, as a share of the distance between settings


def sweep(
    setting: npt.ArrayLike,
    scores: Mapping[str, npt.ArrayLike],
    *,
    lines: Mapping[str, float] | None = None,
    setting_name: str = "states (K)",
    score_name: str = "",
    height: int = 280,
    caption: str = "The line is the mean over seeds, the band one standard deviation, each dot one fit.",
    joined: bool = True,
) -> Figure:
    """Draw scores [settings, seeds] of named models against a setting, and constant baselines.

    joined   connect settings by lines; False for unordered settings such as trials
    """
    x = np.asarray(setting, np.float32)
    styles = _styles(list(scores))
    traces: list[Dict] = []
    marks: list[Dict] = []
    for number, (name, values) in enumerate(scores.items()):
        colour, dash, symbol = styles[name]
        at = x if joined else x + np.float32(MODEL_OFFSET * (number - (len(scores) - 1) / 2))
        s = np.atleast_2d(np.asarray(values, np.float32))
        if s.shape[0] != len(x):
            raise DataError(f"{name!r} has scores for {s.shape[0]} settings; there are {len(x)}.")
        known = np.isfinite(s).any(axis=1)
        mean, spread = np.full((2, len(s)), np.nan)
        mean[known], spread[known] = np.nanmean(s[known], axis=1), np.nanstd(s[known], axis=1)
        if s.shape[1] > 1 and joined:
            traces += _band(at, (mean - spread, mean + spread), "$band" if colour == "$accent" else "$clear")
        traces.append(
            points(
                "lines+markers" if joined else "markers",
                at,
                mean,
                f"{name}{' · %{x:.4~g}' * joined}: %{{y:.3f}}",
                line={"color": colour, "width": LINE, "dash": dash},
                marker={"size": 6 if joined else 9, "color": colour, "symbol": symbol},
                error_y=dict(type="data", array=typed(spread), visible=not joined, thickness=1.4, width=4),
            )
        )
        if s.shape[1] > 1:
            dots = {"size": 4, "color": colour, "opacity": 0.35}
            traces.append(points("markers", np.repeat(at, s.shape[1]), s.ravel(), marker=dots))
        if len(x):
            last = at if joined else x + np.float32(MODEL_OFFSET * (len(scores) - 1) / 2)  # right of all dots
            marks.append(_end_label(name, last, mean, colour))
    shapes: list[Dict] = []
    for name, value in (lines or {}).items():
        dashed = {"color": "$faint", "width": THIN, "dash": "dash"}
        shapes.append(shape("line", (0, 1), (value, value), line=dashed, xref="paper"))
        marks.append(note(name, 0, value, xref="paper", yref="y", xanchor="left", yanchor="bottom", font=SMALL))
    everything = [np.asarray(v, np.float32) for v in (*scores.values(), *(lines or {}).values())]
    _separate_labels(marks, everything, height)
    alt = f"{score_name or 'Score'} against {setting_name} for {', '.join(scores)}."
    ticks = x.tolist() if len(x) <= 14 else None
    along = axis(setting_name, type="linear", tickvals=ticks, showgrid=False, **_range_of(x, joined))
    right = min(150, max(90, 7 * max(map(len, scores), default=0)))
    place: Dict = {"shapes": shapes, "annotations": marks, "margin": {"l": 8, "r": right, "t": 8, "b": 8}}
    return figure(traces, caption, alt, height, xaxis=along, yaxis=axis(score_name), **place)


def heat(
    values: npt.ArrayLike,
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    x_name: str = "",
    y_name: str = "",
    digits: int = 2,
    caption: str = "Mean over seeds.",
) -> Figure:
    """Draw a score over two settings: values [len(y), len(x)]."""
    v = np.asarray(values, np.float32)
    if v.shape != (len(y), len(x)):
        raise DataError(f"Values have shape {v.shape}; expected [{len(y)}, {len(x)}].")
    hover, text = f"{x_name} %{{x}}, {y_name} %{{y}}: %{{z:.{digits + 1}f}}", f"%{{z:.{digits}f}}"
    cells = heatmap(v, hover, x=[str(i) for i in x], y=[str(i) for i in y], texttemplate=text, **CELLS)
    xaxis, yaxis = (axis(name, type="category", showgrid=False, fixedrange=True) for name in (x_name, y_name))
    alt = f"Heat map over {x_name} and {y_name}."
    return figure([cells], caption, alt, 80 + 38 * len(y), xaxis=xaxis, yaxis=yaxis)


def bound(steps: Sequence[float], values: Sequence[float], *, total: int = 0, faded: bool = False) -> Figure:
    """Draw the ELBO during a fit; triangles mark values below the axis.

    total  number of steps of the whole fit, for the length of the axis; 0 if unknown
    faded  draw it as the curve of an earlier fit
    """
    x, y = (np.asarray(each, np.float32) for each in (steps, values))
    known = np.isfinite(y)
    x, y = x[known], y[known]
    shown = np.maximum(y, _lower_edge(y))
    hover = "step %{x:.0f} · ELBO %{customdata:.3f}"
    ink, opacity = {"color": "$accent", "width": LINE}, 0.4 if faded else 1.0
    line = points("lines", x, shown, hover, line=ink, customdata=typed(y), opacity=opacity)
    triangle = {"symbol": "triangle-down", "size": 6, "color": "$accent"}
    cut = points("markers", x[y < shown], shown[y < shown], marker=triangle)
    end = float(total or (x.max() if len(x) else 1))
    # The title is longer than the axis, so it is above the curve.
    above = note(BOUND, 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="bottom", font=SMALL)
    last = f", now {y[-1]:.3f}" if len(y) else ""
    alt = f"The {BOUND} of the {'earlier ' if faded else ''}fit over its steps{last}."
    axes: Dict = {"xaxis": axis("training step", range=[0, end], nticks=4, showgrid=False), "yaxis": axis(nticks=4)}
    place: Dict = {"margin": {"l": 8, "r": 8, "t": 20, "b": 4}, "annotations": [above], **axes}
    caption = "Triangles: below the axis." if (y < shown).any() else ""
    return figure([line, cut], caption, alt, 130, cursor={"kind": "time"}, **place)


def _lower_edge(values: npt.NDArray[Any]) -> float:
    """Return the lower edge of the axis, which cuts off extreme early values."""
    if len(values) <= 20:
        return -np.inf
    most = float(np.quantile(values, 0.1))
    return most - 0.5 * (float(values.max()) - most)
