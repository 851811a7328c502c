"""The official CalMS21 JSON as a stream of trials, from a plain file, a gzip file, or from inside the zip."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gdm_core.errors import DataError

from .source import brief

NOT_READABLE = (
    "Expected the official task 1 layout: one object per annotator, holding one object per trial with keypoints, "
    "scores and annotations."
)
MAX_JSON_BYTES = 4 * 1024**3  # the largest official file has 1.2 GB
_FIRST_KEY = re.compile(rb'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*\{')
_READ_ERRORS = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


class CountingStream:
    """A binary file for the JSON parser: counts what was read, stops at a limit, and turns NaN, which Python writes
    but JSON does not know, into null."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._ahead = b""
        self.bytes_read = 0

    def peek(self) -> bytes:
        """The beginning of the file, which `read` will still give."""
        self._ahead = self._ahead or self._read(65536)
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # the parser's way to ask whether this is bytes or text
            return b""
        block, self._ahead = self._ahead or self._read(size), b""
        while block.endswith((b"N", b"Na")):  # a NaN may be cut by the end of the block
            more = self._read(3)
            if not more:
                break
            block += more
        return block.replace(b"NaN", b"null")

    def _read(self, size: int) -> bytes:
        try:
            block = self._file.read(size)
        except _READ_ERRORS as error:
            raise DataError(
                f"{self._path} cannot be read after {self.bytes_read:,} bytes ({brief(error)}). Download it again."
            ) from error
        self.bytes_read += len(block)
        if self.bytes_read > MAX_JSON_BYTES:
            raise DataError(
                f"{self._path} unpacks to more than {MAX_JSON_BYTES:,} bytes; no CalMS21 file is that large."
            )
        return block


def _member(archive: zipfile.ZipFile, path: Path, split: str) -> zipfile.ZipInfo:
    wanted = [
        info for info in archive.infolist() if info.filename.endswith(".json") and split in Path(info.filename).name
    ]
    wanted = [info for info in wanted if "task1" in info.filename] or wanted
    wanted = [info for info in wanted if not Path(info.filename).name.startswith("._")]
    if not wanted:
        names = ", ".join(info.filename for info in archive.infolist()[:5]) or "nothing"
        raise DataError(f"{path} holds no {split} JSON (it holds {names}). Use task1_classic_classification.zip.")
    if wanted[0].file_size > MAX_JSON_BYTES:
        raise DataError(
            f"{wanted[0].filename} in {path} declares {wanted[0].file_size:,} bytes; that is no CalMS21 file."
        )
    return wanted[0]


def size_of(path: Path, split: str) -> int:
    """Bytes of JSON to read, as far as it can be known beforehand."""
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                return _member(archive, path, split).file_size
        except _READ_ERRORS as error:
            raise DataError(f"{path} is not a readable zip file ({brief(error)}). Download it again.") from error
    if path.suffix == ".gz":
        return 10 * path.stat().st_size  # keypoints written as text pack about ten to one
    return path.stat().st_size


@contextmanager
def open_official(path: Path, split: str) -> Iterator[CountingStream]:
    """The JSON of a split as a stream of bytes."""
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(_member(archive, path, split)) as file:
                yield CountingStream(file, path)
        elif path.suffix == ".gz":
            with gzip.open(path) as file:
                yield CountingStream(file, path)  # type: ignore[arg-type]
        else:
            with path.open("rb") as file:
                yield CountingStream(file, path)
    except _READ_ERRORS as error:
        raise DataError(f"{path} cannot be read ({brief(error)}). Download it again.") from error


def raw_trials(stream: CountingStream, path: Path) -> Iterator[tuple[str, Any]]:
    """(name, record) of each trial of the first annotator (task 1 has one), one at a time, in the order of the file."""
    import ijson

    opening = _FIRST_KEY.match(stream.peek())
    if opening is None:
        raise DataError(f"{path} is not a CalMS21 file: it does not start with an annotator. {NOT_READABLE}")
    try:
        annotator = json.loads(b'"' + opening[1] + b'"')
        yield from ijson.kvitems(stream, annotator, use_float=True)
    except (ijson.JSONError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(
            f"{path} is not valid JSON ({brief(error)}). It may be cut short: download it again."
        ) from error
