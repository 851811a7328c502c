"""HDF5 from strangers: only plain arrays inside the file itself, checked for size before they are read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

from .source import Source, refuse_damage


@contextmanager
def open_hdf(source: Source) -> Iterator[h5py.File]:
    """An HDF5 file; damage found at any point while it is read becomes a DataError."""
    with source.open() as raw:
        if raw.read(8) != b"\x89HDF\r\n\x1a\n":
            raise DataError(f"{source.name} is not an HDF5 file. Is its name's ending right?")
        raw.seek(0)
        what, advice = f"{source.name} is not a readable HDF5 file", "It may be damaged or cut short."
        with refuse_damage(what, advice), h5py.File(raw, "r") as file:
            yield file


def dataset(group: h5py.Group, name: str, source: Source) -> h5py.Dataset:
    """A data set that lives in this file, not in another one that it points to."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{source.name}: {name!r} is missing or points elsewhere; only data inside the file is read.")
    found = group[name]
    if not isinstance(found, h5py.Dataset):
        raise DataError(f"{source.name}: {name!r} is not an array.")
    if found.external or found.is_virtual:
        raise DataError(f"{source.name}: {name!r} keeps its data in another file, which is not read here.")
    size = math.prod(found.shape or ())
    if size > source.limits.values or size * found.dtype.itemsize > source.limits.unpacked_bytes:
        raise DataError(f"{source.name}: {name!r} has {size:,} values; the limit is {source.limits.values:,}.")
    if size * found.dtype.itemsize > 10_000_000 + source.limits.unpack_ratio * source.size:
        raise DataError(
            f"{source.name}: {name!r} would unpack to over {source.limits.unpack_ratio:,} times the file's size."
        )
    return found


def array(group: h5py.Group, name: str, source: Source) -> npt.NDArray[Any]:
    """A plain array of numbers (or a record of numbers)."""
    found = dataset(group, name, source)
    if found.shape is None or found.dtype.kind not in "fiubV":
        raise DataError(f"{source.name}: {name!r} has the type {found.dtype}; expected numbers.")
    return np.asarray(found[()])


def text(group: h5py.Group, name: str, source: Source) -> list[str]:
    """A list of names."""
    found = dataset(group, name, source)
    if found.shape is None or found.ndim != 1 or found.dtype.kind not in "SOU" or found.shape[0] > 10_000:
        raise DataError(
            f"{source.name}: {name!r} should hold a list of names, but has shape {found.shape} of {found.dtype}."
        )
    values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in found[()].tolist()]
    if not all(isinstance(v, str) for v in values):
        raise DataError(f"{source.name}: {name!r} should hold names.")
    return [" ".join(v.split()) for v in values]
