"""`suggest`, `compare` and `sweep`: run fits in this process or on an engine, and cache them on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gdm_core.engine.compare import Compared, Comparison
from gdm_core.engine.job import Progress
from gdm_core.engine.runner import Runner
from gdm_core.engine.suggest import MAX_STATES, MODELS, SEEDS, Suggestion, SuggestQuestion
from gdm_core.engine.suggest import suggest as _suggest
from gdm_core.engine.sweep import EVALUATE, Records, Sweep
from gdm_core.errors import ConfigError
from gdm_core.models.base import StateModel
from gdm_core.models.variants import format_call
from gdm_core.trials import TrialsLike, as_trials


def suggest(
    trials: TrialsLike,
    models: str | Sequence[str] = MODELS,
    *,
    n_latent: int | Literal["auto"] = "auto",
    states: Sequence[int] = tuple(range(1, MAX_STATES + 1)),
    seeds: Sequence[int] = SEEDS,
    progress: Progress | None = None,
    engine: Runner | None = None,
    **fixed: Any,
) -> Suggestion:
    """Recommend a model and its number of states by cross-validation.

    trials    a Trial, an array [T, N], several, or Trials
    models    one or several to compare, by name: "gdm", "arhmm-sticky", "rslds-sticky", ... (`gdm info` lists them)
    n_latent  latent dimensions; 'auto' takes as many as the data have
    states    numbers of states to try
    seeds     seeds of the fits to each half
    progress  called with the number of finished fits and the total
    engine    runs the fits; None for this process
    fixed     fixed parameters, for the models that have them
    """
    names = (models,) if isinstance(models, str) else tuple(models)
    question = SuggestQuestion(names, as_trials(trials), n_latent, fixed, states, seeds)
    return _suggest(question, engine, progress)


def compare(
    models: Mapping[str, StateModel] | Sequence[StateModel],
    train: TrialsLike,
    test: TrialsLike,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress | None = None,
    engine: Runner | None = None,
) -> Compared:
    """Compare models and baselines on the same test trials, with confidence intervals.

    models       unfitted models, by name or in a list; they are not modified, and their seeds are ignored
    train, test  training and test trials
    seeds        seeds of the fits of each model
    progress     called with the number of finished fits and the total
    engine       runs the fits; None for this process
    """
    named = dict(models) if isinstance(models, Mapping) else _name_by_repr(models)
    settings = {name: (model.family, _setting(model)) for name, model in named.items()}
    return Comparison(settings, seeds, as_trials(train), as_trials(test)).run(engine, progress)


def sweep(
    model: StateModel,
    grid: Mapping[str, Sequence[Any]],
    train: TrialsLike,
    test: TrialsLike,
    *,
    seeds: Sequence[int] = (0,),
    scorer: str = EVALUATE,
    progress: Progress | None = None,
    engine: Runner | None = None,
) -> Records:
    """Fit every combination of parameter values from every seed. A sweep that was stopped continues.

    model        an unfitted model with the parameters that are not in the grid; it is not modified
    grid         values of each parameter, such as {"n_states": [3, 4, 5], "temperature": [0.5, 0.99]}
    train, test  training and test trials
    seeds        seeds of the fits of each combination
    scorer       "module:function" of (model, train, test) that returns scores; "" for the ELBO only (fast)
    progress     called with the number of finished fits and the total
    engine       runs the fits; None for this process
    """
    if unknown := sorted(set(grid) - vars(model.config).keys()):
        raise ConfigError(f"{type(model).__name__} has no parameter {', '.join(unknown)}, which the grid contains.")
    base = {name: value for name, value in _setting(model).items() if name not in grid}
    return Sweep(model.family, base, grid, seeds, as_trials(train), as_trials(test), scorer).run(engine, progress)


def _setting(model: StateModel) -> dict[str, Any]:
    return {name: value for name, value in vars(model.config).items() if name != "seed"}


def _name_by_repr(models: Sequence[StateModel]) -> dict[str, StateModel]:
    """Return the models by the parameters that are not the default."""
    found = {format_call(model, without=("seed",)): model for model in models}
    if len(found) < len(models):
        raise ConfigError("Two of these models are the same. List each model once; `seeds` sets their seeds.")
    return found
