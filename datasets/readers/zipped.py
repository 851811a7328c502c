"""Zip archives from strangers: sizes and names are checked before anything is unpacked, and again while it is."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO

from gdm_core.errors import DataError

from .source import Source, brief

# what the standard library raises on damaged, encrypted or exotic archives
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    KeyError,
)
_MOST_MEMBERS = 2000


@contextmanager
def open_archive(source: Source) -> Iterator[zipfile.ZipFile]:
    """The archive, after its declared sizes and names were found to be sane."""
    with source.open() as file:
        try:
            archive = zipfile.ZipFile(file)
        except ZIP_ERRORS as error:
            raise DataError(
                f"{source.name} is not a readable {source.suffix} file ({brief(error)}). It may be damaged."
            ) from error
        with archive:
            _check(archive, source)
            yield archive


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: Source) -> bytes:
    """The content of one member; what unpacks to more than it declared is refused."""
    try:
        with archive.open(info) as member:
            data = member.read(info.file_size + 1)
    except ZIP_ERRORS as error:
        raise DataError(f"{source.name}: the part {info.filename!r} is damaged ({brief(error)}).") from error
    if len(data) != info.file_size:
        raise DataError(
            f"{source.name}: the part {info.filename!r} declares {info.file_size:,} bytes but holds others."
        )
    return data


def measure(file: IO[bytes], most: int) -> int:
    """Bytes that a member really unpacks to, reading no further than `most` + 1."""
    total = 0
    while block := file.read(min(1 << 20, most + 1 - total)):
        total += len(block)
    return total


def _check(archive: zipfile.ZipFile, source: Source) -> None:
    infos, limits = archive.infolist(), source.limits
    if len(infos) > _MOST_MEMBERS:
        raise DataError(f"{source.name} holds {len(infos):,} parts; the limit is {_MOST_MEMBERS:,}.")
    declared = sum(info.file_size for info in infos)
    if declared > limits.unpacked_bytes:
        raise DataError(f"{source.name} unpacks to {declared:,} bytes; the limit is {limits.unpacked_bytes:,}.")
    if declared > 10_000_000 and declared > limits.unpack_ratio * max(source.size, 1):
        raise DataError(
            f"{source.name} would unpack to {declared / source.size:,.0f} times its size; "
            f"the limit is {limits.unpack_ratio:,} times. It is refused as a zip bomb."
        )
    for info in infos:
        name = info.filename.replace("\\", "/")
        if name.startswith("/") or ".." in PurePosixPath(name).parts or ":" in name.split("/")[0]:
            raise DataError(
                f"{source.name} holds a part named {info.filename!r}, which points out of it. It is refused."
            )
        if info.flag_bits & 0x1:
            raise DataError(f"{source.name} is encrypted. Save it without a password.")
    if len({info.filename for info in infos}) != len(infos):
        raise DataError(f"{source.name} holds two parts of the same name. It is refused as damaged.")
