"""The states of a driver's laps: those of the fitted one come with the fit, anybody else's by applying the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdm_core.analysis import looks
from pages.formula1.data import Circuit, Floats, Laps, Race, along_lap
from pages.lab import Reading, View, live
from pages.lab.live.pictures import State
from pages.lab.view import question_key


@dataclass(frozen=True, eq=False, kw_only=True)
class Driver(Reading):
    """All chosen laps of one driver, as a fit reads them: `states` have a row for each sample of `laps`."""

    laps: Laps

    def average(self, circuit: Circuit) -> Floats:
        """[bins, K] mean states along the lap."""
        assert self.states is not None
        return along_lap(self.laps.distance, self.states, circuit.n_bins, circuit.length)


def race_of(view: View) -> Race:
    """The drivers and the circuit behind a view."""
    found: Race = view.data.source
    return found


def standing(view: View, now: live.Shown | None = None) -> View:
    """The view of the race that the picture `now` is of: an earlier one stays until another is fitted."""
    wanted = (now or view.shown).wanted
    return view if wanted is None else replace(view, setting=wanted.where)


def on_map(view: View, which: str) -> View:
    """The view at the longest stretch of the fitted driver ("train") or of the other one."""
    side, first = (view.data.test, len(view.data.train)) if which == "test" else (view.data.train, 0)
    return view.at(first + max(range(len(side)), key=lambda i: side[i].n_samples))


def read(view: View, laps: Laps, name: str, now: live.Shown | None = None) -> Driver:
    """A driver's states in the picture `now`. They are asked for under `name`, and earlier ones of it stay meanwhile."""
    now = now or view.shown
    trial = max(laps.trials, key=lambda trial: trial.n_samples)
    if laps.trials.fingerprint == view.data.train.fingerprint:
        states = now.once("fitted", lambda: np.concatenate(now.train), of=now.train) if now.train else None
        reading = view.at(0).read(now)
        return Driver(trial, states, now.state, now.origin, reading.title, reading.note, laps=laps)
    found = _applied(view, laps, name, now)
    if found is not None:
        driver = Driver(trial, found[0], found[1], now.origin, laps=laps)
        return view.fit.records.keep(driver, name)
    earlier = view.fit.records.last(Driver, name)
    if earlier is not None and earlier.laps.trials.fingerprint == laps.trials.fingerprint:
        return replace(earlier, state="stale")
    waits = f"{laps.code} comes in a moment", "The fitted model is applied, nothing is learned anew."
    return Driver(trial, None, now.state, now.origin, *waits, laps=laps)


def _applied(view: View, laps: Laps, name: str, now: live.Shown) -> tuple[Floats, State] | None:
    """The model applied to another driver: straight from its posterior first, then as it reads states out."""
    result, wanted = now.result, now.wanted
    if result is not view.shown.result or result is None or wanted is None or not now.train:
        return None
    fitted, model_bytes = result.key, result.model_bytes

    def ask(kind: str, function: Callable[..., Any]) -> live.Answer:
        key = question_key(fitted, function, (laps.trials,))
        return view.fit.ask(f"{name}-{kind}", key, function, model_bytes, laps.trials, deadline_s=120.0)

    tested = wanted.test is not None and wanted.test.fingerprint == laps.trials.fingerprint
    raw, state, waits = None, now.state, ""
    if tested:
        raw = None if view.look is None else view.look.test
    elif now.state != "preview":
        exact = ask("exact", looks.soft_states)
        raw, waits = exact.value if exact.fresh else None, exact.message
    if raw is None:
        if wanted.family != "gdm" or waits:  # others have one way to read states
            return None
        quick = ask("quick", looks.quick_states)
        if not quick.fresh:
            return None
        raw, state = quick.value, "preview"
    states: Floats = now.once(name, lambda: np.concatenate(live.in_order(raw, now.order)), of=(raw,))
    return states, state
