"""The fit that a page requests, and one visitor's current fit on a page."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import inference
from gdm_core.analysis.inference import InferredStates
from gdm_core.analysis.matching import Order, find_order, in_order, inverse
from gdm_core.engine import Engine, FitResult, Job, JobStatus, JobView, Priority, Snapshot
from gdm_core.engine.spec import FitSpec
from gdm_core.errors import GdmError
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials
from gdm_studio.plot import palette
from pages.lab.dataset import Dataset, count_previewed
from pages.lab.live.queries import Queries, Query
from pages.ui.model_controls import Choice
from pages.ui.plot import State

Array = npt.NDArray[np.float32]
MIN_PROGRESS, MIN_SECONDS = 0.3, 1.0  # share of steps and time after which a running fit replaces an earlier result
MAX_RESULTS = 16  # more than there are numbers of states
MAX_NEIGHBOURS = 2  # jobs at a time
SLOW_FIT_S = 10.0  # slower fits start on request only


@dataclass(frozen=True)
class Measure:
    """Scores of the card.

    scores    function of (model_bytes, train, test, *options, seed) that yields known scores, with the next part as "under_way"
    options   further plain arguments
    words     the options in words, to label scores of an earlier result
    """

    scores: Callable[..., Any] = field(default_factory=lambda: inference.score_parts)
    options: tuple[Any, ...] = ()
    words: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class PageSpec(FitSpec):
    """A FitSpec with its dataset, model choice and scores."""

    dataset: Dataset
    choice: Choice
    measure: Measure = field(default_factory=Measure)

    @classmethod
    def from_choice(cls, dataset: Dataset, choice: Choice, measure: Measure | None = None, **changes: Any) -> Self:
        """Return the fit of a dataset with a model choice; `changes` override its configuration."""
        return cls(
            choice.family,
            {**choice.config, **changes},
            dataset.train,
            preview=tuple(range(count_previewed(dataset.train))),
            use_cache=dataset.keep,
            dataset=dataset,
            choice=choice,
            measure=measure or Measure(),
        )

    @property
    def n_states(self) -> int:
        return int(self.config["n_states"])

    @cached_property
    def number(self) -> str:
        """Name of the settings: the fit and its held-out trials."""
        return hashlib.sha256(f"{self.key}/{self.dataset.test.fingerprint}".encode()).hexdigest()[:12]

    @cached_property
    def log_scale(self) -> float:
        """Difference of the ELBO in standardised units and in the data's units, in nats per time step.

        Only observed values change their units, so channels with gaps count less.
        """
        scaler = Scaler.from_trials(self.trials)
        return sum(scaler.log_jacobian(trial.y) for trial in self.trials) / self.trials.n_samples

    def describe_changes(self, other: PageSpec) -> str:
        """Return the main settings that differ from `other`, in words; "" if none do."""
        ours, theirs = self.choice, other.choice
        if ours.label != theirs.label:
            return f"{ours.label}, K {ours.n_states}"
        return ", ".join(f"{name} {value}" for name, value in ours.facts if (name, value) not in theirs.facts)


@dataclass(frozen=True)
class Curve:
    """ELBO of a fit at some steps, in nats per time step and units of the data.

    total    maximum number of steps, 0 if unknown
    earlier  whether it belongs to the previous fit
    """

    steps: tuple[int, ...] = ()
    elbos: tuple[float, ...] = ()
    total: int = 0
    earlier: bool = False

    @classmethod
    def from_fit(cls, spec: PageSpec, steps: tuple[int, ...], elbos: tuple[float, ...], total: int) -> Curve:
        """Convert the ELBO of a fit from standardised units."""
        return cls(steps, tuple(elbo - spec.log_scale for elbo in elbos) if elbos else (), total)


EMPTY_CURVE = Curve()


@dataclass(frozen=True, eq=False)
class FitState:
    """State of a fit on its page.

    status       "fresh": the result. "running": states of a running fit, if any. "stale": an earlier result
    spec         fit that the states belong to
    states       soft states [T, K] of each training trial, in the order of colours; () if there are none
    order        column j of `states` is column order[j] of the model
    result       finished fit that the states come from
    step, total  training steps of the current fit
    curve        ELBO of the current fit, or of the previous one while there are too few steps
    recorded     (step of the latest snapshot, last step) of the curve's fit; (0, 0) without snapshots
    message      error, for the user
    notes        events such as a lost worker, for the user
    waits        what a fit without progress waits for
    fitting      whether a fit is running
    cancelled    whether the user cancelled the fit
    origin       identity of the states; a figure must not mix states of several origins
    """

    status: State
    spec: PageSpec | None = None
    states: tuple[Array, ...] = ()
    order: Order = ()
    result: FitResult | None = None
    step: int = 0
    total: int = 0
    curve: Curve = EMPTY_CURVE
    recorded: tuple[int, int] = (0, 0)
    message: str = ""
    notes: tuple[str, ...] = ()
    waits: str = ""
    fitting: bool = False
    cancelled: bool = False
    origin: object = field(default_factory=object)
    _memory: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_states(self) -> int:
        return len(self.order)

    @property
    def summary(self) -> str:
        """Time, status and seed of the fit in one line."""
        if self.status == "running":
            return ""
        parts = []
        if self.result is not None:
            status = self.result.fit_status
            parts.append({"max_steps": "Reached step limit"}.get(status, status.capitalize()))
            parts.append(f"{'cached, ' if self.result.from_cache else ''}{self.result.seconds:.1f} s")
        if self.spec is not None and "seed" in self.spec.config:
            parts.append(f"seed {self.spec.config['seed']}")
        return " · ".join(parts)

    def is_same_picture(self, other: FitState) -> bool:
        """Return whether both states look the same on the page."""
        names = [
            "status",
            "order",
            "step",
            "recorded",
            "message",
            "notes",
            "waits",
            "fitting",
            "cancelled",
            "spec",
            "result",
        ]
        return (
            all(_is_equal(getattr(self, name), getattr(other, name)) for name in names)
            and self.curve.earlier == other.curve.earlier
            and len(self.states) == len(other.states)
            and all(a is b or np.array_equal(a, b) for a, b in zip(self.states, other.states, strict=True))
        )

    def memoize(
        self, name: Hashable, make: Callable[[], Any], of: tuple[Any, ...] = (), settings: Hashable = ()
    ) -> Any:
        """Return `make()`, stored with this state while its inputs stay the same.

        of        inputs that are compared by identity
        settings  plain values that are compared by equality
        """
        hash(settings)  # fails for arrays at the first call
        known = self._memory.get(name)
        same = known is not None and len(known[0]) == len(of) and all(a is b for a, b in zip(known[0], of, strict=True))
        if known is None or not same or known[1] != settings:
            self._memory[name] = known = (of, settings, make())
        return known[2]


def _is_equal(mine: Any, other: Any) -> bool:
    return mine is other or (not isinstance(mine, PageSpec | FitResult) and mine == other)


def unpack(snapshot: Snapshot, trials: Trials) -> tuple[Array, ...]:
    """Return soft states [T, K] of each trial; thinned ones are repeated to full length."""
    found = []
    for position, index in enumerate(snapshot.preview):
        states = snapshot.states(position)
        stride = snapshot.strides[position]
        full = np.repeat(states, stride, axis=0) if stride > 1 else states
        found.append(full[: trials[index].n_samples])
    return tuple(found)


def _is_fit_of(state: FitState, spec: PageSpec) -> bool:
    """Return whether the states belong to the training trials of `spec`."""
    return state.spec is not None and state.spec.trials.fingerprint == spec.trials.fingerprint


def has_default_order(state: FitState) -> bool:
    """Return whether a link shows these colours without a parameter."""
    if state.spec is None or not state.states:
        return True
    truth = state.spec.dataset.truth

    def choose() -> Order:
        return find_order(in_order(state.states, inverse(state.order)), truth, None, palette.DIFFERENCES)

    return bool(state.order == state.memoize("default-order", choose, of=state.states))


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
        self._results: OrderedDict[str, FitResult] = OrderedDict()
        self._inferred: OrderedDict[str, InferredStates] = OrderedDict()
        self._rough: OrderedDict[str, InferredStates] = OrderedDict()  # of precomputed results
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
        if self._anchor.n_states >= self._widest.n_states or not _is_fit_of(self._widest, spec):
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
            self._state = replace(self._state, spec=spec)
            if self._finished is not None and self._finished.origin is self._state.origin:
                self._finished = self._state

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
        return self._state

    def find(self, spec: PageSpec) -> FitResult | None:
        """Return the result of a fit with its states, if it is known."""
        result = self._results.get(spec.key) or self.engine.cache.get(spec.key)[0]
        if result is None or result.snapshot is None:
            return None
        _keep(self._results, result.key, result)
        return result

    def keep(self, spec: PageSpec, result: FitResult, rough: InferredStates) -> None:
        """Keep a precomputed result, and 8-bit states of all its trials for pictures."""
        name = _name_states(spec)
        if name not in self._rough:
            _keep(self._results, spec.key, replace(result, key=spec.key))
            _keep(self._rough, name, rough)

    def query_states(
        self, spec: PageSpec, result: FitResult, *, ask: bool = True, exact: bool = False, preview: str = ""
    ) -> Query:
        """Query the states of all trials in the model's order, without an earlier result.

        ask      whether to compute unknown states
        exact    whether 8-bit states of a precomputed result do not suffice
        preview  name of the query, for the slider preview
        """
        test, key = spec.dataset.test, _name_states(spec)
        if (inferred := self._inferred.get(key)) is not None:
            return Query(inferred, fresh=True, name="look")
        if not exact and (rough := self._rough.get(key)) is not None:
            return Query(rough, fresh=True, name="look")
        if not ask:
            self.queries.collect()
            found = self.queries.find("look", key)  # asked for before the next fit began
            return Query(found, fresh=found is not None, name="look")
        queries, name = (self.preview_queries, preview) if preview else (self.queries, "look")
        query = queries.ask(name, key, inference.infer, result.model_bytes, spec.trials, test, priority=Priority.HIGH)
        if query.fresh:
            _keep(self._inferred, key, query.value)
        return query if query.fresh else replace(query, value=None)

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
            one.states[: len(raw)] if one.states and _is_fit_of(one, spec) else None for one in (anchor, self._widest)
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
                    _keep(self._results, spec.key, query.value)
            if pending == MAX_NEIGHBOURS:
                break
        self.preview_queries.cancel_queued(f"fit-{spec.n_states}" for spec in left)
        return pending > 0

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


def _name_states(spec: PageSpec) -> str:
    return f"{spec.key}/{spec.dataset.test.fingerprint}"


def _keep(results: OrderedDict[str, Any], key: str, value: Any) -> None:
    """Store a result, dropping the oldest of too many."""
    results[key] = value
    results.move_to_end(key)
    while len(results) > MAX_RESULTS:
        results.popitem(last=False)
