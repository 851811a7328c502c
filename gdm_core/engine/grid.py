"""What grids of fits share: sweeps, comparisons and suggestions."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from gdm_core.engine.job import Bulk, Progress
from gdm_core.engine.runner import LocalEngine, Runner
from gdm_core.engine.spec import config_text
from gdm_core.errors import ConfigError
from gdm_core.trials import Trials

T = TypeVar("T")


class Grid(ABC, Generic[T]):
    """Fits whose results are read together. Finished fits are cached, so a stopped grid continues."""

    @abstractmethod
    def cells(self) -> Mapping[str, Any]:
        """Return the fits by cache name: everything that a result depends on except the code version."""

    @abstractmethod
    def start(self, engine: Runner, session: str, progress: Progress | None = None) -> Bulk[T]:
        """Start all fits at low priority."""

    @property
    def key(self) -> str:
        """Cache key of the whole grid."""
        return hashlib.sha256("\n".join(sorted(self.cells())).encode()).hexdigest()

    def run(self, engine: Runner | None = None, progress: Progress | None = None) -> T:
        """Run all fits on the engine, or in this process, and return their results."""
        bulk = self.start(engine or LocalEngine(), "grid", progress)
        bulk.wait()
        return bulk.read()


def cell_name(family: str, config: Mapping[str, Any], train: Trials, test: Trials, scorer: str = "") -> str:
    """Return the cache name of a fit."""
    return "/".join([family, config_text(config), scorer, train.fingerprint, test.fingerprint])


def check_seeds(seeds: Sequence[int], configs: Iterable[Mapping[str, Any]]) -> None:
    """Raise ConfigError for missing or repeated seeds, and for configurations that contain one."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds is {list(seeds)}; it must hold one seed or more, each once.")
    if any("seed" in config for config in configs):
        raise ConfigError("Put seeds in `seeds`, not in a setting: results are averaged over them.")
