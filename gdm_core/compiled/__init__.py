"""Loops compiled by numba: recursions and sums that NumPy cannot express at once.

A compiled function calls only functions of its own file: numba's cache does not see a change of another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Function = TypeVar("Function", bound=Callable[..., object])

# All of numba's fast arithmetic, but for the two that assume that no number is NaN or infinite.
_FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}


def compiled(function: Function) -> Function:
    """Compile a function at its first call and keep the result beside its source."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")(function))
    except RuntimeError as error:  # numba finds no folder that it may write
        logging.getLogger(__name__).info("Each process compiles %s itself: %s", function.__name__, error)
        return cast(Function, numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(function))


def as_floats(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return values as contiguous float64 that may be written to, so that a loop is compiled for one type."""
    return np.require(values, np.float64, ("C", "W"))
