"""Forecasts from every origin, with envelopes that hold what they promise.

A model samples futures; their order statistics, or for levels that few paths cannot reach their spread, are a first
guess of the envelope. Errors of the fit compound over the horizon, so the guess is rescaled per horizon, channel and
level until it covers its nominal share of known outcomes. Each fifth of the training data is predicted with dynamics
that were estimated without it; where a family cannot do that cheaply, or data are so many that it makes no difference,
with the fit itself. `coverage` measures what an envelope really holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError

Array = npt.NDArray[np.float32]
# (trial [T, N], origins [O], horizon, number of paths, seed) -> sampled futures [P, O, H, N]
Sampler = Callable[[Array, npt.NDArray[np.int64], int, int, int], Array]
# (trials, [T] of each, the fold of each sample) -> a sampler for each fold, made without it
CrossFit = Callable[[list[Array], list[npt.NDArray[np.int64]]], list[Sampler]]

# Central intervals whose width is calibrated; other levels interpolate between these.
LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99], dtype=np.float32)
CALIBRATION_HORIZON = 10
CALIBRATION_ORIGINS = 400
CALIBRATION_PATHS = 60
N_FOLDS = 5
CROSS_FIT_SAMPLES = 20_000  # beyond, a fit hardly follows its own data more closely than others
_RUN_UP = 128  # samples before the first origin that a model sees
_CHUNK_ELEMENTS = 20_000_000
_MAX_RESULT_ELEMENTS = 60_000_000
_SORTED_ELEMENTS = 250_000  # of futures, sorted at once: a core's own memory holds them


@dataclass(frozen=True)
class Calibration:
    """Factors on the distance of an envelope's edge from the mean."""

    scale: Array  # [H, N, levels]

    def factor(self, horizon: int) -> Array:
        """[levels, H, N] factors; past the calibrated horizon the last one holds."""
        steps = np.minimum(np.arange(horizon), self.scale.shape[0] - 1)
        return np.moveaxis(self.scale[steps], -1, 0)


@dataclass(frozen=True)
class Forecast:
    """Predictions from each origin. Row o, column h-1 predicts y[origins[o] + h] from y[..origins[o]].

    mean, median, std   [O, H, N] of the calibrated envelope
    lower, upper        [levels, O, H, N] edges of its central intervals
    """

    origins: npt.NDArray[np.int64]  # [O]
    mean: Array  # [O, H, N]
    lower: Array  # [levels, O, H, N] edges of the central intervals LEVELS
    upper: Array  # [levels, O, H, N]
    median: Array  # [O, H, N]
    std: Array  # [O, H, N] of the calibrated envelope

    def rescaled(self, center: Array, scale: Array) -> Forecast:
        """The same in other units: values times `scale` [N] plus `center` [N]."""

        def undo(values: Array) -> Array:
            result: Array = (values * scale + center).astype(center.dtype)
            return result

        edges = undo(self.lower), undo(self.upper)
        return Forecast(self.origins, undo(self.mean), *edges, undo(self.median), self.std * scale)

    @property
    def horizon(self) -> int:
        """H, how many steps ahead it goes."""
        return int(self.mean.shape[1])

    def quantile(self, q: float) -> Array:
        """[O, H, N] the q-quantile, interpolated between calibrated levels; q in [0.005, 0.995]."""
        if not 0.005 <= q <= 0.995:
            raise ConfigError(f"quantile q is {q}; envelopes are calibrated for q in [0.005, 0.995].")
        edges = np.concatenate([self.lower[::-1], self.median[None], self.upper])
        levels = np.concatenate([(1 - LEVELS[::-1]) / 2, [0.5], (1 + LEVELS) / 2])
        high = int(np.clip(np.searchsorted(levels, q), 1, len(levels) - 1))
        from scipy.special import ndtri  # interpolating in normal scores keeps a Gaussian's quantiles exact

        low_score, high_score = ndtri(levels[high - 1]), ndtri(levels[high])
        weight = np.float32((ndtri(q) - low_score) / (high_score - low_score))
        result: Array = edges[high - 1] * (1 - weight) + edges[high] * weight
        return result

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """Lower and upper edge [O, H, N] of the central interval.

        coverage   share of outcomes that should lie between them, such as 0.9
        """
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


def outcomes(y: npt.NDArray[Any], origins: npt.NDArray[np.int64], horizon: int) -> Array:
    """[O, H, N] what really followed each origin; NaN past the end."""
    index = origins[:, None] + np.arange(1, horizon + 1)
    dtype = y.dtype if y.dtype == np.float64 else np.float32
    result: Array = np.where((index < len(y))[..., None], y[np.minimum(index, len(y) - 1)], np.nan).astype(dtype)
    return result


