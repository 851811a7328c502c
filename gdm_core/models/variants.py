"""Variants of models for evaluation, labels and pages. Not part of the public API."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar

from gdm_core.arrays import Array
from gdm_core.errors import ConfigError
from gdm_core.maths.factor import FactorModel
from gdm_core.models.progress import Status
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trial, Trials

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Fitted = TypeVar("Fitted", bound="StateModel")


def infer_quickly(model: StateModel, trial: Trial) -> Array:
    """Return soft states [T, K], less exact and faster than `predict_proba` where the family can."""
    return model._each(trial, model._rough_states)


def with_parameters(model: Fitted, **changes: Any) -> Fitted:
    """Return a fitted model that infers states with other parameters, without another fit."""
    model._require_fitted()
    if refused := sorted(set(changes) - model.adjustable):
        known = ", ".join(sorted(model.adjustable)) or "none"
        raise ConfigError(
            f"A fitted {type(model).__name__} cannot change {', '.join(refused)} (only: {known}). Fit a new model."
        )
    changed = copy.copy(model)
    changed._fitted_config = dataclasses.replace(model.config, **changes)
    changed._follow_config()
    return changed


def make_untrained(model: Fitted, trials: Trials, seed: int = 0) -> Fitted | None:
    """Return a model with the same configuration and random parameters; None if its family has no such control.

    trials   determine the scale of the control
    """
    config = model.config
    if "readout" in model.adjustable:
        config = dataclasses.replace(config, readout="amortised")
    control = model._from_config(config)
    control._fitted_config = config
    control.repeats_ = model.repeats_
    fitted = control._as_fitted(trials)
    control.scaler_ = Scaler.from_trials(fitted)
    ys = [control.scaler_.apply(trial.y) for trial in fitted]
    control.factors_ = FactorModel.fit(ys, config.n_latent)
    control._set_random_parameters(ys, seed)
    control.status_ = Status.CANCELLED
    return control if control.params_ else None


def format_call(model: StateModel, without: Collection[str] = ()) -> str:
    """Return the call that makes an equal model, on one line: `GDM(n_states=3)`."""
    default = vars(model.config_class())
    given = {name: value for name, value in vars(model.config).items() if value != default[name]}
    return f"{type(model).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items() if name not in without)})"
