"""Data that lies ready on the cluster, so that each set of trials travels there once and not with every fit."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter, OrderedDict

from distributed import Future

from gdm_core.engine.cluster import Link
from gdm_core.engine.worker import decode_trials
from gdm_core.trials import Trials

DATA_CACHE_BYTES = 512 * 2**20
# What lies ready lies in every worker, beside half a gigabyte of libraries and the fit itself.
WORKER_SHARE = 8


class DataCache:
    """Published trials by fingerprint; the ones used longest ago go when there are too many bytes.

    Trials also go, from the scheduler and from every worker, when the last session that used them has left.

    They are published as the result of a task whose argument the scheduler keeps: a worker that dies loses only its
    copy, and the next one makes it anew without asking us.
    """

    def __init__(self, limit: int = DATA_CACHE_BYTES) -> None:
        self.limit = limit
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
        limit = min(self.limit, link.memory // WORKER_SHARE) if link.memory else self.limit
        # The new ones come packed and are unpacked there, so they need their room twice, and before they are sent.
        while self._lying and self.n_bytes + 2 * len(payload) > limit:
            self._take_away(next(iter(self._lying)))
        # Dask counts, for good, how many workers died beside a task, and gives it up after some: as another one it starts anew.
        key = f"{link.topic}-trials-{name}" + (f"-{self._failed[name]}" if self._failed[name] else "")
        future = link.client.submit(decode_trials, payload, key=key)
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

    def clear(self) -> None:
        self._lying.clear()
        self._users.clear()
        self._failed.clear()
