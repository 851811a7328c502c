"""One visitor's current fit on one page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gdm_core.analysis import inference
from gdm_core.analysis.inference import InferredStates
from gdm_core.analysis.matching import Order, in_order
from gdm_core.engine import Engine, FitResult, Job, JobStatus, JobView, Priority
from gdm_core.errors import GdmError
from pages.lab.live.queries import Queries, Query
from pages.lab.live.state import Array, ColourOrder, Curve, FitState, unpack
from pages.lab.spec import PageSpec

MIN_PROGRESS = 0.3  # share of its steps after which a running fit replaces an earlier result on the page
MAX_RESULTS = 12
MAX_NEIGHBOURS = 2  # jobs at a time
SLOW_FIT_S = 10.0  # slower fits are not started before the user asks for them


class FitSession:
    """The fit that a page shows. Methods return at once; whoever creates a session closes it.

    queries          questions about finished fits
    preview_queries  those of the slider preview
    memory           objects that a page stores with the fit, by name
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.queries, self.preview_queries = Queries(engine, name), Queries(engine, name)
        self.query = self.queries.ask
        self.memory: dict[str, Any] = {}
        self._spec: PageSpec | None = None
        self._job: Job | None = None
        self._neighbours: dict[str, Job] = {}
        self._failed: set[str] = set()
        self._results: OrderedDict[str, FitResult] = OrderedDict()
        self._inferred: OrderedDict[str, InferredStates] = OrderedDict()
        self._state = FitState("running")
        self._finished: FitState | None = None
        self._colours = ColourOrder()
        self._cancelled = False
        self._message = ""

    # ---- requests ---------------------------------------------------------------------------------
    def request(self, spec: PageSpec, *, first_order: Order | None = None) -> None:
        """Ask for a fit; the latest request wins. `first_order` comes from a copied link."""
        before, self._spec = self._spec, spec
        if before is not None and spec.key == before.key:
            self._update_spec(before, spec)
            return
        if before is None:
            self._colours.first = first_order
        self._colours.follow(self._state)
        self._end_job()
        self._message, self._cancelled = "", False
        neighbour = self._neighbours.get(spec.key)
        if neighbour is not None and neighbour.poll().status in (JobStatus.RUNNING, JobStatus.DONE):
            self._job = self._neighbours.pop(spec.key)
        self._cancel_neighbours()  # one that waits is submitted again at a higher priority
        if self._job is None:
            self._start()

    def _update_spec(self, before: PageSpec, spec: PageSpec) -> None:
        """Take over other held-out trials or labels of the same fit."""
        shown = self._state.spec
        changed = spec.dataset is not before.dataset or spec.measure != before.measure or spec.choice != before.choice
        if changed and shown is not None and shown.key == spec.key:
            self._state = replace(self._state, spec=spec)
            if self._finished is not None and self._finished.origin is self._state.origin:
                self._finished = self._state

    def retry(self) -> None:
        """Start the fit that failed again."""
        self._end_job()
        self._message, self._cancelled = "", False
        self._start()

    def cancel(self) -> None:
        """End the running fit; the earlier result stays."""
        self._end_job()
        self._message, self._cancelled = "", True

    def close(self) -> None:
        """End all jobs; let the workers forget the data."""
        self._end_job()
        self._cancel_neighbours()
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
        return self._state

    def find(self, spec: PageSpec) -> FitResult | None:
        """Return the result of a fit with its states, if it is known."""
        result = self._results.get(spec.key) or self.engine.cache.get(spec.key)[0]
        if result is None or result.snapshot is None:
            return None
        _keep(self._results, result.key, result)
        return result

    def query_states(self, spec: PageSpec, result: FitResult, preview: str = "") -> Query:
        """Ask for the exact states of all trials in the model's order; no earlier result stands in for them.

        preview  name of the question, for the slider preview
        """
        test = spec.dataset.test
        key = f"{result.key}/{test.fingerprint}"
        if (inferred := self._inferred.get(key)) is not None:
            return Query(inferred, fresh=True, name="look")
        queries, name = (self.preview_queries, preview) if preview else (self.queries, "look")
        query = queries.ask(name, key, inference.infer, result.model_bytes, spec.trials, test, priority=Priority.HIGH)
        if query.fresh:
            _keep(self._inferred, key, query.value)
        return query if query.fresh else replace(query, value=None)

    def choose_order(self, spec: PageSpec, raw: tuple[Array, ...]) -> Order:
        """Return the order that the states `raw` would get if their fit were requested now."""
        return self._colours.choose(spec, raw, self._state)

    @property
    def colour_anchor(self) -> tuple[Array, ...]:
        """States whose colours `choose_order` follows; the same object while they do not change."""
        return self._colours.followed(self._state)

    # ---- fits of neighbouring settings --------------------------------------------------------------------------
    def fit_neighbours(self, specs: Sequence[PageSpec]) -> bool:
        """Fit unknown settings at low priority, in their order; return whether results are missing."""
        self._collect_neighbours()
        current = self._state.result
        if self.running or current is None or current.seconds > SLOW_FIT_S:
            return False
        missing = [spec for spec in specs if spec.key not in self._failed and self.find(spec) is None]
        for spec in missing:
            if len(self._neighbours) < MAX_NEIGHBOURS and spec.key not in self._neighbours:
                job = self.engine.submit(spec, session=self.name, name="neighbour", priority=Priority.LOW)
                self._neighbours[spec.key] = job
        return bool(missing)

    def _cancel_neighbours(self) -> None:
        while self._neighbours:
            self._neighbours.popitem()[1].cancel()

    def _collect_neighbours(self) -> None:
        for key, job in list(self._neighbours.items()):
            view = job.poll()
            if view.status is JobStatus.DONE:
                _keep(self._results, view.result.key, view.result)
            elif view.status.final:
                self._failed.add(key)
            if view.status.final:
                del self._neighbours[key]

    # ---- jobs ---------------------------------------------------------------------------------------------------
    def _start(self) -> None:
        if self._spec is None:
            return
        if (result := self._results.get(self._spec.key)) is not None:
            self._finish(replace(result, from_cache=True))
            return
        try:
            self._job = self.engine.submit(self._spec, session=self.name)
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
        _keep(self._results, result.key, result)
        raw = unpack(result.snapshot, spec.trials) if result.snapshot is not None else ()
        order = self._colours.choose(spec, raw)
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
        self._colours.first = None

    def _interim(self, view: JobView | None) -> FitState:
        """Return the picture of a fit that is not done: its latest snapshot, or the earlier result."""
        spec, running = self._spec, self.running
        now = self._state if running else self._finished or self._state
        if spec is None:
            return now
        fields: dict[str, Any] = {
            "message": self._message,
            "fitting": running,
            "cancelled": self._cancelled,
            "curve": replace(now.curve, earlier=now.curve.earlier or running),
            "recorded": now.recorded,
        }
        if view is not None:
            fields |= {"step": view.step, "total": view.total, "notes": view.notes}
            if view.snapshots:
                fields["recorded"] = view.snapshots[-1].step, view.total
            if len(view.elbos) > 1:
                fields["curve"] = Curve.from_fit(spec, view.steps, view.elbos, view.total)
        ripe = view is not None and (not now.states or view.step >= MIN_PROGRESS * view.total)
        if view is not None and view.snapshot is not None and ripe:
            raw = unpack(view.snapshot, spec.trials)
            order = self._colours.choose(spec, raw)
            return FitState("running", spec, in_order(raw, order), order, **fields)
        if not now.states:
            return FitState("running", spec, **fields)
        same = now.spec is not None and now.spec.key == spec.key and (running or now.status == "fresh")
        return replace(now, status=now.status if same else "stale", **fields)


def _keep(results: OrderedDict[str, Any], key: str, value: Any) -> None:
    """Store a result, dropping the oldest of too many."""
    results[key] = value
    results.move_to_end(key)
    while len(results) > MAX_RESULTS:
        results.popitem(last=False)
