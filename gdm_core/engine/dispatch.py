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
from concurrent.futures import Future as Errand
from functools import partial
from typing import Any

from distributed import Client, Future
from distributed.comm import CommClosedError

from gdm_core.engine.cache import ResultCache
from gdm_core.engine.cluster import Link, connect
from gdm_core.engine.control import end_topic, kill_worker, set_control
from gdm_core.engine.flights import Flight, launch
from gdm_core.engine.jobs import Job
from gdm_core.engine.outcomes import explained, settle
from gdm_core.engine.shelf import Shelf
from gdm_core.engine.turns import FairQueue
from gdm_core.engine.worker import Outcome
from gdm_core.errors import ConfigError, FitError

logger = logging.getLogger(__name__)

TICK_S = 0.2
# Workers take every processor while they start. A page that opens with a finished result reaches its reader before.
START_AFTER_S = 2.0
# A job whose worker or scheduler went away is sent out this often at most.
MAX_DISPATCHES = 3
LINK_ERRORS = (OSError, TimeoutError, CommClosedError)
# What a result that has gone with its worker comes to; Dask's own cancellation is a CancelledError.
LOST_ERRORS = (*LINK_ERRORS, CancelledError, asyncio.CancelledError)
FETCH_LIMIT_S = 30.0


class Dispatcher:
    """Runs from construction to `close`."""

    def __init__(self, turns: FairQueue, cache: ResultCache) -> None:
        self.ready = threading.Event()
        self.trouble: FitError | ConfigError | None = None
        self._turns, self._cache = turns, cache
        self._inbox: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._jobs: dict[str, Job] = {}
        self._flights: dict[str, Flight] = {}
        self._shelf = Shelf()
        self._link: Link | None = None
        self._couriers = ThreadPoolExecutor(4, thread_name_prefix="gdm-courier")
        # Apart from the couriers, who may wait for a dead worker to answer.
        self._porters = ThreadPoolExecutor(2, thread_name_prefix="gdm-porter")
        self._thread = threading.Thread(target=self._run, name="gdm-dispatcher", daemon=True)
        self._thread.start()

    # ---- for other threads --------------------------------------------------------------------------------------
    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wake(self) -> None:
        self._inbox.put(("wake", None, None))

    def orders_changed(self, job: Job) -> None:
        self._inbox.put(("orders", job, None))

    def forget(self, session: str) -> None:
        self._inbox.put(("forget", session, None))

    def workers(self) -> dict[str, int]:
        """Threads of each worker as last heard."""
        link = self._link
        return {} if link is None else dict(link.threads)

    def out(self) -> tuple[str, ...]:
        """Jobs that the cluster has not given back yet."""
        return tuple(self._flights)

    def close(self, timeout: float = 20.0) -> None:
        self._inbox.put(("stop", None, None))
        self._thread.join(timeout)

    # ---- the thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            if not self._wait_for_need():
                return
            self._connect()
            while self._go_round():
                pass
        finally:
            self._leave()

    def _go_round(self) -> bool:
        """What has come in, then what is to be done; False once told to stop."""
        try:
            if not self._read_inbox():
                return False
            self._look_around()
        except LINK_ERRORS as error:
            self._drop_link(f"The connection to the cluster broke ({error}).")
        return True

    def _wait_for_need(self) -> bool:
        """Until the first job, or a little while without one; False once told to stop."""
        end = time.monotonic() + START_AFTER_S
        while (left := end - time.monotonic()) > 0:
            try:
                message = self._inbox.get(timeout=left)
            except queue.Empty:
                break
            if message[0] != "forget":
                self._inbox.put(message)
                return message[0] != "stop"
        return True

    def _leave(self) -> None:
        """Fail what is not done, stop what runs on workers that live on without us, and let the cluster go."""
        gone = FitError("The engine was closed before the job was done. Start it again.")
        for job in [*self._turns.close(), *(flight.job for flight in self._flights.values())]:
            job.fail(gone)
        link = self._link
        if link is not None:
            if link.cluster is None and link.alive and self._flights:
                _quietly(partial(link.client.run, end_topic, link.topic, on_error="ignore"))
            _quietly(link.close)
        self._couriers.shutdown(wait=False, cancel_futures=True)
        self._porters.shutdown(wait=False, cancel_futures=True)

    def _read_inbox(self) -> bool:
        """Handle what has come in, waiting a little for the first; False once told to stop."""
        try:
            message = self._inbox.get(timeout=TICK_S)
            while True:
                kind, what, content = message
                if kind == "stop":
                    return False
                if kind == "orders":
                    self._pass_on(what)
                elif kind == "forget":
                    self._shelf.forget(what)
                elif kind == "event":
                    self._hear(what, content)
                elif kind == "ended":
                    self._fetch(what, content)
                elif kind == "fetched":
                    self._land(what, *content)
                message = self._inbox.get_nowait()
        except queue.Empty:
            return True

    def _look_around(self) -> None:
        if self._link is not None and not self._link.alive:
            self._drop_link("The scheduler went away.")
        if self._link is None and len(self._turns):
            self._connect()
        if self._link is not None:
            self._send_out(self._link)
            self._watch(self._link)

    # ---- the connection -----------------------------------------------------------------------------------------
    def _connect(self) -> None:
        try:
            self._link = connect(self._on_event)
        except (FitError, ConfigError) as error:
            self.trouble = error
            while waiting := self._turns.drain():  # a bulk job puts in what comes next as each of its calls fails
                for job in waiting:
                    job.fail(error)
        else:
            self.trouble = None
        self.ready.set()

    def _drop_link(self, why: str) -> None:
        """Let a broken connection go; what was out is sent again over the next one."""
        logger.warning("%s Jobs that were out are started again.", why)
        link, self._link = self._link, None
        flights, self._flights = list(self._flights.values()), {}
        self._shelf.clear()
        for flight in flights:
            self._again(flight.job, why)
        if link is not None:
            self._couriers.submit(_quietly, link.close)

    def _again(self, job: Job, why: str) -> None:
        if job.poll().status.final:
            self._jobs.pop(job.id, None)
        elif job.dispatches >= MAX_DISPATCHES:
            self._jobs.pop(job.id, None)
            job.fail(FitError(f"{why} The job was started {job.dispatches} times and never finished. Try again later."))
        else:
            job.requeue(f"{why} The job was started again.")
            self._turns.add(job, again=True)

    def _on_event(self, event: Mapping[str, Any]) -> None:
        """On a Dask thread: a picture must not wait for the dispatcher."""
        job = self._jobs.get(event["job"])
        if job is not None:
            job.apply(event)
            if event["kind"] != "progress":
                self._inbox.put(("event", job, event))

    # ---- sending out --------------------------------------------------------------------------------------------
    def _send_out(self, link: Link) -> None:
        if not (len(self._turns) or self._flights):
            return
        capacity = link.capacity()
        while self._n_active() < capacity and self._launch_next(link, bulk=False):
            pass
        now = time.monotonic()
        late = sum(not flight.job.bulk and flight.late(now) for flight in self._flights.values())
        self._make_room(capacity, late)
        if late or self._turns.watched_waiting():
            return
        for flight in self._flights.values():
            if self._n_active() >= capacity:
                return
            if flight.held and flight.job.orders.give_way:
                if not flight.job.orders.paused(flight.job.poll().step):
                    flight.come_back(now)
                flight.job.give_way(False)
        while self._n_active() < capacity and self._launch_next(link, bulk=True):
            pass

    def _n_active(self) -> int:
        return sum(not flight.held for flight in self._flights.values())

    def _make_room(self, capacity: int, late: int) -> None:
        """Ask as many bulk jobs to stand aside as there are watched ones without a worker.

        `late` of them were sent to one and have not begun there: Dask may have put a bulk job before them.
        """
        active = [flight for flight in self._flights.values() if not flight.held]
        bulk = [flight for flight in active if flight.job.bulk]
        asked = sum(flight.job.orders.give_way for flight in bulk)
        missing = len(active) + late + self._turns.watched_waiting() - capacity - asked
        for flight in bulk:
            if missing <= 0:
                return
            if not flight.job.orders.give_way:
                flight.job.give_way(True)
                missing -= 1

    def _launch_next(self, link: Link, bulk: bool) -> bool:
        job = self._turns.take([flight.job for flight in self._flights.values()], bulk)
        if job is None:
            return False
        busy = [flight.worker for flight in self._flights.values() if not flight.held]
        self._jobs[job.id] = job
        try:
            flight = launch(job, link, self._shelf, link.free_worker(busy))
        except LINK_ERRORS as error:
            self._again(job, f"The job could not be sent ({error}).")
            raise
        except (TypeError, ValueError, AttributeError) as error:
            # What pickle says of functions and arguments that cannot travel.
            self._jobs.pop(job.id, None)
            job.fail(FitError(f"The job cannot be sent to a worker ({error}). Give it a function of a module."))
            return True
        self._flights[job.id] = flight
        number = job.dispatches
        flight.future.add_done_callback(lambda _: self._inbox.put(("ended", job, number)))
        return True

    # ---- under way ----------------------------------------------------------------------------------------------
    def _hear(self, job: Job, event: Mapping[str, Any]) -> None:
        flight = self._flights.get(job.id)
        if flight is None:
            return
        flight.hear(event, time.monotonic())
        if event["kind"] == "started" and event["version"] != job.orders.version:
            self._pass_on(job)

    def _pass_on(self, job: Job) -> None:
        """Orders go straight into the worker's memory; one that has not started hears them when it has."""
        flight = self._flights.get(job.id)
        if flight is None or not flight.worker_known or self._link is None:
            return
        order = partial(set_control, job.id, job.orders)
        self._couriers.submit(
            _quietly, partial(self._link.client.run, order, workers=[flight.worker], on_error="ignore")
        )

    def _watch(self, link: Link) -> None:
        """Deal with jobs that no longer answer."""
        now = time.monotonic()
        for flight in list(self._flights.values()):
            complaint = flight.complaint(now, flight.worker in link.threads)
            if not complaint:
                continue
            self._flights.pop(flight.job.id)
            self._jobs.pop(flight.job.id, None)
            flight.job.fail(FitError(complaint))
            self._couriers.submit(_quietly, partial(_end_by_force, link.client, flight))

    # ---- taking in ----------------------------------------------------------------------------------------------
    def _fetch(self, job: Job, number: int) -> None:
        """Have the outcome brought. That may take a while, or fail, when its worker has died since."""
        flight = self._flights.get(job.id)
        if flight is None or job.dispatches != number:
            return  # of an earlier try, or dealt with already
        if flight.future.status not in ("finished", "error"):
            self._try_again(job, "The cluster lost the job.")
            return
        flight.ended = True
        errand = self._porters.submit(_bring, flight.future)
        errand.add_done_callback(lambda brought: self._inbox.put(("fetched", job, (number, brought))))

    def _land(self, job: Job, number: int, brought: Errand[Outcome | BaseException]) -> None:
        if job.id not in self._flights or job.dispatches != number:
            return
        if brought.cancelled():
            return  # the engine is leaving
        lost = brought.exception()
        outcome = brought.result() if lost is None else lost
        if isinstance(lost, LOST_ERRORS):
            self._try_again(job, f"The result was lost with its worker ({lost}).")
        elif isinstance(outcome, LINK_ERRORS) and type(outcome).__module__.startswith("distributed"):
            self._try_again(job, f"A worker could not be reached ({outcome}).")
        else:
            if isinstance(outcome, BaseException):
                job.fail(explained(outcome))
            else:
                settle(job, outcome, self._cache)
            self._jobs.pop(job.id, None)
            del self._flights[job.id]

    def _try_again(self, job: Job, why: str) -> None:
        self._again(job, why)
        del self._flights[job.id]


def _bring(future: Future) -> Outcome | BaseException:
    """What the worker sent back, or what the job raised there. Raises one of LOST_ERRORS when there is nothing to be had."""
    if future.status == "error":
        raised: BaseException = future.exception(timeout=FETCH_LIMIT_S)
        return raised
    outcome: Outcome = future.result(timeout=FETCH_LIMIT_S)
    return outcome


def _end_by_force(client: Client, flight: Flight) -> None:
    """Only a new process ends work that does not look up."""
    flight.future.cancel()
    if flight.worker_known:
        client.run(kill_worker, workers=[flight.worker], nanny=True, on_error="ignore")


def _quietly(send: Callable[[], Any]) -> None:
    """A message that no longer finds its worker is not worth more than a line in the log."""
    try:
        send()
    except (*LINK_ERRORS, ValueError, RuntimeError) as error:
        logger.info("A message to the cluster was not delivered: %s", error)
