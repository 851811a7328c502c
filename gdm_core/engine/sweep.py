"""Fits over a grid of configurations and seeds, as tidy records with their mean and spread.

On an engine a sweep goes on when nobody looks, and lets people who watch a fit go first. With or without one, finished
cells are kept on disk: a sweep started again does only what is missing.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gdm_core.engine.bulk import Bulk, BulkView, Progress
from gdm_core.engine.cache import ResultCache
from gdm_core.engine.control import checkpoint
from gdm_core.engine.engine import Engine
from gdm_core.engine.grid import Grid, key_of, require_seeds
from gdm_core.engine.messages import require_for_workers, resolve, resolve_family
from gdm_core.engine.records import Record, numbers_in
from gdm_core.errors import ConfigError, FitError
from gdm_core.trials import Trials

EVALUATE = "gdm_core.analysis.metrics:evaluate"
MAX_CELLS = 5000


@dataclass(frozen=True, eq=False)
class Sweep:
    """Every combination of the values in `grid` over `base`, with every seed.

    `scorer` names a function of (model, train, test) as "module:function"; the numbers in what it returns become scores.
    With an empty one fits are judged by their ELBO alone, which costs next to nothing.
    """

    family: str
    base: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    seeds: Sequence[int]
    train: Trials
    test: Trials
    scorer: str = EVALUATE

    def __post_init__(self) -> None:
        empty = [name for name, values in self.grid.items() if not len(values)]
        if empty:
            raise ConfigError(f"The grid has no value for {empty[0]!r}. Give it one or more, or leave it out.")
        require_seeds(self.seeds, (self.grid, self.base))
        if self.scorer:
            if ":" not in self.scorer:
                raise ConfigError(f"scorer is {self.scorer!r}; write 'module:function'.")
            require_for_workers(*self.scorer.split(":", 1))
        size = math.prod(len(values) for values in self.grid.values()) * len(self.seeds)
        if size > MAX_CELLS:
            raise ConfigError(f"The sweep has {size} fits; {MAX_CELLS} may be run at once. Take fewer values or seeds.")

    def cells(self) -> dict[str, dict[str, Any]]:
        """Configuration of every fit, by a key that names all its result depends on but the version of the code."""
        combinations = itertools.product(*self.grid.values(), self.seeds)
        configs = [dict(self.base) | dict(zip([*self.grid, "seed"], values, strict=True)) for values in combinations]
        data = f"{self.train.fingerprint}/{self.test.fingerprint}"
        try:
            return {
                f"{self.family}/{json.dumps(config, sort_keys=True)}/{self.scorer}/{data}": config for config in configs
            }
        except TypeError as error:
            raise ConfigError(
                f"Configurations must hold numbers, strings, booleans and None alone ({error})."
            ) from error

    @property
    def key(self) -> str:
        """Names the whole sweep."""
        return "sweep-" + key_of(self.cells())

    def fits(self) -> Grid:
        """What is to be done for its cells."""
        cells = self.cells().items()
        return Grid(
            run_cell, {name: (self.family, config, self.scorer, self.train, self.test) for name, config in cells}
        )

    def records(self, view: BulkView) -> list[Record]:
        """The fits that have ended, in the order of the grid."""
        found = []
        for name, config in self.cells().items():
            own = {parameter: value for parameter, value in config.items() if parameter != "seed"}
            if name in view.results:
                found.append(Record(own, config["seed"], **view.results[name]))
            elif name in view.failures:
                found.append(Record(own, config["seed"], message=view.failures[name]))
        return found


class SweepJob:
    """A sweep on an engine."""

    def __init__(self, sweep: Sweep, bulk: Bulk) -> None:
        self.sweep, self.estimate, self._bulk = sweep, bulk.estimate, bulk

    def poll(self) -> BulkView:
        """How far it is; see `records` for what it has found."""
        return self._bulk.poll()

    def records(self) -> list[Record]:
        """Finished fits in the order of the grid."""
        return self.sweep.records(self._bulk.poll())


def start(sweep: Sweep, engine: Engine, session: str) -> SweepJob:
    """Run a sweep on the engine, or come back to the one that runs there already."""
    return SweepJob(sweep, sweep.fits().start(engine, session, sweep.key))


def run(
    sweep: Sweep, cache: ResultCache | None = None, progress: Progress | None = None, engine: Engine | None = None
) -> list[Record]:
    """Run a sweep to its end: in this process, one fit after the other, or on an engine."""
    return sweep.records(sweep.fits().found(engine, "sweep", cache=cache, progress=progress))


def run_cell(family: str, config: dict[str, Any], scorer: str, train: Trials, test: Trials) -> dict[str, Any]:
    """Fit one configuration on `train` and score it; plain numbers that JSON can hold."""
    from gdm_core.models.base import Status

    module, _, name = scorer.partition(":")
    evaluate = resolve(module, name) if scorer else None
    model = resolve_family(family)(**config)
    began = time.perf_counter()
    for progress in model.fit_iter(train):
        checkpoint(int(progress.step), int(progress.total))
    seconds = time.perf_counter() - began
    if model.status_ is Status.DIVERGED:
        raise FitError("The fit diverged. Try another seed, fewer states, or data without extreme values.")
    return {
        "elbo_train": float(model.elbo_),
        "elbo_test": float(model.score(test)),
        "scores": {} if evaluate is None else numbers_in(evaluate(model, train, test)),
        "seconds": seconds,
    }
