"""Every experiment of the paper that can be repeated here: which fits it takes, and how they are stored.

The Paper page draws stored fits at once and fits them anew when asked; `gdm reproduce all` is what stores them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from datasets import formula1, mice, nascar
from gdm_core.analysis.comparisons import Cell, fit_cell, measure_baselines
from gdm_core.analysis.envelopes import next_ranges
from gdm_core.engine.compare import Comparison, Setting
from gdm_core.engine.engine import Engine
from gdm_core.engine.grid import Grid
from gdm_core.errors import ConfigError
from gdm_core.files import write_whole
from gdm_core.models.registry import NAMED_MODELS
from gdm_core.text import mean_and_spread
from gdm_core.trials import Trials

FILE = Path(__file__).resolve().parents[1] / "assets" / "paper.json"
SETTINGS = {"standard": "standard", "soft": "soft-sticky"}
PROTOCOLS = ("paper", "fair")
# Columns of Table 1, and what stands for them here. Ours come last.
TABLE_1 = {
    "SLDS (sticky)": "slds-sticky",
    "rSLDS (sticky)": "rslds-sticky",
    "rSLDS (RO)": "rslds-ro",
    "p-dLDS": "pdlds",
    "AR-HMM (RO)": "arhmm-ro",
    "GDM": "gdm",
}
STATES = tuple(range(2, 11))  # of the accuracy against K
SHOWN_STATES = 8
F1_LAPS, F1_DIMENSIONS = 8, 2
MICE_TRIALS, MICE_FRAMES, MICE_STATES, MICE_DIMENSIONS = 6, 2000, 5, 3
N_SEEDS = {"table": 10, "formula1": 5, "mice": 3}
DEADLINE_S = 3600.0  # of one fit

Cells = dict[str, tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Experiment:
    """Fits that make one panel: comparisons that differ in their data, each with settings and seeds of its own."""

    name: str
    comparisons: tuple[Comparison, ...]

    @property
    def n_fits(self) -> int:
        return sum(one.n_fits for one in self.comparisons)

    @property
    def keys(self) -> list[str]:
        """What it is known by, one for each comparison: the recipes of its data, its settings and seeds."""
        return [one.key for one in self.comparisons]

    @property
    def usual_s(self) -> float:
        """What all of them take one after the other."""
        return sum(one.usual_s for one in self.comparisons)


Found = list[dict[str, dict[int, Cell]]]  # of each comparison: setting -> seed -> cell


def names() -> tuple[str, ...]:
    """Of all experiments."""
    return (*(f"table/{setting}/{protocol}" for setting in SETTINGS for protocol in PROTOCOLS), "formula1", "mice")


def experiment(name: str, n_seeds: int | None = None, samples: int = 1000) -> Experiment:
    """One of `names()`; with fewer seeds it is quicker."""
    kind, *rest = name.split("/")
    if name not in names():
        raise ConfigError(f"There is no experiment {name!r}; choose one of {', '.join(names())}.")
    seeds = tuple(range(n_seeds or N_SEEDS[kind]))
    if kind == "formula1":
        return Experiment(name, (Comparison(_against_k(), seeds, *_race()),))
    if kind == "mice":
        both = _settings({"GDM": "gdm", "rSLDS (RO)": "rslds-ro"}, MICE_STATES, MICE_DIMENSIONS)
        return Experiment(name, (Comparison(both, seeds, *_mice()),))
    models, (setting, protocol) = _settings(TABLE_1, 4, 2), rest
    if protocol == "paper":  # one simulation, each seed another fit
        return Experiment(name, (Comparison(models, seeds, *_tracks(setting, None, samples)),))
    each = [Comparison(models, (seed,), *_tracks(setting, seed, samples)) for seed in seeds]
    return Experiment(name, tuple(each))


def on(name: str, train: Trials, test: Trials, n_seeds: int, keep: bool = True) -> Experiment:
    """ "formula1" or "mice" on data of one's own: the fits are the same, what they see is not."""
    asked = experiment(name, n_seeds).comparisons[0]
    return Experiment(f"{name}/open", (Comparison(asked.settings, asked.seeds, train, test, keep),))


def _settings(models: dict[str, str], n_states: int, n_latent: int) -> dict[str, Setting]:
    size = {"n_states": n_states, "n_latent": n_latent}
    return {label: (NAMED_MODELS[name][0], {**size, **NAMED_MODELS[name][1]}) for label, name in models.items()}


def _against_k() -> dict[str, Setting]:
    both = {"GDM": "gdm-linear", "rSLDS (RO)": "rslds-ro"}
    return {
        f"{label}, K = {k}": setting for k in STATES for label, setting in _settings(both, k, F1_DIMENSIONS).items()
    }


@cache
def _tracks(setting: str, seed: int | None, samples: int) -> tuple[Trials, Trials]:
    """Of one seed, or of the paper's one simulation."""
    if seed is None:
        lap, another = nascar.paper_train_test(setting, T=samples)
    else:
        lap, another = nascar.train_test(setting, seed, T=samples)
    return Trials((lap,), lap.name), Trials((another,), another.name)


@cache
def _race() -> tuple[Trials, Trials]:
    """Laps of the winner and of the fifth in a simulated race."""
    session = formula1.simulate_race(drivers=5, laps=F1_LAPS, seed=0)
    order = sorted(session.drivers, key=lambda driver: float(driver.laps.end[-1]))
    first, fifth = (formula1.to_trials(session, driver.code) for driver in (order[0], order[-1]))
    return first, fifth


