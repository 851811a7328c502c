"""Two simulated mice: a resident and an intruder that attack, investigate, mount and go their own ways.

No frame of this is a recording. Behaviours follow a semi-Markov chain, and geometry and motion are tuned to published
or measured figures of the CalMS21 training set (bout lengths, jumps between behaviours, distances, speeds, body
lengths, tracking noise). How an attack looks is invented: no measured poses of one were at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy  # whose parts are loaded where they are first asked for

from gdm_core.errors import ConfigError
from gdm_core.trials import Trials, made_by

from .calms21 import LAYOUT, PARTS
from .readers.pose import FeatureSet, KeypointSet, KeypointTable, Scaling

Floats = npt.NDArray[np.float64]

# Raised with whatever changes the mice or the features that are made of them: what was stored of them is known by it.
VERSION = 1
ATTACK, INVESTIGATION, MOUNT, OTHER = range(4)
NOTES = (
    "Simulated: no frame of this is a recording.",
    "The attack pose is invented; the other behaviours follow distances measured in a real recording.",
)

# bouts of the CalMS21 training labels: median and mean length in frames, and which behaviour follows which
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

# body in pixels, tail base at the origin and the neck ahead on the first axis: resident, intruder; [2 coordinates, 7 parts]
_BODY = np.array(
    [
        [[215.0, 161.0, 156.0, 145.0, 60.0, 59.0, 0.0], [0.0, 33.0, -34.0, 0.0, 42.0, -42.0, 0.0]],
        [[190.0, 146.0, 146.0, 130.0, 53.0, 52.0, 0.0], [0.0, 28.0, -28.0, 0.0, 37.0, -37.0, 0.0]],
    ]
)
_WALLS = np.array([[32.0, 20.0], [992.0, 550.0]])  # px, corner and corner of the cage
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
    """Trials of two simulated mice, labelled with the behaviour that made each frame.

    n_frames is one length for all trials or one for each. The keypoints behind them: `simulate_recordings`, same seed.

    n_trials            how many
    features, scaling   as for `KeypointSet.to_trials`
    """
    return simulate_recordings(n_trials, n_frames, seed).to_trials(features, scaling)


def simulate_recordings(n_trials: int = 8, n_frames: int | Sequence[int] = 3000, seed: int = 0) -> KeypointSet:
    """The simulated mice as keypoints in pixels, with tracker scores and labels.

    n_trials, n_frames   how many, and how long each
    seed                 of everything that is drawn
    """
    lengths = [n_frames] * n_trials if isinstance(n_frames, int) else list(n_frames)
    if n_trials < 1 or len(lengths) != n_trials:
        raise ConfigError(f"n_trials is {n_trials} and n_frames has {len(lengths)} lengths; give one length a trial.")
    if min(lengths) < 2 or sum(lengths) > _LONGEST:
        raise ConfigError(f"n_frames must be at least 2 in each trial and at most {_LONGEST:,} together.")
    streams = np.random.SeedSequence(seed).spawn(n_trials)
    tables = tuple(
        made_by(
            f"mice {VERSION}, seed {int(seed)}, number {i} of {int(length)} frames",
            _recording(length, np.random.default_rng(stream), f"simulated mice {i + 1}"),
        )
        for i, (length, stream) in enumerate(zip(lengths, streams, strict=True))
    )
    return KeypointSet(tables, "simulated mice", source=NOTES[0])


def training_set_sized(seed: int = 0, n_frames: int = 507_738, n_trials: int = 70) -> Trials:
    """Simulated trials in the number, total length and spread of lengths of the real training set, for benchmarks.

    seed                 of everything that is drawn
    n_frames, n_trials   in all, and in how many parts
    """
    if n_trials < 1 or n_frames < 96 * n_trials:
        raise ConfigError(f"n_frames is {n_frames}; at least 96 for each of the {n_trials} trials are needed.")
    spread = np.exp(np.random.default_rng(seed).normal(0.0, 0.9, n_trials))
    extra = n_frames - 96 * n_trials  # the shortest real trial has 96 frames
    lengths = 96 + np.floor(spread / spread.sum() * extra).astype(int)
    lengths[np.argmax(lengths)] += n_frames - int(lengths.sum())
    return simulate(n_trials, [int(length) for length in lengths], seed)


def behaviours(n_frames: int, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """[T] labels of a semi-Markov chain with log-normal bouts, starting in "other" as the real trials do.

    n_frames   T
    rng        source of randomness
    """
    spread = np.sqrt(2 * np.log(BOUT_MEAN / BOUT_MEDIAN))
    cumulative = np.cumsum(JUMPS / JUMPS.sum(axis=1, keepdims=True), axis=1)
    labels = np.empty(n_frames, dtype=np.int8)
    state, start = OTHER, 0
    while start < n_frames:  # one turn a bout, not a frame
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
    lost = rng.random(scores.shape) < _LOW_SCORE_SHARE  # the tracker is unsure, and worse than usual
    scores[lost] = rng.uniform(0.02, 0.3, int(lost.sum()))
    xy += np.where(lost, 8.0, 0.0)[:, :, None, :] * rng.standard_normal(xy.shape)
    values, known = xy.astype(np.float32), scores.astype(np.float32)
    return KeypointTable(values, scores=known, labels=labels, name=name, simulated=True, notes=NOTES, **LAYOUT)


def _place(centroid: Floats, heading: Floats, bend: Floats, stretch: Floats) -> Floats:
    """Bodies [T, 2, 2, 7] with their mean at `centroid`, stretched, bent at the neck and turned to the heading."""
    body = _BODY * stretch[:, :, None, None] ** np.array([1.0, -0.5])[:, None]  # longer is narrower
    head = body[..., :3] - body[..., 3:4]  # nose and ears turn about the neck
    body[..., :3] = body[..., 3:4] + turned_points(head, bend)
    turned = turned_points(body, heading)
    placed = turned - turned.mean(axis=-1, keepdims=True) + centroid[..., None]
    low, high = _WALLS[..., None]
    over = np.maximum(placed.max(axis=-1, keepdims=True) - high, 0)
    under = np.maximum(low - placed.min(axis=-1, keepdims=True), 0)
    return placed + under - over  # a mouse whose nose would be in the wall stands back


def turned_points(points: Floats, angle: Floats) -> Floats:
    """Each animal's points turned about the origin.

    points   [T, A, 2, P]
    angle    [T, A] radians
    """
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = points[..., 0, :], points[..., 1, :]
    return np.stack([c * x - s * y, s * x + c * y], axis=2)


# ---- where the two are, and which way they face ---------------------------------------------------------------------
# Smooth random paths, no loop over time. Each behaviour has a distribution of distances between the two, a way to face, and a
# liveliness: smooth Gaussian paths are mapped to those distributions and blended over a fraction of a second where behaviours
# change. Mice stop and go, so the paths are walked at a varying pace.
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


def _random_motion(labels: npt.NDArray[np.int8], rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """A motion that suits the behaviours `labels` [T]: (centroid [T, 2 mice, 2]; heading, bend of the neck, both in radians, and
    stretch of the body, each [T, 2])."""
    n = len(labels)
    weight = _eased(np.eye(4)[labels], _BLEND)  # [T, 4]
    attack, investigation, mount, other = weight.T
    clock = _clock(n, 1.0 + 0.2 * attack + 0.5 * investigation, rng)

    rank = scipy.special.ndtr(_walk(clock, 50.0, 1, rng)[:, 0])
    distance = np.sum([weight[:, k] * np.interp(rank, _SHARES, _DISTANCE[k]) for k in range(4)], axis=0)
    # the pair turns at a speed in pixels, so the closer they are the quicker, and quicker still in an attack
    sideways = _TANGENTIAL * _walk(clock, 60.0, 1, rng)[:, 0] * np.gradient(clock)
    bearing = rng.uniform(0, 2 * np.pi) + np.cumsum(sideways * (1 + 0.5 * attack) / np.maximum(distance, 50.0))
    # a wide cage: far apart means left and right
    toward = np.stack([np.cos(bearing), 0.6 * np.sin(bearing)], axis=1)
    apart = distance[:, None] * toward / np.linalg.norm(toward, axis=1, keepdims=True)  # [T, 2]
    limit = 0.97 * (_ARENA[1] - _ARENA[0])
    apart = limit * np.tanh(apart / limit)  # from resident to intruder
    spot = _ARENA[0] + (_ARENA[1] - _ARENA[0]) * scipy.special.ndtr(1.2 * _walk(clock, 84.0, 2, rng))  # [T, 2]
    # the intruder goes its way, but leaves the resident room at the distance that the behaviour asks
    intruder = np.clip(spot, _ARENA[0] + np.maximum(apart, 0.0), _ARENA[1] + np.minimum(apart, 0.0))
    centroid = np.stack([intruder - apart, intruder], axis=1)  # [T, mouse, 2]

    heading = _headings(centroid, apart, weight, clock, rng)
    bend = 0.28 * _walk(_clock(n, np.ones(n), rng), 30.0, 2, rng) * (1 + other[:, None])
    bend = np.clip(bend, -0.9, 0.9)
    stretch = np.exp(0.14 * _walk(clock, 45.0, 2, rng) - 0.1 * attack[:, None] - 0.08 * mount[:, None] * [1.0, 0.0])
    return centroid, heading, bend, stretch


def _headings(centroid: Floats, apart: Floats, weight: Floats, clock: Floats, rng: np.random.Generator) -> Floats:
    """[T, 2] angle of each mouse: to the partner, with it, or where it goes, as the behaviour asks."""
    toward = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)  # [T, 2]
    velocity = _eased(np.gradient(centroid, axis=0), 6.0)  # [T, mouse, 2]
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
    direction = _eased(direction, 4.0)
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
    path = _eased(rng.standard_normal((knots + 2 * margin, n_paths)), 4.0, "reflect")[margin:-margin]
    path *= np.sqrt(2 * np.sqrt(np.pi) * 4.0)  # what the filter took from the variance of white noise
    at = clock / step
    left = np.floor(at).astype(int)
    share = (at - left)[:, None]
    return path[left] * (1 - share) + path[left + 1] * share


def _eased(values: Floats, width: float, ends: str = "nearest") -> Floats:
    """A path [T, ...] smoothed by a Gaussian of the given width."""
    found: Floats = scipy.ndimage.gaussian_filter1d(values, width, axis=0, mode=ends)
    return found
