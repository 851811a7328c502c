"""The data folder of the application, with its caches and file locks.

By default it is the operating system's folder for application data; `GDM_DATA_DIR` overrides it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

import platformdirs

from gdm_core.errors import ConfigError, DataError

ENVIRONMENT_VARIABLE = "GDM_DATA_DIR"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
MAX_FILES = 200  # in a listing
CACHES = ("formula1", "fastf1", "calms21", "compiled")


def data_dir() -> Path:
    """Return the data folder, creating it if needed."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    path = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("gdm-studio", appauthor=False))
    return _make_folder(path.absolute())


def cache_dir(name: str) -> Path:
    """Return the folder of a cache, creating it if needed."""
    if name not in CACHES:
        raise ConfigError(f"There is no cache named {name!r}; the caches are {', '.join(CACHES)}.")
    return _make_folder(data_dir() / name)


def files_below(endings: tuple[str, ...]) -> list[str]:
    """List up to MAX_FILES files of the user with these endings in the data folder."""
    root = data_dir()
    inside = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
    found = (one.as_posix() for one in inside if one.parts[0] not in CACHES and not one.name.startswith("."))
    return list(islice((name for name in found if name.lower().endswith(endings)), MAX_FILES))


def move_aside(path: Path) -> Path:
    """Rename a damaged file, replacing an earlier damaged copy, and return its new path."""
    try:
        return path.replace(path.with_name(f"{path.name}.damaged"))
    except OSError as error:
        raise StorageError(f"{path} is damaged, and cannot be moved aside. {describe_write_error(error)}") from error


class StorageError(DataError):
    """The disk is full or read-only."""


def is_storage_error(error: BaseException) -> bool:
    """Return True if the disk is full or read-only; network errors are OSErrors too."""
    if isinstance(error, StorageError | sqlite3.OperationalError):  # FastF1 caches downloads in SQLite
        return True
    return isinstance(error, OSError) and error.errno in _FULL


def describe_write_error(error: BaseException) -> str:
    """Return a message for a data folder that cannot be written."""
    reason = getattr(error, "strerror", None) or error
    return (
        f"The data folder is not writable ({reason}). Free some space, or set {ENVIRONMENT_VARIABLE} to another folder."
    )


@contextmanager
def file_lock(path: Path, timeout_s: float, what: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock between processes and threads, released if its holder dies.

    `waiting()` is called repeatedly until the lock is acquired, and may raise to stop waiting.
    """
    _make_folder(path.parent)
    until = time.monotonic() + timeout_s
    try:
        opened = path.open("a+b")
    except OSError as error:
        raise StorageError(f"{what} needs a lock file. {describe_write_error(error)}") from error
    with opened as handle:
        while not _try_lock(handle):
            if time.monotonic() >= until:
                raise DataError(
                    f"{what} is still running elsewhere after {timeout_s:.0f} s. Wait for it to finish, then try again."
                )
            if waiting is not None:
                waiting()
            time.sleep(0.05)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _try_lock(handle: IO[bytes]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"The data folder {path} cannot be created ({error.strerror or error}). "
            f"Set {ENVIRONMENT_VARIABLE} to a folder you can write to."
        ) from error
    return path
