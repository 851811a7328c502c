"""States of a driver's laps: from the fit, or by applying the fitted model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdm_core.analysis.matching import in_order
from gdm_core.engine.results import from_levels
from pages.formula1.circuit import Circuit, Floats
from pages.formula1.data import Laps, Race, along_lap
from pages.lab import Decoded, Undecoded, View, live
from pages.lab.live.state import State


@dataclass(frozen=True, eq=False, kw_only=True)
class DriverReading(Decoded):
    """Decoded laps of one driver: one row of `states` per sample of `laps`."""

    laps: Laps

    def average(self, circuit: Circuit) -> Floats:
        """Return the mean states along the lap [bins, K]."""
        return along_lap(self.laps.distance, self.states, circuit.n_bins, circuit.length)


def race_of(view: View) -> Race:
    """Return the race behind a view."""
    found: Race = view.dataset.source
    return found


def standing(view: View, now: live.FitState | None = None) -> View:
    """Return the view of the race in the picture `now`, which may be an earlier one."""
    spec = (now or view.state).spec
    return view if spec is None else replace(view, spec=spec)


def on_map(view: View, which: str) -> View:
    """Return the view on the longest trial of the reference or comparison driver."""
    side, first = (view.dataset.test, len(view.dataset.train)) if which == "test" else (view.dataset.train, 0)
    return view.select_trial(first + max(range(len(side)), key=lambda i: side[i].n_samples))


def read(view: View, laps: Laps, name: str, now: live.FitState | None = None) -> DriverReading | Undecoded:
    """Return the states of a driver of the fit; earlier ones remain under `name` while new ones are computed."""
    now = now or view.state
    trial = max(laps.trials, key=lambda trial: trial.n_samples)

    def driver(states: Floats, state: State) -> DriverReading:
        return DriverReading(
            trial=trial, state=state, origin=now.origin, laps=laps, **view.name_states(now, name, states)
        )

    if laps.trials.fingerprint == view.dataset.train.fingerprint:
        if now.states:
            return driver(now.memoize("fitted", lambda: np.concatenate(now.states), inputs=now.states), now.status)
        waits = view.select_trial(0).read(now)
        title = waits.title if isinstance(waits, Undecoded) else ""
        return Undecoded(trial=trial, state=now.status, title=title, note=waits.note)
    known = now.find_states(view.dataset.test) if now.states else None
    if known is not None and known.test:
        raw = tuple(map(from_levels, known.test))
        states = now.memoize(name, lambda: np.concatenate(in_order(raw, now.order)), inputs=(known,))
        reading = view.fit.memory[f"driver {name}"] = driver(states, now.status)
        return reading
    earlier: DriverReading | None = view.fit.memory.get(f"driver {name}")
    if earlier is not None and earlier.laps.trials.fingerprint == laps.trials.fingerprint:
        return replace(earlier, state="stale")
    title, note = f"Applying the model to {laps.code}", "The fitted model is applied to this driver without refitting."
    if known is not None:
        title, note = f"{laps.code} could not be read", known.error
    return Undecoded(trial=trial, state=now.status, title=title, note=note)
