"""Two simulated mice, a resident and an intruder: attack, investigation, mount and other behaviour.

Behaviours form a semi-Markov chain. Geometry and motion match published or measured statistics of the CalMS21 training
set: bout lengths, transitions, distances, speeds, body lengths and tracking noise. The attack pose is invented, since no
measured poses were available.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy  # loads its submodules lazily

from gdm_core.errors import ConfigError
from gdm_core.trials import Trials, with_recipe

from .calms21 import LAYOUT, PARTS
from .readers.pose import FeatureSet, KeypointSet, KeypointTable, Scaling

Floats = npt.NDArray[np.float64]

# Increase with every change to the simulation or its features, to invalidate stored results.
VERSION = 1
ATTACK, INVESTIGATION, MOUNT, OTHER = range(4)
NOTES = (
    "Simulated: no frame of this is a recording.",
    "The attack pose is invented; the other behaviours follow distances measured in a real recording.",
)

# CalMS21 training labels: median and mean bout length in frames, and transition probabilities
BOUT_MEDIAN = np.array([46.0, 34.0, 61.0, 100.0])
BOUT_MEAN = np.array([72.0, 81.0, 102.0, 185.0])
JUMPS = np.array(
    [
        [0.0, 0.289, 0.016, 0.695],
        [0.079, 0.0, 0.147, 0.774],
        [0.014, 0.542, 0.0, 0.444],
        [0.028, 0.963, 0.009, 0.0],
    ]
)

# bodies of resident and intruder [2, 2, 7] in pixels, with the tail base at the origin and the neck on the first axis
_BODY = np.array(
    [
        [[215.0, 161.0, 156.0, 145.0, 60.0, 59.0, 0.0], [0.0, 33.0, -34.0, 0.0, 42.0, -42.0, 0.0]],
        [[190.0, 146.0, 146.0, 130.0, 53.0, 52.0, 0.0], [0.0, 28.0, -28.0, 0.0, 37.0, -37.0, 0.0]],
    ]
)
_WALLS = np.array([[32.0, 20.0], [992.0, 550.0]])  # px, opposite corners of the cage
_JITTER = 1.75  # px, white tracking noise
_LOW_SCORE_SHARE = 0.015
_LONGEST = 2_000_000


def simulate(
    n_trials: int = 8,
    n_frames: int | Sequence[int] = 3000,
    seed: int = 0,
    features: FeatureSet = "keypoints",
    scaling: Scaling = "image",
) -> Trials:
    """Simulate labelled trials of two mice; `simulate_recordings` returns their keypoints for the same seed.

    n_trials            number of trials
    n_frames            one length for all trials, or one for each
    features, scaling   as in `KeypointSet.to_trials`
    """
    return simulate_recordings(n_trials, n_frames, seed).to_trials(features, scaling)


def simulate_recordings(n_trials: int = 8, n_frames: int | Sequence[int] = 3000, seed: int = 0) -> KeypointSet:
    """Simulate two mice as keypoints in pixels, with tracker scores and labels.

    n_trials   number of recordings
    n_frames   one length for all recordings, or one for each
    seed       seed of the simulation
    """
    lengths = [n_frames] * n_trials if isinstance(n_frames, int) else list(n_frames)
    if n_trials < 1 or len(lengths) != n_trials:
        raise ConfigError(f"n_trials is {n_trials} and n_frames has {len(lengths)} lengths; give one length per trial.")
    if min(lengths) < 2 or sum(lengths) > _LONGEST:
        raise ConfigError(f"n_frames must be at least 2 per trial and at most {_LONGEST:,} in total.")
    streams = np.random.SeedSequence(seed).spawn(n_trials)
    tables = tuple(
        with_recipe(
            f"mice {VERSION}, seed {int(seed)}, number {i} of {int(length)} frames",
            _recording(length, np.random.default_rng(stream), f"simulated mice {i + 1}"),
        )
        for i, (length, stream) in enumerate(zip(lengths, streams, strict=True))
    )
    return KeypointSet(tables, "simulated mice", source=NOTES[0])


def simulate_training_set(seed: int = 0, n_frames: int = 507_738, n_trials: int = 70) -> Trials:
    """Simulate trials as many and as long as the real training set, for benchmarks.

    seed       seed of the simulation
    n_frames   total number of frames
    n_trials   number of trials
    """
    if n_trials < 1 or n_frames < 96 * n_trials:
        raise ConfigError(f"n_frames is {n_frames}; it must be at least 96 for each of the {n_trials} trials.")
    spread = np.exp(np.random.default_rng(seed).normal(0.0, 0.9, n_trials))
    extra = n_frames - 96 * n_trials  # the shortest real trial has 96 frames
    lengths = 96 + np.floor(spread / spread.sum() * extra).astype(int)
    lengths[np.argmax(lengths)] += n_frames - int(lengths.sum())
    return simulate(n_trials, [int(length) for length in lengths], seed)


def behaviours(n_frames: int, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """Simulate labels [T] of a semi-Markov chain with log-normal bouts, starting in "other".

    n_frames   number of frames, T
    rng        random generator
    """
    spread = np.sqrt(2 * np.log(BOUT_MEAN / BOUT_MEDIAN))
    cumulative = np.cumsum(JUMPS / JUMPS.sum(axis=1, keepdims=True), axis=1)
    labels = np.empty(n_frames, dtype=np.int8)
    state, start = OTHER, 0
    while start < n_frames:  # one iteration per bout
        length = max(2, round(float(BOUT_MEDIAN[state] * np.exp(spread[state] * rng.standard_normal()))))
        labels[start : start + length] = state
        start += length
        state = min(int(np.searchsorted(cumulative[state], rng.random())), OTHER)
    return labels


def _recording(n_frames: int, rng: np.random.Generator, name: str) -> KeypointTable:
    labels = behaviours(n_frames, rng)
    xy = _place(*_random_motion(labels, rng))  # [T, 2, 2, 7]
    xy += _JITTER * rng.standard_normal(xy.shape)
    scores = rng.beta(9.0, 2.2, size=(n_frames, 2, len(PARTS)))
    lost = rng.random(scores.shape) < _LOW_SCORE_SHARE  # low scores come with larger errors
    scores[lost] = rng.uniform(0.02, 0.3, int(lost.sum()))
    xy += np.where(lost, 8.0, 0.0)[:, :, None, :] * rng.standard_normal(xy.shape)
    values, known = xy.astype(np.float32), scores.astype(np.float32)
    return KeypointTable(values, scores=known, labels=labels, name=name, simulated=True, notes=NOTES, **LAYOUT)


def _place(centroid: Floats, heading: Floats, bend: Floats, stretch: Floats) -> Floats:
    """Return bodies [T, 2, 2, 7], stretched, bent at the neck, rotated and moved."""
    body = _BODY * stretch[:, :, None, None] ** np.array([1.0, -0.5])[:, None]  # longer is narrower
    head = body[..., :3] - body[..., 3:4]  # nose and ears rotate about the neck
    body[..., :3] = body[..., 3:4] + rotate_points(head, bend)
    turned = rotate_points(body, heading)
    placed = turned - turned.mean(axis=-1, keepdims=True) + centroid[..., None]
    low, high = _WALLS[..., None]
    over = np.maximum(placed.max(axis=-1, keepdims=True) - high, 0)
    under = np.maximum(low - placed.min(axis=-1, keepdims=True), 0)
    return placed + under - over  # keep noses out of the walls


def rotate_points(points: Floats, angle: Floats) -> Floats:
    """Rotate each animal's points about the origin.

    points   [T, A, 2, P]
    angle    [T, A] radians
    """
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = points[..., 0, :], points[..., 1, :]
    return np.stack([c * x - s * y, s * x + c * y], axis=2)


# ---- positions and headings -----------------------------------------------------------------------------------------
# Smooth Gaussian paths are mapped to each behaviour's distribution of distances, heading and pace, and blended over a
# fraction of a second at transitions. A varying pace makes the mice stop and go.
# Quantiles of the distance between the centroids in px; attack is invented, the others are measured.
_SHARES = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
_DISTANCE = np.array(
    [
        [25.0, 42.0, 70.0, 118.0, 170.0],
        [56.0, 89.0, 140.0, 203.0, 265.0],
        [20.0, 36.0, 59.0, 88.0, 110.0],
        [75.0, 130.0, 430.0, 830.0, 1100.0],
    ]
)
_ARENA = np.array([[85.0, 80.0], [939.0, 490.0]])  # px, opposite corners of the area of centroids
_BLEND = 8.0  # frames, standard deviation of the blend between behaviours
_PACE_SPREAD = 0.8  # standard deviation of log pace
_FASTEST = 4.5  # pace
_TANGENTIAL = 5.0  # px per frame at unit pace


def _random_motion(labels: npt.NDArray[np.int8], rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """Simulate the motion for behaviours `labels` [T].

    Returns the centroid [T, 2 mice, 2], and heading (radians), bend of the neck (radians) and stretch of the body, each
    [T, 2].
    """
    n = len(labels)
    weight = _smooth(np.eye(4)[labels], _BLEND)  # [T, 4]
    attack, investigation, mount, other = weight.T
    clock = _clock(n, 1.0 + 0.2 * attack + 0.5 * investigation, rng)

    rank = scipy.special.ndtr(_smooth_paths(clock, 50.0, 1, rng)[:, 0])
    distance = np.sum([weight[:, k] * np.interp(rank, _SHARES, _DISTANCE[k]) for k in range(4)], axis=0)
    # a fixed tangential speed turns close pairs faster, and attacks faster still
    sideways = _TANGENTIAL * _smooth_paths(clock, 60.0, 1, rng)[:, 0] * np.gradient(clock)
    bearing = rng.uniform(0, 2 * np.pi) + np.cumsum(sideways * (1 + 0.5 * attack) / np.maximum(distance, 50.0))
    # in a wide cage, distant mice are left and right
    toward = np.stack([np.cos(bearing), 0.6 * np.sin(bearing)], axis=1)
    apart = distance[:, None] * toward / np.linalg.norm(toward, axis=1, keepdims=True)  # [T, 2]
    limit = 0.97 * (_ARENA[1] - _ARENA[0])
    apart = limit * np.tanh(apart / limit)  # from resident to intruder
    spot = _ARENA[0] + (_ARENA[1] - _ARENA[0]) * scipy.special.ndtr(1.2 * _smooth_paths(clock, 84.0, 2, rng))  # [T, 2]
    # the intruder moves freely, but leaves room for the resident at the required distance
    intruder = np.clip(spot, _ARENA[0] + np.maximum(apart, 0.0), _ARENA[1] + np.minimum(apart, 0.0))
    centroid = np.stack([intruder - apart, intruder], axis=1)  # [T, mouse, 2]

    heading = _headings(centroid, apart, weight, clock, rng)
    bend = 0.28 * _smooth_paths(_clock(n, np.ones(n), rng), 30.0, 2, rng) * (1 + other[:, None])
    bend = np.clip(bend, -0.9, 0.9)
    stretch = np.exp(
        0.14 * _smooth_paths(clock, 45.0, 2, rng) - 0.1 * attack[:, None] - 0.08 * mount[:, None] * [1.0, 0.0]
    )
    return centroid, heading, bend, stretch


def _headings(centroid: Floats, apart: Floats, weight: Floats, clock: Floats, rng: np.random.Generator) -> Floats:
    """Return headings [T, 2]: towards the partner, parallel to it, or along the path."""
    toward = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)  # [T, 2]
    velocity = _smooth(np.gradient(centroid, axis=0), 6.0)  # [T, mouse, 2]
    whim = _smooth_paths(clock, 120.0, 4, rng).reshape(len(apart), 2, 2)
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
    direction = _smooth(direction, 4.0)
    return np.arctan2(direction[..., 1], direction[..., 0])


def _clock(n: int, lively: Floats, rng: np.random.Generator) -> Floats:
    """Return the clock [T] of the paths, fast while running and slow at rest."""
    pace = np.exp(_PACE_SPREAD * _smooth_paths(np.arange(n, dtype=float), 22.0, 1, rng)[:, 0] - _PACE_SPREAD**2 / 2)
    pace = np.minimum(pace, _FASTEST)
    return np.cumsum(pace * lively)


def _smooth_paths(clock: Floats, scale: float, n_paths: int, rng: np.random.Generator) -> Floats:
    """Draw smooth unit-variance Gaussian paths [T, n_paths] with correlation time `scale`."""
    step = scale / 6.0
    knots = int(np.ceil(clock[-1] / step)) + 2
    margin = 20  # beyond the filter's reach, for unit variance at both ends
    path = _smooth(rng.standard_normal((knots + 2 * margin, n_paths)), 4.0, "reflect")[margin:-margin]
    path *= np.sqrt(2 * np.sqrt(np.pi) * 4.0)  # restores unit variance after the filter
    at = clock / step
    left = np.floor(at).astype(int)
    share = (at - left)[:, None]
    return path[left] * (1 - share) + path[left + 1] * share


def _smooth(values: Floats, width: float, ends: str = "nearest") -> Floats:
    """Smooth a path [T, ...] with a Gaussian of this width."""
    found: Floats = scipy.ndimage.gaussian_filter1d(values, width, axis=0, mode=ends)
    return found
