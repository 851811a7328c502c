"""Several settings fitted from several seeds and measured on the same test trials. Finished fits are cached."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gdm_core.analysis.comparisons import MEASURES, Cell, Verdict, fit_cell, measure_baselines, verdict
from gdm_core.engine.engine import Engine
from gdm_core.engine.estimate import Estimate
from gdm_core.engine.grid import Grid, check_seeds, grid_key
from gdm_core.engine.job import BulkView
from gdm_core.errors import ConfigError
from gdm_core.trials import Trials

MAX_FITS = 200

Setting = tuple[str, Mapping[str, Any]]  # family and all parameters but the seed


@dataclass(frozen=True, eq=False)
class Comparison:
    """Settings by name, each fitted from every seed on `train` and measured on `test`.

    keep  whether results may stay on disk: False for uploads
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
        """K of the first setting, which the baselines use as well."""
        return int(next(iter(self.settings.values()))[1]["n_states"])

    @property
    def usual_s(self) -> float:
        """Rough time of all fits with their scores on one idle core: half a second and 100 µs a sample each."""
        return self.n_fits * (0.5 + self.train.n_samples * 1e-4)

    @property
    def key(self) -> str:
        """Cache key of the whole comparison."""
        return "compare-" + grid_key(self.fits().cells)

    def fits(self) -> Grid:
        """Return the grid of all fits."""
        cells = {
            self._cell_name(setting, seed): (setting[0], {**setting[1], "seed": seed}, self.train, self.test)
            for setting in self.settings.values()
            for seed in self.seeds
        }
        return Grid(fit_cell, cells, self.keep)

    def baselines(self) -> Grid:
        """Return the grid of the baselines: one cell, with as many states as the first setting has."""
        name = f"baselines/{self.n_states}/{self._data_name}"
        return Grid(measure_baselines, {name: (self.train, self.test, self.n_states)}, self.keep)

    def collect(self, fits: BulkView, baselines: BulkView) -> Compared:
        """Return what the two grids have found so far."""
        cells: dict[str, dict[int, Cell]] = {}
        failures: dict[str, str] = {}
        for label, setting in self.settings.items():
            cells[label] = {}
            for seed in self.seeds:
                name = self._cell_name(setting, seed)
                if name in fits.results:
                    cells[label][seed] = Cell.from_dict(fits.results[name])
                elif name in fits.failures:
                    failures[label] = fits.failures[name]
        known = {name: Cell.from_dict(cell) for found in baselines.results.values() for name, cell in found.items()}
        if baselines.failures:
            failures["Baselines"] = next(iter(baselines.failures.values()))
        notes = tuple(dict.fromkeys([*fits.notes, *baselines.notes]))
        finished = fits.finished and baselines.finished
        return Compared(fits.done, fits.total, finished, cells, known, failures, notes)

    @property
    def _data_name(self) -> str:
        return f"{self.train.fingerprint}/{self.test.fingerprint}"

    def _cell_name(self, setting: Setting, seed: int) -> str:
        """Return a name of everything that a fit depends on except the code version."""
        family, config = setting
        return f"{family}/{json.dumps(dict(config) | {'seed': seed}, sort_keys=True)}/{self._data_name}"


@dataclass(frozen=True)
class Compared:
    """Results of a comparison so far.

    cells      setting -> seed -> cell
    baselines  name -> cell; empty while they are not known
    failures   setting -> reason of a failed fit
    """

    done: int
    total: int
    finished: bool
    cells: dict[str, dict[int, Cell]]
    baselines: dict[str, Cell]
    failures: dict[str, str]
    notes: tuple[str, ...] = ()

    def verdict(self, measure: str) -> Verdict | None:
        """Compare the finished settings and baselines by one of MEASURES; None if it was measured nowhere."""
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
        """Return a row for each setting and baseline: measures and scores, averaged over blocks and seeds.

        A setting with a failed fit has the reason as its message, and no numbers.
        """
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
    """A comparison that runs on an engine at low priority, also while nobody polls it."""

    def __init__(self, comparison: Comparison, engine: Engine, session: str) -> None:
        self.comparison = comparison
        self.estimate = Estimate()
        self._fits, self._baselines = (
            grid.start(engine, session) for grid in (comparison.fits(), comparison.baselines())
        )

    def poll(self) -> Compared:
        """Return the results so far."""
        return self.comparison.collect(self._fits.poll(), self._baselines.poll())

    def cancel(self) -> None:
        """Start no more fits; finished ones stay cached."""
        self._fits.cancel()
        self._baselines.cancel()
