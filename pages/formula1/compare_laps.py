"""Two drivers on one lap each: where their states, their speed and their time differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets.formula1 import LapClock, Session
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import numbered
from pages.formula1 import data, gain_panel, lap_panel, state_names
from pages.formula1.choices import choose_one
from pages.formula1.data import Circuit, Floats
from pages.formula1.driver_states import Driver, race_of, read, unanswered
from pages.formula1.figures import lines_along, without_title
from pages.formula1.tables import clock
from pages.formula1.traces import STEP_M, trace
from pages.lab import Unread, View, together
from pages.lab.live.pictures import State
from pages.ui import shell
from pages.ui.plot import plot

SURE = 1.96  # standard deviations of the band: 95 % of places lie within
SURE_OF_MANY = 3.0  # below which a difference in one of some twenty segments says nothing: chance alone would name one
A_MOMENT = "A moment", "The fitted model is being applied to this driver."


@dataclass(frozen=True, eq=False)
class Compared:
    """The drivers last drawn together, and what was asked for then: (fingerprint, lap) of each."""

    asked: tuple[tuple[str, int], ...]
    drivers: list[Driver]


def laps_by_time(session: Session, code: str, driven: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
    """(lap, seconds) of a driver's timed laps among those driven, the fastest first."""
    table = session.driver(code).laps
    there = np.isin(table.number, driven) & np.isfinite(table.seconds)
    order = np.argsort(table.seconds[there])
    return [(int(n), float(s)) for n, s in zip(table.number[there][order], table.seconds[there][order], strict=True)]


def tab(view: View) -> None:
    """Pick two drivers and a lap of each."""
    race = race_of(view)
    session = data.open_session(race.pick.place)  # of the fit that is shown, which may be an earlier one
    codes = [driver.code for driver in session.drivers if driver.has_position and len(driver.laps)]
    columns = st.columns(4, gap="small")
    picked: list[Driver | Unread] = []
    driven: list[tuple[int, float]] = []
    chosen: list[data.Laps] = []
    for side, (default, places) in enumerate(((race.pick.train, columns[:2]), (race.pick.test, columns[2:]))):
        letter = "ab"[side]
        with places[0]:
            code = choose_one(
                ("Driver", "against")[side], f"driver-{letter}", codes, default, among=f"{race.pick.place}-{default}"
            )
        laps = data.laps_of(race.pick.place, code, race.pick.looked)
        timed = laps_by_time(session, code, laps.lap)
        seconds = {str(lap): took for lap, took in timed}
        with places[1]:
            lap = choose_one(
                "Lap",
                f"lap-{letter}",
                list(seconds),
                next(iter(seconds), ""),
                show=partial(_lap_name, seconds),
                among=f"{code}-{race.pick.looked.laps}-{race.pick.place}",
                help="The fastest first.",
            )
        if not lap:
            shell.empty("No timed lap", f"{code} has no timed lap among the chosen ones. Choose other laps.")
            return
        name = "test" if code == race.pick.test else f"driver-{letter}"
        chosen.append(laps)
        picked.append(read(view, laps, name))
        unanswered(view, laps, name)
        driven.append((int(lap), seconds[lap]))
    names = numbered(state_names.names(view))
    with st.container():  # one element of the page, however many are in it: what stands below keeps its place
        gain_panel.show(view, session, (chosen[0].code, chosen[1].code), picked, names)
    asked = tuple((laps.trials.fingerprint, lap) for laps, (lap, _) in zip(chosen, driven, strict=True))
    kept = view.fit.records.last(Compared)
    if len(drivers := together(picked)) == len(picked):
        view.fit.records.keep(Compared(asked, drivers))
        _draw(view, session, race.circuit, drivers, driven, drivers[-1].state, names)
    elif kept is not None and kept.asked == asked:  # until both are there, what was seen of them before stands
        _draw(view, session, race.circuit, kept.drivers, driven, "stale", ())
    else:
        missing = next((driver for driver in picked if isinstance(driver, Unread)), None)
        shell.empty(*(A_MOMENT if missing is None else (missing.title, missing.note)))


def _lap_name(seconds: Mapping[str, float], lap: str) -> str:
    return f"{lap} · {clock(seconds[lap])}" if lap in seconds else lap


