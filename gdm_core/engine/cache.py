"""Finished results, in memory and on disk, both bounded. What is on disk survives a restart of the server.

What is kept of a fit, or a call, is one file: a digest, and JSON. A file that does not agree with its digest is moved aside,
and the work is done again.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import logging
import os
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from gdm_core.engine.results import FitResult, Snapshot
from gdm_core.engine.spec import code_version
from gdm_core.files import write_whole

MEMORY_BYTES = 128 * 2**20
DISK_BYTES = 2 * 2**30
DATA_VARIABLE = "GDM_DATA_DIR"
ASIDE = "damaged"
FUTURE_NS = 60 * 10**9

logger = logging.getLogger(__name__)


def default_folder() -> Path:
    """The folder for finished fits below the application's data folder."""
    chosen = os.environ.get(DATA_VARIABLE, "").strip()
    root = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("gdm-studio", appauthor=False))
    return root / "fits"


class ResultCache:
    """Results by key. Safe to use from several threads, and the folder from several servers."""

    def __init__(
        self, folder: Path | None = None, memory_bytes: int = MEMORY_BYTES, disk_bytes: int = DISK_BYTES
    ) -> None:
        self.folder = folder or default_folder()
        self.memory_bytes, self.disk_bytes = memory_bytes, disk_bytes
        self._memory: OrderedDict[str, FitResult] = OrderedDict()
        self._lock = threading.Lock()

    # ---- fits ---------------------------------------------------------------------------------------------------
    def get(self, key: str) -> tuple[FitResult | None, str]:
        """The result, if there is one, and a note for the user, if there is something to say."""
        with self._lock:
            if key in self._memory:
                self._memory.move_to_end(key)
                return self._memory[key], ""
        known, plain, note = self._read(key)
        if not known:
            return None, note
        result = _decode(plain)
        self._remember(result)
        return result, ""

    def put(self, result: FitResult) -> str:
        """Keep a result; a note for the user when the disk would not have it."""
        self._remember(result)
        return self._write(result.key, _encode(result), "fitted")

    # ---- results of calls ---------------------------------------------------------------------------------------
    def get_value(self, key: str) -> tuple[bool, Any]:
        """Whether a call's result is there, and it."""
        known, value, note = self._read(key)
        if note:
            logger.warning("%s", note)
        return known, value

    def put_value(self, key: str, value: Any) -> str:
        """Keep a call's result, which JSON must be able to hold; a note when that fails."""
        return self._write(key, value, "computed")

    # ---- inside -------------------------------------------------------------------------------------------------
    def _read(self, key: str) -> tuple[bool, Any, str]:
        """Whether it is there, what it is, and a note where a file could not be used."""
        path = self.folder / key
        try:
            digest, _, text = path.read_text().partition("\n")
            if digest != _digest(key, text):
                raise ValueError("the file is not the one that was written")
        except FileNotFoundError:
            return False, None, ""
        except (OSError, ValueError) as error:
            return False, None, self._move_aside(path, str(error))
        with suppress(OSError):  # a folder that may only be read, or another server has just removed it
            os.utime(path)
        return True, json.loads(text), ""

    def _write(self, key: str, value: Any, how: str) -> str:
        try:
            text = json.dumps(value)
            write_whole(self.folder / key, f"{_digest(key, text)}\n{text}".encode())
            self._shrink()
        except (OSError, TypeError, ValueError) as error:
            return self._not_kept(error, how)
        return ""

    def _remember(self, result: FitResult) -> None:
        with self._lock:
            self._memory[result.key] = result
            self._memory.move_to_end(result.key)
            total = sum(_size(kept) for kept in self._memory.values())
            while total > self.memory_bytes and len(self._memory) > 1:
                total -= _size(self._memory.popitem(last=False)[1])

    def _move_aside(self, path: Path, why: str) -> str:
        aside = self.folder / ASIDE
        try:
            aside.mkdir(exist_ok=True)
            path.replace(aside / path.name)
        except OSError as error:
            return f"A kept result is damaged ({why}) and could not be moved aside ({error}). It was fitted again."
        return f"A kept result was damaged ({why}). It was moved to {aside} and fitted again."

    def _not_kept(self, error: Exception, how: str) -> str:
        """What a disk that would not take a result means, and what to do about it."""
        number, advice = getattr(error, "errno", None), ""
        if number in (errno.ENOSPC, errno.EDQUOT):
            advice = f" Free some space where {self.folder} is."
        elif number in (errno.EROFS, errno.EACCES, errno.EPERM):
            advice = f" Make {self.folder} writable for the server, or set {DATA_VARIABLE} to a folder that is."
        return f"The result could not be kept on disk ({error}), so it will be {how} again after a restart.{advice}"

    def _shrink(self) -> None:
        """Remove what was used longest ago until the folder is within its bound.

        Files from the future are of a clock that has been set back since: when they were used, nobody knows, and what has
        just been written must not go in their place.
        """
        files, future = [], time.time_ns() + FUTURE_NS
        for path in self.folder.rglob("*"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another server was quicker
                continue
            if path.is_file():
                used = status.st_mtime_ns
                files.append((used if used < future else 0, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.disk_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def call_key(function: Callable[..., Any], name: str) -> str:
    """Names the result of a call on disk: the function, what `name` stands for, and the version of the code."""
    where = f"{function.__module__}.{function.__qualname__}"
    return "call-" + hashlib.sha256(json.dumps([where, name, code_version()]).encode()).hexdigest()


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _size(result: FitResult) -> int:
    return len(result.model_bytes) + sum(one.n_bytes for one in result.snapshots) + 64 * len(result.steps)


def _encode(result: FitResult) -> dict[str, Any]:
    snapshots = [one.encode() for one in result.snapshots]
    for plain in snapshots:
        plain["levels"] = [_to_text(zlib.compress(raw, 1)) for raw in plain["levels"]]
    return vars(result) | {"model_bytes": _to_text(result.model_bytes), "snapshots": snapshots}


def _decode(plain: dict[str, Any]) -> FitResult:
    snapshots = tuple(
        Snapshot.decode(one | {"levels": [zlib.decompress(base64.b64decode(text)) for text in one["levels"]]})
        for one in plain["snapshots"]
    )
    read = {"model_bytes": base64.b64decode(plain["model_bytes"]), "snapshots": snapshots, "from_cache": True}
    return FitResult(**plain | read | {name: tuple(plain[name]) for name in ("steps", "elbos")})


def _to_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
