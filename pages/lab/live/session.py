"""The live fit of one page and one visitor: what is wanted, what runs, what stands on the screen. No screen in here.

Every change starts up to three jobs, the quick ones first:

preview   the parameters as they are with the new softness: a forward pass, right here where the data are small
warm      a short fit that starts from the nearest one seen so far, with states split or merged where K changed;
          not where that one took less than a second, since the main fit is done as soon
main      the fit from the start that the settings alone decide. It stands in the end, so that a copied link shows the
          same picture as the page it was copied from, whatever had been tried there before

A fit seen before is there at once. A newer wish cancels all jobs of an older one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gdm_core.analysis import looks
from gdm_core.analysis.matching import Order, in_order
from gdm_core.engine import Engine, FitRequest, FitResult, Job, JobStatus, JobView
from gdm_core.errors import GdmError
from pages.lab.live.answers import Answers
from pages.lab.live.other_fits import WARM_CHANGES, FitHistory, Prefetch
from pages.lab.live.pictures import Array, Colours, Shown, State, Wanted, alike, curve_of, unpack

SETTLE_S = 0.25  # a key held down repeats: only where it comes to rest is fitted
HURRY_S = 0.4  # changes closer together than this are one movement
PREVIEW_HERE = 100_000  # soft shares (samples times states) that the server works out itself, in a tenth of a second
WARM_WORTH_S = 1.0  # a fit that takes less is done before a warm start beside it would have helped
AHEAD_S = 2.0  # a fit that takes longer here is not begun before somebody asks for it
PREVIEW_WAIT_S = 0.15
GLIMPSE_WAIT_S = 1.0  # while a slider is held the page has nothing else to do
STEPS_A_CLICK = 10
RIPE = 0.3  # of its steps: before, a fit from the start says less than the picture that stands, unless it is watched
PLAY_S = 5.0  # by the clock, from the picture before the first step to the last one


class Live:
    """One page of one visitor. `want` and `poll` are for the page's script; they return at once.

    Whoever makes one closes it (screen.let_go, session_cleanup.gone): garbage collection comes when it likes, and would then
    end the jobs of the next one of the same page and visitor.
    """

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self.session = engine, session  # under which name the engine knows its jobs and data
        self.answers, self.held_answers = Answers(engine, session), Answers(engine, session)
        self.ask = self.answers.ask
        self.prefetch = Prefetch(engine, session)
        self.records = PageRecords()
        self.pressed: list[Callable[[], None]] = []  # buttons, until it is known what is wanted
        self._wanted: Wanted | None = None
        self._changed_at = -1e9
        self._due: float | None = None
        self._jobs: dict[str, Job] = {}
        self._first: tuple[Array, ...] | None = None
        self._good: tuple[Wanted, FitResult] | None = None
        self.history = FitHistory()
        self._shown = Shown("running")
        self._colours = Colours()
        self.playing = False
        self._hold_next = False
        self._stopped = False
        self._moving = False
        self._failure = ""
        self._deadline = FitDeadline()  # of the fit under way

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
        self._hold_next = self.held and not (self.playing or self.out_of_time)
        self._stop()
        if self._wanted is None:
            self._colours.first = first_order
        self._wanted, self._failure, self._stopped = wanted, "", False
        if not released:  # through a whole movement, colours follow what stood before it
            self._colours.follow(self._shown)
        result, _ = self._engine.cache.get(wanted.key)
        under_way = None if moving or self._hold_next else self.prefetch.hand_over(wanted.key)
        if moving:
            self._glimpse(wanted, result)
        elif result is None and under_way is not None:
            self._jobs["main"], self._deadline = under_way, FitDeadline(wanted.deadline_s)
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

    def do_what_was_pressed(self) -> None:
        """Buttons of the request that also said what is wanted: they are meant of that."""
        while self.pressed:
            self.pressed.pop(0)()

    def retry(self) -> None:
        """Start the fit that failed again."""
        self._stop()
        self._failure, self._stopped, self._hold_next = "", False, False
        self._start()

    def reset(self) -> None:
        """Start anew from the seed, and stand still before the first step."""
        self._stop()
        self._failure, self._stopped = "", False
        self._start(fresh=True)

    def play(self) -> None:
        """Let a paused fit run on, at a pace to watch; start anew where none is under way."""
        if not self.running:
            self.reset()
        self._deadline.give_time()
        self.playing = True
        if (job := self._jobs.get("main")) is not None:
            job.play(PLAY_S)

    def pause(self) -> None:
        self.playing = False
        self._end("preview", "warm")
        if (job := self._jobs.get("main")) is not None:
            job.pause()

    def step(self) -> None:
        """A few steps of a paused fit; starts anew where none is under way."""
        if not self.running:
            self.reset()
        self._deadline.give_time()
        self.playing = False
        if (job := self._jobs.get("main")) is not None:
            job.step(STEPS_A_CLICK)

    def go_on(self) -> None:
        """Let a fit that has used its time run on, for as long again."""
        if self.out_of_time and (job := self._jobs.get("main")) is not None:
            self._deadline.give_time()
            job.resume()

    def stop(self) -> None:
        """Give up what runs. What was fitted before stands, that of the same settings as if nothing had happened."""
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
        return info.waiting + len(info.out)

    @property
    def held(self) -> bool:
        """Whether the fit was told to stand still, or moves a few steps at a time."""
        job = self._jobs.get("main")
        return job is not None and job.orders.hold

    @property
    def watched(self) -> bool:
        """Whether somebody looks at how it learns: played, step by step, or standing."""
        return self.playing or self.held

    @property
    def out_of_time(self) -> bool:
        """Whether the fit under way has used its time, and waits for somebody to say that it should go on."""
        return self._deadline.out_of_time

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
    def _start(self, *, known: bool = False, fresh: bool = False) -> None:
        """Begin the fit that is wanted: first what can be seen sooner, where an earlier fit has something to begin from.

        known  its result lies in the cache, so nothing is sooner
        fresh  begin anew whatever the cache has, and stand still before the first step
        """
        wanted = self._wanted
        if wanted is None:
            return
        hold = fresh or (self._hold_next and not known)  # who paused looks at one moment of a fit: of the next one, too
        near = None if known or hold else self.history.nearest(wanted)
        reader = self._reader(wanted) if wanted.alike and not (known or hold or near) else None
        if reader is not None and reader[0].alike == wanted.alike:
            self._preview(wanted, *reader[1:])
        requests: dict[str, FitRequest] = {}
        if near is not None:
            _, result, changes = near
            if set(changes) == {"temperature"}:
                self._preview(wanted, result, changes)
            if self.history.quickest(wanted) >= WARM_WORTH_S:
                main = wanted.request
                requests["warm"] = replace(
                    main, config=changes, warm_start=result.model_bytes, deadline_s=wanted.deadline_s
                )
        requests["main"] = replace(wanted.request, use_cache=False) if fresh else wanted.request
        try:
            for role, request in requests.items():
                bulk = len(requests) > 1 and role == "main"
                self._jobs[role] = self._engine.submit(request, session=self.session, slot=role, bulk=bulk)
        except GdmError as error:
            self._failure = str(error)
            return
        self._deadline = FitDeadline(wanted.deadline_s)
        if hold:
            self._jobs["main"].pause()

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
        try:
            job = self._engine.call(looks.first_look, *question, session=self.session, slot="preview")
        except GdmError:  # no room for one more job: the fit itself says so, and may still find room
            return
        self._jobs["preview"] = job
        job.wait(wait_s)

    def _end(self, *roles: str) -> None:
        for role in roles:
            if (job := self._jobs.pop(role, None)) is not None:
                job.cancel()

    def _stop(self) -> None:
        self._due, self._first = None, None
        self.playing, self._deadline = False, FitDeadline()
        self._end(*list(self._jobs))

    # ---- taking in ----------------------------------------------------------------------------------------------
    def _look(self) -> Shown:
        views = {role: job.poll() for role, job in self._jobs.items()}
        main, warm, preview = views.get("main"), views.get("warm"), views.get("preview")
        if main is not None and main.status.final:
            self._end("preview", "warm")
            self._jobs.pop("main", None)
            self._first = None
            self.playing, self._deadline = False, FitDeadline()
            if main.status is JobStatus.DONE:
                assert self._wanted is not None
                self._good = (self._wanted, main.result)
                self.history.add(*self._good)
                picture = self._result(*self._good, main.notes)
                self._colours.first = None
                return picture
            self._failure = main.message or "The fit ended without a result."
            main = None
        if main is not None and self._deadline.uses_up_its_time(main):  # it is not lost, and can go on
            self.pause()
        on_hold = main is not None and self._jobs["main"].orders.holds(main.step)
        if main is not None and (trouble := self._deadline.complaint(main, on_hold)):
            self._stop()
            self._failure, main, warm, preview = trouble, None, None, None
        return self._under_way(main, warm, preview)

    def _under_way(self, main: JobView | None, warm: JobView | None, preview: JobView | None) -> Shown:
        """The picture of a fit that is not done: the best look at it that there is, and how far it is. What was there before stays
        in its place until there is enough to draw."""
        wanted, now, running = self._wanted, self._shown, self.running
        told: dict[str, Any] = {
            "message": self._failure, "fitting": running, "stopped": self._stopped,
            "out_of_time": self.out_of_time, "held": False, "curve": replace(now.curve, earlier=now.curve.earlier or running),
        }  # fmt: skip
        if wanted is None:
            return Shown("running", **told)
        followed, raw, result = main or warm, self._first, None  # whose progress is shown, states, what they are of
        ripe = main is not None and (self.watched or not now.train or main.step >= RIPE * main.total)
        # Warm before main, any of the two before a forward pass.
        if warm is not None and warm.status is JobStatus.DONE and warm.result.snapshot is not None:
            raw, result = unpack(warm.result.snapshot, wanted.train), warm.result
        elif warm is not None and warm.snapshot is not None and not warm.status.final:
            raw, followed = unpack(warm.snapshot, wanted.train), warm
        elif main is not None and main.snapshot is not None and ripe:
            raw = unpack(main.snapshot, wanted.train)
        elif preview is not None and preview.status is JobStatus.DONE:
            raw = preview.result
        if followed is not None:
            told |= {
                "step": followed.step,
                "total": followed.total,
                "notes": (main or followed).notes,
                "held": followed.held and not self.playing,  # a slowed-down fit stands between two looks, but goes on
            }
            if len(followed.elbos) > 1:
                told["curve"] = curve_of(wanted, followed.steps, followed.elbos, followed.total)
        if raw is not None:
            order = self._colours.order(wanted, raw)
            refitted = warm is not None or preview is not None  # else it is a first fit, or one that is watched
            state = self._state(followed, refitted)
            return Shown(state, wanted, in_order(raw, order), order, result, **told)
        if not now.train:
            return Shown("running", wanted, **told)
        # Of this very fit, which is done, runs anew, or went wrong on the way, what was seen says most.
        same = now.wanted is not None and now.wanted.key == wanted.key and (running or now.state == "fresh")
        return replace(now, state=now.state if same else "stale", **told, _kept=now._kept)

    def _state(self, followed: JobView | None, refitted: bool) -> State:
        """That of a picture of states that still move."""
        if self._moving:
            return "preview"
        if not self.running:
            return "stale"
        if followed is not None and followed.held:
            return "paused"
        return "preview" if refitted and not self.playing else "running"

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


STILL_S = 120.0  # on a machine with a load of 80 a step of 50 ms takes some four seconds
PATIENCE = 10.0  # times the longest that this very fit has taken from one news to the next


class FitDeadline:
    """Of one fit, from look to look; one that nobody looks at is judged at the next look.

    out_of_time  whether it has run for as long as it may, and waits for somebody to say that it should go on
    """

    def __init__(self, deadline_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._deadline_s = clock, deadline_s
        self.out_of_time = False
        self._turns = 1
        self._spent_s = self._longest_s = 0.0
        self._looked = self._since = clock()
        self._news: tuple[JobStatus, int, int, bool] | None = None

    def give_time(self) -> None:
        """Let a fit that has used its time have as much again."""
        self._turns += self.out_of_time
        self.out_of_time = False

    def uses_up_its_time(self, view: JobView) -> bool:
        """Whether its time is over as of now; said once. Time on hold does not count."""
        now, before = self._clock(), self._looked
        self._looked = now
        if view.status is not JobStatus.RUNNING or view.held:
            return False
        self._spent_s += now - before
        over = self._spent_s > self._turns * self._deadline_s and not self.out_of_time
        self.out_of_time |= over
        return over

    def complaint(self, view: JobView, on_hold: bool) -> str:
        """Why it is to be ended: nothing was heard of it for long although it should move. "" while all is well.

        on_hold  whether it was told to stand
        """
        now, news = self._clock(), (view.status, view.step, len(view.notes), on_hold)
        if news != self._news:
            moved = self._news is not None and self._news[0] is JobStatus.RUNNING and not self._news[3]
            self._longest_s = max(self._longest_s, (now - self._since) * moved)
            self._news, self._since = news, now
        still = now - self._since
        begun = view.status is JobStatus.RUNNING and 0 < view.total != view.step  # its start and its end tell nothing
        if not begun or on_hold or still <= max(STILL_S, PATIENCE * self._longest_s):
            return ""
        return (
            f"Nothing has been heard of the fit for {still:.0f} s: it stood at step {view.step:,} of {view.total:,}, and was "
            "ended. Try again starts it anew."
        )
