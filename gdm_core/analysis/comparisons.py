"""Settings side by side: what each came to on the same new trials, and which of them can be told apart.

Every setting is fitted from several seeds and measured in the same blocks of time. Two settings are compared block by
block, since some moments are hard for everybody; what seeds change is counted as well. A difference is called one only
if its interval, widened for the number of pairs looked at, leaves out zero.

Fits of one trial can also be laid beside each other moment by moment, with what they agree on.
"""

from __future__ import annotations

import itertools
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import baselines
from gdm_core.analysis.bouts import stays
from gdm_core.analysis.looks import fitted
from gdm_core.analysis.matching import overlap
from gdm_core.analysis.metrics import (
    HORIZON,
    MAX_ORIGINS,
    N_PATHS,
    majority_map,
    match_states,
    smoothed_r2,
    state_baselines,
    state_scores,
)
from gdm_core.analysis.score_uncertainty import SHORTEST, blocks
from gdm_core.errors import DataError
from gdm_core.forecast import coverage, outcomes
from gdm_core.maths.gaps import carried_forward, known_mean
from gdm_core.text import listed
from gdm_core.trials import UNLABELLED, Trial, Trials, labels_of

Array = npt.NDArray[np.float64]
States = npt.NDArray[np.float32]
Shares = npt.NDArray[np.float32]

N_BLOCKS = 12
FEWEST_BLOCKS = 4
MAX_SHOWN = 4_000  # samples of states that travel, evenly spaced
CONFIDENCE = 0.95
APART = 0.5  # of all weight in other states: from here on two fits say different things
# What is measured in every block, more being better: name -> (words, digits).
MEASURES = {
    "states": ("matches the labels", 3),
    "density": ("forecast density, next sample (nats)", 2),
    "ten": ("ten samples ahead (R²)", 3),
    "next": ("next sample (R²)", 3),
}


