"""Two drivers on one lap each: where their states, their speed and their time differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets.formula1 import Session
from pages.formula1 import data
from pages.formula1.choices import choose_one
from pages.formula1.data import Circuit, Floats
from pages.formula1.pictures import lines_along, without_title
from pages.formula1.view import Here, Together, View
from pages.ui import figures, shell
from pages.ui.live.pictures import State
from pages.ui.plot import plot

STEP_M = 10.0


@dataclass(frozen=True, eq=False)
class OneLap:
    """One lap of one driver on an even grid of distances."""

    name: str
    seconds: float
    states: Floats  # [D, K]
    speed: Floats  # [D] km/h
    clock: Floats  # [D] seconds since the start line


def laps_by_time(session: Session, code: str, driven: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
    """(lap, seconds) of a driver's timed laps among those driven, the fastest first."""
    table = session.driver(code).laps
    there = np.isin(table.number, driven) & np.isfinite(table.seconds)
    order = np.argsort(table.seconds[there])
    return [(int(n), float(s)) for n, s in zip(table.number[there][order], table.seconds[there][order], strict=True)]


def one_lap(circuit: Circuit, here: Here, lap: int, seconds: float) -> OneLap | None:
    """A lap on the grid, or None where too little of it was driven with positions."""
    assert here.states is not None
    laps = here.laps
    part = np.flatnonzero(laps.lap == lap)
    if len(part) < 20:
        return None
    # A step back (the line itself, or noise while standing) would make the clock run backwards.
    distance = np.unwrap(laps.distance[part].astype(np.float64), period=circuit.length)
    distance -= circuit.length * round((np.median(distance) - circuit.length / 2) / circuit.length)
    ahead = np.append(True, np.diff(np.maximum.accumulate(distance)) > 0) & (distance > 0) & (distance < circuit.length)
    part, distance = part[ahead], distance[ahead]
    if len(part) < 20:
        return None
    grid = np.arange(0, circuit.length, STEP_M)
    # From the line to the first sample at that sample's speed; the feed's own lap time says when the lap ends.
    since = laps.seconds[part] - laps.seconds[part][0]
    metres_a_second = max(5.0, float(np.nan_to_num(laps.speed[part][0], nan=200.0)) / 3.6)
    since = since + distance[0] / metres_a_second
    clock = np.interp(grid, [0.0, *distance, circuit.length], [0.0, *since, max(seconds, float(since[-1]))])
    states = np.column_stack([np.interp(grid, distance, column) for column in here.states[part].T])
    pace = np.interp(grid, distance, laps.speed[part])
    return OneLap(
        f"{laps.code} lap {lap}", seconds, states.astype(np.float32), pace.astype(np.float32), clock.astype(np.float32)
    )


def tab(view: View) -> None:
    """Pick two drivers and a lap of each."""
    where = view.where
    session = data.open_session(where.pick.place)  # of the fit that is shown, which may be an earlier one
    codes = [driver.code for driver in session.drivers if driver.has_position and len(driver.laps)]
    columns = st.columns(4, gap="small")
    picked: list[Here] = []
    driven: list[tuple[int, float]] = []
    for side, (default, places) in enumerate(((where.pick.train, columns[:2]), (where.pick.test, columns[2:]))):
        letter = "ab"[side]
        with places[0]:
            code = choose_one(
                ("Driver", "against")[side], f"driver-{letter}", codes, default, among=f"{where.pick.place}-{default}"
            )
        laps = data.laps_of(where.pick.place, code, where.pick.looked)
        timed = laps_by_time(session, code, laps.lap)
        seconds = {str(lap): took for lap, took in timed}
        with places[1]:
            lap = choose_one(
                "Lap",
                f"lap-{letter}",
                list(seconds),
                next(iter(seconds), ""),
                show=lambda n, seconds=seconds: f"{n} · {clock(seconds[n])}" if n in seconds else n,
                among=f"{code}-{where.pick.looked.laps}-{where.pick.place}",
                help="The fastest first.",
            )
        if not lap:
            shell.empty("No timed lap", f"{code} has no timed lap among the chosen ones. Choose other laps.")
            return
        name = "other" if code == where.pick.test else f"driver-{letter}"
        picked.append(view.of(laps, name))
        driven.append((int(lap), seconds[lap]))
    asked = tuple((here.laps.trials.fingerprint, lap) for here, (lap, _) in zip(picked, driven, strict=True))
    kept: dict[str, Any] = view.fit.kept
    together = Together.those_of(*picked)
    if together is not None and len(together.drivers) == len(picked):
        kept["compared"] = (asked, together)
        _draw(where.circuit, together, driven, together.state)
    elif kept.get("compared", ("",))[0] == asked:  # until both are there, what was seen of them before stands
        _draw(where.circuit, kept["compared"][1], driven, "stale")
    else:
        shell.empty("A moment", "The fitted model is being applied to this driver.")


def clock(seconds: float) -> str:
    """A lap time as it is written on a timing screen."""
    return f"{int(seconds // 60)}:{seconds % 60:06.3f}"


def _draw(circuit: Circuit, together: Together, driven: list[tuple[int, float]], state: State) -> None:
    found = [one_lap(circuit, here, *lap) for here, lap in zip(together.drivers, driven, strict=True)]
    if found[0] is None or found[1] is None:
        shell.empty("Too little of this lap", "The feed has too few positions in it. Choose another lap.")
        return
    one, other = found[0], found[1]
    grid = np.arange(0, circuit.length, STEP_M).astype(np.float32)
    names = [one.name, other.name] if one.name != other.name else [one.name, f"{other.name} again"]
    apart = 0.5 * np.abs(one.states - other.states).sum(axis=1)
    with shell.panel("compared"):
        plot(
            without_title(figures.state_strips(
                dict(zip(names, (one.states, other.states), strict=True)), step=STEP_M, unit="m", ticks=circuit.ticks,
                caption="States along the lap, T1, T2, … are corners. Where the colours part, the two drive differently.",
            )),
            key="compared-states", state=state,
        )  # fmt: skip
        plot(
            lines_along(
                circuit, grid, dict(zip(names, (one.speed, other.speed), strict=True)), unit="km/h", height=170
            ),
            key="compared-speed",
        )
        plot(
            lines_along(
                circuit, grid, {f"{names[1]} behind {names[0]}": other.clock - one.clock}, unit="s", zero=True, height=130,
                caption="Time gap at the same place: where the line climbs, the second driver loses time.",
            ),
            key="compared-gap",
        )  # fmt: skip
    _words(circuit, names, apart, one, other)


def _words(circuit: Circuit, names: list[str], apart: Floats, one: OneLap, other: OneLap) -> None:
    """The segments where the two differ most, in a sentence."""
    if not circuit.segments:
        return
    grid = np.arange(0, circuit.length, STEP_M)
    segment = np.mod(np.searchsorted(circuit.edges, grid, side="right") - 1, len(circuit.segments))
    count = np.bincount(segment, minlength=len(circuit.segments))
    differ = np.bincount(segment, apart, len(circuit.segments)) / np.maximum(count, 1)
    gained = np.bincount(segment, np.gradient(other.clock - one.clock), len(circuit.segments))
    top = np.argsort(-differ)[:3]
    listed = ", ".join(f"{circuit.segments[c]} ({differ[c]:.0%} of the states, {gained[c]:+.2f} s)" for c in top)
    shell.quiet(f"Most unlike between {names[0]} and {names[1]}: {listed}. Seconds are what the second loses there.")
