"""Input of the readers (a path, bytes or an open file, with a name) and limits on its size."""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, ClassVar

from gdm_core.errors import DataError, GdmError
from gdm_core.text import shorten

TEXT = (".csv", ".tsv", ".txt", ".tab")  # extensions of text tables
ProgressCallback = Callable[[float, str], None]
Readable = str | Path | bytes | bytearray | memoryview | IO[bytes]

# Errors that libraries raise for damaged, forged or foreign files.
DAMAGE: tuple[type[Exception], ...] = (
    OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, OverflowError, MemoryError,
    SyntaxError, AssertionError, zlib.error, zipfile.BadZipFile, struct.error, tokenize.TokenError,
)  # fmt: skip


@contextmanager
def refuse_damage(what: str, advice: str = "", kinds: tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Convert errors of a library into a DataError with `what`, the library's message and advice."""
    try:
        yield
    except GdmError:
        raise
    except kinds as error:
        raise DataError(f"{what} ({brief(error)}).{' ' * bool(advice)}{advice}") from error


def brief(error: BaseException) -> str:
    """Return the message of another library, shortened to one line."""
    lines = str(error).strip().splitlines()
    return shorten((lines[0] if lines else "") or type(error).__name__)


@dataclass(frozen=True)
class Limits:
    """Largest input of a reader.

    file_bytes, unpacked_bytes   size of a file, and its unpacked size
    unpack_ratio                 unpacked over packed size
    rows, columns, values        size of a table
    """

    file_bytes: int = 1_000_000_000
    unpacked_bytes: int = 2_000_000_000
    unpack_ratio: int = 1000  # the limit of deflate is 1032
    rows: int = 5_000_000
    columns: int = 5_000
    values: int = 250_000_000


@dataclass(frozen=True)
class Source:
    """A named file to read, possibly compressed with gzip."""

    limits: ClassVar[Limits] = Limits()
    name: str
    size: int  # in bytes, before unpacking
    _content: Path | bytes | IO[bytes]

    def check_size(
        self, rows: int = 0, columns: int = 1, values: int = 0, unpacked: int = 0, what: str = "the file"
    ) -> None:
        """Raise DataError for content beyond the limits or without columns."""
        limits = self.limits
        if columns == 0:
            raise DataError(f"{self.name} has no column of simple values.")
        for size, limit, unit in (
            (columns, limits.columns, "columns"),
            (rows, limits.rows, "rows"),
            (max(values, rows * columns), limits.values, "values"),
            (unpacked, min(limits.unpacked_bytes, max(10_000_000, limits.unpack_ratio * self.size)), "bytes unpacked"),
        ):
            if size > limit:
                raise DataError(
                    f"{self.name}: {what} has {size:,} {unit}; the limit is {limit:,}. Save fewer rows or columns."
                )

    @property
    def suffix(self) -> str:
        """Lower-case extension, ignoring a final .gz."""
        suffixes = [suffix.lower() for suffix in PurePath(self.name).suffixes]
        if suffixes and suffixes[-1] == ".gz":
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @property
    def packed(self) -> bool:
        return self.name.lower().endswith(".gz")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the unpacked content from its start; damage raises DataError."""
        packed = (OSError, EOFError, zlib.error)
        with refuse_damage(f"{self.name} cannot be read to its end", "It may be damaged or cut short.", packed):
            if isinstance(self._content, Path):
                with self._content.open("rb") as raw:
                    yield self._unpack(raw)
            elif isinstance(self._content, bytes):
                yield self._unpack(io.BytesIO(self._content))  # makes no copy
            else:
                self._content.seek(0)
                yield self._unpack(self._content)

    def _unpack(self, raw: IO[bytes]) -> IO[bytes]:
        if not self.packed:
            return raw
        most = self.limits.unpacked_bytes
        refusal = f"{self.name} unpacks to more than the limit of {most:,} bytes."
        return io.BufferedReader(BoundedStream(gzip.GzipFile(fileobj=raw), most, refusal), 1 << 18)

    def head(self, n_bytes: int = 1 << 18) -> bytes:
        """Return the first unpacked bytes."""
        with self.open() as file:
            return file.read(n_bytes)


class BoundedStream(io.RawIOBase):
    """A binary stream that counts bytes, and raises DataError(refusal) after `most`."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, most: float = math.inf, refusal: str = "") -> None:
        self._file, self._most, self._refusal, self.count = file, most, refusal, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        block = self._file.read(len(buffer))
        self.count += len(block)
        if self.count > self._most:
            raise DataError(self._refusal)
        buffer[: len(block)] = block
        return len(block)


def open_source(source: Readable, name: str | None = None) -> Source:
    """Make a Source from a path, named bytes or an open binary file."""
    content: Path | bytes | IO[bytes]
    if isinstance(source, str | Path):
        content = Path(source)
        if not content.is_file():
            raise DataError(f"There is no file at {content}.")
        name, size = name or content.name, content.stat().st_size
    elif isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
        name, size = _file_name(name), len(content)
    else:
        content = source
        name, size = _file_name(name or getattr(source, "name", None)), source.seek(0, os.SEEK_END)
    if size > (limit := Source.limits.file_bytes):
        raise DataError(
            f"{name} has {size:,} bytes; the limit is {limit:,}. "
            "Split it, or convert it to Parquet, which is much smaller."
        )
    if size == 0:
        raise DataError(f"{name} is empty.")
    return Source(name, size, content)


def _file_name(name: str | None) -> str:
    if not name:
        raise DataError("The format is unknown without a file name. Pass the name with the bytes.")
    return PurePath(str(name).replace("\\", "/")).name or "upload"


def path_within(folder: str | Path, relative: str | Path) -> Path:
    """Return a path below `folder`; raise DataError if it leads outside."""
    base = Path(folder).resolve()
    path = (base / relative).resolve()
    if path != base and base not in path.parents:
        raise DataError(f"{relative} is outside the data folder {base}. Move the file into that folder.")
    return path
