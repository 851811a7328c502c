"""Recordings too long for memory: trials whose rows stay in files and are read a stretch at a time.

Files are read at a place, not mapped into memory. Mapped pages count as resident memory once they were touched, and a
mapped file that gets shorter ends the process without a message; a read that comes back short is an error like others.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

Array = npt.NDArray[np.float32]

BLOCK_ROWS = 65_536  # rows of one block, wherever a whole recording is gone through


class RowFile:
    """Numbers of one type in one file, row after row, each with a value for every channel.

    path        of the file, opened when first read; or
    handle      an open file that nobody else writes to
    n_rows, n_channels   how many of them
    dtype       of the numbers as they lie there
    offset      where the first of them lies, in bytes
    """

    def __init__(
        self,
        path: Path,
        n_rows: int,
        n_channels: int,
        dtype: npt.DTypeLike = np.float32,
        offset: int = 0,
        handle: BinaryIO | None = None,
    ) -> None:
        self.path, self.n_rows, self.n_channels = Path(path), n_rows, n_channels
        self.dtype, self.offset = np.dtype(dtype), offset
        self._handle, self._lock, self._kept = handle, threading.Lock(), handle is not None
        self._stamp = None if self._kept else self._seen(os.stat(self.path))

    @staticmethod
    def _seen(status: os.stat_result) -> tuple[int, int]:
        return status.st_size, status.st_mtime_ns

    def __getstate__(self) -> dict[str, Any]:
        """What travels between processes: where the file lies. Whoever gets it must see the same file there."""
        if self._kept:
            raise DataError(
                f"{self.path} was unpacked for this process alone. Open it where it is read, or give a float32 .npy file."
            )
        return self.__dict__ | {"_handle": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def read_into(self, rows: npt.NDArray[Any], begin: int) -> None:
        """Fill `rows` [n, N] of this file's type with the rows from `begin` on."""
        try:
            with self._lock:
                if self._handle is None:
                    self._handle = open(self.path, "rb", buffering=0)  # noqa: SIM115 (kept open between reads)
                if not self._kept and self._seen(os.fstat(self._handle.fileno())) != self._stamp:
                    raise DataError(
                        f"{self.path} changed after it was opened, so its rows no longer belong together. Open it again."
                    )
                self._handle.seek(self.offset + begin * self.n_channels * self.dtype.itemsize)
                got = 0
                view = memoryview(rows).cast("B")  # type: ignore[arg-type]
                while got < len(view) and (n := self._handle.readinto(view[got:])):  # type: ignore[attr-defined]
                    got += n
        except OSError as error:
            raise DataError(f"{self.path} cannot be read ({error}). Is it still there?") from error
        if got < len(view):
            raise DataError(
                f"{self.path} ends before row {begin + len(rows):,}; it has {self.n_rows:,}. Copy it again."
            )


@dataclass(frozen=True)
class Span:
    """A trial of a stream.

    name        what messages and tables call it
    first       number of its first row, counted over all trials
    n_samples   how many rows it has
    """

    name: str
    first: int
    n_samples: int


class StreamedTrials:
    """Trials that stay in files. Models take them as they take `Trials`, where they can fit out of memory.

    files     with the rows of all trials, one file after the other
    spans     the trials, in the order of their rows
    channels  N names
    rate_hz   samples per second
    name      what messages call the set
    """

    def __init__(
        self,
        files: tuple[RowFile, ...],
        spans: tuple[Span, ...],
        channels: tuple[str, ...],
        rate_hz: float = 1.0,
        name: str = "data",
    ) -> None:
        self.files, self.spans, self.channels = files, spans, channels
        self.rate_hz, self.name = rate_hz, name
        self._file_firsts = np.cumsum([0, *(file.n_rows for file in files)])
        self.trial_firsts = np.array([span.first for span in spans])
        if not spans or self.n_samples != sum(span.n_samples for span in spans):
            raise DataError(f"{name}: its trials do not add up to its {self.n_samples:,} rows.")

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    @property
    def n_channels(self) -> int:
        """N, the same for all trials."""
        return len(self.channels)

    @property
    def n_samples(self) -> int:
        """Samples in all trials together."""
        return int(self._file_firsts[-1])

    def read(self, begin: int, end: int) -> Array:
        """[end - begin, N] rows as float32, counted over all trials; NaN where missing.

        begin, end   numbers of the first row and of the one after the last
        """
        found = np.empty((end - begin, self.n_channels), np.float32)
        at = begin
        while at < end:
            which = int(np.searchsorted(self._file_firsts, at, side="right")) - 1
            file, first = self.files[which], int(self._file_firsts[which])
            stop = min(end, first + file.n_rows)
            part = found[at - begin : stop - begin]
            if file.dtype == np.float32:
                file.read_into(part, at - first)
            else:
                raw = np.empty(part.shape, file.dtype)
                file.read_into(raw, at - first)
                with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused below
                    part[:] = raw
            at = stop
        if np.isinf(found).any():
            row, column = np.argwhere(np.isinf(found))[0]
            span = self.span_at(begin + int(row))
            raise DataError(
                f"Trial {span.name!r}: {self.channels[column]} is infinite (or too large for float32) at sample "
                f"{begin + int(row) - span.first:,}. Mark missing values as NaN."
            )
        return found

    def span_at(self, row: int) -> Span:
        """The trial that a row lies in, by its number over all trials."""
        return self.spans[int(np.searchsorted(self.trial_firsts, row, side="right")) - 1]

    def blocks(self, n_rows: int = BLOCK_ROWS) -> Iterator[tuple[Span, int, int]]:
        """(trial, begin, end) of stretches of at most `n_rows` rows that cover everything once, none across two trials."""
        for span in self.spans:
            last = span.first + span.n_samples
            for begin in range(span.first, last, n_rows):
                yield span, begin, min(begin + n_rows, last)

    def channel_sums(self, center: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
        """[2, N] how many values each channel has, and their sum; or [1, N] sums of squared distances from `center` [N]."""
        return channel_sums((self.read(begin, end) for _, begin, end in self.blocks()), center)

    def excerpt(self, n_rows: int, n_parts: int = 100) -> list[Array]:
        """All trials, or where they have more than `n_rows` rows `n_parts` evenly spread stretches with about as many."""
        if self.n_samples <= n_rows:
            return [self.read(span.first, span.first + span.n_samples) for span in self.spans]
        length = n_rows // n_parts
        parts = []
        for begin in np.linspace(0, self.n_samples - length, n_parts).astype(int).tolist():
            span = self.span_at(begin)
            # A stretch ends with its trial; one that would be short begins earlier.
            end = min(begin + length, span.first + span.n_samples)
            parts.append(self.read(max(span.first, end - length), end))
        return parts


def channel_sums(blocks: Iterable[Array], center: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """[2, N] how many values each channel has, and their sum; or [1, N] sums of squared distances from a centre.

    blocks   of rows [n, N], NaN where missing
    center   [N], None for numbers and sums
    """
    total: Any = 0.0
    for y in blocks:
        parts = (np.isfinite(y), y) if center is None else ((y - center) ** 2,)
        total = total + np.stack([np.nansum(part, axis=0, dtype=np.float64) for part in parts])
    return np.asarray(total)
