"""Simulated races: invented drivers on hand-drawn circuits, sampled like the real feed.

A simulated session has the structure of a loaded one, needs no network and is named as simulated. The circuits resemble
Shanghai and Suzuka and match their lengths and corner numbers, but they are not surveys.

Laps are quasi-steady: the fastest possible speed at each point, for many laps at once. The tyres provide a limited force
in all directions together (the grip circle), which grows with speed through downforce. Sideways grip limits the speed in
corners. Between them, the car accelerates by its power or its grip, whichever is less, and brakes as late as the next
corner allows. The feed samples this irregularly and rounds positions, pedals and gears."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.trials import with_recipe

from .session import Corner, Driver, LapTable, Session

FloatArray = npt.NDArray[np.float64]

SPACING_M = 5.0
EASING_M = 12.0  # the curvature of roads changes gradually
PIECES = Path(__file__).with_name("layouts.csv")


@dataclass(frozen=True)
class Circuit:
    """Properties of a circuit apart from its pieces."""

    title: str
    length: float  # metres, of the real circuit
    heading: float  # direction of the start straight in radians
    rotation: float  # degrees that turn maps to the official orientation
    laps: int
    grip: float  # calibrated to real race lap times


LAYOUTS = {
    "shanghai": Circuit("Shanghai", 5451.0, np.deg2rad(15), 50.0, 56, 1.43),
    "suzuka": Circuit("Suzuka", 5807.0, np.deg2rad(-50), 54.0, 53, 1.26),
}


@dataclass(frozen=True, eq=False)
class Centreline:
    """Closed lap at even spacing; point 0 is on the start line."""

    title: str
    points: FloatArray  # [M, 2]
    heading: FloatArray  # [M] radians, unwrapped
    curvature: FloatArray  # [M] 1/m, left positive
    spacing: float
    corners: tuple[tuple[str, float], ...]  # number and distance of each apex

    @property
    def length(self) -> float:
        return self.spacing * len(self.points)

    @property
    def normals(self) -> FloatArray:
        """Return [M, 2] unit vectors to the left of the track."""
        return np.column_stack([-np.sin(self.heading), np.cos(self.heading)])


@lru_cache(maxsize=8)
def centreline(circuit: str) -> Centreline:
    """Return the closed lap of a drawn circuit."""
    if circuit not in LAYOUTS:
        raise ConfigError(f"There is no drawn circuit {circuit!r}; there are {', '.join(LAYOUTS)}.")
    layout = LAYOUTS[circuit]
    with PIECES.open(encoding="utf-8", newline="") as file:
        pieces = [piece for piece in csv.DictReader(file) if piece["circuit"] == circuit]
    lengths, angles = (np.array([float(piece[name]) for piece in pieces]) for name in ("length", "angle"))
    edges = np.append(0.0, np.cumsum(lengths))
    count = round(layout.length / SPACING_M)
    spacing = edges[-1] / count
    # mean curvature per step keeps turns exact where pieces meet
    turned = np.interp(np.arange(count + 1) * spacing, edges, np.append(0.0, np.cumsum(angles)))
    curvature = ease(np.diff(turned) / spacing, EASING_M / spacing)
    heading = layout.heading + np.append(0.0, np.cumsum(curvature * spacing))  # [M + 1]
    middle = (heading[1:] + heading[:-1]) / 2
    path = np.vstack([np.zeros(2), np.cumsum(spacing * np.column_stack([np.cos(middle), np.sin(middle)]), axis=0)])
    # smoothing opens the lap by a metre or two: spread the error evenly
    path -= np.linspace(0, 1, count + 1)[:, None] * path[-1]
    apexes = (edges[:-1] + edges[1:]) / 2
    corners = tuple((p["corner"], float(a)) for p, a in zip(pieces, apexes, strict=True) if p["corner"])
    return Centreline(layout.title, path[:-1], heading[:-1], curvature, spacing, corners)


def ease(values: FloatArray, width: float) -> FloatArray:
    """Smooth a closed sequence with a Gaussian of `width` samples; preserve its sum."""
    frequency = np.fft.rfftfreq(len(values))
    return np.fft.irfft(np.fft.rfft(values) * np.exp(-2 * (np.pi * frequency * width) ** 2), len(values))


GRAVITY = 9.81
SLOWEST = 3.0  # m/s; keeps the time of a standing start finite
TOP_SPEED = 105.0


@dataclass(frozen=True, eq=False)
class Car:
    """Properties of a car and its driver, one value per lap [L]."""

    grip: FloatArray  # sideways grip without downforce, as a share of weight
    power: FloatArray  # W at the wheels
    braking: FloatArray  # share of grip used under braking
    traction: FloatArray  # share of grip available to the driven wheels
    mass: FloatArray  # kg
    downforce: ClassVar[float] = 0.0031  # m/s2 of extra grip per (m/s)2
    drag: ClassVar[float] = 0.9  # N per (m/s)2

    def hold(self, square: FloatArray) -> FloatArray:
        """Return [L] acceleration in m/s2 that the tyres support at a squared speed."""
        return self.grip * (GRAVITY + self.downforce * square)

    def pick(self, laps: npt.NDArray[np.intp]) -> Car:
        """Return the same car on some of its laps."""
        return Car(*(getattr(self, field.name)[laps] for field in fields(self)))

    @classmethod
    def join(cls, cars: Sequence[Car]) -> Car:
        """Return all laps of several cars, one car after the other."""
        return cls(*(np.concatenate([getattr(car, field.name) for car in cars]) for field in fields(cls)))


def corner_limit(curvature: FloatArray, car: Car) -> FloatArray:
    """Return [M, L] squared speed at which cornering takes all grip."""
    bend = np.abs(curvature)[:, None]
    spare = bend - car.grip * car.downforce  # no limit where downforce outgrows the bend
    limit = np.where(spare > 0, car.grip * GRAVITY / np.maximum(spare, 1e-9), TOP_SPEED**2)
    return np.clip(limit, SLOWEST**2, TOP_SPEED**2)


def flying_lap(curvature: FloatArray, spacing: float, car: Car) -> FloatArray:
    """Return [M, L] speed on a lap that ends at its starting speed."""
    limit = corner_limit(curvature, car)
    # start at the slowest corner: the final speed hardly depends on the initial speed there
    first = int(limit.mean(axis=1).argmin())
    limit, bend = np.roll(limit, -first, axis=0), np.roll(curvature, -first)
    square = _driven(bend, limit, limit[0], limit[0], spacing, car)
    brought = np.minimum(limit[0], _pushed(square[-1], abs(bend[-1]), spacing, car))
    square = _driven(bend, limit, brought, brought, spacing, car)
    return np.sqrt(np.roll(square, first, axis=0))


def bounded_lap(
    curvature: FloatArray, spacing: float, car: Car, cap: FloatArray, enter: FloatArray, leave: FloatArray
) -> FloatArray:
    """Return [M, L] speed under caps [M, L], given the speeds [L] at both ends."""
    limit = np.minimum(corner_limit(curvature, car), cap**2)
    return np.sqrt(_driven(curvature, limit, enter**2, leave**2, spacing, car))


def lap_times(speed: FloatArray, spacing: float, following: FloatArray) -> FloatArray:
    """Return [M + 1, L] time at each point and the finish; `following` [L] is the finish speed."""
    closed = np.vstack([speed, following])
    steps = 2 * spacing / (closed[1:] + closed[:-1])
    return np.vstack([np.zeros(speed.shape[1]), np.cumsum(steps, axis=0)])


def _driven(
    curvature: FloatArray, limit: FloatArray, enter: FloatArray, leave: FloatArray, spacing: float, car: Car
) -> FloatArray:
    """Return [M, L] squared speed: accelerate in a forward pass, brake in a backward pass.

    Each point depends on the previous one, so these loops run over points; laps are vectorised.
    """
    bend = np.abs(curvature)
    square = limit.copy()
    square[0] = np.minimum(limit[0], np.maximum(enter, SLOWEST**2))
    for i in range(len(square) - 1):
        square[i + 1] = np.minimum(square[i + 1], _pushed(square[i], bend[i], spacing, car))
    now = np.clip(leave, SLOWEST**2, TOP_SPEED**2)  # at the line, one step after the last point
    for i in range(len(square) - 1, -1, -1):
        ahead = bend[(i + 1) % len(bend)]
        slow = car.braking * _left_over(car.hold(now), now * ahead) + car.drag * now / car.mass
        now = square[i] = np.minimum(square[i], now + 2 * spacing * slow)
    return square


def _pushed(square: FloatArray, bend: float, spacing: float, car: Car) -> FloatArray:
    """Return [L] squared speed one step later under full acceleration."""
    engine = car.power / (car.mass * np.sqrt(square))
    push = np.minimum(engine, car.traction * _left_over(car.hold(square), square * bend))
    return np.maximum(square + 2 * spacing * (push - car.drag * square / car.mass), SLOWEST**2)


def _left_over(hold: FloatArray, sideways: FloatArray) -> FloatArray:
    """Return the grip available along the road while cornering (grip circle)."""
    return np.sqrt(np.maximum(hold**2 - sideways**2, 0.0))


# ---- simulated feed -------------------------------------------------------------------------------------------------
PIT_ENTRY_M, PIT_EXIT_M, PIT_SIDE_M = 300.0, 330.0, 14.0
LINE_WIDTH_M = 4.5
# quantiles of the real feed's sampling interval, in steps of 20 ms
FEED_SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
FEED_STEPS_S = (0.02, 0.06, 0.14, 0.20, 0.24, 0.32, 0.42, 0.50, 1.12, 1.44)
POSITION_NOISE_M = 0.05
GEAR_SPEEDS = np.array([80.0, 108.0, 138.0, 178.0, 218.0, 258.0, 296.0])  # km/h of each upshift


def racing_line(line: Centreline) -> Centreline:
    """Return the racing line: outside before a bend, inside at its middle, within the road."""
    narrow = ease(line.curvature, 25 / line.spacing)
    wide = ease(line.curvature, 90 / line.spacing)
    swing = 500.0 * (narrow - wide)  # metres to the left, the inside of a left-hand bend
    offset = LINE_WIDTH_M * np.tanh(swing / LINE_WIDTH_M)
    # the line's radius is about a tenth larger than the road's
    bend = 0.9 * ease(line.curvature, 22 / line.spacing)
    return replace(line, points=line.points + offset[:, None] * line.normals, curvature=bend)


def feed_clock(count: int, rng: np.random.Generator) -> FloatArray:
    """Return [count] sample times of the feed, the same for every car."""
    steps = np.interp(rng.random(count), FEED_SHARES, FEED_STEPS_S)
    return np.cumsum(np.round(np.maximum(steps, 0.02) / 0.02) * 0.02)


def positions(
    track: Centreline,
    along: FloatArray,
    lap: npt.NDArray[np.intp],
    pit_flags: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
    rng: np.random.Generator,
) -> FloatArray:
    """Return [T, 2] positions: racing line, habit, scatter, pit lane and measurement noise."""
    length = track.length
    grid = np.arange(len(track.points) + 1) * track.spacing
    within = np.mod(along, length)

    def on_lap(values: FloatArray) -> FloatArray:
        return np.interp(within, grid, np.append(values, values[0]))

    rough = ease(rng.standard_normal(len(track.points)), 20)
    habit = 0.3 * (rough / rough.std())
    knots = rng.normal(
        0, 0.2, int(along[-1] // 150) + 2
    )  # every 150 m of the whole race, which avoids jumps at the line
    aside = on_lap(habit) + np.interp(along, 150.0 * np.arange(knots.size), knots)
    into = pit_flags[0][lap] * np.clip((within - (length - PIT_ENTRY_M)) / 100, 0, 1)
    out = pit_flags[1][lap] * np.clip((PIT_EXIT_M - within) / 100, 0, 1)
    aside = aside - PIT_SIDE_M * np.maximum(into, out)  # the pit lane runs to the right of the straight
    normal = track.normals
    place = np.column_stack(
        [on_lap(track.points[:, axis]) + aside * on_lap(normal[:, axis]) for axis in (0, 1)]
    )  # [T, 2]
    return np.round(place + rng.normal(0, POSITION_NOISE_M, place.shape), 1)  # the feed sends tenths of a metre


def car_channels(
    car: Car, speed: FloatArray, clock: FloatArray, time: FloatArray, lap: npt.NDArray[np.intp]
) -> dict[str, npt.NDArray[np.float32]]:
    """Return car channels: speed in whole km/h, pedals, gear and revolutions."""
    driven = np.append(speed.T.ravel(), speed[-1, -1])  # laps in a row
    pull = np.gradient(driven, np.maximum(clock, np.arange(clock.size) * 1e-9))  # m/s2
    v, a = np.interp(time, clock, driven), np.interp(time, clock, pull)  # [T]
    mass, power = car.mass[lap], car.power[lap]
    drive = a + car.drag * v**2 / mass
    share = np.clip(drive / (power / (mass * np.maximum(v, 10.0))), 0, 1)
    throttle = np.where(share > 0.93, 100.0, np.round(100 * share))
    kmh = np.round(3.6 * v)
    gear = np.searchsorted(GEAR_SPEEDS, kmh, side="right") + 1
    top = np.append(GEAR_SPEEDS, 340.0)[gear - 1]
    rpm = np.round(np.clip(11800 * kmh / top, 4500, 12000))
    channels = {"speed": kmh, "throttle": throttle, "brake": drive < -2.0, "gear": gear, "rpm": rpm}
    return {name: np.asarray(values, dtype=np.float32) for name, values in channels.items()}


# Part of the recipe. Increase it when simulated races or their trials change.
VERSION = 1
SESSION_START_S = 3600.0  # the real clock starts about an hour before the race
SECTOR_LINES = (0.27, 0.58)  # shares of the lap
PIT_SPEED = 80 / 3.6
PIT_BOX_M = 120.0
PIT_STOP_S = 2.4
# invented teams: name, colour, and code and name of two drivers
TEAMS = (
    ("Amber", "#e1a100", ("APX", "Alma Apex"), ("BRK", "Bruno Brake")),
    ("Birch", "#4f9d69", ("CHI", "Cleo Chicane"), ("DRF", "Dario Draft")),
    ("Cobalt", "#2454c4", ("ESS", "Edda Esses"), ("FLT", "Faro Flatout")),
    ("Delta", "#8a5a44", ("GRV", "Gwen Gravel"), ("HPN", "Hugo Hairpin")),
    ("Ember", "#c4342b", ("INL", "Ines Inlap"), ("KRB", "Kato Kerb")),
    ("Fjord", "#2a9fb0", ("LNE", "Lena Lane"), ("MRB", "Milo Marbles")),
    ("Garnet", "#a02c5d", ("NTR", "Nora Neutral"), ("OVR", "Otto Oversteer")),
    ("Harbour", "#5b6b8c", ("PTB", "Petra Pitboard"), ("QLY", "Quinn Quali")),
    ("Iris", "#7b52ab", ("RGL", "Rosa Racingline"), ("SLK", "Samu Slick")),
    ("Jade", "#159a82", ("TYR", "Tilda Tyrewear"), ("UND", "Udo Undercut")),
)
DRIVERS = tuple((*driver, team, colour) for team, colour, *two in TEAMS for driver in two)


def simulate_race(
    circuit: str = "shanghai", drivers: int | Sequence[str] = 20, laps: int | None = None, seed: int = 0
) -> Session:
    """Simulate a race on a drawn circuit, as a session like a loaded one.

    circuit   "shanghai" (16 corners) or "suzuka" (18 corners), both approximate
    drivers   number of invented drivers (up to 20), or their codes
    laps      number of laps; None takes that of the real race
    seed      random seed of drivers, speeds and mistakes
    """
    line = centreline(circuit)
    layout = LAYOUTS[circuit]
    n_laps = layout.laps if laps is None else laps
    chosen = _chosen(drivers)
    if not 1 <= n_laps <= 100:
        raise ConfigError(f"laps is {n_laps}; it must be between 1 and 100.")
    track = racing_line(line)
    # separate random streams: omitting a driver leaves the others unchanged
    ticks = SESSION_START_S + feed_clock(40000, np.random.default_rng((seed, 0)))
    plans = [_plan(layout, n_laps, np.random.default_rng((seed, 1 + DRIVERS.index(entry)))) for entry in chosen]
    pits = np.concatenate([number * n_laps + plan.pits for number, plan in enumerate(plans)])
    speeds = _speeds(track, Car.join([plan.car for plan in plans]), pits, n_laps)
    raced = [
        _drive(track, entry, ticks, plan, speed)
        for entry, plan, speed in zip(chosen, plans, np.split(speeds, len(plans), axis=1), strict=True)
    ]
    raced.sort(key=lambda driver: float(driver.laps.end[-1]))  # winner first
    session = Session(
        year=0,
        event=f"Simulated {layout.title}",
        name="Race",
        circuit=f"{layout.title} (approximate layout)",
        rotation=layout.rotation,
        corners=(),
        drivers=tuple(raced),
        simulated=True,
        notes=("Simulated laps by invented drivers on a hand-drawn circuit: nothing here was measured.",),
    )
    settings = f"{circuit}, {','.join(session.codes)}, {n_laps} laps, safety car None, seed {int(seed)}"
    return with_recipe(f"race {VERSION}, {settings}", replace(session, corners=_corners(track, session)))


def _chosen(drivers: int | Sequence[str]) -> tuple[tuple[str, str, str, str], ...]:
    if isinstance(drivers, int):
        if not 1 <= drivers <= len(DRIVERS):
            raise ConfigError(f"drivers is {drivers}; it must be between 1 and {len(DRIVERS)}, or a list of codes.")
        return DRIVERS[:drivers]
    known = {entry[0]: entry for entry in DRIVERS}
    if not drivers or (unknown := [code for code in drivers if code not in known]) or len(set(drivers)) != len(drivers):
        wrong = ", ".join(unknown) if drivers and unknown else "nobody, or somebody twice"
        raise ConfigError(f"drivers names {wrong}; the invented drivers are {', '.join(known)}, each once.")
    return tuple(known[code] for code in drivers)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A driver's race before it is driven: laps that end in the pits, and stint, tyre age and car of each lap [L]."""

    pits: npt.NDArray[np.intp]
    stint: npt.NDArray[np.intp]
    age: npt.NDArray[np.intp]
    car: Car
    rng: np.random.Generator


