"""The live fit of one page and one visitor: what is wanted, what runs, what stands on the screen. No screen in here.

Every change starts up to two jobs, the quick one first:

preview   the parameters as they are with the new softness: a forward pass, right here where the data are small
main      the fit that the settings alone decide

A fit seen before is there at once. A newer request cancels all jobs of an older one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gdm_core.analysis import looks
from gdm_core.analysis.matching import Order, in_order
from gdm_core.engine import Engine, FitResult, Job, JobStatus, JobView, Priority
from gdm_core.errors import GdmError
from pages.lab.live.answers import Answers
from pages.lab.live.other_fits import WARM_CHANGES, FitHistory, Prefetch
from pages.lab.live.pictures import Array, Colours, Shown, State, Wanted, alike, curve_of, unpack

SETTLE_S = 0.25  # a key held down repeats: only where it comes to rest is fitted
HURRY_S = 0.4  # changes closer together than this are one movement
PREVIEW_HERE = 100_000  # soft shares (samples times states) that the server works out itself, in a tenth of a second
AHEAD_S = 2.0  # a fit that takes longer here is not begun before somebody asks for it
PREVIEW_WAIT_S = 0.15
GLIMPSE_WAIT_S = 1.0  # while a slider is held the page has nothing else to do
RIPE = 0.3  # of its steps: before, a fit says less than the picture that stands


class Live:
    """One page of one visitor. `want` and `poll` are for the page's script; they return at once.

    Whoever makes one closes it (screen.let_go, session_cleanup.left): garbage collection comes when it likes, and would then
    end the jobs of the next one of the same page and visitor.
    """

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self.session = engine, session  # under which name the engine knows its jobs and data
        self.answers, self.held_answers = Answers(engine, session), Answers(engine, session)
        self.ask = self.answers.ask
        self.prefetch = Prefetch(engine, session)
        self.records = PageRecords()
        self._wanted: Wanted | None = None
        self._changed_at = -1e9
        self._due: float | None = None
        self._jobs: dict[str, Job] = {}
        self._first: tuple[Array, ...] | None = None
        self._good: tuple[Wanted, FitResult] | None = None
        self.history = FitHistory()
        self._shown = Shown("running")
        self._colours = Colours()
        self._stopped = False
        self._moving = False
        self._failure = ""

    # ---- what the page says -------------------------------------------------------------------------------------
    def want(self, wanted: Wanted, *, first_order: Order | None = None, moving: bool = False) -> None:
        """Ask for a fit. Asking for the same one again starts nothing. `first_order` comes from a copied link.

        moving  a slider is still held: what can be shown at once is, and nothing is fitted before it is let go
        """
        if self._wanted is not None and wanted.key == self._wanted.key and moving >= self._moving:
            self._describe_anew(self._wanted, wanted)
            return
        now = time.monotonic()
        released, self._moving = self._moving, moving
        hurried = now - self._changed_at < HURRY_S and not released  # a slider that is let go has come to rest
        self._changed_at = now
        self._stop()
        if self._wanted is None:
            self._colours.first = first_order
        self._wanted, self._failure, self._stopped = wanted, "", False
        if not released:  # through a whole movement, colours follow what stood before it
            self._colours.follow(self._shown)
        result, _ = self._engine.cache.get(wanted.key)
        under_way = None if moving else self.prefetch.hand_over(wanted.key)
        if moving:
            self._glimpse(wanted, result)
        elif result is None and under_way is not None:
            self._jobs["main"] = under_way
        elif result is None and hurried:
            self._due = now + SETTLE_S
        else:
            self._start(known=result is not None)

    def _describe_anew(self, before: Wanted, wanted: Wanted) -> None:
        """The same fit, but looked at through other data, or with other words: the picture goes by the new ones."""
        if wanted.test is before.test and wanted.where is before.where:
            return
        self._wanted = wanted
        if self._good is not None and self._good[0].key == wanted.key:
            self._good = (wanted, self._good[1])
        self.history.describe_anew(wanted)
        if self._shown.wanted is not None and self._shown.wanted.key == wanted.key:
            self._shown = replace(self._shown, wanted=wanted)

    def retry(self) -> None:
        """Start the fit that failed again."""
        self._stop()
        self._failure, self._stopped = "", False
        self._start()

    def cancel(self) -> None:
        """End the fit that runs; the earlier result stays."""
        self._stop()
        self._failure, good = "", self._good
        if good is None or self._wanted is None or good[0].key != self._wanted.key:
            self._stopped = True
        else:
            self._shown = self._result(*good)

    @property
    def setting(self) -> Any:
        """The page's own settings behind what was last asked for; None before."""
        return None if self._wanted is None else self._wanted.where

    def close(self) -> None:
        """End all jobs, and have the workers let go of the data."""
        self._stop()
        self.prefetch.give_up()
        self._engine.forget(self.session)

    # ---- what the page sees -------------------------------------------------------------------------------------
    @property
    def running(self) -> bool:
        """Whether a fit is under way, or about to be."""
        return self._due is not None or bool(self._jobs)

    @property
    def busy(self) -> bool:
        """Whether looking again will bring something new."""
        return self.running or self.answers.pending

    @property
    def jobs_about(self) -> int:
        """How many jobs of all visitors run or wait."""
        info = self._engine.info()
        return info.waiting + info.running

    def poll(self) -> Shown:
        """Take in what has happened; what to draw now: the same object as before when nothing has changed."""
        if self._due is not None and time.monotonic() >= self._due:
            self._due = None
            self._start()
        picture = self._look()
        if not alike(picture, self._shown):
            self._shown = picture
        return self._shown

    # ---- starting and ending jobs -------------------------------------------------------------------------------
    def _start(self, *, known: bool = False) -> None:
        """Begin the requested fit: first what can be seen sooner, unless its result is `known`."""
        wanted = self._wanted
        if wanted is None:
            return
        near = None if known else self.history.nearest(wanted)
        reader = self._reader(wanted) if wanted.alike and not (known or near) else None
        if reader is not None and reader[0].alike == wanted.alike:
            self._preview(wanted, *reader[1:])
        if near is not None and set(near[2]) == {"temperature"}:
            self._preview(wanted, *near[1:])
        try:
            self._jobs["main"] = self._engine.submit(wanted.spec, session=self.session)
        except GdmError as error:
            self._failure = str(error)

    def beside(self, name: str) -> FitResult | None:
        """The last fit whose settings differ from those wanted in `name` at the most."""
        return None if self._wanted is None else self.history.beside(self._wanted, name)

    def look_ahead(self, wanted: Sequence[Wanted]) -> bool:
        """Have fits done that may be asked for next, unless one is under way or they take long. Whether more is to come."""
        slow = not wanted or self.history.quickest(wanted[0]) > AHEAD_S
        fitting = self._due is not None or bool(set(self._jobs) - {"preview"})
        return not (slow or fitting) and self.prefetch.go_on(wanted)

    def order_of(self, wanted: Wanted, raw: tuple[Array, ...]) -> Order:
        """The colours that states `raw` of a fit of `wanted` would get if it were asked for now."""
        return self._colours.order(wanted, raw, None if self._moving else self._shown)

    @property
    def colours_follow(self) -> tuple[Array, ...]:
        """The states whose colours `order_of` follows; the very same object as long as they are."""
        return self._colours.follows(None if self._moving else self._shown)

    def _glimpse(self, wanted: Wanted, seen: FitResult | None) -> None:
        """What can be said of a fit before it is asked for: it was seen, or a fit like it reads these data."""
        if seen is not None and seen.snapshot is not None:
            self._first = unpack(seen.snapshot, wanted.train)
            return
        near = self.history.nearest(wanted) or self._reader(wanted)
        if near is not None:
            self._preview(wanted, *near[1:], wait_s=GLIMPSE_WAIT_S)

    def _reader(self, wanted: Wanted) -> tuple[Wanted, FitResult, dict[str, Any]] | None:
        """The last fit, if it can read other data as they are: what it was fitted to has changed."""
        if self._good is None:
            return None
        past, result = self._good
        changes = wanted.other_parameters(past)
        if changes is None or not set(changes) <= WARM_CHANGES or wanted.train.n_channels != past.train.n_channels:
            return None
        return past, result, changes

    def _preview(
        self, wanted: Wanted, result: FitResult, changes: dict[str, Any], wait_s: float = PREVIEW_WAIT_S
    ) -> None:
        question = (result.model_bytes, wanted.train, changes)
        if wanted.train.n_samples * int(wanted.config.get("n_states", 1)) <= PREVIEW_HERE:
            self._first = looks.first_look(*question)
            return
        how: dict[str, Any] = {"session": self.session, "name": "preview", "priority": Priority.HIGH}
        job = self._jobs["preview"] = self._engine.submit(looks.first_look, *question, **how)
        job.wait(wait_s)

    def _end(self, *roles: str) -> None:
        for role in roles:
            if (job := self._jobs.pop(role, None)) is not None:
                job.cancel()

    def _stop(self) -> None:
        self._due, self._first = None, None
        self._end(*list(self._jobs))

    # ---- taking in ----------------------------------------------------------------------------------------------
    def _look(self) -> Shown:
        views = {role: job.poll() for role, job in self._jobs.items()}
        main, preview = views.get("main"), views.get("preview")
        if main is not None and main.status.final:
            self._end("preview")
            self._jobs.pop("main", None)
            self._first = None
            if main.status is JobStatus.DONE:
                assert self._wanted is not None
                self._good = (self._wanted, main.result)
                self.history.add(*self._good)
                picture = self._result(*self._good, main.notes)
                self._colours.first = None
                return picture
            self._failure = main.message or "The fit ended without a result."
            main = None
        return self._under_way(main, preview)

    def _under_way(self, main: JobView | None, preview: JobView | None) -> Shown:
        """The picture of a fit that is not done: the best look at it that there is, and how far it is. What was there before stays
        in its place until there is enough to draw."""
        wanted, now, running, raw = self._wanted, self._shown, self.running, self._first
        told: dict[str, Any] = {
            "message": self._failure, "fitting": running, "stopped": self._stopped,
            "curve": replace(now.curve, earlier=now.curve.earlier or running), "recorded": now.recorded,
        }  # fmt: skip
        if wanted is None:
            return Shown("running", **told)
        ripe = main is not None and (not now.train or main.step >= RIPE * main.total)
        if main is not None and main.snapshot is not None and ripe:
            raw = unpack(main.snapshot, wanted.train)
        elif preview is not None and preview.status is JobStatus.DONE:
            raw = preview.result
        if main is not None:
            told |= {"step": main.step, "total": main.total, "notes": main.notes}
            if main.snapshots:
                told["recorded"] = main.snapshots[-1].step, main.total
            if len(main.elbos) > 1:
                told["curve"] = curve_of(wanted, main.steps, main.elbos, main.total)
        if raw is not None:
            order = self._colours.order(wanted, raw)
            return Shown(self._state(preview is not None), wanted, in_order(raw, order), order, **told)
        if not now.train:
            return Shown("running", wanted, **told)
        # Of this very fit, which is done, runs again, or went wrong on the way, what was seen says most.
        same = now.wanted is not None and now.wanted.key == wanted.key and (running or now.state == "fresh")
        return replace(now, state=now.state if same else "stale", **told, _kept=now._kept)

    def _state(self, previewed: bool) -> State:
        """State of a picture that is not final."""
        if self._moving:
            return "preview"
        if not self.running:
            return "stale"
        return "preview" if previewed else "running"

    def _result(self, wanted: Wanted, result: FitResult, notes: tuple[str, ...] = ()) -> Shown:
        raw = unpack(result.snapshot, wanted.train) if result.snapshot is not None else ()
        order = self._colours.order(wanted, raw)
        end = result.steps[-1] if result.steps else 0
        return Shown(
            "fresh",
            wanted,
            in_order(raw, order),
            order,
            result,
            step=end,
            total=end,
            curve=curve_of(wanted, result.steps, result.elbos, end),
            recorded=(end, end) if len(result.snapshots) > 1 else (0, 0),
            notes=notes,
        )


T = TypeVar("T")


class PageRecords:
    """The last record of each type, or of each type and name. Nobody who lacks the type can read or change one."""

    def __init__(self) -> None:
        self._last: dict[tuple[type, str], Any] = {}

    def keep(self, record: T, name: str = "") -> T:
        """Remember `record` in place of the last one like it; gives it back."""
        self._last[type(record), name] = record
        return record

    def last(self, kind: type[T], name: str = "") -> T | None:
        found: T | None = self._last.get((kind, name))
        return found
