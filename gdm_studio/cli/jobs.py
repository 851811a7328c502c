"""What commands share that fit many models: how many processes do it, and the bar that says how far they are."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gdm_core.errors import ConfigError
from gdm_studio.cli.progress import Bar

if TYPE_CHECKING:
    from gdm_core.engine import Engine

START_S = 300.0  # until the processes stand: a busy machine takes its time


def add_jobs_option(parser: argparse.ArgumentParser, about: str = "worker processes") -> None:
    """How many processes."""
    parser.add_argument("--jobs", type=int, default=1, help=f"{about} (default: 1)")


def require_one(**counts: int) -> None:
    """Refuse a number below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count}; at least 1 is needed.")


@contextmanager
def working(label: str, total: int, jobs: int) -> Iterator[tuple[Engine | None, Callable[[int, int], None]]]:
    """An engine of so many processes, None for one, since that is this one; and what tells the bar how much is done."""
    require_one(jobs=jobs)
    bar = Bar(label, total)

    def told(done: int, _: int) -> None:
        bar.update(done)

    try:
        if jobs == 1:
            yield None, told
            return
        from gdm_core.engine import Engine

        os.environ["GDM_WORKERS"] = str(jobs)  # of the engine's own processes; a cluster of yours keeps its size
        with Engine() as engine:
            engine.wait_ready(START_S)
            yield engine, told
    finally:
        bar.close()
