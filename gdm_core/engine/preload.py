"""Loaded by Dask in each worker before it takes jobs: `dask worker --preload gdm_core.engine.preload`.

It loads torch and the models, which the first job would otherwise wait for.
"""

from __future__ import annotations

from typing import Any

from gdm_core.engine.worker import warm_up


def dask_setup(_: Any) -> None:
    """Dask calls this with the worker that is about to start."""
    warm_up()
