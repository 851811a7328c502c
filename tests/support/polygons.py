"""Simulated tracks with any number of states: each side of a polygon is a state with its own speed.

Two states are the fast and slow halves of a circle. As on the NASCAR tracks, logits depend on the position.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.trials import Trial

LAP = 50  # samples
_PULL = 0.1  # back to the side, a sample
_EMISSION, _PATH, _NOISE, _SPEEDS = range(4)
SETTINGS = {"standard": (0.01, 100.0, 0.0), "soft": (0.99, 3.0, 0.25)}  # tau, steepness of borders, gamma


def simulate(
    n_states: int, setting: str = "standard", T: int = 1000, seed: int = 0, n_channels: int = 10, noise: float = 0.01
) -> Trial:
    """Simulate a trial with true soft `states`, `labels` (the largest state) and `position`."""
    if setting not in SETTINGS:
        raise ConfigError(f"setting is {setting!r}; choose one of {', '.join(SETTINGS)}.")
    if not 2 <= n_states <= 24:
        raise ConfigError(f"n_states is {n_states}; a track has 2 to 24 states.")
    if T < 1 or n_channels < 1 or noise < 0:
        raise ConfigError(f"T is {T}, n_channels {n_channels}, noise {noise}; they must be at least 1, 1 and 0.")
    tau, steepness, gamma = SETTINGS[setting]
    outward, moves, drifts = _track(n_states, np.random.default_rng([seed, _SPEEDS]))
    steepness /= 1 - math.cos(2 * math.pi / max(n_states, 3))  # borders as sharp however near the sides are
    gumbel = np.random.default_rng([seed, _PATH]).gumbel(size=(T, n_states))
    z, x = np.eye(n_states)[0], outward[0]
    states, path = np.empty((T, n_states)), np.empty((T, 2))
    for t in range(T):
        logits = ((1 - gamma) * steepness * (outward @ x) + gamma * z + gumbel[t]) / tau
        weights = np.exp(logits - logits.max())
        z = weights / weights.sum()
        x = np.einsum("k,kij,j->i", z, moves, x) + z @ drifts
        states[t], path[t] = z, x
    emission = np.random.default_rng([seed, _EMISSION]).standard_normal((n_channels, 2))
    seen = path @ emission.T + noise * np.random.default_rng([seed, _NOISE]).standard_normal((T, n_channels))
    return Trial(
        y=seen,
        labels=states.argmax(axis=1),
        position=path,
        states=states,
        name=f"polygon of {n_states}, {setting}, seed {seed}",
    )


Array = npt.NDArray[np.float64]


def _track(k: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return outward directions [K, 2], A [K, 2, 2] and b [K, 2]."""
    angle = 2 * np.pi * np.arange(k) / k + rng.uniform(0, 2 * np.pi)
    outward = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    along = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    if k == 2:
        turns = np.array([1.0, 0.35]) * 2 * np.pi / LAP
        cos, sin = np.cos(turns), np.sin(turns)
        return outward, np.stack([np.stack([cos, -sin], 1), np.stack([sin, cos], 1)], axis=1), np.zeros((2, 2))
    speed = rng.uniform(0.6, 1.4, k) * 2 * np.pi / LAP
    moves = np.eye(2) - _PULL * outward[:, :, None] * outward[:, None, :]
    return outward, moves, speed[:, None] * along + _PULL * outward
