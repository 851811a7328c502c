"""Recordings (Trial) and sets of recordings (Trials).

This module depends only on numpy, because `datasets` uses it and must not import torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Float, Ints, Values
from gdm_core.errors import DataError, DataTypeError
from gdm_core.maths.repeats import Repeats

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

UNLABELLED = -1
SAME_RATE = 0.01  # relative difference of rates that does not count
Simulated = TypeVar("Simulated")


def with_recipe(recipe: str, simulated: Simulated) -> Simulated:
    """Return a copy of simulated data that is identified by its recipe, not its content.

    Processors differ in the last bits of a simulation, so its content would not be a portable identifier. `replace` and slices
    drop the recipe. Arrays become read-only.

    recipe      the simulator, its version and arguments
    simulated   a frozen dataclass with a field `recipe` with `init=False`
    """
    found: Simulated = replace(simulated)  # type: ignore[type-var]
    _freeze_arrays(found)
    object.__setattr__(found, "recipe", recipe)
    return found


def _freeze_arrays(value: Any) -> None:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif is_dataclass(value):
        for one in fields(value):
            _freeze_arrays(getattr(value, one.name))
    elif isinstance(value, tuple | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            _freeze_arrays(part)


_ALONG_TIME = ("y", "labels", "position", "segments", "states")
_MAX_SKIPPED = 0.05  # share of steps of an integer index that may skip rows
_PROBED_STEPS, _PROBED_VALUES = 20_000, 2_000_000
_DETAIL = 0.01  # largest acceptable rounding, relative to the usual step between samples


def loses_detail(values: Values, relative_spacing: float = 2.0**-24) -> bool:
    """Return whether rounding is too coarse for the usual step between samples of any channel.

    values             [T] or [T, N]
    relative_spacing   relative precision; float32 by default
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
    # The usual step is the median of the nonzero ones.
    fine = known & (steps < spacing / _DETAIL)
    return bool((2 * fine.sum(axis=0) > known.sum(axis=0)).any())


def working_precision(values: Values) -> type[np.float32] | type[np.float64]:
    """Return float32, or float64 if float32 loses detail, as for small steps far from zero."""
    if values.dtype.itemsize <= 2 or values.dtype in (np.float32, np.bool_) or values.dtype.kind not in "fiu":
        return np.float32
    if not loses_detail(values) or np.nanmax(np.abs(values)) > np.finfo(np.float32).max:
        return np.float32
    return np.float64


