"""The shapes that travel between loaders, models and pages: one recording (Trial) and a set of them (Trials).

This module needs numpy alone: `datasets` builds on it and must not load torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

UNLABELLED = -1
Made = TypeVar("Made")


def made_by(recipe: str, made: Made) -> Made:
    """What a simulator gives, known by what made it: processors round the same simulation otherwise in its last bits.

    The recipe is an attribute and no argument of the constructor: whatever is made of it by `replace` or a slice has none, and
    is known by its content again. Its arrays become read-only, so that what it names cannot change under it.

    recipe   the simulator with its version, and everything that it was asked for
    made     a frozen dataclass with a field `recipe` that is not for its constructor
    """
    found: Made = replace(made)  # type: ignore[type-var]
    _keep_still(found)
    object.__setattr__(found, "recipe", recipe)
    return found


def _keep_still(value: Any) -> None:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif is_dataclass(value):
        for one in fields(value):
            _keep_still(getattr(value, one.name))
    elif isinstance(value, tuple | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            _keep_still(part)


_PROBED_STEPS, _PROBED_VALUES = 20_000, 2_000_000
_DETAIL = 0.01  # of the usual step between samples: wider spaced numbers lose the dynamics


def loses_detail(values: npt.NDArray[Any], relative_spacing: float = 2.0**-24) -> bool:
    """Return whether rounding is too coarse for the usual step from sample to sample of any channel.

    values             [T] or [T, N]
    relative_spacing   of the rounded numbers; that of float32 by default
    """
    if len(values) < 2:
        return False
    n = min(len(values) - 1, _PROBED_STEPS, max(500, _PROBED_VALUES * len(values) // max(1, values.size)))
    at = np.unique(np.linspace(0, len(values) - 2, n).astype(np.int64))
    here, after = (np.asarray(values[rows], np.float64).reshape(len(at), -1) for rows in (at, at + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.abs(after - here)
    known = np.isfinite(steps) & (steps > 0)
    spacing = relative_spacing * np.where(known, np.abs(here), 0).max(axis=0)
    # The usual step is the median of those that move: half of them are above what rounding must leave.
    fine = known & (steps < spacing / _DETAIL)
    return bool((2 * fine.sum(axis=0) > known.sum(axis=0)).any())


def working_precision(values: npt.NDArray[Any]) -> type[np.float32] | type[np.float64]:
    """Return float32, or float64 where float32 loses detail: for a small walk far from zero."""
    if values.dtype.itemsize <= 2 or values.dtype in (np.float32, np.bool_) or values.dtype.kind not in "fiu":
        return np.float32
    if not loses_detail(values) or np.nanmax(np.abs(values)) > np.finfo(np.float32).max:
        return np.float32
    return np.float64


def unmasked(array: Any, whole_numbers: bool = False) -> Any:
    """Return a masked array with NaN (or UNLABELLED, for whole numbers) under its mask; anything else as it is."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    hidden, values = np.ma.getmaskarray(array), np.ma.getdata(array)
    return np.where(hidden, UNLABELLED if whole_numbers else np.nan, values)


def _frozen(array: npt.ArrayLike, dtype: type, where: str) -> npt.NDArray[Any]:
    """A read-only, contiguous copy, so that no caller can change what a fingerprint was computed from.

    What is read-only already, such as a part of another trial, is taken as it is: long recordings are cut a lot.
    """
    if isinstance(array, np.ndarray) and array.dtype == dtype and array.flags.c_contiguous and _read_only(array):
        return array
    if np.iscomplexobj(array):
        raise DataError(f"{where}: Complex data not supported. Give real and imaginary parts as channels of their own.")
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused by name
            copy: npt.NDArray[Any] = np.array(array, dtype=dtype, order="C", copy=True)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} is not numeric ({error}). Convert text columns to numbers or drop them.") from error
    copy.flags.writeable = False
    return copy


def _read_only(array: npt.NDArray[Any]) -> bool:
    """Whether neither the array nor what it is a view of can be written to."""
    base = array.base
    return not array.flags.writeable and (base is None or (isinstance(base, np.ndarray) and _read_only(base)))


