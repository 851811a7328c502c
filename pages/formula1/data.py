"""Data of the page: circuit, laps of the chosen drivers, and their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets import formula1
from datasets.f1.corners import LapMeasures, lap_measures
from datasets.f1.traffic import laps_to_compare
from datasets.f1.trials import between, curvature, in_driving_order
from datasets.formula1 import Session
from gdm_core.errors import DataError
from gdm_core.trials import Trials
from pages.formula1 import activities, loading
from pages.lab import Dataset, Decoded, Undecoded, View, live
from pages.lab.live.session import State
from pages.ui.exports import Recipe, slug

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

BIN_M = 10.0
MIXTURES = {f"y{n}": f"mixture {n} of X and Y" for n in range(1, 11)}  # the paper's observations
CAR_CHANNELS = ("speed", "throttle", "brake", "gear")
TELEMETRY = (*CAR_CHANNELS, "rpm", "drs")
RACING = ("first", "pit", "safety_car")
FIFTH = 4  # the paper compares the winner with the fifth
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
}
SIMULATED = {"shanghai": "Shanghai, simulated", "suzuka": "Suzuka, simulated"}


@dataclass(frozen=True)
class Place:
    """A simulated circuit, or year, event and name of a real session."""

    circuit: str = ""
    year: int = 0
    event: str = ""
    name: str = ""

    @property
    def simulated(self) -> bool:
        return bool(self.circuit)

    @property
    def call(self) -> str:
        """Line of Python that opens the session."""
        if self.simulated:
            return f"session = formula1.simulate_race({self.circuit!r})"
        return f"session = formula1.load_session({self.year}, {self.event!r}, {self.name!r})"


@dataclass(frozen=True)
class WhichLaps:
    """Selection of a driver's laps.

    kind    "all", "racing", "quick", "range", "stint", "compound", "age" or "part" (of qualifying)
    value   stint, compound or part
    first   and last lap or tyre age
    """

    kind: str = "all"
    value: str = ""
    first: int = 0
    last: int = 0

    @classmethod
    def parse(cls, text: str) -> WhichLaps:
        """Parse "all", "racing", "first-last", "stint=2", "compound=HARD", "age=5-15" or "part=Q1"."""
        kind, told, value = text.partition("=")
        if kind == "age" or (not told and "-" in text):
            first, _, last = (value or text).partition("-")
            return cls(kind if told else "range", first=int(first), last=int(last))
        return cls(kind, value)

    @property
    def where(self) -> dict[str, Any]:
        """Arguments of `laps_where`; {} for other selections."""
        if self.kind in ("part", "quick"):
            return ({} if self.value in ("", "all") else {"part": self.value}) | {"quick": True}
        known = {"stint": "stint", "compound": "compound", "age": "tyre_age"}
        value = int(self.value) if self.kind == "stint" else self.value or (self.first, self.last)
        return {known[self.kind]: value} if self.kind in known else {}

    @property
    def about(self) -> str:
        span = f"{self.first} to {self.last}"
        known = {
            "all": "all laps",
            "racing": "racing laps",
            "range": f"laps {span}",
            "stint": f"stint {self.value}",
            "compound": f"laps on {self.value.lower()} tyres",
            "age": f"laps on {span}-lap-old tyres",
            "quick": "fast laps",
            "part": f"fast laps of {'qualifying' if self.value == 'all' else self.value}",
        }
        return known[self.kind]


@dataclass(frozen=True)
class Observation:
    """Options that turn laps into observations.

    laps      selection, parsed by `WhichLaps.parse`
    channels  observed channels; () for ten random mixtures of X and Y, as in the paper
    """

    laps: str = "all"
    channels: tuple[str, ...] = ()

    @property
    def drives(self) -> bool:
        """True if only car telemetry is observed; states are then scored against activities."""
        return bool(self.channels) and not {"X", "Y"} & set(self.channels)

    @property
    def which(self) -> WhichLaps:
        return WhichLaps.parse(self.laps)

    @property
    def same_for_all(self) -> dict[str, object]:
        """Arguments of `to_trials` shared by all drivers."""
        found: dict[str, object] = {"channels": self.channels} if self.channels else {"preset": "paper"}
        if self.drives:
            found["labels"] = "activities"
        return found | ({"drop": RACING} if self.which.kind == "racing" else {})

    def options(self, session: Session, code: str) -> dict[str, object]:
        found, which = self.same_for_all, self.which
        if which.where:
            found["laps"] = formula1.laps_where(session, code, **which.where)
        elif which.kind == "range":
            numbers = session.driver(code).laps.number.tolist()
            found["laps"] = tuple(n for n in numbers if which.first <= n <= which.last)
            if not found["laps"]:
                said = f"from {which.first} to {which.last}; choose laps up to {max(numbers)}"
                raise DataError(f"{code} drove no lap {said}.")
        return found

    @property
    def sees(self) -> str:
        return ", ".join(self.channels) if self.channels else "ten random mixtures of X and Y, as in the paper"


@dataclass(frozen=True)
class Pick:
    """Selected session, drivers and laps."""

    place: Place
    train: str
    test: str
    looked: Observation

    @property
    def about(self) -> str:
        return f"fitted on {self.train}, applied to {self.test} · {self.looked.which.about}"

    @property
    def calls(self) -> list[str]:
        """Lines of Python that create the trials."""
        given, which = [f"{name}={value!r}" for name, value in self.looked.same_for_all.items()], self.looked.which
        if which.kind == "range":
            given.append(f"laps=range({which.first}, {which.last + 1})")
        where = ", ".join(f"{name}={value!r}" for name, value in which.where.items())

        def trials(name: str, code: str) -> str:
            laps = [f"laps=formula1.laps_where(session, {code!r}, {where})"] if where else []
            return f"{name} = formula1.to_trials(session, {code!r}, {', '.join([*given, *laps])})"

        return [self.place.call, trials("train", self.train), trials("test", self.test)]


@dataclass(frozen=True, eq=False)
class Circuit:
    """Map of a session in its official orientation."""

    title: str
    line: Floats  # [M, 2] the reference lap, closed
    length: float
    corners: tuple[tuple[str, float, float, float, float], ...]  # name, x, y, distance, angle of the label in degrees
    segments: tuple[str, ...]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Corner marks for axes along the lap, at least 140 m apart."""
        kept: list[tuple[float, str]] = []
        for name, _, _, distance, _ in self.corners:
            if not kept or distance - kept[-1][0] > 140:
                kept.append((distance, f"T{name}"))
        return kept

    @property
    def edges(self) -> Floats:
        """[C] distances at which segments begin."""
        return np.array([corner[3] for corner in self.corners], np.float32)

    @property
    def n_bins(self) -> int:
        """Number of bins along the lap."""
        return max(50, round(self.length / BIN_M))

    @property
    def axis(self) -> dict[str, Any]:
        """Axis arguments for figures along the lap."""
        step = self.length / self.n_bins
        return {"start": step / 2, "step": step, "unit": "m", "ticks": self.ticks}

    @cached_property
    def middles(self) -> Floats:
        """[C] distance half-way through each segment; the last one crosses the start line."""
        edges = self.edges
        ends = np.append(edges[1:], edges[0] + self.length)
        return np.asarray((edges + ends) / 2 % self.length, np.float32)

    def segment_at(self, distance: npt.ArrayLike) -> Ints | None:
        """Return the segment at each distance [T]."""
        if not self.segments:
            return None
        return between(self.edges, distance)

    def nearest_corner(self, distance: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Return the nearest corner along the lap, in either direction."""
        apart = np.abs(np.asarray(distance)[..., None] - self.edges)
        return np.minimum(apart, self.length - apart).argmin(axis=-1)

    def curvature_at(self, distance: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the curvature at each distance [T] in 1/m; positive to the left."""
        return curvature(self.line, self.length, distance)

    def position_at(self, distance: npt.ArrayLike) -> Floats:
        """Return positions [..., 2] at distances along the lap."""
        grid = np.linspace(0, self.length, len(self.line))
        wrapped = np.mod(np.asarray(distance, float), self.length)
        return np.stack([np.interp(wrapped, grid, self.line[:, i]) for i in (0, 1)], axis=-1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Laps:
    """Chosen laps of one driver, concatenated; T samples."""

    code: str
    name: str
    trials: Trials
    place: Floats  # [T, 2] on the turned map
    distance: Floats  # [T] metres along the lap
    lap: Ints  # [T]
    car: Mapping[str, Floats]  # [T] per channel of TELEMETRY, NaN if missing
    segment: Ints | None  # [T]
    seconds: npt.NDArray[np.float64]  # [T] since the first sample, without gaps

    @cached_property
    def speed(self) -> Floats:
        """[T] speed in km/h, NaN if missing."""
        return self.car.get("speed", np.full(len(self.lap), np.nan, np.float32))

    @property
    def n_laps(self) -> int:
        return len(np.unique(self.lap))


@dataclass(frozen=True, eq=False)
class Race:
    """Session, circuit and laps of the chosen drivers."""

    pick: Pick
    session: Session
    circuit: Circuit
    train: Laps
    test: Laps

    @property
    def codes(self) -> tuple[str, str]:
        return self.train.code, self.test.code

    @property
    def stem(self) -> str:
        """Start of file names."""
        return f"formula1-{slug(self.session.title)}"


def turned(position: npt.ArrayLike, degrees: float) -> Floats:
    """Rotate positions [T, 2] to the official orientation."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (np.asarray(position, np.float64) @ turn).astype(np.float32)


@st.cache_resource(max_entries=2, show_spinner="Simulating a race")
def simulated(circuit: str) -> Session:
    return formula1.simulate_race(circuit)


def open_session(place: Place) -> Session:
    """Return the session of a place; real sessions must have been loaded."""
    if place.simulated:
        return simulated(place.circuit)
    load = loading.session(place.year, place.event, place.name)
    load.wait(loading.DEADLINE_S)  # reopens a stored session that left memory
    if load.error is not None:
        raise load.error
    session: Session = load.value
    return session


@st.cache_resource(max_entries=4, show_spinner=False)
def circuit(place: Place) -> Circuit:
    session = open_session(place)
    reference = session.reference
    points = np.vstack([reference.points, reference.points[:1]])
    corners = in_driving_order(session.corners)
    where = turned([(c.x, c.y) for c in corners], session.rotation) if corners else np.zeros((0, 2))
    return Circuit(
        session.title,
        turned(points, session.rotation),
        float(reference.length),
        tuple(
            (c.key, float(x), float(y), float(c.distance), float(c.angle + session.rotation))
            for c, (x, y) in zip(corners, where, strict=True)
        ),
        formula1.segment_names(session.corners) if len(corners) > 1 else (),
    )


@st.cache_resource(max_entries=48, show_spinner=False)
def laps_of(place: Place, code: str, looked: Observation) -> Laps:
    """Return a driver's chosen laps, cached to compute the fingerprint once."""
    session = open_session(place)
    driver = session.driver(code)
    options = looked.options(session, code)
    trials = formula1.to_trials(session, code, **options)  # type: ignore[arg-type]
    car = [name for name in TELEMETRY if name in driver.available_channels]
    picked = {key: options[key] for key in ("laps", "drop") if key in options}
    plain = formula1.to_trials(session, code, channels=("X", "Y", *car), standardise=False, **picked)  # type: ignore[arg-type]
    values = np.concatenate([trial.y for trial in plain])
    position = np.concatenate([trial.position for trial in trials])
    lap = np.concatenate([trial.segments for trial in trials])
    distance = formula1.lap_distance(session, position, lap)
    step = 1 / trials[0].rate_hz
    return Laps(
        code,
        driver.name,
        trials,
        turned(position, session.rotation),
        distance.astype(np.float32),
        lap.astype(np.int64),
        {name: values[:, 2 + i] for i, name in enumerate(car)},
        formula1.segment_of(session.corners, distance) if len(session.corners) > 1 else None,
        np.arange(len(lap), dtype=np.float64) * step,
    )


@st.cache_resource(max_entries=48, show_spinner=False)
def measures_of(place: Place, code: str, looked: Observation) -> LapMeasures:
    """Return pedal measures and speeds of a driver's chosen laps that are not close behind another car."""
    session, driven = open_session(place), np.unique(laps_of(place, code, looked).lap).tolist()
    return lap_measures(session, code, laps_to_compare(session, code, driven))


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
    laps = (laps_of(pick.place, code, pick.looked) for code in (pick.train, pick.test))
    return Race(pick, session, circuit(pick.place), *laps)


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
        truth=activities.known_activities(race) if pick.looked.drives else None,
        tested="other driver",
        name=session.title,
        licences=licences,
        source=race,
        columns=partial(activities.sample_columns, race),
        called={} if pick.looked.channels else MIXTURES,
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
            return driver(now.memoize("fitted", lambda: np.concatenate(now.states), of=now.states), now.status)
        waits = view.select_trial(0).read(now)
        title = waits.title if isinstance(waits, Undecoded) else ""
        return Undecoded(trial=trial, state=now.status, title=title, note=waits.note)
    query = view.ask_states(now) if now.states else live.Query()
    if query.value is not None:
        raw = query.value.test
        states = now.memoize(name, lambda: np.concatenate(live.in_order(raw, now.order)), of=(raw,))
        reading = view.fit.memory[f"driver {name}"] = driver(states, now.status)
        return reading
    earlier: DriverReading | None = view.fit.memory.get(f"driver {name}")
    if earlier is not None and earlier.laps.trials.fingerprint == laps.trials.fingerprint:
        return replace(earlier, state="stale")
    title, note = f"Applying the model to {laps.code}", "The fitted model is applied to this driver without refitting."
    if query.message:
        title, note = f"{laps.code} could not be read", "Press Try again."
    return Undecoded(trial=trial, state=now.status, title=title, note=note)