def unmasked(array: Any, whole_numbers: bool = False) -> Any:
    """Replace masked values by NaN (UNLABELLED for whole numbers); return other arrays unchanged."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    hidden, values = np.ma.getmaskarray(array), np.ma.getdata(array)
    return np.where(hidden, UNLABELLED if whole_numbers else np.nan, values)


def _read_only_copy(array: npt.ArrayLike, dtype: type, where: str) -> Values:
    """Return a read-only contiguous array, without a copy if it is read-only already.

    A caller that could write to it would invalidate the fingerprint.
    """
    if isinstance(array, np.ndarray) and array.dtype == dtype and array.flags.c_contiguous and _is_read_only(array):
        return array
    if np.iscomplexobj(array):
        raise DataError(f"{where}: Complex data not supported. Use separate channels for real and imaginary parts.")
    try:
        with np.errstate(over="ignore"):  # overflow becomes infinite, which raises DataError later
            copy: Values = np.array(array, dtype=dtype, order="C", copy=True)
    except (TypeError, ValueError) as error:
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(f"{where} is not numeric ({error}). Convert text columns to numbers or drop them.") from error
    copy.flags.writeable = False
    return copy


def _is_read_only(array: Values) -> bool:
    """Return whether neither the array nor its base is writeable."""
    base = array.base
    return not array.flags.writeable and (base is None or (isinstance(base, np.ndarray) and _is_read_only(base)))


@dataclass(frozen=True, eq=False)
class Trial:
    """A recording: observations `y` [T, N], with optional labels, positions and states.

    y          observations, float32, or float64 if float32 loses detail (such as small steps near 1e6); NaN is a missing
               value, and so are masked values; infinities raise DataError
    rate_hz    samples per second
    channels   N names
    labels     [T] expert labels, -1 if unlabelled
    position   [T, 2] positions, for maps
    segments   [T] lap or bout number
    states     [T, K] true soft states of a simulation
    start_seconds   time of the first sample on the clock of the whole recording, which slices keep
    name       name in figures and tables
    recipe     identifies simulated data, see `with_recipe`; "" for other data
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
        y = _read_only_copy(y, working_precision(y) if isinstance(y, np.ndarray) else np.float32, where)
        if y.ndim == 2 and y.shape[1] == 0:
            raise DataError(f"{where} has 0 feature(s) (shape={y.shape}) while a minimum of 1 is required.")
        if y.ndim != 2 or y.shape[0] == 0:
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
        channels = tuple(self.channels) or default_channels(y.shape[1])
        if len(channels) != y.shape[1]:
            raise DataError(f"Trial {self.name!r} has {y.shape[1]} channels but {len(channels)} channel names.")
        seconds = float(self.start_seconds)
        vars(self).update(y=y, rate_hz=float(self.rate_hz), start_seconds=seconds, channels=channels)
        self._set_optional("labels", np.int64, ())
        self._set_optional("position", np.float32, (2,))
        self._set_optional("segments", np.int64, ())
        self._set_optional("states", np.float32, (None,))

    def _set_optional(self, attribute: str, dtype: type, tail: tuple[int | None, ...]) -> None:
        value = getattr(self, attribute)
        if value is None:
            return
        value = unmasked(value, whole_numbers=dtype is np.int64)
        array = _read_only_copy(value, dtype, f"Trial {self.name!r}: {attribute}")
        fits = array.ndim == 1 + len(tail) and array.shape[0] == self.n_samples
        if not fits or any(want not in (None, got) for want, got in zip(tail, array.shape[1:], strict=True)):
            expected = ", ".join([str(self.n_samples), *("K" if want is None else str(want) for want in tail)])
            raise DataError(f"Trial {self.name!r}: {attribute} has shape {array.shape}; expected [{expected}].")
        vars(self)[attribute] = array

    @property
    def n_samples(self) -> int:
        """Number of samples (T)."""
        return int(self.y.shape[0])

    @property
    def n_channels(self) -> int:
        """Number of channels (N)."""
        return int(self.y.shape[1])

    @property
    def seconds(self) -> Float:
        """Time [T] of each sample on the clock of the recording."""
        return self.start_seconds + np.arange(self.n_samples) / self.rate_hz

    def slice(self, start: int, stop: int) -> Trial:
        """Return the samples start..stop-1 as a trial."""
        start, stop, _ = slice(start, stop).indices(self.n_samples)
        parts = {key: value[start:stop] for key in _ALONG_TIME if (value := getattr(self, key)) is not None}
        return replace(self, **parts, start_seconds=self.start_seconds + start / self.rate_hz)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the recipe, or else of the content, without name and start time."""
        digest = hashlib.sha256()
        if self.recipe:
            digest.update(repr(("recipe", self.recipe, self.y.shape)).encode())
            return digest.hexdigest()
        digest.update(repr((self.rate_hz, self.channels)).encode())
        for key in _ALONG_TIME:
            value = getattr(self, key)
            digest.update(key.encode())
            if value is not None:
                digest.update(repr((value.dtype.str, value.shape)).encode())
                digest.update(value.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Trials:
    """Trials with the same channels at the same rate.

    name          name of the set in messages and files
    label_names   name of each label
    """

    trials: tuple[Trial, ...]
    name: str = "data"
    label_names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        trials = tuple(self.trials)
        if not trials:
            raise DataError(f"Trials {self.name!r} is empty; at least one trial is needed.")
        for other in trials[1:]:
            if other.n_channels != trials[0].n_channels:
                raise DataError(
                    f"Trials {self.name!r}: {trials[0].name!r} has {trials[0].n_channels} channels but "
                    f"{other.name!r} has {other.n_channels}. All trials need the same channels in the same order."
                )
            check_alike(repr(trials[0].name), trials[0].channels, trials[0].rate_hz, other)
        vars(self).update(trials=trials, label_names=tuple(self.label_names))

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __getitem__(self, index: int) -> Trial:
        return self.trials[index]

    @property
    def n_channels(self) -> int:
        """Number of channels (N) of each trial."""
        return self.trials[0].n_channels

    @property
    def n_samples(self) -> int:
        """Total number of samples."""
        return sum(trial.n_samples for trial in self.trials)

    @cached_property
    def repeats(self) -> Repeats:
        """Repeated values of the channels."""
        return Repeats.find([trial.y for trial in self.trials])

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on missing and repeated values, and what a fit does with them."""
        repeated = (f"{line[0].upper()}{line[1:]}." for line in self.repeats.describe(self.trials[0].channels))
        return tuple(filter(None, (describe_missing(self.trials), *repeated)))

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        digest.update(repr(self.label_names).encode())
        for trial in self.trials:
            digest.update(trial.fingerprint.encode())
        return digest.hexdigest()


