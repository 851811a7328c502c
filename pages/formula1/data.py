"""Laps of the chosen drivers, the dataset of a fit, and the states of each driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.f1.session import Session
from datasets.f1.trials import ACTIVITIES, chosen_laps, lap_distance, sample_laps, segment_of, to_trials
from gdm_core.engine.results import from_levels
from gdm_core.trials import Trial, Trials
from pages.formula1.circuit import Circuit, Floats, Ints, open_circuit, turned
from pages.formula1.comparison import Between
from pages.formula1.selection import CAR_CHANNELS, Pick, Selection
from pages.lab import Dataset, Decoded, Undecoded, View, live
from pages.lab.live.state import State
from pages.ui.exports import Recipe, slug

MIXTURES = {f"y{n}": f"mixture {n} of X and Y" for n in range(1, 11)}  # the paper's observations
COLOURED = ("full throttle", "cornering", "braking", "part throttle")  # the first, second, ... colour of states
# Precomputed by assets/make_demo.py.
FIRST_CIRCUIT, SHIPPED = "shanghai", "formula1"
# Three states separate braking, cornering and full throttle.
FIRST_STATES, FIRST_DEFINED_BY = 3, "position"
PAPER_STATES, PAPER_DEFINED_BY = 8, "dynamics"
FIRST_CONFIG: dict[str, Any] = {
    "n_states": FIRST_STATES,
    "temperature": 0.99,
    "stickiness": "learn",
    "posterior": "linear",
    "n_latent": 2,
    "seed": 0,
    "repeats": "keep",
}


@dataclass(frozen=True, eq=False)
class Laps:
    """Chosen laps of one driver, concatenated; T samples."""

    code: str
    trials: Trials
    place: Floats  # [T, 2] on the turned map
    distance: Floats  # [T] metres along the lap
    lap: Ints  # [T]
    car: Mapping[str, Floats]  # [T] per channel of CAR_CHANNELS, NaN if missing
    segment: Ints | None  # [T]

    @cached_property
    def speed(self) -> Floats:
        """[T] speed in km/h, NaN if missing."""
        return self.car.get("speed", np.full(len(self.lap), np.nan, np.float32))

    @property
    def n_laps(self) -> int:
        return len(np.unique(self.lap))


@dataclass(frozen=True, eq=False)
class Race:
    """Session, circuit and laps of the chosen drivers, and the pairs of laps that are compared."""

    pick: Pick
    session: Session
    circuit: Circuit
    train: Laps
    test: Laps
    found: Between | None = None

    @property
    def codes(self) -> tuple[str, str]:
        return self.train.code, self.test.code

    @property
    def stem(self) -> str:
        """Start of file names."""
        return f"formula1-{slug(self.session.title)}"


# ---- the chosen laps --------------------------------------------------------------------------------------------------
@lru_cache(maxsize=48)
def laps_of(session: Session, code: str, selection: Selection) -> Laps:
    """Return a driver's chosen laps, cached to compute the fingerprint once."""
    driver = session.driver(code)
    options = selection.options(session, code)
    trials = to_trials(session, code, **options)  # type: ignore[arg-type]
    car = [name for name in CAR_CHANNELS if name in driver.available_channels]
    picked = {key: options[key] for key in ("laps", "drop") if key in options}
    parts = sample_laps(driver, chosen_laps(session, code, **picked), car)  # type: ignore[arg-type]
    position = np.concatenate([trial.position for trial in trials])
    lap = np.concatenate([trial.segments for trial in trials])
    distance = lap_distance(session, position, lap)
    return Laps(
        code,
        trials,
        turned(position, session.rotation),
        distance.astype(np.float32),
        lap.astype(np.int64),
        {name: np.concatenate([values[name] for _, (_, _, values) in parts]) for name in car},
        segment_of(session.corners, distance) if len(session.corners) > 1 else None,
    )


def along_lap(distance: npt.ArrayLike, values: npt.ArrayLike, n_bins: int, length: float) -> Floats:
    """Average values [T, ...] in bins along the lap; empty bins are interpolated."""
    where = np.clip(np.asarray(distance) / length * n_bins, 0, n_bins - 1).astype(np.int64)
    table = np.asarray(values, np.float64).reshape(len(where), -1)
    known = np.isfinite(table).all(axis=1)
    count = np.bincount(where[known], minlength=n_bins)
    total = np.column_stack([np.bincount(where[known], column[known], n_bins) for column in table.T])  # [bins, N]
    filled = np.flatnonzero(count)
    if not len(filled):
        return np.full((n_bins, *np.shape(values)[1:]), np.nan, np.float32)
    mean = total[filled] / count[filled, None]
    grid = np.arange(n_bins)
    full = np.column_stack([np.interp(grid, filled, column, period=n_bins) for column in mean.T])
    return full.reshape(n_bins, *np.shape(values)[1:]).astype(np.float32)


def open_race(pick: Pick, session: Session) -> Race:
    """Return the chosen laps of both drivers."""
    train, test = (laps_of(session, code, pick.selection) for code in (pick.train, pick.test))
    return Race(pick, session, open_circuit(session), train, test)


def fitted_data(race: Race, licences: tuple[str, ...]) -> Dataset:
    """Return the dataset of both drivers."""
    pick, session = race.pick, race.session
    return Dataset(
        f"{session.title} · {pick.about}",
        race.train.trials,
        race.test.trials,
        Recipe(
            ["from gdm_studio.datasets import formula1"],
            pick.calls,
            note="" if session.simulated else "FastF1 fetches the session once and keeps it.",
        ),
        # States that do the same have the same colour for every driver and K.
        truth=known_activities(race.train.trials) if pick.selection.drives else None,
        tested="other driver",
        name=session.title,
        licences=licences,
        source=race,
        columns=partial(sample_columns, race),
        called={} if pick.selection.channels else MIXTURES,
    )


# ---- states of a driver's laps: from the fit, or by applying the model ------------------------------------------------
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
        states = now.memoize(name, lambda: np.concatenate(live.in_order(raw, now.order)), inputs=(known,))
        reading = view.fit.memory[f"driver {name}"] = driver(states, now.status)
        return reading
    earlier: DriverReading | None = view.fit.memory.get(f"driver {name}")
    if earlier is not None and earlier.laps.trials.fingerprint == laps.trials.fingerprint:
        return replace(earlier, state="stale")
    title, note = f"Applying the model to {laps.code}", "The fitted model is applied to this driver without refitting."
    if known is not None:
        title, note = f"{laps.code} could not be read", known.error
    return Undecoded(trial=trial, state=now.status, title=title, note=note)


# ---- what the car does at each sample ---------------------------------------------------------------------------------
def known_activities(trials: Trials) -> tuple[Floats, ...] | None:
    """Return the activity of each sample [T, 4] in the order of state colours; None without pedals."""
    labels = [trial.labels for trial in trials if trial.labels is not None]
    order = [ACTIVITIES.index(name) for name in COLOURED]
    known = tuple(np.equal.outer(one, order).astype(np.float32) for one in labels)
    return known if len(known) == len(trials) else None


def sample_columns(race: Race, trial: Trial) -> dict[str, Any]:
    """Return driver, lap and distance [T] of a trial's samples, for the table of its states."""
    assert trial.position is not None
    assert trial.segments is not None
    distance = lap_distance(race.session, trial.position, trial.segments)
    laps = next(one for one in (race.train, race.test) if any(trial is other for other in one.trials))
    return {"driver": laps.code, "lap": trial.segments, "distance_m": np.round(distance, 1)}
