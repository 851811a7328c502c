"""Names that are on their way out: they work as before and say what to use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(name: str, since: str, use: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """What is decorated warns whoever calls it.

    name   that people know it by
    since  the version that first warned; the next major one may leave it out
    use    what to call instead
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(f"{name} goes (since {since}); use {use}.", DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return mark
