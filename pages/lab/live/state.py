"""The fit that a page requests, and its state at one moment."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from gdm_core.analysis import inference
from gdm_core.analysis.matching import Order, find_order, in_order, inverse
from gdm_core.arrays import Array
from gdm_core.engine import FitResult, JobView, Snapshot
from gdm_core.engine.results import TrialStates
from gdm_core.engine.spec import FitSpec
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials
from gdm_studio.plot import palette
from pages.lab.dataset import Dataset, count_previewed
from pages.ui.model_controls import Choice
from pages.ui.plot import State

MIN_PROGRESS, MIN_SECONDS = 0.3, 1.0  # share of steps and time after which a running fit replaces an earlier result


@dataclass(frozen=True)
class Measure:
    """Scores of the card.

    scores    function of (model_bytes, train, test, *options, seed) that yields known scores, with the next part as "under_way"
    options   further plain arguments
    words     the options in words, to label scores of an earlier result
    in_tabs   whether tabs need the scores, so that the script runs again when they arrive
    """

    scores: Callable[..., Any] = field(default_factory=lambda: inference.score_parts)
    options: tuple[Any, ...] = ()
    words: str = ""
    in_tabs: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class PageSpec(FitSpec):
    """A FitSpec with its dataset, model choice and scores."""

    dataset: Dataset
    choice: Choice
    measure: Measure = field(default_factory=Measure)

    @classmethod
    def from_choice(cls, dataset: Dataset, choice: Choice, **changes: Any) -> Self:
        """Return the fit of a dataset with a model choice; `changes` override its configuration."""
        return cls(
            choice.family,
            {**choice.config, **changes},
            dataset.train,
            preview=tuple(range(count_previewed(dataset.train))),
            test=dataset.test,
            use_cache=dataset.keep,
            dataset=dataset,
            choice=choice,
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
    curve: Curve = Curve()
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

    def find_states(self, test: Trials) -> TrialStates | None:
        """Return the states of all trials in the model's order, None until they are known for these held-out trials."""
        result = self.result
        return None if result is None or not result.has_states(test) else result.states

    @property
    def summary(self) -> str:
        """Status and time of the fit, and its seed unless 0, in one line."""
        if self.status == "running":
            return ""
        parts = []
        if self.result is not None:
            status = self.result.fit_status
            words = {"max_steps": "Reached step limit"}.get(status, status.capitalize())
            saved = " (saved result)" if self.result.from_cache else ""
            parts.append(f"{words} in {self.result.seconds:.1f} s{saved}")
        if self.spec is not None and self.spec.config.get("seed"):
            parts.append(f"seed {self.spec.config['seed']}")
        return " · ".join(parts)

    def is_same_picture(self, other: FitState) -> bool:
        """Return whether both states look the same on the page."""
        plain = ("status", "order", "step", "recorded", "message", "notes", "waits", "fitting", "cancelled")
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and self.spec is other.spec
            and self.result is other.result
            and self.curve.earlier == other.curve.earlier
            and len(self.states) == len(other.states)
            and all(a is b or np.array_equal(a, b) for a, b in zip(self.states, other.states, strict=True))
        )

    def memoize(
        self, name: Hashable, make: Callable[[], Any], inputs: tuple[Any, ...] = (), settings: Hashable = ()
    ) -> Any:
        """Return `make()`, stored with this state while its inputs stay the same.

        inputs    values that are compared by identity
        settings  plain values that are compared by equality
        """
        hash(settings)  # fails for arrays at the first call
        key = [settings, *map(id, inputs)]
        known = self._memory.get(name)
        if known is None or known[0] != key:
            self._memory[name] = known = (key, inputs, make())  # `inputs` stay, so that no other object gets their ids
        return known[2]


def unpack(snapshot: Snapshot, trials: Trials) -> tuple[Array, ...]:
    """Return soft states [T, K] of each trial; thinned ones are repeated to full length."""
    return tuple(
        np.repeat(snapshot.states(position), snapshot.strides[position], axis=0)[: trials[index].n_samples]
        for position, index in enumerate(snapshot.preview)
    )


