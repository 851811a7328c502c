"""What stands on the page: which fit, and its states on the laps of either driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdm_core.analysis import envelopes, looks
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials
from pages.formula1 import opening
from pages.formula1.cascade import Pick
from pages.formula1.data import Circuit, Floats, Laps, along_lap
from pages.lab import live
from pages.lab.live.pictures import Origin, State
from pages.ui.model_controls import Choice


@dataclass(frozen=True, eq=False)
class Where:
    """The page's settings behind one fit, carried along so that an earlier picture keeps its words."""

    pick: Pick
    circuit: Circuit
    train: Laps
    test: Laps
    choice: Choice

    @property
    def sees(self) -> str:
        """What a state is made of, in a word; "" where the family offers no choice."""
        return {"linear": "places", "window": "moves"}.get(str(self.choice.config.get("posterior", "")), "")


@dataclass(frozen=True, eq=False)
class Here:
    """A driver's laps and the states to draw on them.

    states   [T, K] in the order of colours, None until they are there
    origin   the look at a fit that they belong to
    """

    laps: Laps
    states: Floats | None
    state: State
    origin: Origin


@dataclass(frozen=True, eq=False)
class Together:
    """Drivers whose states may stand in one picture: all there, and of one look at one fit."""

    drivers: tuple[Here, ...]

    def __post_init__(self) -> None:
        if not self.drivers or any(here.states is None for here in self.drivers):
            raise DataError("A picture of several drivers needs the states of each of them.")
        if any(here.origin is not self.drivers[0].origin for here in self.drivers):
            raise DataError("States of different fits cannot be compared: their numbers and colours differ.")

    @classmethod
    def those_of(cls, first: Here, *others: Here) -> Together | None:
        """The first driver and those of the others whose states belong to the same fit; None before there is any."""
        if first.states is None:
            return None
        return cls((first, *(here for here in others if here.states is not None and here.origin is first.origin)))

    @property
    def state(self) -> State:
        return self.drivers[-1].state

    @property
    def states(self) -> tuple[Floats, ...]:
        return tuple(here.states for here in self.drivers if here.states is not None)


@dataclass(frozen=True, eq=False)
class View:
    """The live fit, and what it says about the two drivers."""

    fit: live.Live
    shown: live.Shown

    @property
    def where(self) -> Where:
        wanted = self.shown.wanted
        assert wanted is not None
        found: Where = wanted.where
        return found

    def ask(self, name: str, function: Callable[..., Any], *args: Any, deadline_s: float = 120.0) -> live.Answer:
        """A question about the fit that is shown. Trials among the arguments name themselves."""
        result = self.shown.result
        if result is None:
            return live.Answer()
        parts = [a.fingerprint if isinstance(a, Trials) else repr(a) for a in args]
        key = "/".join([result.key, function.__name__, *parts])
        return self.fit.ask(name, key, function, result.model_bytes, *args, deadline_s=deadline_s)

    def predict(self, trial: Trial, origin: int, horizon: int) -> live.Answer:
        """The prediction from one moment of a trial."""
        result = self.shown.result
        if result is None:
            return live.Answer()
        key = "/".join([result.key, trial.fingerprint, str(origin), str(horizon)])
        question = (envelopes.envelope, result.model_bytes, trial, origin, horizon)
        return self.fit.ask("envelope", key, *question, deadline_s=120.0)

    def of(self, laps: Laps, name: str, now: live.Shown | None = None) -> Here:
        """The states of any driver. Those of the fitted one come with the fit; others are asked for under `name`."""
        now = now or self.shown
        assert now.wanted is not None
        where: Where = now.wanted.where
        if laps.trials.fingerprint == where.train.trials.fingerprint:
            states = now.once("fitted", lambda: np.concatenate(now.train), of=now.train) if now.train else None
            return Here(laps, states, now.state, now.origin)
        kept = self.fit.kept
        if now.result is not None and now.result is self.shown.result and now.train:
            here = self._applied(laps, name, now)
            if here is not None:
                kept[name] = here
                return here
        if name in kept:
            earlier: Here = kept[name]
            same = earlier.laps.trials.fingerprint == laps.trials.fingerprint
            if same:
                return Here(earlier.laps, earlier.states, "stale", earlier.origin)
        return Here(laps, None, now.state, now.origin)

    def _applied(self, laps: Laps, name: str, now: live.Shown) -> Here | None:
        """The model applied to another driver: straight from its posterior first, then as it reads states out."""
        bundled = opening.applied(now, laps.code, len(laps.lap))
        if bundled is not None and now.wanted is not None and now.wanted.where.test.code == laps.code:
            states = now.once(("bundled", laps.code), lambda: live.in_order((bundled,), now.order)[0])
            return Here(laps, states, now.state, now.origin)
        exact = self.ask(f"{name}-exact", looks.soft_states, laps.trials)
        found, state = exact, now.state
        if not exact.fresh:
            assert now.wanted is not None
            if now.wanted.family != "gdm" or exact.message:  # others have one way to read states, and it is quick
                return None
            found = self.ask(f"{name}-quick", looks.quick_states, laps.trials)
            state = "preview"
        if not found.fresh:
            return None
        joined = now.once(name, lambda: np.concatenate(live.in_order(found.value, now.order)), of=(found.value,))
        return Here(laps, joined, state, now.origin)


def lap_average(circuit: Circuit, here: Here) -> Floats:
    """[bins, K] mean states along the lap."""
    assert here.states is not None
    return along_lap(here.laps.distance, here.states, circuit.n_bins, circuit.length)
