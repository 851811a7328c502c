"""Forecasts with calibrated prediction intervals.

A model samples future paths. Their order statistics (or standard deviation, for levels beyond the outermost paths) give raw
intervals. Calibration rescales these per horizon, channel and level, until they cover their nominal share of the training
data. Each fifth of the data is predicted with dynamics estimated without it; or with the full fit, if the model has no
cheap cross-fit or the data are large. `coverage` measures the coverage of intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Array, Ints, Values
from gdm_core.errors import ConfigError
from gdm_core.maths.gaps import carry_forward, spread_stretches

# (trial [T, N], origins [O], horizon, number of paths, seed) -> sampled futures [P, O, H, N]
Sampler = Callable[[Array, Ints, int, int, int], Array]
# (trials, folds of the samples of each trial) -> a sampler for each fold, estimated without it
CrossFit = Callable[[list[Array], list[Ints]], list[Sampler]]

# Levels of central intervals that are calibrated; others are interpolated.
LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99], dtype=np.float32)
CALIBRATION_HORIZON = 10
CALIBRATION_ORIGINS = 400
CALIBRATION_PATHS = 60
N_FOLDS = 5
CROSS_FIT_SAMPLES = 20_000  # with more samples, overfitting is negligible
_RUN_UP = 128  # samples before the first origin that a model gets
_CHUNK_ELEMENTS = 20_000_000
_MAX_RESULT_ELEMENTS = 60_000_000
_VALUES = ("mean", "lower", "upper", "median")  # of a forecast, in the units of the data
_SORTED_ELEMENTS = 250_000  # elements of paths sorted at once, which fit into a core's cache


@dataclass(frozen=True)
class Calibration:
    """Factors on the distances of interval bounds from the mean."""

    scale: Array  # [H, N, levels]

    def factor(self, horizon: int) -> Array:
        """Return factors [levels, H, N]; the last calibrated one applies to longer horizons."""
        steps = np.minimum(np.arange(horizon), self.scale.shape[0] - 1)
        return np.moveaxis(self.scale[steps], -1, 0)


@dataclass(frozen=True)
class Forecast:
    """Predictions from each origin. Row o, column h-1 predicts y[origins[o] + h] from y[..origins[o]].

    mean, median, std   [O, H, N] of the calibrated prediction
    lower, upper        [levels, O, H, N] bounds of the central intervals LEVELS
    """

    origins: Ints  # [O]
    mean: Array
    lower: Array
    upper: Array
    median: Array
    std: Array

    def rescaled(self, center: Array, scale: Array) -> Forecast:
        """Return the forecast in other units: values times `scale` [N] plus `center` [N]."""

        moved = {name: (getattr(self, name) * scale + center).astype(center.dtype) for name in _VALUES}
        return replace(self, **moved, std=self.std * scale)

    def over_repeats(self, y: Array, rows: Ints, origins: Ints, horizon: int) -> Forecast:
        """Return the forecast of a recording whose rows repeat, from the forecast of its new rows `y` [T', N].

        rows     [T] new row of each sample
        origins  samples of the recording
        """
        ahead = rows_ahead(rows, origins, horizon)  # [O, H]
        at = np.searchsorted(self.origins, rows[origins])[:, None]
        certain = carry_forward(y, np.nan)[rows[origins]].astype(np.float32)[:, None]  # [O, 1, N]

        def gather(values: Array, known: Array) -> Array:
            return np.where((ahead == 0)[..., None], known, values[..., at, np.maximum(ahead - 1, 0), :])

        values = {name: gather(getattr(self, name), certain) for name in _VALUES}
        return Forecast(origins, **values, std=gather(self.std, np.zeros_like(certain)))

    @property
    def horizon(self) -> int:
        """Number of steps ahead (H)."""
        return int(self.mean.shape[1])

    def quantile(self, q: float) -> Array:
        """Return the q-quantile [O, H, N], interpolated between calibrated levels, for q in [0.005, 0.995]."""
        if not 0.005 <= q <= 0.995:
            raise ConfigError(f"quantile q is {q}; it must be in [0.005, 0.995].")
        edges = np.concatenate([self.lower[::-1], self.median[None], self.upper])
        levels = np.concatenate([(1 - LEVELS[::-1]) / 2, [0.5], (1 + LEVELS) / 2])
        high = int(np.clip(np.searchsorted(levels, q), 1, len(levels) - 1))
        from scipy.special import ndtri  # interpolating in normal scores keeps a Gaussian's quantiles exact

        low_score, high_score = ndtri(levels[high - 1]), ndtri(levels[high])
        weight = np.float32((ndtri(q) - low_score) / (high_score - low_score))
        return edges[high - 1] * (1 - weight) + edges[high] * weight

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """Return the lower and upper bound [O, H, N] of the central interval.

        coverage   nominal coverage, such as 0.9
        """
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


def outcomes(y: Values, origins: Ints, horizon: int) -> Array:
    """Return the observations [O, H, N] after each origin; NaN past the end."""
    index = origins[:, None] + np.arange(1, horizon + 1)
    dtype = y.dtype if y.dtype == np.float64 else np.float32
    return np.where((index < len(y))[..., None], y[np.minimum(index, len(y) - 1)], np.nan).astype(dtype)


def rows_ahead(rows: Ints, origins: Ints, horizon: int) -> Ints:
    """Return how many new rows [O, H] are expected until each sample ahead, if each row lasts as long as the mean row.

    rows  [T] new row of each sample
    """
    age = origins - np.searchsorted(rows, rows[origins])
    hold = len(rows) / (rows[-1] + 1)
    return np.asarray((age[:, None] + np.arange(1, horizon + 1)) / hold + 1e-9, np.int64)


def checked_origins(origins: npt.ArrayLike | None, n_samples: int) -> Ints:
    """Return origins as an array, by default all samples; raise ConfigError outside the recording."""
    at = np.arange(n_samples) if origins is None else np.atleast_1d(np.asarray(origins, dtype=np.int64))
    if len(at) and (at.min() < 0 or at.max() >= n_samples):
        raise ConfigError(f"origins must lie in 0..{n_samples - 1}; got {at.min()}..{at.max()}.")
    return at


def forecast(
    sample: Sampler,
    y: Array,
    horizon: int,
    n_paths: int,
    seed: int,
    at: Ints,
    min_samples: int,
    calibration: Calibration | None,
) -> Forecast:
    """Return a calibrated forecast of a trial [T, N] from the origins `at`; NaN before `min_samples` samples."""
    if horizon < 1:
        raise ConfigError(f"horizon is {horizon}; it must be at least 1.")
    if n_paths < 2:
        raise ConfigError(f"n_paths is {n_paths}; prediction intervals need at least 2.")
    n_channels = y.shape[1]
    if len(at) * horizon * n_channels > _MAX_RESULT_ELEMENTS:
        raise ConfigError(
            f"A forecast of {len(at)} origins x {horizon} steps x {n_channels} channels is too large. "
            "Pass fewer origins, for example origins=range(0, T, 10)."
        )
    raw_width = np.ones((len(LEVELS), horizon, n_channels), np.float32)
    factors = raw_width if calibration is None else calibration.factor(horizon)
    shape = (len(at), horizon, n_channels)
    mean, median, std = (np.full(shape, np.nan, np.float32) for _ in range(3))
    lower, upper = (np.full((len(LEVELS), *shape), np.nan, np.float32) for _ in range(2))
    usable = np.flatnonzero(at >= min_samples - 1)
    chunk = max(1, _CHUNK_ELEMENTS // (n_paths * horizon * n_channels))
    for number, start in enumerate(range(0, len(usable), chunk)):
        rows = usable[start : start + chunk]
        raw = summarise(sample(y, at[rows], horizon, n_paths, seed + 7919 * number), at[rows])
        mean[rows], median[rows] = raw.mean, raw.mean + factors[0] * (raw.median - raw.mean)
        lower[:, rows] = raw.mean + factors[:, None] * (raw.lower - raw.mean)
        upper[:, rows] = raw.mean + factors[:, None] * (raw.upper - raw.mean)
        std[rows] = raw.std * factors[2]
    return Forecast(at, mean, lower, upper, median, std)


def summarise(paths: Array, origins: Ints) -> Forecast:
    """Return mean, standard deviation and intervals of sampled paths [P, O, H, N].

    The k-th smallest of P paths estimates the quantile k / (P + 1). Levels beyond the outermost paths use Student's t with
    the standard deviation of the paths.
    """
    n_paths, shape, n = len(paths), paths.shape[1:], len(LEVELS)
    levels = np.concatenate([(1 - LEVELS) / 2, [0.5], (1 + LEVELS) / 2])
    position = np.clip(levels * (n_paths + 1) - 1, 0, n_paths - 1)
    low = np.floor(position).astype(int)
    weight = (position - low).astype(np.float32)[:, None, None, None]
    high = np.minimum(low + 1, n_paths - 1)
    beyond = (1 + LEVELS) / 2 * (n_paths + 1) > n_paths
    from scipy.special import stdtrit

    widths = stdtrit(n_paths - 1, (1 + LEVELS[beyond]) / 2) * math.sqrt(1 + 1 / n_paths)
    edges = np.empty((len(levels), *shape), np.float32)
    mean, std = np.empty(shape, np.float32), np.empty(shape, np.float32)
    step = max(1, _SORTED_ELEMENTS // max(1, n_paths * math.prod(shape[1:])))
    for begin in range(0, shape[0], step):
        part = slice(begin, begin + step)
        ordered = np.ascontiguousarray(np.moveaxis(paths[:, part], 0, -1))  # [o, H, N, P]
        ordered.sort(axis=-1)
        of_levels = np.moveaxis(ordered, -1, 0)
        edges[:, part] = of_levels[low] * (1 - weight) + of_levels[high] * weight
        mean[part] = ordered.mean(axis=-1)
        ordered -= mean[part][..., None]
        std[part] = np.sqrt(np.einsum("...p,...p->...", ordered, ordered) / (n_paths - 1))
    lower, upper = edges[:n], edges[n + 1 :]
    if beyond.any():
        half = widths.astype(np.float32)[:, None, None, None] * std
        lower[beyond], upper[beyond] = mean - half, mean + half
        lower, upper = np.minimum.accumulate(lower), np.maximum.accumulate(upper)  # intervals nest
    return Forecast(origins, mean, lower, upper, edges[n], std)


def calibrate(
    sample: Sampler, ys: list[Array], min_samples: int, cross_fit: CrossFit = lambda _, __: []
) -> Calibration | None:
    """Return factors with which central intervals cover their nominal share of the trials `ys`."""
    total = sum(len(y) for y in ys)
    whole = [(sample, y, 0, len(y)) for y in spread_stretches(ys, CROSS_FIT_SAMPLES)]
    if total > CROSS_FIT_SAMPLES:
        return _fit_factors(whole, min_samples)
    ends = np.cumsum([len(y) for y in ys])[:-1]
    folds = np.split(np.arange(total) * N_FOLDS // max(total, 1), ends)
    windows: list[tuple[Sampler, Array, int, int]] = []
    for number, one in enumerate(cross_fit(ys, folds)):
        for y, fold in zip(ys, folds, strict=True):
            if len(inside := np.flatnonzero(fold == number)):
                windows.append((one, y, int(inside[0]), int(inside[-1]) + 1))
    return _fit_factors(windows, min_samples) or _fit_factors(whole, min_samples)


def _fit_factors(windows: list[tuple[Sampler, Array, int, int]], min_samples: int) -> Calibration | None:
    """Return factors from windows: (sampler, trial, first sample, end)."""
    horizon = CALIBRATION_HORIZON
    spans = [(max(first, min_samples - 1), after - horizon) for _, _, first, after in windows]
    total = sum(max(0, stop - start) for start, stop in spans)
    if total < 20:
        return None
    scores: list[Array] = []
    for (sample, y, _, _), (first, last) in zip(windows, spans, strict=True):
        if last <= first:
            continue
        n_origins = max(1, round(CALIBRATION_ORIGINS * (last - first) / total))
        at = np.unique(np.linspace(first, last - 1, n_origins).astype(np.int64))
        start = int(max(0, first - _RUN_UP))
        raw = summarise(sample(y[start : last + horizon], at - start, horizon, CALIBRATION_PATHS, 0), at)
        error = (outcomes(y, at, horizon) - raw.mean)[None]
        # Distance of each outcome from the mean, relative to the raw half-width on its side.
        side = np.where(error >= 0, np.maximum(raw.upper - raw.mean, 1e-9), np.maximum(raw.mean - raw.lower, 1e-9))
        scores.append(np.abs(error) / side)
    ordered = np.concatenate([np.moveaxis(part, 1, -1) for part in scores], axis=-1)  # [levels, H, N, O]
    ordered.sort(axis=-1)  # missing outcomes come last
    n = np.isfinite(ordered).sum(axis=-1)  # [levels, H, N]
    if (n < 20).any():
        return None
    share = np.minimum(1.0, LEVELS * (1 + 1 / n.min(axis=(1, 2))))
    position = (share[:, None, None] * (n - 1))[..., None]
    low = np.floor(position).astype(np.int64)
    below, above = (
        np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in (low, np.minimum(low + 1, n[..., None] - 1))
    )
    scale = below + (above - below) * (position - low)[..., 0]
    return Calibration(np.moveaxis(scale, 0, -1).astype(np.float32))


def coverage(predicted: Forecast, y: Values, level: float = 0.9) -> Array:
    """Return the share [H] of known outcomes inside the central interval at each horizon.

    predicted   forecast of `y`
    y           [T, N] observations
    level       nominal coverage of the interval, such as 0.9
    """
    truth = outcomes(np.asarray(y, predicted.mean.dtype), predicted.origins, predicted.horizon)
    low, high = predicted.interval(level)
    known = np.isfinite(truth) & np.isfinite(low)
    inside = (truth >= low) & (truth <= high) & known
    return (inside.sum(axis=(0, 2)) / np.maximum(known.sum(axis=(0, 2)), 1)).astype(np.float32)


def width(predicted: Forecast, level: float = 0.9) -> Array:
    """Return the mean width [H, N] of the central interval for each horizon and channel.

    predicted   a forecast
    level       nominal coverage of the interval, such as 0.9
    """
    low, high = predicted.interval(level)
    known = np.isfinite(high - low)
    return np.where(known, high - low, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
