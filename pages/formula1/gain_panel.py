"""Figures of the pace difference between two drivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from gdm_studio.plot.figures.base import (
    Dict,
    Figure,
    axis,
    cut_to,
    figure,
    note,
    plain,
    typed,
)
from pages.formula1 import data, teams, time_gained
from pages.formula1.circuit_map import cursor, draw_stretches, map_axes, name_corners
from pages.formula1.data import Circuit, DriverReading, race_of
from pages.formula1.placing import MARGIN, place
from pages.formula1.teams import LineStyle
from pages.formula1.time_gained import Gain
from pages.lab import View


def exported(view: View, drivers: Sequence[DriverReading], names: Sequence[str]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the comparison for export."""
    race = race_of(view)
    found = time_gained.usual_of(race)
    if found is None:
        return {}
    codes, gains = found.codes, time_gained.gains_of(view, found, drivers, names)
    looks = teams.looks(data.open_session(race.pick.place), codes)
    by_part = {f"Delta by {kind}": partial(bars, codes, gain, kind, looks) for kind, gain in gains.items()}
    return {"Delta on the map": lambda: gain_map(race.circuit, codes, gains["minisector"], looks)} | by_part


# ---- figures: differences that are not significant are pale ------------------------------------------------------------
PALE = 0.35  # opacity where the difference is not significant
PALEST = 0.7  # opacity of the smallest significant difference on the map
SMALLEST_MAP = (300, 300)  # pixels; corner names that are clear here are clear on larger maps


def who(gain: Gain) -> list[int]:
    """Return the faster driver per part [P], significantly or not."""
    return [int(mean < 0) for mean in gain.mean]


def _strength(gain: Gain) -> npt.NDArray[np.float64]:
    """Return the opacity per part [P], by the size of the difference."""
    top = np.abs(gain.mean[gain.sure]).max(initial=0)
    share = np.abs(gain.mean) / top if top > 0 else np.zeros(len(gain.mean))
    return np.where(gain.sure, PALEST + (1 - PALEST) * np.clip(share, 0, 1), PALE)


def _hover_text(codes: tuple[str, str], gain: Gain) -> list[str]:
    """Return hover text per part [P]."""
    return [
        f"{plain(name)}<br>{codes[winner]} faster by {abs(mean):.3f} ± {margin:.3f} s/lap"
        + ("" if sure else "<br>not significant")
        for name, winner, mean, margin, sure in zip(
            gain.names, who(gain), gain.mean, gain.margin, gain.sure, strict=True
        )
    ]


def key(codes: tuple[str, str]) -> str:
    return f"Faster driver: {codes[0]} solid, {codes[1]} dashed. Pale: not significant (95% CI)."


def gain_map(circuit: Circuit, codes: tuple[str, str], gain: Gain, looks: Sequence[LineStyle]) -> Figure:
    """Draw the track coloured by the faster driver."""
    assert gain.edges is not None
    winners = [looks[winner] for winner in who(gain)]
    traces = draw_stretches(circuit, gain.edges, winners, _strength(gain), _hover_text(codes, gain))
    at = place(circuit, SMALLEST_MAP, ())
    alt = (
        f"Map of {circuit.title} coloured by the faster driver, {codes[0]} or {codes[1]}, in {len(gain.names)} stretches: "
        f"{_count(gain, codes)}."
    )
    layout: Dict = {"annotations": name_corners(circuit, at), "margin": MARGIN} | map_axes(at)
    return figure(traces, key(codes), alt, 380, phone_height=SMALLEST_MAP[1], cursor=cursor(circuit), **layout)


def bars(codes: tuple[str, str], gain: Gain, what: str, looks: Sequence[LineStyle]) -> Figure:
    """Draw the delta per part in s/lap with 95% intervals."""
    places = list(range(len(gain.names)))
    reach = 1.08 * float((np.abs(gain.mean) + gain.margin).max(initial=0.01))
    sides = [
        note(f"◂ {codes[1]} faster", 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="bottom",
             font={"size": 12, "color": looks[1].colour}),
        note(f"{codes[0]} faster ▸", 1, 1, xref="paper", yref="paper", xanchor="right", yanchor="bottom",
             font={"size": 12, "color": looks[0].colour}),
    ]  # fmt: skip
    colours = [looks[winner].colour for winner in who(gain)]
    hatched = {"shape": ["/" if winner == 1 else "" for winner in who(gain)], "fillmode": "overlay", "size": 5}
    drawn: Dict = {
        "type": "bar", "orientation": "h", "y": places, "x": typed(gain.mean),
        "error_x": {"type": "data", "array": gain.margin.tolist(), "color": "$ink", "thickness": 1, "width": 2},
        "marker": {"color": colours, "pattern": hatched, "opacity": np.where(gain.sure, 1, PALE).tolist()},
        "customdata": _hover_text(codes, gain), "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip
    rows: Dict = {"tickvals": places, "ticktext": [plain(cut_to(name, 22)) for name in gain.names]}
    axes: Dict = {
        "xaxis": axis("s/lap", fixedrange=True, zeroline=True, zerolinecolor="$line", range=[-reach, reach], nticks=5),
        "yaxis": axis(**rows, showgrid=False, fixedrange=True, range=[len(places) - 0.4, -0.6]),
    }
    caption = f"Delta per {what} (s/lap), in lap order. {codes[1]} is hatched; pale: not significant; lines: 95% CI."
    alt = f"Seconds per lap that {codes[0]} gains on {codes[1]} in each {what}: {_count(gain, codes)}."
    place: Dict = {"annotations": sides, "margin": {"l": 8, "r": 10, "t": 22, "b": 8}}
    return figure([drawn], caption, alt, 74 + 19 * len(places), **axes, **place)


def _count(gain: Gain, codes: tuple[str, str]) -> str:
    first, second = int((gain.sure & (gain.mean > 0)).sum()), int((gain.sure & (gain.mean < 0)).sum())
    return f"{codes[0]} faster in {first} of {len(gain.names)}, {codes[1]} in {second}, the rest not significant"
