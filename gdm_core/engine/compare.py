"""Settings fitted side by side on an engine. Every fit of every seed is kept in the store, and taken from it the next time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gdm_core.analysis.comparisons import MEASURES, Cell, Verdict, fitted_cell, lines_to_beat, verdict
from gdm_core.engine.engine import Engine
from gdm_core.engine.estimate import Estimate
from gdm_core.engine.grid import Grid, key_of, require_seeds
from gdm_core.engine.job import BulkView
from gdm_core.errors import ConfigError
from gdm_core.trials import Trials

MOST_FITS = 200

Setting = tuple[str, Mapping[str, Any]]  # family and parameters, all but the seed


@dataclass(frozen=True, eq=False)
class Comparison:
    """Settings by name, each fitted from every seed on `train` and measured on `test`.

    keep   whether what is found, states among it, may stay on disk: not for what somebody uploaded
    """

    settings: Mapping[str, Setting]
    seeds: Sequence[int]
    train: Trials
    test: Trials
    keep: bool = True

    def __post_init__(self) -> None:
        if not self.settings:
            raise ConfigError("There is no setting to compare; give one or more.")
        require_seeds(self.seeds, (config for _, config in self.settings.values()))
        if self.n_fits > MOST_FITS:
            raise ConfigError(
                f"{self.n_fits} fits are asked for; {MOST_FITS} may be compared at once. Take fewer seeds or values."
            )

    @property
    def n_fits(self) -> int:
        return len(self.settings) * len(self.seeds)

    @property
    def usual_s(self) -> float:
        """What all fits take one after the other, with their scores: half a second and 100 µs a sample each
        (docs/performance.md has the measurements that this rounds)."""
        return self.n_fits * (0.5 + self.train.n_samples * 1e-4)

    @property
    def data(self) -> str:
        return f"{self.train.fingerprint}/{self.test.fingerprint}"

    def name_of(self, setting: Setting, seed: int) -> str:
        """Names all that a fit depends on but the version of the code."""
        family, config = setting
        return f"{family}/{json.dumps(dict(config) | {'seed': seed}, sort_keys=True)}/{self.data}"

    @property
    def n_states(self) -> int:
        """Of the first setting: lines to beat are measured with as many."""
        return int(next(iter(self.settings.values()))[1]["n_states"])

    @property
    def key(self) -> str:
        return "compare-" + key_of(self.fits().cells)

    def fits(self) -> Grid:
        """Every fit."""
        cells = {
            self.name_of(setting, seed): (setting[0], {**setting[1], "seed": seed}, self.train, self.test)
            for setting in self.settings.values()
            for seed in self.seeds
        }
        return Grid(fitted_cell, cells, self.keep)

    def lines(self) -> Grid:
        """What has to be beaten: one cell for all lines."""
        name = f"lines/{self.n_states}/{self.data}"
        return Grid(lines_to_beat, {name: (self.train, self.test, self.n_states)}, self.keep)

    def compared(self, fits: BulkView, other: BulkView) -> Compared:
        """What its `fits` and `lines` have found so far."""
        cells: dict[str, dict[int, Cell]] = {}
        failures: dict[str, str] = {}
        for label, setting in self.settings.items():
            cells[label] = {}
            for seed in self.seeds:
                name = self.name_of(setting, seed)
                if name in fits.results:
                    cells[label][seed] = Cell.from_dict(fits.results[name])
                elif name in fits.failures:
                    failures[label] = fits.failures[name]
        lines = {name: Cell.from_dict(cell) for known in other.results.values() for name, cell in known.items()}
        if other.failures:
            failures["Lines to beat"] = next(iter(other.failures.values()))
        notes = tuple(dict.fromkeys([*fits.notes, *other.notes]))
        finished = fits.finished and other.finished
        return Compared(fits.done, fits.total, finished, cells, lines, failures, notes)


@dataclass(frozen=True)
class Compared:
    """What is known so far.

    cells     setting -> seed -> cell; lines -> cell of what has to be beaten, empty while it is not known
    failures  setting -> why a fit of it did not work out
    """

    done: int
    total: int
    finished: bool
    cells: dict[str, dict[int, Cell]]
    lines: dict[str, Cell]
    failures: dict[str, str]
    notes: tuple[str, ...] = ()

    def verdict(self, measure: str) -> Verdict | None:
        """Of all settings whose fits are done, and of the lines that are no models; None where nobody was measured by it
        ("states", "density", "next", "ten")."""
        tables = {
            label: [cell.blocks[measure] for cell in cells.values() if measure in cell.blocks]
            for label, cells in self.cells.items()
            if label not in self.failures
        }
        tables = {label: rows for label, rows in tables.items() if rows}
        if not tables:
            return None
        lines = {name: [cell.blocks[measure]] for name, cell in self.lines.items() if measure in cell.blocks}
        return verdict(measure, {**tables, **lines})

    def to_frame(self) -> pd.DataFrame:
        """A row for each setting and line to beat: each measure and all scores, means over blocks and seeds.

        A setting with a failed fit has the reason as its message, and no numbers.
        """
        rows = {}
        for name, by_seed in [*self.cells.items(), *((name, {0: line}) for name, line in self.lines.items())]:
            found = [
                {m: cell.mean(m) for m in MEASURES} | cell.scores | {"seconds": cell.seconds}
                for cell in by_seed.values()
            ]
            numbers = pd.Series(dtype=float) if name in self.failures else pd.DataFrame(found).mean()
            rows[name] = {**numbers, "message": self.failures.get(name, "")}
        return pd.DataFrame.from_dict(rows, orient="index")

    def __str__(self) -> str:
        frame = self.to_frame()
        frame = frame[[name for name in (*MEASURES, "matched_accuracy", "message") if name in frame]].dropna(
            axis=1, how="all"
        )
        told = [(words, self.verdict(measure)) for measure, (words, _) in MEASURES.items()]
        said = [f"{words}: {verdict.sentence}" for words, verdict in told if verdict is not None and verdict.sentence]
        return "\n".join([frame.to_string(float_format="{:.3f}".format, na_rep="-"), *said, *self.notes])


class CompareJob:
    """A comparison on an engine, behind the fits that people watch. It goes on when nobody asks."""

    def __init__(self, comparison: Comparison, engine: Engine, session: str) -> None:
        self.comparison = comparison
        self.estimate = Estimate()
        self._fits, self._other = (grid.start(engine, session) for grid in (comparison.fits(), comparison.lines()))

    def poll(self) -> Compared:
        """How far it is; returns at once."""
        return self.comparison.compared(self._fits.poll(), self._other.poll())

    def cancel(self) -> None:
        """Start no more fits; what is done stays in the store."""
        self._fits.cancel()
        self._other.cancel()
