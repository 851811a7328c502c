"""What goes into the engine and what comes out: requests, views of running jobs, snapshots, results. Plain data."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gdm_core
from gdm_core.errors import ConfigError, FitError
from gdm_core.models.registry import FAMILIES, import_family
from gdm_core.trials import Trials

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

SNAPSHOT_BYTES = 60_000


class JobStatus(StrEnum):
    """Where a job is. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)


class QueueFull(FitError):
    """Too many jobs wait already; the message says how many and what to do."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Soft states of the preview trials at one step, thinned and in eight bits so that they travel in a moment."""

    step: int
    preview: tuple[int, ...]
    strides: tuple[int, ...]
    levels: tuple[npt.NDArray[np.uint8], ...]  # each [ceil(T / stride), K]

    @classmethod
    def take(
        cls, model: StateModel, trials: Trials, preview: tuple[int, ...], step: int, *, rough: bool = False
    ) -> Snapshot:
        """Look at `model` through the preview trials, sharing SNAPSHOT_BYTES among them by length."""
        states = model.rough_states if rough else model.predict_proba
        total = sum(trials[i].n_samples for i in preview)
        strides, levels = [], []
        for i in preview:
            proba = np.asarray(states(trials[i]))  # [T, K]
            stride = max(1, -(-total * proba.shape[1] // SNAPSHOT_BYTES))
            strides.append(stride)
            levels.append(np.rint(np.clip(proba[::stride], 0.0, 1.0) * 255).astype(np.uint8))
        return cls(step, tuple(preview), tuple(strides), tuple(levels))

    def states(self, position: int = 0) -> npt.NDArray[np.float32]:
        """Soft states [t, K] of the preview trial at `position`, rows summing to one, every `strides[position]` samples."""
        levels = self.levels[position].astype(np.float32)
        return levels / np.maximum(levels.sum(axis=1, keepdims=True), 1.0)

    @property
    def n_bytes(self) -> int:
        return sum(level.nbytes for level in self.levels)

    def encode(self) -> dict[str, Any]:
        """Plain types for the wire."""
        return {
            "step": self.step,
            "preview": list(self.preview),
            "strides": list(self.strides),
            "shapes": [list(level.shape) for level in self.levels],
            "levels": [level.tobytes() for level in self.levels],
        }

    @classmethod
    def decode(cls, plain: Mapping[str, Any]) -> Snapshot:
        levels = tuple(
            np.frombuffer(raw, dtype=np.uint8).reshape(shape)
            for raw, shape in zip(plain["levels"], plain["shapes"], strict=True)
        )
        return cls(int(plain["step"]), tuple(plain["preview"]), tuple(plain["strides"]), levels)


@dataclass(frozen=True, eq=False)
class FitResult:
    """A finished fit. `model_bytes` is a model file; `model()` reads it."""

    key: str
    model_bytes: bytes = field(repr=False)
    fit_status: str
    elbo: float
    seconds: float
    steps: tuple[int, ...] = field(repr=False)
    elbos: tuple[float, ...] = field(repr=False)
    snapshot: Snapshot | None = field(default=None, repr=False)
    from_cache: bool = False

    def model(self) -> StateModel:
        """The fitted model, read anew at each call so that no two callers share one."""
        from gdm_core.models.loading import model_from_bytes

        return model_from_bytes(self.model_bytes)


@dataclass(frozen=True)
class JobView:
    """What a page may know about a job at one moment.

    held    it stands between two steps
    found   what a call has found so far, where it tells
    """

    status: JobStatus
    step: int = 0
    total: int = 0
    steps: tuple[int, ...] = ()
    elbos: tuple[float, ...] = ()
    snapshot: Snapshot | None = None
    seconds: float = 0.0
    message: str = ""
    notes: tuple[str, ...] = ()
    held: bool = False
    found: Any = None
    result: Any = None


@dataclass(frozen=True, eq=False)
class FitRequest:
    """One fit: which family with which configuration on which trials.

    family            a known family, or "module:Class" for a StateModel of your own that the workers can import
    config            constructor arguments, the seed among them
    warm_start        a model file of a fitted model to start from
    preview           indices of the trials whose soft states come back while the fit runs
    snapshot_every_s  least time between two of those
    deadline_s        time that the fit may run; time on hold does not count, and `hold_limit_s` bounds that
    """

    family: str
    config: Mapping[str, Any]
    trials: Trials
    warm_start: bytes | None = field(default=None, repr=False)
    preview: tuple[int, ...] = (0,)
    snapshot_every_s: float = 0.25
    deadline_s: float = 120.0
    hold_limit_s: float = 600.0
    use_cache: bool = True

    def __post_init__(self) -> None:
        if self.family not in FAMILIES and ":" not in self.family:
            raise ConfigError(
                f"family is {self.family!r}; choose one of {', '.join(FAMILIES)}, or name your own as 'module:Class'."
            )
        for name in ("snapshot_every_s", "deadline_s", "hold_limit_s"):
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"{name} is {value}; it must be a positive number of seconds.")
        wrong = [i for i in self.preview if not 0 <= i < len(self.trials)]
        if wrong:
            raise ConfigError(f"preview names trial {wrong[0]}, but there are trials 0 to {len(self.trials) - 1}.")
        try:
            json.dumps(dict(self.config), sort_keys=True)
        except TypeError as error:
            raise ConfigError(f"config must hold numbers, strings, booleans and None alone ({error}).") from error

    @cached_property
    def key(self) -> str:
        """Names the result: data, family, configuration with its seed, starting point and version of the code."""
        start = hashlib.sha256(self.warm_start).hexdigest() if self.warm_start else None
        config = json.dumps(dict(self.config), sort_keys=True)
        parts = (self.trials.fingerprint, self.family, config, start, code_version())
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def resolve_family(family: str) -> type[StateModel]:
    """The class of a known family, or of one given as "module:Class"."""
    if family in FAMILIES:
        return import_family(family)
    module, _, name = family.partition(":")
    found: type[StateModel] = resolve(module, name)
    return found


def require_for_workers(module: str, name: str) -> None:
    """Refuse what belongs to the screen: workers hold the library and the loaders, and results must not depend on pages."""
    if module.partition(".")[0] == "pages":
        raise ConfigError(
            f"{module}:{name} belongs to a page; workers run functions of gdm_core and datasets alone. "
            "Move it to gdm_core/analysis."
        )


def resolve(module: str, name: str) -> Any:
    """What `module` calls `name`, or a message that says which of the two is missing."""
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{module}:{name} cannot be loaded where fits run ({error}). Make it importable on every worker."
        ) from error


def source_folders() -> list[Path]:
    """Where the code lies that makes results: the library, and the loaders where they are installed beside it."""
    root = Path(gdm_core.__file__).parent
    loaders = [folder for name in ("datasets", "gdm_studio/_app/datasets") if (folder := root.parent / name).is_dir()]
    # Another package may be called "datasets": ours has a loader of its own name.
    return [root, *(folder for folder in loaders if (folder / "calms21.py").is_file())]


@lru_cache(maxsize=1)
def code_version() -> str:
    """Version of the library and a digest of its and the loaders' source, so that results of older code are never taken
    for new ones: models, scorers and everything else that runs on workers.

    Where the code is pinned by other means, GDM_CODE_VERSION (an image's digest, say) stands for the source.
    """
    pinned = os.environ.get("GDM_CODE_VERSION", "").strip()
    if pinned:
        return f"{gdm_core.__version__}+{pinned}"
    digest = hashlib.sha256()
    for folder in source_folders():
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{folder.name}/{path.relative_to(folder)}".encode())
            digest.update(path.read_bytes())
    return f"{gdm_core.__version__}+{digest.hexdigest()[:12]}"
