"""The one thread that talks to the cluster: sends jobs out in turn, passes orders on, takes results in.

All of its state belongs to that thread. Others put a word in its inbox and go on.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Future, KilledWorker
from distributed.comm import CommClosedError

from gdm_core.engine.cache import ResultCache
from gdm_core.engine.cluster import ALLOWED_DEATHS, Link, connect
from gdm_core.engine.control import ENDED, end_if_stopped, end_topic, kill_worker, set_control
from gdm_core.engine.jobs import FairQueue, Job
from gdm_core.engine.messages import FitRequest, JobStatus
from gdm_core.engine.sent_jobs import DataCache, SentJob, launch
from gdm_core.engine.worker import Outcome
from gdm_core.errors import ConfigError, FitError

logger = logging.getLogger(__name__)

TICK_S = 0.2
# Workers take every processor while they start. A page that opens with a finished result reaches its reader before.
START_AFTER_S = 2.0
# A job that is lost under way is started this often at most.
MAX_STARTS = 1 + ALLOWED_DEATHS
# Jobs wait for a cluster that was lost to come back, or for a new one, before they fail.
RETURN_LIMIT_S = 60.0
# A cluster without a worker for this long is let go, and asked for anew.
NO_WORKER_LIMIT_S = 60.0
ORDER_LIMIT_S = 30.0
FETCH_LIMIT_S = 30.0
CANCEL_LIMIT_S = 30.0
LINK_ERRORS = (OSError, TimeoutError, CommClosedError)
# What a result that has gone with its worker comes to; Dask's own cancellation is a CancelledError.
LOST_ERRORS = (*LINK_ERRORS, CancelledError, asyncio.CancelledError)
TOO_BIG = (
    "The worker died each time the job ran, most likely because it needs more memory than a worker has. Use less data or "
    "a smaller model, or give workers more memory (docs/performance.md)."
)


class Dispatcher:
    """Runs from construction to `close`."""

    def __init__(self, waiting: FairQueue, cache: ResultCache) -> None:
        self.ready = threading.Event()
        self.trouble: FitError | ConfigError | None = None
        self._waiting, self._cache = waiting, cache
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()  # to be done; None: leave
        self._runs: dict[str, Job] = {}  # jobs by the name of their latest try
        self._sent: dict[str, SentJob] = {}
        self._data_cache = DataCache()
        self._link: Link | None = None
        self._lost_since: float | None = None
        self._worker_seen = 0.0
        self._asked_to_end: dict[str, float] = {}
        self._senders = ThreadPoolExecutor(4, thread_name_prefix="gdm-send")
        # Apart from the senders, which may wait for a dead worker to answer.
        self._fetchers = ThreadPoolExecutor(2, thread_name_prefix="gdm-fetch")
        self._thread = threading.Thread(target=self._run, name="gdm-dispatcher", daemon=True)
        self._thread.start()

    # ---- for other threads --------------------------------------------------------------------------------------
    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wake(self) -> None:
        self._inbox.put(lambda: None)

    def orders_changed(self, job: Job) -> None:
        self._inbox.put(partial(self._send_orders, job))

    def forget(self, session: str) -> None:
        if self._link is not None:  # without a cluster there is nothing on it, and no need of one
            self._inbox.put(partial(self._data_cache.forget, session))

    def workers(self) -> dict[str, int]:
        """Threads of each worker as last heard."""
        link = self._link
        return {} if link is None else dict(link.threads)

    def sent_jobs(self) -> tuple[str, ...]:
        """Jobs that the cluster has not given back yet."""
        return tuple(self._sent)

    def close(self, timeout: float = 20.0) -> None:
        self._inbox.put(None)
        self._thread.join(timeout)

    # ---- the thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            with suppress(queue.Empty):  # until the first job, or a little while without one
                first = self._inbox.get(timeout=START_AFTER_S)
                if first is None:
                    return
                self._inbox.put(first)
            self._connect()
            while self._run_once():
                pass
        finally:
            self._shut_down()

    def _run_once(self) -> bool:
        """What has come in, then what is to be done; False once told to stop."""
        try:
            if not self._read_inbox():
                return False
            self._check_cluster()
        except LINK_ERRORS as error:
            self._drop_link(f"The connection to the cluster broke ({error}).")
        return True

    def _shut_down(self) -> None:
        """Fail what is not done, stop what runs on workers that live on without us, and let the cluster go."""
        gone = FitError("The engine was closed before the job was done. Start it again.")
        for job in [*self._waiting.close(), *(sent.job for sent in self._sent.values())]:
            job.fail(gone)
        link = self._link
        if link is not None:
            if link.cluster is None and link.alive and self._sent:
                quietly(partial(link.client.run, end_topic, link.topic, on_error="ignore"))
            quietly(link.close)
        self._senders.shutdown(wait=False, cancel_futures=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)

    def _read_inbox(self) -> bool:
        """Handle what has come in, waiting a little for the first; False once told to stop."""
        with suppress(queue.Empty):
            todo = self._inbox.get(timeout=TICK_S)
            while todo is not None:
                todo()
                todo = self._inbox.get_nowait()
            return False
        return True

    def _check_cluster(self) -> None:
        if self._link is not None and not self._link.alive:
            self._drop_link("The scheduler went away.")
        if self._link is None and (len(self._waiting) or self._lost_since is not None):
            self._connect()
        if self._link is not None and self._link.look():
            self._handle_lost_workers(self._link)
        if self._link is not None:
            self._send_out(self._link)
            self._end_stuck_jobs(self._link)

    # ---- the connection -----------------------------------------------------------------------------------------
    def _connect(self) -> None:
        try:
            self._link = connect(self._on_event)
        except (FitError, ConfigError) as error:
            self.trouble = error
            if self._lost_since is not None and time.monotonic() - self._lost_since < RETURN_LIMIT_S:
                return  # a cluster that was there may come back: jobs wait, and the next look around tries again
            self._lost_since = None
            while waiting := self._waiting.drain():  # a bulk job puts in what comes next as each of its calls fails
                for job in waiting:
                    job.fail(error)
        else:
            self.trouble = self._lost_since = None
            self._worker_seen = time.monotonic()
        self.ready.set()

    def _drop_link(self, why: str) -> None:
        """Let a broken connection go; what was out is sent again over the next one."""
        logger.warning("%s Jobs that were out are started again.", why)
        link, self._link = self._link, None
        self._lost_since = time.monotonic()
        sent_jobs, self._sent = list(self._sent.values()), {}
        self._data_cache = DataCache()
        for sent in sent_jobs:
            self._requeue(sent.job, why, begun=sent.worker_known)
        if link is not None:
            link.end_processes()
            self._senders.submit(quietly, link.close)

    def _requeue(self, job: Job, why: str, begun: bool = True, last: str = "") -> None:
        """Put a job back at the head of the queue. One that had `begun` too often fails instead, with `last`."""
        self._runs.pop(job.run, None)
        job.lost += begun
        if job.poll().status.final:
            return
        if job.lost >= MAX_STARTS:
            last = last or f"{why} The job was started {job.lost} times and never finished. Try again later."
            job.fail(FitError(last))
        else:
            job.requeue(f"{why} {'The job was started again.' if begun else 'The job was sent to another one.'}")
            self._waiting.add(job, again=True)

    def _on_event(self, event: Mapping[str, Any]) -> None:
        """On a Dask thread: a picture must not wait for the dispatcher."""
        job = self._runs.get(event["run"])
        if job is not None:
            job.apply(event)
            if event["kind"] != "progress":
                self._inbox.put(partial(self._on_job_event, job, event))
        elif event["kind"] == "started":
            self._inbox.put(partial(self._end_stray, event["run"], event["worker"]))

    # ---- sending out --------------------------------------------------------------------------------------------
    def _send_out(self, link: Link) -> None:
        if not (len(self._waiting) or self._sent):
            return
        capacity = link.capacity()
        while self._n_active() < capacity and self._launch_next(link, bulk=False):
            pass
        now = time.monotonic()
        late = sum(not sent.job.bulk and sent.late(now) for sent in self._sent.values())
        self._make_room(capacity, late)
        if late or self._waiting.watched_waiting():
            return
        for sent in self._sent.values():
            if self._n_active() >= capacity:
                return
            if sent.held and sent.job.orders.give_way:
                if not sent.job.orders.paused(sent.job.poll().step):
                    sent.count_as_running(now)
                sent.job.give_way(False)
        while self._n_active() < capacity and self._launch_next(link, bulk=True):
            pass

    def _n_active(self) -> int:
        there = self.workers()
        return sum(sent.takes_a_thread and sent.worker in there for sent in self._sent.values())

    def _make_room(self, capacity: int, late: int) -> None:
        """Ask as many bulk jobs to stand aside as there are watched ones without a worker.

        `late` of them were sent to one and have not begun there: Dask may have put a bulk job before them.
        """
        active = [sent for sent in self._sent.values() if sent.takes_a_thread]
        bulk = [sent for sent in active if sent.job.bulk]
        asked = sum(sent.job.orders.give_way for sent in bulk)
        missing = len(active) + late + self._waiting.watched_waiting() - capacity - asked
        for sent in bulk:
            if missing <= 0:
                return
            if not sent.job.orders.give_way:
                sent.job.give_way(True)
                missing -= 1

    def _launch_next(self, link: Link, bulk: bool) -> bool:
        job = self._waiting.take([sent.job for sent in self._sent.values()], bulk)
        if job is None:
            return False
        busy = [sent.worker for sent in self._sent.values() if sent.takes_a_thread]
        job.dispatches += 1
        self._runs[job.run] = job
        try:
            sent = launch(job, link, self._data_cache, link.free_worker(busy))
        except LINK_ERRORS as error:
            self._requeue(job, f"The connection to the cluster broke ({error}).")
            raise
        except (TypeError, ValueError, AttributeError) as error:
            # What pickle says of functions and arguments that cannot travel.
            self._runs.pop(job.run, None)
            job.fail(FitError(f"The job cannot be sent to a worker ({error}). Give it a function of a module."))
            return True
        self._sent[job.id] = sent
        ended = partial(self._fetch, job, job.run)
        sent.future.add_done_callback(lambda _: self._inbox.put(ended))
        return True

    # ---- under way ----------------------------------------------------------------------------------------------
    def _on_job_event(self, job: Job, event: Mapping[str, Any]) -> None:
        sent = self._sent.get(job.id)
        if sent is None:
            return
        if sent.follow(event, time.monotonic()):
            job.lost += 1
            job.note("The worker that ran it stopped. The job was started again.")
        if event["kind"] == "started" and event["version"] != job.orders.version:
            self._send_orders(job)

    def _send_orders(self, job: Job) -> None:
        """Orders go straight into the worker's memory; one that has not started hears them when it has."""
        sent = self._sent.get(job.id)
        if sent is None or not sent.worker_known or self._link is None:
            return
        sent.orders_sent_at = time.monotonic()
        self._run_at_worker(self._link, sent.worker, partial(set_control, job.run, job.orders))

    def _end_stray(self, run: str, worker: str) -> None:
        """A try that was given up may go on, or begin after all: it would take that worker from others."""
        if self._link is not None:
            self._run_at_worker(self._link, worker, partial(set_control, run, ENDED))

    def _handle_lost_workers(self, link: Link) -> None:
        """Deal with workers that have gone or been stopped, and with the jobs that wait for them.

        Dask starts a job anew elsewhere when its worker dies. But where no other worker runs at that moment, it keeps the
        job for the one that is gone, for good, although any worker was allowed: such a job is taken back and sent again.
        """
        now = time.monotonic()
        if link.threads:
            self._worker_seen = now
        elif now - self._worker_seen > NO_WORKER_LIMIT_S:
            self._drop_link(f"The cluster has had no worker for {NO_WORKER_LIMIT_S:g} s.")
            return
        self._asked_to_end = {worker: since for worker, since in self._asked_to_end.items() if worker in link.silent}
        for worker in link.silent:
            if now - self._asked_to_end.get(worker, -ORDER_LIMIT_S) >= ORDER_LIMIT_S:
                self._asked_to_end[worker] = now
                self._run_at_worker(link, worker, end_if_stopped, nanny=True)
        away = [sent for sent in self._sent.values() if not sent.ended and sent.worker not in link.threads]
        if not (away and link.threads):
            return
        taken_up = link.taken_up()
        for sent in away:
            stands = not sent.worker_known and sent.worker in link.silent
            if stands or sent.lost(sent.future.key not in taken_up):
                self._take_back(sent)

    def _take_back(self, sent: SentJob) -> None:
        self._senders.submit(quietly, sent.future.cancel)
        del self._sent[sent.job.id]
        if sent.worker_known:
            self._requeue(sent.job, "The worker that ran it stopped.", last=TOO_BIG)
        else:
            self._requeue(sent.job, "The worker that was to take it stopped.", begun=False)

    def _run_at_worker(self, link: Link, worker: str, order: Callable[..., Any], nanny: bool = False) -> None:
        """Have `order` run in a worker's process, or in its nanny's, when somebody has time to ask for it."""
        ask = partial(link.client.run, order, workers=[worker], nanny=nanny, on_error="ignore")
        self._senders.submit(quietly, partial(ask, callback_timeout=ORDER_LIMIT_S))

    def _end_stuck_jobs(self, link: Link) -> None:
        """Deal with jobs that no longer answer."""
        now = time.monotonic()
        for sent in list(self._sent.values()):
            if sent.missed_orders(now):
                self._send_orders(sent.job)
            if sent.deaf and sent.worker in link.threads:
                logger.warning(
                    "Job %s on %s stands, although it is told to go on. It is started again.", sent.job.run, sent.worker
                )
                self._end_stray(sent.job.run, sent.worker)
                self._take_back(sent)
                continue
            if not (why := sent.why_stuck(now, sent.worker in link.threads or sent.worker in link.silent)):
                continue
            self._sent.pop(sent.job.id)
            self._runs.pop(sent.job.run, None)
            sent.job.fail(FitError(why))
            self._senders.submit(quietly, partial(end_by_force, link, sent))

    # ---- taking in ----------------------------------------------------------------------------------------------
    def _fetch(self, job: Job, run: str) -> None:
        """Have the outcome brought. That may take a while, or fail, when its worker has died since."""
        sent = self._sent.get(job.id)
        if sent is None or job.run != run:
            return  # of an earlier try, or dealt with already
        if sent.future.status not in ("finished", "error"):
            self._requeue_sent(job, "The cluster lost the job.")
            return
        sent.ended = True
        fetching = self._fetchers.submit(fetch_outcome, sent.future)
        fetching.add_done_callback(lambda brought: self._inbox.put(partial(self._on_fetched, job, run, brought)))

    def _on_fetched(self, job: Job, run: str, brought: ThreadFuture[Outcome | BaseException]) -> None:
        if job.id not in self._sent or job.run != run:
            return
        if brought.cancelled():
            return  # the engine is leaving
        lost = brought.exception()
        outcome = brought.result() if lost is None else lost
        if isinstance(lost, LOST_ERRORS):
            self._requeue_sent(job, f"The result was lost with its worker ({lost}).")
        elif isinstance(outcome, LINK_ERRORS) and type(outcome).__module__.startswith("distributed"):
            self._requeue_sent(job, f"A worker could not be reached ({outcome}).")
        elif isinstance(outcome, KilledWorker) and outcome.task != self._sent[job.id].future.key:
            # Too many workers died that had not it, but its data at hand.
            self._requeue_sent(job, "The workers that had its data stopped.", last=TOO_BIG)
        else:
            self._finish(job, outcome)
            self._runs.pop(job.run, None)
            del self._sent[job.id]

    def _finish(self, job: Job, outcome: Outcome | BaseException) -> None:
        """End a job whose work came back, for better or worse."""
        if isinstance(outcome, BaseException):  # what the library does not raise on purpose
            said = f"The job ended with an unexpected {type(outcome).__name__}: {outcome}"
            failure = FitError(TOO_BIG if isinstance(outcome, KilledWorker) else said)
            failure.__cause__ = outcome
            outcome = JobStatus.FAILED, failure
        found: Any
        status, found = outcome
        if status is JobStatus.FAILED:
            job.fail(found)
        elif status is JobStatus.CANCELLED:
            job.cancel()
        else:
            note = ""
            if isinstance(job.work, FitRequest):
                note = self._cache.put(found) if job.work.use_cache else ""
            elif job.work.cache_key is not None:
                note = self._cache.put_value(job.work.cache_key, found)
            if note:
                job.note(note)
            job.succeed(found)

    def _requeue_sent(self, job: Job, why: str, last: str = "") -> None:
        self._requeue(job, why, last=last)
        del self._sent[job.id]


# ---- calls that may wait, or find nobody: on threads of their own ------------------------------------------------------
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