def check_alike(name: str, channels: Sequence[str], rate_hz: float, trial: Trial) -> None:
    """Raise DataError if a trial has other channels than `name`, or another rate."""
    if tuple(channels) != trial.channels:
        one, two = next((a, b) for a, b in zip(channels, trial.channels, strict=True) if a != b)
        raise DataError(
            f"{trial.name!r} has the channel {two!r} where {name} has {one!r}. Channels must be the same, in the same order: "
            f"{', '.join(channels)}."
        )
    if abs(trial.rate_hz - rate_hz) > SAME_RATE * rate_hz:
        raise DataError(
            f"{trial.name!r} has {trial.rate_hz:g} samples per second, {name} has {rate_hz:g}. States last and move differently "
            "at another rate; resample it."
        )


Recording = Trial | Values  # functions return a single result
Recordings = Trials | Sequence[Trial] | Sequence[Values]  # functions return a list of results
TrialsLike = Recording | Recordings | npt.ArrayLike | Sequence[npt.ArrayLike]


def default_channels(n: int) -> tuple[str, ...]:
    """Return the names of channels without names: y1, y2, ..."""
    return tuple(f"y{i + 1}" for i in range(n))


def labels_of(trials: Iterable[Trial]) -> list[Ints]:
    """Return the labels [T] of each trial; all UNLABELLED if it has none."""
    return [
        np.full(one.n_samples, UNLABELLED) if one.labels is None else np.asarray(one.labels, np.int64) for one in trials
    ]


def describe_missing(trials: Iterable[Trial]) -> str:
    """Return a sentence on the share of missing values; "" if none are missing."""
    missing = total = 0
    for one in trials:
        missing += int(np.isnan(one.y).sum())
        total += one.y.size
    if not missing:
        return ""
    percent = 100 * missing / total
    share = f"{percent:.1f}" if percent >= 0.1 else "less than 0.1"
    return f"{share}% of values are missing; the model estimates them from the other channels and from time."


Stretch = tuple[int, int, int, int]  # trial, start, stop (exclusive), label


def paint_labels(trials: Iterable[Trial], stretches: Iterable[Stretch]) -> list[Ints]:
    """Return labels [T] of each trial from labelled stretches; UNLABELLED elsewhere."""
    found = [np.full(trial.n_samples, UNLABELLED, np.int64) for trial in trials]
    for trial, start, stop, label in stretches:
        found[trial][start:stop] = label
    return found


