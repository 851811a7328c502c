"""Recordings too long for memory: .npy, Parquet and Arrow files as trials that stay on disk.

    recording = open_large("year.parquet")      # or a folder, or a list of files: each is a trial
    model = GDM(n_states=8, n_latent=3).fit(recording)
    model.predict_to("states.parquet", recording)

Numbers in .npy files are read where they lie. Parquet and Arrow files hold columns, often compressed, which a window of
rows cannot be read from: they are unpacked once, block by block, into a file of rows that vanishes with the process.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gdm_core.errors import ConfigError, DataError
from gdm_core.streams import BLOCK_ROWS, RowFile, Span, StreamedTrials

from .readers.archives import read_header
from .readers.roles import Role, guess_roles, having, word
from .readers.source import ProgressCallback, refuse_damage
from .readers.timing import read_clock
from .storage import data_dir

READABLE = (".npy", ".parquet", ".pq", ".arrow", ".feather")
MOST_TRIALS = 100_000
_HEAD_ROWS = 2_000  # that roles of columns are guessed from


def open_large(
    source: str | Path | Sequence[str | Path],
    channels: Sequence[str] | None = None,
    trial: str | None = "auto",
    rate_hz: float | None = None,
    scratch: str | Path | None = None,
    progress: ProgressCallback | None = None,
) -> StreamedTrials:
    """Trials that stay in files, of which no more than a stretch is ever in memory.

    source     a file, a folder with files of one kind, or a list of files; without a trial column each file is a trial
    channels   columns to be modelled; if None they are guessed from the first rows, as for tables
    trial      column that tells trials apart, whose rows follow one another; None for none, "auto" guesses
    rate_hz    samples a second; from a time column if None, 1 without one
    scratch    folder for what Parquet and Arrow files are unpacked into: 4 bytes a value; if None the data folder
    progress   called with the share unpacked, 0 to 1, and a sentence
    """
    paths = _files(source)
    if rate_hz is not None and not (np.isfinite(rate_hz) and rate_hz > 0):
        raise ConfigError(f"rate_hz is {rate_hz}; it must be a positive number of samples a second.")
    name = Path(source).name if isinstance(source, str | Path) else f"{paths[0].name} and {len(paths) - 1} more"
    if paths[0].suffix == ".npy":
        return _arrays(paths, channels, trial, rate_hz, name)
    head = _head(paths[0])
    roles = guess_roles(head)
    names = tuple(having(roles, Role.CHANNEL, Role.POSITION) if channels is None else channels)
    if trial == "auto":
        trial = next(iter(having(roles, Role.GROUP)), None)
    if not names:
        raise DataError(f"{paths[0].name}: no column was taken for a channel. Name them: channels=[...].")
    if trial in names:
        raise ConfigError(f"The column {trial!r} cannot be a channel and tell trials apart; choose one of them.")
    if rate_hz is None and (times := having(roles, Role.TIME)):
        rate_hz = read_clock(head[times[0]], times[0]).rate_hz
    sizes = [_checked(path, (*names, *([trial] if trial else []))) for path in paths]
    file, spans = _unpacked(paths, sizes, names, trial, Path(scratch) if scratch else data_dir(), progress)
    return StreamedTrials((file,), spans, names, rate_hz or 1.0, name)


def _files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    if isinstance(source, str | Path):
        one = Path(source)
        found = sorted(p for p in one.iterdir() if p.suffix in READABLE) if one.is_dir() else [one]
        if not found:
            raise DataError(f"The folder {one} holds no file of {', '.join(READABLE)}.")
    else:
        found = [Path(path) for path in source]
        if not found:
            raise DataError("The list of files is empty; at least one is needed.")
    for path in found:
        if not path.is_file():
            raise DataError(f"There is no file {path}.")
        if path.suffix not in READABLE:
            raise DataError(
                f"{path.name} cannot be read in parts; readable: {', '.join(READABLE)}. "
                "Convert it, for example with pandas' to_parquet."
            )
    kinds = {path.suffix for path in found}
    if len(kinds) > 1:
        raise DataError(f"Files of several kinds ({', '.join(sorted(kinds))}) make no one recording. Convert some.")
    return found


# ---- .npy -------------------------------------------------------------------------------------------------------
def _arrays(
    paths: list[Path], channels: Sequence[str] | None, trial: str | None, rate_hz: float | None, name: str
) -> StreamedTrials:
    if trial not in (None, "auto"):
        raise ConfigError(f"trial is {trial!r}, but .npy files have no columns with names: each file is a trial.")
    files: list[RowFile] = []
    spans: list[Span] = []
    first = 0
    for path in paths:
        file = _array(path)
        if file.n_channels != (files[0].n_channels if files else file.n_channels):
            raise DataError(
                f"{path.name} has {file.n_channels} columns but {paths[0].name} has {files[0].n_channels}. "
                "All trials need the same channels in the same order."
            )
        files.append(file)
        spans.append(Span(path.stem, first, file.n_rows))
        first += file.n_rows
    names = tuple(channels) if channels is not None else tuple(f"y{i + 1}" for i in range(files[0].n_channels))
    if len(names) != files[0].n_channels:
        raise ConfigError(f"{paths[0].name} has {files[0].n_channels} columns but {len(names)} channels are named.")
    return StreamedTrials(tuple(files), tuple(spans), names, rate_hz or 1.0, name)


def _array(path: Path) -> RowFile:
    with path.open("rb") as file:
        shape, in_columns, dtype = read_header(file, path.name)
        offset = file.tell()
    if dtype.kind not in "fiu":
        raise DataError(f"{path.name} holds values of type {dtype}; expected real numbers.")
    if len(shape) != 2 or min(shape) < 1:
        raise DataError(f"{path.name} has shape {shape}; expected [time, channels] with at least one of each.")
    if in_columns and shape[1] > 1:
        raise DataError(
            f"{path.name} holds its columns one after the other, so that a window of rows lies all over it. "
            "Save numpy.ascontiguousarray(...) of it."
        )
    wanted = shape[0] * shape[1] * dtype.itemsize
    if path.stat().st_size - offset != wanted:
        raise DataError(
            f"{path.name} declares {wanted:,} bytes but {path.stat().st_size - offset:,} follow. It may be cut short."
        )
    return RowFile(path, shape[0], shape[1], dtype, offset)


# ---- columns ----------------------------------------------------------------------------------------------------
def _readable(path: Path) -> AbstractContextManager[None]:
    what = f"{path.name} is not a readable {path.suffix} file"
    return refuse_damage(what, "It may be damaged.", (pa.ArrowException, OSError, ValueError))


def _batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Stretches of rows of a file, none longer than a block."""
    with _readable(path):
        if path.suffix in (".parquet", ".pq"):
            with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                yield from file.iter_batches(BLOCK_ROWS, columns=list(columns) if columns else None, use_threads=False)
            return
        with path.open("rb") as opened:
            mapped = mmap.mmap(
                opened.fileno(), 0, access=mmap.ACCESS_READ
            )  # goes with the last batch that points into it
        for batch in _arrow(pa.py_buffer(mapped)):
            for begin in range(0, batch.num_rows, BLOCK_ROWS):
                part = batch.slice(begin, BLOCK_ROWS)
                yield part.select(list(columns)) if columns else part
                if hasattr(mmap, "MADV_DONTNEED"):  # what was read need not stay resident
                    mapped.madvise(mmap.MADV_DONTNEED)


