"""Simulated recordings with three regimes that differ in one property.

A regime z_t lasts 40 to 120 samples (walks: 80 to 220), then another one follows. What it changes:

    levels          y_t = b_z + noise
    rotations       x_t = 0.999 R_z x_{t-1} + noise         y_t = C x_t + noise
    variances       y_t = s_z noise
    outliers        levels with less noise, where 1% of the entries are far off
    autoregressive  y_t = A_z y_{t-1} + b_z + noise
    drift           x_t = 0.95 x_{t-1} + b_z + noise        y_t = C x_t + noise
    walk            y_t = y_{t-1} + b_z + noise
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.trials import Trial, Trials, with_recipe

# Raise with any change to the simulated values: stored fits are identified by it.
VERSION = 1
N_REGIMES = 3

# Separate random streams: more samples do not change the map and the matrices.
_DWELL, _MAP, _NOISE = range(3)
_LEVELS = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 1.0], [0.0, 2.0, -1.0]])
_ANGLES = np.array([0.1, 0.3, -0.2])
_DRIFTS = np.array([[0.3, 0.0], [-0.2, 0.3], [0.0, -0.3]])

Float = npt.NDArray[np.float64]
States = npt.NDArray[np.int64]
Made = tuple[Float, Float | None]  # observations [T, N], and the path [T, 2] where there is one


@dataclass(frozen=True)
class Kind:
    """A kind of regime-switching data.

    title         name on a page
    description   what the regimes change, in one line
    make          function of the regimes [T], and of random generators for maps and noise
    dwell         shortest and longest stay in a regime, samples
    cyclic        regimes follow each other in a fixed order
    """

    title: str
    description: str
    make: Callable[[States, np.random.Generator, np.random.Generator], Made]
    dwell: tuple[int, int] = (40, 120)
    cyclic: bool = False


def simulate(kind: str, n_samples: int = 2000, seed: int = 0, held_out: int = 0) -> Trials:
    """Simulate one recording with true `labels`; with `held_out`, its continuation is a second trial.

    kind        key of `KINDS`
    n_samples   T, samples of the first trial
    seed        determines regimes, maps and noise
    held_out    samples that follow the first trial
    """
    if kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; choose one of {', '.join(KINDS)}.")
    for name, value, least in (("n_samples", n_samples, 1), ("held_out", held_out, 0), ("seed", seed, 0)):
        if int(value) != value or value < least:
            raise ConfigError(f"{name} is {value}; it must be a whole number of at least {least}.")
    chosen, total = KINDS[kind], int(n_samples + held_out)
    random = [np.random.default_rng([int(seed), stream]) for stream in (_DWELL, _MAP, _NOISE)]
    labels = _regimes(total, chosen, random[0])
    y, position = chosen.make(labels, random[1], random[2])
    trial = Trial(y, labels=labels, position=position, states=np.eye(N_REGIMES)[labels], name=f"{kind}, seed {seed}")
    parts = [trial.slice(0, int(n_samples))]
    if held_out:
        parts.append(trial.slice(int(n_samples), total))
    recipe = f"regimes {VERSION}, {kind}, seed {int(seed)}, {total} samples, those from"
    made = [with_recipe(f"{recipe} {part.start_seconds:g} on, {part.n_samples}", part) for part in parts]
    return Trials(tuple(made), name=chosen.title)


def _regimes(n_samples: int, kind: Kind, rng: np.random.Generator) -> States:
    """Return the regime of each sample."""
    shortest, longest = kind.dwell
    n_stays = n_samples // shortest + 1
    steps = np.ones(n_stays, np.int64) if kind.cyclic else rng.integers(1, N_REGIMES, n_stays)
    order = (rng.integers(N_REGIMES) + np.cumsum(steps)) % N_REGIMES
    return np.repeat(order, rng.integers(shortest, longest + 1, n_stays))[:n_samples]


def _recursion(labels: States, matrices: Float, moves: Float, first: Float) -> Float:
    """Return x [T, D] with x_t = matrices[z_t] x_{t-1} + moves_t."""
    path, x = np.empty_like(moves), first
    for t, regime in enumerate(labels):
        x = matrices[regime] @ x + moves[t]
        path[t] = x
    return path


def _levels(labels: States, _: np.random.Generator, noise: np.random.Generator) -> Made:
    return _LEVELS[labels] + 0.7 * noise.standard_normal((len(labels), 3)), None


def _outliers(labels: States, _: np.random.Generator, noise: np.random.Generator) -> Made:
    shape = (len(labels), 3)
    y = _LEVELS[labels] + 0.4 * noise.standard_normal(shape)
    return y + (noise.random(shape) < 0.01) * 20 * noise.standard_normal(shape), None


def _rotations(labels: States, maps: np.random.Generator, noise: np.random.Generator) -> Made:
    cos, sin = np.cos(_ANGLES), np.sin(_ANGLES)
    matrices = np.moveaxis(np.array([[cos, -sin], [sin, cos]]), 2, 0)
    x = _recursion(labels, 0.999 * matrices, 0.05 * noise.standard_normal((len(labels), 2)), np.array([1.0, 0.0]))
    return x @ maps.standard_normal((2, 6)) + 0.05 * noise.standard_normal((len(labels), 6)), x


def _variances(labels: States, _: np.random.Generator, noise: np.random.Generator) -> Made:
    return np.array([0.3, 1.0, 3.0])[labels, None] * noise.standard_normal((len(labels), 2)), None


def _autoregressive(labels: States, maps: np.random.Generator, noise: np.random.Generator) -> Made:
    matrices = 0.9 * np.linalg.qr(maps.standard_normal((N_REGIMES, 4, 4)))[0]
    offsets = 0.1 * maps.standard_normal((N_REGIMES, 4))
    moves = offsets[labels] + 0.1 * noise.standard_normal((len(labels), 4))
    return _recursion(labels, matrices, moves, np.zeros(4)), None


def _drift(labels: States, maps: np.random.Generator, noise: np.random.Generator) -> Made:
    directions = np.linalg.qr(maps.standard_normal((3, 3)))[0]
    moves = 0.5 * directions[labels] + 0.1 * noise.standard_normal((len(labels), 3))
    x = _recursion(labels, np.tile(0.95 * np.eye(3), (N_REGIMES, 1, 1)), moves, np.zeros(3))
    return x @ maps.standard_normal((3, 60)) + 0.3 * noise.standard_normal((len(labels), 60)), None


def _walk(labels: States, _: np.random.Generator, noise: np.random.Generator) -> Made:
    x = np.cumsum(_DRIFTS[labels] + 0.05 * noise.standard_normal((len(labels), 2)), axis=0)
    return x, x


KINDS: dict[str, Kind] = {
    "levels": Kind("Levels", "Noise around three levels.", _levels),
    "rotations": Kind("Rotations", "A rotation at three speeds, seen through six channels.", _rotations),
    "variances": Kind("Variances", "White noise at three scales.", _variances),
    "outliers": Kind("Outliers", "Three levels, where 1% of the entries are far off.", _outliers),
    "autoregressive": Kind("Autoregression", "Four channels with three AR(1) matrices.", _autoregressive),
    "drift": Kind("Drift in 60 channels", "A leaky drift in three directions, seen through 60 channels.", _drift),
    "walk": Kind("Drifting walk", "A random walk that drifts in three directions, in a fixed order.", _walk, (80, 220), True),
    "walk_random": Kind("Drifting walk, random order", "The same walk with its regimes in random order.", _walk, (80, 220)),
}  # fmt: skip
