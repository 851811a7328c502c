"""Fits and other work on a cluster of processes, with progress while they run.

    engine = get_engine()
    job = engine.submit(FitSpec("gdm", {"n_states": 4, "seed": 0}, trials), session="abc")
    job.poll()      # a JobView: status, step, ELBO and snapshots of the soft states so far, in the end the result

Names load when first used, so that a scheduler stays small.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "Bulk": "job",
    "BulkView": "job",
    "Engine": "engine",
    "EngineInfo": "engine",
    "FitResult": "results",
    "FitSpec": "spec",
    "Job": "job",
    "JobStatus": "job",
    "JobView": "job",
    "Priority": "job",
    "ResultCache": "cache",
    "Snapshot": "results",
    "call_key": "cache",
    "checkpoint": "worker",
    "get_engine": "engine",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"gdm_core.engine.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'gdm_core.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