def _arrow(buffer: pa.Buffer) -> Iterator[pa.RecordBatch]:
    try:
        file = pa.ipc.open_file(buffer)
    except pa.ArrowInvalid:
        yield from pa.ipc.open_stream(buffer)
        return
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _head(path: Path) -> pd.DataFrame:
    batches = _batches(path)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        raise DataError(f"{path.name} holds no rows.")
    head = first.slice(0, _HEAD_ROWS).to_pandas()
    batches.close()  # type: ignore[attr-defined]
    return head


def _checked(path: Path, names: Sequence[str]) -> int:
    """The rows of a file, after its columns were found to be there."""
    with _readable(path):
        if path.suffix in (".parquet", ".pq"):
            with pq.ParquetFile(path) as file:
                there, n_rows = set(file.schema_arrow.names), file.metadata.num_rows
        else:
            with pa.OSFile(str(path)) as opened:
                try:
                    reader = pa.ipc.open_file(opened)
                except pa.ArrowInvalid:
                    opened.seek(0)
                    reader = pa.ipc.open_stream(opened)
                there = set(reader.schema.names)
            n_rows = sum(batch.num_rows for batch in _batches(path))
    if missing := [name for name in names if name not in there]:
        raise DataError(
            f"{path.name} has no column {missing[0]!r}; it has {', '.join(sorted(there)[:20])}. All files need the same channels."
        )
    return n_rows


