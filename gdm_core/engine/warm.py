"""Importing this loads all that a worker needs. Dask's part of it and ours."""

import distributed  # noqa: F401

from gdm_core.engine.worker import warm_up

warm_up()
