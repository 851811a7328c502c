"""Store of fit and call results: on disk one file for each, with a checksum and JSON; recent fits also in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from gdm_core.engine.job import is_below
from gdm_core.engine.results import FitResult, Snapshot, TrialStates
from gdm_core.engine.spec import FitSpec, code_version
from gdm_core.files import write_whole

DISK_BYTES, MEMORY_BYTES = 2 * 2**30, 128 * 2**20
DATA_VARIABLE = "GDM_DATA_DIR"
_PACKED = "packed bytes"


def default_folder() -> Path:
    """Return the folder for results in the data folder of the application."""
    chosen = os.environ.get(DATA_VARIABLE, "").strip()
    root = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("gdm-studio", appauthor=False))
    return root / "fits"


class ResultCache:
    """Results by key. Several threads and servers may share the folder.

    precomputed  returns a result that came with the application, under any key, None if there is none
    """

    def __init__(
        self, folder: Path | None = None, disk_bytes: int = DISK_BYTES, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self.folder = folder or default_folder()
        self.disk_bytes, self.memory_bytes = disk_bytes, memory_bytes
        self.precomputed: Callable[[FitSpec], FitResult | None] = lambda _: None
        self._recent: OrderedDict[str, tuple[FitResult, str]] = OrderedDict()  # by key, with the owning session
        self._lock = threading.Lock()

    def find(self, spec: FitSpec) -> tuple[FitResult | None, str]:
        """Return the result of a fit, None if there is none, and a note for the user.

        Its states may be missing: those of the held-out trials are a second entry.
        """
        with self._lock:
            recent, _ = self._recent.get(spec.key, (None, ""))
            if recent is not None:
                self._recent.move_to_end(spec.key)
        if recent is not None and recent.has_states(spec.test):
            return recent, ""
        held_out = "" if spec.test is None else spec.test.fingerprint
        ready = self.precomputed(spec)
        if ready is not None and ready.has_states(spec.test):
            return replace(ready, key=spec.key), ""
        kept, note = self.get(spec.key, held_out) if spec.use_cache else (None, "")
        if ready is None or (kept is not None and kept.model_bytes == ready.model_bytes):
            return kept or recent, note
        return replace(ready, key=spec.key), note

    def remember(self, result: FitResult, owner: str = "") -> None:
        """Keep a result in memory, until `forget` is called for a session `owner`; drop the oldest of too many."""
        with self._lock:
            self._recent[result.key] = replace(result, from_cache=True), owner
            self._recent.move_to_end(result.key)
            size = sum(one.n_bytes for one, _ in self._recent.values())
            while size > self.memory_bytes:
                size -= self._recent.popitem(last=False)[1][0].n_bytes

    def forget(self, session: str) -> None:
        """Drop the results in memory that only a session and those below it may use."""
        with self._lock:
            for key in [key for key, (_, owner) in self._recent.items() if owner and is_below(owner, session)]:
                del self._recent[key]

    def get(self, key: str, held_out: str = "") -> tuple[FitResult | None, str]:
        """Return the result of a fit, None if there is none, and a note for the user.

        held_out  fingerprint of the held-out trials whose states belong to the result, once they are known
        """
        known, plain, note = self.read(key)
        if not known:
            return None, note
        states, note = None, ""
        if held_out:
            known, kept, note = self.read(_name_states(key, held_out))
            states = TrialStates(**_tuples(kept)) if known else None
        snapshots = [Snapshot(**_tuples(one)) for one in plain["snapshots"]]
        return FitResult(**_tuples(plain | {"snapshots": snapshots}), from_cache=True, states=states), note

    def put(self, result: FitResult) -> str:
        """Write the result of a fit; return a note for the user if that failed."""
        states, fields = result.states, ("key", "model_bytes", "fit_status", "elbo", "seconds", "steps", "elbos")
        plain = {name: getattr(result, name) for name in fields} | {"snapshots": list(map(vars, result.snapshots))}
        note = self.write(result.key, plain)
        if states is None or states.error or note:
            return note
        return self.write(_name_states(result.key, states.held_out), vars(states))

    def read(self, key: str) -> tuple[bool, Any, str]:
        """Return whether a value is known, the value, and a note for the user."""
        path = self.folder / key
        try:
            digest, _, text = path.read_text().partition("\n")
            if digest != _digest(key, text):
                raise ValueError("its checksum is wrong")
        except FileNotFoundError:
            return False, None, ""
        except (OSError, ValueError) as error:
            return False, None, f"A cached result was damaged ({error}) and is computed again."
        with suppress(OSError):  # the folder is read-only, or another server has just removed the file
            os.utime(path)
        return True, json.loads(text, object_hook=_unpack), ""

    def write(self, key: str, value: Any) -> str:
        """Write a value, which JSON must hold apart from bytes; return a note for the user if that failed."""
        try:
            text = json.dumps(value, default=_pack)
            write_whole(self.folder / key, f"{_digest(key, text)}\n{text}".encode())
            self._shrink()
        except (OSError, TypeError, ValueError) as error:
            advice = f" Free space in {self.folder}, or make it writable." if isinstance(error, OSError) else ""
            return f"The result could not be cached on disk ({error}); it will be computed again.{advice}"
        return ""

    def _shrink(self) -> None:
        """Remove the least recently used files until the folder is small enough."""
        files = []
        for path in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # another server has removed it
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
    """Return the key of a call's result: function, name of its arguments and code version."""
    where = f"{function.__module__}.{function.__qualname__}"
    return "call-" + hashlib.sha256(json.dumps([where, name, code_version()]).encode()).hexdigest()


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _name_states(key: str, held_out: str) -> str:
    return f"states-{hashlib.sha256(f'{key}/{held_out}'.encode()).hexdigest()}"


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a record, which has tuples in place of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def _pack(value: object) -> dict[str, Any]:
    """Return bytes, or an array of them, as values that JSON can hold."""
    if isinstance(value, np.ndarray):
        return _pack(value.tobytes()) | {"shape": value.shape}
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return {_PACKED: base64.b64encode(zlib.compress(value, 1)).decode(), "shape": None}


def _unpack(plain: dict[str, Any]) -> Any:
    if _PACKED not in plain:
        return plain
    raw = zlib.decompress(base64.b64decode(plain[_PACKED]))
    return raw if plain["shape"] is None else np.frombuffer(raw, np.uint8).reshape(plain["shape"])
