"""Fits beside the one that is wanted: those shown before, where the next one may start from, and those that may be asked for next.

The latter are begun while a hand is at the slider that would ask for them. They are the very fits that would be asked for, at low
priority. What is fitted here lies in the engine's cache; one that runs when it is asked for becomes the visitor's own.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from gdm_core.engine import Engine, FitResult, Job, JobStatus, Priority
from pages.lab.live.pictures import Wanted

AT_ONCE = 2


class Prefetch:
    """The fits that one visitor may ask for next on one page."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self._session = engine, session
        self._jobs: dict[str, Job] = {}
        self._in_vain: set[str] = set()

    def go_on(self, wanted: Sequence[Wanted]) -> bool:
        """Fit what of this is not known yet, the first ones first; others are given up. Whether there is more to come."""
        keys = {one.key for one in wanted}
        self.give_up(besides=keys)
        ended = [key for key, job in self._jobs.items() if job.poll().status.final]
        unknown = [one for one in wanted if self._engine.cache.get(one.key)[0] is None]
        self._in_vain |= {one.key for one in unknown} & set(ended)  # it failed, or is not kept
        for key in ended:
            del self._jobs[key]
        missing = [one for one in unknown if one.key not in self._in_vain]
        for one in missing:
            if len(self._jobs) >= AT_ONCE:
                break
            if one.key not in self._jobs:
                how: dict[str, Any] = {"session": self._session, "name": "prefetch", "priority": Priority.LOW}
                self._jobs[one.key] = self._engine.submit(one.spec, **how)
        return bool(missing)

    def known(self, wanted: Wanted) -> FitResult | None:
        """This fit with its states, if it is there."""
        result, _ = self._engine.cache.get(wanted.key)
        return None if result is None or result.snapshot is None else result

    def hand_over(self, key: str) -> Job | None:
        """The fit of that name, if it runs; all others are given up."""
        job = self._jobs.get(key)
        if job is not None and job.poll().status is JobStatus.RUNNING:
            del self._jobs[key]
        else:
            job = None  # one that waits is asked for again, at a higher priority
        self.give_up()
        return job

    def give_up(self, besides: Collection[str] = ()) -> None:
        for key in [key for key in self._jobs if key not in besides]:
            self._jobs.pop(key).cancel()


WARM_CHANGES = frozenset({"n_states", "temperature", "stickiness"})
MOST = 12


class FitHistory:
    """The last few results, each with what was wanted."""

    def __init__(self) -> None:
        self._fits: OrderedDict[str, tuple[Wanted, FitResult]] = OrderedDict()

    def add(self, wanted: Wanted, result: FitResult) -> None:
        self._fits[wanted.key] = (wanted, result)
        self._fits.move_to_end(wanted.key)
        while len(self._fits) > MOST:
            self._fits.popitem(last=False)

    def describe_anew(self, wanted: Wanted) -> None:
        """The same fit with other words, or other data that it is looked at through."""
        if wanted.key in self._fits:
            self._fits[wanted.key] = (wanted, self._fits[wanted.key][1])

    def nearest(self, wanted: Wanted) -> tuple[Wanted, FitResult, dict[str, Any]] | None:
        """The fit that a warm start has least to change in, and what."""
        candidates = []
        for age, (past, result) in enumerate(reversed(self._fits.values())):
            changes = wanted.changes_from(past)
            if changes and set(changes) <= WARM_CHANGES:
                states = abs(wanted.config.get("n_states", 0) - past.config.get("n_states", 0))
                candidates.append((len(changes), states, age, past, result, changes))
        if not candidates:
            return None
        *_, past, result, changes = min(candidates, key=lambda c: c[:3])
        return past, result, changes

    def beside(self, wanted: Wanted, name: str) -> FitResult | None:
        """The last fit that differs in `name` at the most."""
        for past, result in reversed(self._fits.values()):
            changes = wanted.changes_from(past)
            if changes is not None and set(changes) <= {name}:
                return result
        return None

    def quickest(self, wanted: Wanted) -> float:
        """Seconds of the quickest fit of these data, if any is known; on a busy machine, one may have taken long."""
        known = (result.seconds for past, result in self._fits.values() if wanted.changes_from(past) is not None)
        return min(known, default=math.inf)
