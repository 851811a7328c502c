"""What a page shows of its fit at one moment, and the colours of its states."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.matching import Order, find_order, in_order, inverse
from gdm_core.engine import FitResult, Snapshot
from gdm_core.trials import Trials
from gdm_studio.plot import palette
from pages.lab.spec import PageSpec
from pages.ui.plot import State

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Curve:
    """ELBO of a fit at some steps, in nats per time step and units of the data.

    total    steps that the fit may take, 0 if unknown
    earlier  whether it belongs to the fit before the one that runs
    """

    steps: tuple[int, ...] = ()
    elbos: tuple[float, ...] = ()
    total: int = 0
    earlier: bool = False

    @classmethod
    def from_fit(cls, spec: PageSpec, steps: tuple[int, ...], elbos: tuple[float, ...], total: int) -> Curve:
        """Return the curve of a fit, which reports its ELBO in standardised units."""
        return cls(steps, tuple(elbo - spec.log_scale for elbo in elbos) if elbos else (), total)


EMPTY_CURVE = Curve()


@dataclass(frozen=True, eq=False)
class FitState:
    """A fit as its page shows it.

    status       "fresh": the result. "running": states of a running fit, if any. "stale": an earlier result
    spec         the fit that the states belong to
    states       soft states [T, K] of each training trial, in the order of colours; () if there are none
    order        column j here is column order[j] of the model
    result       the finished fit behind the states
    step, total  of the fit that runs or ran
    curve        its ELBO, or that of the previous fit while it has too few steps
    recorded     (step of the latest snapshot, last step) of the curve's fit; (0, 0) without snapshots
    message      what went wrong, for the user
    notes        events such as a lost worker, for the user
    fitting      whether a fit runs
    cancelled    whether the user cancelled it
    origin       identity of one reading of one fit: states of different origins do not belong in one figure
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
    fitting: bool = False
    cancelled: bool = False
    origin: object = field(default_factory=object)
    _memory: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_states(self) -> int:
        return len(self.order)

    @property
    def summary(self) -> str:
        """One line on the run, for the foot of the card."""
        if self.status == "running":
            return ""
        parts = []
        if self.result is not None:
            parts.append(f"took {self.result.seconds:.1f} s")
            if self.result.from_cache:
                parts.append("fitted earlier")
            parts.append({"max_steps": "ran all its steps"}.get(self.result.fit_status, self.result.fit_status))
        if self.spec is not None and "seed" in self.spec.config:
            parts.append(f"seed {self.spec.config['seed']}")
        return " · ".join(parts)

    def is_same_picture(self, other: FitState) -> bool:
        """Return whether both states look the same on the page."""
        names = ("status", "order", "step", "recorded", "message", "notes", "fitting", "cancelled", "spec", "result")
        return (
            all(_is_equal(getattr(self, name), getattr(other, name)) for name in names)
            and self.curve.earlier == other.curve.earlier
            and len(self.states) == len(other.states)
            and all(a is b or np.array_equal(a, b) for a, b in zip(self.states, other.states, strict=True))
        )

    def memoize(
        self, name: Hashable, make: Callable[[], Any], of: tuple[Any, ...] = (), settings: Hashable = ()
    ) -> Any:
        """Return `make()`, computed once for this picture while its other inputs stay the same.

        of         inputs that must be the same objects
        settings   plain values that must be equal
        """
        hash(settings)  # refuses arrays at the first call
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


class ColourOrder:
    """Chooses the order of states, and so their colours.

    A copied link decides for the first fit; then known states, the previous picture, or contrast between neighbours.
    """

    def __init__(self) -> None:
        self._anchor: tuple[str, tuple[Array, ...]] | None = None
        self.first: Order | None = None

    def follow(self, state: FitState) -> None:
        """Let the next fits take their colours from this picture."""
        self._anchor = self._anchor_of(state)

    def followed(self, after: FitState | None = None) -> tuple[Array, ...]:
        """Return the states whose colours the next ones follow; `after` as in `choose`."""
        anchor = self._anchor if after is None else self._anchor_of(after)
        return () if anchor is None else anchor[1]

    def _anchor_of(self, state: FitState) -> tuple[str, tuple[Array, ...]] | None:
        if state.states and state.spec is not None:
            return state.spec.trials.fingerprint, state.states
        return self._anchor

    def choose(self, spec: PageSpec, raw: tuple[Array, ...], after: FitState | None = None) -> Order:
        """Return the order of the model's states `raw` of all trials, or of the first ones.

        after  choose as for the fit that follows this picture
        """
        if not raw:
            return ()
        if self.first is not None and len(self.first) == raw[0].shape[1]:
            return self.first
        anchor = self._anchor if after is None else self._anchor_of(after)
        here = anchor is not None and anchor[0] == spec.trials.fingerprint
        before = anchor[1][: len(raw)] if here and anchor is not None else None
        truth = None if spec.dataset.truth is None else spec.dataset.truth[: len(raw)]
        return find_order(raw, truth, before, palette.DIFFERENCES)


def has_default_order(state: FitState) -> bool:
    """Return whether a link needs no parameter to show these colours."""
    if state.spec is None or not state.states:
        return True
    truth = state.spec.dataset.truth

    def choose() -> Order:
        return find_order(in_order(state.states, inverse(state.order)), truth, None, palette.DIFFERENCES)

    return bool(state.order == state.memoize("default-order", choose, of=state.states))