def _unpacked(
    paths: list[Path],
    sizes: list[int],
    names: tuple[str, ...],
    trial: str | None,
    scratch: Path,
    progress: ProgressCallback | None,
) -> tuple[RowFile, tuple[Span, ...]]:
    """One file of float32 rows without a name, which the system removes with the process; and the trials in it."""
    total = sum(sizes)
    needed = total * len(names) * 4
    try:
        free = shutil.disk_usage(scratch).free
        if needed > free:
            raise DataError(
                f"Unpacking needs {needed / 1e9:.1f} GB in {scratch}, where {free / 1e9:.1f} GB are free. "
                "Name another folder: scratch=..."
            )
        rows: BinaryIO = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 (it is read as long as the recording lives)
        bounds = _Bounds(trial)
        for path in paths:
            if trial is None:
                bounds.begin(path.stem)
            for batch in _batches(path, (*names, *([trial] if trial else []))):
                rows.write(_numbers(batch, names, path).tobytes())
                bounds.add(batch, path)
                if progress is not None:
                    progress(bounds.n_rows / total, f"{bounds.n_rows:,} of {total:,} rows unpacked")
        rows.flush()
    except OSError as error:
        raise DataError(
            f"{scratch} takes no more ({os.strerror(error.errno or 0)}). Name another: scratch=..."
        ) from error
    if not bounds.n_rows:
        raise DataError(f"{paths[0].name} holds no rows.")
    return RowFile(paths[0], bounds.n_rows, len(names), handle=rows), bounds.spans()


def _numbers(batch: pa.RecordBatch, names: tuple[str, ...], path: Path) -> npt.NDArray[np.float32]:
    """[n, N] values, NaN where a column has none."""
    found = np.empty((batch.num_rows, len(names)), np.float32)
    for j, name in enumerate(names):
        try:
            column = pc.cast(batch.column(name), pa.float32(), safe=False)
        except pa.ArrowException as error:
            raise DataError(f"{path.name}: the column {name!r} is not numeric ({error}). Leave it out.") from error
        found[:, j] = column.to_numpy(zero_copy_only=False)
    return found


class _Bounds:
    """Where trials begin, found while rows go by."""

    def __init__(self, trial: str | None) -> None:
        self.trial, self.n_rows = trial, 0
        self._firsts: dict[str, int] = {}
        self._last: Any = None

    def begin(self, name: str, at: int | None = None) -> None:
        """A trial begins at row `at`, by default with the next."""
        if name in self._firsts:
            if self.trial is None:
                name = f"{name} ({len(self._firsts) + 1})"  # files of one name in several folders
            else:
                raise DataError(
                    f"The trial {name!r} comes again at row {at:,} after others. Sort the rows by {self.trial!r}."
                )
        if len(self._firsts) == MOST_TRIALS:
            raise DataError(
                f"The column {self.trial!r} makes more than {MOST_TRIALS:,} trials. Name another: trial=... (None for none)."
            )
        self._firsts[name] = self.n_rows if at is None else at

    def add(self, batch: pa.RecordBatch, path: Path) -> None:
        """Rows that follow."""
        if self.trial is not None and batch.num_rows:
            values = batch.column(self.trial).to_pandas()
            if values.isna().any():
                row = int(np.flatnonzero(values.isna())[0])
                raise DataError(f"{path.name}: row {self.n_rows + row:,} has no {self.trial!r}, so it is of no trial.")
            changes = np.flatnonzero(values.to_numpy()[1:] != values.to_numpy()[:-1]) + 1
            if self._last is None or values.iloc[0] != self._last:
                changes = np.concatenate([[0], changes])
            for row in changes.tolist():
                self.begin(f"{self.trial} {word(values.iloc[row])}", self.n_rows + row)
            self._last = values.iloc[-1]
        self.n_rows += batch.num_rows

    def spans(self) -> tuple[Span, ...]:
        """The trials; files without rows make none."""
        firsts = list(self._firsts.values())
        ends = [*firsts[1:], self.n_rows]
        return tuple(
            Span(name, first, end - first)
            for name, first, end in zip(self._firsts, firsts, ends, strict=True)
            if end > first
        )
