"""Experiments of the paper: their fits, and files of their results.

The Paper page shows stored results, or runs the fits again. `gdm reproduce all` writes the stored results. Figures 3 and 4
use simulated laps and mice, and also the real ones if they are in the data folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from datasets import calms21, formula1, mice, nascar
from datasets.splits import split_trials
from datasets.storage import data_dir
from gdm_core.analysis.comparisons import Cell, fit_cell, measure_baselines
from gdm_core.analysis.envelopes import next_ranges
from gdm_core.engine import Engine, LocalEngine
from gdm_core.engine.compare import Comparison, Setting
from gdm_core.errors import ConfigError
from gdm_core.files import write_whole
from gdm_core.models.registry import NAMED_MODELS
from gdm_core.text import format_mean_sd
from gdm_core.trials import Trials

FILE = Path(__file__).resolve().parents[1] / "assets" / "paper.json"
SETTINGS = {"standard": "Standard", "soft": "Soft-sticky"}
PROTOCOLS = ("paper", "fair")
# Columns of Table 1 and the models that reproduce them.
TABLE_1 = {
    "SLDS (sticky)": "slds-sticky",
    "rSLDS (sticky)": "rslds-sticky",
    "rSLDS (RO)": "rslds-ro",
    "p-dLDS": "pdlds",
    "AR-HMM (RO)": "arhmm-ro",
    "GDM": "gdm",
}
FIGURE_4 = {"GDM": "gdm", "GDM with a GRU": "gdm-rnn", "rSLDS (RO)": "rslds-ro"}
RACE = ("Chinese Grand Prix", "Race")  # of any year
STATES = tuple(range(2, 11))  # for accuracy against K
SHOWN_STATES = 8
F1_LAPS, F1_DIMENSIONS = 8, 2
MICE_TRIALS, MICE_FRAMES, MICE_STATES, MICE_DIMENSIONS = 6, 2000, 5, 3
N_SEEDS = {"table": 10, "formula1": 5, "mice": 3}

Cells = dict[str, tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Experiment:
    """Fits of one panel: comparisons on different data, each with its settings and seeds."""

    name: str
    comparisons: tuple[Comparison, ...]

    @property
    def n_fits(self) -> int:
        return sum(one.n_fits for one in self.comparisons)

    @property
    def keys(self) -> list[str]:
        """The key of each comparison, from the recipes of its data, its settings and seeds."""
        return [one.key for one in self.comparisons]

    @property
    def usual_s(self) -> float:
        """Usual total time, one fit after the other."""
        return sum(one.usual_s for one in self.comparisons)


Found = list[dict[str, dict[int, Cell]]]  # for each comparison: setting -> seed -> cell


def names() -> tuple[str, ...]:
    """Return the names of all experiments on simulated data."""
    return (*(f"table/{setting}/{protocol}" for setting in SETTINGS for protocol in PROTOCOLS), "formula1", "mice")


def find_names(prefix: str = "") -> tuple[str, ...]:
    """Return the names of experiments whose data are at hand, by name or by its first parts.

    Raises ConfigError if none match.
    """
    real = [f"{kind}/real" for kind in ("formula1", "mice") if _load_real(kind, data_dir()) is not None]
    found = tuple(name for name in (*names(), *real) if not prefix or f"{name}/".startswith(f"{prefix}/"))
    if not found:
        raise ConfigError(f"There is no experiment {prefix!r}; choose one of {', '.join((*names(), *real))}.")
    return found


def experiment(name: str, n_seeds: int | None = None, samples: int = 1000) -> Experiment:
    """Return an experiment by name, with fewer seeds if given."""
    kind, *rest = name.split("/")
    real = _load_real(kind, data_dir()) if rest == ["real"] else None
    if name not in names() and real is None:
        raise ConfigError(f"There is no experiment {name!r}; choose one of {', '.join(names())}.")
    seeds = tuple(range(n_seeds or N_SEEDS[kind]))
    if kind == "formula1":
        return Experiment(name, (Comparison(_settings_by_k(), seeds, *(real or _simulate_race())),))
    if kind == "mice":
        settings = _settings(FIGURE_4, MICE_STATES, MICE_DIMENSIONS)
        return Experiment(name, (Comparison(settings, seeds, *(real or _simulate_mice())),))
    models, (setting, protocol) = _settings(TABLE_1, 4, 2), rest
    if protocol == "paper":  # one simulation for all seeds
        return Experiment(name, (Comparison(models, seeds, *_simulate_tracks(setting, None, samples)),))
    each = [Comparison(models, (seed,), *_simulate_tracks(setting, seed, samples)) for seed in seeds]
    return Experiment(name, tuple(each))


def with_data(name: str, train: Trials, test: Trials, n_seeds: int, keep: bool = True) -> Experiment:
    """Return the experiment "formula1" or "mice" with other data."""
    original = experiment(name, n_seeds).comparisons[0]
    return Experiment(f"{name}/open", (Comparison(original.settings, original.seeds, train, test, keep),))


def _settings(models: dict[str, str], n_states: int, n_latent: int) -> dict[str, Setting]:
    size = {"n_states": n_states, "n_latent": n_latent}
    return {label: (NAMED_MODELS[name][0], {**size, **NAMED_MODELS[name][1]}) for label, name in models.items()}


def _settings_by_k() -> dict[str, Setting]:
    both = {"GDM": "gdm-linear", "rSLDS (RO)": "rslds-ro"}
    return {
        f"{label}, K = {k}": setting for k in STATES for label, setting in _settings(both, k, F1_DIMENSIONS).items()
    }


@cache
def _simulate_tracks(setting: str, seed: int | None, samples: int) -> tuple[Trials, Trials]:
    """Simulate the tracks of one seed, or of the paper if seed is None."""
    if seed is None:
        lap, another = nascar.paper_train_test(setting, T=samples)
    else:
        lap, another = nascar.train_test(setting, seed, T=samples)
    return Trials((lap,), lap.name), Trials((another,), another.name)


@cache
def _simulate_race() -> tuple[Trials, Trials]:
    """Simulate a race and return the laps of the first and fifth driver."""
    session = formula1.simulate_race(drivers=5, laps=F1_LAPS, seed=0)
    order = sorted(session.drivers, key=lambda driver: float(driver.laps.end[-1]))
    first, fifth = (formula1.to_trials(session, driver.code) for driver in (order[0], order[-1]))
    return first, fifth


@cache
def _simulate_mice() -> tuple[Trials, Trials]:
    whole = mice.simulate(MICE_TRIALS, MICE_FRAMES, 0)
    return Trials(whole.trials[:-2], "training trials"), Trials(whole.trials[-2:], "held-out trials")


@cache
def _load_real(kind: str, folder: Path) -> tuple[Trials, Trials] | None:
    """Load training and test trials of "formula1" or "mice" from the data folder, None if it has none."""
    if kind == "mice":
        return _load_real_mice(folder)
    for year, event, name in formula1.stored_sessions():
        if (event, name) == RACE:
            session = formula1.load_session(year, event, name, offline=True)
            return formula1.to_trials(session, session.codes[0], preset="paper"), formula1.to_trials(
                session, session.codes[4], preset="paper"
            )
    return None


def _load_real_mice(folder: Path) -> tuple[Trials, Trials] | None:
    """Load CalMS21. If only one split is there, its trials are divided into training and test trials."""
    files = calms21.find(folder)
    sides = [calms21.load(path, split) for split, path in files.items()]
    if len(sides) == 1:
        return split_trials(sides[0])
    return (sides[0], sides[1]) if sides else None


# ---- running --------------------------------------------------------------------------------------------------------
def build_grids(
    experiments: Sequence[str], n_seeds: int | None = None, samples: int = 1000
) -> list[tuple[Callable[..., Any], Cells]]:
    """Return the functions of `reproduce_all` with their cells."""
    fits: Cells = {}
    lines: Cells = {}
    for name in experiments:
        comparisons = experiment(name, n_seeds, samples).comparisons
        for i, one in enumerate(comparisons):
            for label, (family, config) in one.settings.items():
                for seed in one.seeds:
                    arguments = (family, {**config, "seed": seed}, one.train, one.test)
                    fits[_name_cell(arguments, "experiments", name, i, label, seed)] = arguments
        first = comparisons[0]
        baseline = (first.train, first.test, first.n_states)
        lines[_name_cell(baseline, "lines", name)] = baseline
    ranges: Cells = {}
    for setting in SETTINGS:
        if f"table/{setting}/paper" in experiments:
            arguments = range_arguments(setting, samples)
            ranges[_name_cell(arguments, "ranges", setting)] = arguments
    return [(fit_cell, fits), (measure_baselines, lines), (next_ranges, ranges)]


def _name_cell(arguments: tuple[Any, ...], *place: Any) -> str:
    """Return a name of the place of a result and of everything that it depends on."""
    named = [one.fingerprint if isinstance(one, Trials) else one for one in arguments]
    return json.dumps([place, named], sort_keys=True)


def count_tasks(experiments: Sequence[str], n_seeds: int | None = None) -> int:
    """Return the number of tasks of `reproduce_all`."""
    return sum(len(cells) for _, cells in build_grids(experiments, n_seeds))


def reproduce_all(
    experiments: Sequence[str],
    n_seeds: int | None = None,
    samples: int = 1000,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Run every fit of some experiments; return plain values and the failures of each. Finished fits are cached."""
    keys = {name: experiment(name, n_seeds, samples).keys for name in experiments}
    found: dict[str, Any] = {"made": keys, "experiments": {}, "lines": {}, "ranges": {}, "failed": {}}
    work, before = build_grids(experiments, n_seeds, samples), 0
    total = sum(len(cells) for _, cells in work)

    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(before + done, total)

    for function, cells in work:
        bulk = (engine or LocalEngine()).map(function, cells, session="reproduce", progress=report)
        bulk.wait()
        view = bulk.poll()
        before += view.done
        for cell, value in view.results.items():
            _insert(found, json.loads(cell)[0], value)
        for cell, why in view.failures.items():
            _, name, *rest = json.loads(cell)[0]
            found["failed"].setdefault(name, []).append(f"{'/'.join(map(str, rest))}: {why}")
    return found


