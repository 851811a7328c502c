"""Loops compiled by numba: recursions and sums that NumPy cannot express at once.

A compiled function calls only functions of its own file, and those are inlined: numba's cache does not see a change of another
file, and a function that is called separately rounds otherwise in the process that compiles it than in those that load it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Function = TypeVar("Function", bound=Callable[..., object])

# All of numba's fast arithmetic, but for the two that assume that no number is NaN or infinite.
_FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}


def compiled(function: Function) -> Function:
    """Compile a function at its first call and keep the result beside its source."""
    return _compile(function, inline="never")


def inlined(function: Function) -> Function:
    """Compile a function into those of its file that call it, and for calls from Python as `compiled` does."""
    return _compile(function, inline="always")


def _compile(function: Function, inline: str) -> Function:
    options: dict[str, Any] = {"inline": inline, "nogil": True, "fastmath": _FAST, "error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError as error:  # numba finds no folder that it may write
        logging.getLogger(__name__).info("Each process compiles %s itself: %s", function.__name__, error)
        return cast(Function, numba.njit(**options)(function))


def as_floats(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return values as contiguous float64 that may be written to, so that a loop is compiled for one type."""
    return np.require(values, np.float64, ("C", "W"))
