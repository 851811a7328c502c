"""Formula 1 session data as frozen dataclasses: calendar, corners, drivers and laps.

Real and simulated sessions have the same structure. Lengths are in metres, times in seconds on the session's clock and
speeds in km/h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache

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

# track status codes: 4 safety car, 5 red flag, 6 virtual safety car, 7 virtual safety car ending
NEUTRALISED = frozenset("4567")
_SMALL_GAP_S, _FEWEST_SAMPLES = 0.8, 100  # requirements of a reference lap


class Reason(StrEnum):
    """Cause of missing Formula 1 data; pages use it to suggest the next step."""

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
    """Error for unavailable Formula 1 data; `reason` is the cause, the message gives advice."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Corner:
    """Numbered corner; number and letter form its name (Hungary has 1 and 1A).

    x, y       position of the marker, in metres
    distance   metres from the start line along the reference lap
    angle      direction from the corner to its label, in degrees
    """

    number: int
    letter: str
    x: float
    y: float
    distance: float
    angle: float

    @property
    def key(self) -> str:
        """Return number and letter, as on a track map."""
        return f"{self.number}{self.letter}"


@dataclass(frozen=True, eq=False)
class LapTable:
    """A driver's laps; every field has one entry per lap [L].

    number            lap number, from 1
    start, end        seconds on the session's clock
    seconds           lap time; NaN if not timed
    sectors           [L, 3] official sector times in seconds; NaN if not timed
    pit_in, pit_out   whether the lap ended or began in the pits
    neutralised       whether a safety car, virtual safety car or red flag was out
    accurate          whether the feed marks its times as accurate
    compound          tyre compound; "" if unknown
    stint             stint number, from 1; 0 if unknown
    tyre_age          tyre age in laps at the end of the lap; NaN if unknown
    part              1 to 3 for Q1 to Q3; 0 otherwise
    deleted           whether race control deleted the lap time, as for exceeding track limits
    speed_trap        official speed at the speed trap in km/h; NaN if unknown
    """

    number: IntArray
    start: FloatArray
    end: FloatArray
    seconds: FloatArray
    sectors: FloatArray  # [L, 3]
    pit_in: BoolArray
    pit_out: BoolArray
    neutralised: BoolArray
    accurate: BoolArray
    compound: tuple[str, ...]
    stint: IntArray
    tyre_age: FloatArray
    part: IntArray
    deleted: BoolArray
    speed_trap: FloatArray

    def __len__(self) -> int:
        return int(self.number.size)

    @property
    def timed(self) -> BoolArray:
        """Return [L] whether each lap has a lap time."""
        return np.isfinite(self.seconds)

    @property
    def undisturbed(self) -> BoolArray:
        """Return [L] whether each lap is timed, accurate, not neutralised and outside the pits."""
        return self.accurate & self.timed & ~(self.pit_in | self.pit_out | self.neutralised)

    @property
    def stints(self) -> tuple[int, ...]:
        """Return the known stint numbers in order."""
        return tuple(np.unique(self.stint[self.stint > 0]).tolist())


@dataclass(frozen=True)
class Spell:
    """Period of a session with a flag, a safety car or rain.

    start, end   seconds on the session's clock
    what         "yellow", "red flag", "safety car", "virtual safety car" or "rain"
    """

    start: float
    end: float
    what: str


