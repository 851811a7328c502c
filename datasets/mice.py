"""Two simulated mice: a resident and an intruder that attack, investigate, mount and go their own ways.

No frame of this is a recording. Behaviours follow a semi-Markov chain, and geometry and motion are tuned to published
or measured figures of the CalMS21 training set (bout lengths, jumps between behaviours, distances, speeds, body
lengths, tracking noise). How an attack looks is invented: no measured poses of one were at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.trials import Trials, made_by

from .calms21 import ANIMALS, EDGES, IMAGE_SIZE, LABEL_NAMES, PARTS, RATE_HZ
from .readers.pose import FeatureSet, KeypointSet, KeypointTable, Scaling

if TYPE_CHECKING:
    from .mice_motion import Motion

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
    from .mice_motion import random_motion  # with it SciPy's filters, which nobody waits for who only has this at hand

    xy = _place(random_motion(labels, rng))  # [T, 2, 2, 7]
    xy += _JITTER * rng.standard_normal(xy.shape)
    scores = rng.beta(9.0, 2.2, size=(n_frames, 2, len(PARTS)))
    lost = rng.random(scores.shape) < _LOW_SCORE_SHARE  # the tracker is unsure, and worse than usual
    scores[lost] = rng.uniform(0.02, 0.3, int(lost.sum()))
    xy += np.where(lost, 8.0, 0.0)[:, :, None, :] * rng.standard_normal(xy.shape)
    return KeypointTable(
        xy=xy.astype(np.float32),
        animals=ANIMALS,
        parts=PARTS,
        rate_hz=RATE_HZ,
        scores=scores.astype(np.float32),
        labels=labels,
        label_names=LABEL_NAMES,
        edges=EDGES,
        image_size=IMAGE_SIZE,
        name=name,
        simulated=True,
        notes=NOTES,
    )


def _place(motion: Motion) -> Floats:
    """Bodies [T, 2, 2, 7] with their mean at `motion.centroid`, stretched, bent at the neck and turned to the heading."""
    body = _BODY * motion.stretch[:, :, None, None] ** np.array([1.0, -0.5])[:, None]  # longer is narrower
    head = body[..., :3] - body[..., 3:4]  # nose and ears turn about the neck
    body[..., :3] = body[..., 3:4] + turned_points(head, motion.bend)
    turned = turned_points(body, motion.heading)
    placed = turned - turned.mean(axis=-1, keepdims=True) + motion.centroid[..., None]
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