def _plan(layout: Circuit, n_laps: int, rng: np.random.Generator) -> _Plan:
    index, pits = np.arange(n_laps), _pit_laps(n_laps, rng)
    stint = np.searchsorted(pits, index, side="left")  # the in-lap ends a stint
    age = index - np.append(0, pits + 1)[stint]
    return _Plan(pits, stint, age, _car(layout, age, index, rng), rng)


def _drive(
    track: Centreline, entry: tuple[str, str, str, str], ticks: FloatArray, plan: _Plan, speed: FloatArray
) -> Driver:
    """Return a driver's race with these speeds [M, L]: clock and feed samples."""
    pits, rng, n_laps = plan.pits, plan.rng, len(plan.age)
    index, no = np.arange(n_laps), np.zeros(n_laps, bool)
    following = np.append(speed[0, 1:], speed[-1, -1])
    times = lap_times(speed, track.spacing, following)  # [M + 1, L]
    box = round(PIT_BOX_M / track.spacing)
    out = pits + 1
    stop = PIT_STOP_S + rng.exponential(0.4, out.size)
    times[box + 1 :, out] += stop
    speed[box : box + 2, out] = track.spacing / stop  # apparent speed during the pit stop
    seconds = times[-1]
    end = SESSION_START_S + 0.2 + rng.exponential(0.15) + np.cumsum(seconds)
    start = end - seconds
    flags = np.isin(index, pits), np.isin(index, out)
    lines = [round(share * (len(times) - 1)) for share in (0.0, *SECTOR_LINES, 1.0)]
    table = LapTable(
        number=index + 1,
        start=start,
        end=end,
        seconds=np.round(seconds, 3),
        sectors=np.round(np.diff(times[lines], axis=0).T, 3),  # [L, 3]
        pit_in=flags[0],
        pit_out=flags[1],
        neutralised=no,
        accurate=~(flags[0] | flags[1] | (index == 0)),
        compound=tuple(np.array(["MEDIUM", "HARD", "SOFT"])[plan.stint]),
        stint=plan.stint + 1,
        tyre_age=(plan.age + 1).astype(np.float64),
        part=np.zeros(n_laps, np.int64),
        deleted=no,
        speed_trap=np.full(n_laps, np.nan),
    )
    code, name, team, colour = entry
    time = ticks[(ticks > start[0]) & (ticks <= end[-1])]
    lap = np.searchsorted(end, time)  # [T] index of the lap
    # join all laps along time and distance
    clock = np.append((start + times[:-1]).T.ravel(), end[-1])
    metres = np.arange(clock.size) * track.spacing
    along = np.interp(time, clock, metres)  # [T]
    position = positions(track, along, lap, flags, rng)
    return Driver(
        code=code,
        number=str(90 + DRIVERS.index(entry)),
        name=name,
        team=team,
        colour=colour,
        time=time,
        position=position.astype(np.float32),
        lap=lap + 1,
        channels=MappingProxyType(car_channels(plan.car, speed, clock, time, lap)),
        laps=table,
    )


