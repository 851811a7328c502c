"""Values for missing entries (NaN) of a recording [T, N]."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]


def carried_forward(y: npt.NDArray[Any], before: float = 0.0) -> Float:
    """Each gap takes the last value seen of its channel, which a forecast may know, or `before` where there is none yet."""
    values = np.asarray(y, np.float64)
    seen = np.isfinite(values)
    if seen.all():
        return values
    last = np.maximum.accumulate(np.where(seen, np.arange(len(values))[:, None], -1), axis=0)
    return np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=0), before)


def interpolated(y: npt.NDArray[Any]) -> Float:
    """Each gap lies on a straight line between its neighbours in time; zero in a channel without any value."""
    filled = y.astype(np.float64)
    time = np.arange(len(y))
    for channel in np.flatnonzero(~np.isfinite(y).all(axis=0)):
        known = np.flatnonzero(np.isfinite(y[:, channel]))
        filled[:, channel] = np.interp(time, known, y[known, channel]) if len(known) else 0.0
    return filled
