"""Findings above the picture: pedals and pace difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from datasets.f1.driving import BRAKING, MOSTLY, Driving
from datasets.f1.pedals import FULL_THROTTLE, ON_THE_BRAKE, LapMeasures
from datasets.f1.time_won import SURE
from gdm_core.text import listed
from gdm_studio.plot.figures.base import numbered
from pages.formula1 import data, state_names, time_gained, weekend
from pages.formula1.data import Circuit, Laps, race_of, read
from pages.lab import View

PLACES = 3  # places named per activity


def sentences(view: View) -> list[str]:
    """Return the findings that are known."""
    race = race_of(view)
    session = data.open_session(race.pick.place)
    measures = data.measures_of(race.pick.place, race.train.code, race.pick.looked)
    said = [driving(race.circuit, race.train, measures, state_names.profiles(view))]
    if won := weekend.finding(session):  # at most two sentences
        return [one for one in (won, *said) if one]
    found = time_gained.usual_of(race)
    if found is not None:
        drivers = [read(view, race.train, "train"), read(view, race.test, "test")]
        gains = time_gained.gains_of(view, found, drivers, numbered(state_names.names(view)))
        said.append(time_gained.finding(found, gains))
    return [one for one in said if one]


def driving(circuit: Circuit, laps: Laps, measures: LapMeasures, states: Sequence[Driving]) -> str:
    """Describe how much and where a driver is on the pedals, and in which states."""
    parts, places = [], _places(circuit, laps)
    for measure, where, of_state in (
        ("full throttle", "on", [one.full >= MOSTLY for one in states]),
        ("braking", "into", [one.brake >= BRAKING for one in states]),
        ("coasting", "into", [one.coasting >= MOSTLY for one in states]),
    ):
        mean, error = measures.mean(measure)
        if not np.isfinite(mean):
            continue
        said = f"{measure} {mean:.1f}%" + (f" ± {SURE * error:.1f}%" if np.isfinite(error) else "") + " of the time"
        if measure == "full throttle":
            said += f" ({measures.mean('full throttle, distance')[0]:.1f}% of the distance)"
        if measure in places:
            said += f", most {where} {listed(places[measure])}"
        named = [f"S{k + 1}" for k, so in enumerate(of_state) if so]
        parts.append(said + (f" ({', '.join(named)})" if named else ""))
    return f"{laps.code}: {'; '.join(parts)}." if parts else ""


def _places(circuit: Circuit, laps: Laps) -> dict[str, list[str]]:
    """Return the segments with most full throttle and the corners with most braking."""
    if laps.segment is None or not {"throttle", "brake"} <= laps.car.keys():
        return {}
    corners = [f"T{corner[0]}" for corner in circuit.corners]
    full, braking = laps.car["throttle"] >= FULL_THROTTLE, laps.car["brake"] > ON_THE_BRAKE
    found = {"full throttle": _most(circuit.segments, laps.segment[full])}
    return found | {"braking": _most(corners, (laps.segment[braking] + 1) % len(corners))}


def _most(names: Sequence[str], number: npt.NDArray[np.int64]) -> list[str]:
    count = np.bincount(number, minlength=len(names))
    return [names[k] for k in np.argsort(-count, kind="stable")[:PLACES] if count[k]]
