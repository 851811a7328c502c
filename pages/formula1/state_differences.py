"""Differences between two drivers in their states: earlier lifts by corner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datasets.f1.driving import Driving
from datasets.f1.time_won import Estimate
from pages.formula1 import state_names
from pages.formula1.data import Circuit, DriverReading, race_of, read
from pages.lab import View, together

ON_THROTTLE = 60.0  # least mean throttle of the state, in percent
BEFORE_M = 400.0  # distance before a corner in which a driver lifts
FEWEST_LAPS = 3
MOST = 2  # differences in words

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lift:
    """Metres before a corner at which the first driver leaves a state earlier than the second."""

    corner: str
    metres: Estimate


def sentences(view: View) -> list[str]:
    """Describe where the drivers differ in the state with most throttle."""
    race = race_of(view)
    found = state_names.profiles(view)
    drivers = together([read(view, race.train, "train"), read(view, race.test, "test")])
    if not found or len(drivers) < 2 or race.codes[0] == race.codes[1]:
        return []
    state = fastest_state(found)
    if state is None or not race.circuit.corners:
        return []
    name = f"S{state + 1} {state_names.names(view)[state]}"
    lifts = view.state.memoize(
        "lifts",
        lambda: significant_lifts(race.circuit, drivers, state),
        of=tuple(driver.states for driver in drivers),
        settings=state,
    )
    return [describe(lifts, race.codes, name)]


def fastest_state(found: Sequence[Driving]) -> int | None:
    """Return the state with most throttle, None if no state has enough."""
    throttle = np.array([np.nan_to_num(one.throttle) for one in found])
    return int(throttle.argmax()) if len(throttle) and throttle.max() >= ON_THROTTLE else None


def significant_lifts(circuit: Circuit, drivers: Sequence[DriverReading], state: int) -> list[Lift]:
    """Return the corners into which one driver leaves a state earlier, the largest difference first."""
    metres = [leaving_points(circuit, driver, state) for driver in drivers]
    lifts = []
    for corner, one, other in zip(circuit.corners, *(found.T for found in metres), strict=True):
        a, b = one[np.isfinite(one)], other[np.isfinite(other)]
        if min(len(a), len(b)) < FEWEST_LAPS:
            continue
        ours, theirs = (
            Estimate(laps.mean(), np.sqrt(laps.var(ddof=1) / laps.size), np.array(laps.size - 1.0)) for laps in (a, b)
        )
        if (ours - theirs).sure:
            lifts.append(Lift(f"T{corner[0]}", ours - theirs))
    return sorted(lifts, key=lambda lift: -abs(lift.metres.mean))


def leaving_points(circuit: Circuit, driver: DriverReading, state: int) -> Floats:
    """Return [L, C] metres before each corner at which the state ends; NaN where it does not.

    The state counts where it has the largest proportion.
    """
    laps, on = driver.laps, driver.states.argmax(axis=1) == state
    numbers = np.unique(laps.lap)
    found = np.full((len(numbers), len(circuit.corners)), np.nan)
    for row, number in enumerate(numbers):
        part = np.flatnonzero(laps.lap == number)
        ends = part[:-1][on[part[:-1]] & ~on[part[1:]]]
        for column, at in enumerate(circuit.edges.astype(np.float64)):
            before = np.mod(at - laps.distance[ends], circuit.length)
            near = before[before < BEFORE_M]
            found[row, column] = near.min() if near.size else np.nan
    return found


def describe(lifts: Sequence[Lift], codes: tuple[str, str], name: str) -> str:
    """Describe the largest differences in one sentence."""
    if not lifts:
        return f"No significant difference in where {codes[0]} and {codes[1]} leave {name}."
    parts = []
    for lift in lifts[:MOST]:
        who, other = codes if lift.metres.mean > 0 else codes[::-1]
        parts.append(
            f"{who} lifts {abs(lift.metres.mean):.0f} ± {lift.metres.margin:.0f} m earlier into {lift.corner} than {other}"
        )
    return f"{'; '.join(parts)} (end of {name})."
