"""NPY and NPZ files, without ever unpickling: the header of each array is checked before memory is set aside for it."""

from __future__ import annotations

import io
import tokenize
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

from .source import Source, brief
from .zipped import open_archive, read_member

# what numpy raises on headers that make no sense (a literal that does not parse may also be a syntax or memory error)
_HEADER_ERRORS = (
    ValueError,
    TypeError,
    SyntaxError,
    tokenize.TokenError,
    MemoryError,
    RecursionError,
    OverflowError,
    EOFError,
    UnicodeError,
    KeyError,
)


def read_arrays(source: Source) -> dict[str, npt.NDArray[Any]]:
    """Every array of an .npz, or the one of an .npy under the name "y"."""
    if source.suffix == ".npy":
        with source.open() as file:
            data = file.read(source.limits.unpacked_bytes)
        return {"y": _array(io.BytesIO(data), len(data), source, "the array")}
    arrays: dict[str, npt.NDArray[Any]] = {}
    with open_archive(source) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            data = read_member(archive, info, source)
            name = info.filename.removesuffix(".npy")
            arrays[name] = _array(io.BytesIO(data), len(data), source, f"the array {name!r}")
    if not arrays:
        raise DataError(f"{source.name} holds no array. Save arrays with numpy.savez.")
    return arrays


def texts(array: npt.NDArray[Any]) -> list[str]:
    """The words of an array; none of one that holds something else."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return [str(text).strip() for text in array.ravel()] if array.dtype.kind == "U" and array.ndim <= 1 else []


def unit_of(arrays: dict[str, npt.NDArray[Any]]) -> str:
    """What an NPZ says that all its values are in, taken out of `arrays`; "" where it says nothing or several things."""
    key = next((key for key in ("units", "unit") if key in arrays and len(set(texts(arrays[key]))) == 1), "")
    return texts(arrays.pop(key))[0] if key else ""


def _array(file: IO[bytes], n_bytes: int, source: Source, what: str) -> npt.NDArray[Any]:
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version in ((2, 0), (3, 0)):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"unknown format version {version}")
    except _HEADER_ERRORS as error:
        raise DataError(
            f"{source.name}: {what} has no readable header ({brief(error)}). The file may be damaged."
        ) from error
    if dtype.hasobject:
        raise DataError(
            f"{source.name}: {what} is pickled, and opening a pickle from a stranger can run any program. "
            "Save plain numbers or text instead (allow_pickle=False)."
        )
    if dtype.names is not None or dtype.itemsize == 0:
        raise DataError(f"{source.name}: {what} has the type {dtype}; expected plain numbers or text.")
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataError(f"{source.name}: {what} declares the impossible shape {shape}.")
    size = 1
    for n in shape:
        size *= n
    if size > source.limits.values:
        raise DataError(f"{source.name}: {what} has {size:,} values; the limit is {source.limits.values:,}.")
    if size * dtype.itemsize != n_bytes - file.tell():
        raise DataError(
            f"{source.name}: {what} declares {size * dtype.itemsize:,} bytes but {n_bytes - file.tell():,} follow. "
            "The file may be cut short."
        )
    file.seek(0)
    try:
        loaded: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except _HEADER_ERRORS as error:
        raise DataError(f"{source.name}: {what} cannot be read ({brief(error)}).") from error
    return loaded
