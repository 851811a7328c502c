"""Predictions of a model for figures: a forecast with intervals, one-step predictions, and next states over the plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core import adaptation
from gdm_core.analysis.inference import fit_model
from gdm_core.errors import DataError
from gdm_core.forecast import coverage, outcomes
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial, Trials

Array = npt.NDArray[np.float32]

COVERAGE_ORIGINS = 250
ENVELOPE_PATHS = 200
NEXT_PATHS = 100
MAP_COLUMNS, MAP_ROWS = 72, 48
MAP_MARGIN = 0.12
SPREADS = 3.0  # half-width of one-step intervals, in standard deviations


@dataclass(frozen=True, eq=False)
class Envelope:
    """Forecast from one sample, and the coverage of forecasts over its trial.

    adaptive             whether the intervals are adaptive or as calibrated
    mean, lower90, ...   [H, N] for the steps after `origin`
    half, nine_tenths    [H] coverage of 50% and 90% intervals
    """

    origin: int
    adaptive: bool
    mean: Array
    lower50: Array
    upper50: Array
    lower90: Array
    upper90: Array
    std: Array
    half: Array
    nine_tenths: Array


def envelope(
    model_bytes: bytes, trial: Trial, origin: int, horizon: int, adaptive: bool = True, seed: int = 0
) -> Envelope:
    """Forecast from `origin`, and measure the coverage of forecasts from evenly spaced origins.

    adaptive   adapt the intervals to outcomes before `origin`
    """
    model = model_from_bytes(model_bytes)
    first = model.min_samples - 1
    if trial.n_samples - first < 3:
        raise DataError(f"Trial {trial.name!r} is too short ({trial.n_samples} samples) for a prediction.")
    origin = int(np.clip(origin, first, trial.n_samples - 2))
    spread = np.unique(np.linspace(first, trial.n_samples - 2, COVERAGE_ORIGINS).astype(np.int64))
    bands = model.forecast(trial, horizon, n_paths=100, seed=seed, origins=spread, adaptive=False)
    one = model.forecast(trial, horizon, n_paths=ENVELOPE_PATHS, seed=seed, origins=[origin], adaptive=False)
    if adaptive:
        learned = adaptation.learn(bands, trial.y)
        bands = adaptation.scale_intervals(bands, learned.factors(spread))
        one = adaptation.scale_intervals(one, learned.factors(origin))
    low50, high50, low90, high90 = (edge[0] for level in (0.5, 0.9) for edge in one.interval(level))
    half, nine_tenths = (coverage(bands, trial.y, level) for level in (0.5, 0.9))
    return Envelope(origin, adaptive, one.mean[0], low50, high50, low90, high90, one.std[0], half, nine_tenths)


def next_ranges(
    family: str, setting: Mapping[str, Any], train: Trials, test: Trials, channel: int = 0, moments: int = 300
) -> dict[str, Any]:
    """Fit a model and predict the test trial one step ahead; return plain values."""
    model = fit_model(family, setting, train)
    trial = test[0]
    at = np.arange(model.min_samples - 1, min(trial.n_samples - 1, moments))
    found = model.forecast(trial, horizon=1, n_paths=NEXT_PATHS, seed=0, origins=at, adaptive=False)
    mean, spread = found.mean[:, 0, channel], found.std[:, 0, channel]
    truth = outcomes(trial.y, at, 1)[:, 0, channel]
    known = np.isfinite(truth)
    inside = np.abs(truth[known] - mean[known]) <= SPREADS * spread[known]
    return {
        "from": int(at[0]) + 1,
        "mean": np.round(mean, 5).tolist(),
        "spread": np.round(spread, 5).tolist(),
        "observed": [float(round(value, 5)) if np.isfinite(value) else None for value in truth.tolist()],
        "held": float(inside.mean()),
    }


# ---- next states over the plane -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class PlaneMap:
    """Probabilities [H, W, K] of the next state at xs [W] and ys [H]."""

    xs: Array
    ys: Array
    probabilities: Array
    source: str


def plane_map(model_bytes: bytes, trial: Trial) -> PlaneMap:
    """Return probabilities of the next state over the plane, in the model's order.

    A least-squares map turns positions into observations, for which the model's transition predicts the next state, averaged
    over current states. For models whose transition ignores observations, the result is the mean soft state nearby.
    """
    if trial.position is None:
        raise DataError(f"Trial {trial.name!r} has no positions, so there is no plane to map.")
    model = model_from_bytes(model_bytes)
    where = np.asarray(trial.position, np.float64)
    known = np.isfinite(where).all(axis=1) & np.isfinite(trial.y).all(axis=1)
    low, high = where[known].min(axis=0), where[known].max(axis=0)
    margin = MAP_MARGIN * (high - low).max()
    xs = np.linspace(low[0] - margin, high[0] + margin, MAP_COLUMNS)
    ys = np.linspace(low[1] - margin, high[1] + margin, MAP_ROWS)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)  # [H W, 2]
    design = np.column_stack([where[known], np.ones(known.sum())])
    to_channels = np.linalg.lstsq(design, np.asarray(trial.y, np.float64)[known], rcond=None)[0]  # [3, N]
    observed = np.column_stack([grid, np.ones(len(grid))]) @ to_channels
    soft = np.asarray(model.predict_proba(trial), np.float64)
    probabilities = model._next_states(observed, soft.mean(axis=0))
    source = "transition"
    if probabilities is None:
        probabilities, source = _nearby(where[known], soft[known], grid), "nearby"
    return PlaneMap(
        xs.astype(np.float32),
        ys.astype(np.float32),
        probabilities.reshape(len(ys), len(xs), -1).astype(np.float32),
        source,
    )


def _nearby(
    where: npt.NDArray[np.float64], soft: npt.NDArray[np.float64], grid: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the mean soft state [G, K] of the samples nearest to each point."""
    from scipy.spatial import cKDTree

    _, index = cKDTree(where).query(grid, k=min(12, len(where)))
    mean: npt.NDArray[np.float64] = soft[index.reshape(len(grid), -1)].mean(axis=1)
    return mean
