"""A wish for a fit that suits recordings: long ones are previewed in part, and uploads leave nothing behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gdm_core.engine import FitRequest
from gdm_core.trials import Trials
from pages.ui.live import Wanted

PREVIEW_SAMPLES = 60_000
DEADLINE_S = 600.0


@dataclass(frozen=True, eq=False)
class Wish(Wanted):
    """keep: whether the result may stay on disk for the next visit."""

    keep: bool = True

    @cached_property
    def request(self) -> FitRequest:
        return FitRequest(
            self.family,
            dict(self.config),
            self.train,
            preview=tuple(range(previewed(self.train))),
            deadline_s=DEADLINE_S,
            use_cache=self.keep,
        )


def previewed(trials: Trials) -> int:
    """How many of the first trials are looked at while a fit runs: looking at all of a long set would slow it down."""
    total = 0
    for count, trial in enumerate(trials, start=1):
        total += trial.n_samples
        if total > PREVIEW_SAMPLES:
            return max(1, count - 1)
    return len(trials)
