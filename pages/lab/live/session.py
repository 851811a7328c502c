"""One visitor's current fit on a page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from gdm_core.analysis.matching import Order, find_order, in_order
from gdm_core.engine import Engine, FitResult, Job, JobStatus, JobView
from gdm_core.engine.results import TrialStates
from gdm_core.errors import GdmError
from gdm_studio.plot import palette
from pages.lab.live.queries import Queries
from pages.lab.live.state import Array, Curve, FitState, PageSpec, is_fit_of, unpack

MIN_PROGRESS, MIN_SECONDS = 0.3, 1.0  # share of steps and time after which a running fit replaces an earlier result
MAX_RESULTS = 16  # more than there are numbers of states
MAX_NEIGHBOURS = 2  # jobs at a time
SLOW_FIT_S = 10.0  # slower fits start on request only


class FitSession:
    """The current fit of a page. Methods return at once; the caller closes the session.

    queries          queries about finished fits
    preview_queries  queries of the slider preview
    memory           objects that a page stores with the fit, by name
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.queries, self.preview_queries = Queries(engine, name), Queries(engine, name)
        self.query = self.queries.ask
        self.memory: dict[Hashable, Any] = {}
        self._spec: PageSpec | None = None
        self._job: Job | None = None
        self._states_job: Job | None = None
        self._states_of = ""  # fingerprint of the held-out trials of that job
        self._results: OrderedDict[str, FitResult] = OrderedDict()
        self._state = FitState("running")
        self._finished: FitState | None = None
        self._anchor = self._widest = self._state  # determine the colours of the next fit
        self._first_order: Order | None = None
        self._cancelled = self._interrupted = False
        self._message = ""

    # ---- requests ---------------------------------------------------------------------------------
    def request(self, spec: PageSpec, *, first_order: Order | None = None) -> None:
        """Request a fit; the latest request wins. `first_order` comes from a copied link."""
        before, self._spec = self._spec, spec
        interrupted, self._interrupted = self._interrupted, False
        if before is not None and spec.key == before.key:
            self._update_spec(before, spec)
            if interrupted:
                self.retry()
            return
        if before is None:
            self._first_order = first_order
        self._anchor = self._last_states
        if self._anchor.n_states >= self._widest.n_states or not is_fit_of(self._widest, spec):
            self._widest = self._anchor
        self._end_job()
        self._message, self._cancelled = "", False
        self._job = self.preview_queries.pop_running(f"fit-{spec.n_states}", spec.key)
        self.preview_queries.cancel_all()  # a waiting fit is submitted again at a higher priority
        self.queries.cancel_idle()  # the fit needs the workers
        if self._job is None:
            self._start()

    def _update_spec(self, before: PageSpec, spec: PageSpec) -> None:
        """Replace the held-out trials or scores of the same fit."""
        shown = self._state.spec
        changed = spec.dataset is not before.dataset or spec.measure != before.measure or spec.choice != before.choice
        if changed and shown is not None and shown.key == spec.key:
            self._show(replace(self._state, spec=spec))

    def _show(self, state: FitState) -> None:
        """Show a changed state of the same fit."""
        self._state = state
        if self._finished is not None and self._finished.origin is state.origin:
            self._finished = state

    def retry(self) -> None:
        """Start the fit that failed again."""
        self._end_job()
        self._message, self._cancelled = "", False
        self._start()

    def cancel(self) -> None:
        """Cancel the running fit; the earlier result stays."""
        self._end_job()
        self._message, self._cancelled = "", True

    def leave(self) -> None:
        """Cancel all jobs until the next request, which starts an unfinished fit again."""
        self._interrupted = self._interrupted or self.running
        self.close()

    def close(self) -> None:
        """Cancel all jobs and drop the data on the workers."""
        self._end_job()
        self._states_job = None
        self.preview_queries.cancel_all()
        self.engine.forget(self.name)

    @property
    def spec(self) -> PageSpec | None:
        """The last request."""
        return self._spec

    # ---- the displayed state ------------------------------------------------------------------------------------
    @property
    def running(self) -> bool:
        return self._job is not None

    def poll(self) -> FitState:
        """Return the current state: the same object while nothing changes."""
        state = self._read()
        if not state.is_same_picture(self._state):
            self._state = state
        self._complete()
        return self._state

    @property
    def completing(self) -> bool:
        """Whether states of other held-out trials are being computed with the displayed fit."""
        return self._states_job is not None

    def _complete(self) -> None:
        """Add the states of the requested held-out trials to the displayed fit."""
        state, spec, result, job = self._state, self._spec, self._state.result, self._states_job
        wanted = None
        if result is not None and state.spec is not None and spec is not None and is_fit_of(state, spec):
            wanted = None if result.has_states(spec.test) else spec.dataset
        if job is not None and (wanted is None or self._states_of != wanted.test.fingerprint):
            job.cancel()
            self._states_job = job = None
        if wanted is None or result is None or state.spec is None:
            return
        if job is None:
            if not self.running:
                self._states_of = wanted.test.fingerprint
                asked = replace(state.spec, dataset=wanted, test=wanted.test)
                self._states_job = self.engine.submit(asked, session=self.name, name="states", known=result)
            return
        view = job.poll()
        if view.status.final:
            self._states_job = None
            failed = TrialStates(wanted.test.fingerprint, error=view.message)
            states = view.result.states if view.status is JobStatus.DONE else failed
            found = replace(result, states=states)
            self.keep(found)
            self._show(replace(state, result=found))

    def find(self, spec: PageSpec) -> FitResult | None:
        """Return the result of a fit with its states, if it is known."""
        result = self._results.get(spec.key)
        if result is None or not result.has_states(spec.test):
            result = self.engine.cache.find(spec)[0]
        if result is None or result.snapshot is None or not result.has_states(spec.test):
            return None
        self.keep(result)
        return result

    def keep(self, result: FitResult) -> None:
        """Keep a result, dropping the oldest of too many."""
        self._results[result.key] = result
        self._results.move_to_end(result.key)
        while len(self._results) > MAX_RESULTS:
            self._results.popitem(last=False)

    @property
    def last(self) -> FitState | None:
        """The last finished fit."""
        return self._finished

    def choose_order(self, spec: PageSpec, raw: tuple[Array, ...]) -> Order:
        """Return the order that states `raw` would get if their fit were requested now."""
        return self._choose_order(spec, raw, self._last_states)

    @property
    def colour_anchor(self) -> tuple[Array, ...]:
        """States that determine the colours of `choose_order`; the same object while they do not change."""
        return self._last_states.states

    @property
    def _last_states(self) -> FitState:
        return self._state if self._state.states else self._anchor

    def _choose_order(self, spec: PageSpec, raw: tuple[Array, ...], anchor: FitState) -> Order:
        """Return the order of a model's states `raw`, of all trials or the first ones.

        A copied link determines the order of the first fit; later true states, earlier fits, or contrast do.
        """
        if not raw:
            return ()
        if self._first_order is not None and len(self._first_order) == raw[0].shape[1]:
            return self._first_order
        before, widest = (
            one.states[: len(raw)] if one.states and is_fit_of(one, spec) else None for one in (anchor, self._widest)
        )
        truth = None if spec.dataset.truth is None else spec.dataset.truth[: len(raw)]
        return find_order(raw, truth, before, palette.DIFFERENCES, widest)

    # ---- fits of neighbouring settings --------------------------------------------------------------------------
    def fit_neighbours(self, specs: Sequence[PageSpec]) -> bool:
        """Fit unknown settings at low priority, in their order; return whether results are missing.

        Fits that wait for a worker, and are not among the first any more, are cancelled.
        """
        current = self._state.result
        if self.running or current is None or current.seconds > SLOW_FIT_S:
            return False
        pending = 0
        left = iter(specs)
        for spec in left:
            if self.find(spec) is None:
                query = self.preview_queries.ask_fit(f"fit-{spec.n_states}", spec)
                pending += query.pending
                if query.fresh:
                    self.keep(query.value)
            if pending == MAX_NEIGHBOURS:
                break
        self.preview_queries.cancel_queued(f"fit-{spec.n_states}" for spec in left)
        return pending > 0

    # ---- jobs ---------------------------------------------------------------------------------------------------
    def _start(self) -> None:
        if self._spec is None:
            return
        result = self._results.get(self._spec.key)
        if result is not None and result.has_states(self._spec.test):
            self._finish(replace(result, from_cache=True))
            return
        try:
            self._job = self.engine.submit(self._spec, session=self.name, known=result)
        except GdmError as error:
            self._message = str(error)

    def _end_job(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.cancel()

    # ---- states -------------------------------------------------------------------------------------------------
    def _read(self) -> FitState:
        view = None if self._job is None else self._job.poll()
        if view is not None and view.status.final:
            self._job = None
            if view.status is JobStatus.DONE:
                self._finish(view.result, view.notes)
                return self._state
            self._message = view.message or "The fit ended without a result."
            view = None
        return self._interim(view)

    def _finish(self, result: FitResult, notes: tuple[str, ...] = ()) -> None:
        """Show the result of the last request."""
        spec = self._spec
        assert spec is not None
        self.keep(result)
        raw = unpack(result.snapshot, spec.trials) if result.snapshot is not None else ()
        order = self._choose_order(spec, raw, self._anchor)
        end = result.steps[-1] if result.steps else 0
        self._state = self._finished = FitState(
            "fresh",
            spec,
            in_order(raw, order),
            order,
            result,
            step=end,
            total=end,
            curve=Curve.from_fit(spec, result.steps, result.elbos, end),
            recorded=(end, end) if len(result.snapshots) > 1 else (0, 0),
            notes=notes,
        )
        self._first_order = None

    def _interim(self, view: JobView | None) -> FitState:
        """Return the state of an unfinished fit: its latest snapshot, or the earlier result."""
        spec, running = self._spec, self.running
        shown = self._state if running else self._finished or self._state
        if spec is None:
            return shown
        fields: dict[str, Any] = {
            "message": self._message,
            "fitting": running,
            "cancelled": self._cancelled,
            "curve": replace(shown.curve, earlier=shown.curve.earlier or running),
            "recorded": shown.recorded,
        }
        if view is not None:
            fields |= {"step": view.step, "total": view.total, "notes": view.notes, "waits": view.waits}
            if view.snapshots:
                fields["recorded"] = view.snapshots[-1].step, view.total
            if len(view.elbos) > 1:
                fields["curve"] = Curve.from_fit(spec, view.steps, view.elbos, view.total)
            far = view.seconds >= MIN_SECONDS and view.step >= MIN_PROGRESS * view.total
            if view.snapshot is not None and (far or not shown.states):
                raw = unpack(view.snapshot, spec.trials)
                order = self._choose_order(spec, raw, self._anchor)
                return FitState("running", spec, in_order(raw, order), order, **fields)
        if not shown.states:
            return FitState("running", spec, **fields)
        same = shown.spec is not None and shown.spec.key == spec.key and (running or shown.status == "fresh")
        return replace(shown, status=shown.status if same else "stale", **fields)
