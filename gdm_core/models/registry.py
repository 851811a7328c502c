"""Registry of models: families by their names in files, and named configurations of them."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from gdm_core.errors import ConfigError

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

# family name in saved files -> (module, class)
FAMILIES: dict[str, tuple[str, str]] = {
    "gdm": ("gdm_core.models.gdm.model", "GDM"),
    "slds": ("gdm_core.models.switching.slds", "SLDS"),
    "arhmm": ("gdm_core.models.switching.arhmm", "ARHMM"),
    "pdlds": ("gdm_core.models.pdlds.model", "PDLDS"),
    "gdm_mixture": ("gdm_core.models.mixture.model", "GDMMixture"),
}

# Parameters that a fitted model may change; known without importing a family, and with it torch.
ADJUSTABLE: dict[str, frozenset[str]] = {
    "gdm": frozenset({"temperature", "stickiness", "readout"}),
    "gdm_mixture": frozenset({"temperature", "stickiness"}),
}


def import_family(family: str) -> type[StateModel]:
    """Import the class of a family."""
    module, name = FAMILIES[family]
    return getattr(import_module(module), name)


# name -> (family, parameters, title)
_MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "gdm": ("gdm", {}, "Gumbel Dynamical Model"),
    "gdm-paper": ("gdm", {"preset": "paper"}, "GDM as in the paper"),
    "gdm-linear": ("gdm", {"posterior": "linear"}, "GDM with states by position"),
    "gdm-network": ("gdm", {"transition": "network"}, "GDM with network transitions"),
    "gdm-rnn": ("gdm", {"transition": "gru"}, "GDM with memory (GRU)"),
    "gdm-mixture": ("gdm_mixture", {}, "GDM, three levels"),
    "slds-sticky": ("slds", {"transitions": "sticky"}, "Sticky SLDS"),
    "rslds-sticky": ("slds", {"transitions": "recurrent"}, "Recurrent SLDS (sticky)"),
    "rslds-ro": ("slds", {"transitions": "recurrent_only"}, "Recurrent SLDS"),
    "arhmm": ("arhmm", {}, "AR-HMM"),
    "arhmm-sticky": ("arhmm", {"transitions": "sticky"}, "Sticky AR-HMM"),
    "arhmm-ro": ("arhmm", {"transitions": "recurrent_only"}, "Recurrent AR-HMM"),
    "pdlds": ("pdlds", {}, "Decomposed LDS (p-dLDS)"),
}
NAMED_MODELS = {name: (family, parameters) for name, (family, parameters, _) in _MODELS.items()}
TITLES = {name: title for name, (_, _, title) in _MODELS.items()}


def available() -> tuple[str, ...]:
    """Return the names of all models."""
    return tuple(NAMED_MODELS)


def build(name: str, n_states: int, n_latent: int | Literal["auto"], seed: int = 0, **changes: Any) -> StateModel:
    """Create an unfitted model; `changes` are further parameters of its family."""
    if name not in available():
        raise ConfigError(f"There is no model {name!r}; choose one of {', '.join(available())}.")
    family, options = NAMED_MODELS[name]
    kind = import_family(family)
    known = {field.name for field in fields(kind.config_class)}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise ConfigError(
            f"The model {name!r} has no parameter {', '.join(unknown)}; it knows {', '.join(sorted(known))}."
        )
    parameters: dict[str, Any] = {"n_states": n_states, "n_latent": n_latent, "seed": seed} | options | changes
    model = kind(**parameters)
    _ = model.config  # raises ConfigError for a value that is not allowed
    return model
