"""Simulated cohorts: groups of animals, their behaviours over minutes, and at most one known difference.

Behaviours form a semi-Markov chain with gamma-distributed durations. Animals differ in durations and transition
probabilities, recordings in length. In the six channels, each behaviour has its own mean and noise, which the animal
approaches within a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.trials import Trial

__all__ = ["BEHAVIOURS", "Change", "Cohort", "paths", "simulate"]

BEHAVIOURS = ("rest", "walk", "run", "rear", "groom", "sniff")
MEAN_S = (2.4, 1.6, 1.0, 1.2, 2.0, 0.8)  # mean duration of each behaviour
SHAPE = 2.0  # of the gamma distribution of durations; 1 would be memoryless
SHORTEST_S = 0.2
LENGTH_VARIES = 0.1  # largest relative deviation of a recording's length
N_CHANNELS = 6
_NOISE = (0.10, 0.45, 0.7, 0.3, 0.25, 0.35)  # of the channels, for each behaviour
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A difference of the last group: one behaviour lasts longer, or one follows another more often.

    behaviour   behaviour that lasts longer, or that `to` follows
    to          behaviour that follows more often; None for longer bouts
    times       factor of the duration or the probability
    """

    behaviour: str
    to: str | None = None
    times: float = 1.3

    def __post_init__(self) -> None:
        for name in (self.behaviour, *([self.to] if self.to else [])):
            if name not in BEHAVIOURS:
                raise ConfigError(f"There is no behaviour {name!r}; there are {', '.join(BEHAVIOURS)}.")
        if self.to == self.behaviour or not self.times > 0:
            raise ConfigError("A change needs two different behaviours and a positive factor.")


@dataclass(frozen=True, eq=False)
class Cohort:
    """Simulated animals.

    states      recording -> indices [T] into BEHAVIOURS
    sheet       columns recording, animal, group and session, for `pandas.DataFrame(cohort.sheet)`
    rate_hz     samples per second
    seed        seed of the simulation
    """

    states: dict[str, npt.NDArray[np.int64]]
    sheet: dict[str, list[Any]]
    rate_hz: float
    seed: int

    def recordings(self) -> dict[str, Trial]:
        """Simulate observations: recording -> Trial with six channels and the true labels."""
        rng = np.random.default_rng([self.seed, 1])
        means = 1.6 * np.linalg.qr(np.random.default_rng(7).normal(size=(N_CHANNELS, N_CHANNELS)))[0]  # [K, N]
        names = tuple(f"feature {j + 1}" for j in range(N_CHANNELS))
        follow = 1 - np.exp(-1 / (0.1 * self.rate_hz))
        found = {}
        for name, labels in self.states.items():
            targets = means[labels] + np.array(_NOISE)[labels, None] * rng.normal(size=(len(labels), N_CHANNELS))
            y, now = np.empty_like(targets), targets[0]
            for t, target in enumerate(targets):
                now = now + follow * (target - now)
                y[t] = now
            y += 0.05 * rng.normal(size=y.shape)
            found[name] = Trial(y.astype(np.float32), self.rate_hz, names, labels=labels, name=name)
        return found


def simulate(
    n_animals: int | Sequence[int] = 12,
    groups: Sequence[str] = ("control", "treated"),
    change: Change | None = None,
    n_sessions: int = 1,
    minutes: float = 5.0,
    rate_hz: float = 25.0,
    differ: float = 0.1,
    seed: int = 0,
) -> Cohort:
    """Simulate a cohort whose groups differ only by `change`, in the last group.

    n_animals    animals per group, one number or one for each group
    groups       names of the groups
    n_sessions   recordings per animal, without a difference between sessions
    minutes      approximate length of a recording
    rate_hz      samples per second
    differ       standard deviation between animals, on a log scale
    seed         seed of the simulation
    """
    sizes = [n_animals] * len(groups) if isinstance(n_animals, int) else list(n_animals)
    if len(sizes) != len(groups) or min(sizes) < 1 or n_sessions < 1:
        raise ConfigError("n_animals needs a positive number for each group, and n_sessions must be positive.")
    rng = np.random.default_rng(seed)
    k = len(BEHAVIOURS)
    group = np.repeat(np.arange(len(groups)), sizes)
    mean_s = np.array(MEAN_S) * np.exp(differ * rng.normal(size=(len(group), k)))  # [animals, K]
    jumps = (1 - np.eye(k)) * np.exp(differ * rng.normal(size=(len(group), k, k)))
    jumps /= jumps.sum(axis=2, keepdims=True)
    if change is not None:
        changed, a = group == len(groups) - 1, BEHAVIOURS.index(change.behaviour)
        if change.to is None:
            mean_s[changed, a] *= change.times
        else:
            b = BEHAVIOURS.index(change.to)
            more = np.minimum(change.times * jumps[changed, a, b], 0.95)
            jumps[changed, a] *= ((1 - more) / (1 - jumps[changed, a, b]))[:, None]
            jumps[changed, a, b] = more
    animal = np.repeat(np.arange(len(group)), n_sessions)
    varied = 1 + LENGTH_VARIES * rng.uniform(-1, 1, len(animal))
    n_samples = np.maximum(2, np.rint(minutes * 60 * rate_hz * varied)).astype(np.int64)
    labels = paths(mean_s[animal], jumps[animal], n_samples, rate_hz, rng)
    session = [s + 1 for _ in group for s in range(n_sessions)]
    names = [
        f"animal{a + 1:02d}" + (f"_session{s}" if n_sessions > 1 else "") for a, s in zip(animal, session, strict=True)
    ]
    sheet: dict[str, list[Any]] = {
        "recording": names,
        "animal": [f"animal{a + 1:02d}" for a in animal],
        "group": [groups[g] for g in group[animal]],
        "session": session,
    }
    return Cohort(dict(zip(names, labels, strict=True)), sheet, rate_hz, seed)


def paths(
    mean_s: Floats, jumps: Floats, n_samples: npt.NDArray[np.int64], rate_hz: float, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Simulate the behaviours [T] of R recordings at once.

    mean_s      [R, K] mean duration of each behaviour
    jumps       [R, K, K] transition probabilities with a zero diagonal
    n_samples   [R] lengths of the recordings
    rate_hz     samples per second
    rng         random generator
    """
    n = len(mean_s)
    rows, cumulative = np.arange(n), jumps.cumsum(axis=2)
    now = rng.integers(0, mean_s.shape[1], n)
    behaviours: list[npt.NDArray[np.int64]] = []
    lengths: list[npt.NDArray[np.int64]] = []
    reached = np.zeros(n, np.int64)
    while (reached < n_samples).any():
        seconds = np.maximum(SHORTEST_S, rng.gamma(SHAPE, mean_s[rows, now] / SHAPE))
        long = np.maximum(1, np.rint(seconds * rate_hz)).astype(np.int64)
        behaviours.append(now)
        lengths.append(long)
        reached = reached + long
        drawn = rng.random(n)[:, None] * cumulative[rows, now, -1:]
        now = (drawn >= cumulative[rows, now]).sum(axis=1)
    sequence, stays = np.stack(behaviours, axis=1), np.stack(lengths, axis=1)  # [R, bouts]
    return [np.repeat(one, stay)[:t] for one, stay, t in zip(sequence, stays, n_samples, strict=True)]
