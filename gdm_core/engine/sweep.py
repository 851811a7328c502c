"""Fits over a grid of parameters and seeds. Finished fits are cached, so a stopped sweep continues."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.engine.runner import Grid, Runner, cell_name, check_seeds
from gdm_core.engine.spec import require_for_workers, resolve, resolve_family
from gdm_core.engine.worker import checkpoint
from gdm_core.errors import ConfigError
from gdm_core.text import flatten_scores
from gdm_core.trials import Trials

EVALUATE = "gdm_core.analysis.metrics:evaluate"
MAX_CELLS = 5000


@dataclass(frozen=True)
class Record:
    """Result of one fit: scores by name, with elbo_train and elbo_test. A failed fit has a message instead."""

    config: dict[str, Any]
    seed: int
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    message: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.message)

    def row(self) -> dict[str, Any]:
        """Return a table row: configuration, seed, scores, seconds and message."""
        return {**self.config, "seed": self.seed, **self.scores, "seconds": self.seconds, "message": self.message}


class Records(tuple[Record, ...]):
    """Results of a sweep."""

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each fit."""
        return pd.DataFrame([record.row() for record in self])

    def __str__(self) -> str:
        frame = self.to_frame()
        varied = [name for name in frame if name in self[0].config and frame[name].astype(str).nunique() > 1]
        shown = [*varied, "seed", *(name for name in ("elbo_test", "matched_accuracy") if name in frame), "message"]
        ended = sum(not record.failed for record in self)
        return f"{ended} of {len(self)} fits\n{frame[shown].to_string(float_format='{:.3f}'.format, na_rep='-')}"


@dataclass(frozen=True, eq=False)
class Sweep(Grid[Records]):
    """Every combination of the values in `grid` with every seed.

    base    parameters of all fits
    scorer  "module:function" of (model, train, test) that returns scores; "" for the ELBO only
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
        check_seeds(self.seeds, (self.grid, self.base))
        if self.scorer:
            if ":" not in self.scorer:
                raise ConfigError(f"scorer is {self.scorer!r}; write 'module:function'.")
            require_for_workers(*self.scorer.split(":", 1))
        size = math.prod(len(values) for values in self.grid.values()) * len(self.seeds)
        if size > MAX_CELLS:
            raise ConfigError(f"The sweep has {size} fits; the limit is {MAX_CELLS}. Use fewer values or seeds.")

    def cells(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of each fit by its cache name."""
        combinations = itertools.product(*self.grid.values(), self.seeds)
        configs = [dict(self.base) | dict(zip([*self.grid, "seed"], values, strict=True)) for values in combinations]
        return {cell_name(self.family, config, self.train, self.test, self.scorer): config for config in configs}

    def start(self, engine: Runner, session: str, progress: Progress | None = None) -> Bulk[Records]:
        """Start all fits."""
        cells = self.cells().items()
        calls = {name: (self.family, config, self.scorer, self.train, self.test) for name, config in cells}
        return Bulk(engine.map(run_cell, calls, session=session, progress=progress).jobs, self.collect)

    def collect(self, view: BulkView) -> Records:
        """Return the finished fits in the order of the grid."""
        found = []
        for name, config in self.cells().items():
            own = {parameter: value for parameter, value in config.items() if parameter != "seed"}
            if name in view.results:
                found.append(Record(own, config["seed"], **view.results[name]))
            elif name in view.failures:
                found.append(Record(own, config["seed"], message=view.failures[name]))
        return Records(found)


def run_cell(family: str, config: dict[str, Any], scorer: str, train: Trials, test: Trials) -> dict[str, Any]:
    """Fit one configuration on `train`; return its scores."""
    module, _, name = scorer.partition(":")
    evaluate = resolve(module, name) if scorer else None
    model = resolve_family(family)(**config)
    began = time.perf_counter()
    for progress in model.fit_iter(train):
        checkpoint(int(progress.step), int(progress.total))
    seconds = time.perf_counter() - began
    model.raise_if_failed()
    scores = {} if evaluate is None else flatten_scores(evaluate(model, train, test))
    scores.setdefault("elbo_train", float(model.elbo_))
    if "elbo_test" not in scores:
        scores["elbo_test"] = float(model.score(test))
    return {"scores": scores, "seconds": seconds}