def range_arguments(setting: str, samples: int = 1000) -> tuple[Any, ...]:
    """Return the arguments of `next_ranges` for the NASCAR figure."""
    family, config = _settings({"GDM": "gdm"}, 4, 2)["GDM"]
    return (family, {**config, "seed": 0}, *_simulate_tracks(setting, None, samples))


def _insert(found: dict[str, Any], place: Sequence[Any], value: dict[str, Any]) -> None:
    kind, name, *rest = place
    if kind != "experiments":
        found[kind][name] = value
        return
    i, label, seed = rest
    shown = not name.endswith("/real") and i == 0 and seed == 0
    shown &= "K = " not in label or label.endswith(f"= {SHOWN_STATES}")
    if not shown:  # figures draw the states of one fit only
        value = {**value, "states": {"values": "", "shape": [0, 0]}}
    found["experiments"].setdefault(name, {}).setdefault(str(i), {}).setdefault(label, {})[str(seed)] = value


def summary(found: dict[str, Any]) -> list[str]:
    """Return lines of text: the paper's accuracy, mean ± standard deviation over seeds."""
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
        lines += [f"  {label:24} {format_mean_sd(v, 3)} ({len(v)})" for label, v in values.items()]
    return lines


# ---- files of results -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class StoredResults:
    """Results of `gdm reproduce`: the code version and the `Experiment.keys` of each experiment, its fits and baselines."""

    code: dict[str, str]
    made: dict[str, list[str]]
    cells: dict[str, Found]
    lines: dict[str, dict[str, Cell]]
    ranges: dict[str, dict[str, Any]]


def save(found: dict[str, Any], path: Path, code: str) -> None:
    """Write results to a file for `load`. The file keeps its results of experiments that were not run."""
    earlier = json.loads(path.read_text()) if path.is_file() else {}
    failed = {name: why for name, why in earlier.get("failed", {}).items() if name not in found["made"]}
    merged = {part: {**earlier.get(part, {}), **found[part]} for part in ("made", "experiments", "lines", "ranges")}
    merged |= {
        "code": {**earlier.get("code", {}), **dict.fromkeys(found["made"], code)},
        "failed": failed | found["failed"],
    }
    write_whole(path, json.dumps(round_floats(merged), separators=(",", ":")).encode())


def round_floats(value: Any) -> Any:
    """Round floats to six digits, which reduces the file to a third."""
    if isinstance(value, dict):
        return {name: round_floats(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [round_floats(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def load(path: Path = FILE) -> StoredResults:
    """Load stored results, by default those that ship with the app."""
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
    return StoredResults(plain["code"], plain["made"], cells, lines, plain["ranges"])
