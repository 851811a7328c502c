"""The picture of a fit that is not done: the best look at it that there is, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gdm_core.analysis.matching import in_order
from gdm_core.engine import FitResult, JobStatus, JobView
from pages.lab.live.colours import Colours
from pages.lab.live.pictures import Array, Shown, State, Wanted, curve_of, unpack

RIPE = 0.3  # of its steps: before, a fit from the start says less than the picture that stands


@dataclass(frozen=True)
class FitUnderWay:
    """What is under way, and how it is watched.

    told                  what a picture of it says whatever there is to see, by the fields of `Shown`
    main, warm, preview   the jobs' views, None for one that is not under way
    first                 states that were there before any of them: as an earlier fit reads the data
    playing, watched      it is slowed down; somebody looks at how it learns
    moving                a slider is still held
    """

    told: Mapping[str, Any]
    main: JobView | None
    warm: JobView | None
    preview: JobView | None
    first: tuple[Array, ...] | None
    playing: bool
    watched: bool
    moving: bool

    @property
    def running(self) -> bool:
        """Whether a fit is under way, or about to be."""
        return bool(self.told["fitting"])

    def picture(self, wanted: Wanted | None, now: Shown, colours: Colours) -> Shown:
        """What to show of the fit of `wanted`, after `now`."""
        raw, followed, result = self._best_look(wanted, now)
        progress = self._progress(wanted, now, followed)
        if wanted is not None and raw is not None:
            order = colours.order(wanted, raw)
            return Shown(self._state(followed), wanted, in_order(raw, order), order, result, **progress)
        if not now.train:
            return Shown("running", wanted, **progress)
        state: State = "stale"
        if now.wanted is not None and wanted is not None and now.wanted.key == wanted.key:
            # It is done, runs anew, or went wrong on the way: what was seen of this very fit says most.
            state = now.state if self.running or now.state == "fresh" else "stale"
        return replace(now, state=state, **progress, _kept=now._kept)

    def _best_look(
        self, wanted: Wanted | None, now: Shown
    ) -> tuple[tuple[Array, ...] | None, JobView | None, FitResult | None]:
        """(states, the job whose progress is shown, a result): warm before main, any of the two before a forward pass."""
        main, warm, preview = self.main, self.warm, self.preview
        followed = main or warm
        if wanted is None:
            return None, followed, None
        if warm is not None and warm.status is JobStatus.DONE and warm.result.snapshot is not None:
            return unpack(warm.result.snapshot, wanted.train), followed, warm.result
        if warm is not None and warm.snapshot is not None and not warm.status.final:
            return unpack(warm.snapshot, wanted.train), warm, None
        if main is not None and main.snapshot is not None and self._ripe(main, now):
            return unpack(main.snapshot, wanted.train), followed, None
        if preview is not None and preview.status is JobStatus.DONE:
            return preview.result, followed, None
        return self.first, followed, None

    def _ripe(self, main: JobView, now: Shown) -> bool:
        """Whether a look at the fit from the start says more than what stands; one that is watched always does."""
        return not now.train or self.watched or main.step >= RIPE * main.total

    def _state(self, followed: JobView | None) -> State:
        if self.moving:
            return "preview"
        if not self.running:
            return "stale"
        if followed is not None and followed.held:
            return "paused"
        alone = self.warm is None and self.preview is None  # nothing is refitted: a first fit, or one that is watched
        return "running" if alone or self.playing else "preview"

    def _progress(self, wanted: Wanted | None, now: Shown, followed: JobView | None) -> dict[str, Any]:
        """How far it is. What was there before stays in its place until there is enough to draw."""
        curve = replace(now.curve, earlier=now.curve.earlier or self.running)
        found: dict[str, Any] = {**self.told, "held": False, "curve": curve}
        if followed is not None and wanted is not None:
            found |= {
                "step": followed.step,
                "total": followed.total,
                "seconds": followed.seconds,
                "notes": (self.main or followed).notes,
                "held": followed.held and not self.playing,  # a slowed-down fit stands between two looks, but goes on
            }
            if len(followed.elbos) > 1:
                found["curve"] = curve_of(wanted, followed.steps, followed.elbos, followed.total)
        return found
