"""What one Formula 1 session is made of, as plain frozen data: the calendar, the corners, the drivers and their laps.

Real and simulated sessions have the same shape, so that whoever draws or fits one need not know which it has.
Lengths are metres, times are seconds on the session's own clock, speeds km/h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

from .track import ReferenceLap

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

CAR_CHANNELS = ("speed", "throttle", "brake", "gear", "rpm", "drs")
CHANNELS = ("X", "Y", *CAR_CHANNELS)
UNITS = {
    "X": "m",
    "Y": "m",
    "speed": "km/h",
    "throttle": "%",
    "brake": "on/off",
    "gear": "",
    "rpm": "1/min",
    "drs": "open/shut",
}

# track status codes of the feed: 4 safety car, 5 red flag, 6 and 7 virtual safety car out and ending
NEUTRALISED = frozenset("4567")
_SMALL_GAP_S, _FEWEST_SAMPLES = 0.8, 100  # of a lap that distances can be measured on


class Reason(StrEnum):
    """Why Formula 1 data could not be had, so that a page can offer the fitting way on."""

    NO_NETWORK = "no network"
    NOT_FOUND = "not found"
    NOT_YET = "not yet"
    NO_LAPS = "no laps"
    NO_POSITION = "no position"
    NO_CORNERS = "no corners"
    RATE_LIMIT = "rate limit"
    ACCOUNT = "account"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    STORAGE = "storage"
    CRASHED = "crashed"


class FeedError(DataError):
    """Formula 1 data that could not be had; `reason` says of which kind, the message says what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class SessionSlot:
    """One session on the calendar, such as "Sprint Qualifying".

    name        such as Race
    start_utc   when it began
    """

    name: str
    start_utc: str  # ISO 8601, empty where the calendar does not say


@dataclass(frozen=True)
class Event:
    """One race weekend.

    year, round, name   of the race weekend
    country, location   where it was
    date                of its last day
    sessions            what was run on it
    """

    year: int
    round: int
    name: str
    country: str
    location: str
    date: str
    sessions: tuple[SessionSlot, ...]


@dataclass(frozen=True)
class Corner:
    """One numbered corner; number and letter together are its name (Hungary has 1 and 1A).

    x, y       place of the marker, in the units of positions
    distance   metres from the start line
    angle      degrees, the side on which a label stands clear of the track
    """

    number: int
    letter: str
    x: float
    y: float
    distance: float  # metres from the start line along the reference lap
    angle: float  # degrees, the side on which a label stands clear of the track

    @property
    def key(self) -> str:
        """Number and letter, as on a track map."""
        return f"{self.number}{self.letter}"


@dataclass(frozen=True, eq=False)
class LapTable:
    """One driver's laps, one entry a lap in every field.

    number            of each lap, from 1
    start, end        seconds on the session's clock
    seconds           lap time; NaN where there is none
    sectors           times of the three sectors, seconds
    pit_in, pit_out   whether it ended or began in the pits
    neutralised       whether a safety car, a virtual one or a red flag was out
    accurate          whether the feed vouches for its times
    compound          tyres
    stint             from 1 with each set of tyres; 0 where unknown
    tyre_age          laps that the tyres have done at the end of this one; NaN where unknown
    part              1 to 3 for Q1 to Q3 of a qualifying session; 0 elsewhere
    deleted           whether race control took its time away, as for leaving the track
    """

    number: IntArray
    start: FloatArray
    end: FloatArray
    seconds: FloatArray  # NaN where the lap was not timed
    sectors: FloatArray  # [L, 3] official seconds of each sector, NaN where one was not timed
    pit_in: BoolArray
    pit_out: BoolArray
    neutralised: BoolArray  # safety car, virtual safety car or red flag during the lap
    accurate: BoolArray
    compound: tuple[str, ...]
    stint: IntArray
    tyre_age: FloatArray
    part: IntArray
    deleted: BoolArray

    def __len__(self) -> int:
        return int(self.number.size)

    @property
    def timed(self) -> BoolArray:
        """[L] whether it has a lap time."""
        return np.isfinite(self.seconds)

    @property
    def undisturbed(self) -> BoolArray:
        """[L] whether it is timed and vouched for, away from the pits and not neutralised."""
        return self.accurate & self.timed & ~(self.pit_in | self.pit_out | self.neutralised)

    @property
    def stints(self) -> tuple[int, ...]:
        """Numbers of the stints that are known, in order."""
        return tuple(np.unique(self.stint[self.stint > 0]).tolist())


