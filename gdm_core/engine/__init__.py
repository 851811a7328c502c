"""Fits and other work on a cluster of processes, with progress while they run.

    engine = get_engine()
    job = engine.submit(FitSpec("gdm", {"n_states": 4, "seed": 0}, trials), session="abc")
    job.poll()      # a JobView: status, step, ELBO and snapshots of the soft states so far, and finally the result

Names are imported on first use, which keeps the scheduler process small.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "cache": ("ResultCache", "call_key"),
    "engine": ("Engine", "EngineInfo", "get_engine"),
    "job": ("Bulk", "BulkView", "Job", "JobStatus", "JobView", "Priority"),
    "results": ("FitResult", "Snapshot"),
    "runner": ("LocalEngine",),
    "spec": ("FitSpec",),
    "worker": ("checkpoint",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"gdm_core.engine.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gdm_core.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
