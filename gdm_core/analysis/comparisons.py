"""Measure settings on the same test trials, and tell which of them differ.

Every setting is fitted from several seeds and measured in the same blocks of time. Two settings are compared block by
block, and the spread over seeds counts as well. They differ if the interval of their difference, corrected for the number
of pairs, excludes zero.
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
from gdm_core.analysis.inference import fit_model
from gdm_core.analysis.matching import overlap
from gdm_core.analysis.metrics import HORIZON, MAX_ORIGINS, N_PATHS, smoothed_r2
from gdm_core.analysis.score_uncertainty import SHORTEST, blocks
from gdm_core.analysis.state_scores import majority_map, match_states, state_baselines, state_scores
from gdm_core.errors import DataError
from gdm_core.forecast import coverage, outcomes
from gdm_core.maths.gaps import carry_forward, known_mean
from gdm_core.models.variants import make_untrained
from gdm_core.text import listed
from gdm_core.trials import UNLABELLED, Trial, Trials, labels_of

Array = npt.NDArray[np.float64]
States = npt.NDArray[np.float32]

N_BLOCKS = 12
MIN_BLOCKS = 4
MAX_SHOWN = 4_000  # samples of states that travel, evenly spaced
CONFIDENCE = 0.95
# Measures of a block, for which more is better: name -> (words, digits).
MEASURES = {
    "states": ("State accuracy", 3),
    "density": ("Forecast density (nats)", 2),
    "ten": ("Forecast R², 10 steps", 3),
    "next": ("Forecast R², 1 step", 3),
}


@dataclass(frozen=True)
class Cell:
    """Measurements of one fit, or of one baseline.

    blocks    measure -> value of each block of the test trials, in order of time
    scores    single numbers over all test trials
    states    [T', K] soft states of the concatenated test trials, every `stride`-th sample; empty for baselines
    """

    blocks: dict[str, tuple[float, ...]]
    scores: dict[str, float] = field(default_factory=dict)
    states: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32), repr=False)
    stride: int = 1
    parameters: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
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
def split_blocks(test: Trials) -> list[npt.NDArray[np.int64]]:
    """Return the samples of each block over the concatenated trials."""
    total, begin, found = test.n_samples, 0, []
    for trial in test:
        n_blocks = max(1, round(N_BLOCKS * trial.n_samples / total))
        found += [begin + np.arange(low, high) for low, high in blocks(trial.n_samples, n_blocks)]
        begin += trial.n_samples
    if len(found) < MIN_BLOCKS:
        raise DataError(
            f"{test.name!r} has {total} samples, which make {len(found)} blocks of {SHORTEST} or more; at least "
            f"{MIN_BLOCKS} are needed to tell settings apart. Take longer new trials."
        )
    return found


def fit_cell(family: str, setting: Mapping[str, Any], train: Trials, test: Trials) -> dict[str, Any]:
    """Fit one setting and return its Cell on the test trials as plain values."""
    model = fit_model(family, setting, train)
    soft = np.concatenate(model.predict_proba(test)).astype(np.float64)
    stride = max(1, -(-len(soft) // MAX_SHOWN))
    scores = {"elbo_train": float(model.elbo_), "elbo_test": float(model.score(test))}
    covered: list[tuple[float, int]] = []  # share of outcomes inside the 90% bands at the last step, and their number

    def predict(trial: Trial, at: npt.NDArray[np.int64]) -> Predicted:
        # Not adaptive: adaptive bands cover 90% for every setting and use more data than the baselines.
        found = model.forecast(trial, horizon=HORIZON, n_paths=N_PATHS, seed=0, origins=at, adaptive=False)
        covered.append((float(coverage(found, trial.y, 0.9)[-1]), len(at)))
        return np.asarray(found.mean, np.float64), np.asarray(found.std[:, 0], np.float64)

    by_block = _predict_blocks(test, predict, model.min_samples - 1)
    if sound := [one for one in covered if np.isfinite(one[0])]:
        shares, counts = zip(*sound, strict=True)
        scores["coverage_90"] = float(np.average(shares, weights=counts))
    known, truth = np.concatenate(labels_of(train)), np.concatenate(labels_of(test))
    for side, trials in (("train", train), ("test", test)):
        scores[f"smoothed_r2_{side}"] = smoothed_r2(model, trials)
    if [trial.y.shape for trial in train] == [trial.y.shape for trial in test]:
        scores["smoothed_r2_kept"] = smoothed_r2(
            model, train, test
        )  # test trials from the posterior of training trials
    if (truth != UNLABELLED).any() and (known != UNLABELLED).any():
        soft_train = np.concatenate(model.predict_proba(train)).astype(np.float64)
        scores |= _numbers(state_scores(soft_train, known, soft, truth))
        by_block["states"] = _agreement(soft_train, known, soft, truth, split_blocks(test))
        if (blank := make_untrained(model, train)) is not None:
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


def measure_baselines(train: Trials, test: Trials, n_states: int) -> dict[str, Any]:
    """Measure baselines in the same blocks; return name -> Cell as plain values."""
    found = {
        "persistence": Cell(_predict_blocks(test, _predict_last_value)),
        "linear AR(1)": Cell(_predict_blocks(test, _fit_autoregression(train))),
    }
    if (np.concatenate(labels_of(test)) != UNLABELLED).any():
        for name, scores in state_baselines(train, test, n_states).items():
            found[name] = Cell({}, _numbers(scores))
    return {name: cell.to_dict() for name, cell in found.items()}


Predicted = tuple[Array, Array | None]  # means [O, H, N] from each origin, sd [O, N] of the next sample
Predict = Callable[[Trial, npt.NDArray[np.int64]], Predicted]


def _predict_last_value(trial: Trial, at: npt.NDArray[np.int64]) -> Predicted:
    now = carry_forward(trial.y, np.nan)[at]
    return np.repeat(now[:, None], HORIZON, axis=1).astype(np.float64), None


def _fit_autoregression(train: Trials) -> Predict:
    """Return a forecast function of an autoregression fitted to `train`."""
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


def _predict_blocks(test: Trials, predict: Predict, first: int = 0) -> dict[str, tuple[float, ...]]:
    """Return R² and the log density of the next sample for each block.

    R² is relative to the variance over all test trials. The density uses the predicted mean and sd alone, so it compares
    models with different likelihoods.

    first  first sample of each trial with a prediction
    """
    everything = np.concatenate([trial.y for trial in test]).astype(np.float64)
    variance = np.nanvar(everything, axis=0)
    variance = np.where(variance > 0, variance, np.nan)
    stride = max(1, -(-test.n_samples // MAX_ORIGINS))
    missed = np.full((test.n_samples, 2), np.nan)  # squared error relative to the variance, 1 and 10 samples ahead
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
    cut = split_blocks(test)
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
    """Return the accuracy in each block, with states matched to labels on training trials."""
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
    """First minus second: the mean, and half the width of its interval."""

    first: str
    second: str
    mean: float
    half: float

    @property
    def is_significant(self) -> bool:
        return abs(self.mean) > self.half

    def text(self, measure: str) -> str:
        """Return the mean and its interval, with as many digits as the interval supports."""
        digits = MEASURES[measure][1]
        if 0 < self.half < np.inf:
            digits = min(max(digits, 1 - math.floor(math.log10(self.half))), 6)
        return f"{self.mean:.{digits}f}\u00a0±\u00a0{self.half:.{digits}f}"


@dataclass(frozen=True)
class Verdict:
    """Which settings are best by one measure.

    best         the highest mean first, then those that do not differ from it
    behind       the others, nearest first
    differences  of every pair, in the order of the table
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
        """The best settings, and how far they are ahead of the others."""
        if len(self.means) < 2:
            return ""
        one, beaten = self.best[0], listed([f"{d.second} by {d.text(self.measure)}" for d in self.behind])
        if len(self.best) == 1:
            return f"{one} is ahead of {beaten}."
        return f"No clear difference between {listed(self.best)}" + (
            f"; {one} is ahead of {beaten}." if beaten else "."
        )

    @property
    def basis(self) -> str:
        """Blocks and seeds behind the intervals."""
        seeds = f" and {self.n_seeds} seeds" if self.n_seeds > 1 else ", one seed each"
        return f"{100 * CONFIDENCE:.0f}% intervals over {self.n_blocks} blocks of the test trials{seeds}, corrected for all pairs"


def verdict(measure: str, values: Mapping[str, Sequence[Sequence[float]]]) -> Verdict:
    """Compare tables [seeds, blocks] of one measure, without blocks that are NaN."""
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
        if pair.is_significant:
            behind.append(Difference(order[0], name, abs(pair.mean), pair.half))
        else:
            best.append(name)
    n_seeds = max((len(table) for table in tables.values()), default=0)  # baselines have one
    n_blocks = next((table.shape[1] for table in tables.values()), 0)
    return Verdict(measure, means, tuple(best), tuple(behind), tuple(found), n_blocks, n_seeds)


def _difference(first: str, second: str, a: Array, b: Array, n_pairs: int) -> Difference:
    """Return the difference of two tables [seeds, blocks]: blocks are paired, seeds are not."""
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
    level = 1 - (1 - CONFIDENCE) / (2 * max(1, n_pairs))  # Bonferroni
    return Difference(first, second, float(by_block.mean()), float(t.ppf(level, freedom) * np.sqrt(total)))


# ---- states of two fits ---------------------------------------------------------------------------------------------
def match_columns(states: States, reference: States) -> States:
    """Return `states` [T, K] in the matching columns of `reference` [T, R]."""
    from scipy.optimize import linear_sum_assignment

    if len(states) != len(reference):
        raise DataError(f"Fits of {len(states)} and {len(reference)} samples cannot be compared; take the same trial.")
    rows, columns = linear_sum_assignment(overlap(reference, states), maximize=True)
    rest = [k for k in range(states.shape[1]) if k not in set(columns.tolist())]
    ordered = np.zeros((len(states), reference.shape[1] + len(rest)), np.float32)
    ordered[:, rows] = states[:, columns]
    ordered[:, reference.shape[1] :] = states[:, rest]
    return ordered