def _pit_laps(n_laps: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Return indices of laps that end in the pits: one or two in a full race."""
    if n_laps < 20:
        return np.empty(0, dtype=np.intp)
    shares = np.array([0.45]) if rng.random() < 0.5 else np.array([0.28, 0.64])
    return np.unique(np.round((shares + rng.uniform(-0.08, 0.08, shares.size)) * n_laps).astype(np.intp))


def _car(layout: Circuit, age: npt.NDArray[np.intp], lap: npt.NDArray[np.intp], rng: np.random.Generator) -> Car:
    """Return a driver's car with personal style, tyre degradation, fuel burn and lap scatter."""
    skill, engine, bravery, finesse = rng.normal(0, [0.006, 0.004, 0.03, 0.02])
    wear = rng.uniform(0.0006, 0.0012)
    grip = layout.grip * (1 + skill - wear * age + rng.normal(0, 0.0025, lap.size))
    return Car(
        grip=grip,
        power=np.full(lap.size, 700e3 * (1 + engine)),
        braking=(0.85 + bravery) * (1 + rng.normal(0, 0.01, lap.size)),
        traction=np.full(lap.size, 0.6 * (1 + finesse)),
        mass=895.0 - 1.7 * lap * 56 / layout.laps,
    )


def _speeds(track: Centreline, car: Car, pits: npt.NDArray[np.intp], n_laps: int) -> FloatArray:
    """Return [M, L] speeds of all drivers' laps; laps with a start or a pit stop are solved separately."""
    speed = flying_lap(track.curvature, track.spacing, car)
    cap = np.full_like(speed, np.inf)
    cap[len(speed) - round(PIT_ENTRY_M / track.spacing) :, pits] = PIT_SPEED
    cap[: round(PIT_EXIT_M / track.spacing), pits + 1] = PIT_SPEED
    enter = np.minimum(speed[0], cap[0])
    after = np.append(enter[1:], np.inf)
    after[n_laps - 1 :: n_laps] = np.inf
    enter[::n_laps] = 0.0  # a standing start
    slow = np.unique(np.concatenate([np.arange(0, enter.size, n_laps), pits, pits + 1]))
    speed[:, slow] = bounded_lap(track.curvature, track.spacing, car.pick(slow), cap[:, slow], enter[slow], after[slow])
    return speed


def _corners(track: Centreline, session: Session) -> tuple[Corner, ...]:
    """Return corners at the middle of each arc, with distance along the reference lap."""
    grid = np.arange(len(track.points) + 1) * track.spacing
    corners = []
    for key, apex in track.corners:
        x, y = (float(np.interp(apex, grid, np.append(c, c[0]))) for c in track.points.T)
        i = int(apex / track.spacing)
        # labels go on the outside of the bend
        outwards = track.heading[i] - np.sign(track.curvature[i]) * np.pi / 2
        distance = float(session.reference.distance([[x, y]])[0])
        corners.append(Corner(int(key), "", x, y, distance, float(np.rad2deg(outwards) % 360)))
    return tuple(corners)
