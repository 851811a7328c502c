"""One visitor's current fit on a page: its job, its result, and fits of neighbouring settings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from gdm_core.analysis.matching import Order
from gdm_core.arrays import Array
from gdm_core.engine import Engine, FitResult, Job, JobStatus, Priority
from gdm_core.engine.results import TrialStates
from pages.lab.live.queries import Queries
from pages.lab.live.state import ColourAnchor, FitState, PageSpec, is_fit_of, show_job, show_result

MAX_NEIGHBOURS = 2  # jobs at a time
SLOW_FIT_S = 10.0  # slower fits start on request only
STATES = "states"  # query for the states of other held-out trials


class FitSession:
    """The current fit of a page. Methods return at once; the caller closes the session.

    queries          queries about finished fits
    preview_queries  queries of the slider preview
    memory           objects that a page stores with the fit, by name
    spec             the last request
    last             state of the last finished fit
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.queries, self.preview_queries = Queries(engine, name), Queries(engine, name)
        self.query = self.queries.ask
        self.memory: dict[Hashable, Any] = {}
        self.spec: PageSpec | None = None
        self.last: FitState | None = None
        self._jobs: dict[str, Job] = {}  # by key of the fit
        self._failed: set[str] = set()  # neighbours, which are not tried twice
        self._state, self._anchor = FitState("running"), ColourAnchor()
        self._cancelled = self._interrupted = False
        self._message, self._address = "", 0

    # ---- requests -----------------------------------------------------------------------------------------------
    def request(self, spec: PageSpec, *, link_order: Order | None = None, address: int = 0) -> None:
        """Request a fit; the latest request wins.

        link_order  order of colours in the page's address, which a first fit takes
        address     another number than before if the address was opened, as by Back; its first fit takes its colours
        """
        self.queries.news.clear()  # a script runs
        before, self.spec = self.spec, spec
        is_opened, self._address = before is None or address != self._address, address
        if before is not None and spec.key == before.key:
            shown = self._state.spec
            changed = any(getattr(spec, name) != getattr(before, name) for name in ("dataset", "measure", "choice"))
            if changed and shown is not None and shown.key == spec.key:
                self._show(replace(self._state, spec=spec))  # with other held-out trials or scores
            if self._interrupted:
                self.retry()
            return
        # Back must not add colours that follow the fit it left to the address: that would be a new step of the history.
        self._anchor = ColourAnchor(link=link_order) if is_opened else self._anchor.move_on(self._state, spec)
        self._cancel(self._jobs.keys() - {spec.key})
        for name in list(self.preview_queries.pending):
            self.preview_queries.cancel(name)
        self.queries.cancel_idle()  # the fit needs the workers
        self.retry()

    def retry(self) -> None:
        """Start the requested fit, or promote its job."""
        self._message, self._cancelled, self._interrupted = "", False, False
        if self.spec is not None:
            self._submit(self.spec, Priority.HIGH)

    def cancel(self) -> None:
        """Cancel the running fit; the earlier result stays."""
        self._cancel(self._jobs)
        self._message, self._cancelled = "", True

    def leave(self) -> None:
        """Cancel all jobs until the next request, which starts an unfinished fit again."""
        self._interrupted = self._interrupted or self.running
        self.close()

    def close(self) -> None:
        """Cancel all jobs and drop the data on the workers."""
        self._cancel(self._jobs)
        self.engine.forget(self.name)

    # ---- the displayed state ------------------------------------------------------------------------------------
    @property
    def running(self) -> bool:
        return self.spec is not None and self.spec.key in self._jobs

    @property
    def completing(self) -> bool:
        """Whether states of other held-out trials are being computed with the displayed fit."""
        return STATES in self.queries.pending

    def poll(self) -> FitState:
        """Return the current state: the same object while nothing changes."""
        if self.spec is not None:
            job = self._jobs.get(self.spec.key)
            view = None if job is None else job.poll()
            if view is not None and view.status.final:
                self._jobs.pop(self.spec.key, None)
                if view.status is JobStatus.DONE:
                    self._state = self.last = show_result(self.spec, view.result, self._anchor, view.notes)
                else:
                    self._message = view.message or "The fit ended without a result."
                view = None
            shown = self._state if view is not None else self.last or self._state
            state = show_job(self.spec, view, shown, self._anchor, message=self._message, cancelled=self._cancelled)
            if not state.is_same_picture(self._state):
                self._state = state
        self._complete()
        return self._state

    def _show(self, state: FitState) -> None:
        """Show a changed state of the same fit."""
        if self.last is not None and self.last.origin is state.origin:
            self.last = state
        self._state = state

    def _complete(self) -> None:
        """Add the states of the requested held-out trials to the displayed fit."""
        state, spec, result = self._state, self.spec, self._state.result
        if result is None or spec is None or state.spec is None or not is_fit_of(state, spec):
            return
        if result.has_states(spec.test):
            self.queries.cancel(STATES)
            return
        if self.running and not self.completing:
            return  # the fit goes first
        asked = replace(state.spec, dataset=spec.dataset, test=spec.test)
        query = self.queries.ask_fit(STATES, asked, Priority.HIGH)
        if query.pending:
            return
        held_out = spec.dataset.test.fingerprint
        states = query.value.states if query.fresh else TrialStates(held_out, error=query.message)
        self._show(replace(state, result=result.with_states(states)))

    # ---- colours ------------------------------------------------------------------------------------------------
    def choose_order(self, spec: PageSpec, raw: tuple[Array, ...]) -> Order:
        """Return the order that states `raw` would get if their fit were requested now."""
        return self._anchor.move_on(self._state, spec).choose_order(spec, raw)

    @property
    def colour_anchor(self) -> tuple[Array, ...]:
        """States that determine the colours of `choose_order`; the same object while they do not change."""
        return self._state.states or self._anchor.last.states

    # ---- jobs and results ---------------------------------------------------------------------------------------
    def fit_neighbours(self, specs: Sequence[PageSpec]) -> bool:
        """Fit unknown settings at low priority, in their order; return whether results are missing.

        Fits that wait for a worker, and are not among the first any more, are cancelled.
        """
        current = self._state.result
        if self.running or current is None or current.seconds > SLOW_FIT_S:
            return False
        self._collect()
        missing = (spec for spec in specs if spec.key not in self._failed and self.find(spec) is None)
        first = list(islice(missing, MAX_NEIGHBOURS))
        others = {key: job for key, job in self._jobs.items() if key not in {spec.key for spec in first}}
        self._cancel(key for key, job in others.items() if job.poll().status is JobStatus.QUEUED)
        for spec in first:
            self._submit(spec, Priority.LOW)
        return bool(first)

    def find(self, spec: PageSpec) -> FitResult | None:
        """Return the result of a fit with its states, if it is known."""
        result, _ = self.engine.cache.find(spec)
        return result if result is not None and result.snapshot is not None and result.has_states(spec.test) else None

    def _collect(self) -> None:
        """Drop the jobs of neighbours that have ended."""
        for key, job in list(self._jobs.items()):
            if (status := job.poll().status).final:
                self._jobs.pop(key, None)
                if status is not JobStatus.DONE:
                    self._failed.add(key)

    def _submit(self, spec: PageSpec, priority: Priority) -> None:
        """Start a fit, or raise the priority of its job."""
        job = self._jobs.get(spec.key)
        if job is None:
            self._jobs[spec.key] = self.engine.submit(spec, session=self.name, priority=priority)
        else:
            job.priority = max(job.priority, priority)

    def _cancel(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            if (job := self._jobs.pop(key, None)) is not None:  # the channel's thread may have collected it
                job.cancel()
