"""For workers of a cluster of your own: `dask worker ADDRESS --nthreads 1 --preload gdm_studio.worker`.

Lets a worker import the loaders by the name that the dashboard knows them by, and loads the models before the first fit.
"""

from __future__ import annotations

from typing import Any

from gdm_studio.paths import find_app_code


def dask_setup(server: Any) -> None:
    """Dask calls this with the worker that has just started."""
    from distributed import Worker

    find_app_code()
    if isinstance(server, Worker):
        from gdm_core.engine.worker import warm_up

        warm_up()
