"""Time won, drawn: on the map and as bars. What lies within its uncertainty stays grey."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_studio.plot.figures.base import Dict, Figure, axis, bare, layout, note, path_cursor, plain, typed
from pages.formula1.data import Circuit
from pages.formula1.time_gained import SURE, SURE_OF_MANY, Gain

FIRST, SECOND, UNSURE = "#2f6fd0", "#d9771e", "$faint"  # blue and orange are told apart by everybody, on both themes
PALEST = 0.45
STATIONS = 250
LABEL_PX = 15


def colours(gain: Gain) -> list[str]:
    """[P] who wins there, or grey."""
    return [
        UNSURE if not sure else FIRST if mean > 0 else SECOND
        for mean, sure in zip(gain.mean, gain.sure, strict=True)
    ]  # fmt: skip


def _strength(gain: Gain) -> npt.NDArray[np.float64]:
    """[P] opacity: the more is won, the fuller the colour."""
    top = np.abs(gain.mean[gain.sure]).max(initial=0)
    share = np.abs(gain.mean) / top if top > 0 else np.zeros(len(gain.mean))
    return np.where(gain.sure, PALEST + (1 - PALEST) * np.clip(share, 0, 1), 1.0)


def _said(codes: tuple[str, str], gain: Gain) -> list[str]:
    """[P] what a hover says."""
    return [
        f"{plain(name)}<br>{codes[0]} {mean:+.3f} ± {SURE * error:.3f} s a lap"
        + ("" if sure else "<br>within what chance gives")
        for name, mean, error, sure in zip(gain.names, gain.mean, gain.error, gain.sure, strict=True)
    ]


def key(codes: tuple[str, str]) -> str:
    """How to read the colours."""
    return (
        f"Blue: {codes[0]} wins time; orange: {codes[1]} does; grey: within what chance gives among so many "
        f"({SURE_OF_MANY:.0f} standard errors)."
    )


def gain_map(circuit: Circuit, codes: tuple[str, str], gain: Gain, height: int = 380) -> Figure:
    """The track, coloured by who wins time in each stretch; `gain` has edges."""
    assert gain.edges is not None
    grid = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    for start, end, colour, opacity, text in zip(
        gain.edges[:-1], gain.edges[1:], colours(gain), _strength(gain), _said(codes, gain), strict=True
    ):
        along = np.unique(np.concatenate([[start], grid[(grid > start) & (grid < end)], [end]]))
        x, y = circuit.at(np.minimum(along, circuit.length * (1 - 1e-9))).T
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": typed(x),
                "y": typed(y),
                "customdata": typed(np.round(along / circuit.length * STATIONS)[:, None] % STATIONS, "u1"),
                "line": {"color": colour, "width": 9},
                "opacity": float(opacity),
                "hovertemplate": f"{text}<extra></extra>",
            }
        )
    stations = circuit.at(np.arange(STATIONS + 1) * circuit.length / STATIONS)
    marks = [
        note(
            name, x, y, xref="x", yref="y", font={"size": 11, "color": "$muted"},
            xshift=float(LABEL_PX * np.cos(np.deg2rad(angle))), yshift=float(LABEL_PX * np.sin(np.deg2rad(angle))),
        )
        for name, x, y, _, angle in circuit.corners
    ]  # fmt: skip
    return {
        "data": traces,
        "layout": layout(
            xaxis=bare(),
            yaxis=bare(scaleanchor="x", scaleratio=1),
            annotations=marks,
            margin={"l": 30, "r": 30, "t": 24, "b": 24},
        ),
        "caption": key(codes),
        "alt": f"Map of {circuit.title} by who wins time, {codes[0]} or {codes[1]}, in {len(gain.names)} stretches: "
        f"{_count(gain, codes)}.",
        "height": height,
        "phone_height": min(height, 300),
        "cursor": path_cursor(stations[:, 0], stations[:, 1], 0.0, circuit.length / STATIONS, True),
    }


def bars(codes: tuple[str, str], gain: Gain, what: str, height: int = 230) -> Figure:
    """Seconds a lap in each part, with 95 % of what laps and clocks leave open."""
    places = list(range(len(gain.names)))
    return {
        "data": [
            {
                "type": "bar",
                "x": places,
                "y": typed(gain.mean),
                "error_y": {"type": "data", "array": (SURE * gain.error).tolist(), "color": "$ink", "thickness": 1},
                "marker": {"color": colours(gain)},
                "customdata": _said(codes, gain),
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        ],
        "layout": layout(
            xaxis=axis(tickvals=places, ticktext=[plain(_short(name)) for name in gain.names], tickangle=-50, showgrid=False),
            yaxis=axis("s a lap", fixedrange=True, zeroline=True, zerolinecolor="$line"),
            margin={"l": 56, "r": 12, "t": 8, "b": 64},
        ),
        "caption": f"Above zero {codes[0]} wins time on {codes[1]}. Lines: 95 % of what laps and clocks leave open.",
        "alt": f"Seconds a lap that {codes[0]} wins on {codes[1]} in each {what}: {_count(gain, codes)}.",
        "height": height,
    }  # fmt: skip


def _short(name: str, longest: int = 22) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _count(gain: Gain, codes: tuple[str, str]) -> str:
    first, second = int((gain.sure & (gain.mean > 0)).sum()), int((gain.sure & (gain.mean < 0)).sum())
    return (
        f"{codes[0]} wins in {first} of {len(gain.names)}, {codes[1]} in {second}, the rest is within what chance gives"
    )
