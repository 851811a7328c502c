"""A grid of cells: one function of many arguments, each cell under a name of all that its result depends on.

Sweeps, suggestions, comparisons and what is reproduced of the paper are such grids, each with a scorer of its own. A grid
is worked through on an engine, behind the fits that people watch, or in this process; either way what is in the store
already is taken from there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gdm_core.engine.cache import ResultCache, call_key
from gdm_core.engine.engine import Engine
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.errors import ConfigError, GdmError

DEADLINE_S = 600.0  # of one cell


def key_of(names: Iterable[str]) -> str:
    """One name for a set of names, whatever their order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def require_seeds(seeds: Sequence[int], configs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse seeds that are none or not each once, and settings that hold one of their own."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds is {list(seeds)}; it must hold one seed or more, each once.")
    if any("seed" in config for config in configs):
        raise ConfigError("Put seeds in `seeds`, not in a setting: they are what results are averaged over.")


@dataclass(frozen=True, eq=False)
class Grid:
    """`function(*arguments)` for the arguments of every cell.

    kept        whether results stay in the store: then cells are named by all that their result depends on but the version
                of the code, and JSON can hold what comes out
    deadline_s  after which an engine ends a cell
    """

    function: Callable[..., Any]
    cells: Mapping[str, tuple[Any, ...]]
    kept: bool = True
    deadline_s: float = DEADLINE_S

    def start(self, engine: Engine, session: str, progress: Progress | None = None) -> Bulk:
        """Begin on the engine; return at once."""
        how: dict[str, Any] = {"session": session, "deadline_s": self.deadline_s, "cached": self.kept}
        return engine.map(self.function, self.cells, progress=progress, **how)

    def found(
        self,
        engine: Engine | None = None,
        session: str = "",
        *,
        cache: ResultCache | None = None,
        progress: Progress | None = None,
        within: Progress | None = None,
    ) -> BulkView:
        """Every cell on the engine, or without one in this process, one after the other; ends when all have.

        cache     of cells that are done here, if not the usual one
        progress  is told how many cells are done, and of how many
        within    is told of a cell that is done here and stops now and then how many are done, and how often it stopped
        """
        if engine is None:
            return self._here(cache or ResultCache() if self.kept else None, progress, within)
        bulk = self.start(engine, session, progress)
        bulk.wait()
        return bulk.poll()

    def _here(self, cache: ResultCache | None, progress: Progress | None, within: Progress | None) -> BulkView:
        results: dict[str, Any] = {}
        failures: dict[str, str] = {}
        began, total = time.monotonic(), len(self.cells)
        for done, (name, arguments) in enumerate(self.cells.items()):
            try:
                results[name] = self._cell(name, arguments, cache, within and partial(within, done))
            except GdmError as error:
                failures[name] = str(error)
            if progress is not None:
                progress(done + 1, total)
        return BulkView(total, total, True, time.monotonic() - began, results, failures)

    def _cell(
        self, name: str, arguments: tuple[Any, ...], cache: ResultCache | None, stopped: Callable[[int], None] | None
    ) -> Any:
        """The value of one cell; of a function that yields, what it yields last."""
        key = "" if cache is None else call_key(self.function, name)
        known, value = (False, None) if cache is None else cache.get_value(key)
        if known:
            return value
        value = self.function(*arguments)
        if isinstance(value, Iterator):
            for number, value in enumerate(value, start=1):  # noqa: B020 - the last one stands
                if value is None and stopped is not None:
                    stopped(number)
        if cache is not None:
            cache.put_value(key, value)
        return value
