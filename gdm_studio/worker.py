"""For workers of a cluster of your own: `dask worker ADDRESS --nthreads 1 --preload gdm_studio.worker`.

Lets a worker import the loaders by the name that the dashboard knows them by.
"""

from __future__ import annotations

from typing import Any

from gdm_studio.paths import find_app_code


def dask_setup(_: Any) -> None:
    """Set the import path of a worker that has just started."""
    find_app_code()
