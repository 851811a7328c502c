"""Simulated recordings of three behaviours, and labelled clips."""

import numpy as np

from gdm_core import Trial, Trials

NAMES = ("rest", "walk", "turn")


def simulate(n_trials: int = 2, length: int = 600, seed: int = 0, rate_hz: float = 30.0) -> Trials:
    """Return recordings with bouts of 1 to 3 s; mean and spread of four channels depend on the behaviour."""
    rng = np.random.default_rng(seed)
    level = np.array([[0.0, 0, 0, 0], [2.0, 1, 0, -1], [0.0, -2, 2, 1]])
    spread = np.array([0.3, 0.6, 1.0])
    trials = []
    for i in range(n_trials):
        bouts = rng.integers(30, 90, length)
        codes = [rng.integers(3)]
        while len(codes) < length:
            codes.append((codes[-1] + rng.integers(1, 3)) % 3)
        known = np.repeat(codes, bouts)[:length]
        y = level[known] + spread[known, None] * rng.normal(size=(length, 4))
        trials.append(Trial(y, rate_hz, labels=known, name=f"recording {i + 1}"))
    return Trials(tuple(trials), "behaviours", NAMES)


def draw_clips(trials: Trials, n_clips: int = 6, clip: int = 25, seed: int = 0) -> list[np.ndarray]:
    """Return the labels of a few clips, each within a bout, -1 elsewhere."""
    rng = np.random.default_rng(seed)
    given = [np.full(trial.n_samples, -1) for trial in trials]
    for i in range(n_clips):
        trial, part = trials[i % len(trials)], given[i % len(trials)]
        known = np.asarray(trial.labels)
        whole = (known[: 1 - clip] == i % 3) & (known[clip - 1 :] == i % 3)  # bouts are longer than clips
        at = int(rng.choice(np.flatnonzero(whole)))
        part[at : at + clip] = i % 3
    return given
