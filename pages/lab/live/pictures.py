"""What a live page wants, and what it has to show for it, in which colours, also while a fit is not done. Values are safe to keep
between runs of a page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.matching import Order, in_order, inverse, order_of
from gdm_core.engine import FitResult, FitSpec, Snapshot
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials
from gdm_studio.plot import palette

Array = npt.NDArray[np.float32]
State = Literal["fresh", "preview", "stale", "running"]


DEADLINE_S = 6 * 3600.0  # Cancel ends a fit before
PREVIEW_SAMPLES = 60_000


def previewed(trials: Trials) -> int:
    """How many of the first trials are looked at while a fit runs: looking at all of a long set would slow it down."""
    total = 0
    for count, trial in enumerate(trials, start=1):
        total += trial.n_samples
        if total > PREVIEW_SAMPLES:
            return max(1, count - 1)
    return len(trials)


@dataclass(frozen=True, eq=False)
class Wanted:
    """One fit that a page asks for.

    family, config   which model with which parameters, the seed among them
    train            what it is fitted to
    test             what it is looked at through besides
    truth            known soft states of the training trials, one [T, any number] each: they get the first colours
    where            the page's own settings behind the data, carried along so that an earlier picture keeps its words
    keep             whether the result may stay on disk for the next visit: not for what somebody uploaded
    alike            names data of one kind: the last fit of some reads others at once, until their own fit is there
    """

    family: str
    config: Mapping[str, Any]
    train: Trials
    test: Trials | None = None
    truth: tuple[Array, ...] | None = None
    where: Any = None
    keep: bool = True
    alike: str = ""

    @cached_property
    def spec(self) -> FitSpec:
        return FitSpec(
            self.family,
            dict(self.config),
            self.train,
            preview=tuple(range(previewed(self.train))),
            deadline_s=DEADLINE_S,
            use_cache=self.keep,
        )

    @property
    def key(self) -> str:
        return self.spec.key

    @cached_property
    def number(self) -> str:
        """Names the settings that the controls ask for: the fit, and what it is looked at through."""
        test = "" if self.test is None else self.test.fingerprint
        return hashlib.sha256(f"{self.key}/{test}".encode()).hexdigest()[:12]

    @cached_property
    def log_scale(self) -> float:
        """Nats a time step between a bound in standardised units, as a fit reports it, and one in units of the data.

        The change of units happens where a value was observed, so channels with gaps count for less.
        """
        scaler = Scaler.from_trials(self.train)
        return sum(scaler.log_jacobian(trial.y) for trial in self.train) / self.train.n_samples

    def changes_from(self, other: Wanted) -> dict[str, Any] | None:
        """The parameters in which this fit differs from `other`; None where data or family differ."""
        return self.other_parameters(other) if other.train.fingerprint == self.train.fingerprint else None

    def other_parameters(self, other: Wanted) -> dict[str, Any] | None:
        """The same whatever the data; None where the family differs."""
        if other.family != self.family or set(other.config) != set(self.config):
            return None
        return {name: value for name, value in self.config.items() if other.config[name] != value}


@dataclass(frozen=True)
class Curve:
    """The bound of a fit after each of some steps, in nats a time step and units of the data.

    total    steps the fit may take, 0 where that is not known
    earlier  whether it belongs to the fit before the one that runs
    """

    steps: tuple[int, ...] = ()
    elbos: tuple[float, ...] = ()
    total: int = 0
    earlier: bool = False


NOTHING_YET = Curve()


class Origin:
    """Stands for one look at one fit: its states, in one order of colours. It equals nothing but itself.

    It travels with states that are drawn away from their picture. Those of different origins have nothing in common,
    not even their number of columns, and must not meet in one figure.
    """


@dataclass(frozen=True, eq=False)
class Shown:
    """What stands on the screen.

    wanted      the fit that the states belong to, which is an earlier one while `state` is "stale"
    state       "fresh": the result. "preview": a first look or a fit that still moves. "stale": an earlier result.
                "running": a first fit, of which there may be nothing to show yet
    train       soft states [T, K] of each training trial, in the order of colours; () while there is nothing
    order       column j here is column order[j] of the model
    result      the finished fit behind the states, None for a preview
    step, total   of the fit that runs, or ran
    curve       its bound so far, or that of the fit before while there is too little of it to draw
    recorded    (step of the latest snapshot, last step) of the curve's fit; (0, 0) without snapshots
    message     what went wrong, in words for the visitor
    notes       what happened to the fit on its way, such as a worker that was lost
    fitting     a fit is under way
    stopped     the visitor gave up the fit that was under way
    origin      of `train`, and of whatever the model behind it says of other data in the same order of colours
    """

    state: State
    wanted: Wanted | None = None
    train: tuple[Array, ...] = ()
    order: Order = ()
    result: FitResult | None = None
    step: int = 0
    total: int = 0
    curve: Curve = NOTHING_YET
    recorded: tuple[int, int] = (0, 0)
    message: str = ""
    notes: tuple[str, ...] = ()
    fitting: bool = False
    stopped: bool = False
    origin: Origin = field(default_factory=Origin)
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_states(self) -> int:
        return len(self.order)

    @property
    def status(self) -> str:
        """One line on the run, for the foot of the card."""
        if self.state == "running":
            return ""
        parts = []
        if self.result is not None:
            parts.append(f"took {self.result.seconds:.1f} s")
            if self.result.from_cache:
                parts.append("fitted earlier")
            parts.append({"max_steps": "ran all its steps"}.get(self.result.fit_status, self.result.fit_status))
        if self.wanted is not None and "seed" in self.wanted.config:
            parts.append(f"seed {self.wanted.config['seed']}")
        return " · ".join(parts)

    def once(self, name: Hashable, make: Callable[[], Any], of: tuple[Any, ...] = (), settings: Hashable = ()) -> Any:
        """`make()`, computed once for this picture: a page that looks again and again does the work once.

        What else it depends on is said beside it. Only the last one of each name is kept.

        of         data that are not this picture's own: they have to be the very same objects
        settings   plain values, which have to be equal
        """
        hash(settings)  # arrays, whose == is no answer, are refused at the first call, not when the first two differ
        known = self._kept.get(name)
        same = known is not None and len(known[0]) == len(of) and all(a is b for a, b in zip(known[0], of, strict=True))
        if known is None or not same or known[1] != settings:
            self._kept[name] = known = (of, settings, make())
        return known[2]


def curve_of(wanted: Wanted, steps: tuple[int, ...], elbos: tuple[float, ...], total: int = 0) -> Curve:
    """The bound of a fit of `wanted`, which reports it in standardised units, beside scores: in units of the data."""
    return Curve(steps, tuple(elbo - wanted.log_scale for elbo in elbos) if elbos else (), total)


def unpack(snapshot: Snapshot, trials: Trials) -> tuple[Array, ...]:
    """Soft states [T, K] of each trial, thinned ones repeated to full length."""
    found = []
    for position, index in enumerate(snapshot.preview):
        states = snapshot.states(position)
        stride = snapshot.strides[position]
        full = np.repeat(states, stride, axis=0) if stride > 1 else states
        found.append(full[: trials[index].n_samples])
    return tuple(found)


SAME = ("state", "order", "step", "recorded", "message", "notes", "fitting", "stopped")


def alike(new: Shown, old: Shown) -> bool:
    """Whether two pictures would be drawn alike."""
    return (
        all(getattr(new, name) == getattr(old, name) for name in SAME)
        and new.wanted is old.wanted
        and new.result is old.result
        and new.curve.earlier == old.curve.earlier
        and len(new.train) == len(old.train)
        and all(a is b or np.array_equal(a, b) for a, b in zip(new.train, old.train, strict=True))
    )


class Colours:
    """The orders of colours of one live fit: as a link says, as known states say, as in the picture before, or so that neighbouring
    states are told apart."""

    def __init__(self) -> None:
        self._anchor: tuple[str, tuple[Array, ...]] | None = None
        self.first: Order | None = None  # of a copied link, for the first fit

    def follow(self, now: Shown) -> None:
        """From now on, colours follow what stands on the screen at this moment."""
        self._anchor = self._after(now)

    def follows(self, after: Shown | None = None) -> tuple[Array, ...]:
        """The states whose colours the next ones follow, () for none; `after` as in `order`."""
        anchor = self._anchor if after is None else self._after(after)
        return () if anchor is None else anchor[1]

    def _after(self, now: Shown) -> tuple[str, tuple[Array, ...]] | None:
        if now.train and now.wanted is not None:
            return now.wanted.train.fingerprint, now.train
        return self._anchor

    def order(self, wanted: Wanted, raw: tuple[Array, ...], after: Shown | None = None) -> Order:
        """Of the states `raw` of a fit of `wanted`: column j on the screen is column order[j] of the model.

        raw    of all trials, or of the first ones
        after  as if it were asked for while this stands
        """
        if not raw:
            return ()
        if self.first is not None and len(self.first) == raw[0].shape[1]:
            return self.first
        anchor = self._anchor if after is None else self._after(after)
        here = anchor is not None and anchor[0] == wanted.train.fingerprint
        before = anchor[1][: len(raw)] if here and anchor is not None else None
        truth = None if wanted.truth is None else wanted.truth[: len(raw)]
        return order_of(raw, truth, before, palette.DIFFERENCES)


def is_plain(shown: Shown) -> bool:
    """Whether anybody who opens the link gets these colours without being told."""
    if shown.wanted is None or not shown.train:
        return True
    truth = shown.wanted.truth

    def plain() -> Order:
        return order_of(in_order(shown.train, inverse(shown.order)), truth, None, palette.DIFFERENCES)

    return bool(shown.order == shown.once("plain-order", plain, of=shown.train))