def forecast(
    sample: Sampler,
    y: Array,
    horizon: int,
    n_paths: int,
    seed: int,
    origins: npt.ArrayLike | None,
    min_samples: int,
    calibration: Calibration | None,
) -> Forecast:
    """Calibrated forecast of a trial [T, N], from origins that have at least `min_samples` samples up to them."""
    if horizon < 1:
        raise ConfigError(f"horizon is {horizon}; it must be at least 1.")
    if n_paths < 2:
        raise ConfigError(f"n_paths is {n_paths}; at least 2 are needed for an envelope.")
    first = min_samples - 1
    at = np.arange(len(y)) if origins is None else np.atleast_1d(np.asarray(origins, dtype=np.int64))
    if len(at) and (at.min() < 0 or at.max() >= len(y)):
        raise ConfigError(f"origins must lie in 0..{len(y) - 1}; got {at.min()}..{at.max()}.")
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
    usable = np.flatnonzero(at >= first)
    chunk = max(1, _CHUNK_ELEMENTS // (n_paths * horizon * n_channels))
    for number, start in enumerate(range(0, len(usable), chunk)):
        rows = usable[start : start + chunk]
        raw = summarise(sample(y, at[rows], horizon, n_paths, seed + 7919 * number), at[rows])
        mean[rows], median[rows] = raw.mean, raw.mean + factors[0] * (raw.median - raw.mean)
        lower[:, rows] = raw.mean + factors[:, None] * (raw.lower - raw.mean)
        upper[:, rows] = raw.mean + factors[:, None] * (raw.upper - raw.mean)
        std[rows] = raw.std * factors[2]
    return Forecast(at, mean, lower, upper, median, std)


def summarise(paths: Array, origins: npt.NDArray[np.int64]) -> Forecast:
    """Mean, spread and interval edges of sampled futures [P, O, H, N].

    The k-th smallest of P paths has a share k / (P + 1) of futures below it. Levels beyond the outermost paths take the
    interval that a Gaussian with the spread of P paths would have (Student's t).
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
    """Factors that make the central intervals cover their nominal share of the outcomes in the trials `ys`."""
    whole = [(sample, y, 0, len(y)) for y in ys]
    total = sum(len(y) for y in ys)
    if total > CROSS_FIT_SAMPLES:
        return _calibrated(whole, min_samples)
    ends = np.cumsum([len(y) for y in ys])[:-1]
    folds = np.split(np.arange(total) * N_FOLDS // max(total, 1), ends)
    held: list[tuple[Sampler, Array, int, int]] = []
    for number, one in enumerate(cross_fit(ys, folds)):
        for y, fold in zip(ys, folds, strict=True):
            if len(inside := np.flatnonzero(fold == number)):
                held.append((one, y, int(inside[0]), int(inside[-1]) + 1))
    return _calibrated(held, min_samples) or _calibrated(whole, min_samples)


def _calibrated(windows: list[tuple[Sampler, Array, int, int]], min_samples: int) -> Calibration | None:
    """Factors from origins and outcomes inside windows: a sampler, a trial, the first sample and the one after the last."""
    horizon = CALIBRATION_HORIZON
    spans = [(max(first, min_samples - 1), after - horizon) for _, _, first, after in windows]
    total = sum(max(0, stop - start) for start, stop in spans)
    if total < 20:
        return None
    scores: list[Array] = []
    for (sample, y, _, _), (first, last) in zip(windows, spans, strict=True):
        if last <= first:
            continue
        wanted = max(1, round(CALIBRATION_ORIGINS * (last - first) / total))
        at = np.unique(np.linspace(first, last - 1, wanted).astype(np.int64))
        start = int(max(0, first - _RUN_UP))
        raw = summarise(sample(y[start : last + horizon], at - start, horizon, CALIBRATION_PATHS, 0), at)
        error = (outcomes(y, at, horizon) - raw.mean)[None]
        # How far, in units of the raw half-width on its own side, each outcome lies from the mean.
        side = np.where(error >= 0, np.maximum(raw.upper - raw.mean, 1e-9), np.maximum(raw.mean - raw.lower, 1e-9))
        scores.append(np.abs(error) / side)
    ordered = np.concatenate([np.moveaxis(part, 1, -1) for part in scores], axis=-1)  # [levels, H, N, O]
    ordered.sort(axis=-1)  # outcomes that are missing come last
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


def coverage(predicted: Forecast, y: npt.NDArray[Any], level: float = 0.9) -> Array:
    """[H] the share of known outcomes inside the central interval at each horizon.

    predicted   a forecast of `y`
    y           [T, N] what came
    level       of the interval, such as 0.9
    """
    truth = outcomes(np.asarray(y, predicted.mean.dtype), predicted.origins, predicted.horizon)
    low, high = predicted.interval(level)
    known = np.isfinite(truth) & np.isfinite(low)
    inside = (truth >= low) & (truth <= high) & known
    share: Array = (inside.sum(axis=(0, 2)) / np.maximum(known.sum(axis=(0, 2)), 1)).astype(np.float32)
    return share


def width(predicted: Forecast, level: float = 0.9) -> Array:
    """[H, N] the mean width of the central interval of each horizon and channel, over the origins that have one.

    predicted   a forecast
    level       of the interval, such as 0.9
    """
    low, high = predicted.interval(level)
    known = np.isfinite(high - low)
    found: Array = np.where(known, high - low, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return found
