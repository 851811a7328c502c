"""What people ask of data and models, a verb each: `gdm_core.suggest`, `compare`, `sweep`. All work in this process, one fit
after the other and kept on disk, or on an engine; what they give prints itself and has `to_frame()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdm_core.engine.compare import Compared, Comparison
from gdm_core.engine.engine import Engine
from gdm_core.engine.job import Progress
from gdm_core.engine.suggest import MODELS, MOST_STATES, SEEDS, Suggestion, SuggestQuestion
from gdm_core.engine.suggest import suggest as _suggestions
from gdm_core.engine.sweep import EVALUATE, Records, Sweep, run
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
    """Settings side by side on the same new trials: what can be told apart, and what beats lines that learn no dynamics.

    models       unfitted ones, by name or in a list; their own seed is not looked at, and they stay as they are
    train, test  what all are fitted to, and what they are measured on
    seeds        each model is fitted from each of them
    progress     is told how many fits are done, and of how many
    engine       to work on, None for this process
    """
    named = dict(models) if isinstance(models, Mapping) else _named(models)
    settings = {name: (model.family, _setting(model)) for name, model in named.items()}
    comparison = Comparison(settings, seeds, as_trials(train), as_trials(test))
    fits = comparison.fits().found(engine, "compare", progress=progress)
    return comparison.compared(fits, comparison.lines().found(engine, "compare"))


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
    """A fit for every combination of values and every seed. Stopped and asked for again, it goes on where it was.

    model        an unfitted one with everything that is not in the grid; it stays as it is
    grid         {"n_states": [3, 4, 5], "temperature": [0.5, 0.99]}: values to try of each parameter
    train, test  what is fitted to, and what is scored
    seeds        each combination is fitted from each of them
    scorer       "module:function" of (model, train, test), whose numbers become scores; "" for the bound alone, which is quick
    progress     is told how many fits are done, and of how many
    engine       to work on, None for this process
    """
    if unknown := sorted(set(grid) - model.get_params().keys()):
        raise ConfigError(f"The grid names {', '.join(unknown)}, which {type(model).__name__} has no parameter for.")
    base = {name: value for name, value in _setting(model).items() if name not in grid}
    asked = Sweep(model.family, base, grid, seeds, as_trials(train), as_trials(test), scorer)
    return Records(run(asked, progress=progress, engine=engine))


def _setting(model: StateModel) -> dict[str, Any]:
    return {name: value for name, value in model.get_params().items() if name != "seed"}


def _named(models: Sequence[StateModel]) -> dict[str, StateModel]:
    """By the calls that make them."""
    found = {str(type(model)(**_setting(model))): model for model in models}
    if len(found) < len(models):
        raise ConfigError("Two of these models are the same. Compare each once; seeds are given by `seeds`.")
    return found