@cache
def _mice() -> tuple[Trials, Trials]:
    whole = mice.simulate(MICE_TRIALS, MICE_FRAMES, 0)
    return Trials(whole.trials[:-2], "fitted trials"), Trials(whole.trials[-2:], "new trials")


# ---- doing it -------------------------------------------------------------------------------------------------------
def grids(n_seeds: int | None = None, samples: int = 1000) -> list[Grid]:
    """All that `reproduce_all` does. A cell's name is the place of its result, as JSON; nothing is taken from the store."""
    fits: Cells = {}
    lines: Cells = {}
    for name in names():
        asked = experiment(name, n_seeds, samples)
        for i, one in enumerate(asked.comparisons):
            for label, (family, config) in one.settings.items():
                for seed in one.seeds:
                    place = json.dumps(["experiments", name, i, label, seed])
                    fits[place] = (family, {**config, "seed": seed}, one.train, one.test)
        first = asked.comparisons[0]
        lines[json.dumps(["lines", name])] = (first.train, first.test, first.n_states)
    ranges: Cells = {json.dumps(["ranges", setting]): range_arguments(setting, samples) for setting in SETTINGS}
    work: list[tuple[Callable[..., Any], Cells]] = [(fit_cell, fits), (measure_baselines, lines), (next_ranges, ranges)]
    return [Grid(function, cells, cached=False, deadline_s=DEADLINE_S) for function, cells in work]


def n_pieces(n_seeds: int | None = None) -> int:
    """How many pieces of work `reproduce_all` has."""
    return sum(len(grid.cells) for grid in grids(n_seeds))


def reproduce_all(
    n_seeds: int | None = None,
    samples: int = 1000,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Every fit of every experiment, as plain values; what failed is listed. In this process, or on an engine."""
    made = {name: experiment(name, n_seeds, samples).keys for name in names()}
    found: dict[str, Any] = {"made": made, "experiments": {}, "lines": {}, "ranges": {}, "failed": []}
    work, before = grids(n_seeds, samples), 0
    total = sum(len(grid.cells) for grid in work)

    def told(done: int, _: int) -> None:
        if progress is not None:
            progress(before + done, total)

    for grid in work:
        view = grid.run(engine, "reproduce", progress=told)
        before += view.done
        for place, value in view.results.items():
            _put(found, json.loads(place), value)
        found["failed"] += [f"{'/'.join(map(str, json.loads(at)))}: {said}" for at, said in view.failures.items()]
    return found


def range_arguments(setting: str, samples: int = 1000) -> tuple[Any, ...]:
    """What `next_ranges` takes for the NASCAR figure."""
    family, config = _settings({"GDM": "gdm"}, 4, 2)["GDM"]
    return (family, {**config, "seed": 0}, *_tracks(setting, None, samples))


def _put(found: dict[str, Any], place: Sequence[Any], value: dict[str, Any]) -> None:
    kind, name, *rest = place
    if kind != "experiments":
        found[kind][name] = value
        return
    i, label, seed = rest
    shown = i == 0 and seed == 0 and ("K = " not in label or label.endswith(f"= {SHOWN_STATES}"))
    if not shown:  # states of one fit are drawn; of the others numbers are enough
        value = {**value, "states": {"values": "", "shape": [0, 0]}}
    found["experiments"].setdefault(name, {}).setdefault(str(i), {}).setdefault(label, {})[str(seed)] = value


def summary(found: dict[str, Any]) -> list[str]:
    """Lines of text: the paper's accuracy of every setting, mean and standard deviation over seeds."""
    lines = []
    for name, comparisons in found["experiments"].items():
        lines.append(f"{name}: inferred state accuracy (10-NN)")
        values: dict[str, list[float]] = {}
        for one in comparisons.values():
            for label, by_seed in one.items():
                known = [
                    cell["scores"]["paper_accuracy"] for cell in by_seed.values() if "paper_accuracy" in cell["scores"]
                ]
                values.setdefault(label, []).extend(known)
        lines += [f"  {label:24} {mean_and_spread(v, 3)} ({len(v)})" for label, v in values.items()]
    return lines


# ---- what is stored -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Stored:
    """What `gdm reproduce all` found; `made` names what was asked, as `Experiment.keys` does."""

    code: str
    made: dict[str, list[str]]
    cells: dict[str, Found]
    lines: dict[str, dict[str, Cell]]
    ranges: dict[str, dict[str, Any]]


def save(found: dict[str, Any], path: Path, code: str) -> None:
    """Write what was found so that `load` reads it."""
    write_whole(path, json.dumps(_rounded({"code": code, **found}), separators=(",", ":")).encode())


def _rounded(value: Any) -> Any:
    """Six digits of every number: more than any table prints, at a third of the size."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def load(path: Path = FILE) -> Stored:
    """What ships with the app."""
    plain = json.loads(path.read_text())
    cells = {
        name: [
            {
                label: {int(seed): Cell.from_dict(cell) for seed, cell in by_seed.items()}
                for label, by_seed in one.items()
            }
            for _, one in sorted(comparisons.items(), key=lambda item: int(item[0]))
        ]
        for name, comparisons in plain["experiments"].items()
    }
    lines = {name: {line: Cell.from_dict(cell) for line, cell in one.items()} for name, one in plain["lines"].items()}
    return Stored(plain["code"], plain["made"], cells, lines, plain["ranges"])
