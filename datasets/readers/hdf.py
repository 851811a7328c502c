"""Untrusted HDF5 files, including SLEAP's analysis files and .slp projects.

Only arrays inside the file itself are read, after checking their sizes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

from .delimited import unique_names
from .pose import KeypointTable, finish_table
from .source import Source, refuse_damage


@contextmanager
def open_hdf(source: Source) -> Iterator[h5py.File]:
    """Open an HDF5 file; damage found while reading raises DataError."""
    with source.open() as raw:
        if raw.read(8) != b"\x89HDF\r\n\x1a\n":
            raise DataError(f"{source.name} is not an HDF5 file. Check its extension.")
        raw.seek(0)
        what, advice = f"{source.name} is not a readable HDF5 file", "It may be damaged or cut short."
        with refuse_damage(what, advice), h5py.File(raw, "r") as file:
            yield file


def get_dataset(group: h5py.Group, name: str, source: Source) -> h5py.Dataset:
    """Return a data set that is stored in this file, not in another one."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{source.name}: {name!r} is missing or points outside the file, which is not allowed.")
    found = group[name]
    if not isinstance(found, h5py.Dataset):
        raise DataError(f"{source.name}: {name!r} is not an array.")
    if found.external or found.is_virtual:
        raise DataError(f"{source.name}: {name!r} stores its data in another file, which is not allowed.")
    size = math.prod(found.shape or ())
    if size > source.limits.values or size * found.dtype.itemsize > source.limits.unpacked_bytes:
        raise DataError(f"{source.name}: {name!r} has {size:,} values; the limit is {source.limits.values:,}.")
    if size * found.dtype.itemsize > 10_000_000 + source.limits.unpack_ratio * source.size:
        raise DataError(
            f"{source.name}: {name!r} would unpack to over {source.limits.unpack_ratio:,} times the file's size."
        )
    return found


def read_array(group: h5py.Group, name: str, source: Source) -> npt.NDArray[Any]:
    """Read an array of numbers, or of records of numbers."""
    found = get_dataset(group, name, source)
    if found.shape is None or found.dtype.kind not in "fiubV":
        raise DataError(f"{source.name}: {name!r} has the type {found.dtype}; expected numbers.")
    return np.asarray(found[()])


def read_names(group: h5py.Group, name: str, source: Source) -> list[str]:
    """Read a list of names."""
    found = get_dataset(group, name, source)
    if found.shape is None or found.ndim != 1 or found.dtype.kind not in "SOU" or found.shape[0] > 10_000:
        raise DataError(
            f"{source.name}: {name!r} should be a list of names, but has shape {found.shape} and type {found.dtype}."
        )
    values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in found[()].tolist()]
    if not all(isinstance(v, str) for v in values):
        raise DataError(f"{source.name}: {name!r} should be a list of names.")
    return [" ".join(v.split()) for v in values]


# ---- SLEAP ----------------------------------------------------------------------------------------------------------
def read_analysis(file: h5py.File, source: Source, rate_hz: float | None) -> KeypointTable:
    """Read SLEAP's analysis export, with tracks [tracks, 2, nodes, frames] or transposed."""
    parts = unique_names(read_names(file, "node_names", source))[0]
    tracks = read_array(file, "tracks", source)
    if tracks.ndim != 4 or tracks.dtype.kind != "f":
        raise DataError(f"{source.name}: tracks have shape {tracks.shape}; expected [tracks, 2, nodes, frames].")
    if tracks.shape[1:3] == (2, len(parts)):
        xy = tracks.transpose(3, 0, 1, 2)  # [T, A, 2, P]
    elif tracks.shape[1:3] == (len(parts), 2):
        xy = tracks.transpose(0, 3, 2, 1)  # frames first
    else:
        raise DataError(f"{source.name}: tracks have shape {tracks.shape}, which does not fit its {len(parts)} nodes.")
    n, a = xy.shape[:2]
    if n == 0 or a == 0:
        raise DataError(f"{source.name} has no tracked frames.")
    names = read_names(file, "track_names", source) if "track_names" in file else []
    animals = unique_names(names)[0] if len(names) == a else [f"animal {i + 1}" for i in range(a)]
    scores = np.full((n, a, len(parts)), np.nan, dtype=np.float32)
    if "point_scores" in file:
        given = read_array(file, "point_scores", source)
        if given.shape == (a, len(parts), n):
            scores = _to_float32(given.transpose(2, 0, 1))
        elif given.shape == (n, len(parts), a):
            scores = _to_float32(given.transpose(0, 2, 1))
    edges: tuple[tuple[int, int], ...] = ()
    if "edge_inds" in file:
        pairs = read_array(file, "edge_inds", source)
        if pairs.ndim == 2 and pairs.shape[1] == 2:
            edges = _valid_edges(pairs.tolist(), len(parts))
    table = KeypointTable(_to_float32(xy), tuple(animals), tuple(parts), scores=scores, edges=edges, name=source.name)
    return finish_table(table, rate_hz)


