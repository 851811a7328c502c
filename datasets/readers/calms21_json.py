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

from .source import Counted, refuse_damage

NOT_READABLE = (
    "Expected the official task 1 layout: one object per annotator, holding one object per trial with keypoints, "
    "scores and annotations."
)
MAX_JSON_BYTES = 4 * 1024**3  # the largest official file has 1.2 GB
_FIRST_KEY = re.compile(rb'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*\{')
_AGAIN = "Download it again."


class CountingStream:
    """A binary file for the JSON parser: counts what was read, stops at a limit, and turns NaN, which Python writes
    but JSON does not know, into null."""

    def __init__(self, file: IO[bytes], path: Path, size: int) -> None:
        refusal = f"{path} unpacks to more than {MAX_JSON_BYTES:,} bytes; no CalMS21 file is that large."
        self._file, self._path, self._ahead = Counted(file, MAX_JSON_BYTES, refusal), path, b""
        self._size = size

    @property
    def share(self) -> float:
        """How much of it was read, 0 to 1."""
        return min(self._file.count / max(self._size, 1), 0.99)

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
        with refuse_damage(f"{self._path} cannot be read after {self._file.count:,} bytes", _AGAIN):
            return self._file.read(size) or b""


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


@contextmanager
def open_official(path: Path, split: str) -> Iterator[CountingStream]:
    """The JSON of a split as a stream of bytes, which knows how many there are as far as it can be known beforehand."""
    with refuse_damage(f"{path} cannot be read", _AGAIN, (OSError, EOFError, zlib.error, zipfile.BadZipFile)):
        size = path.stat().st_size
        if path.suffix == ".zip":
            with refuse_damage(f"{path} is not a readable zip file", _AGAIN):
                archive = zipfile.ZipFile(path)
            with archive:
                member = _member(archive, path, split)
                with archive.open(member) as file:
                    yield CountingStream(file, path, member.file_size)
        elif path.suffix == ".gz":
            with gzip.open(path) as file:
                yield CountingStream(file, path, 10 * size)  # type: ignore[arg-type]  # keypoints as text pack about ten to one
        else:
            with path.open("rb") as file:
                yield CountingStream(file, path, size)


def raw_trials(stream: CountingStream, path: Path) -> Iterator[tuple[str, Any]]:
    """(name, record) of each trial of the first annotator (task 1 has one), one at a time, in the order of the file."""
    import ijson

    opening = _FIRST_KEY.match(stream.peek())
    if opening is None:
        raise DataError(f"{path} is not a CalMS21 file: it does not start with an annotator. {NOT_READABLE}")
    kinds = (ijson.JSONError, UnicodeDecodeError, json.JSONDecodeError)
    with refuse_damage(f"{path} is not valid JSON", "It may be cut short: download it again.", kinds):
        annotator = json.loads(b'"' + opening[1] + b'"')
        yield from ijson.kvitems(stream, annotator, use_float=True)
