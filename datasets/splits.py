"""Splits into training and held-out data, shared by pages and the scripts they export."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.text import first_of
from gdm_core.trials import Trial, Trials

from .readers.pose import KeypointSet, KeypointTable

HELD_OUT = 0.4
MIN_SAMPLES = 40
_FIRST, _LAST = f"first {round(100 * (1 - HELD_OUT))}%", f"last {round(100 * HELD_OUT)}%"


def split_recording(table: KeypointTable) -> tuple[KeypointSet, KeypointSet]:
    """Split recordings into first and last ones, or a single recording in time."""
    if table.recordings:
        tables, n = table.split(), _count_held_out(len(table.recordings))
        return KeypointSet(tables[:-n], table.name), KeypointSet(tables[-n:], table.name)
    at = split_point(table.n_frames)
    start = table.start_seconds + at / table.rate_hz
    first, last = table.slice(0, at, _FIRST), table.slice(at, table.n_frames, _LAST)
    return KeypointSet((first,), table.name), KeypointSet((replace(last, start_seconds=start),), table.name)


def split_trials(trials: Trials) -> tuple[Trials, Trials]:
    """Split trials into first and last ones, or a single trial in time."""
    if len(trials) > 1:
        n = _count_held_out(len(trials))
        return replace(trials, trials=trials.trials[:-n]), replace(trials, trials=trials.trials[-n:])
    trial = trials[0]
    at = split_point(trial.n_samples)
    return (
        replace(trials, trials=(replace(trial.slice(0, at), name=_FIRST),)),
        replace(trials, trials=(replace(trial.slice(at, trial.n_samples), name=_LAST),)),
    )


def _count_held_out(n: int) -> int:
    """Return the number of held-out trials out of n."""
    return max(1, round(HELD_OUT * n))


def split_point(n: int) -> int:
    """Return the sample at which to split n samples."""
    if n < MIN_SAMPLES:
        raise DataError(
            f"There are {n} samples; at least {MIN_SAMPLES} are needed to split them into training and test data."
        )
    return int((1 - HELD_OUT) * n)


def is_part(name: str) -> bool:
    """Return True if a trial of this name is part of a split recording."""
    return name in (_FIRST, _LAST)


def usable(train: Trials, test: Trials) -> tuple[Trials, Trials, list[str]]:
    """Drop channels that are constant in the training trials; return both sides and notes."""
    # Infinite for channels without values.
    low = np.min([np.fmin.reduce(trial.y, axis=0, initial=np.inf) for trial in train], axis=0)
    high = np.max([np.fmax.reduce(trial.y, axis=0, initial=-np.inf) for trial in train], axis=0)
    scale = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):
        varies = np.isfinite(low) & np.isfinite(high) & (high - low > 1e-6 * np.maximum(scale, 1e-12))
    if varies.all():
        return train, test, []
    names = train[0].channels
    lost = [names[i] for i in np.flatnonzero(~varies)]
    if not varies.any():
        raise DataError(
            f"None of the {len(names)} channels of {train.name!r} varies in the training trials. "
            "Check the file, or choose other columns."
        )
    note = f"left out, since they are constant in the training trials: {first_of(lost, 4)}"
    fitted, new = (
        replace(side, trials=tuple(select_channels(trial, varies) for trial in side)) for side in (train, test)
    )
    return fitted, new, [note]


def select_channels(trial: Trial, kept: npt.NDArray[np.bool_]) -> Trial:
    """Return the trial with the channels in the mask `kept`."""
    return replace(trial, y=trial.y[:, kept], channels=tuple(np.array(trial.channels, dtype=object)[kept]))