@dataclass(frozen=True, eq=False)
class CarSamples:
    """Car channels at the times at which the feed sent them.

    time       [R] seconds on the session's clock
    channels   [R] values by name; NaN where the signal was lost
    """

    time: FloatArray
    channels: Mapping[str, npt.NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class Driver:
    """A driver's session: samples in time order, all inside laps.

    code                 three letters, such as VER
    number, name, team   as on the entry list
    colour               team colour as #rrggbb; "" if unknown
    time, lap            [T] seconds on the session's clock, and lap number, of each position
    position             [T, 2] positions of the car in metres
    channels             [T] car channels by name, at the times of the positions
    laps                 lap table
    car                  car channels as sent; None if only those at the times of the positions are known
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
    car: CarSamples | None = None

    @property
    def raw(self) -> CarSamples:
        """Return the car channels as sent, or else at the times of the positions."""
        return self.car or CarSamples(self.time, self.channels)

    @property
    def has_position(self) -> bool:
        """Return whether the feed has positions of this car."""
        return self.time.size > 0

    @cached_property
    def available_channels(self) -> tuple[str, ...]:
        """Return the available channels: positions, and car channels with any value."""
        sent = (name for name in CAR_CHANNELS if name in self.channels and np.isfinite(self.channels[name]).any())
        return ("X", "Y", *sent) if self.has_position else ()

    def channel(self, name: str) -> npt.NDArray[np.float32]:
        """Return [T] values of a channel."""
        if name in ("X", "Y"):
            return self.position[:, "XY".index(name)]
        if name not in self.available_channels:
            raise DataError(
                f"{self.code} has no channel {name!r}; there are {', '.join(self.available_channels) or 'none'}."
            )
        return self.channels[name]


@dataclass(frozen=True, eq=False)
class Session:
    """Session of a race weekend: circuit, corners, drivers and notes.

    year, event, name      season, event name and session name
    circuit                circuit name
    rotation               degrees that turn maps to the official orientation
    corners                numbered corners
    drivers                drivers in the order of the result
    simulated              whether the session is simulated
    notes                  sentences about missing or unusual data
    spells                 known periods of flags, safety cars and rain
    track                  first and last track temperature in degrees Celsius; () if unknown
    recipe                 recipe of a simulated session, as for `Trial`
    """

    year: int
    event: str
    name: str
    circuit: str
    rotation: float
    corners: tuple[Corner, ...]
    drivers: tuple[Driver, ...]
    simulated: bool = False
    notes: tuple[str, ...] = field(default=())
    spells: tuple[Spell, ...] = field(default=())
    track: tuple[float, ...] = field(default=())
    recipe: str = field(default="", init=False)

    @property
    def title(self) -> str:
        """Return a heading with event, year and session name."""
        if self.simulated:
            return f"{self.circuit} · simulated {self.name.lower()}"
        return f"{self.event} {self.year} · {self.name}"

    @property
    def codes(self) -> tuple[str, ...]:
        """Return all driver codes in the order of the result, with or without data."""
        return tuple(driver.code for driver in self.drivers)

    def driver(self, code: str) -> Driver:
        """Return a driver with position data; otherwise raise an error that lists alternatives.

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
        """Return the corners, or raise FeedError if there are fewer than two."""
        if len(self.corners) < 2:
            raise FeedError(
                Reason.NO_CORNERS,
                f"{self.title}: the corner service lists {len(self.corners)} corners for {self.circuit}, so laps cannot "
                "be divided into segments. Load the session again later, or go on without segment labels.",
            )
        return self.corners

    @cached_property
    def reference(self) -> ReferenceLap:
        """Return the fastest clean lap of the session, which defines distance along the lap."""
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
        """Return the sector lines, or None with too few official sector times or speeds."""
        return sector_lines(self)

    @cached_property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """Return mean and standard deviation of each channel over all drivers' clean laps."""
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
    """Return accurate laps, else timed laps, else all laps."""
    for chosen in (laps.accurate & laps.timed, laps.timed):
        if chosen.any():
            return chosen
    return np.ones(len(laps), dtype=bool)


def _lap_ranks(driver: Driver) -> list[tuple[bool, bool, float, int]]:
    """Return (has gap, is inaccurate, seconds, row) of timed laps; the smallest ranks best."""
    laps = driver.laps
    first = np.searchsorted(driver.time, laps.start)
    last = np.searchsorted(driver.time, laps.end)
    # tolerate rounding: a step of exactly this size counts as a gap
    hole = np.diff(driver.time) > _SMALL_GAP_S - 1e-6
    return [
        (bool(hole[first[row] : last[row] - 1].any()), not laps.accurate[row], laps.seconds[row], row)
        for row in np.flatnonzero(laps.timed).tolist()
        if last[row] - first[row] >= _FEWEST_SAMPLES
    ]


# ---- lap clocks -----------------------------------------------------------------------------------------------------
# Position times jitter by a tenth of a second, more than most laps differ; integrated speed is smooth. Official times
# correct its error at the start and sector lines; the session's laps give the error that remains between them.
LARGEST_HOLE_S = 1.5  # longer gaps leave the distance unknown
FEWEST_LAPS = 5  # minimum for estimating sector lines and drift
SHORTEST_SECTOR_S = 1.0


@dataclass(frozen=True)
class SectorLines:
    """Positions of the two sector lines, and the error of integrated speed.

    shares   share of the lap's distance at each line
    drift    variance of a lap clock per second between official times, in s2/s
    n_laps   number of laps measured
    """

    shares: tuple[float, float]
    drift: float
    n_laps: int


@dataclass(frozen=True, eq=False)
class LapClock:
    """Time since the start line along a lap.

    pins      [P + 1] official times, from 0 to the lap time
    time      [T] seconds since the start line
    distance  [T] share of the lap's distance at `time`, rising from 0 to 1
    drift     variance per second between two pins, in s2/s
    """

    pins: FloatArray
    time: FloatArray
    distance: FloatArray
    drift: float

    def seconds_at(self, share: npt.ArrayLike) -> FloatArray:
        """Return [...] seconds since the start line at shares of the lap.

        share   share of the lap's distance, 0 to 1
        """
        return np.interp(np.asarray(share, float), self.distance, self.time)

    def variance(self, first: npt.ArrayLike, last: npt.ArrayLike) -> FloatArray:
        """Return [...] variance in s2 of the time between two shares of the lap.

        The error is a Brownian bridge between pins: zero over the whole interval, largest over half of it.

        first, last   shares of the lap's distance, 0 to 1
        """
        a, b = self.seconds_at(first)[..., None], self.seconds_at(last)[..., None]
        start, end = self.pins[:-1], self.pins[1:]
        inside = np.clip(np.minimum(b, end) - np.maximum(a, start), 0, None)  # [..., P]
        found: FloatArray = (self.drift * inside * (1 - inside / (end - start))).sum(axis=-1)
        return found


def sector_lines(session: Session) -> SectorLines | None:
    """Estimate both sector lines from clean laps with official sector times; None if too few."""
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
    # Compare the error at each line, given the lap time alone, with that of a drifting clock.
    late = (table[:, :2] - shares) * table[:, 4:5] * table[:, 2:4]
    loose = table[:, 5:] * (1 - table[:, 5:] / table[:, 4:5])
    drift = float((1.4826 * np.median(np.abs(late / np.sqrt(loose)))) ** 2)
    return SectorLines((float(shares[0]), float(shares[1])), drift, len(found))


def lap_clock(session: Session, code: str, number: int, *, pinned: bool = True) -> LapClock | None:
    """Return the clock of a lap, or None without a lap time or enough speed samples.

    session   from `load_session` or `simulate_race`
    code      three letters, such as VER
    number    lap number
    pinned    use official sector times in addition to the lap time
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
    # Scale the distance between official times to match the sector lines.
    behind = np.interp(ends, time, share)
    if (np.diff(behind) <= 0).any():
        return None
    return LapClock(ends, time, np.interp(share, behind, places), lines.drift)


@lru_cache(maxsize=2400)  # two races
def _driven(driver: Driver, row: int) -> tuple[FloatArray, FloatArray] | None:
    """Return (seconds, metres) since the lap began, at official times and samples."""
    laps = driver.laps
    seconds = float(laps.seconds[row])
    if not np.isfinite(seconds) or "speed" not in driver.available_channels:
        return None
    start = float(laps.start[row])
    part = slice(*np.searchsorted(driver.time, [start - LARGEST_HOLE_S, start + seconds + LARGEST_HOLE_S]))
    sent, pace = driver.time[part] - start, driver.channels["speed"][part].astype(np.float64) / 3.6
    known = np.isfinite(pace)
    sent, pace = sent[known], pace[known]
    if sent.size < 2 or max(sent[0], seconds - sent[-1], np.diff(sent).max()) > LARGEST_HOLE_S:
        return None
    splits = np.cumsum(laps.sectors[row])[:2]
    time = np.union1d(sent[(sent > 0) & (sent < seconds)], [0.0, *splits[np.isfinite(splits)], seconds])
    speed = np.interp(time, sent, pace)
    metres = np.append(0.0, np.cumsum(np.diff(time) * (speed[1:] + speed[:-1]) / 2))
    moving = np.append(True, np.diff(metres) > 0)  # drop samples of a stationary car
    return (time[moving], metres[moving]) if metres[-1] > 0 and moving[-1] else None
