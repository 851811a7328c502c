"""Tables of every format as one pandas frame with plain, unique column names."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.readers.arrays import read_arrays
from datasets.readers.deeplabcut import looks_like_deeplabcut
from datasets.readers.delimited import compact, join_pieces, read_delimited
from datasets.readers.layout import sniff, unique_names
from datasets.readers.source import ProgressCallback, Source, brief
from datasets.readers.zipped import measure, open_archive
from gdm_core.errors import DataError

READABLE = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".npz", ".npy", ".xlsx")

# openpyxl passes on whatever its parsers trip over in a damaged workbook
_XLSX_ERRORS = (
    KeyError, ValueError, TypeError, AttributeError, IndexError, OSError, EOFError, ParseError, AssertionError,
    zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, struct.error, OverflowError,
)  # fmt: skip


def read_frame(source: Source, every: int, progress: ProgressCallback | None) -> tuple[pd.DataFrame, list[str]]:
    """The table in a file and notes on how it was understood."""
    if source.suffix in (".csv", ".tsv", ".txt", ".tab"):
        if looks_like_deeplabcut(sniff(source)):
            raise DataError(f"{source.name} is a DeepLabCut file, not a plain table. Open it as keypoints instead.")
        return read_delimited(source, every, progress)
    if source.packed:
        raise DataError(f"{source.name}: only text tables may be packed with gzip. Unpack it first.")
    if source.suffix in (".parquet", ".pq"):
        return _thinned(*_read_parquet(source, progress), every)
    if source.suffix in (".npz", ".npy"):
        return _thinned(*_read_npz(source), every)
    if source.suffix == ".xlsx":
        return _thinned(*_read_xlsx(source, progress), every)
    hint = " Save the sheet as .xlsx or .csv." if source.suffix in (".xls", ".ods") else ""
    raise DataError(f"{source.name} is of a kind that is not read here; readable: {', '.join(READABLE)}.{hint}")


def _thinned(frame: pd.DataFrame, notes: list[str], every: int) -> tuple[pd.DataFrame, list[str]]:
    return (frame.iloc[::every].reset_index(drop=True), notes) if every > 1 else (frame, notes)


def _read_parquet(source: Source, progress: ProgressCallback | None) -> tuple[pd.DataFrame, list[str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    damage = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, EOFError, MemoryError)
    with source.open() as raw:
        try:
            file = pq.ParquetFile(pa.PythonFile(raw, mode="r"))
            about, schema = file.metadata, file.schema_arrow
            n_rows = about.num_rows
            unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            notes = []
            wanted = [field.name for field in schema if not pa.types.is_nested(field.type)]
            if dropped := [field.name for field in schema if pa.types.is_nested(field.type)]:
                notes.append(f"columns that hold lists or records were left out: {', '.join(dropped[:5])}")
            _check_size(source, n_rows, len(wanted), unpacked)
            pieces, seen = [], 0
            for batch in file.iter_batches(batch_size=100_000, columns=wanted):
                piece = batch.to_pandas(ignore_metadata=True)  # an index that pandas kept is a column like the others
                piece.columns = pd.Index(unique_names(batch.schema.names)[0])
                pieces.append(compact(piece))
                seen += len(piece)
                if progress is not None:
                    progress(min(seen / max(n_rows, 1), 0.99), f"{seen:,} rows read")
        except damage as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"{source.name} is not a readable Parquet file ({brief(error)}). It may be damaged."
            ) from error
    if not pieces or not seen:
        raise DataError(f"{source.name} holds no rows.")
    return join_pieces(pieces), notes


def _check_size(source: Source, n_rows: int, n_columns: int, unpacked: int) -> None:
    limits = source.limits
    if n_columns == 0:
        raise DataError(f"{source.name} has no column of plain values.")
    if n_columns > limits.columns:
        raise DataError(f"{source.name} has {n_columns:,} columns; the limit is {limits.columns:,}.")
    if n_rows > limits.rows or n_rows * n_columns > limits.values:
        raise DataError(
            f"{source.name} has {n_rows:,} rows and {n_columns} columns; the limits are {limits.rows:,} rows and "
            f"{limits.values:,} values. Keep each n-th row, or fewer columns, and save it again."
        )
    if unpacked > limits.unpacked_bytes:
        raise DataError(f"{source.name} unpacks to {unpacked:,} bytes; the limit is {limits.unpacked_bytes:,}.")


def _read_npz(source: Source) -> tuple[pd.DataFrame, list[str]]:
    """Arrays of one length as columns: [T] one column, [T, N] one a channel, [trials, T, N] one below the other."""
    arrays = read_arrays(source)
    names = [str(name) for name in arrays.pop("channels", np.empty(0)).ravel()]
    main: str | None = next((key for key in ("y", "data", "X", "x") if key in arrays and arrays[key].ndim >= 1), None)
    if main is None:
        main = max(arrays, key=lambda key: (arrays[key].ndim in (2, 3), arrays[key].size), default=None)
    if main is None or arrays[main].size == 0:
        raise DataError(
            f"{source.name} holds no data. Save an array y [time, channels], and others of the same length."
        )
    y = arrays.pop(main)
    columns: dict[str, npt.NDArray[Any]] = {}
    if y.ndim == 3:
        columns["trial"] = np.repeat(np.arange(y.shape[0]), y.shape[1])
        y = y.reshape(-1, y.shape[2])  # [trials * T, N]
    if y.ndim not in (1, 2):
        raise DataError(
            f"{source.name}: {main!r} has shape {y.shape}; expected [time, channels] or [trials, time, channels]."
        )
    if y.ndim == 1:
        y = y[:, None]
    _check_size(source, y.shape[0], y.shape[1] + len(arrays), y.nbytes)
    if len(names) != y.shape[1]:
        names = [f"{main}{j + 1}" for j in range(y.shape[1])] if y.shape[1] > 1 else [main]
    left_out = [key for key, value in arrays.items() if value.shape != (len(y),)]
    parts = [(name, y[:, j]) for j, name in enumerate(names)]
    parts += [(key, value) for key, value in arrays.items() if value.shape == (len(y),)]
    unique, notes = unique_names([*columns, *[name for name, _ in parts]])
    values = [*columns.values(), *[value for _, value in parts]]
    if left_out:
        notes.append(f"arrays of another length were left out: {', '.join(left_out[:5])}")
    frame = pd.DataFrame(dict(zip(unique, [_plain(value, source) for value in values], strict=True)))
    return compact(frame), notes


def _plain(values: npt.NDArray[Any], source: Source) -> npt.NDArray[Any]:
    if values.dtype.kind in "biu":
        return values
    if values.dtype.kind == "f":
        return values.astype(np.float64 if values.dtype.itemsize >= 8 else np.float32)
    if values.dtype.kind == "M" or values.dtype.kind == "m":
        return values
    if values.dtype.kind in "US":
        return (
            np.char.decode(values, "utf-8", "replace").astype(object)
            if values.dtype.kind == "S"
            else values.astype(object)
        )
    raise DataError(f"{source.name}: values of type {values.dtype} are neither numbers, dates nor text.")


def _read_xlsx(source: Source, progress: ProgressCallback | None) -> tuple[pd.DataFrame, list[str]]:
    from openpyxl import load_workbook

    with open_archive(source) as archive:
        for info in archive.infolist():  # the declared sizes were checked; the real ones may be larger
            try:
                with archive.open(info) as member:
                    real = measure(member, info.file_size)
            except _XLSX_ERRORS as error:
                raise DataError(f"{source.name}: the part {info.filename!r} is damaged ({brief(error)}).") from error
            if real > info.file_size:
                raise DataError(f"{source.name}: the part {info.filename!r} unpacks to more than it declares.")
    with source.open() as raw:
        try:
            book = load_workbook(raw, read_only=True, data_only=True, keep_links=False)
            rows, notes = _first_sheet(book, source, progress)
        except _XLSX_ERRORS as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"{source.name} is not a readable workbook ({brief(error)}). Save it again, or as CSV."
            ) from error
    header = ["" if cell is None else str(cell) for cell in rows[0]]
    names, more = unique_names(header)
    # column by column, each by its own cells: pandas fails on whole numbers without end where it may choose the type
    frame = pd.DataFrame({name: _typed([row[j] for row in rows[1:]]) for j, name in enumerate(names)})
    return compact(frame), notes + more


def _first_sheet(
    book: Any, source: Source, progress: ProgressCallback | None
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The rows of the first sheet that has any below its header, all of one width."""
    for sheet in book.worksheets:
        rows: list[tuple[Any, ...]] = []
        width = 0
        for cells in sheet.iter_rows(values_only=True):
            if len(cells) > source.limits.columns:
                raise DataError(f"{source.name} has {len(cells):,} columns; the limit is {source.limits.columns:,}.")
            if rows or any(cell is not None for cell in cells):
                rows.append(tuple(cells))
                width = max(width, len(cells))
            if len(rows) * max(width, 1) > min(source.limits.values, 50_000_000) or len(rows) > source.limits.rows:
                raise DataError(f"{source.name} is too large for a workbook. Save it as CSV or Parquet.")
            if progress is not None and len(rows) % 5000 == 1:
                progress(0.5, f"{len(rows):,} rows read")
        while rows and all(cell is None for cell in rows[-1]):
            rows.pop()
        if len(rows) > 1:
            note = [f"only the sheet {sheet.title!r} was read"] if len(book.worksheets) > 1 else []
            return [row + (None,) * (width - len(row)) for row in rows], note
    raise DataError(f"{source.name} holds no sheet with a header and at least one row.")


def _typed(cells: list[Any]) -> pd.Series[Any]:
    """A column of cells as numbers or dates where all of them are, else as text."""
    there = [value for value in cells if value is not None]
    if there and all(isinstance(value, int | float) for value in there):
        try:
            return pd.Series(pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce"))
        except OverflowError:
            return pd.Series([_float(value) for value in cells], dtype=np.float64)
    if there and all(hasattr(value, "year") for value in there):
        return pd.Series(pd.to_datetime(pd.Series(cells, dtype=object), errors="coerce"))
    return pd.Series([None if value is None else str(value) for value in cells], dtype=object)


def _float(value: float | None) -> float:
    """A cell as a number; whole numbers of more than 308 digits, which are none for a computer, are missing."""
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.nan
