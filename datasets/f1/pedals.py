"""Pedal measures of laps and corners by their standard definitions, from raw car samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .estimates import Estimate
from .samples import LapSamples, lap_samples
from .session import Session
from .time_won import mean_of_laps

Floats = npt.NDArray[np.float64]

FULL_THROTTLE = 98.0  # percent; channels of some sessions end at 99
OFF_THROTTLE = 5.0
ON_THE_BRAKE = 0.5
SHORTEST_COAST_S = 0.5  # moving the foot from one pedal to the other takes up to that long
RELEASE_S = 1.0  # a coast starts from full throttle within this time
PEDAL_MEASURES = {
    "full throttle": "% of time",
    "full throttle, distance": "% of distance",
    "braking": "% of time",
    "coasting": "% of time",
    "lift and coast": "m",
    "top speed": "km/h",
    "speed trap": "km/h",
}


@dataclass(frozen=True)
class Coast:
    """Lifting before braking: off both pedals after full throttle, then on the brake.

    start, end   metres from the start line where the throttle is closed and where braking starts
    seconds      duration
    """

    start: float
    end: float
    seconds: float


def lifts_and_coasts(lap: LapSamples) -> tuple[Coast, ...]:
    """Return the stretches of a lap where the driver lifts and coasts before braking."""
    if not {"throttle", "brake"} <= lap.channels.keys():
        return ()
    throttle, braking = lap.channels["throttle"], lap.channels["brake"] > ON_THE_BRAKE
    off = (throttle < OFF_THROTTLE) & ~braking
    found = []
    for first in np.flatnonzero(off & ~np.append(True, off[:-1])).tolist():
        after = first + int(np.append(~off[first:], True).argmax())
        if after == len(off) or not braking[after] or not lap.inside[first]:
            continue
        since = lap.seconds[first] - RELEASE_S
        full = (throttle[:first] >= FULL_THROTTLE) & (lap.seconds[:first] >= since)
        seconds = float(lap.seconds[after] - lap.seconds[first])
        if full.any() and seconds >= SHORTEST_COAST_S:
            found.append(Coast(float(lap.distance[first]), float(lap.distance[after]), seconds))
    return tuple(found)


def pedal_shares(lap: LapSamples, part: slice = slice(None)) -> dict[str, float]:
    """Return the percentages of time and distance on the pedals among some samples of a lap.

    part   samples that count; all by default
    """
    if "throttle" not in lap.channels:
        return {}
    seconds, metres = (weights[part] for weights in lap.weights)
    throttle = lap.channels["throttle"][part]
    known = np.isfinite(throttle)
    full = throttle >= FULL_THROTTLE
    found = {
        "full throttle": _percent(seconds, full, known),
        "full throttle, distance": _percent(metres, full, known),
    }
    if "brake" in lap.channels:
        braking = lap.channels["brake"][part] > ON_THE_BRAKE
        found["braking"] = _percent(seconds, braking, known)
        found["coasting"] = _percent(seconds, (throttle < OFF_THROTTLE) & ~braking, known)
    return found


def _percent(weights: Floats, during: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> float:
    total = float(weights[known].sum())
    return 100 * float(weights[known & during].sum()) / total if total > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class LapMeasures:
    """A driver's pedal measures and speeds, lap by lap.

    code     driver code
    laps     [L] lap numbers
    values   [L] by measure of `PEDAL_MEASURES`; NaN if unknown
    """

    code: str
    laps: tuple[int, ...]
    values: dict[str, Floats]

    def mean(self, measure: str) -> Estimate:
        """Return the mean over laps; its interval is unknown with fewer than three laps."""
        known = self.values[measure][np.isfinite(self.values[measure])]
        if known.size > 2:
            return mean_of_laps(known)
        mean = known.mean() if known.size else np.array(np.nan)
        return Estimate(mean, np.array(np.nan), np.array(np.nan))


def lap_measures(session: Session, code: str, laps: Iterable[int]) -> LapMeasures:
    """Measure pedals and speeds of a driver's laps.

    session   from `load_session` or `simulate_race`
    code      three letters, such as VER
    laps      lap numbers
    """
    numbers, table = tuple(dict.fromkeys(int(n) for n in laps)), session.driver(code).laps
    values = {measure: np.full(len(numbers), np.nan) for measure in PEDAL_MEASURES}
    samples = lap_samples(session, code, numbers)
    for row, number in enumerate(numbers):
        values["speed trap"][row] = next(iter(table.speed_trap[table.number == number]), np.nan)
        if (lap := samples.get(number)) is None:
            continue
        for measure, value in pedal_shares(lap).items():
            values[measure][row] = value
        values["lift and coast"][row] = sum(coast.end - coast.start for coast in lifts_and_coasts(lap))
        values["top speed"][row] = lap.channels["speed"][lap.inside].max()
    return LapMeasures(session.driver(code).code, numbers, values)