def is_fit_of(state: FitState, spec: PageSpec) -> bool:
    """Return whether the states belong to the training trials of `spec`."""
    return state.spec is not None and state.spec.trials.fingerprint == spec.trials.fingerprint


def has_default_order(state: FitState) -> bool:
    """Return whether a link shows these colours without a parameter."""
    if state.spec is None or not state.states:
        return True
    truth = state.spec.dataset.truth

    def choose() -> Order:
        return find_order(in_order(state.states, inverse(state.order)), truth, None, palette.DIFFERENCES)

    return bool(state.order == state.memoize("default-order", choose, inputs=state.states))


# ---- the state of a fit as a function of its job, its result and earlier states -----------------------------------
@dataclass(frozen=True, eq=False)
class ColourAnchor:
    """What the colours of a fit follow: a copied link, then true states, earlier states, or contrast.

    last    earlier state with a picture
    widest  earlier state of the same trials with the most columns
    link    order in a copied link, until there is a picture
    """

    last: FitState = field(default_factory=lambda: FitState("running"))
    widest: FitState = field(default_factory=lambda: FitState("running"))
    link: Order | None = None

    def move_on(self, shown: FitState, spec: PageSpec) -> ColourAnchor:
        """Return the anchor of the next fit, `spec`, requested while `shown` is on the page."""
        last = shown if shown.states else self.last
        is_widest = last.n_states >= self.widest.n_states or not is_fit_of(self.widest, spec)
        return ColourAnchor(last, last if is_widest else self.widest, None if last.states else self.link)

    def choose_order(self, spec: PageSpec, raw: tuple[Array, ...]) -> Order:
        """Return the order of a model's states `raw`, of all trials or the first ones."""
        if not raw:
            return ()
        if self.link is not None and len(self.link) == raw[0].shape[1]:
            return self.link
        n, earlier = len(raw), (self.last, self.widest)
        last, widest = (one.states[:n] if one.states and is_fit_of(one, spec) else None for one in earlier)
        truth = None if spec.dataset.truth is None else spec.dataset.truth[:n]
        return find_order(raw, truth, last, palette.DIFFERENCES, widest)


def show_result(spec: PageSpec, result: FitResult, anchor: ColourAnchor, notes: tuple[str, ...] = ()) -> FitState:
    """Return the state of a finished fit."""
    raw = unpack(result.snapshot, spec.trials) if result.snapshot is not None else ()
    order = anchor.choose_order(spec, raw)
    end = result.steps[-1] if result.steps else 0
    return FitState(
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


def show_job(spec: PageSpec, view: JobView | None, shown: FitState, anchor: ColourAnchor, **fields: Any) -> FitState:
    """Return the state of an unfinished fit: its latest snapshot, or the earlier state `shown`.

    view    its job, None if it has failed or was cancelled
    fields  `message` and `cancelled` of the state
    """
    running = view is not None
    curve = replace(shown.curve, earlier=shown.curve.earlier or running)
    fields |= {"fitting": running, "curve": curve, "recorded": shown.recorded}
    if view is not None:
        fields |= {"step": view.step, "total": view.total, "notes": view.notes, "waits": view.waits}
        if view.snapshots:
            fields["recorded"] = view.snapshots[-1].step, view.total
        if len(view.elbos) > 1:
            fields["curve"] = Curve.from_fit(spec, view.steps, view.elbos, view.total)
        far = view.seconds >= MIN_SECONDS and view.step >= MIN_PROGRESS * view.total
        if view.snapshot is not None and (far or not shown.states):
            raw = unpack(view.snapshot, spec.trials)
            order = anchor.choose_order(spec, raw)
            return FitState("running", spec, in_order(raw, order), order, **fields)
    if not shown.states:
        return FitState("running", spec, **fields)
    same = shown.spec is not None and shown.spec.key == spec.key and (running or shown.status == "fresh")
    return replace(shown, status=shown.status if same else "stale", **fields)
