"""The fits that a page has shown before: where the next one may start from."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

from gdm_core.engine import FitResult
from pages.lab.live.pictures import Wanted

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
