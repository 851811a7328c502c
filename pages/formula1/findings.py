"""Findings above the picture: driving activities and pace difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from datasets.f1.driving import ACTIVITIES, BRAKING, MOSTLY, Driving, activities
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
    if won := weekend.finding(session):  # at most two sentences
        return [won, driving(race.circuit, race.train, state_names.profiles(view))]
    said = [driving(race.circuit, race.train, state_names.profiles(view))]
    found = time_gained.usual_of(race)
    if found is not None:
        drivers = [read(view, race.train, "train"), read(view, race.test, "test")]
        gains = time_gained.gains_of(view, found, drivers, numbered(state_names.names(view)))
        said.append(time_gained.finding(found, gains))
    return [one for one in said if one]


def driving(circuit: Circuit, laps: Laps, states: Sequence[Driving]) -> str:
    """Describe where a driver brakes, corners and accelerates, and in which states."""
    done = activities(laps.car, circuit.curvature_at(laps.distance))
    if done is None or not (done >= 0).any():
        return ""
    parts, places = [], _places(circuit, laps)
    for words, where, activity, of_state in (
        ("braking", "into", "braking", [one.brake >= BRAKING for one in states]),
        ("cornering", "at", "cornering", [one.cornering >= MOSTLY for one in states]),
        ("full throttle on straights", "on", "full throttle", [one.full >= MOSTLY for one in states]),
    ):
        mine = done == ACTIVITIES.index(activity)
        said = f"{words} {mine.sum() / (done >= 0).sum():.0%} of the time"
        if activity in places and mine.any():
            names, number = places[activity]
            count = np.bincount(number[mine], minlength=len(names))
            said += f", most {where} " + listed(
                [names[k] for k in np.argsort(-count, kind="stable")[:PLACES] if count[k]]
            )
        if states:
            named = [f"S{k + 1}" for k, so in enumerate(of_state) if so]
            said += f" ({', '.join(named)})" if named else " (no separate state)"
        parts.append(said)
    return f"{laps.code}: {'; '.join(parts)}."


def _places(circuit: Circuit, laps: Laps) -> dict[str, tuple[list[str], npt.NDArray[np.int64]]]:
    """Return place names and the place of each sample [T], by activity."""
    if laps.segment is None:
        return {}
    corners = [f"T{corner[0]}" for corner in circuit.corners]
    return {
        "braking": (corners, (laps.segment + 1) % len(corners)),
        "cornering": (corners, circuit.nearest_corner(laps.distance)),
        "full throttle": (list(circuit.segments), laps.segment),
    }
