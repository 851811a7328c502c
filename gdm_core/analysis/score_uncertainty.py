"""Uncertainty of scores: jackknife intervals over pieces of the test trials, and scores expected by chance.

Neighbouring samples are not independent, so pieces are resampled: whole trials if there are enough, otherwise blocks with
several expert bouts each. Intervals need at least MIN_PIECES pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gdm_core.trials import UNLABELLED, Trials
from gdm_core.units import unit_for

SHORTEST = 20  # samples of a block
MIN_PIECES = 6
BOUTS_A_BLOCK = 4
MIN_SAMPLES = 50
MAX_BLOCKS = 24
SHIFTS = 99
T_LEVEL = 0.975  # quantile of Student's t for a 95% interval

Counts = npt.NDArray[np.int64]  # [pieces, guessed label, true label]
Labels = npt.NDArray[np.int64]


def blocks(n_samples: int, most: int, shortest: int = SHORTEST) -> list[tuple[int, int]]:
    """Return (start, end) of at most `most` equal blocks of at least `shortest` samples."""
    count = max(1, min(most, n_samples // shortest))
    return [(int(a), int(b)) for a, b in pairwise(np.linspace(0, n_samples, count + 1).astype(int))]


@dataclass(frozen=True)
class Pieces:
    """Pieces (trial, start, end) of the test trials, described in time and in steps."""

    parts: tuple[tuple[int, int, int], ...]
    words: str
    in_steps: str = ""

    def counts(self, guess: Sequence[Labels], truth: Sequence[Labels]) -> Counts:
        """Return confusion matrices [pieces, guessed label, true label] of samples with both labels."""
        size = 1 + max(int(max(np.max(z, initial=-1) for z in side)) for side in (guess, truth))
        found = []
        for trial, start, stop in self.parts:
            g, t = guess[trial][start:stop], truth[trial][start:stop]
            known = (t != UNLABELLED) & (g != UNLABELLED)
            found.append(count_labels(g[known], t[known], size)[:size])
        return np.array(found, np.int64).reshape(-1, size, size)


def count_labels(guess: Labels, truth: Labels, size: int | None = None) -> Counts:
    """Return a confusion matrix [guessed label, true label]; the last row counts guesses of no label.

    size   number of labels; None counts the true labels only
    """
    if size is None:
        labels, code = np.unique(truth, return_inverse=True)
        place = np.searchsorted(labels, guess).clip(0, len(labels) - 1)
        guess, truth, size = np.where(labels[place] == guess, place, UNLABELLED), code, len(labels)
    row = np.where(guess == UNLABELLED, size, guess)
    return np.bincount(row * size + truth, minlength=(size + 1) * size).reshape(size + 1, size)


def split_pieces(trials: Trials, bout: float = float("nan")) -> Pieces:
    """Split test trials into pieces, given the median expert bout in samples or NaN."""
    if len(trials) >= MIN_PIECES:
        whole = f"{len(trials)} trials"
        return Pieces(tuple((i, 0, trial.n_samples) for i, trial in enumerate(trials)), whole, whole)
    size = max(MIN_SAMPLES, int(np.ceil(BOUTS_A_BLOCK * bout)) if np.isfinite(bout) else 0)
    size = max(size, -(-trials.n_samples // MAX_BLOCKS))
    parts = []
    for i, trial in enumerate(trials):
        parts += [(i, a, b) for a, b in blocks(trial.n_samples, MAX_BLOCKS, size)]
    if len(parts) == 1:
        one = f"one piece of {trials.n_samples:,} samples"
        return Pieces(tuple(parts), one, one)
    many, seconds = f"{len(parts)} blocks of about", size / trials[0].rate_hz
    unit = unit_for(seconds)
    return Pieces(tuple(parts), f"{many} {unit.convert(seconds):.3g} {unit.plural}", f"{many} {size:,} steps")


def score(counts: Counts, name: str) -> float:
    """Return macro_f1, balanced_accuracy or accuracy over all pieces; NaN without labels."""
    table = np.asarray(counts, float).reshape(-1, *np.shape(counts)[-2:]).sum(axis=0)  # [guess, truth]
    hit, true = np.diagonal(table), table.sum(axis=0)
    guessed, occurs = table.sum(axis=1)[: len(true)], true > 0
    if not occurs.any():
        return float("nan")
    if name == "accuracy":
        return float(hit.sum() / true.sum())
    if name == "balanced_accuracy":
        return float((hit[occurs] / true[occurs]).mean())
    if name == "macro_f1":
        return float((2 * hit[occurs] / (guessed + true)[occurs]).mean())
    raise KeyError(name)


def margin(ours: Counts, line: Counts | None, name: str) -> float | None:
    """Return half of the 95% jackknife interval of the difference to a baseline.

    line  counts of the baseline for the same pieces; None for a constant baseline
    """

    def gain(rows: npt.NDArray[np.bool_]) -> float:
        return score(ours[rows], name) - (0 if line is None else score(line[rows], name))

    return _half_width(len(ours), gain)


def r2_margin(error: npt.ArrayLike, line: npt.ArrayLike, total: npt.ArrayLike) -> float | None:
    """Return the margin of a difference in R², from sums of squares per piece."""
    e, b, t = (np.asarray(part, float) for part in (error, line, total))
    if t.sum() <= 0:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        half = _half_width(len(e), lambda rows: (b[rows].sum() - e[rows].sum()) / t[rows].sum())
    return half if half is not None and np.isfinite(half) else None


def _half_width(n: int, gain: Callable[[npt.NDArray[np.bool_]], float]) -> float | None:
    """Return half of the 95% jackknife interval of `gain` over `n` pieces."""
    from scipy.stats import t

    if n < MIN_PIECES:
        return None
    gains = np.array([gain(rows) for rows in ~np.eye(n, dtype=bool)])
    return float(t.ppf(T_LEVEL, n - 1) * np.sqrt((n - 1) / n * np.square(gains - gains.mean()).sum()))


def chance_scores(
    guess: Sequence[Labels], truth: Sequence[Labels], names: Sequence[str], seed: int = 0
) -> dict[str, float]:
    """Return the 95% quantile of each score under random circular shifts of the guesses.

    Shifts keep the lengths of bouts and remove their relation to the labels.
    """
    rng = np.random.default_rng(seed)
    pieces = Pieces(tuple((i, 0, len(z)) for i, z in enumerate(truth)), "")
    found = []
    for _ in range(SHIFTS):
        rolled = [
            np.roll(z, int(rng.integers(len(z) // 10, max(len(z) - len(z) // 10, len(z) // 10 + 1)))) for z in guess
        ]
        counts = pieces.counts(rolled, truth)
        found.append([score(counts, name) for name in names])
    return dict(zip(names, np.quantile(found, 0.95, axis=0).tolist(), strict=True))
