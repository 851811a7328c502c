"""Time won, drawn: on the map and as bars. What lies within its uncertainty stays grey."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_studio.plot.figures.base import Dict, Figure, axis, bare, layout, note, path_cursor, plain, typed
from pages.formula1.data import Circuit
from pages.formula1.teams import Look
from pages.formula1.time_gained import SURE, SURE_OF_MANY, Gain

UNSURE = "$faint"
PALEST = 0.45
STATIONS = 250
LABEL_PX = 15


Looks = tuple[Look, Look]


def who(gain: Gain) -> list[int]:
    """[P] which of the two wins there, -1 where chance would do as much."""
    return [-1 if not sure else int(mean < 0) for mean, sure in zip(gain.mean, gain.sure, strict=True)]


def colours(gain: Gain, looks: Looks) -> list[str]:
    """[P] who wins there, or grey."""
    return [UNSURE if winner < 0 else looks[winner].colour for winner in who(gain)]


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
        f"In the team's colour whoever wins time there: {codes[0]} solid, {codes[1]} dashed; grey: within what chance gives among "
        f"so many ({SURE_OF_MANY:.0f} standard errors)."
    )


def gain_map(circuit: Circuit, codes: tuple[str, str], gain: Gain, looks: Looks, height: int = 380) -> Figure:
    """The track, coloured by who wins time in each stretch; `gain` has edges."""
    assert gain.edges is not None
    grid = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    for start, end, winner, colour, opacity, text in zip(
        gain.edges[:-1],
        gain.edges[1:],
        who(gain),
        colours(gain, looks),
        _strength(gain),
        _said(codes, gain),
        strict=True,
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
                "line": {"color": colour, "width": 9, "dash": "6px,3px" if winner == 1 else "solid"},
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


def bars(codes: tuple[str, str], gain: Gain, what: str, looks: Looks) -> Figure:
    """Seconds a lap in each part, from the start of the lap downwards, with 95 % of what laps and clocks leave open."""
    places = list(range(len(gain.names)))
    reach = 1.08 * float((np.abs(gain.mean) + SURE * gain.error).max(initial=0.01))
    sides = [
        note(f"◂ {codes[1]} wins", 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="bottom",
             font={"size": 12, "color": looks[1].colour}),
        note(f"{codes[0]} wins ▸", 1, 1, xref="paper", yref="paper", xanchor="right", yanchor="bottom",
             font={"size": 12, "color": looks[0].colour}),
    ]  # fmt: skip
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": places,
                "x": typed(gain.mean),
                "error_x": {"type": "data", "array": (SURE * gain.error).tolist(), "color": "$ink", "thickness": 1, "width": 2},
                "marker": {
                    "color": colours(gain, looks),
                    "pattern": {"shape": ["/" if winner == 1 else "" for winner in who(gain)], "fillmode": "overlay", "size": 5},
                },
                "customdata": _said(codes, gain),
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        ],
        "layout": layout(
            yaxis=axis(
                tickvals=places, ticktext=[plain(_short(name)) for name in gain.names], showgrid=False, fixedrange=True,
                range=[len(places) - 0.4, -0.6],
            ),
            xaxis=axis("s a lap", fixedrange=True, zeroline=True, zerolinecolor="$line", range=[-reach, reach], nticks=5),
            annotations=sides,
            margin={"l": 8, "r": 10, "t": 22, "b": 8},
        ),
        "caption": f"Seconds a lap that one wins on the other in each {what}, in the order of the lap. {codes[1]} is hatched; grey "
        "is within what chance gives; lines are 95 % of what laps and clocks leave open.",
        "alt": f"Seconds a lap that {codes[0]} wins on {codes[1]} in each {what}: {_count(gain, codes)}.",
        "height": 74 + 19 * len(places),
    }  # fmt: skip


def _short(name: str, longest: int = 22) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _count(gain: Gain, codes: tuple[str, str]) -> str:
    first, second = int((gain.sure & (gain.mean > 0)).sum()), int((gain.sure & (gain.mean < 0)).sum())
    return (
        f"{codes[0]} wins in {first} of {len(gain.names)}, {codes[1]} in {second}, the rest is within what chance gives"
    )
