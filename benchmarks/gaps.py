"""Fits to recordings with missing values against complete ones: `python -m benchmarks.gaps [PART ...] [--json FILE]`.

patterns  accuracy, score and time of fits to ten soft tracks, complete and with four kinds of missing values
inside    error and coverage of 90 % intervals inside gaps of 60 samples, each with a fit of its own
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.report import Part
from datasets import nascar
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.models.base import StateModel
from gdm_core.models.progress import Status
from gdm_core.models.registry import build

MODELS = ("arhmm-ro", "gdm", "rslds-ro", "slds-sticky", "gdm-mixture", "pdlds")
REFERENCE = "arhmm-ro"  # whose scores the others are compared with
SEEDS = range(700, 710)
GAP = 60
GAPS = (300, 100, 540, 780)  # first samples; the first one is the gap of the pattern
QUANTILE = 1.645  # of a standard normal: 90 % lie within it
Array = npt.NDArray[np.float64]


def patterns(y: Array, seed: int) -> dict[str, Array]:
    """Return a recording [T, N] with each kind of missing values."""
    rng = np.random.default_rng(seed)
    gap, blocks, samples, entries = (y.copy() for _ in range(4))
    gap[GAPS[0] : GAPS[0] + GAP] = np.nan
    channels = rng.permutation(y.shape[1])
    blocks[200:400, channels[:4]] = np.nan
    blocks[600:700, channels[4:8]] = np.nan
    samples[rng.permutation(len(y))[: len(y) // 10]] = np.nan
    entries[rng.random(y.shape) < 0.3] = np.nan
    return {"complete": y, "gap": gap, "blocks": blocks, "samples": samples, "entries": entries}


def fit(name: str, y: Array, calibrate: bool = True) -> StateModel:
    model = build(name, nascar.N_STATES, 2, 0)
    for _ in model.fit_iter(y, calibrate=calibrate):
        pass
    return model


@dataclass
class Found:
    """Results of one model on one track: by pattern, and for each gap."""

    accuracy: dict[str, float] = field(default_factory=dict)  # of samples with an observed channel
    score: dict[str, float] = field(default_factory=dict)  # nats per such sample
    seconds: dict[str, float] = field(default_factory=dict)  # processor time of the fit
    failed: list[str] = field(default_factory=list)
    error: list[float] = field(default_factory=list)  # of `smooth`, in standard deviations of the data
    covered: list[float] = field(default_factory=list)  # share of values inside 90 % intervals


def measure(name: str, seed: int) -> Found:
    """Fit a model to one track with each pattern and each gap."""
    track = nascar.simulate("soft", 1000, seed=seed)
    y, labels = np.asarray(track.y, np.float64), np.asarray(track.labels)
    found = Found()
    for pattern, data in patterns(y, seed).items():
        began = time.process_time()
        model = fit(name, data)
        found.seconds[pattern] = time.process_time() - began
        seen = np.isfinite(data).any(axis=1)
        found.accuracy[pattern] = float(matched_accuracy(labels[seen], model.predict(data)[seen]))
        found.score[pattern] = model.elbo_
        if model.status_ is Status.FAILED:
            found.failed.append(pattern)
        if pattern == "gap":
            _look_inside(found, model, y, GAPS[0])
    for start in GAPS[1:]:
        _look_inside(found, fit(name, _with_gap(y, start), calibrate=False), y, start)
    return found


def _with_gap(y: Array, start: int) -> Array:
    gap = y.copy()
    gap[start : start + GAP] = np.nan
    return gap


def _look_inside(found: Found, model: StateModel, y: Array, start: int) -> None:
    """Compare what a model fitted with the gap says of its values with the true ones."""
    inside, gap = slice(start, start + GAP), _with_gap(y, start)
    values, std = model.impute(gap, return_std=True)
    off = (model.smooth(gap) - y)[inside] / y.std(axis=0)
    found.error.append(float(np.sqrt((off**2).mean())))
    found.covered.append(float((np.abs(values - y) < QUANTILE * std)[inside].mean()))


@cache
def measure_all() -> dict[str, list[Found]]:
    return {name: [measure(name, seed) for seed in SEEDS] for name in MODELS}


def accuracy_table() -> Part:
    """Tabulate accuracy and its change from complete data, and the change of the score relative to the reference."""
    rows: list[list[Any]] = []
    found = measure_all()
    for name, each in found.items():
        for pattern in each[0].accuracy:
            values = np.array([one.accuracy[pattern] for one in each])
            change = np.mean([one.accuracy[pattern] - one.accuracy["complete"] for one in each])
            pairs = list(zip(each, found[REFERENCE], strict=True))
            lead, whole = ([a.score[p] - b.score[p] for a, b in pairs] for p in (pattern, "complete"))
            apart = float(np.mean(lead) - np.mean(whole))
            longer = sum(one.seconds[pattern] for one in each) / sum(one.seconds["complete"] for one in each)
            n_failed = sum(pattern in one.failed for one in each)
            rows.append([name, pattern, values.mean(), values.min(), float(change), apart, longer, n_failed])
    columns = ["model", "missing", "accuracy", "worst", "change", "score", "time", "failed"]
    return f"Soft tracks with missing values, n = {len(each)}", columns, rows


def inside_table() -> Part:
    """Tabulate error and coverage inside gaps."""
    rows: list[list[Any]] = []
    for name, each in measure_all().items():
        error, covered = (np.concatenate([getattr(one, what) for one in each]) for what in ("error", "covered"))
        rows.append([name, float(error.mean()), float(covered.mean()), len(error)])
    columns = ["model", "error / sd of the data", "90 % intervals cover", "gaps"]
    return f"Inside gaps of {GAP} samples", columns, rows


if __name__ == "__main__":
    report.run(__doc__, {"patterns": accuracy_table, "inside": inside_table})
