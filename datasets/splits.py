"""What is fitted, and what is held out as new: said once, for pages and for the scripts that they export."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.text import first_of
from gdm_core.trials import Trial, Trials

from .readers.pose import KeypointSet, KeypointTable

HELD_OUT = 0.4
LEAST_SAMPLES = 40
_FIRST, _LAST = f"first {round(100 * (1 - HELD_OUT))} %", f"last {round(100 * HELD_OUT)} %"


def split_recording(table: KeypointTable) -> tuple[KeypointSet, KeypointSet]:
    """The first part of one recording to fit and the rest to test on; of several the first ones, and the last."""
    if table.recordings:
        tables, n = table.split(), _held_out(len(table.recordings))
        return KeypointSet(tables[:-n], table.name), KeypointSet(tables[-n:], table.name)
    at = cut(table.n_frames)
    began = table.start_seconds + at / table.rate_hz
    first, last = table.slice(0, at, _FIRST), table.slice(at, table.n_frames, _LAST)
    return KeypointSet((first,), table.name), KeypointSet((replace(last, start_seconds=began),), table.name)


def split_trials(trials: Trials) -> tuple[Trials, Trials]:
    """The first trials to fit and the last to test on; a single one is cut in time."""
    if len(trials) > 1:
        n = _held_out(len(trials))
        return replace(trials, trials=trials.trials[:-n]), replace(trials, trials=trials.trials[-n:])
    trial = trials[0]
    at = cut(trial.n_samples)
    return (
        replace(trials, trials=(replace(trial.slice(0, at), name=_FIRST),)),
        replace(trials, trials=(replace(trial.slice(at, trial.n_samples), name=_LAST),)),
    )


def _held_out(n: int) -> int:
    """How many of `n` trials are held out."""
    return max(1, round(HELD_OUT * n))


def cut(n: int) -> int:
    """Where to cut `n` samples."""
    if n < LEAST_SAMPLES:
        raise DataError(
            f"There are {n} samples; at least {LEAST_SAMPLES} are needed to fit on some and test on the rest."
        )
    return int((1 - HELD_OUT) * n)


def is_part(name: str) -> bool:
    """Whether a trial of that name is a part of one recording."""
    return re.fullmatch(r"(first|last) \d+ %", name) is not None


def usable(train: Trials, test: Trials) -> tuple[Trials, Trials, list[str]]:
    """Both without channels that the fitted trials never show moving, and a sentence on these."""
    # The smallest and the largest known value of each channel; infinite where there is none.
    low = np.min([np.fmin.reduce(trial.y, axis=0, initial=np.inf) for trial in train], axis=0)
    high = np.max([np.fmax.reduce(trial.y, axis=0, initial=-np.inf) for trial in train], axis=0)
    scale = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):
        moves = np.isfinite(low) & np.isfinite(high) & (high - low > 1e-6 * np.maximum(scale, 1e-12))
    if moves.all():
        return train, test, []
    names = train[0].channels
    lost = [names[i] for i in np.flatnonzero(~moves)]
    if not moves.any():
        raise DataError(
            f"None of the {len(names)} channels of {train.name!r} varies in the trials to be fitted. "
            "Check the file, or choose other columns."
        )
    said = f"left out, since they never vary in the fitted trials: {first_of(lost, 4)}"
    fitted, new = (replace(side, trials=tuple(with_channels(trial, moves) for trial in side)) for side in (train, test))
    return fitted, new, [said]


def with_channels(trial: Trial, kept: npt.NDArray[np.bool_]) -> Trial:
    """The trial with some of its channels."""
    return replace(trial, y=trial.y[:, kept], channels=tuple(np.array(trial.channels, dtype=object)[kept]))
