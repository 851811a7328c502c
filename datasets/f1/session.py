"""Formula 1 sessions as frozen dataclasses: corners, drivers, laps, and the reference lap of the track.

Real and simulated sessions have the same structure. Lengths are in metres, times in seconds on the session's clock and
speeds in km/h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

UNKNOWN_COMPOUNDS = frozenset({"None", "nan", "UNKNOWN", "TEST_UNKNOWN"})  # words of the feed
CAR_CHANNELS = ("speed", "throttle", "brake", "gear", "rpm", "drs")
CHANNELS = ("X", "Y", *CAR_CHANNELS)
UNITS = {
    "X": "m", "Y": "m", "speed": "km/h", "throttle": "%", "brake": "on/off", "gear": "", "rpm": "1/min", "drs": "open/shut",
}  # fmt: skip

# track status codes: 4 safety car, 5 red flag, 6 virtual safety car, 7 virtual safety car ending
NEUTRALISED = frozenset("4567")
QUICK = 1.07  # times the driver's best; slower laps are warm-up or cool-down laps
STEPPED = frozenset({"brake", "gear", "drs"})  # channels that change in steps
LARGEST_GAP_S = 2.0  # nothing is interpolated over longer gaps
SMALL_GAP_S, FEWEST_SAMPLES = 0.8, 100  # requirements of a reference lap
SPACING_M, NEAR_M = 2.0, 30.0  # between points of a reference lap; from a point to its sample


class Reason(StrEnum):
    """Cause of missing Formula 1 data, with a title for screens."""

    NO_NETWORK = "No network"
    NOT_FOUND = "Not found"
    NOT_YET = "Not driven yet"
    NO_LAPS = "No laps"
    NO_POSITION = "No positions"
    NO_CORNERS = "No corners"
    RATE_LIMIT = "Too many requests"
    ACCOUNT = "A Formula 1 account is required"
    DEADLINE = "Loading timed out"
    CANCELLED = "Cancelled"
    STORAGE = "The data folder is not writable"
    CRASHED = "The loader stopped"


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
    def quick(self) -> BoolArray:
        """Return [L] whether each lap is undisturbed and no cool-down lap."""
        best = np.min(self.seconds[self.timed], initial=np.inf)
        return self.undisturbed & (self.seconds <= QUICK * best)

    @property
    def stints(self) -> tuple[int, ...]:
        """Return the known stint numbers in order."""
        return tuple(np.unique(self.stint[self.stint > 0]).tolist())


def known_compounds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the tyre compounds of laps, "" where the feed has a word for an unknown one."""
    return tuple("" if name in UNKNOWN_COMPOUNDS else name for name in names)


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
        found = next((driver for driver in self.drivers if code in (driver.code, driver.number)), None)
        if found is not None and found.has_position:
            return found
        usable = ", ".join(driver.code for driver in self.drivers if driver.has_position)
        if found is None:
            raise DataError(f"{self.title}: there is no driver {code!r}. Choose one of {usable}.")
        raise FeedError(
            Reason.NO_POSITION,
            f"{self.title}: {found.code} ({found.name}) has no position data, so there is nothing to draw or fit. "
            f"Choose one of {usable or '... nobody: choose another session'}.",
        )

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
        driven = [driver for driver in self.drivers if driver.has_position]
        ranks = [(*rank, driver) for driver in driven for rank in _lap_ranks(driver)]
        if not ranks:
            raise FeedError(
                Reason.NO_LAPS,
                f"{self.title}: no driver has a complete timed lap with position data, so distances along the lap "
                "cannot be measured. Choose another session.",
            )
        *_, row, driver = min(ranks, key=lambda rank: rank[:4])
        return ReferenceLap.from_samples(
            driver.time, driver.position, driver.laps.start[row], driver.laps.end[row], where=self.title
        )

    @cached_property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """Return mean and standard deviation of each channel over all drivers' clean laps."""
        scales, clean = {}, [np.isin(d.lap, d.laps.number[_clean(d.laps)]) for d in self.drivers]
        for name in CHANNELS:
            sent = zip(self.drivers, clean, strict=True)
            parts = [driver.channel(name)[kept] for driver, kept in sent if name in driver.available_channels]
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
    hole = np.diff(driver.time) > SMALL_GAP_S - 1e-6
    return [
        (bool(hole[first[row] : last[row] - 1].any()), not laps.accurate[row], laps.seconds[row], row)
        for row in np.flatnonzero(laps.timed).tolist()
        if last[row] - first[row] >= FEWEST_SAMPLES
    ]