@dataclass(frozen=True)
class Cell:
    """What one fit came to, or one line to beat. Plain enough for a store.

    blocks    measure -> value of each block of the new trials, in order of time
    scores    single numbers over all new trials
    states    [T', K] soft states of the new trials laid end to end, every `stride`-th sample; empty for lines to beat
    """

    blocks: dict[str, tuple[float, ...]]
    scores: dict[str, float] = field(default_factory=dict)
    states: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32), repr=False)
    stride: int = 1
    parameters: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        rounded = np.round(255 * self.states).astype(np.uint8)
        plain = {"values": b64encode(rounded.tobytes()).decode("ascii"), "shape": list(rounded.shape)}
        return {**asdict(self), "blocks": {k: list(v) for k, v in self.blocks.items()}, "states": plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Cell:
        packed = plain["states"]
        rounded = np.frombuffer(b64decode(packed["values"]), np.uint8).reshape(packed["shape"])
        blocks = {name: tuple(values) for name, values in plain["blocks"].items()}
        return cls(**{**plain, "blocks": blocks, "states": (rounded / np.float32(255)).astype(np.float32)})

    def mean(self, measure: str) -> float:
        return float(np.mean(self.blocks[measure])) if measure in self.blocks else float("nan")


# ---- measuring one fit ----------------------------------------------------------------------------------------------
def blocks_of(test: Trials) -> list[npt.NDArray[np.int64]]:
    """Samples of each block, numbered over all trials laid end to end; no block reaches over the seam of two trials."""
    total, begin, found = test.n_samples, 0, []
    for trial in test:
        wanted = max(1, round(N_BLOCKS * trial.n_samples / total))
        found += [begin + np.arange(low, high) for low, high in blocks(trial.n_samples, wanted)]
        begin += trial.n_samples
    if len(found) < FEWEST_BLOCKS:
        raise DataError(
            f"{test.name!r} has {total} samples, which make {len(found)} blocks of {SHORTEST} or more; at least "
            f"{FEWEST_BLOCKS} are needed to tell settings apart. Take longer new trials."
        )
    return found


def fitted_cell(family: str, setting: Mapping[str, Any], train: Trials, test: Trials) -> dict[str, Any]:
    """Fit one setting (its seed included) and measure it on new trials; plain values, for a store."""
    model = fitted(family, setting, train)
    soft = np.concatenate(model.predict_proba(test)).astype(np.float64)
    stride = max(1, -(-len(soft) // MAX_SHOWN))
    scores = {"elbo_train": float(model.elbo_), "elbo_test": float(model.score(test))}
    held: list[tuple[float, int]] = []  # share of outcomes inside the 90 % bands at the last step, and of how many

    def predict(trial: Trial, at: npt.NDArray[np.int64]) -> Predicted:
        # As calibrated: adaptive bands would hold nine tenths for every setting, and know more than the lines to beat.
        found = model.forecast(trial, horizon=HORIZON, n_paths=N_PATHS, seed=0, origins=at, adaptive=False)
        held.append((float(coverage(found, trial.y, 0.9)[-1]), len(at)))
        return np.asarray(found.mean, np.float64), np.asarray(found.std[:, 0], np.float64)

    by_block = _predicted(test, predict, model.min_samples - 1)
    if sound := [one for one in held if np.isfinite(one[0])]:
        shares, counts = zip(*sound, strict=True)
        scores["coverage_90"] = float(np.average(shares, weights=counts))
    known, truth = np.concatenate(labels_of(train)), np.concatenate(labels_of(test))
    for side, trials in (("train", train), ("test", test)):
        scores[f"smoothed_r2_{side}"] = smoothed_r2(model, trials)
    if (truth != UNLABELLED).any() and (known != UNLABELLED).any():
        soft_train = np.concatenate(model.predict_proba(train)).astype(np.float64)
        scores |= _numbers(state_scores(soft_train, known, soft, truth))
        by_block["states"] = _agreement(soft_train, known, soft, truth, blocks_of(test))
        if hasattr(model, "untrained"):
            blank = model.untrained(train, 0)
            sides = [np.concatenate(blank.predict_proba(trials)).astype(np.float64) for trials in (train, test)]
            untrained = _numbers(state_scores(sides[0], known, sides[1], truth))
            scores |= {f"untrained.{name}": value for name, value in untrained.items()}
    return Cell(
        blocks=by_block,
        scores=scores,
        states=soft[::stride].astype(np.float32),
        stride=stride,
        parameters=sum(int(value.size) for value in model.params_.values()),
        seconds=float(model.seconds_),
    ).to_dict()


def lines_to_beat(train: Trials, test: Trials, n_states: int) -> dict[str, Any]:
    """What has no states or no dynamics, measured in the same blocks: name -> cell, as plain values."""
    found = {
        "stands still": Cell(_predicted(test, _stands_still)),
        "linear AR(1)": Cell(_predicted(test, _linear(train))),
    }
    if (np.concatenate(labels_of(test)) != UNLABELLED).any():
        for name, scores in state_baselines(train, test, n_states).items():
            found[name] = Cell({}, _numbers(scores))
    return {name: cell.to_dict() for name, cell in found.items()}


Predicted = tuple[Array, Array | None]  # means [O, H, N] from each origin, and spread [O, N] of the next sample
Predict = Callable[[Trial, npt.NDArray[np.int64]], Predicted]


def _stands_still(trial: Trial, at: npt.NDArray[np.int64]) -> Predicted:
    now = carried_forward(trial.y, np.nan)[at]
    return np.repeat(now[:, None], HORIZON, axis=1).astype(np.float64), None


def _linear(train: Trials) -> Predict:
    """One linear rule; its spread is that of its errors on the fitted trials."""
    linear = baselines.LinearAR.fit(train)
    errors = [
        outcomes(trial.y, (at := np.arange(trial.n_samples - 1)), 1)[:, 0] - linear.forecast(trial.y, at, 1)[:, 0]
        for trial in train
        if trial.n_samples > 1
    ]
    spread = np.nanstd(np.concatenate(errors), axis=0)

    def predict(trial: Trial, at: npt.NDArray[np.int64]) -> Predicted:
        means = linear.forecast(trial.y, at, HORIZON)
        return means, np.broadcast_to(spread, means[:, 0].shape)

    return predict


def _predicted(test: Trials, predict: Predict, first: int = 0) -> dict[str, tuple[float, ...]]:
    """Block by block: what part of the variance over all new trials the predictions explain, and the density of the next
    sample, a Gaussian of the predicted mean and spread (comparable between models, whatever their own likelihood is).

    first   sample of each trial from which there are predictions
    """
    everything = np.concatenate([trial.y for trial in test]).astype(np.float64)
    variance = np.nanvar(everything, axis=0)
    variance = np.where(variance > 0, variance, np.nan)
    stride = max(1, -(-test.n_samples // MAX_ORIGINS))
    missed = np.full((test.n_samples, 2), np.nan)  # squared error as a share of the variance: one and ten samples ahead
    density = np.full(test.n_samples, np.nan)
    begin = 0
    for trial in test:
        at = np.arange(first, trial.n_samples - 1, stride)
        if len(at):
            truth = outcomes(trial.y, at, HORIZON).astype(np.float64)  # [O, H, N]
            mean, spread = predict(trial, at)
            share = (truth - mean) ** 2 / variance
            with np.errstate(invalid="ignore"):
                missed[begin + at] = np.stack(
                    [known_mean(share[:, 0], axis=-1), known_mean(share[:, -1], axis=-1)], axis=1
                )
            if spread is not None:
                scaled = (truth[:, 0] - mean[:, 0]) / spread
                nats = -0.5 * scaled**2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
                density[begin + at] = np.where(np.isfinite(nats).any(axis=1), np.nansum(nats, axis=1), np.nan)
        begin += trial.n_samples
    cut = blocks_of(test)
    found = {
        "next": tuple(float(1 - known_mean(missed[block, 0])) for block in cut),
        "ten": tuple(float(1 - known_mean(missed[block, 1])) for block in cut),
    }
    if np.isfinite(density).any():
        found["density"] = tuple(float(known_mean(density[block])) for block in cut)
    return found


def _agreement(
    fitted: Array, known: npt.NDArray[Any], soft: Array, truth: npt.NDArray[Any], blocks: list[npt.NDArray[np.int64]]
) -> tuple[float, ...]:
    """Share of each block whose strongest state is the true one; states are named on the fitted trials."""
    n_states, labels = soft.shape[1], set(np.unique(np.concatenate([known, truth])).tolist()) - {UNLABELLED}
    name = match_states if n_states == len(labels) else majority_map
    right = (name(fitted.argmax(axis=1), known, n_states)[soft.argmax(axis=1)] == truth).astype(np.float64)
    right[truth == UNLABELLED] = np.nan
    return tuple(float(known_mean(right[block])) for block in blocks)


def _numbers(scores: Any) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(scores).items() if isinstance(value, int | float)}


# ---- telling settings apart -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Difference:
    """First minus second: its mean, and half of its interval."""

    first: str
    second: str
    mean: float
    half: float

    @property
    def is_one(self) -> bool:
        return abs(self.mean) > self.half

    def text(self, measure: str) -> str:
        """With as many digits as the interval has something to say with."""
        digits = MEASURES[measure][1]
        if 0 < self.half < np.inf:
            digits = min(max(digits, 1 - math.floor(math.log10(self.half))), 6)
        return f"{self.mean:.{digits}f}\u00a0±\u00a0{self.half:.{digits}f}"


@dataclass(frozen=True)
class Verdict:
    """best: those that cannot be told from the one with the highest mean, that one first; behind: all others, nearest first.

    differences  of every pair, the one that comes first in the table first
    """

    measure: str
    means: dict[str, float]
    best: tuple[str, ...]
    behind: tuple[Difference, ...]
    differences: tuple[Difference, ...]
    n_blocks: int
    n_seeds: int

    @property
    def sentence(self) -> str:
        """What a careful reader may take away: which are best, and by how much they are ahead of the others."""
        if len(self.means) < 2:
            return ""
        one, beaten = self.best[0], listed([f"{d.second} by {d.text(self.measure)}" for d in self.behind])
        if len(self.best) == 1:
            return f"{one} is ahead of {beaten}."
        return f"{listed(self.best)} cannot be told apart here" + (f"; {one} is ahead of {beaten}." if beaten else ".")

    @property
    def basis(self) -> str:
        """What its intervals are made from."""
        seeds = f" and {self.n_seeds} seeds" if self.n_seeds > 1 else ", one seed each"
        return f"{100 * CONFIDENCE:.0f} % intervals over {self.n_blocks} blocks of the new trials{seeds}, for all pairs at once"


def verdict(measure: str, values: Mapping[str, Sequence[Sequence[float]]]) -> Verdict:
    """Of [seeds, blocks] of one measure for each name. Blocks that are unknown for anybody are left out."""
    tables = {name: np.asarray(rows, np.float64) for name, rows in values.items() if len(rows)}
    sizes = {table.shape[1] for table in tables.values()}
    if len(sizes) > 1:
        raise DataError(f"The settings were measured over {sorted(sizes)} blocks; all need the same ones.")
    if tables:
        sound = np.isfinite(np.concatenate(list(tables.values()))).all(axis=0)
        tables = {name: table[:, sound] for name, table in tables.items()}
    means = {name: float(table.mean()) if table.size else float("nan") for name, table in tables.items()}
    pairs = list(itertools.combinations(tables, 2))
    found = [_difference(a, b, tables[a], tables[b], len(pairs)) for a, b in pairs]
    order = sorted(means, key=lambda name: -means[name])
    best, behind = order[:1], []
    for name in order[1:]:
        pair = next(d for d in found if {d.first, d.second} == {order[0], name})
        if pair.is_one:
            behind.append(Difference(order[0], name, abs(pair.mean), pair.half))
        else:
            best.append(name)
    n_seeds = max((len(table) for table in tables.values()), default=0)  # lines to beat have one
    n_blocks = next((table.shape[1] for table in tables.values()), 0)
    return Verdict(measure, means, tuple(best), tuple(behind), tuple(found), n_blocks, n_seeds)


def _difference(first: str, second: str, a: Array, b: Array, n_pairs: int) -> Difference:
    """Blocks are paired; seeds are not (seed 0 of one model has nothing to do with seed 0 of another)."""
    from scipy.stats import t

    by_block = a.mean(axis=0) - b.mean(axis=0)
    parts = [(by_block.var(ddof=1) / len(by_block), len(by_block) - 1)] if len(by_block) > 1 else []
    parts += [(table.mean(axis=1).var(ddof=1) / len(table), len(table) - 1) for table in (a, b) if len(table) > 1]
    total = sum(variance for variance, _ in parts)
    if not parts or not np.isfinite(total):
        return Difference(first, second, float(by_block.mean()) if len(by_block) else float("nan"), float("inf"))
    if total == 0:
        return Difference(first, second, float(by_block.mean()), 0.0)
    freedom = total**2 / sum(variance**2 / df for variance, df in parts)  # Welch and Satterthwaite
    level = 1 - (1 - CONFIDENCE) / (2 * max(1, n_pairs))  # Bonferroni: all pairs hold at once
    return Difference(first, second, float(by_block.mean()), float(t.ppf(level, freedom) * np.sqrt(total)))


# ---- fits beside each other, moment by moment: states matched one to one -------------------------------------------------
@dataclass(frozen=True)
class Consensus:
    """states [T, K] mean of all fits; apart [T] how far a fit is from it on average (0: all say the same, 1: nothing shared)."""

    states: States
    apart: Shares

    @property
    def share(self) -> float:
        """How much of all weight is where the fits agree."""
        return float(1 - self.apart.mean())


def like(states: States, reference: States) -> States:
    """`states` [T, K] in the columns of `reference` [T, R] that they share most with; what has no like comes after them."""
    from scipy.optimize import linear_sum_assignment

    if len(states) != len(reference):
        raise DataError(f"Fits of {len(states)} and {len(reference)} samples cannot be compared; take the same trial.")
    rows, columns = linear_sum_assignment(overlap(reference, states), maximize=True)
    rest = [k for k in range(states.shape[1]) if k not in set(columns.tolist())]
    made = np.zeros((len(states), reference.shape[1] + len(rest)), np.float32)
    made[:, rows] = states[:, columns]
    made[:, reference.shape[1] :] = states[:, rest]
    return made


def distance(first: States, second: States) -> Shares:
    """[T] what part of the weight two fits put into different states, the second's matched to the first's."""
    moved = like(second, first)
    padded = np.zeros_like(moved)
    padded[:, : first.shape[1]] = first
    found: Shares = (0.5 * np.abs(padded - moved).sum(axis=1)).astype(np.float32)
    return found


def consensus(fits: Sequence[States]) -> Consensus:
    """Of fits with the same number of states, matched to the one that is nearest to all others."""
    if not fits:
        raise DataError("There is no fit to agree with.")
    if len({fit.shape for fit in fits}) > 1:
        raise DataError("A consensus needs fits of one trial with the same number of states.")
    nearest = min(fits, key=lambda one: sum(float(distance(one, other).mean()) for other in fits))
    moved = np.stack([like(fit, nearest) for fit in fits])  # [S, T, K]
    mean = moved.mean(axis=0)
    return Consensus(mean, (0.5 * np.abs(moved - mean).sum(axis=2)).mean(axis=0).astype(np.float32))


def moments(apart: Shares, least: float = APART, shortest: int = 3) -> list[tuple[int, int]]:
    """Stretches (first, past the last) on which two fits say different things, the weightiest first."""
    found = [(a, b) for a, b in stays(apart >= least).tolist() if apart[a] >= least and b - a >= shortest]
    return sorted(found, key=lambda span: -float(apart[span[0] : span[1]].sum()))
