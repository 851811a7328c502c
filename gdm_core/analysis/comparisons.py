"""Measure settings on the same test trials, and tell which of them differ.

Every setting is fitted from several seeds and measured in the same blocks of time. Two settings are compared block by
block, and the spread over seeds counts as well. They differ if the interval of their difference, corrected for the number
of pairs, excludes zero.
"""

from __future__ import annotations

import itertools
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.baselines import LinearAR
from gdm_core.analysis.inference import fit_model
from gdm_core.analysis.metrics import Evaluation
from gdm_core.analysis.predictions import Predictions, stacked_r2
from gdm_core.analysis.score_uncertainty import SHORTEST, blocks
from gdm_core.analysis.state_scores import choose_matching, score_states, state_baselines
from gdm_core.errors import DataError
from gdm_core.maths.gaps import known_mean
from gdm_core.models.variants import make_untrained
from gdm_core.text import flatten_scores, listed
from gdm_core.trials import UNLABELLED, Trials, labels_of

Array = npt.NDArray[np.float64]

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
    blocks = split_blocks(test)
    model = fit_model(family, setting, train)
    one = Evaluation(model, train, test)
    by_block = one.predictions.score_blocks(test, blocks)
    scores = {
        "elbo_train": float(model.elbo_),
        "elbo_test": float(model.score(test)),
        "smoothed_r2_train": stacked_r2(train, one.reconstructed_train),
        "smoothed_r2_test": stacked_r2(test, model.smooth(test)),
    }
    # Not adaptive: adaptive bands cover 90% for every setting and use more data than the baselines.
    if np.isfinite(covered := one.score_intervals()["coverage_90"][-1]):
        scores["coverage_90"] = covered
    if [trial.y.shape for trial in train] == [trial.y.shape for trial in test]:
        # test trials from the posterior of training trials
        scores["smoothed_r2_kept"] = stacked_r2(test, one.reconstructed_train)
    if one.is_labelled and (one.known != UNLABELLED).any():
        scores |= flatten_scores(one.score_states())
        # From the seed of the fit: means over seeds are then those of as many draws.
        untrained = make_untrained(model, train, int(setting.get("seed", 0)))
        if untrained is not None:
            scores |= flatten_scores({"untrained": score_states(untrained, train, test)})
        hard, hard_test = (soft.argmax(axis=1) for soft in one.states)
        n_states = one.states[0].shape[1]
        labels = choose_matching(n_states, one.known, one.truth)(hard, one.known, n_states)[hard_test]
        agrees = np.where(one.truth == UNLABELLED, np.nan, labels == one.truth)
        by_block["states"] = tuple(float(known_mean(agrees[block])) for block in blocks)
    soft = one.states[1]
    stride = max(1, -(-len(soft) // MAX_SHOWN))
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
    guesses = {
        "persistence": Predictions.by_last_value(test),
        "linear AR(1)": Predictions.by_autoregression(LinearAR.fit(train), train, test),
    }
    blocks = split_blocks(test)
    found = {name: Cell(one.score_blocks(test, blocks)) for name, one in guesses.items()}
    if (np.concatenate(labels_of(test)) != UNLABELLED).any():
        for name, scores in state_baselines(train, test, n_states).items():
            found[name] = Cell({}, flatten_scores(scores))
    return {name: cell.to_dict() for name, cell in found.items()}


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
