"""Reproducible comparison of all models on simulated NASCAR tracks, with every score and its baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gdm_core.analysis.metrics import Scores, align, evaluate
from gdm_core.errors import ConfigError, FitError
from gdm_core.maths.threads import one_thread, one_torch_thread
from gdm_core.models.registry import available, build

if TYPE_CHECKING:
    from gdm_core.engine import Engine

N_STATES = 4
N_LATENT = 2
SETTINGS = ("standard", "soft")


@dataclass(frozen=True)
class Task:
    """A single fit; each seed also has its own simulation."""

    model: str
    setting: str
    seed: int
    n_samples: int = 1000


@dataclass(frozen=True)
class ComparisonRun:
    """Result of a task. `scores` is None if the fit failed.

    fit_seconds    wall time of the optimisation
    total_seconds  wall time of `fit`, including the final ELBO and calibration
    cpu_seconds    processor time of `fit`, comparable on a busy machine
    failure        why the fit failed
    """

    task: Task
    status: str
    scores: Scores | None
    fit_seconds: float
    total_seconds: float
    cpu_seconds: float
    failure: str = ""

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self.task) | {
            name: getattr(self, name) for name in ("status", "failure", "fit_seconds", "total_seconds", "cpu_seconds")
        }
        return plain | {"scores": None if self.scores is None else self.scores.to_dict()}


def tasks(models: Sequence[str], settings: Sequence[str], n_seeds: int = 10, n_samples: int = 1000) -> list[Task]:
    """List every fit of a comparison."""
    for name in models:
        if name not in available():
            raise ConfigError(f"There is no model {name!r}; choose from {', '.join(available())}.")
    for setting in settings:
        if setting not in SETTINGS:
            raise ConfigError(f"setting is {setting!r}; choose from {', '.join(SETTINGS)}.")
    if n_seeds < 1:
        raise ConfigError(f"seeds is {n_seeds}; at least 1 is needed.")
    if n_samples < 50:
        raise ConfigError(f"samples is {n_samples}; at least 50 are needed.")
    return [Task(m, setting, s, n_samples) for setting in settings for m in models for s in range(n_seeds)]


def run(task: Task) -> ComparisonRun:
    """Fit and score on one core."""
    from datasets import nascar

    train, test = nascar.train_test(task.setting, task.seed, T=task.n_samples)
    model = build(task.model, N_STATES, N_LATENT, task.seed)
    with one_thread(), one_torch_thread():
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(train)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        failed = str(model.status_) == "failed"
        scores = None if failed else evaluate(model, train, test, seed=task.seed)
    return ComparisonRun(task, str(model.status_), scores, model.seconds_, wall, cpu, model.failure_ or "")


def run_tasks(
    work: Sequence[Task], engine: Engine | None = None, progress: Callable[[int, int], None] | None = None
) -> list[ComparisonRun]:
    """Run tasks in order, without a cache because times are measured."""
    from gdm_core.engine import LocalEngine

    cells = {"/".join(map(str, astuple(task))): (task,) for task in work}
    bulk = (engine or LocalEngine()).map(run, cells, session="reproduce", cached=False, progress=progress)
    bulk.wait()
    view = bulk.poll()
    if view.failures:
        raise FitError(next(iter(view.failures.values())))
    return [view.results[name] for name in cells]


# ---- table --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spread:
    """Summary of a score over seeds."""

    mean: float
    median: float
    sd: float
    worst: float
    best: float
    n: int

    @classmethod
    def from_values(cls, values: Sequence[float | None]) -> Spread | None:
        known = np.array([value for value in values if value is not None], dtype=np.float64)
        known = known[np.isfinite(known)]
        if not len(known):
            return None
        sd = float(known.std(ddof=1)) if len(known) > 1 else 0.0
        return cls(float(known.mean()), float(np.median(known)), sd, float(known.min()), float(known.max()), len(known))


COLUMNS = {
    "matched_accuracy": "matched (worst)",
    "paper_accuracy": "paper's metric",
    "paper_accuracy_hard": "paper's, one-hot",
    "majority_map_accuracy": "majority vote",
    "r2_10": "R2, 10 steps",
    "coverage_90": "90% coverage",
    "adaptive_90": "adaptive",
    "elbo_test": "test ELBO",
    "fit_seconds": "fit s",
    "cpu_seconds": "fit cpu s",
}
Row = dict[str, Spread | None]


def summarise(runs: Sequence[ComparisonRun]) -> dict[str, Row]:
    """Return {row: {column: summary over seeds}} of one setting: models, then baselines."""
    rows: dict[str, Row] = {}
    names = list(dict.fromkeys(r.task.model for r in runs))
    for name in names:
        mine = [r for r in runs if r.task.model == name and r.scores is not None]
        scores = [r.scores for r in mine if r.scores is not None]
        if not scores:
            continue
        rows[name] = _states_row(scores) | {
            "r2_10": Spread.from_values([s.forecast_r2[-1] for s in scores]),
            # Averaged over seeds, summarised over horizons.
            "coverage_90": Spread.from_values(np.mean([s.coverage_90 for s in scores], axis=0).tolist()),
            "adaptive_90": Spread.from_values(np.mean([s.adaptive_90 for s in scores], axis=0).tolist()),
            "elbo_test": Spread.from_values([s.elbo_test for s in scores]),
            "fit_seconds": Spread.from_values([r.fit_seconds for r in mine]),
            "cpu_seconds": Spread.from_values([r.cpu_seconds for r in mine]),
        }
        untrained = [s.baselines["untrained model"] for s in scores if "untrained model" in s.baselines]
        if untrained:
            elbo = Spread.from_values([s.untrained_elbo_test for s in scores])
            rows[f"{name}, untrained"] = _states_row(untrained) | {"elbo_test": elbo}
    # All models of a seed share their data, so the runs of one model have every baseline.
    sound = [r.scores for r in runs if r.scores is not None and r.task.model == next(iter(rows))]
    for name in sound[0].baselines if sound else ():
        if name != "untrained model":
            rows[name] = _states_row([s.baselines[name] for s in sound])
    if sound:
        rows["persistence"] = {"r2_10": Spread.from_values([s.persistence_r2[-1] for s in sound])}
        rows["linear AR(1)"] = {
            "r2_10": Spread.from_values([s.ar1_r2[-1] for s in sound]),
            "elbo_test": Spread.from_values([s.ar1_log_likelihood_test for s in sound]),
        }
    return rows


def _states_row(scores: Sequence[Any]) -> Row:
    state_columns = ("matched_accuracy", "paper_accuracy", "paper_accuracy_hard", "majority_map_accuracy")
    return {column: Spread.from_values([getattr(s, column) for s in scores]) for column in state_columns}


def table(rows: Mapping[str, Row]) -> str:
    """Format rows as text: mean ± standard deviation over seeds.

    Coverage is the mean and range over horizons 1..10. Times are medians, because the first fit of a process also loads
    libraries.
    """
    lines: list[tuple[str, ...]] = [("", *COLUMNS.values())]
    for name, row in rows.items():
        lines.append((name, *(_cell(column, row.get(column)) for column in COLUMNS)))
    return "\n".join(align(lines))


def _cell(column: str, spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if column in ("fit_seconds", "cpu_seconds"):
        return f"{spread.median:.2f}"
    digits = {"elbo_test": 2, "r2_10": 4}.get(column, 3)
    text = f"{spread.mean:.{digits}f}"
    if column in ("coverage_90", "adaptive_90"):
        return f"{text} ({spread.worst:.{digits}f}-{spread.best:.{digits}f})"
    if spread.n > 1:
        text += f" ± {spread.sd:.{digits}f}"
    return text + (f" ({spread.worst:.{digits}f})" if column == "matched_accuracy" else "")