def _draw(
    view: View,
    session: Session,
    circuit: Circuit,
    drivers: list[Driver],
    driven: list[tuple[int, float]],
    state: State,
    called: Sequence[str],
) -> None:
    found = view.shown.once(
        "two-laps",
        lambda: [trace(session, circuit, here, lap) for here, (lap, _) in zip(drivers, driven, strict=True)],
        of=tuple(here.states for here in drivers),
        settings=tuple(driven),
    )
    if found[0] is None or found[1] is None:
        shell.empty("Too little of this lap", "The feed has too few positions in it. Choose another lap.")
        return
    one, other = found[0], found[1]
    grid = one.distance
    names = [one.name, other.name] if one.name != other.name else [one.name, f"{other.name} again"]
    apart = 0.5 * np.abs(one.states - other.states).sum(axis=1)
    with shell.panel("compared"):
        plot(
            without_title(figures.state_strips(
                dict(zip(names, (one.states, other.states), strict=True)), step=STEP_M, unit="m", ticks=circuit.ticks,
                names=called,
                caption="States along the lap, T1, T2, … are corners. Where the colours part, the two drive differently.",
            )),
            key="compared-states", state=state,
        )  # fmt: skip
        gap = Gap(one.clock, other.clock) if one.clock is not None and other.clock is not None else None
        if gap is None:
            shell.quiet("One of these laps lacks a lap time or speeds, so there is no time gap along the lap.")
        else:
            behind, share = gap.behind(grid / circuit.length), grid / circuit.length
            plot(
                lines_along(
                    circuit, grid, {f"{names[1]} behind {names[0]}": behind}, unit="s", zero=True, height=130,
                    band=SURE * gap.deviation(np.zeros_like(share), share),
                    caption="Time gap at the same place: where the line climbs, the second driver loses time. Speeds, "
                    "integrated between the official times at the start line and at both sector lines; the true gap lies "
                    "within the band at 95 % of places.",
                ),
                key="compared-gap",
            )  # fmt: skip
    with st.container():
        _words(circuit, names, apart, gap)
    lap_panel.show(view, session, circuit, (one, other), called, state)


@dataclass(frozen=True, eq=False)
class Gap:
    """How far one lap is behind another, in seconds, at shares of the lap."""

    one: LapClock
    other: LapClock

    def behind(self, share: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """[...] seconds that the other takes longer from the start line."""
        return self.other.at(share) - self.one.at(share)

    def deviation(self, first: npt.ArrayLike, last: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """[...] standard deviation of what the gap grows by from one share of the lap to another."""
        found: npt.NDArray[np.float64] = np.sqrt(self.one.variance(first, last) + self.other.variance(first, last))
        return found

    def grown(self, first: float, last: float) -> tuple[float, float]:
        """(seconds that the other loses between two shares of the lap, standard deviation); over the line if need be."""
        if last < first:
            (late, a), (early, b) = self.grown(first, 1.0), self.grown(0.0, last)
            return late + early, float(np.hypot(a, b))
        lost = self.behind([first, last])
        return float(lost[1] - lost[0]), float(self.deviation(first, last))


def _words(circuit: Circuit, names: list[str], apart: Floats, gap: Gap | None) -> None:
    """Where the two differ most, in a sentence, and where time is won beyond what cannot be told from nothing."""
    if not circuit.segments:
        return
    grid = np.arange(0, circuit.length, STEP_M)
    segment = np.mod(np.searchsorted(circuit.edges, grid, side="right") - 1, len(circuit.segments))
    count = np.bincount(segment, minlength=len(circuit.segments))
    differ = np.bincount(segment, apart, len(circuit.segments)) / np.maximum(count, 1)
    top = np.argsort(-differ)[:3]
    listed = ", ".join(f"{circuit.segments[c]} ({differ[c]:.0%} of the states)" for c in top)
    shell.quiet(f"Most unlike between {names[0]} and {names[1]}: {listed}.")
    if gap is not None:
        shell.quiet(time_words(circuit, names, gap))


def time_words(circuit: Circuit, names: list[str], gap: Gap) -> str:
    """The official gap at the line, and the segments where the gap grows or shrinks by more than its uncertainty."""
    whole = float(gap.behind(1.0))
    total = f"{names[1]} took {abs(whole):.3f} s {'longer' if whole > 0 else 'less'} for the lap"
    edges = circuit.edges / circuit.length
    lost = [(*gap.grown(float(a), float(b)), name) for a, b, name in
            zip(edges, np.roll(edges, -1), circuit.segments, strict=True)]  # fmt: skip
    sure = sorted(
        (entry for entry in lost if abs(entry[0]) > SURE_OF_MANY * entry[1]), key=lambda entry: -abs(entry[0])
    )[:3]
    if not sure:
        return f"{total}; no single segment differs by more than the uncertainty."
    listed = ", ".join(f"{mean:+.2f} ± {SURE * sd:.2f} s in {name}" for mean, sd, name in sure)
    return f"{total}. Told apart from chance: {listed} (+ is lost by the second; ± 95 %)."
