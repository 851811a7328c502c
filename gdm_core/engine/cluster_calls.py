"""Calls to the cluster that may wait, or find nobody: made on threads of their own, not by the dispatcher."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from distributed import Future
from distributed.comm import CommClosedError

from gdm_core.engine.cluster import Link
from gdm_core.engine.control import kill_worker
from gdm_core.engine.sent_jobs import SentJob
from gdm_core.engine.worker import Outcome

logger = logging.getLogger(__name__)

LINK_ERRORS = (OSError, TimeoutError, CommClosedError)
# What a result that has gone with its worker comes to; Dask's own cancellation is a CancelledError.
LOST_ERRORS = (*LINK_ERRORS, CancelledError, asyncio.CancelledError)
FETCH_LIMIT_S = 30.0
CANCEL_LIMIT_S = 30.0


def fetch_outcome(future: Future) -> Outcome | BaseException:
    """What the worker sent back, or what the job raised there. Raises one of LOST_ERRORS when there is nothing to be had."""
    if future.status == "error":
        raised: BaseException = future.exception(timeout=FETCH_LIMIT_S)
        return raised
    outcome: Outcome = future.result(timeout=FETCH_LIMIT_S)
    return outcome


def end_by_force(link: Link, sent: SentJob) -> None:
    """Only a new process ends work that does not look up.

    The scheduler must have let go of it by then: it would start it anew on another worker, which would stand as well.
    """
    sent.future.cancel()
    if not sent.worker_known:
        return
    end = time.monotonic() + CANCEL_LIMIT_S
    try:
        while sent.future.key in link.taken_up() and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        link.client.run(kill_worker, workers=[sent.worker], nanny=True, on_error="ignore")


def quietly(send: Callable[[], Any]) -> None:
    """A message that no longer finds its worker is not worth more than a line in the log."""
    try:
        send()
    except (*LINK_ERRORS, ValueError, RuntimeError) as error:
        logger.info("A message to the cluster was not delivered: %s", error)
