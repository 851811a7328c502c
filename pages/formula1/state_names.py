"""State profiles: driving in each state, names, and where two drivers leave a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets.f1.driving import Driving, describe, proposed_names
from datasets.f1.time_won import Estimate
from gdm_studio.plot.figures.base import numbered
from pages.formula1.data import Circuit, DriverReading, race_of, read
from pages.formula1.tables import table_with_csv
from pages.lab import Undecoded, View, together
from pages.lab.naming import StateNames
from pages.ui import settings, shell
from pages.ui.controls import text

LONGEST = 40
IN_A_ROW = 4


def profiles(view: View) -> list[Driving]:
    """Return the driving profile of each state of the finished fit."""
    shown, race = view.state, race_of(view)
    here, laps = read(view, race.train, "train"), race.train
    if isinstance(here, Undecoded) or shown.result is None:
        return []
    found: list[Driving] = shown.memoize(
        "profiles",
        lambda: describe(here.soft, laps.car, race.circuit.curvature_at(laps.distance)),
        of=(here.soft, laps),
    )
    return found


def names(view: View) -> list[str]:
    """Return the names of states in colour order; [] before a fit."""
    shown = view.state
    if shown.result is None:
        return []
    own = [_clean(settings.text(name_key(view, state)) or "") for state in shown.order]
    return [mine or name for mine, name in zip(own, proposed_names(profiles(view)), strict=False)]


def naming(view: View) -> StateNames | None:
    """Return the names for figures and files, with their numbers."""
    return StateNames.from_names(numbered(named)) if (named := names(view)) else None


def name_key(view: View, state: int) -> str:
    """Return the control of the name of a model's state; equal settings share names."""
    choice = view.spec.choice
    return settings.key(
        f"name{state + 1}", settings.scope(choice.family, sorted(choice.config.items()), race_of(view).pick)
    )


def _clean(name: str) -> str:
    """Return a name without invisible characters."""
    return " ".join("".join(letter for letter in name if letter.isprintable()).split())[:LONGEST]


def keep_in_address(view: View) -> None:
    """Keep the names of the displayed fit in the address, also while their controls are hidden."""
    for state in view.state.order if view.settled else ():
        key = name_key(view, state)
        settings.keep(key, settings.text(key))


def keep_name(key: str) -> None:
    """Keep an edited name before the page reruns and draws its figures."""
    settings.keep(key, st.session_state[settings.widget_key(key)] or None)


def show_names(view: View) -> None:
    """Show a table of states, and a field for the name of each."""
    shown, found = view.state, profiles(view)
    if shown.result is None or not found:
        shell.empty("Fitting", "State descriptions appear when fitting finishes.")
        return
    table = in_numbers(found, names(view))
    shapes = dict.fromkeys(table.columns[2:], "%.0f %%") | {
        "Speed": "%.0f km/h", "Gear": "%.1f", "Turning": "%.1f°"
    }  # fmt: skip
    with shell.panel("state-names", f"Driving in each state: {race_of(view).train.code}"):
        table_with_csv(table, "states", view.stem, shapes=shapes)
        shell.quiet("Means weighted by state proportion; turning in degrees per 10 m.")
    with shell.panel("own-names", "Your names"):
        for number, (state, proposed) in enumerate(zip(shown.order, proposed_names(found), strict=False)):
            if number % IN_A_ROW == 0:
                columns = st.columns(IN_A_ROW, gap="small")
            key = name_key(view, state)
            text(
                f"S{number + 1}", key=key, at=columns[number % IN_A_ROW], placeholder=proposed, max_chars=LONGEST,
                on_change=keep_name, args=(key,),
            )  # fmt: skip


def in_numbers(found: Sequence[Driving], named: Sequence[str]) -> pd.DataFrame:
    """Return one row per state with its name and profile."""
    return pd.DataFrame(
        {
            "State": [f"S{k + 1}" for k in range(len(found))],
            "Name": list(named),
            "Usage": [100 * one.use for one in found],
            "Speed": [one.speed for one in found],
            "Throttle": [one.throttle for one in found],
            "Braking": [100 * one.brake for one in found],
            "Gear": [one.gear for one in found],
            "Turning": [float(np.rad2deg(10 * one.curvature)) for one in found],
            "Cornering": [100 * one.cornering for one in found],
            "Left-hand share": [100 * one.left for one in found],
        }
    )


# ---- differences between the drivers ----
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


def describe_differences(view: View) -> list[str]:
    """Describe where the drivers differ in the state with most throttle."""
    race = race_of(view)
    found = profiles(view)
    drivers = together([read(view, race.train, "train"), read(view, race.test, "test")])
    if not found or len(drivers) < 2 or race.codes[0] == race.codes[1]:
        return []
    state = fastest_state(found)
    if state is None or not race.circuit.corners:
        return []
    name = f"S{state + 1} {names(view)[state]}"
    lifts = view.state.memoize(
        "lifts",
        lambda: significant_lifts(race.circuit, drivers, state),
        of=tuple(driver.states for driver in drivers),
        settings=state,
    )
    return [describe_lifts(lifts, race.codes, name)]


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


def describe_lifts(lifts: Sequence[Lift], codes: tuple[str, str], name: str) -> str:
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
