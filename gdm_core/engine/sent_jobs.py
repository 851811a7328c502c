"""Jobs that are out on the cluster, and how one gets there, with its data."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Future

from gdm_core.engine.cluster import Link
from gdm_core.engine.control import Control
from gdm_core.engine.jobs import Job
from gdm_core.engine.messages import FitRequest
from gdm_core.engine.worker import fit, run
from gdm_core.trials import Trials

# Time for a job to stop by itself at its deadline before its worker is restarted.
GRACE_S = 5.0
# A cancelled fit that has not stopped between two steps by then never will.
STEP_LIMIT_S = 20.0
# A job whose worker is gone, and that no other has taken up by then, is given back.
START_LIMIT_S = 90.0
# A job that has not begun by then waits behind another one on a worker that was taken for free.
LATE_S = 0.5
# A job that stands, and has not gone on by then although it may, is told so once more.
REPEAT_S = 5.0
# One that has been told so often, by a worker that is there, does not hear.
MOST_REPEATS = 6
DATA_CACHE_BYTES = 512 * 2**20
# What lies ready lies in every worker, beside half a gigabyte of libraries and the fit itself.
WORKER_SHARE = 8
NOT_STARTED = f"No worker took the job up within {START_LIMIT_S:g} s. Check that the cluster has running workers."
NOT_BEGUN = (
    "A worker has the job, and has not begun it: the machine has too much else to do. Try again when it has less."
)


@dataclass
class SentJob:
    """One job on the cluster. `worker` is where it was meant to go until it says where it is.

    held   it stands still; `aside`: it goes on outside its worker's thread pool. Either way another job may run there
    """

    job: Job
    future: Future
    worker: str
    sent_at: float
    worker_known: bool = False
    held: bool = False
    aside: bool = False
    ended: bool = False
    orders_sent_at: float = 0.0  # when it was last told what is wanted of it
    _started: float = 0.0
    _held_since: float = 0.0
    _held_s: float = 0.0
    _paused_since: float = 0.0
    _gone_since: float = 0.0
    _cancel_seen: float = 0.0
    _missed: int = 0
    _repeats: int = 0

    def follow(self, event: Mapping[str, Any], now: float) -> bool:
        """Follow what the job says of itself; whether that is that it has begun once more."""
        kind = event["kind"]
        begun_again = kind == "started" and self.worker_known
        self.worker, self.worker_known = event["worker"], True
        if kind == "started":
            self._started, self._held_s, self.held, self.aside = now, 0.0, False, False
        elif kind == "held":
            if not self.held:
                self._held_since = self._paused_since = now
            self.held = True
        elif kind in ("resumed", "aside"):
            self.count_as_running(now)
            self.aside = kind == "aside"
        return begun_again

    def missed_orders(self, now: float) -> bool:
        """Whether it stands although it was told to go on, and may not have heard so."""
        view = self.job.poll()
        if not view.held or self.job.orders.holds(view.step):
            self._repeats = 0
            return False
        if now - self.orders_sent_at <= REPEAT_S:
            return False
        self._repeats += 1
        return True

    @property
    def deaf(self) -> bool:
        """Whether it does not go on however often it is told."""
        return self._repeats > MOST_REPEATS

    @property
    def takes_a_thread(self) -> bool:
        """Whether its worker has no room for another job."""
        return not (self.held or self.aside)

    def count_as_running(self, now: float) -> None:
        """It counts among the running ones again."""
        if self.held:
            self.held = False
            self._held_s += now - self._held_since

    def lost(self, missing: bool) -> bool:
        """Whether no worker has it any more: `missing` says so twice, for at first it may just have ended."""
        self._missed = self._missed + 1 if missing else 0
        return self._missed > 1

    def late(self, now: float) -> bool:
        """Whether it should have begun by now."""
        return not (self.worker_known or self.ended) and now - self.sent_at > LATE_S

    def why_stuck(self, now: float, worker_there: bool = True) -> str:
        """What is wrong with it, if anything is: a job ends by itself at its deadline unless it is stuck.

        A job whose worker has died waits for another, which starts its clock anew.
        """
        work = self.job.work
        if self.ended:
            return ""  # its outcome is on the way
        if not self.worker_known:
            # A machine with much else to do may let a worker wait longer than a job may last; that is no reason to fail it.
            if worker_there:
                return NOT_BEGUN if now - self.sent_at > START_LIMIT_S + work.deadline_s else ""
            return NOT_STARTED if now - self.sent_at > START_LIMIT_S else ""
        if not worker_there:
            self._started, self._gone_since = now, self._gone_since or now
            return NOT_STARTED if now - self._gone_since > START_LIMIT_S else ""
        self._gone_since = 0.0
        if self.held:
            if not self.job.orders.paused(self.job.poll().step):
                self._paused_since = now  # it makes way for others, for as long as they need
            if now - self._paused_since > work.hold_limit_s + GRACE_S:
                return f"The job was on hold for longer than {work.hold_limit_s:g} s. Start it again to go on."
            return ""
        if isinstance(work, FitRequest) and self.job.orders.cancelled:
            self._cancel_seen = self._cancel_seen or now
            if now - self._cancel_seen > STEP_LIMIT_S:
                return "Cancelled, and stuck within one step."
        grace = GRACE_S if isinstance(work, FitRequest) else 0.0
        if now - self._started - self._held_s > work.deadline_s + grace:
            return (
                f"Stopped because it ran longer than its deadline of {work.deadline_s:g} s. "
                "Use less data, or allow more time."
            )
        return ""


class DataCache:
    """Published trials by fingerprint; the ones used longest ago go when there are too many bytes.

    Trials also go, from the scheduler and from every worker, when the last session that used them has left.

    They are published as the result of a task whose argument the scheduler keeps: a worker that dies loses only its
    copy, and the next one makes it anew without asking us.
    """

    def __init__(self) -> None:
        self._lying: OrderedDict[str, tuple[Future, int]] = OrderedDict()
        self._users: dict[str, set[str]] = {}
        self._failed: Counter[str] = Counter()

    def place(self, trials: Trials, link: Link, session: str) -> Future:
        """The future of `trials` on the cluster, for a job of `session`."""
        # Messages name trials, so the same numbers under other names are other data here.
        names = repr((trials.name, [trial.name for trial in trials]))
        name = f"{trials.fingerprint}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
        self._users.setdefault(name, set()).add(session)
        if name in self._lying and self._lying[name][0].status in ("pending", "finished"):
            self._lying.move_to_end(name)
            return self._lying[name][0]
        before = self._lying.pop(name, None)
        if before is not None and before[0].status == "error":
            self._failed[name] += 1
        payload = pickle.dumps(trials, protocol=5)
        limit = min(DATA_CACHE_BYTES, link.memory // WORKER_SHARE) if link.memory else DATA_CACHE_BYTES
        # The new ones come packed and are unpacked there, so they need their room twice, and before they are sent.
        while self._lying and self.n_bytes + 2 * len(payload) > limit:
            self._take_away(next(iter(self._lying)))
        # Dask counts, for good, how many workers died beside a task, and gives it up after some: as another one it starts anew.
        key = f"{link.topic}-trials-{name}" + (f"-{self._failed[name]}" if self._failed[name] else "")
        future = link.client.submit(pickle.loads, payload, key=key)
        self._lying[name] = (future, len(payload))
        return future

    def forget(self, session: str) -> None:
        """Take away what nobody but `session` has used. A job that is under way keeps its data to its end."""
        for name, users in list(self._users.items()):
            users.discard(session)
            if not users:
                self._take_away(name)

    def _take_away(self, name: str) -> None:
        self._users.pop(name, None)
        self._lying.pop(name, None)  # the last reference to its future: Dask lets the data go

    @property
    def n_bytes(self) -> int:
        return sum(size for _, size in self._lying.values())


def launch(job: Job, link: Link, data_cache: DataCache, worker: str | None) -> SentJob:
    """Send `job` to `worker`, or wherever there is room should that one be gone; its data goes once."""
    work = job.work
    args: tuple[Any, ...]
    if isinstance(work, FitRequest):
        function: Callable[..., Any] = fit
        about = work.key, work.family, dict(work.config), work.preview, work.snapshot_every_s, work.warm_start
        args = (work.trials, *about)
    else:
        function, args = work.function, work.args
    pickle.dumps([arg for arg in args if not isinstance(arg, Trials)])
    there = [data_cache.place(arg, link, job.session) if isinstance(arg, Trials) else arg for arg in args]
    begin = partial(Control, job.run, link.topic, job.orders, work.deadline_s, work.hold_limit_s)
    where: dict[str, Any] = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
    future = link.client.submit(run, begin, function, *there, key=f"{link.topic}-{job.run}", pure=False, **where)
    return SentJob(job, future, worker or "", time.monotonic())
