"""Pairs of simulated mice that are not alike, for what a model has to carry over to animals that it was not taught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from datasets import calms21, mice
from datasets.mice import turned_points
from datasets.readers.pose import KeypointSet


def simulate_individuals(n_recordings: int = 8, n_frames: int = 4000, seed: int = 0) -> KeypointSet:
    """Recordings of pairs that are not alike: a size and a pace, a cage turned under its camera, a camera nearer or
    further away, and a share of parts hidden, of each.

    n_recordings, n_frames   how many, and how long each
    seed                     of everything that is drawn
    """
    tables = []
    for i, stream in enumerate(np.random.SeedSequence(seed).spawn(n_recordings)):
        rng = np.random.default_rng(stream)
        pace, near, size = np.exp(rng.normal(0, [0.25, 0.25, 0.12]))
        long = round(n_frames * pace) + 2
        table = mice.simulate_recordings(1, long, int(rng.integers(1 << 31)))[0]
        at = np.minimum(
            np.round(np.arange(n_frames) * pace).astype(int), long - 1
        )  # a quicker pair is seen at fewer frames
        xy = np.array(table.xy[at], np.float64)
        middle = xy.mean(axis=3, keepdims=True)
        xy = middle + size * (xy - middle)  # larger or smaller bodies in the same cage
        angle = np.full(xy.shape[:2], rng.uniform(0, 2 * np.pi))
        xy = near * turned_points(xy, angle) + rng.normal(0, 300.0, (1, 1, 2, 1))
        xy[_hidden(n_frames, rng).swapaxes(0, 1)[:, :, None].repeat(2, axis=2)] = np.nan
        tables.append(
            replace(
                table,
                xy=xy.astype(np.float32),
                scores=None,
                labels=np.asarray(table.labels)[at],
                image_size=None,
                name=f"simulated pair {i + 1}",
            )
        )
    return KeypointSet(tuple(tables), "simulated pairs", source=mice.NOTES[0])


def _hidden(n_frames: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """[2 mice, T, 7 parts] where a part is not seen: for a second or so at a time, more often in some recordings."""
    leave, come = 1 / 30, rng.uniform(0.1, 0.5) / 30
    hidden = np.empty((2, n_frames, len(calms21.PARTS)), bool)
    hidden[:, 0] = False
    chance = rng.random(hidden.shape)
    for t in range(1, n_frames):
        hidden[:, t] = np.where(hidden[:, t - 1], chance[:, t] > leave, chance[:, t] < come)
    return hidden