def _to_float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Convert to single precision; overflow becomes infinite."""
    with np.errstate(over="ignore"):
        return np.array(values, dtype=np.float32)


def read_project(file: h5py.File, source: Source, rate_hz: float | None) -> KeypointTable:
    """Read the instances of the first video in a SLEAP project."""
    parts, edges = _skeleton(file, source)
    frames, instances = read_array(file, "frames", source), read_array(file, "instances", source)
    points = {1: read_array(file, "pred_points", source)}
    if "points" in file:
        points[0] = read_array(file, "points", source)  # placed by the user, so they replace predictions
    needed = {"frame_idx", "video", "instance_id_start", "instance_id_end"}
    if not needed <= set(frames.dtype.names or ()) or len(frames) == 0:
        raise DataError(f"{source.name}: its list of frames is empty or not in SLEAP's layout.")
    if not {"instance_type", "track", "point_id_start", "point_id_end"} <= set(instances.dtype.names or ()):
        raise DataError(f"{source.name}: its list of instances is not in SLEAP's layout.")
    video = int(frames["video"].min())
    here = frames[frames["video"] == video]
    number = here["frame_idx"].astype(np.int64)
    first, n = int(number.min()), int(number.max() - number.min()) + 1
    n_tracks = max(int(instances["track"].max(initial=-1)) + 1, 1)
    if len(here) != len(np.unique(number)) or n > 100 * len(here) + 1000 or n_tracks > 1000:
        raise DataError(
            f"{source.name}: its frame numbers are damaged (from {first} on, {n:,} frames for {len(here):,})."
        )
    if n * n_tracks * len(parts) * 3 > source.limits.values:
        raise DataError(f"{source.name} is too large: {n:,} frames, {n_tracks} tracks, {len(parts)} nodes.")
    xy = np.full((n, n_tracks, 2, len(parts)), np.nan, dtype=np.float32)
    scores = np.full((n, n_tracks, len(parts)), np.nan, dtype=np.float32)
    notes: tuple[str, ...] = (f"frames start at {first:,} of the video",) if first else ()
    untracked = False
    bounds = zip(
        number - first, here["instance_id_start"].astype(int), here["instance_id_end"].astype(int), strict=True
    )
    for t, start, stop in bounds:  # a frame has few instances, in any order
        if not 0 <= start <= stop <= len(instances):
            raise DataError(f"{source.name}: frame {t + first} points to instances that do not exist.")
        for order, instance in enumerate(sorted(instances[start:stop], key=lambda i: -int(i["instance_type"]))):
            table = points.get(int(instance["instance_type"]))
            a, b = int(instance["point_id_start"]), int(instance["point_id_end"])
            if table is None or not 0 <= a <= b <= len(table) or b - a != len(parts):
                raise DataError(f"{source.name}: an instance in frame {t + first} does not have {len(parts)} points.")
            track = int(instance["track"])
            untracked |= track < 0
            if track < 0:
                track = order
            if track >= n_tracks:
                continue
            visible = table["visible"][a:b].astype(bool)
            xy[t, track, 0, visible] = table["x"][a:b][visible]
            xy[t, track, 1, visible] = table["y"][a:b][visible]
            if "score" in (table.dtype.names or ()):
                scores[t, track] = table["score"][a:b]
    if untracked:
        notes = (*notes, "some instances have no track and are identified by their order in the frame")
    names = _track_names(file, n_tracks, source)
    recording = KeypointTable(xy, tuple(names), tuple(parts), scores=scores, edges=edges, name=source.name, notes=notes)
    return finish_table(recording, rate_hz)


def _skeleton(file: h5py.File, source: Source) -> tuple[list[str], tuple[tuple[int, int], ...]]:
    with refuse_damage(f"{source.name}: its skeleton cannot be read", "Export an analysis HDF5 from SLEAP."):
        raw: Any = file["metadata"].attrs["json"]
        about = json.loads(raw)
        order = [int(node["id"]) for node in about["skeletons"][0]["nodes"]]
        names = [str(about["nodes"][i]["name"]) for i in order]
        place = {node: i for i, node in enumerate(order)}
        links = [
            [place[int(link["source"])], place[int(link["target"])]] for link in about["skeletons"][0].get("links", [])
        ]
    if not names:
        raise DataError(f"{source.name}: its skeleton has no nodes.")
    return unique_names(names)[0], _valid_edges(links, len(names))


def _valid_edges(pairs: list[list[int]], n_parts: int) -> tuple[tuple[int, int], ...]:
    return tuple((int(a), int(b)) for a, b in pairs if 0 <= a < n_parts and 0 <= b < n_parts)


def _track_names(file: h5py.File, n_tracks: int, source: Source) -> list[str]:
    if "tracks_json" in file and file["tracks_json"].dtype.kind in "SO":
        try:
            names = [str(json.loads(entry)[1]) for entry in read_names(file, "tracks_json", source)]
        except (ValueError, IndexError, KeyError, TypeError, RecursionError):
            names = []  # names are optional
        if len(names) >= n_tracks:
            return unique_names(names[:n_tracks])[0]
    return [f"animal {i + 1}" for i in range(n_tracks)]
