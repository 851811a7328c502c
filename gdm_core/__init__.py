"""Soft states in time series: the Gumbel Dynamical Model and related models. Names are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gdm_core.models.registry import FAMILIES

__version__ = "0.2.0"

_HOME = (
    {name: module for module, name in FAMILIES.values()}
    | {
        "load_model": "gdm_core.models.loading",
        "Trial": "gdm_core.trials",
        "Trials": "gdm_core.trials",
        "evaluate": "gdm_core.analysis.metrics",
        "suggest": "gdm_core.verbs",
        "compare": "gdm_core.verbs",
        "sweep": "gdm_core.verbs",
        "LabelModel": "gdm_core.labels.model",
        "Study": "gdm_core.study.study",
    }
    | dict.fromkeys(("GdmError", "DataError", "ConfigError", "FitError", "ModelFileError"), "gdm_core.errors")
)

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gdm_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
