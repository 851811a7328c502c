"""SLEAP's analysis files and poses in NWB files, which are untrusted HDF5.

Only arrays inside the file itself are read, after checking their sizes.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.text import first_of

from .deeplabcut import Column, assemble, complete
from .delimited import unique_names
from .pose import KeypointTable, finish_table
from .source import Source, refuse_damage
from .timing import Times, clock_from_steps

_ARRAYS = ("tracks", "node_names", "track_names", "point_scores", "edge_inds")


def read_hdf(source: Source, rate_hz: float | None) -> KeypointTable:
    """Read SLEAP's analysis export or an NWB file with poses."""
    with source.open() as raw:
        if raw.read(8) != b"\x89HDF\r\n\x1a\n":
            raise DataError(f"{source.name} is not an HDF5 file. Check its extension.")
        raw.seek(0)
        what, advice = f"{source.name} is not a readable HDF5 file", "It may be damaged or cut short."
        with refuse_damage(what, advice), h5py.File(raw, "r") as file:
            if "nwb_version" in file.attrs:
                return _read_nwb(file, source, rate_hz)
            arrays = {name: _read_array(file, name, source) for name in _ARRAYS if name in file}
    return _read_analysis(arrays, source, rate_hz)


def _read_analysis(arrays: dict[str, npt.NDArray[Any]], source: Source, rate_hz: float | None) -> KeypointTable:
    """Return SLEAP's tracks [tracks, 2, nodes, frames] or transposed."""
    if not {"tracks", "node_names"} <= set(arrays):
        raise DataError(
            f"{source.name} is not a SLEAP analysis (tracks, node_names). In SLEAP, choose Export Analysis HDF5; of "
            "DeepLabCut, use the CSV."
        )
    tracks, parts = arrays["tracks"], _names(arrays["node_names"])
    if tracks.ndim != 4 or tracks.dtype.kind != "f" or tracks.size == 0:
        raise DataError(
            f"{source.name}: tracks have shape {tracks.shape} and type {tracks.dtype}; expected numbers "
            "[tracks, 2, nodes, frames]."
        )
    if tracks.shape[1:3] == (2, len(parts)):
        xy = tracks.transpose(3, 0, 1, 2)  # [T, A, 2, P]
    elif tracks.shape[1:3] == (len(parts), 2):
        xy = tracks.transpose(0, 3, 2, 1)  # frames first
    else:
        raise DataError(f"{source.name}: tracks have shape {tracks.shape}, which does not fit its {len(parts)} nodes.")
    n, a = xy.shape[:2]
    names = _names(arrays["track_names"]) if "track_names" in arrays else []
    animals = names if len(names) == a else [f"animal {i + 1}" for i in range(a)]
    scores = np.full((n, a, len(parts)), np.nan, dtype=np.float32)
    given = arrays.get("point_scores", scores)
    if given.shape == (a, len(parts), n):
        scores = _to_float32(given.transpose(2, 0, 1))
    elif given.shape == (n, len(parts), a):
        scores = _to_float32(given.transpose(0, 2, 1))
    pairs = arrays.get("edge_inds", np.zeros((0, 2))).reshape(-1, 2).astype(int)
    edges = tuple(map(tuple, pairs[((pairs >= 0) & (pairs < len(parts))).all(axis=1)].tolist()))
    table = KeypointTable(_to_float32(xy), tuple(animals), tuple(parts), scores=scores, edges=edges, name=source.name)
    return finish_table(table, rate_hz)


def _read_nwb(file: h5py.File, source: Source, rate_hz: float | None) -> KeypointTable:
    """Read poses of the extension ndx-pose: a group for each animal with a series for each part."""
    groups: dict[str, h5py.Group] = {}
    file.visititems(lambda path, item: groups.update({path: item}) if _has_type(item, "PoseEstimation") else None)
    columns: list[Column] = []
    arrays: list[npt.NDArray[Any]] = []
    seconds: npt.NDArray[np.float64] | None = None
    views = [path for path, group in groups.items() if _is_view(path, group)]
    if len(views) > 1:
        raise DataError(
            f"{source.name} has poses of several cameras: {first_of(views, 3)}. Export those of one camera."
        )
    animals = dict(zip(unique_names([path.rpartition("/")[2] for path in groups])[0], groups.values(), strict=True))
    for animal, group in animals.items():
        inside = [part for part in group if isinstance(group.get(part, getlink=True), h5py.HardLink)]
        for part in (name for name in inside if _has_type(group[name], "PoseEstimationSeries")):
            series = group[part]
            data = _to_float32(_read_array(series, "data", source))
            if data.ndim != 2 or data.shape[1] not in (2, 3):
                raise DataError(
                    f"{source.name}: {animal} {part} has shape {data.shape}; expected x and y of each frame."
                )
            named = dict(zip("xyz", data.T, strict=False))
            if "confidence" in series:
                named["score"] = _to_float32(_read_array(series, "confidence", source))
            columns += [(animal, part, axis) for axis in named]
            arrays += named.values()
            if isinstance(series.get("timestamps", getlink=True), h5py.HardLink) and seconds is None:
                seconds = _read_array(series, "timestamps", source).astype(np.float64)
            elif "starting_time" in series:
                rate_hz = rate_hz or float(series["starting_time"].attrs["rate"])
    if not arrays:
        raise DataError(f"{source.name} has no poses of the extension ndx-pose. Export them as CSV or SLEAP analysis.")
    if len({len(values) for values in arrays}) > 1:
        raise DataError(f"{source.name}: its parts have different numbers of frames. Split it by recording.")
    notes: tuple[str, ...] = ()
    if seconds is not None and len(seconds) == len(arrays[0]) > 1:
        rate_hz = rate_hz or clock_from_steps(Times(seconds, "s"), np.diff(seconds), "timestamps").rate_hz
        arrays, notes = complete(seconds, arrays, source.name)
    found = assemble(columns, arrays, rate_hz, source.name)
    return replace(found, notes=(*notes, *found.notes))


def _is_view(path: str, group: h5py.Group) -> bool:
    """Return True for poses as one of several cameras saw them."""
    named = re.search("camera|view", path.rpartition("/")[2], re.IGNORECASE)
    return bool(named) or _has_type(group.parent, "MultiCameraPoseEstimation")


def _has_type(item: Any, kind: str) -> bool:
    return isinstance(item, h5py.Group) and item.attrs.get("neurodata_type") == kind


def _read_array(file: h5py.Group, name: str, source: Source) -> npt.NDArray[Any]:
    """Read an array of numbers or names that is stored in this file, not in another one."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{source.name}: {name!r} points outside the file, which is not allowed.")
    found = file[name]
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise DataError(f"{source.name}: {name!r} is not an array that is stored in the file.")
    size = math.prod(found.shape or ())
    source.check_size(values=size, unpacked=size * found.dtype.itemsize, what=repr(name))
    return np.asarray(found[()])


def _names(array: npt.NDArray[Any]) -> list[str]:
    texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in array.ravel().tolist()]
    return unique_names(texts)[0]


def _to_float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Convert to single precision; overflow becomes infinite."""
    with np.errstate(over="ignore"):
        return np.array(values, dtype=np.float32)
