"""Comparison of settings: fits from several seeds, measured on the same test trials, and cached."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gdm_core.analysis.comparisons import MEASURES, Cell, Verdict, fit_cell, measure_baselines, verdict
from gdm_core.engine.grid import cell_name, check_seeds, grid_key
from gdm_core.engine.job import Progress
from gdm_core.engine.runner import Runner
from gdm_core.errors import ConfigError
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.trials import Trials

MAX_FITS = 200

Setting = tuple[str, Mapping[str, Any]]  # family and all parameters but the seed


@dataclass(frozen=True, eq=False)
class Comparison:
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
        """Cache key of the whole comparison."""
        return "compare-" + grid_key(self.cells())

    def cells(self) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of `fit_cell` for each fit."""
        return {self.name(*one): self._arguments(*one) for one in itertools.product(self.settings.values(), self.seeds)}

    def name(self, setting: Setting, seed: int) -> str:
        """Return the cache name of a fit."""
        return cell_name(*self._arguments(setting, seed))

    def _arguments(self, setting: Setting, seed: int) -> tuple[str, dict[str, Any], Trials, Trials]:
        return setting[0], {**setting[1], "seed": seed}, self.train, self.test


@dataclass(frozen=True)
class Compared:
    """Results of a comparison so far.

    cells      setting -> seed -> cell
    baselines  name -> cell; empty until they are known
    failures   setting -> reason of a failed fit
    """

    done: int
    total: int
    finished: bool
    cells: dict[str, dict[int, Cell]]
    baselines: dict[str, Cell]
    failures: dict[str, str]
    notes: tuple[str, ...] = ()
    waits: str = ""

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


class CompareJob:
    """A comparison that runs on an engine at low priority."""

    def __init__(self, comparison: Comparison, engine: Runner, session: str, progress: Progress | None = None) -> None:
        self.comparison = comparison
        self._range = describe_held_out(comparison.train, comparison.test)
        k, data = comparison.n_states, (comparison.train, comparison.test)
        shared: dict[str, Any] = {"session": session, "cached": comparison.keep}
        cells, usual_s = comparison.cells(), comparison.usual_s
        self._fits = engine.map(fit_cell, cells, usual_s=usual_s, progress=progress, **shared)
        name = "/".join(["baselines", str(k), *(trials.fingerprint for trials in data)])
        self._baselines = engine.map(measure_baselines, {name: (*data, k)}, **shared)

    def poll(self) -> Compared:
        """Return the results so far."""
        fits, baselines = self._fits.poll(), self._baselines.poll()
        cells: dict[str, dict[int, Cell]] = {}
        failures: dict[str, str] = {}
        for label, setting in self.comparison.settings.items():
            cells[label] = {}
            for seed in self.comparison.seeds:
                name = self.comparison.name(setting, seed)
                if name in fits.results:
                    cells[label][seed] = Cell.from_dict(fits.results[name])
                elif name in fits.failures:
                    failures[label] = fits.failures[name]
        known = {name: Cell.from_dict(cell) for found in baselines.results.values() for name, cell in found.items()}
        if baselines.failures:
            (failures["Baselines"],) = baselines.failures.values()
        notes = tuple(dict.fromkeys([*filter(None, [self._range]), *fits.notes, *baselines.notes]))
        finished = fits.finished and baselines.finished
        return Compared(fits.done, fits.total, finished, cells, known, failures, notes, fits.waits)

    def wait(self) -> None:
        """Wait until every fit has ended."""
        self._fits.wait()
        self._baselines.wait()

    def cancel(self) -> None:
        """Cancel the remaining fits; finished ones stay cached."""
        self._fits.cancel()
        self._baselines.cancel()
