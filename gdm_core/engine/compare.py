"""Comparison of settings: fits from several seeds, measured on the same test trials, and cached."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from gdm_core.analysis.comparisons import MEASURES, Cell, Verdict, fit_cell, measure_baselines, verdict
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.engine.runner import Grid, Runner, cell_name, check_seeds
from gdm_core.errors import ConfigError
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.trials import Trials

MAX_FITS = 200

Setting = tuple[str, Mapping[str, Any]]  # family and all parameters but the seed


@dataclass(frozen=True, eq=False)
class Comparison(Grid["Compared"]):
    """Settings to fit from every seed on `train` and measure on `test`.

    keep  whether to cache results on disk: False for uploads
    """

    settings: Mapping[str, Setting]
    seeds: Sequence[int]
    train: Trials
    test: Trials
    keep: bool = True

    def __post_init__(self) -> None:
        if not self.settings:
            raise ConfigError("There is no setting to compare; give one or more.")
        check_seeds(self.seeds, (config for _, config in self.settings.values()))
        if self.n_fits > MAX_FITS:
            raise ConfigError(
                f"This comparison needs {self.n_fits} fits; the limit is {MAX_FITS}. Use fewer seeds or values."
            )

    @property
    def n_fits(self) -> int:
        return len(self.settings) * len(self.seeds)

    @property
    def n_states(self) -> int:
        """Number of states of the first setting and the baselines."""
        return int(next(iter(self.settings.values()))[1]["n_states"])

    @property
    def usual_s(self) -> float:
        """Rough duration of all fits on one idle core, in seconds."""
        return self.n_fits * (0.5 + self.train.n_samples * 1e-4)

    @property
    def key(self) -> str:
        return f"compare-{super().key}"

    def cells(self) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of `fit_cell` for each fit."""
        return {self.name(*one): self._arguments(*one) for one in itertools.product(self.settings.values(), self.seeds)}

    def name(self, setting: Setting, seed: int) -> str:
        """Return the cache name of a fit."""
        return cell_name(*self._arguments(setting, seed))

    def _arguments(self, setting: Setting, seed: int) -> tuple[str, dict[str, Any], Trials, Trials]:
        return setting[0], {**setting[1], "seed": seed}, self.train, self.test

    def start(self, engine: Runner, session: str, progress: Progress | None = None) -> Bulk[Compared]:
        """Start all fits, and measure the baselines."""
        shared: dict[str, Any] = {"session": session, "cached": self.keep}
        fits = engine.map(fit_cell, self.cells(), usual_s=self.usual_s, progress=progress, **shared)
        baselines = {self._baselines: (self.train, self.test, self.n_states)}
        others = engine.map(measure_baselines, baselines, fits_each=0, **shared)
        return Bulk(fits.jobs | others.jobs, self.collect)

    @property
    def _baselines(self) -> str:
        return f"baselines/{self.n_states}/{self.train.fingerprint}/{self.test.fingerprint}"

    @cached_property
    def _extrapolation(self) -> str:
        return describe_held_out(self.train, self.test)

    def collect(self, view: BulkView) -> Compared:
        """Return the results so far."""
        cells: dict[str, dict[int, Cell]] = {}
        failures: dict[str, str] = {}
        for label, setting in self.settings.items():
            names = {seed: self.name(setting, seed) for seed in self.seeds}
            cells[label] = {s: Cell.from_dict(view.results[name]) for s, name in names.items() if name in view.results}
            if wrong := [view.failures[name] for name in names.values() if name in view.failures]:
                failures[label] = wrong[-1]
        if self._baselines in view.failures:
            failures["Baselines"] = view.failures[self._baselines]
        baselines = {name: Cell.from_dict(cell) for name, cell in view.results.get(self._baselines, {}).items()}
        notes = filter(None, (self._extrapolation, *view.notes))
        return Compared(self.n_fits, view.finished, cells, baselines, failures, tuple(notes))


@dataclass(frozen=True)
class Compared:
    """Results of a comparison so far.

    total      number of fits
    cells      setting -> seed -> cell
    baselines  name -> cell; empty until they are known
    failures   setting -> reason of a failed fit
    """

    total: int
    finished: bool
    cells: dict[str, dict[int, Cell]]
    baselines: dict[str, Cell]
    failures: dict[str, str]
    notes: tuple[str, ...] = ()

    def verdict(self, measure: str) -> Verdict | None:
        """Compare the finished settings and baselines by one of MEASURES; None without measurements."""
        tables = {
            label: [cell.blocks[measure] for cell in cells.values() if measure in cell.blocks]
            for label, cells in self.cells.items()
            if label not in self.failures
        }
        tables = {label: rows for label, rows in tables.items() if rows}
        if not tables:
            return None
        baselines = {name: [cell.blocks[measure]] for name, cell in self.baselines.items() if measure in cell.blocks}
        return verdict(measure, {**tables, **baselines})

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each setting and baseline: mean measures and scores, or the reason of a failed fit."""
        rows = {}
        for name, by_seed in [*self.cells.items(), *((name, {0: cell}) for name, cell in self.baselines.items())]:
            found = [
                {m: cell.mean(m) for m in MEASURES} | cell.scores | {"seconds": cell.seconds}
                for cell in by_seed.values()
            ]
            numbers = pd.Series(dtype=float) if name in self.failures else pd.DataFrame(found).mean()
            rows[name] = {**numbers, "message": self.failures.get(name, "")}
        return pd.DataFrame.from_dict(rows, orient="index")

    def __str__(self) -> str:
        frame = self.to_frame()
        columns = [name for name in (*MEASURES, "matched_accuracy", "message") if name in frame]
        frame = frame[columns].dropna(axis=1, how="all")
        verdicts = [(words, self.verdict(measure)) for measure, (words, _) in MEASURES.items()]
        lines = [f"{words}: {one.sentence}" for words, one in verdicts if one is not None and one.sentence]
        return "\n".join([frame.to_string(float_format="{:.3f}".format, na_rep="-"), *lines, *self.notes])
