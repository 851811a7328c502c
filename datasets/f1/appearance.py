"""What the feed would show of a simulated race: irregular samples, rounded positions, pedals and gears."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .laptime import Car
from .layouts import Centreline, ease

FloatArray = npt.NDArray[np.float64]

PIT_ENTRY_M, PIT_EXIT_M, PIT_SIDE_M = 300.0, 330.0, 14.0
LINE_WIDTH_M = 4.5
# quantiles of the time between two samples of the real feed, which sends in steps of 20 ms
FEED_SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
FEED_STEPS_S = (0.02, 0.06, 0.14, 0.20, 0.24, 0.32, 0.42, 0.50, 1.12, 1.44)
POSITION_NOISE_M = 0.05
GEAR_SPEEDS = np.array([80.0, 108.0, 138.0, 178.0, 218.0, 258.0, 296.0])  # km/h at which the next gear is taken


@dataclass(frozen=True, eq=False)
class DrivenLine:
    """The driven line: where it runs, how it bends, and which way is sideways."""

    line: Centreline
    points: FloatArray  # [M, 2]
    bend: FloatArray  # [M]

    @property
    def spacing(self) -> float:
        return self.line.spacing


def racing_line(line: Centreline) -> DrivenLine:
    """Swing out before a bend and cut in at its middle, within the width of the road."""
    narrow = ease(line.curvature, 25 / line.spacing)
    wide = ease(line.curvature, 90 / line.spacing)
    swing = 500.0 * (narrow - wide)  # metres to the left: towards the inside of a left-hand bend
    offset = LINE_WIDTH_M * np.tanh(swing / LINE_WIDTH_M)
    # the line bends less than the road: its radius is larger by about a tenth
    bend = 0.9 * ease(line.curvature, 22 / line.spacing)
    return DrivenLine(line, line.points + offset[:, None] * line.normals, bend)


def feed_clock(count: int, rng: np.random.Generator) -> FloatArray:
    """[count] times at which the feed sends, the same for every car."""
    steps = np.interp(rng.random(count), FEED_SHARES, FEED_STEPS_S)
    return np.cumsum(np.round(np.maximum(steps, 0.02) / 0.02) * 0.02)


def positions(
    track: DrivenLine,
    along: FloatArray,
    lap: npt.NDArray[np.intp],
    pit_flags: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
    rng: np.random.Generator,
) -> FloatArray:
    """[T, 2] places in metres: the racing line, the driver's habit, the lap's scatter, the pit lane, the feed's noise."""
    length = track.line.length
    grid = np.arange(len(track.points) + 1) * track.spacing
    within = np.mod(along, length)

    def on_lap(values: FloatArray) -> FloatArray:
        return np.interp(within, grid, np.append(values, values[0]))

    habit = 0.3 * _wander(rng, len(track.points))
    knots = rng.normal(0, 0.2, int(along[-1] // 150) + 2)  # every 150 m of the whole race: no jump at the line
    aside = on_lap(habit) + np.interp(along, 150.0 * np.arange(knots.size), knots)
    into = pit_flags[0][lap] * np.clip((within - (length - PIT_ENTRY_M)) / 100, 0, 1)
    out = pit_flags[1][lap] * np.clip((PIT_EXIT_M - within) / 100, 0, 1)
    aside = aside - PIT_SIDE_M * np.maximum(into, out)  # the pit lane runs to the right of the straight
    normal = track.line.normals
    place = np.column_stack(
        [on_lap(track.points[:, axis]) + aside * on_lap(normal[:, axis]) for axis in (0, 1)]
    )  # [T, 2]
    return np.round(place + rng.normal(0, POSITION_NOISE_M, place.shape), 1)  # the feed sends tenths of a metre


def _wander(rng: np.random.Generator, count: int) -> FloatArray:
    """[M] a smooth closed curve of unit variance."""
    rough = ease(rng.standard_normal(count), 20)
    return rough / rough.std()


def car_channels(
    car: Car, speed: FloatArray, clock: FloatArray, time: FloatArray, lap: npt.NDArray[np.intp]
) -> dict[str, npt.NDArray[np.float32]]:
    """What the car would send: speed in whole km/h, pedals, gear and revolutions."""
    driven = np.append(speed.T.ravel(), speed[-1, -1])  # along the odometer
    pull = np.gradient(driven, np.maximum(clock, np.arange(clock.size) * 1e-9))  # m/s2
    v, a = np.interp(time, clock, driven), np.interp(time, clock, pull)  # [T]
    mass, power = car.mass[lap], car.power[lap]
    drive = a + car.drag * v**2 / mass
    share = np.clip(drive / (power / (mass * np.maximum(v, 10.0))), 0, 1)
    throttle = np.where(share > 0.93, 100.0, np.round(100 * share))
    kmh = np.round(3.6 * v)
    gear = np.searchsorted(GEAR_SPEEDS, kmh, side="right") + 1
    top = np.append(GEAR_SPEEDS, 340.0)[gear - 1]
    rpm = np.round(np.clip(11800 * kmh / top, 4500, 12000))
    channels = {"speed": kmh, "throttle": throttle, "brake": drive < -2.0, "gear": gear, "rpm": rpm}
    return {name: np.asarray(values, dtype=np.float32) for name, values in channels.items()}
