"""Fits and other work on a cluster of processes, with live progress. Nothing here loads torch into the server.

    engine = get_engine()
    job = engine.submit(FitRequest("gdm", {"n_states": 4, "seed": 0}, trials), session="abc")
    job.poll()      # a JobView: status, step, ELBO so far, a snapshot of the soft states, in the end the result

Names load when first used, so that a scheduler which only passes messages stays small.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Bulk": "gdm_core.engine.jobs",
    "BulkView": "gdm_core.engine.jobs",
    "Engine": "gdm_core.engine.engine",
    "EngineInfo": "gdm_core.engine.engine",
    "FitRequest": "gdm_core.engine.messages",
    "FitResult": "gdm_core.engine.messages",
    "Job": "gdm_core.engine.jobs",
    "JobStatus": "gdm_core.engine.messages",
    "JobView": "gdm_core.engine.messages",
    "QueueFull": "gdm_core.engine.messages",
    "ResultCache": "gdm_core.engine.cache",
    "Snapshot": "gdm_core.engine.messages",
    "call_key": "gdm_core.engine.cache",
    "checkpoint": "gdm_core.engine.control",
    "get_engine": "gdm_core.engine.engine",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gdm_core.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
