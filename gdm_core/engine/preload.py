"""Importing this loads all that a worker needs, Dask's part of it and ours, so that no first job waits for torch.

The process that embedded workers are copies of imports it, and so does every worker, since Dask is told to load it first
(`dask worker --preload gdm_core.engine.preload`).
"""

import distributed  # noqa: F401

from gdm_core.engine.worker import warm_up

warm_up()
