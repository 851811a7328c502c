"""Who is next: a bounded queue in which people who watch go before bulk work, and sessions take turns."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable

from gdm_core.engine.jobs import Job
from gdm_core.engine.messages import QueueFull
from gdm_core.errors import FitError


class QueueClosed(FitError):
    """The engine has ended."""


class FairQueue:
    """Jobs that wait, by session. Threads may add while the dispatcher takes."""

    def __init__(self, limit: int, session_limit: int) -> None:
        self.limit, self.session_limit = limit, session_limit
        self._lock = threading.Lock()
        self._closed = False
        # watched jobs, bulk jobs, and those that nobody waits for; session -> its jobs, the session served longest ago first
        self._lanes: tuple[OrderedDict[str, deque[Job]], ...] = (OrderedDict(), OrderedDict(), OrderedDict())

    def __len__(self) -> int:
        with self._lock:
            return sum(self._sizes().values())

    def _sizes(self) -> Counter[str]:
        sizes: Counter[str] = Counter()
        for lane in self._lanes:
            for session, jobs in lane.items():
                sizes[session] += sum(not job.poll().status.final for job in jobs)
        return sizes

    def add(self, job: Job, again: bool = False) -> None:
        """At the end of its session's row; a job that comes back (`again`) goes to the front and is never refused."""
        with self._lock:
            if self._closed:
                raise QueueClosed("The engine is closed. Restart the server.")
            if not again:
                self._refuse_beyond_limits(job.session)
            lane = self._lanes[job.bulk and 1 + job.idle]
            row = lane[job.session] = deque(j for j in lane.get(job.session, ()) if not j.poll().status.final)
            if again:
                row.appendleft(job)
            else:
                row.append(job)

    def _refuse_beyond_limits(self, session: str) -> None:
        sizes = self._sizes()
        if sizes[session] >= self.session_limit:
            raise QueueFull(
                f"{sizes[session]} of your jobs wait already, and {self.session_limit} may. "
                "Let some finish, or cancel them."
            )
        if sum(sizes.values()) >= self.limit:
            raise QueueFull(f"{sum(sizes.values())} jobs of all sessions wait already. Try again in a minute.")

    def _let_watched_pass(self) -> None:
        """Bulk jobs that somebody has begun to wait for (`Job.watch`) stand among the watched ones from now on."""
        for lane in self._lanes[1:]:
            for session, row in list(lane.items()):
                for job in [job for job in row if not job.bulk]:
                    row.remove(job)
                    self._lanes[0].setdefault(session, deque()).append(job)
                if not row:
                    del lane[session]

    def watched_waiting(self) -> int:
        """How many jobs wait that somebody watches."""
        with self._lock:
            self._let_watched_pass()
            return sum(sum(not job.poll().status.final for job in jobs) for jobs in self._lanes[0].values())

    def take(self, running: Iterable[Job], bulk: bool) -> Job | None:
        """The next job of the session that has fewest running, and among those was served longest ago."""
        busy = Counter(job.session for job in running)
        with self._lock:
            self._let_watched_pass()
            while lane := next((lane for lane in self._lanes[bulk : 1 + 2 * bulk] if lane), None):
                session = min(lane, key=lambda name: busy[name])  # min keeps the first of equals
                job = lane[session].popleft()
                if lane[session]:
                    lane.move_to_end(session)
                else:
                    del lane[session]
                if not job.poll().status.final:
                    return job
        return None

    def drain(self) -> list[Job]:
        """Everything that waits, leaving nothing."""
        with self._lock:
            jobs = [job for lane in self._lanes for row in lane.values() for job in row]
            for lane in self._lanes:
                lane.clear()
        return jobs

    def close(self) -> list[Job]:
        """Everything that waits; from now on nothing is taken in, so that no job waits for an engine that has gone."""
        with self._lock:
            self._closed = True
        return self.drain()
