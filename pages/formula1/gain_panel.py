"""Pace difference between two drivers over clean-lap pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets import formula1
from datasets.f1.laps import is_race
from datasets.f1.time_won import FEWEST_LAPS, SURE, By
from datasets.formula1 import Session
from gdm_studio.plot.figures.base import (
    FINE,
    Dict,
    Figure,
    axis,
    cut_to,
    figure,
    note,
    numbered,
    plain,
    plane,
    points,
    typed,
)
from pages.formula1 import data, state_names, teams, time_gained, weekend
from pages.formula1.circuit_map import STATIONS, cursor
from pages.formula1.data import Circuit, DriverReading, race_of, read, show_failure
from pages.formula1.teams import LineStyle
from pages.formula1.time_gained import Gain
from pages.lab import Undecoded, View
from pages.ui import shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

NOBODY = "nobody"
SIDES = {"a": "Driver", "b": "Second driver", "c": "Third driver", "d": "Fourth driver"}
PAIRED = {"tyre age": "Tyre age", "lap number": "Lap number"}
HOW_PAIRED = "Tyre age: same compound and age, corrected for fuel and track evolution. Lap number: same lap, any tyres."


def pick_driver(view: View, session: Session, side: str) -> str:
    """Show a choice of a driver; `NOBODY` is an option for the third and fourth."""
    pick = race_of(view).pick
    codes = [driver.code for driver in session.drivers if driver.has_position and len(driver.laps)]
    default = {"a": pick.train, "b": pick.test}.get(side, NOBODY)
    offered = ({} if side in "ab" else {NOBODY: "–"}) | {code: code for code in codes}
    among = f"{pick.place}-{default}"
    return one_of(SIDES[side], offered, default, key=f"driver-{side}", as_ids=True, among=among)


def chosen(view: View, side: str, code: str) -> tuple[data.Laps, DriverReading | Undecoded]:
    """Return the chosen laps of a driver and their states."""
    pick = race_of(view).pick
    laps = data.laps_of(pick.place, code, pick.looked)
    name = "test" if code == pick.test else f"driver-{side}"
    found = read(view, laps, name)
    show_failure(view, laps, name)
    return laps, found


def tab(view: View) -> None:
    """Show the delta between two drivers by part of the lap."""
    race = race_of(view)  # of the displayed fit
    circuit, looked, session = race.circuit, race.pick.looked, data.open_session(race.pick.place)
    picked = []
    for side, place in zip("ab", st.columns(2, gap="small"), strict=True):
        with place:
            picked.append(pick_driver(view, session, side))
    codes = (picked[0], picked[1])
    if codes[0] == codes[1]:
        shell.empty(
            "One driver", "Choose another driver under Compare with. To compare two laps of one driver, open Telemetry."
        )
        return
    drivers = [chosen(view, side, code)[1] for side, code in zip("ab", codes, strict=True)]
    names = numbered(state_names.names(view))
    with shell.panel("gain"):
        left, middle, right = st.columns([0.3, 0.3, 0.4], gap="small")
        with left:
            known = time_gained.usual(race.pick.place, codes, looked)
            usual = "tyre age" if known is None else known.won.by
            by = cast(By, one_of("Pair laps by", PAIRED, usual, key="pair", as_ids=True, help=HOW_PAIRED, row=True))
        first = session.driver(codes[0]).laps
        stints = {f"{stint.number}": f"{stint.number} · {stint.compound.lower() or 'unknown tyres'}, laps {stint.first} to "
                  f"{stint.last}" for stint in formula1.stints(first)}  # fmt: skip
        with middle:
            offered, among = {"all": "All stints"} | stints, f"{race.pick.place}-{codes[0]}"
            stint = one_of(f"Stint of {codes[0]}", offered, key="stint", as_ids=True, among=among)
        with right:
            kind = one_of("Delta by", time_gained.KINDS, "segment", key="won-by", as_ids=True, row=True)
        number = int(stint) if stint.isdigit() else 0
        found = time_gained.between(race.pick.place, codes, looked, by, number)
        if found is None:
            shell.quiet(_too_few(by, codes))
            return
        gains = time_gained.gains_of(view, found, drivers, names)
        shell.quiet(time_gained.sentence(found, gains))
        kind, looks = kind if kind in gains else "minisector", teams.looks(session, codes)
        place, chart = st.columns([0.58, 0.42], gap="small")
        with place:
            plot(gain_map(circuit, codes, gains["minisector"], looks), key="gain-map")
        with chart:
            plot(bars(codes, gains[kind], kind, looks), key="gain")
        shell.quiet(time_gained.about_laps(found))


def show_delta(view: View) -> None:
    """Show the delta by segment next to the map."""
    race = race_of(view)
    codes = (race.train.code, race.test.code)
    if codes[0] == codes[1]:
        return
    with shell.panel("won", f"Delta by segment: {codes[0]} vs {codes[1]}"):
        session = data.open_session(race.pick.place)
        looks = teams.looks(session, codes)
        if is_race(session):
            found = time_gained.usual_of(race)
            if found is None:
                shell.quiet(_too_few("lap number", codes))
                return
            gain, kind, (whole, error) = found.gains[found.kind], found.kind, found.won.whole
            said = (
                f"Over the lap: {codes[0]} {whole:+.2f} ± {SURE * error:.2f} s. {len(found.won.pairs)} clean-lap pairs."
            )
        else:
            best = weekend.between_best(race.pick.place, codes)
            if best is None:
                shell.quiet(f"{codes[0]} or {codes[1]} has no lap with official times and speeds.")
                return
            gain, kind = best, "minisector"
            said = (
                f"Best laps: {codes[0]} {best.mean.sum():+.3f} s over the lap. One lap each: "
                "lap-to-lap variation is unknown; error bars are timing uncertainty."
            )
        drawn = partial(bars, codes, gain, kind, looks)
        plot(view.state.memoize("won-beside", drawn, of=(gain,)), key="won", still=True)
        shell.quiet(said)


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


def _too_few(by: str, codes: tuple[str, str]) -> str:
    return (
        f"{codes[0]} and {codes[1]} have fewer than {FEWEST_LAPS} clean laps "
        + ("on tyres of the same compound and age. Pair laps by lap number, or "
           if by == "tyre age" else "with the same number and official times. ")
        + ("choose" if by == "tyre age" else "Choose") + " more laps or another stint."
    )  # fmt: skip


# ---- figures: differences that are not significant are grey ------------------------------------------------------------
UNSURE = "$faint"
PALEST = 0.45
LABEL_PX = 15


def who(gain: Gain) -> list[int]:
    """Return the faster driver per part [P], -1 where not significant."""
    return [-1 if not sure else int(mean < 0) for mean, sure in zip(gain.mean, gain.sure, strict=True)]


def colours(gain: Gain, looks: Sequence[LineStyle]) -> list[str]:
    """Return the colour per part [P]."""
    return [UNSURE if winner < 0 else looks[winner].colour for winner in who(gain)]


def _strength(gain: Gain) -> npt.NDArray[np.float64]:
    """Return the opacity per part [P], by the size of the difference."""
    top = np.abs(gain.mean[gain.sure]).max(initial=0)
    share = np.abs(gain.mean) / top if top > 0 else np.zeros(len(gain.mean))
    return np.where(gain.sure, PALEST + (1 - PALEST) * np.clip(share, 0, 1), 1.0)


def _hover_text(codes: tuple[str, str], gain: Gain) -> list[str]:
    """Return hover text per part [P]."""
    return [
        f"{plain(name)}<br>{codes[0]} {mean:+.3f} ± {SURE * error:.3f} s/lap" + ("" if sure else "<br>not significant")
        for name, mean, error, sure in zip(gain.names, gain.mean, gain.error, gain.sure, strict=True)
    ]


def key(codes: tuple[str, str]) -> str:
    return (
        f"Colour: faster driver ({codes[0]} solid, {codes[1]} dashed); grey: not significant "
        "(95% interval includes zero)."
    )


def gain_map(circuit: Circuit, codes: tuple[str, str], gain: Gain, looks: Sequence[LineStyle]) -> Figure:
    """Draw the track coloured by the faster driver."""
    assert gain.edges is not None
    grid = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    looked = who(gain), colours(gain, looks), _strength(gain), _hover_text(codes, gain)
    for start, end, winner, colour, opacity, text in zip(gain.edges[:-1], gain.edges[1:], *looked, strict=True):
        along = np.unique(np.concatenate([[start], grid[(grid > start) & (grid < end)], [end]]))
        x, y = circuit.position_at(np.minimum(along, circuit.length * (1 - 1e-9))).T
        stations = typed(np.round(along / circuit.length * STATIONS)[:, None] % STATIONS, "u1")
        look = {"color": colour, "width": 9, "dash": "6px,3px" if winner == 1 else "solid"}
        traces.append(points("lines", x, y, text, customdata=stations, line=look, opacity=float(opacity)))
    marks = [
        note(
            name, x, y, xref="x", yref="y", font=FINE,
            xshift=float(LABEL_PX * np.cos(np.deg2rad(angle))), yshift=float(LABEL_PX * np.sin(np.deg2rad(angle))),
        )
        for name, x, y, _, angle in circuit.corners
    ]  # fmt: skip
    alt = (
        f"Map of {circuit.title} coloured by the faster driver, {codes[0]} or {codes[1]}, in {len(gain.names)} stretches: "
        f"{_count(gain, codes)}."
    )
    place: Dict = {"annotations": marks, "margin": {"l": 30, "r": 30, "t": 24, "b": 24}}
    return figure(traces, key(codes), alt, 380, phone_height=300, cursor=cursor(circuit), **place, **plane())


def bars(codes: tuple[str, str], gain: Gain, what: str, looks: Sequence[LineStyle]) -> Figure:
    """Draw the delta per part in s/lap with 95% intervals."""
    places = list(range(len(gain.names)))
    reach = 1.08 * float((np.abs(gain.mean) + SURE * gain.error).max(initial=0.01))
    sides = [
        note(f"◂ {codes[1]} faster", 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="bottom",
             font={"size": 12, "color": looks[1].colour}),
        note(f"{codes[0]} faster ▸", 1, 1, xref="paper", yref="paper", xanchor="right", yanchor="bottom",
             font={"size": 12, "color": looks[0].colour}),
    ]  # fmt: skip
    hatched = {"shape": ["/" if winner == 1 else "" for winner in who(gain)], "fillmode": "overlay", "size": 5}
    drawn: Dict = {
        "type": "bar", "orientation": "h", "y": places, "x": typed(gain.mean),
        "error_x": {"type": "data", "array": (SURE * gain.error).tolist(), "color": "$ink", "thickness": 1, "width": 2},
        "marker": {"color": colours(gain, looks), "pattern": hatched},
        "customdata": _hover_text(codes, gain), "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip
    rows: Dict = {"tickvals": places, "ticktext": [plain(cut_to(name, 22)) for name in gain.names]}
    axes: Dict = {
        "xaxis": axis("s/lap", fixedrange=True, zeroline=True, zerolinecolor="$line", range=[-reach, reach], nticks=5),
        "yaxis": axis(**rows, showgrid=False, fixedrange=True, range=[len(places) - 0.4, -0.6]),
    }
    caption = f"Delta per {what} (s/lap), in lap order. {codes[1]} is hatched; grey: not significant; lines: 95% CI."
    alt = f"Seconds per lap that {codes[0]} gains on {codes[1]} in each {what}: {_count(gain, codes)}."
    place: Dict = {"annotations": sides, "margin": {"l": 8, "r": 10, "t": 22, "b": 8}}
    return figure([drawn], caption, alt, 74 + 19 * len(places), **axes, **place)


def _count(gain: Gain, codes: tuple[str, str]) -> str:
    first, second = int((gain.sure & (gain.mean > 0)).sum()), int((gain.sure & (gain.mean < 0)).sum())
    return f"{codes[0]} faster in {first} of {len(gain.names)}, {codes[1]} in {second}, the rest not significant"
