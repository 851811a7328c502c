"""Where two simulated mice are and which way they face, for given behaviours: smooth random paths, no loop over time.

Each behaviour has a distribution of distances between the two, a way to face, and a liveliness. Smooth Gaussian paths
are mapped to those distributions and blended over a fraction of a second where behaviours change. Mice stop and go, so
the paths are walked at a varying pace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d
from scipy.special import ndtr

Floats = npt.NDArray[np.float64]

# distance between the centroids in px at these shares of frames; attack is invented, the others are measured
_SHARES = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
_DISTANCE = np.array(
    [
        [25.0, 42.0, 70.0, 118.0, 170.0],
        [56.0, 89.0, 140.0, 203.0, 265.0],
        [20.0, 36.0, 59.0, 88.0, 110.0],
        [75.0, 130.0, 430.0, 830.0, 1100.0],
    ]
)
_ARENA = np.array([[85.0, 80.0], [939.0, 490.0]])  # px, where centroids may be: corner, corner
_BLEND = 8.0  # frames, standard deviation of the change-over between behaviours
_PACE_SPREAD = 0.8  # of the logarithm of pace
_FASTEST = 4.5  # pace
_TANGENTIAL = 5.0  # px a frame at unit pace


@dataclass(frozen=True)
class Motion:
    """centroid [T, 2 mice, 2], and heading, bend of the neck (radians) and stretch of the body, each [T, 2]."""

    centroid: Floats
    heading: Floats
    bend: Floats
    stretch: Floats


def random_motion(labels: npt.NDArray[np.int8], rng: np.random.Generator) -> Motion:
    """A motion that suits the behaviours `labels` [T]."""
    n = len(labels)
    weight = gaussian_filter1d(np.eye(4)[labels], _BLEND, axis=0, mode="nearest")  # [T, 4]
    attack, investigation, mount, other = weight.T
    clock = _clock(n, 1.0 + 0.2 * attack + 0.5 * investigation, rng)

    rank = ndtr(_walk(clock, 50.0, 1, rng)[:, 0])
    distance = np.sum([weight[:, k] * np.interp(rank, _SHARES, _DISTANCE[k]) for k in range(4)], axis=0)
    # the pair turns at a speed in pixels, so the closer they are the quicker, and quicker still in an attack
    sideways = _TANGENTIAL * _walk(clock, 60.0, 1, rng)[:, 0] * np.gradient(clock)
    bearing = rng.uniform(0, 2 * np.pi) + np.cumsum(sideways * (1 + 0.5 * attack) / np.maximum(distance, 50.0))
    # a wide cage: far apart means left and right
    toward = np.stack([np.cos(bearing), 0.6 * np.sin(bearing)], axis=1)
    apart = distance[:, None] * toward / np.linalg.norm(toward, axis=1, keepdims=True)  # [T, 2]
    limit = 0.97 * (_ARENA[1] - _ARENA[0])
    apart = limit * np.tanh(apart / limit)  # from resident to intruder
    spot = _ARENA[0] + (_ARENA[1] - _ARENA[0]) * ndtr(1.2 * _walk(clock, 84.0, 2, rng))  # [T, 2]
    # the intruder goes its way, but leaves the resident room at the distance that the behaviour asks
    intruder = np.clip(spot, _ARENA[0] + np.maximum(apart, 0.0), _ARENA[1] + np.minimum(apart, 0.0))
    centroid = np.stack([intruder - apart, intruder], axis=1)  # [T, mouse, 2]

    heading = _headings(centroid, apart, weight, clock, rng)
    bend = 0.28 * _walk(_clock(n, np.ones(n), rng), 30.0, 2, rng) * (1 + other[:, None])
    bend = np.clip(bend, -0.9, 0.9)
    stretch = np.exp(0.14 * _walk(clock, 45.0, 2, rng) - 0.1 * attack[:, None] - 0.08 * mount[:, None] * [1.0, 0.0])
    return Motion(centroid, heading, bend, stretch)


def _headings(centroid: Floats, apart: Floats, weight: Floats, clock: Floats, rng: np.random.Generator) -> Floats:
    """[T, 2] angle of each mouse: to the partner, with it, or where it goes, as the behaviour asks."""
    toward = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)  # [T, 2]
    velocity = gaussian_filter1d(np.gradient(centroid, axis=0), 6.0, axis=0, mode="nearest")  # [T, mouse, 2]
    whim = _walk(clock, 120.0, 4, rng).reshape(len(apart), 2, 2)
    own = velocity / 3.0 + 1.2 * whim
    own = own / np.maximum(np.linalg.norm(own, axis=2, keepdims=True), 1e-9)
    attack, investigation, mount, other = (weight[:, k, None] for k in range(4))
    direction = np.stack(
        [
            (attack + investigation + mount) * toward + (other + 0.35 * investigation) * own[:, 0],
            -0.6 * attack * toward + mount * toward + (other + investigation + 0.4 * attack + 0.2 * mount) * own[:, 1],
        ],
        axis=1,
    )  # [T, mouse, 2]
    direction = gaussian_filter1d(direction, 4.0, axis=0, mode="nearest")
    return np.arctan2(direction[..., 1], direction[..., 0])


def _clock(n: int, lively: Floats, rng: np.random.Generator) -> Floats:
    """[T] the time on which paths are walked: it runs fast when a mouse runs, and nearly stands when it rests."""
    pace = np.exp(_PACE_SPREAD * _walk(np.arange(n, dtype=float), 22.0, 1, rng)[:, 0] - _PACE_SPREAD**2 / 2)
    pace = np.minimum(pace, _FASTEST)
    return np.cumsum(pace * lively)


def _walk(clock: Floats, scale: float, n_paths: int, rng: np.random.Generator) -> Floats:
    """[T, n_paths] smooth Gaussian paths of unit variance that forget themselves over about `scale` units of the clock."""
    step = scale / 6.0
    knots = int(np.ceil(clock[-1] / step)) + 2
    margin = 20  # beyond the filter's reach, so that both ends have unit variance
    path = gaussian_filter1d(rng.standard_normal((knots + 2 * margin, n_paths)), 4.0, axis=0)[margin:-margin]
    path *= np.sqrt(2 * np.sqrt(np.pi) * 4.0)  # what the filter took from the variance of white noise
    at = clock / step
    left = np.floor(at).astype(int)
    share = (at - left)[:, None]
    return path[left] * (1 - share) + path[left + 1] * share