@dataclass(frozen=True, eq=False)
class Trial:
    """One recording: `y` [T, N], and what is known about each of its T samples.

    y          observations, float32, or float64 where that loses detail (a small walk around 1e6); NaN marks a
               missing value, infinities are refused, masked values become NaN
    rate_hz    samples per second
    channels   N names
    labels     [T] expert state, -1 where unlabelled
    position   [T, 2] where the thing was, for maps
    segments   [T] lap or bout number
    states     [T, K] true soft states, known only for simulations
    start_seconds   when the first sample was taken, on the clock of the whole recording; a slice keeps that clock
    name       what figures and tables call it
    recipe     what made it, where that is a simulator (`made_by`); "" where the samples themselves are what is known
    """

    y: FloatArray
    rate_hz: float = 1.0
    channels: tuple[str, ...] = ()
    labels: IntArray | None = None
    position: FloatArray | None = None
    segments: IntArray | None = None
    states: FloatArray | None = None
    name: str = "trial"
    start_seconds: float = 0.0
    recipe: str = field(default="", init=False)

    def __post_init__(self) -> None:
        where = f"Trial {self.name!r}: y"
        y = unmasked(self.y)
        y = _frozen(y, working_precision(y) if isinstance(y, np.ndarray) else np.float32, where)
        if y.ndim != 2 or y.shape[0] == 0 or y.shape[1] == 0:
            raise DataError(f"{where} has shape {y.shape}; expected [time, channels] with at least one of each.")
        if np.isinf(y).any():
            row, column = np.argwhere(np.isinf(y))[0]
            raise DataError(
                f"{where} is infinite (or too large for float32) at sample {row}, channel {column}. "
                "Mark missing values as NaN."
            )
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0):
            raise DataError(
                f"Trial {self.name!r}: rate_hz is {self.rate_hz}; it must be a positive number of samples per second."
            )
        if not np.isfinite(self.start_seconds):
            raise DataError(
                f"Trial {self.name!r}: start_seconds is {self.start_seconds}; it must be a number of seconds."
            )
        channels = tuple(self.channels) or tuple(f"y{i + 1}" for i in range(y.shape[1]))
        if len(channels) != y.shape[1]:
            raise DataError(f"Trial {self.name!r} has {y.shape[1]} channels but {len(channels)} channel names.")
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "rate_hz", float(self.rate_hz))
        object.__setattr__(self, "start_seconds", float(self.start_seconds))
        object.__setattr__(self, "channels", channels)
        self._set_optional("labels", np.int64, ())
        self._set_optional("position", np.float32, (2,))
        self._set_optional("segments", np.int64, ())
        self._set_optional("states", np.float32, (None,))

    def _set_optional(self, attribute: str, dtype: type, tail: tuple[int | None, ...]) -> None:
        value = getattr(self, attribute)
        if value is None:
            return
        value = unmasked(value, whole_numbers=dtype is np.int64)
        array = _frozen(value, dtype, f"Trial {self.name!r}: {attribute}")
        fits = array.ndim == 1 + len(tail) and array.shape[0] == self.n_samples
        if not fits or any(want not in (None, got) for want, got in zip(tail, array.shape[1:], strict=True)):
            expected = ", ".join([str(self.n_samples), *("K" if want is None else str(want) for want in tail)])
            raise DataError(f"Trial {self.name!r}: {attribute} has shape {array.shape}; expected [{expected}].")
        object.__setattr__(self, attribute, array)

    @property
    def n_samples(self) -> int:
        """T, how many samples."""
        return int(self.y.shape[0])

    @property
    def n_channels(self) -> int:
        """N, how many channels."""
        return int(self.y.shape[1])

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """[T] time of each sample on the clock of the recording."""
        return self.start_seconds + np.arange(self.n_samples) / self.rate_hz

    def slice(self, start: int, stop: int) -> Trial:
        """The samples start..stop-1 with everything known about them, when they were taken included."""
        start, stop, _ = slice(start, stop).indices(self.n_samples)
        parts: dict[str, Any] = {
            key: None if (value := getattr(self, key)) is None else value[start:stop]
            for key in ("y", "labels", "position", "segments", "states")
        }
        return replace(self, **parts, start_seconds=self.start_seconds + start / self.rate_hz)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the recipe, or of the content where there is none. The name does not count, nor does the start: no model
        sees it, and a fit that was kept for the same samples is the same fit."""
        digest = hashlib.sha256()
        if self.recipe:
            digest.update(repr(("recipe", self.recipe, self.y.shape)).encode())
            return digest.hexdigest()
        digest.update(repr((self.rate_hz, self.channels)).encode())
        for key in ("y", "labels", "position", "segments", "states"):
            value = getattr(self, key)
            digest.update(key.encode())
            if value is not None:
                digest.update(repr((value.dtype.str, value.shape)).encode())
                digest.update(value.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Trials:
    """A named set of trials with the same channels.

    name          what messages and files call the set
    label_names   a name for each label, in their order
    """

    trials: tuple[Trial, ...]
    name: str = "data"
    label_names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        trials = tuple(self.trials)
        if not trials:
            raise DataError(f"Trials {self.name!r} is empty; at least one trial is needed.")
        widths = {trial.n_channels for trial in trials}
        if len(widths) > 1:
            first = next(t for t in trials if t.n_channels != trials[0].n_channels)
            raise DataError(
                f"Trials {self.name!r}: {trials[0].name!r} has {trials[0].n_channels} channels but "
                f"{first.name!r} has {first.n_channels}. All trials need the same channels in the same order."
            )
        object.__setattr__(self, "trials", trials)
        object.__setattr__(self, "label_names", tuple(self.label_names))

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __getitem__(self, index: int) -> Trial:
        return self.trials[index]

    @property
    def n_channels(self) -> int:
        """N, the same for all trials."""
        return self.trials[0].n_channels

    @property
    def n_samples(self) -> int:
        """Samples in all trials together."""
        return sum(trial.n_samples for trial in self.trials)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        digest.update(repr(self.label_names).encode())
        for trial in self.trials:
            digest.update(trial.fingerprint.encode())
        return digest.hexdigest()


Recording = Trial | npt.NDArray[Any]  # one: results come back as they are
Recordings = Trials | Sequence[Trial] | Sequence[npt.NDArray[Any]]  # several: results come back in a list
TrialsLike = Recording | Recordings | npt.ArrayLike | Sequence[npt.ArrayLike]


def labels_of(trials: Iterable[Trial]) -> list[npt.NDArray[np.int64]]:
    """[T] labels of each trial; UNLABELLED throughout where it has none."""
    return [
        np.full(one.n_samples, UNLABELLED) if one.labels is None else np.asarray(one.labels, np.int64) for one in trials
    ]


def describe_missing(trials: Iterable[Trial]) -> str:
    """Return a sentence on the share of values that are missing; "" if none are."""
    missing = total = 0
    for one in trials:
        missing += int(np.isnan(one.y).sum())
        total += one.y.size
    if not missing:
        return ""
    percent = 100 * missing / total
    share = f"{percent:.1f}" if percent >= 0.1 else "less than 0.1"
    return f"{share}% of values are missing; the model estimates them from the other channels and from time."


Stretch = tuple[int, int, int, int]  # trial, start, stop (exclusive), number of the word


def painted(trials: Iterable[Trial], stretches: Iterable[Stretch]) -> list[npt.NDArray[np.int64]]:
    """[T] for each trial the number of the word of each sample, UNLABELLED elsewhere."""
    found = [np.full(trial.n_samples, UNLABELLED, np.int64) for trial in trials]
    for trial, start, stop, word in stretches:
        found[trial][start:stop] = word
    return found


def as_trials(data: TrialsLike) -> Trials:
    """Trials from what a user may have: Trials, a Trial, one array [T, N], or a list of either."""
    if isinstance(data, Trials):
        return data
    if isinstance(data, Trial):
        return Trials((data,), name=data.name)
    if isinstance(data, list | tuple):
        if not data:
            raise DataError("The list of trials is empty; at least one trial is needed.")
        if all(isinstance(item, Trial) or np.ndim(item) == 2 for item in data):
            return Trials(
                tuple(
                    item if isinstance(item, Trial) else Trial(np.asarray(unmasked(item)), name=f"trial {i}")
                    for i, item in enumerate(data)
                )
            )
        data = [unmasked(item) for item in data]
    if hasattr(data, "toarray"):
        raise DataError("Sparse data is not supported: a recording has a value in every place. Give data.toarray().")
    array = np.asarray(unmasked(data))
    if array.ndim != 2:
        raise DataError(
            f"Data has {array.ndim} dimensions; expected one array [time, channels], a list of such arrays, or Trials. "
            "Reshape your data: one channel is y[:, None]."
        )
    return Trials((Trial(array, name="trial 0"),))


def is_single(data: TrialsLike) -> bool:
    """Whether `data` is one recording, so that results come back as one array and not as a list."""
    if isinstance(data, Trials):
        return False
    if isinstance(data, list | tuple):
        return not any(isinstance(item, Trial) or np.ndim(item) == 2 for item in data)
    return True
