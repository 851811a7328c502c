"""`gdm_core.suggest`, `compare` and `sweep`. They run on an engine or in this process, cache finished fits on disk, and return
results that can be printed and have `to_frame()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdm_core.engine.compare import Compared, Comparison
from gdm_core.engine.engine import Engine
from gdm_core.engine.job import Progress
from gdm_core.engine.suggest import MODELS, MOST_STATES, SEEDS, Suggestion, SuggestQuestion
from gdm_core.engine.suggest import suggest as _suggestions
from gdm_core.engine.sweep import EVALUATE, Records, Sweep
from gdm_core.errors import ConfigError
from gdm_core.models.base import StateModel
from gdm_core.trials import TrialsLike, as_trials


def suggest(
    trials: TrialsLike,
    models: str | Sequence[str] = MODELS,
    *,
    n_latent: int | None = None,
    states: Sequence[int] = tuple(range(1, MOST_STATES + 1)),
    seeds: Sequence[int] = SEEDS,
    progress: Progress | None = None,
    engine: Engine | None = None,
    **fixed: Any,
) -> Suggestion:
    """Recommend a model with its number of states, temperature, stickiness and dimensions, by cross-validation.

    trials    a Trial, an array [T, N], several, or Trials
    models    one or several to compare, by name: "gdm", "arhmm-sticky", "rslds-sticky", ... (`gdm info` lists them)
    n_latent  D to begin with; 2, or 1 for a single channel, if None
    states    numbers of states to try
    seeds     each setting is fitted to both halves from each of them
    progress  called with the number of finished fits and the largest total
    engine    runs the fits; None for this process
    fixed     parameters that stay fixed in the models that have them
    """
    data = as_trials(trials)
    d = min(2, data.n_channels) if n_latent is None else n_latent
    names = (models,) if isinstance(models, str) else tuple(models)
    question = SuggestQuestion(names, data, d, fixed, states, seeds)
    return list(_suggestions(question, progress=progress, engine=engine))[-1]


def compare(
    models: Mapping[str, StateModel] | Sequence[StateModel],
    train: TrialsLike,
    test: TrialsLike,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Compared:
    """Fit several models from several seeds, measure them and baselines on the same test trials, and say which differ.

    models       unfitted models, by name or in a list; they are not changed, and their own seeds are ignored
    train, test  trials to fit and to measure on
    seeds        each model is fitted from each of them
    progress     called with the number of finished fits and the total
    engine       runs the fits; None for this process
    """
    named = dict(models) if isinstance(models, Mapping) else _named(models)
    settings = {name: (model.family, _setting(model)) for name, model in named.items()}
    comparison = Comparison(settings, seeds, as_trials(train), as_trials(test))
    fits = comparison.fits().run(engine, "compare", progress=progress)
    return comparison.collect(fits, comparison.baselines().run(engine, "compare"))


def sweep(
    model: StateModel,
    grid: Mapping[str, Sequence[Any]],
    train: TrialsLike,
    test: TrialsLike,
    *,
    seeds: Sequence[int] = (0,),
    scorer: str = EVALUATE,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Records:
    """Fit every combination of parameter values from every seed. A sweep that was stopped continues when it is called again.

    model        an unfitted model with the parameters that are not in the grid; it is not changed
    grid         values of each parameter: {"n_states": [3, 4, 5], "temperature": [0.5, 0.99]}
    train, test  trials to fit and to score
    seeds        each combination is fitted from each of them
    scorer       "module:function" of (model, train, test) whose numbers become scores; "" for the ELBO alone (fast)
    progress     called with the number of finished fits and the total
    engine       runs the fits; None for this process
    """
    if unknown := sorted(set(grid) - model.get_params().keys()):
        raise ConfigError(f"The grid names {', '.join(unknown)}, which {type(model).__name__} has no parameter for.")
    base = {name: value for name, value in _setting(model).items() if name not in grid}
    return Sweep(model.family, base, grid, seeds, as_trials(train), as_trials(test), scorer).run(
        engine, progress=progress
    )


def _setting(model: StateModel) -> dict[str, Any]:
    return {name: value for name, value in model.get_params().items() if name != "seed"}


def _named(models: Sequence[StateModel]) -> dict[str, StateModel]:
    """Return the models by their repr."""
    found = {str(type(model)(**_setting(model))): model for model in models}
    if len(found) < len(models):
        raise ConfigError("Two of these models are the same. Compare each once; seeds are given by `seeds`.")
    return found
