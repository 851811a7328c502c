"""What a reader is given: a path, bytes or an open file, with a name; and the limits that keep a server standing."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, cast

from gdm_core.errors import DataError
from gdm_core.text import shortened

ProgressCallback = Callable[[float, str], None]
Readable = str | Path | bytes | bytearray | memoryview | IO[bytes]

PACKED_ERRORS = (OSError, EOFError, zlib.error)


def brief(error: BaseException) -> str:
    """What another library said, in one short line: some quote half the file."""
    lines = str(error).strip().splitlines()
    return shortened((lines[0] if lines else "") or type(error).__name__)


@dataclass(frozen=True)
class Limits:
    """The most that a reader takes. Each refusal names the limit that it met.

    file_bytes, unpacked_bytes   of a file as given, and as unpacked
    unpack_ratio                 by which it may grow
    rows, columns, values        of a table
    """

    file_bytes: int = 1_000_000_000
    unpacked_bytes: int = 2_000_000_000
    unpack_ratio: int = 1000  # deflate cannot do better than 1032 on real input of any use
    rows: int = 5_000_000
    columns: int = 5_000
    values: int = 250_000_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Source:
    """A named file to read, possibly packed with gzip."""

    name: str
    limits: Limits
    _path: Path | None = None
    _data: memoryview | None = None
    _file: IO[bytes] | None = None

    @property
    def suffix(self) -> str:
        """The kind of content by name, in lower case, without a final .gz."""
        suffixes = [suffix.lower() for suffix in PurePath(self.name).suffixes]
        if suffixes and suffixes[-1] == ".gz":
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @property
    def packed(self) -> bool:
        return self.name.lower().endswith(".gz")

    @property
    def size(self) -> int:
        """Bytes as given, before unpacking."""
        if self._path is not None:
            return self._path.stat().st_size
        if self._data is not None:
            return self._data.nbytes
        assert self._file is not None
        here = self._file.tell()
        end = self._file.seek(0, os.SEEK_END)
        self._file.seek(here)
        return end

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The content from its start, unpacked; damage on the way becomes a DataError."""
        try:
            if self._path is not None:
                with self._path.open("rb") as raw:
                    yield self._unpacked(raw)
            elif self._data is not None:
                yield self._unpacked(cast(IO[bytes], _ViewFile(self._data)))
            else:
                assert self._file is not None
                self._file.seek(0)
                yield self._unpacked(self._file)
        except PACKED_ERRORS as error:
            raise DataError(
                f"{self.name} cannot be read to its end ({brief(error)}). It may be damaged or cut short."
            ) from error

    def _unpacked(self, raw: IO[bytes]) -> IO[bytes]:
        if not self.packed:
            return raw
        return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=raw), self.limits.unpacked_bytes, self.name), 1 << 18)

    def head(self, n_bytes: int = 1 << 18) -> bytes:
        """The first bytes, unpacked."""
        with self.open() as file:
            return file.read(n_bytes)


class _ViewFile(io.RawIOBase):
    """A file over bytes that are already in memory, without a second copy of them."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._view.nbytes}[whence]
        if base + offset < 0:
            raise OSError("the position lies before the start of the file")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        part = self._view[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than `most` bytes."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, most: int, name: str) -> None:
        self._file, self._left, self._most, self._name = file, most, most, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        block = self._file.read(len(buffer))
        self._left -= len(block)
        if self._left < 0:
            raise DataError(f"{self._name} unpacks to more than the limit of {self._most:,} bytes; it is refused.")
        buffer[: len(block)] = block
        return len(block)


def open_source(source: Readable, name: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Source:
    """A Source from a path, bytes, or an open binary file. Bytes and files need a `name`, for its ending."""
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise DataError(f"There is no file at {path}.")
        made = Source(name or path.name, limits, _path=path)
    elif isinstance(source, bytes | bytearray | memoryview):
        made = Source(_plain_name(name), limits, _data=memoryview(source).cast("B"))
    else:
        made = Source(_plain_name(name or getattr(source, "name", None)), limits, _file=source)
    if made.size > limits.file_bytes:
        raise DataError(
            f"{made.name} has {made.size:,} bytes; the limit is {limits.file_bytes:,}. "
            "Split it, or convert it to Parquet, which takes a fraction of the room."
        )
    if made.size == 0:
        raise DataError(f"{made.name} is empty.")
    return made


def _plain_name(name: str | None) -> str:
    if not name:
        raise DataError("The file has no name, so its kind is unknown. Pass its name along with its bytes.")
    return PurePath(str(name).replace("\\", "/")).name or "upload"


def path_within(folder: str | Path, wanted: str | Path) -> Path:
    """`wanted` as a path below `folder`; anything that leads out of it, by .. or by a link, is refused."""
    base = Path(folder).resolve()
    path = (base / wanted).resolve()
    if path != base and base not in path.parents:
        raise DataError(f"{wanted} lies outside the data folder {base}. Move the file into that folder.")
    return path
