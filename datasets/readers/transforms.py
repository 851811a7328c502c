"""Logarithms of positive channels, log-ratios of parts of a whole, and cosines and sines of angles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError

_LEAST_GAIN = 0.2  # nats per value by which a lognormal distribution must be better than a normal one
_FEWEST_VALUES = 100
_WHOLE = 1e-3  # relative deviation of a whole from its mean
DEGREES = 360.0  # a full turn

Floats = npt.NDArray[np.floating[Any]]


def find_skewed(y: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Return the channels of [T, N] that are positive and far better described by a lognormal distribution."""
    found = []
    for name, column in zip(names, y.T, strict=True):
        values = column[np.isfinite(column)].astype(np.float64)
        if len(values) < _FEWEST_VALUES or values.min() <= 0 or values.min() == values.max():
            continue
        logs = np.log(values)
        if np.log(values.std()) - np.log(logs.std()) - logs.mean() > _LEAST_GAIN:
            found.append(name)
    return tuple(found)


def is_composition(y: Floats) -> bool:
    """Return whether the channels of [T, N] are at least three parts of a constant whole."""
    rows = y[np.isfinite(y).all(axis=1)].astype(np.float64)
    if y.shape[1] < 3 or len(rows) < _FEWEST_VALUES or rows.min() < 0 or (np.ptp(rows, axis=0) == 0).any():
        return False
    whole = rows.sum(axis=1)
    return bool(np.ptp(whole) <= _WHOLE * whole.mean())


def take_logs(y: Floats, names: Sequence[str], chosen: Collection[str]) -> tuple[Floats, tuple[str, ...]]:
    """Replace the chosen channels by their logarithms."""
    if unknown := [name for name in chosen if name not in names]:
        raise ConfigError(f"log names {', '.join(unknown)}, which is no channel; channels are {', '.join(names)}.")
    made = y.copy()
    for j, name in enumerate(names):
        if name in chosen:
            if low := int((y[:, j] <= 0).sum()):
                raise DataError(
                    f"Channel {name} has {low:,} values of 0 or less, which have no logarithm. Keep it as it is."
                )
            made[:, j] = np.log(y[:, j])
    return made, tuple(f"log {name}" if name in chosen else name for name in names)


def take_cosines(y: Floats, names: Sequence[str], turns: Mapping[str, float]) -> tuple[Floats, tuple[str, ...]]:
    """Replace each angle, given with its full turn, by its cosine and sine."""
    columns, made = [], []
    for name, column in zip(names, y.T, strict=True):
        if turn := turns.get(name):
            radians = column * (2 * np.pi / turn)
            columns += [np.cos(radians), np.sin(radians)]
            unit = "°" if turn == DEGREES else ""
            made += [f"cos {name}{unit}", f"sin {name}{unit}"]
        else:
            columns.append(column)
            made.append(name)
    return np.stack(columns, axis=1), tuple(made)


def find_turns(channels: Iterable[str]) -> dict[str, float]:
    """Return the angles, with their full turns, whose cosines `take_cosines` named so."""
    names = [name.removeprefix("cos ") for name in channels if name.startswith("cos ")]
    return {name.removesuffix("°"): DEGREES if name.endswith("°") else 2 * np.pi for name in names}


def take_log_ratios(y: Floats, names: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """Return isometric log-ratios: of each part to the geometric mean of those before it.

    Zeros count as half of the smallest part.
    """
    if len(names) < 2 or (y < 0).any():
        raise DataError("Log-ratios need two or more channels without negative values. Keep the channels as they are.")
    logs = np.log(np.where(y == 0, np.nanmin(y, initial=np.inf, where=y > 0) / 2, y))
    ratios = [np.sqrt(j / (j + 1)) * (logs[:, j] - logs[:, :j].mean(axis=1)) for j in range(1, len(names))]
    return np.stack(ratios, axis=1), tuple(f"log-ratio {name}" for name in names[1:])
