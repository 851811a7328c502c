"""The states of a driver's laps: those of the fitted one come with the fit, anybody else's by applying the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdm_core.analysis import looks
from gdm_core.engine import FitResult
from pages.formula1.data import Circuit, Floats, Laps, Race, along_lap
from pages.lab import Reading, Unread, View, live
from pages.lab.live.pictures import State
from pages.lab.live.session import PREVIEW_HERE
from pages.lab.view import question_key


@dataclass(frozen=True, eq=False, kw_only=True)
class Driver(Reading):
    """All chosen laps of one driver, as a fit reads them: `states` have a row for each sample of `laps`."""

    laps: Laps

    def average(self, circuit: Circuit) -> Floats:
        """[bins, K] mean states along the lap."""
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


def read(view: View, laps: Laps, name: str, now: live.Shown | None = None) -> Driver | Unread:
    """A driver's states in the picture `now`. They are asked for under `name`, and earlier ones of it stay meanwhile."""
    now = now or view.shown
    trial = max(laps.trials, key=lambda trial: trial.n_samples)

    def driver(states: Floats, state: State) -> Driver:
        return Driver(trial=trial, state=state, origin=now.origin, laps=laps, **view.named(now, name, states))

    if laps.trials.fingerprint == view.data.train.fingerprint:
        if now.train:
            return driver(now.once("fitted", lambda: np.concatenate(now.train), of=now.train), now.state)
        waits = view.at(0).read(now)
        title = waits.title if isinstance(waits, Unread) else ""
        return Unread(trial=trial, state=now.state, title=title, note=waits.note)
    found = _applied(view, laps, name, now)
    if found is not None:
        return view.fit.records.keep(driver(*found), name)
    earlier = view.fit.records.last(Driver, name)
    if earlier is not None and earlier.laps.trials.fingerprint == laps.trials.fingerprint:
        return replace(earlier, state="stale")
    title, note = f"{laps.code} comes in a moment", "The fitted model is applied, nothing is learned anew."
    if (view.asked if _tested(now, laps) else _exact(view, laps, name, now)).message:
        title, note = f"{laps.code} could not be read", "Try again asks once more."
    return Unread(trial=trial, state=now.state, title=title, note=note)


def unanswered(view: View, laps: Laps, name: str) -> None:
    """Say so where only a quick look at a driver is to be had, with a button to ask for the exact one again."""
    live.unanswered(view.fit, _exact(view, laps, name, view.shown), f"{laps.code} could not be read exactly")


def _tested(now: live.Shown, laps: Laps) -> bool:
    """Whether the laps are the new trials of a fit, which are looked at together with the fitted ones."""
    test = None if now.wanted is None else now.wanted.test
    return test is not None and test.fingerprint == laps.trials.fingerprint


def _exact(view: View, laps: Laps, name: str, now: live.Shown) -> live.Answer:
    """The states of a driver whom the fit does not know, as the model reads states out."""
    result = now.result
    if result is None or result is not view.shown.result or not now.train:
        return live.Answer()
    if now.state == "preview" or _tested(now, laps):
        return live.Answer()
    return _ask(view, laps, f"{name}-exact", looks.soft_states, result)


def _ask(
    view: View, laps: Laps, name: str, function: Callable[..., Any], result: FitResult, here: bool = False
) -> live.Answer:
    key = question_key(result.key, function, (laps.trials,))
    return view.fit.ask(name, key, function, result.model_bytes, laps.trials, deadline_s=120.0, watched=True, here=here)


def _applied(view: View, laps: Laps, name: str, now: live.Shown) -> tuple[Floats, State] | None:
    """The model applied to another driver: straight from its posterior first, then as it reads states out."""
    result, wanted = now.result, now.wanted
    if result is not view.shown.result or result is None or wanted is None or not now.train:
        return None
    raw, state = None, now.state
    exact = _exact(view, laps, name, now)
    if _tested(now, laps):
        raw = None if view.look is None else view.look.test
    elif exact.fresh:
        raw = exact.value
    if raw is None:
        if wanted.family != "gdm" or exact.message:  # others have one way to read states
            return None
        here = laps.trials.n_samples * now.n_states <= PREVIEW_HERE
        quick = _ask(view, laps, f"{name}-quick", looks.quick_states, result, here=here)
        if not quick.fresh:
            return None
        raw, state = quick.value, "preview"
    states: Floats = now.once(name, lambda: np.concatenate(live.in_order(raw, now.order)), of=(raw,))
    return states, state
