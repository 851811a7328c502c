"""One folder for everything the application keeps on disk, and locks and repairs of what lies in it.

The folder is the operating system's usual place for application data; `GDM_DATA_DIR` names another one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from gdm_core.errors import ConfigError, DataError

ENVIRONMENT_VARIABLE = "GDM_DATA_DIR"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
MOST_FILES = 200  # that are listed
CACHES = ("formula1", "fastf1", "calms21")


def data_dir() -> Path:
    """The data folder, created when it is not there yet."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    path = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("gdm-studio", appauthor=False))
    return _make_folder(path.absolute())


def cache_dir(name: str) -> Path:
    """The folder of one cache below the data folder, created when it is not there yet."""
    if name not in CACHES:
        raise ConfigError(f"There is no cache named {name!r}; the caches are {', '.join(CACHES)}.")
    return _make_folder(data_dir() / name)


def files_below(endings: tuple[str, ...]) -> list[str]:
    """Names of the first files below the data folder that end so; the app's own caches and hidden ones are left out."""
    root, found = data_dir(), list[str]()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if inside.parts[0] in CACHES or path.name.startswith(".") or not path.is_file():
            continue
        if path.name.lower().endswith(endings):
            found.append(inside.as_posix())
            if len(found) == MOST_FILES:
                break
    return found


def move_aside(path: Path) -> Path:
    """Rename a damaged file so that nothing reads it again and nothing in it is lost; the new name."""
    for attempt in range(1000):
        aside = path.with_name(f"{path.name}.damaged-{attempt}" if attempt else f"{path.name}.damaged")
        if not aside.exists():
            try:
                path.replace(aside)
            except OSError as error:
                raise StorageError(f"{path} is damaged, and cannot be moved aside. {cannot_write(error)}") from error
            return aside
    raise DataError(f"There are too many damaged copies of {path.name} in {path.parent}. Delete some of them.")


class StorageError(DataError):
    """The disk is full, or takes nothing."""


def is_of_storage(error: BaseException) -> bool:
    """Whether the disk is full or takes nothing. Errors of the network are OSErrors as well."""
    if isinstance(error, StorageError | sqlite3.OperationalError):  # FastF1 keeps downloads in such a file
        return True
    return isinstance(error, OSError) and error.errno in _FULL


def cannot_write(error: BaseException) -> str:
    """What to do where the data folder takes nothing."""
    why = getattr(error, "strerror", None) or error
    return f"The data folder cannot be written to ({why}). Make room in it, or set {ENVIRONMENT_VARIABLE} to another folder."


@contextmanager
def file_lock(path: Path, timeout_s: float, what: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock that every process and thread on this machine respects and that dies with its holder.

    `waiting()` is called again and again until the lock is had; what it raises ends the waiting.
    """
    _make_folder(path.parent)
    until = time.monotonic() + timeout_s
    try:
        opened = path.open("a+b")
    except OSError as error:
        raise StorageError(f"{what} needs to write. {cannot_write(error)}") from error
    with opened as handle:
        while not _try_lock(handle):
            if time.monotonic() >= until:
                raise DataError(
                    f"{what} is still running after {timeout_s:.0f} s of waiting, and only one may run at a time. "
                    "Wait for it to finish, then try again."
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
