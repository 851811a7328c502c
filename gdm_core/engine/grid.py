"""One function applied to a grid of arguments, on an engine or in this process. Finished cells are cached."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gdm_core.engine.cache import ResultCache, call_key
from gdm_core.engine.engine import Engine
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.errors import ConfigError, GdmError

DEADLINE_S = 600.0  # of one cell


def grid_key(names: Iterable[str]) -> str:
    """Return one key for a set of cell names, in any order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def check_seeds(seeds: Sequence[int], configs: Iterable[Mapping[str, Any]]) -> None:
    """Raise ConfigError for missing or repeated seeds, and for configurations that contain one."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds is {list(seeds)}; it must hold one seed or more, each once.")
    if any("seed" in config for config in configs):
        raise ConfigError("Put seeds in `seeds`, not in a setting: results are averaged over them.")


@dataclass(frozen=True, eq=False)
class Grid:
    """Calls of one function, by cell name.

    cached      keep results on disk: each name must then hold everything that the result depends on except the code
                version, and JSON must hold the result
    deadline_s  seconds after which an engine ends a cell
    """

    function: Callable[..., Any]
    cells: Mapping[str, tuple[Any, ...]]
    cached: bool = True
    deadline_s: float = DEADLINE_S

    def start(self, engine: Engine, session: str, progress: Progress | None = None) -> Bulk:
        """Start all cells on the engine and return at once."""
        return engine.map(
            self.function,
            self.cells,
            session=session,
            deadline_s=self.deadline_s,
            cached=self.cached,
            progress=progress,
        )

    def run(
        self,
        engine: Engine | None = None,
        session: str = "",
        *,
        cache: ResultCache | None = None,
        progress: Progress | None = None,
    ) -> BulkView:
        """Run all cells and wait: on the engine, or one after the other in this process.

        cache     for cells that run in this process; the usual one if None
        progress  called with the number of finished cells and the total
        """
        if engine is not None:
            bulk = self.start(engine, session, progress)
            bulk.wait()
            return bulk.poll()
        own = (cache or ResultCache()) if self.cached else None
        results: dict[str, Any] = {}
        failures: dict[str, str] = {}
        began, total = time.monotonic(), len(self.cells)
        for done, (name, arguments) in enumerate(self.cells.items(), start=1):
            try:
                results[name] = self._run_cell(name, arguments, own)
            except GdmError as error:
                failures[name] = str(error)
            if progress is not None:
                progress(done, total)
        return BulkView(total, total, True, time.monotonic() - began, results, failures)

    def _run_cell(self, name: str, arguments: tuple[Any, ...], cache: ResultCache | None) -> Any:
        if cache is None:
            return _last_value(self.function(*arguments))
        key = call_key(self.function, name)
        known, value = cache.get_value(key)
        if not known:
            value = _last_value(self.function(*arguments))
            cache.put_value(key, value)
        return value


def _last_value(value: Any) -> Any:
    """Return the value, or the last one of a generator."""
    if not isinstance(value, Iterator):
        return value
    values = list(value)
    return values[-1] if values else None
