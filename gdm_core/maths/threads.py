"""Limits on threads. Small matrices multiply fastest on one thread, and results must not depend on their number."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401
    import sklearn.cluster  # noqa: F401 (loads the thread pools)

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and, where it is loaded, torch to one thread inside the block."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 1
    with _controller().limit(limits=1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def on_one_thread(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, each computed on one thread, without a limit for the caller."""
    while True:
        with one_thread():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
