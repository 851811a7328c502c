"""Results of fits and calls, in memory and on disk, both bounded.

Each result is a file with a digest and JSON. A file that does not agree with its digest is ignored, and written again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import threading
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

logger = logging.getLogger(__name__)


def default_folder() -> Path:
    """Return the folder for results in the application's data folder."""
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

    def get(self, key: str) -> tuple[FitResult | None, str]:
        """Return the result of a fit, None if there is none, and a note for the user."""
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
        """Keep the result of a fit; return a note for the user if it could not be written."""
        self._remember(result)
        return self._write(result.key, _encode(result))

    def get_value(self, key: str) -> tuple[bool, Any]:
        """Return whether a call's result is known, and the result."""
        known, value, note = self._read(key)
        if note:
            logger.warning("%s", note)
        return known, value

    def put_value(self, key: str, value: Any) -> str:
        """Keep a call's result, which JSON must hold; return a note for the user if it could not be written."""
        return self._write(key, value)

    def _read(self, key: str) -> tuple[bool, Any, str]:
        """Return whether there is a file, its content, and a note if it could not be used."""
        path = self.folder / key
        try:
            digest, _, text = path.read_text().partition("\n")
            if digest != _digest(key, text):
                raise ValueError("the file is not the one that was written")
        except FileNotFoundError:
            return False, None, ""
        except (OSError, ValueError) as error:
            return False, None, f"A kept result was damaged ({error}) and is computed again."
        with suppress(OSError):  # a folder that may only be read, or another server has just removed it
            os.utime(path)
        return True, json.loads(text), ""

    def _write(self, key: str, value: Any) -> str:
        try:
            text = json.dumps(value)
            write_whole(self.folder / key, f"{_digest(key, text)}\n{text}".encode())
            self._shrink()
        except (OSError, TypeError, ValueError) as error:
            advice = f" Make room in {self.folder}, or make it writable." if isinstance(error, OSError) else ""
            return f"The result could not be kept on disk ({error}); after a restart it is computed again.{advice}"
        return ""

    def _remember(self, result: FitResult) -> None:
        with self._lock:
            self._memory[result.key] = result
            self._memory.move_to_end(result.key)
            total = sum(_size(kept) for kept in self._memory.values())
            while total > self.memory_bytes and len(self._memory) > 1:
                total -= _size(self._memory.popitem(last=False)[1])

    def _shrink(self) -> None:
        """Remove the least recently used files until the folder is within its bound."""
        files = []
        for path in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # another server was quicker
                status = path.stat()
                if path.is_file():
                    files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.disk_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def call_key(function: Callable[..., Any], name: str) -> str:
    """Return the key of a call's result: function, what `name` stands for, and code version."""
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
