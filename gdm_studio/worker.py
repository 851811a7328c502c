"""Preload script that lets Dask workers import `datasets`.

Start workers with `dask worker ADDRESS --nthreads 1 --preload gdm_studio.worker`.
"""

from __future__ import annotations

from typing import Any

from gdm_studio.paths import find_app_code


def dask_setup(_: Any) -> None:
    """Set the import path of a new worker."""
    find_app_code()
