"""A quasi-steady lap: how fast a car can go round a track, point by point, many laps at once.

The tyres bear a limited force in all directions together (the grip circle), more of it at speed, where the wings
press the car down. Corners bound the speed by sideways grip; between them the car accelerates by its power or its
grip, whichever is less, and brakes as late as the next corner allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

GRAVITY = 9.81
SLOWEST = 3.0  # m/s, so that a standing start takes finite time
TOP_SPEED = 105.0


@dataclass(frozen=True, eq=False)
class Car:
    """What a car and its driver can do, one entry a lap [L]: tyres wear, fuel burns, nobody repeats a lap exactly."""

    grip: FloatArray  # share of its weight that the car holds sideways, without wings
    power: FloatArray  # W at the wheels
    braking: FloatArray  # share of the grip that the driver uses under braking
    traction: FloatArray  # share of the grip that the driven wheels put down
    mass: FloatArray  # kg
    downforce: float = 0.0031  # m/s2 of extra grip per (m/s)2
    drag: float = 0.9  # N per (m/s)2

    def hold(self, square: FloatArray) -> FloatArray:
        """[L] acceleration in m/s2 that the tyres bear at a squared speed."""
        return self.grip * (GRAVITY + self.downforce * square)

    def pick(self, laps: npt.NDArray[np.intp]) -> Car:
        """The same car on some of its laps."""
        return Car(
            self.grip[laps], self.power[laps], self.braking[laps], self.traction[laps], self.mass[laps],
            self.downforce, self.drag,
        )  # fmt: skip


def corner_limit(curvature: FloatArray, car: Car) -> FloatArray:
    """[M, L] squared speed at which all grip goes into staying on the road."""
    bend = np.abs(curvature)[:, None]
    spare = bend - car.grip * car.downforce  # where the wings outgrow the bend there is no limit
    limit = np.where(spare > 0, car.grip * GRAVITY / np.maximum(spare, 1e-9), TOP_SPEED**2)
    return np.clip(limit, SLOWEST**2, TOP_SPEED**2)


def flying_lap(curvature: FloatArray, spacing: float, car: Car) -> FloatArray:
    """[M, L] speed on a lap that begins as it ends."""
    limit = corner_limit(curvature, car)
    # the lap is solved from its slowest corner round to there: what the car brings back hardly depends on the start
    first = int(limit.mean(axis=1).argmin())
    limit, bend = np.roll(limit, -first, axis=0), np.roll(curvature, -first)
    square = _drive(bend, limit, limit[0], limit[0], spacing, car)
    brought = np.minimum(limit[0], _pushed(square[-1], abs(bend[-1]), spacing, car))
    square = _drive(bend, limit, brought, brought, spacing, car)
    return np.sqrt(np.roll(square, first, axis=0))


def bounded_lap(
    curvature: FloatArray, spacing: float, car: Car, cap: FloatArray, enter: FloatArray, leave: FloatArray
) -> FloatArray:
    """[M, L] speed on a lap under speed caps [M, L], with given speeds [L] at the line before and after it."""
    limit = np.minimum(corner_limit(curvature, car), cap**2)
    return np.sqrt(_drive(curvature, limit, enter**2, leave**2, spacing, car))


def lap_times(speed: FloatArray, spacing: float, following: FloatArray) -> FloatArray:
    """[M + 1, L] time at each point and at the line again; `following` [L] is the speed there."""
    closed = np.vstack([speed, following])
    steps = 2 * spacing / (closed[1:] + closed[:-1])
    return np.vstack([np.zeros(speed.shape[1]), np.cumsum(steps, axis=0)])


def _drive(
    curvature: FloatArray, limit: FloatArray, enter: FloatArray, leave: FloatArray, spacing: float, car: Car
) -> FloatArray:
    """Squared speed [M, L]: forward as far as the engine takes it, then backward as far as the brakes hold it.

    Each point needs the one before, so these loops run over places; all laps go round together.
    """
    bend = np.abs(curvature)
    square = limit.copy()
    square[0] = np.minimum(limit[0], np.maximum(enter, SLOWEST**2))
    for i in range(len(square) - 1):
        square[i + 1] = np.minimum(square[i + 1], _pushed(square[i], bend[i], spacing, car))
    now = np.clip(leave, SLOWEST**2, TOP_SPEED**2)  # at the line, one step after the last point
    for i in range(len(square) - 1, -1, -1):
        ahead = bend[(i + 1) % len(bend)]
        slow = car.braking * _left_over(car.hold(now), now * ahead) + car.drag * now / car.mass
        now = square[i] = np.minimum(square[i], now + 2 * spacing * slow)
    return square


def _pushed(square: FloatArray, bend: float, spacing: float, car: Car) -> FloatArray:
    """[L] squared speed one step on, with the engine pushing as hard as the tyres let it."""
    engine = car.power / (car.mass * np.sqrt(square))
    push = np.minimum(engine, car.traction * _left_over(car.hold(square), square * bend))
    return np.maximum(square + 2 * spacing * (push - car.drag * square / car.mass), SLOWEST**2)


def _left_over(hold: FloatArray, sideways: FloatArray) -> FloatArray:
    """What the grip circle leaves along the road when some of the grip goes sideways."""
    return np.sqrt(np.maximum(hold**2 - sideways**2, 0.0))