def as_trials(data: TrialsLike) -> Trials:
    """Convert Trials, a Trial, an array [T, N] or [B, T, N], a DataFrame, or a list of recordings, to Trials."""
    if isinstance(data, Trials):
        return data
    if isinstance(data, Trial):
        return Trials((data,), name=data.name)
    if isinstance(data, list | tuple):
        if not data:
            raise DataError("The list of trials is empty; at least one trial is needed.")
        if all(_is_recording(item) for item in data):
            return Trials(tuple(_to_trial(item, f"trial {i}") for i, item in enumerate(data)))
        data = [unmasked(item) for item in data]
    if hasattr(data, "toarray"):
        raise DataError("Sparse data is not supported. Pass data.toarray().")
    array: Any = data if hasattr(data, "ndim") else np.asarray(data)
    if array.ndim == 3:
        return as_trials(list(array))
    if array.ndim != 2:
        raise DataError(
            f"Data has {array.ndim} dimensions; expected one array [time, channels], several in an array "
            "[recordings, time, channels] or a list, or Trials. Reshape your data: one channel is y[:, None]."
        )
    return Trials((_to_trial(array, "trial 0"),))


def _is_recording(item: Any) -> bool:
    return isinstance(item, Trial) or np.ndim(item) == 2


def is_single(data: TrialsLike) -> bool:
    """Return whether `data` is one recording, so results are not lists."""
    if isinstance(data, list | tuple):
        return not any(_is_recording(item) for item in data)
    return isinstance(data, Trial) or (not isinstance(data, Trials) and getattr(data, "ndim", 2) != 3)


def _to_trial(data: Any, name: str) -> Trial:
    """Convert an array, a tensor or a DataFrame to a trial; a Trial is returned unchanged."""
    if isinstance(data, Trial):
        return data
    if getattr(data, "requires_grad", False):
        raise DataError("The data are a tensor with gradients, which fits do not use. Pass tensor.detach().")
    columns = tuple(getattr(data, "columns", ()))
    rate_hz = _read_index(data.index) if columns else Trial.rate_hz
    channels = columns if all(isinstance(column, str) for column in columns) else ()
    return Trial(np.asarray(unmasked(data)), rate_hz, channels=channels, name=name)


def _read_index(labels: Any) -> float:
    """Return the samples per second of a pandas index of times, else the default; raise DataError unless rows are in order."""
    index = np.asarray(labels if getattr(labels, "tz", None) is None else labels.tz_convert(None))
    if index.dtype.kind not in "iufMm" or len(index) < 3:
        return Trial.rate_hz
    steps = np.diff(index).astype(np.float64)
    advice = "For cross-validation, use KFold(shuffle=False) or TimeSeriesSplit."
    if (steps < 0).any():
        row = int((steps < 0).argmax()) + 1
        raise DataError(f"Rows are not in order of time: the index decreases at row {row}. Sort them. {advice}")
    usual = float(np.median(steps))
    if index.dtype.kind in "iu":
        if (steps > 1.5 * usual).mean() > _MAX_SKIPPED:
            raise DataError(
                f"Rows are missing all over the recording, as in shuffled folds. {advice} Mark gaps as NaN."
            )
        return Trial.rate_hz
    if (steps == 0).any():
        row = int((steps == 0).argmax()) + 1
        raise DataError(f"Rows {row - 1} and {row} have the same time. Drop or average repeated times.")
    if (steps > 1.5 * usual).any():
        row = int((steps > 1.5 * usual).argmax()) + 1
        raise DataError(
            f"Time jumps by {steps[row - 1] / usual:.1f} steps at row {row}. Insert the missing rows as NaN "
            "(DataFrame.asfreq or reindex), or pass a list of recordings."
        )
    if index.dtype.kind in "Mm":
        unit = f"timedelta64[{np.datetime_data(index.dtype)[0]}]"
        usual /= float(np.array(1, "timedelta64[s]").astype(unit).astype(np.float64))
    return float(1 / usual)
