"""Tables of all formats as a pandas DataFrame with unique column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.text import first_of

from .archives import open_archive, pop_rate, read_arrays, to_strings
from .deeplabcut import looks_like_deeplabcut
from .delimited import EmptyTableError, Parsed, compact, join_pieces, read_delimited, sniff, unique_names
from .doubts import Answers, Doubt
from .roles import is_numeric
from .source import DAMAGE, TEXT, Source, refuse_damage


def _read_workbook(source: Source, answers: Answers, sheet: str | None = None) -> Parsed:
    """Read a sheet of a workbook, as text.

    By default it is the first sheet with a numeric column, since a sheet of remarks often comes first.
    """
    from openpyxl import load_workbook

    with open_archive(source):  # refuses a workbook that would unpack to too much
        pass
    what, found = f"{source.name} is not a readable workbook", list[Parsed]()
    with source.open() as raw, refuse_damage(what, "Save it again, or as CSV."):
        book = load_workbook(raw, read_only=True, data_only=True, keep_links=False)
        names = tuple(str(page.title) for page in book.worksheets)
        if sheet is not None and sheet not in names:
            raise ConfigError(f"{source.name} has no sheet {sheet!r}; it has {', '.join(names)}.")
        pages = [page for page in book.worksheets if sheet is None or page.title == sheet]
        for page in pages:
            content = _write_text(page, source)
            with suppress(EmptyTableError):
                one = read_delimited(Source(source.name, len(content), content), answers)
                found.append(replace(one, sheets=names, sheet=page.title))
                if _has_numbers(one):
                    break
    if not found:
        where = f"The sheet {pages[0].title!r} of {source.name}" if len(pages) == 1 else f"Each sheet of {source.name}"
        raise DataError(f"{where} has no row below a header. Add rows, or save it as CSV.")
    chosen = max(found, key=_has_numbers)
    others = [name for name in names if name != chosen.sheet]
    only = [f"only the sheet {chosen.sheet!r} was read; other sheets: {first_of(others, 5)}"] if others else []
    return replace(chosen, notes=[*only, *chosen.notes])


def _has_numbers(parsed: Parsed) -> bool:
    return any(is_numeric(parsed.frame[name]) for name in parsed.frame.columns)


def _write_text(page: Any, source: Source) -> bytes:
    """Return a sheet as text with tabs."""
    rows: list[list[str]] = []
    for cells in page.iter_rows(values_only=True):
        rows.append([_write_cell(cell) for cell in cells])
        if len(rows) * max(1, len(cells)) > min(source.limits.values, 50_000_000) or len(rows) > source.limits.rows:
            raise DataError(f"{source.name} is too large for a workbook. Save it as CSV or Parquet.")
    while rows and not any(rows[-1]):
        rows.pop()
    width, out = max(map(len, rows), default=1), io.StringIO()
    csv.writer(out, delimiter="\t", lineterminator="\n").writerows(
        [["sep=\t"], *(row + [""] * (width - len(row)) for row in rows)]
    )
    return out.getvalue().encode()


def _write_cell(cell: Any) -> str:
    if isinstance(cell, datetime):
        return str(cell.date() if cell.time() == time() else cell)
    return "" if cell is None else str(pd.Timedelta(cell) if isinstance(cell, timedelta) else cell)


_AXES = {
    2: ("channels, time", "time, channels"),
    3: ("trials, channels, time", "trials, time, channels", "time, channels, trials", "time, trials, channels"),
}  # orders, by number of axes
_NAMES = ("channels", "channel_names", "names", "columns")  # NPZ arrays of channel names


def read_frame(source: Source, sheet: str | None = None, answers: Answers | None = None) -> Parsed:
    """Read a table of any format."""
    read = READERS.get(source.suffix)
    if read is None:
        raise DataError(
            f"{source.name} has an unknown format; readable: {', '.join(READABLE)}. Convert it with pandas, or keypoints "
            "with movement or sleap-io."
        )
    if source.packed and read is not _read_text:
        raise DataError(f"{source.name}: only text tables may be compressed with gzip. Unpack it first.")
    if sheet is None:
        return read(source, answers or {})
    if read is not _read_workbook:
        raise ConfigError(f"{source.name} is not a workbook, so it has no sheet {sheet!r}. Omit the sheet.")
    return _read_workbook(source, answers or {}, sheet)


def _read_text(source: Source, answers: Answers) -> Parsed:
    if looks_like_deeplabcut(sniff(source)):
        raise DataError(f"{source.name} is a DeepLabCut file, not a plain table. Open it as keypoints instead.")
    return read_delimited(source, answers)


def _read_parquet(source: Source, _: Answers) -> Parsed:
    import pyarrow as pa
    import pyarrow.parquet as pq

    what, kinds = f"{source.name} is not a readable Parquet file", (*DAMAGE, pa.ArrowException)
    pieces = []
    with source.open() as raw, refuse_damage(what, "It may be damaged.", kinds):
        file = pq.ParquetFile(pa.PythonFile(raw, mode="r"))
        about, schema = file.metadata, file.schema_arrow
        unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        notes = []
        simple = [field.name for field in schema if not pa.types.is_nested(field.type)]
        if dropped := [field.name for field in schema if pa.types.is_nested(field.type)]:
            notes.append(f"columns of lists or records were left out: {', '.join(dropped[:5])}")
        source.check_size(about.num_rows, len(simple), unpacked=unpacked)
        for batch in file.iter_batches(batch_size=100_000, columns=simple):
            piece = batch.to_pandas(ignore_metadata=True)  # a stored pandas index becomes a column
            piece.columns = pd.Index(unique_names(batch.schema.names)[0])
            pieces.append(compact(piece))
    if not any(map(len, pieces)):
        raise DataError(f"{source.name} has no rows.")
    return Parsed(join_pieces(pieces), notes)


def _read_npz(source: Source, answers: Answers) -> Parsed:
    """Convert arrays [T], [T, N] or stacked trials [trials, T, N] to columns."""
    arrays = read_arrays(source)
    main: str | None = next((key for key in ("y", "data", "X", "x") if key in arrays and arrays[key].ndim >= 1), None)
    if main is None:
        rank = {key: (array.dtype.kind not in "US", array.ndim in (2, 3), array.size) for key, array in arrays.items()}
        main = max(rank, key=lambda key: rank[key], default=None)
    if main is None or arrays[main].size == 0:
        raise DataError(f"{source.name} has no data. Save an array y [time, channels], and others of the same length.")
    y = arrays.pop(main)
    rate = pop_rate(arrays)
    y, doubts = _sort_axes(y, arrays, answers)
    parts: list[tuple[str, npt.NDArray[Any]]] = []
    if y.ndim == 3:
        parts.append(("trial", np.repeat(np.arange(y.shape[0]), y.shape[1])))
        y = y.reshape(-1, y.shape[2])  # [trials * T, N]
    if y.ndim not in (1, 2):
        raise DataError(
            f"{source.name}: {main!r} has shape {y.shape}; expected [time, channels] or [trials, time, channels]."
        )
    if y.ndim == 1:
        y = y[:, None]
    source.check_size(y.shape[0], y.shape[1] + len(arrays), unpacked=y.nbytes)
    # An array with one text per sample is a column, not a list of names.
    named = next((key for key in _NAMES if key in arrays and arrays[key].shape != (len(y),)), "")
    names = to_strings(arrays.pop(named)) if named else []
    described = []
    if len(names) != y.shape[1]:
        described = [f"{named!r} does not name {y.shape[1]} channels and was not used"] if named else []
        names = [f"{main}{j + 1}" for j in range(y.shape[1])] if y.shape[1] > 1 else [main]
    parts += zip(names, y.T, strict=True)
    parts += [(key, value) for key, value in arrays.items() if value.shape == (len(y),)]
    if left_out := [key for key, value in arrays.items() if value.shape != (len(y),)]:
        described.append(f"arrays of another length were left out: {', '.join(left_out[:5])}")
    unique, notes = unique_names([name for name, _ in parts])
    frame = pd.DataFrame(dict(zip(unique, [_to_plain_type(value, source) for _, value in parts], strict=True)))
    return Parsed(compact(frame), [*described, *notes], doubts=doubts, rate_hz=rate)


def _sort_axes(
    y: npt.NDArray[Any], arrays: dict[str, npt.NDArray[Any]], answers: Answers
) -> tuple[npt.NDArray[Any], tuple[Doubt, ...]]:
    """Return an array with axes (trials,) time, channels, and a doubt unless time is clearly the longest axis."""
    if y.ndim not in _AXES or y.shape[-2] > max(y.shape[:-2] + y.shape[-1:]):
        return y, ()
    lengths = {value.shape[0] for key, value in arrays.items() if value.ndim == 1 and key not in _NAMES}
    timed = [axis for axis, n in enumerate(y.shape) if n in lengths] or [int(np.argmax(y.shape))]
    if lengths and timed == [y.ndim - 2]:
        return y, ()
    orders = sorted(_AXES[y.ndim], key=lambda axes: axes.split(", ").index("time") not in timed)
    doubt = Doubt("axes", f"What are the axes of the array of shape {y.shape}?", tuple(orders))
    axes = doubt.chosen(answers).split(", ")
    return y.transpose([axes.index(axis) for axis in ("trials", "time", "channels")[-y.ndim :]]), (doubt,)


def _to_plain_type(values: npt.NDArray[Any], source: Source) -> npt.NDArray[Any]:
    if values.dtype.kind in "biuMm":
        return values
    if values.dtype.kind == "f":
        return values.astype(np.float64 if values.dtype.itemsize >= 8 else np.float32)
    if values.dtype.kind in "US":
        text = np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values
        return text.astype(object)
    raise DataError(f"{source.name}: values of type {values.dtype} are neither numbers, dates nor text.")


# Readers by extension; add other formats here (docs/change.md).
READERS: dict[str, Callable[[Source, Answers], Parsed]] = {
    **dict.fromkeys(TEXT, _read_text),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".npz": _read_npz,
    ".npy": _read_npz,
    ".xlsx": _read_workbook,
}
READABLE = (*READERS, ".csv.gz")
