"""Ways in and out for data of other libraries: xarray in movement's layout, pynapple, NWB with poses of ndx-pose.

None of them is needed by anything else here. `pip install gdm-studio[xarray]`, `[pynapple]` or `[nwb]` brings one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import stays
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials

if TYPE_CHECKING:
    import pynapple
    import xarray
    from pynwb import NWBFile
    from pynwb.epoch import TimeIntervals

__all__ = [
    "add_bouts_to_nwb", "bouts_to_pynapple", "from_nwb", "from_pynapple", "from_xarray", "states_to_pynapple",
    "to_xarray",
]  # fmt: skip

_JITTER = 0.01  # of a step: what clocks may differ by and still be even


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise DataError(f"This needs {name}, which is not installed: pip install gdm-studio[{extra}]") from error


def _even(seconds: npt.NDArray[Any], where: str) -> tuple[float, float]:
    """(samples a second, when the first was taken) of clock readings that are even."""
    if len(seconds) < 2:
        raise DataError(f"{where} has {len(seconds)} samples; a rate takes two at the least.")
    steps = np.diff(np.asarray(seconds, np.float64))
    step = float(np.median(steps))
    if not step > 0 or np.abs(steps - step).max() > _JITTER * step + 1e-6:
        at = int(np.abs(steps - step).argmax())
        raise DataError(
            f"{where} is not even in time: {steps[at]:g} s between samples {at} and {at + 1}, {step:g} s elsewhere. "
            "Interpolate it to an even clock, or cut it there."
        )
    return (len(seconds) - 1) / float(seconds[-1] - seconds[0]), float(seconds[0])


# ---- xarray, as movement lays it out ------------------------------------------------------------------------------------
def from_xarray(data: xarray.Dataset | xarray.DataArray, name: str = "") -> Trials:
    """Trials of one recording from movement's layout: dimensions time, space, keypoints, individuals (the last two optional).

    Channels are called "individual keypoint axis". Of a Dataset its `position` is taken; time in frames takes its rate from the
    attribute `fps`.

    data   a Dataset of poses, or an array with a dimension `time`
    name   of the trial; without it the array's or the file's
    """
    _library("xarray", "xarray")
    array: Any = data
    if hasattr(data, "data_vars"):
        if "position" not in data.data_vars:
            raise DataError(
                f"The Dataset has no variable 'position'; it has {', '.join(map(str, data.data_vars)) or 'none'}."
            )
        array = data["position"]
    if "time" not in array.dims:
        raise DataError(f"The array has the dimensions {', '.join(map(str, array.dims))}; one of them must be 'time'.")
    order = [one for one in ("individuals", "keypoints", "space") if one in array.dims]
    rest = [one for one in array.dims if one not in ("time", *order)]
    array = array.transpose("time", *rest, *order)
    names = [[str(value) for value in array[dim].values] for dim in array.dims[1:]]
    channels = [""]
    for parts in names:
        channels = [f"{before} {part}".strip() for before in channels for part in parts]
    attributes = {**array.attrs, **getattr(data, "attrs", {})}
    called = name or str(attributes.get("source_file") or array.name or "trial").rsplit("/", 1)[-1]
    seconds = (
        np.asarray(array["time"].values, np.float64)
        if "time" in array.coords
        else np.arange(array.shape[0], dtype=float)
    )
    unit = attributes.get("time_unit", "seconds" if "time" in array.coords else "frames")
    if unit == "frames":
        seconds = seconds / float(attributes.get("fps") or 1.0)
    rate_hz, start = _even(seconds, called)
    y = np.asarray(array.values, np.float32).reshape(array.shape[0], -1)
    return Trials((Trial(y, rate_hz, tuple(channels), name=called, start_seconds=start),), called)


def to_xarray(trial: Trial, states: npt.ArrayLike | None = None) -> xarray.Dataset:
    """A Dataset with `time` in seconds: as `position` in movement's layout where channels are called "individual keypoint axis"
    and all of these are there; as `channels` [time, channel] otherwise. States become `states` [time, state].

    trial    one recording
    states   [T, K] soft states of it
    """
    xr = _library("xarray", "xarray")
    parts = [channel.split(" ") for channel in trial.channels]
    made: dict[str, Any] = {"channels": (("time", "channel"), trial.y)}
    coords: dict[str, Any] = {"time": trial.seconds, "channel": list(trial.channels)}
    if all(len(part) >= 3 and part[-1] in ("x", "y", "z") for part in parts):
        keys = [(part[0], " ".join(part[1:-1]), part[-1]) for part in parts]
        axes = [list(dict.fromkeys(key[i] for key in keys)) for i in range(3)]  # individuals, keypoints, space
        if len(set(keys)) == len(keys) == np.prod([len(one) for one in axes]):
            place = {key: j for j, key in enumerate(keys)}
            at = [[[place[(who, part, axis)] for who in axes[0]] for part in axes[1]] for axis in axes[2]]
            made = {"position": (("time", "space", "keypoints", "individuals"), trial.y[:, np.array(at)])}
            coords = {"time": trial.seconds, "space": axes[2], "keypoints": axes[1], "individuals": axes[0]}
    if states is not None:
        soft = _states_of(trial, states)
        made["states"] = (("time", "state"), soft)
        coords["state"] = [f"S{k + 1}" for k in range(soft.shape[1])]
    attributes = {"fps": trial.rate_hz, "time_unit": "seconds", "source_file": trial.name, "ds_type": "poses"}
    return xr.Dataset(made, coords, attributes)


def _states_of(trial: Trial, states: npt.ArrayLike) -> npt.NDArray[np.float32]:
    soft = np.asarray(states, np.float32)
    if soft.ndim != 2 or len(soft) != trial.n_samples:
        raise DataError(
            f"States have shape {soft.shape} but trial {trial.name!r} has {trial.n_samples} samples; expected [time, states]."
        )
    return soft


# ---- pynapple -----------------------------------------------------------------------------------------------------------
def from_pynapple(frame: pynapple.TsdFrame, name: str = "trial") -> Trials:
    """Trials from a TsdFrame: one for each interval of its time support.

    frame   channels over time
    name    of the set; with several intervals each trial has its number
    """
    _library("pynapple", "pynapple")
    support = frame.time_support
    trials = []
    for i in range(len(support)):
        part = frame.restrict(support[i])
        called = name if len(support) == 1 else f"{name} {i + 1}"
        rate_hz, start = _even(part.t, called)
        channels = tuple(str(column) for column in part.columns)
        trials.append(Trial(np.asarray(part.d, np.float32), rate_hz, channels, name=called, start_seconds=start))
    return Trials(tuple(trials), name)


def states_to_pynapple(trial: Trial, states: npt.ArrayLike) -> pynapple.TsdFrame:
    """Soft states as a TsdFrame with columns S1, S2, ...

    trial    one recording
    states   [T, K] soft states of it
    """
    nap = _library("pynapple", "pynapple")
    soft = _states_of(trial, states)
    return nap.TsdFrame(t=trial.seconds, d=soft, columns=[f"S{k + 1}" for k in range(soft.shape[1])])


def bouts_to_pynapple(
    trial: Trial, bouts: npt.ArrayLike, names: Sequence[str] | None = None
) -> dict[str, pynapple.IntervalSet]:
    """Bouts as an IntervalSet a state; a bout ends where the next begins, less a microsecond, so that they stay apart.

    trial   one recording
    bouts   [T] the state of each moment, -1 where nothing is known
    names   of the states
    """
    nap = _library("pynapple", "pynapple")
    return {
        name: nap.IntervalSet(start=start, end=stop - 1e-6)
        for name, (start, stop) in _intervals(trial, bouts, names).items()
    }


def _intervals(trial: Trial, bouts: npt.ArrayLike, names: Sequence[str] | None) -> Mapping[str, tuple[Any, Any]]:
    """State by name -> when its bouts begin and end, in seconds on the recording's clock."""
    labels = np.asarray(bouts)
    if labels.shape != (trial.n_samples,):
        raise DataError(
            f"Bouts have shape {labels.shape} but trial {trial.name!r} has {trial.n_samples} samples; one state each is needed."
        )
    if names is not None and int(labels.max(initial=-1)) >= len(names):
        raise DataError(
            f"There are bouts of state {int(labels.max())} but {len(names)} names; give one for each state, from 0."
        )
    edges = stays(labels)
    state = labels[edges[:, 0]]
    found = {}
    for k in np.unique(state[state >= 0]).tolist():
        its = edges[state == k]
        start, stop = (trial.start_seconds + its[:, i] / trial.rate_hz for i in (0, 1))
        found[names[k] if names is not None else f"S{k + 1}"] = (start, stop)
    return found