@dataclass(frozen=True)
class Spell:
    """A stretch of a session on which something held: yellow, red flag, safety car, virtual safety car, or rain.

    start, end   seconds on the session's clock
    what         of these
    """

    start: float
    end: float
    what: str


@dataclass(frozen=True, eq=False)
class Driver:
    """One driver's session: samples in time order, all of them inside a lap.

    code                 three letters, such as VER
    number, name, team   as on the entry list
    colour               of the team, as #rrggbb
    time, lap            [T] seconds on the session's clock, and the lap, of each position
    position             [T, 2] where the car was
    channels             what the car sent, by name
    laps                 its laps, one row each
    """

    code: str
    number: str
    name: str
    team: str
    colour: str
    time: FloatArray  # [T]
    position: npt.NDArray[np.float32]  # [T, 2]
    lap: IntArray  # [T]
    channels: Mapping[str, npt.NDArray[np.float32]]  # each [T]
    laps: LapTable

    @property
    def has_position(self) -> bool:
        """Whether the feed had positions of this car."""
        return self.time.size > 0

    @property
    def available_channels(self) -> tuple[str, ...]:
        """Names that can be asked for: position, and what the car sent at least once."""
        sent = (name for name in CAR_CHANNELS if name in self.channels and np.isfinite(self.channels[name]).any())
        return ("X", "Y", *sent) if self.has_position else ()

    def channel(self, name: str) -> npt.NDArray[np.float32]:
        """[T] one channel by name."""
        if name in ("X", "Y"):
            return self.position[:, "XY".index(name)]
        if name not in self.available_channels:
            raise DataError(
                f"{self.code} has no channel {name!r}; there are {', '.join(self.available_channels) or 'none'}."
            )
        return self.channels[name]


@dataclass(frozen=True, eq=False)
class Session:
    """One session of one weekend with everything the pages need of it.

    year, event, name      of the session
    circuit                its name
    rotation               degrees by which maps of it are turned
    corners                of the circuit
    drivers                with everything that is known of each
    simulated              whether it was invented
    notes                  what was found wanting, in sentences
    spells                 flags, safety cars and rain, as far as they are known
    track                  degrees Celsius of the track at the first and last measurement; () where unknown
    recipe                 what made it, where that is a simulator; as for `Trial`
    """

    year: int
    event: str
    name: str
    circuit: str
    rotation: float  # degrees that turn the map to the official orientation
    corners: tuple[Corner, ...]
    drivers: tuple[Driver, ...]
    simulated: bool = False
    notes: tuple[str, ...] = field(default=())
    spells: tuple[Spell, ...] = field(default=())
    track: tuple[float, ...] = field(default=())
    recipe: str = field(default="", init=False)

    @property
    def title(self) -> str:
        """Year, event and session, as a heading."""
        if self.simulated:
            return f"{self.circuit} · simulated {self.name.lower()}"
        return f"{self.event} {self.year} · {self.name}"

    @property
    def codes(self) -> tuple[str, ...]:
        """Every driver, in the order of the result, with or without data."""
        return tuple(driver.code for driver in self.drivers)

    def driver(self, code: str) -> Driver:
        """One driver who has position data, or a message that says who has.

        code   three letters, such as VER
        """
        usable = ", ".join(driver.code for driver in self.drivers if driver.has_position)
        found = next((driver for driver in self.drivers if code in (driver.code, driver.number)), None)
        if found is None:
            raise DataError(f"{self.title}: there is no driver {code!r}. Choose one of {usable}.")
        if not found.has_position:
            raise FeedError(
                Reason.NO_POSITION,
                f"{self.title}: {found.code} ({found.name}) has no position data, so there is nothing to draw or fit. "
                f"Choose one of {usable or '... nobody: choose another session'}.",
            )
        return found

    def require_corners(self) -> tuple[Corner, ...]:
        """The corners, or a message that says that the corner service had none."""
        if len(self.corners) < 2:
            raise FeedError(
                Reason.NO_CORNERS,
                f"{self.title}: the corner service lists {len(self.corners)} corners for {self.circuit}, so laps cannot "
                "be divided into segments. Load the session again later, or go on without segment labels.",
            )
        return self.corners

    @cached_property
    def reference(self) -> ReferenceLap:
        """The fastest clean lap of the session: distances along the lap are measured on it."""
        choices = [(_lap_ranks(driver), driver) for driver in self.drivers if driver.has_position]
        best = min(((rank, driver) for ranks, driver in choices for rank in ranks), key=lambda c: c[0], default=None)
        if best is None:
            raise FeedError(
                Reason.NO_LAPS,
                f"{self.title}: no driver has a complete timed lap with position data, so distances along the lap "
                "cannot be measured. Choose another session.",
            )
        (*_, row), driver = best
        return ReferenceLap.from_samples(
            driver.time, driver.position, driver.laps.start[row], driver.laps.end[row], where=self.title
        )

    @cached_property
    def sector_lines(self) -> SectorLines | None:
        """Where the sector lines lie; None where too few laps have official sector times and speeds."""
        return sector_lines(self)

    @cached_property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of each channel over all drivers' clean laps: one scale for every driver."""
        scales = {}
        for name in CHANNELS:
            sent = [driver for driver in self.drivers if name in driver.available_channels]
            parts = [d.channel(name)[np.isin(d.lap, d.laps.number[_clean(d.laps)])] for d in sent]
            values = np.concatenate(parts).astype(np.float64) if parts else np.empty(0)
            values = values[np.isfinite(values)]
            if values.size:
                scales[name] = (float(values.mean()), float(values.std()) or 1.0)
        return scales


