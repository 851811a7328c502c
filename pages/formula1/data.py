"""Laps of the chosen drivers, and the dataset of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.f1.session import Session
from datasets.f1.trials import ACTIVITIES, chosen_laps, lap_distance, sample_laps, segment_of, to_trials
from gdm_core.trials import Trial, Trials
from pages.formula1.circuit import Circuit, Floats, Ints, open_circuit, turned
from pages.formula1.comparison import Between
from pages.formula1.selection import CAR_CHANNELS, Pick, Selection
from pages.lab import Dataset
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
