"""Limits on threads. Small matrices multiply fastest on one thread, and results must not depend on their number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401
    import sklearn.cluster  # noqa: F401 (loads the thread pools)

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Limit BLAS and OpenMP to one thread inside the block."""
    return _controller().limit(limits=1)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
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