# ---- positions along the lap -----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class ReferenceLap:
    """Closed curve of points [M, 2] at even spacing; point 0 is on the start line."""

    points: FloatArray
    length: float

    @classmethod
    def from_samples(
        cls, time: npt.ArrayLike, position: npt.ArrayLike, start: float, end: float, where: str = "reference lap"
    ) -> ReferenceLap:
        """Create a reference lap from the samples between two times, closed at the line."""
        t, xy = np.asarray(time, float), np.asarray(position, float)
        inside = (t > start) & (t < end)
        # interpolate the crossing between two samples, where the curve closes
        crossings = [moment for moment in (start, end) if t.size and t[0] <= moment <= t[-1]]
        line = [np.mean([np.interp(crossings, t, xy[:, axis]) for axis in (0, 1)], axis=1)] if crossings else []
        return cls.from_points(np.vstack([*line, xy[inside]]), where)

    @classmethod
    def from_points(cls, points: npt.ArrayLike, where: str = "reference lap") -> ReferenceLap:
        """Create a reference lap from points in driving order, starting at the line."""
        xy = np.asarray(points, float)
        closed = np.vstack([xy, xy[:1]])
        steps = np.hypot(*np.diff(closed, axis=0).T)
        moving = np.append(steps > 1e-9, True)
        along = np.append(0.0, np.cumsum(steps))
        if moving.sum() < 5 or along[-1] < 100:
            raise DataError(
                f"{where}: the reference lap has {int(moving.sum()) - 1} distinct positions over {along[-1]:.0f} m; "
                "that is no lap. Choose another session or driver."
            )
        length = float(along[-1])
        grid = np.arange(round(length / SPACING_M)) * (length / round(length / SPACING_M))
        even = np.column_stack([np.interp(grid, along, closed[:, axis]) for axis in (0, 1)])  # [M, 2]
        return cls(even, length)

    @property
    def spacing(self) -> float:
        return self.length / len(self.points)

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree  # slow import, needed only for lookups

        return cKDTree(self.points)

    @cached_property
    def _tangents(self) -> FloatArray:
        ahead = np.roll(self.points, -1, axis=0) - np.roll(self.points, 1, axis=0)
        return ahead / np.maximum(np.hypot(*ahead.T), 1e-9)[:, None]  # [M, 2]

    def position_at(self, distance: npt.ArrayLike) -> FloatArray:
        """Return [..., 2] positions at distances along the lap."""
        wrapped = np.mod(np.asarray(distance, float), self.length)
        grid = np.arange(len(self.points) + 1) * self.spacing
        closed = np.vstack([self.points, self.points[:1]])
        return np.stack([np.interp(wrapped, grid, closed[:, axis]) for axis in (0, 1)], axis=-1)

    def distance(self, position: npt.ArrayLike, lap: npt.ArrayLike | None = None) -> FloatArray:
        """Return [T] distance from the start line, in [0, length), of the nearest point.

        With lap numbers [T], the distance travelled resolves positions where the track crosses itself or runs parallel.
        """
        xy = np.atleast_2d(np.asarray(position, float))
        if xy.shape[1:] != (2,) or not np.isfinite(xy).all():
            raise DataError(
                f"Positions have shape {xy.shape} or are not all finite; expected finite numbers [time, 2]."
            )
        gap, index = self._tree.query(xy)  # [T], [T]
        if lap is not None:
            index = self._by_progress(xy, np.asarray(lap), gap, index)
        ahead = ((xy - self.points[index]) * self._tangents[index]).sum(axis=1)
        along = index * self.spacing + np.clip(ahead, -self.spacing, self.spacing)
        wrapped = np.mod(along, self.length)
        return np.where(wrapped >= self.length, 0.0, wrapped)  # rounding can yield exactly the length

    def _by_progress(
        self, xy: FloatArray, lap: npt.NDArray[np.int64], gap: FloatArray, nearest: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.intp]:
        """Replace nearest points that are far from the expected distance travelled."""
        _, run = np.unique(lap, return_inverse=True)  # [T]
        travelled = np.cumsum(np.append(0.0, np.hypot(*np.diff(xy, axis=0).T)))  # [T]
        turn = 2j * np.pi / self.length
        # most samples are right, so their circular mean gives the offset of each lap
        lead = np.exp(turn * (nearest * self.spacing - travelled))
        start = np.bincount(run, lead.real) + 1j * np.bincount(run, lead.imag)
        expected = np.angle(np.exp(turn * travelled) * start[run]) / turn.imag  # [T]
        window = max(0.08 * self.length, 150.0)
        doubtful = np.flatnonzero(self._apart(nearest * self.spacing, expected) > window)
        if doubtful.size == 0:
            return nearest
        fixed = nearest.copy()
        grid = np.arange(len(self.points)) * self.spacing
        for part in np.array_split(doubtful, doubtful.size // 1000 + 1):  # bounds memory
            far = np.hypot(*(xy[part, axis, None] - self.points[:, axis] for axis in (0, 1)))  # [n, M]
            far[self._apart(grid, expected[part, None]) > window] = np.inf
            near = far.min(axis=1) <= gap[part] + NEAR_M
            fixed[part[near]] = far[near].argmin(axis=1)
        return fixed

    def _apart(self, one: npt.NDArray[np.floating], other: FloatArray) -> npt.NDArray[np.floating]:
        """Return the distance between two positions along the closed lap."""
        difference = np.mod(one - other, self.length)
        return np.minimum(difference, self.length - difference)
