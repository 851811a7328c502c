"""Small matrices multiply fastest on one thread: on a busy machine the threads of BLAS and OpenMP wait for each other
far longer than they work, and a result must not depend on how many there were."""

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
    import sklearn.cluster  # noqa: F401 (their thread pools must be loaded to be found)

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """BLAS and OpenMP at one thread inside the block."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """The same for torch, which keeps threads of its own."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def on_one_thread(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each computed on one thread; between them the caller has all of its threads."""
    while True:
        with one_thread():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