def _clean(laps: LapTable) -> BoolArray:
    """Accurate laps, or every timed lap, or every lap: the best that there is."""
    for chosen in (laps.accurate & laps.timed, laps.timed):
        if chosen.any():
            return chosen
    return np.ones(len(laps), dtype=bool)


def _lap_ranks(driver: Driver) -> list[tuple[bool, bool, float, int]]:
    """Timed laps as (has a hole, is not accurate, seconds, row): the smallest is the best to measure distances on."""
    laps = driver.laps
    first = np.searchsorted(driver.time, laps.start)
    last = np.searchsorted(driver.time, laps.end)
    # the feed's clock ticks in milliseconds: a step of exactly so much is a hole, whatever its last bit says
    hole = np.diff(driver.time) > _SMALL_GAP_S - 1e-6
    return [
        (bool(hole[first[row] : last[row] - 1].any()), not laps.accurate[row], laps.seconds[row], row)
        for row in np.flatnonzero(laps.timed).tolist()
        if last[row] - first[row] >= _FEWEST_SAMPLES
    ]


# ---- when a car is where on its lap ----------------------------------------------------------------------------------
# By integrated speed, pinned to the official lap and sector times. Positions come with times that jitter by a tenth of a second,
# which is more than two laps usually differ by; speed integrates to a smooth distance instead. What the integral is wrong by
# (wheels slip, lines differ in length) is taken out at the start line and at both sector lines, where the official times say when
# the car was there; in between it remains, and the session's own laps say how large it is.
LARGEST_HOLE_S = 1.5  # without speed: longer, and the distance driven meanwhile is a guess
FEWEST_LAPS = 5  # from which sector lines and errors can be told
SHORTEST_SECTOR_S = 1.0


@dataclass(frozen=True)
class SectorLines:
    """Where the two sector lines lie, and how far integrated speed strays.

    shares   of the lap's distance at which they are crossed
    drift    variance, in seconds squared a second, by which the clock of a lap drifts between two official times
    n_laps   that both were measured on
    """

    shares: tuple[float, float]
    drift: float
    n_laps: int


@dataclass(frozen=True, eq=False)
class LapClock:
    """Seconds since the start line along one lap.

    pins      [P + 1] official times, from 0 to the lap's
    distance  [T] share of the lap's distance behind the car at `time`, rising from 0 to 1
    drift     variance, in seconds squared a second, by which it strays between two pins
    """

    pins: FloatArray
    time: FloatArray
    distance: FloatArray
    drift: float

    def at(self, share: npt.ArrayLike) -> FloatArray:
        """[...] seconds at which the car has driven these shares of the lap.

        share   of the lap's distance, 0 to 1
        """
        return np.interp(np.asarray(share, float), self.distance, self.time)

    def variance(self, first: npt.ArrayLike, last: npt.ArrayLike) -> FloatArray:
        """[...] variance of the time taken from one share of the lap to another, in seconds squared.

        Between two pins the error is that of a walk which has to come back: none over the whole way, most half-way.

        first, last   shares of the lap's distance, 0 to 1
        """
        a, b = self.at(first)[..., None], self.at(last)[..., None]
        start, end = self.pins[:-1], self.pins[1:]
        inside = np.clip(np.minimum(b, end) - np.maximum(a, start), 0, None)  # [..., P]
        found: FloatArray = (self.drift * inside * (1 - inside / (end - start))).sum(axis=-1)
        return found