# ---- NWB ----------------------------------------------------------------------------------------------------------------
def from_nwb(file: NWBFile, min_confidence: float = 0.0) -> Trials:
    """Trials from the poses of an NWB file (ndx-pose), one for each PoseEstimation; its keypoints must share a clock.

    file             an open NWBFile
    min_confidence   keypoints below it count as missing
    """
    _library("ndx_pose", "nwb")
    found = [one for one in file.objects.values() if getattr(one, "neurodata_type", "") == "PoseEstimation"]
    if not found:
        raise DataError(f"The NWB file {file.identifier!r} holds no PoseEstimation (ndx-pose).")
    return Trials(tuple(_pose_trial(one, min_confidence) for one in found), str(file.identifier))


def _pose_trial(pose: Any, min_confidence: float) -> Trial:
    series = list(pose.pose_estimation_series.values())
    columns, channels, clocks = [], [], []
    for one in series:
        y = np.array(one.data[:], np.float32)  # [T, 2 or 3]
        if min_confidence > 0 and one.confidence is not None:
            y[np.asarray(one.confidence[:]) < min_confidence] = np.nan
        if one.timestamps is None:
            clocks.append((float(one.rate), float(one.starting_time or 0.0), len(y)))
        else:
            clocks.append((*_even(np.asarray(one.timestamps[:], np.float64), one.name), len(y)))
        columns.append(y * float(one.conversion))
        channels += [f"{pose.name} {one.name} {axis}" for axis in "xyz"[: y.shape[1]]]
    if not np.allclose(clocks, clocks[0], rtol=1e-6):
        raise DataError(
            f"{pose.name}: its keypoints do not share one clock, so they make no rows. Resample them to one."
        )
    rate_hz, start, _ = clocks[0]
    return Trial(np.concatenate(columns, axis=1), rate_hz, tuple(channels), name=str(pose.name), start_seconds=start)


def add_bouts_to_nwb(
    file: NWBFile, trial: Trial, bouts: npt.ArrayLike, names: Sequence[str] | None = None, table: str = "bouts"
) -> TimeIntervals:
    """Bouts as a TimeIntervals table of an NWB file, in order of time, with a column `state`; the file is yours to write.

    file    an NWBFile
    trial   one recording
    bouts   [T] the state of each moment, -1 where nothing is known
    names   of the states
    table   its name
    """
    epoch = _library("pynwb.epoch", "nwb")
    made = epoch.TimeIntervals(name=table, description=f"Bouts of {trial.name}, one row for each stay in a state.")
    made.add_column(name="state", description="The state of the bout.")
    found = _intervals(trial, bouts, names)
    rows = [(a, b, name) for name, edges in found.items() for a, b in zip(*edges, strict=True)]
    for start, stop, name in sorted(rows):
        made.add_row(start_time=float(start), stop_time=float(stop), state=name)
    file.add_time_intervals(made)
    return made
