"""Untrusted zip archives, NPY and NPZ files, and poses in an NPZ.

Sizes and names are checked before unpacking, headers before allocating memory, and nothing is unpickled.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError

from .pose import KeypointTable, finish_table, with_labels
from .source import Source, refuse_damage
from .timing import read_clock

_MAX_MEMBERS = 2000
_RATES = ("rate_hz", "rate", "fs", "fps", "sampling_rate", "sample_rate", "sfreq")


@contextmanager
def open_archive(source: Source) -> Iterator[zipfile.ZipFile]:
    """Open an archive after checking its declared sizes; zipfile unpacks no more than is declared."""
    with source.open() as file:
        with refuse_damage(f"{source.name} is not a readable {source.suffix} file", "It may be damaged."):
            archive = zipfile.ZipFile(file)
        with archive:
            infos = archive.infolist()
            if len(infos) > _MAX_MEMBERS:
                raise DataError(f"{source.name} has {len(infos):,} parts; the limit is {_MAX_MEMBERS:,}.")
            source.check_size(unpacked=sum(info.file_size for info in infos))
            yield archive


def read_arrays(source: Source) -> dict[str, npt.NDArray[Any]]:
    """Read every array of an .npz, or the array of an .npy as "y"."""
    if source.suffix == ".npy":
        with source.open() as file:
            return {"y": _parse_array(file.read(source.limits.unpacked_bytes), source, "the array")}
    arrays: dict[str, npt.NDArray[Any]] = {}
    with open_archive(source) as archive:
        for part in archive.namelist():
            if part.endswith(".npy"):
                name = part.removesuffix(".npy")
                with refuse_damage(f"{source.name}: the part {part!r} is damaged"):
                    data = archive.read(part)
                arrays[name] = _parse_array(data, source, f"the array {name!r}")
    if not arrays:
        raise DataError(f"{source.name} has no array. Save arrays with numpy.savez.")
    return arrays


def pop_rate(arrays: dict[str, npt.NDArray[Any]]) -> float | None:
    """Remove the arrays of one number that are named like a sampling rate, and return the first valid one."""
    found = [arrays.pop(key) for key in _RATES if key in arrays and arrays[key].size == 1]
    return next((float(one.item()) for one in found if one.dtype.kind in "fiu" and 0 < one.item() < math.inf), None)


def to_strings(array: npt.NDArray[Any]) -> list[str]:
    """Return the strings in an array of text, or an empty list."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return [str(text).strip() for text in array.ravel()] if array.dtype.kind == "U" and array.ndim <= 1 else []


def _parse_array(data: bytes, source: Source, what: str) -> npt.NDArray[Any]:
    """Return the array in the content of an .npy file, whose header may be wrong."""
    file = io.BytesIO(data)
    with refuse_damage(f"{source.name}: {what} has no readable header", "The file may be damaged."):
        first = np.lib.format.read_magic(file) == (1, 0)
        read_header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read_header(file)
    if dtype.hasobject:
        raise DataError(
            f"{source.name}: {what} is pickled, and opening an untrusted pickle can run any code. "
            "Save numbers or text instead (allow_pickle=False)."
        )
    if dtype.names is not None or dtype.itemsize == 0:
        raise DataError(f"{source.name}: {what} has the type {dtype}; expected numbers or text.")
    source.check_size(values=math.prod(shape), what=what)
    with refuse_damage(f"{source.name}: {what} does not have its shape {shape}", "The file may be cut short."):
        return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if by_columns else "C").copy()


# ---- poses in an NPZ ------------------------------------------------------------------------------------------------
_PARTS = ("bodyparts", "parts", "part_names", "keypoint_names", "node_names", "nodes")
_ANIMALS = ("mice", "animals", "animal_names", "track_names", "individuals")
_BEHAVIOURS = ("vocab", "label_names", "behaviours", "behaviors", "names")


def read_pose_arrays(source: Source, rate_hz: float | None) -> KeypointTable:
    """Read keypoints [T, animals, 2, parts] with optional scores, labels, names, times and unit.

    rate_hz   frames per second; None uses the file's rate
    """
    arrays = read_arrays(source)
    if "keypoints" not in arrays:
        raise DataError(f"{source.name} has no array named keypoints; it has {', '.join(list(arrays)[:5])}.")
    xy = arrays.pop("keypoints")
    if xy.ndim != 4 or xy.shape[2] != 2 or xy.size == 0 or xy.dtype.kind not in "fiu":
        raise DataError(f"{source.name}: keypoints have shape {xy.shape}; expected [frames, animals, 2, parts].")
    n, a, _, p = xy.shape
    labels = arrays.pop("labels", arrays.pop("annotations", None))
    notes: list[str] = []
    # An array called "names" names the labels, or the parts if there are no labels.
    parts = _names(arrays, (*_PARTS, *(["names"] if labels is None else [])), p, "part", notes)
    animals = _names(arrays, _ANIMALS, a, "animal", notes)
    scores = arrays.pop("scores", None)
    if scores is None or scores.shape != (n, a, p) or scores.dtype.kind not in "fiu":
        scores = np.full((n, a, p), np.nan, np.float32)
    known, start = _read_rate_and_start(arrays, n)
    names = {name: to_strings(arrays[name]) for name in ("units", "unit") if name in arrays}
    unit = next((one[0] for one in names.values() if len(set(one)) == 1), "")
    if unit:
        notes.append(f"coordinates are in {unit}, according to the file")
    table = KeypointTable(
        np.array(xy, dtype=np.float32), tuple(animals), tuple(part.replace("_", " ") for part in parts),
        scores=scores.astype(np.float32), name=source.name, notes=tuple(notes), unit=unit, start_seconds=start,
    )  # fmt: skip
    table = finish_table(table, rate_hz or known)
    if labels is None:
        return table
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise DataError(f"{source.name}: labels have type {labels.dtype}; expected one integer per frame.")
    top = max(int(labels.max(initial=0)) + 1, 1)
    if top > 10_000:
        raise DataError(f"{source.name}: the largest label is {top - 1:,}; labels should count behaviours from 0.")
    words = next((to_strings(arrays[name]) for name in _BEHAVIOURS if name in arrays), [])
    return with_labels(table, labels, words if len(words) >= top else _number_names("behaviour", top))


def _read_rate_and_start(arrays: dict[str, npt.NDArray[Any]], n: int) -> tuple[float | None, float]:
    """Return frame rate (or None) and start time from an array of the rate or of times."""
    rate, time = pop_rate(arrays), arrays.get("time", arrays.get("timestamps"))
    if rate is not None:
        return rate, 0.0
    if time is None or time.shape != (n,) or time.dtype.kind not in "fiu":
        return None, 0.0
    try:
        clock = read_clock(pd.Series(time), "time")
    except DataError:  # constant times
        return None, 0.0
    return clock.rate_hz, (clock.start or 0.0) if clock.rate_hz is not None else 0.0


def _names(arrays: dict[str, npt.NDArray[Any]], keys: Sequence[str], n: int, what: str, notes: list[str]) -> list[str]:
    """Return n names from these arrays, or numbered names with a note."""
    key = next((key for key in keys if key in arrays), None)
    if key is None:
        return _number_names(what, n)
    found = to_strings(arrays[key])
    if len(found) == n == len(set(found)):
        return found
    notes.append(f"{key!r} does not have {n} different names, so {what}s are numbered")
    return _number_names(what, n)


def _number_names(what: str, n: int) -> list[str]:
    return [f"{what} {i + 1}" for i in range(n)]