def sector_lines(session: Session) -> SectorLines | None:
    """Both lines from all clean laps with official sector times; None where there are too few of them."""
    found = []
    for driver in session.drivers:
        for row in np.flatnonzero(driver.laps.accurate & np.isfinite(driver.laps.sectors).all(axis=1)):
            driven = _driven(driver, int(row))
            if driven is None:
                continue
            time, along = driven
            split = np.cumsum(driver.laps.sectors[row])
            pace = along[-1] / split[-1]
            share = np.interp(split[:2], time, along) / along[-1]
            speed = np.interp(split[:2], (time[1:] + time[:-1]) / 2, np.diff(along) / np.diff(time))
            found.append([*share, *(pace / np.maximum(speed, 1.0)), split[-1], *split[:2]])
    if len(found) < FEWEST_LAPS:
        return None
    table = np.array(found)  # [L, 7]
    shares = np.median(table[:, :2], axis=0)
    # How late each lap would cross each line if only its lap time were known, against what a drifting clock would do.
    late = (table[:, :2] - shares) * table[:, 4:5] * table[:, 2:4]
    loose = table[:, 5:] * (1 - table[:, 5:] / table[:, 4:5])
    drift = float((1.4826 * np.median(np.abs(late / np.sqrt(loose)))) ** 2)
    return SectorLines((float(shares[0]), float(shares[1])), drift, len(found))


def lap_clock(session: Session, code: str, number: int, *, pinned: bool = True) -> LapClock | None:
    """The clock of one lap of a driver; None where it was not timed, or too little speed was sent.

    pinned   to the sector times too; without them to the lap time alone
    session, code, number  which lap of which driver
    """
    driver, lines = session.driver(code), session.sector_lines
    rows = np.flatnonzero(driver.laps.number == number)
    if not rows.size or lines is None or not np.isfinite(driver.laps.seconds[rows[0]]):
        return None
    row = int(rows[0])
    driven = _driven(driver, row)
    if driven is None:
        return None
    time, along = driven
    share = along / along[-1]
    ends, places = np.array([0.0, float(driver.laps.seconds[row])]), np.array([0.0, 1.0])
    sectors = driver.laps.sectors[row]
    if pinned and np.isfinite(sectors).all() and (sectors > SHORTEST_SECTOR_S).all():
        ends, places = np.insert(ends, 1, np.cumsum(sectors)[:2]), np.insert(places, 1, lines.shares)
    # Each stretch between two official times is stretched to its length.
    behind = np.interp(ends, time, share)
    if (np.diff(behind) <= 0).any():
        return None
    return LapClock(ends, time, np.interp(share, behind, places), lines.drift)


def _driven(driver: Driver, row: int) -> tuple[FloatArray, FloatArray] | None:
    """(seconds since the lap began, metres driven since) at the official times and at every sample of one lap."""
    laps = driver.laps
    seconds = float(laps.seconds[row])
    if not np.isfinite(seconds) or "speed" not in driver.available_channels:
        return None
    start = float(laps.start[row])
    sent = driver.time - start
    known = np.isfinite(driver.channels["speed"]) & (sent > -LARGEST_HOLE_S) & (sent < seconds + LARGEST_HOLE_S)
    sent, pace = sent[known], driver.channels["speed"][known].astype(np.float64) / 3.6
    if sent.size < 2 or max(sent[0], seconds - sent[-1], np.diff(sent).max()) > LARGEST_HOLE_S:
        return None
    splits = np.cumsum(laps.sectors[row])[:2]
    time = np.union1d(sent[(sent > 0) & (sent < seconds)], [0.0, *splits[np.isfinite(splits)], seconds])
    speed = np.interp(time, sent, pace)
    metres = np.append(0.0, np.cumsum(np.diff(time) * (speed[1:] + speed[:-1]) / 2))
    moving = np.append(True, np.diff(metres) > 0)  # a car that stands takes no share of the way
    return (time[moving], metres[moving]) if metres[-1] > 0 and moving[-1] else None
