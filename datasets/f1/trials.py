"""Conversion of a driver's samples to trials, with track segments or activities as labels.

A trial is uninterrupted driving: omitted laps and gaps over two seconds end it. Positions are never interpolated across
such gaps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.trials import Trial, Trials, with_recipe

from ..readers.timing import interpolate
from .session import CHANNELS, LARGEST_GAP_S, STEPPED, Corner, Driver, FeedError, Reason, Session

Floats = npt.NDArray[np.float64]
Sample = tuple[Floats, npt.NDArray[np.int64], dict[str, npt.NDArray[np.float32]]]

STEP_S = 0.25
FEWEST_SAMPLES = 10
PRESETS = ("paper",)
LABELS = ("segments", "activities")
DROPS = {"first": "lap 1", "pit": "laps into and out of the pits", "safety_car": "safety-car and red-flag laps"}

ACTIVITIES = ("braking", "cornering", "full throttle", "part throttle")
FULL_THROTTLE = 98.0  # percent; channels of some sessions end at 99
ON_THE_BRAKE = 0.5
CORNER = 1 / 250.0  # 1/m; wider bends need no lift
STEP_M = 5.0
REACH_M = 20.0  # each way; feed positions are accurate to a metre or two

PAPER_DIMENSIONS = 10
PAPER_NOISE = 0.01


def chosen_laps(
    session: Session, driver: str, laps: Iterable[int] | None = None, drop: Iterable[str] = ()
) -> tuple[int, ...]:
    """Return the selected lap numbers, without the kinds of laps in `drop`.

    session   from `load_session` or `simulate_race`
    driver    three letters, such as VER
    laps      lap numbers; None takes all
    drop      kinds of laps to leave out, from `DROPS`
    """
    dropped = frozenset(drop)
    if unknown := dropped - DROPS.keys():
        raise ConfigError(f"drop names {', '.join(sorted(unknown))}; laps can be dropped by {', '.join(DROPS)}.")
    table = session.driver(driver).laps
    selected = None if laps is None else frozenset(laps)
    if selected is not None and (strangers := selected - set(table.number.tolist())):
        raise FeedError(
            Reason.NO_LAPS,
            f"{session.title}: {driver} has no lap {min(strangers)}; laps run from {table.number[0]} to "
            f"{table.number[-1]}. Choose laps among these.",
        )
    kinds = {"first": table.number == 1, "pit": table.pit_in | table.pit_out, "safety_car": table.neutralised}
    kept = np.ones(len(table), bool) if selected is None else np.isin(table.number, list(selected))
    for kind in dropped:
        kept &= ~kinds[kind]
    if not kept.any():
        raise FeedError(
            Reason.NO_LAPS,
            f"{session.title}: no lap of {driver} is left after dropping {', '.join(DROPS[k] for k in sorted(dropped))}. "
            "Drop fewer kinds or choose other laps.",
        )
    return tuple(table.number[kept].tolist())


def to_trials(
    session: Session,
    driver: str,
    laps: Iterable[int] | None = None,
    drop: Iterable[str] = (),
    channels: Sequence[str] = ("X", "Y"),
    preset: str | None = None,
    step_s: float | None = STEP_S,
    standardise: bool = True,
    emission_seed: int = 0,
    noise_seed: int = 0,
    labels: str = "segments",
) -> Trials:
    """Return a driver's laps as trials with labels, positions and lap numbers (as segments).

    session         from `load_session` or `simulate_race`
    driver          three letters, such as VER
    laps            lap numbers; None takes all
    drop            kinds of laps to leave out, from `DROPS`
    channels        observed channels
    preset          "paper" observes ten random mixtures of standardised X and Y with small noise, instead of `channels`
    step_s          seconds between samples; None keeps the feed's irregular samples
    standardise     standardise channels with the session's scaling, the same for every driver
    emission_seed   random seed of the mixtures
    noise_seed      random seed of the noise
    labels          "segments" between corners, or "activities" (braking, cornering, full or part throttle); trials have
                    no labels without corners or pedal data
    """
    person = session.driver(driver)
    names = ("X", "Y") if preset is not None else tuple(channels)
    _check(person, names, preset, step_s)
    if labels not in LABELS:
        raise ConfigError(f"labels is {labels!r}; it must be one of {', '.join(map(repr, LABELS))}.")
    numbers = chosen_laps(session, person.code, laps, drop)
    # Recipes omit the default labels.
    options = (
        names,
        preset,
        standardise,
        int(emission_seed),
        int(noise_seed),
        *([labels] if labels != LABELS[0] else []),
    )
    trials = []
    for number, (time, lap, values) in sample_laps(person, numbers, names, step_s):
        position = np.column_stack([values["X"], values["Y"]])  # [T, 2]
        y = np.column_stack([values[name] for name in names]).astype(np.float64)  # [T, N]
        if standardise or preset is not None:
            scales = np.array([session.scaling[name] for name in names])  # [N, 2]
            y = (y - scales[:, 0]) / scales[:, 1]
        if preset == "paper":
            # one random stream per stretch: drivers must not share noise
            # rounded, because truncation would turn a last-bit difference into other noise
            stream = (int(noise_seed), zlib.crc32(person.code.encode()), round(float(time[0]) * 1000))
            noise = np.random.default_rng(stream).standard_normal((time.size, PAPER_DIMENSIONS))
            y = y @ paper_emission(int(emission_seed)).T + PAPER_NOISE * noise  # [T, 10]
        trial = Trial(
            y=y.astype(np.float32),
            rate_hz=float(1.0 / np.median(np.diff(time))),
            channels=() if preset == "paper" else names,
            labels=_labels(session, person, position, lap, time, labels),
            position=position,
            segments=lap,
            name=f"{person.code} lap {lap[0]}" if lap[0] == lap[-1] else f"{person.code} laps {lap[0]}-{lap[-1]}",
        )
        if session.recipe:
            trial = with_recipe(f"{session.recipe}, {(person.code, numbers, number, step_s, *options)}", trial)
        trials.append(trial)
    if not trials:
        raise FeedError(
            Reason.NO_POSITION,
            f"{session.title}: the chosen laps of {person.code} hold no stretch of {FEWEST_SAMPLES} samples without a "
            "hole. Choose more laps.",
        )
    words = ACTIVITIES if labels == "activities" else segment_names(session.corners)
    known = words if trials[0].labels is not None else ()
    return Trials(tuple(trials), name=f"{session.title} · {person.code}", label_names=known)


def sample_laps(
    driver: Driver, numbers: tuple[int, ...], names: Sequence[str], step_s: float | None = STEP_S
) -> list[tuple[int, Sample]]:
    """Return number, times, lap numbers and channels (always with X and Y) of each long enough stretch of these laps."""
    parts = (_sample(driver, slice(*ends), names, step_s) for ends in _stretches(driver, numbers))
    return [(number, part) for number, part in enumerate(parts) if part[0].size >= FEWEST_SAMPLES]


def paper_emission(seed: int = 0) -> npt.NDArray[np.float64]:
    """Return the paper's random matrix [10, 2] that mixes standardised X and Y.

    seed   random seed of the matrix
    """
    return np.random.default_rng(seed).standard_normal((PAPER_DIMENSIONS, 2))


def _check(driver: Driver, names: tuple[str, ...], preset: str | None, step_s: float | None) -> None:
    if preset is not None and preset not in PRESETS:
        raise ConfigError(f"preset is {preset!r}; it must be None or {', '.join(map(repr, PRESETS))}.")
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"channels is {names}; name at least one of {', '.join(CHANNELS)}, each once.")
    if unknown := [name for name in names if name not in CHANNELS]:
        raise ConfigError(f"channels names {', '.join(unknown)}; known are {', '.join(CHANNELS)}.")
    for name in names:
        driver.channel(name)  # raises DataError if the car never sent it
    if step_s is not None and not 0.02 <= step_s <= 2.0:
        raise ConfigError(f"step_s is {step_s}; it must be between 0.02 and 2 seconds, or None for the raw samples.")


def _stretches(driver: Driver, numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return start and stop index of every run of selected samples without a gap."""
    kept = np.flatnonzero(np.isin(driver.lap, numbers))
    if kept.size == 0:
        return []
    breaks = (np.diff(kept) > 1) | (np.diff(driver.time[kept]) > LARGEST_GAP_S)
    starts = kept[np.append(True, breaks)]
    stops = kept[np.append(breaks, True)] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _sample(driver: Driver, part: slice, names: Sequence[str], step_s: float | None) -> Sample:
    """Return times, lap numbers and channels of a stretch, always with X and Y."""
    sent = driver.time[part]
    sampled = tuple(dict.fromkeys(("X", "Y", *names)))
    if step_s is None:
        return sent, driver.lap[part], {name: driver.channel(name)[part] for name in sampled}
    # the tolerance keeps the last step despite rounding
    time = sent[0] + step_s * np.arange(int((sent[-1] - sent[0]) / step_s + 1e-9) + 1)
    row = np.searchsorted(driver.laps.start, time, side="right") - 1
    lap = np.clip(driver.laps.number[row], driver.lap[part][0], driver.lap[part][-1])
    return time, lap, {name: _resample(driver, name, part, time) for name in sampled}


def _resample(driver: Driver, name: str, part: slice, time: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Interpolate a channel of a stretch at other times; return NaN if it has no values."""
    sent = driver.channel(name)[part].astype(np.float64)
    known = np.isfinite(sent)
    if not known.any():
        return np.full(time.size, np.nan, np.float32)
    return interpolate(time, driver.time[part][known], sent[known], LARGEST_GAP_S, LARGEST_GAP_S, name in STEPPED)


def _labels(
    session: Session,
    driver: Driver,
    position: npt.NDArray[np.floating],
    lap: npt.NDArray[np.int64],
    time: npt.NDArray[np.float64],
    kind: str,
) -> npt.NDArray[np.int64] | None:
    """Return [T] labels, or None if unavailable."""
    distance = lap_distance(session, position, lap)
    if kind == "activities":
        sent = [name for name in ("throttle", "brake") if name in driver.available_channels]
        pedals: dict[str, npt.ArrayLike] = {name: _resample(driver, name, slice(None), time) for name in sent}
        return activities(pedals, curvature_along(session, distance))
    return segment_of(session.corners, distance) if len(session.corners) > 1 else None


# ---- activities and segments of samples -----------------------------------------------------------------------------
def curvature(line: npt.ArrayLike, length: float, distance: npt.ArrayLike) -> Floats:
    """Return [T] curvature in 1/m of a closed, evenly spaced line [M, 2] at distances along it."""
    points = np.asarray(line, np.float64)
    grid = np.arange(0, length, STEP_M)
    along = np.linspace(0, length, len(points))
    even = np.column_stack([np.interp(grid, along, points[:, i]) for i in (0, 1)])
    reach = round(REACH_M / STEP_M)
    ahead, behind = np.roll(even, -reach, axis=0) - even, even - np.roll(even, reach, axis=0)
    cross = behind[:, 0] * ahead[:, 1] - behind[:, 1] * ahead[:, 0]
    angle = np.arctan2(cross, (behind * ahead).sum(axis=1))
    return np.interp(np.asarray(distance, float), grid, angle / REACH_M, period=length)


def curvature_along(session: Session, distance: npt.ArrayLike) -> Floats:
    """Return [T] curvature of the track in 1/m, positive to the left."""
    reference = session.reference
    return curvature(np.vstack([reference.points, reference.points[:1]]), reference.length, distance)


def activities(channels: Mapping[str, npt.ArrayLike], turn: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
    """Return [T] indices into ACTIVITIES, -1 where a pedal is missing; None without pedal channels."""
    if "throttle" not in channels or "brake" not in channels:
        return None
    throttle, brake = (np.asarray(channels[name], np.float64) for name in ("throttle", "brake"))
    found = np.full(len(throttle), 3, np.int64)
    found[throttle >= FULL_THROTTLE] = 2
    found[np.abs(np.asarray(turn)) >= CORNER] = 1
    found[brake > ON_THE_BRAKE] = 0
    found[~(np.isfinite(throttle) & np.isfinite(brake))] = -1
    return found


# ---- segments: segment c runs from corner c to the next; the last one crosses the start line ----------------------------
def segment_names(corners: tuple[Corner, ...]) -> tuple[str, ...]:
    """Return segment names such as "T1-T2"; the last segment crosses the start line.

    corners   corners of a session
    """
    ordered = in_driving_order(corners)
    following = (*ordered[1:], *ordered[:1])
    return tuple(f"T{one.key}-T{other.key}" for one, other in zip(ordered, following, strict=True))


def in_driving_order(corners: tuple[Corner, ...]) -> tuple[Corner, ...]:
    """Sort corners by distance from the start line, because numbers do not order 1 and 1A."""
    return tuple(sorted(corners, key=lambda corner: (corner.distance, corner.number, corner.letter)))


def segment_of(corners: tuple[Corner, ...], distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return [T] segment index at each distance along the lap.

    corners    corners of a session
    distance   [T] metres from the start line
    """
    return between([corner.distance for corner in in_driving_order(corners)], distance)


def between(edges: npt.ArrayLike, distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return [T] index of the last edge before each distance, wrapping at the start line."""
    # -1, before the first corner, wraps to the last segment
    found: npt.NDArray[np.int64] = np.mod(np.searchsorted(edges, distance, side="right") - 1, np.size(edges))
    return found


def lap_distance(session: Session, position: npt.ArrayLike, lap: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return [T] metres from the start line along the reference lap.

    session    from `load_session` or `simulate_race`
    position   [T, 2] positions in time order
    lap        [T] lap numbers
    """
    return session.reference.distance(position, lap).astype(np.float64, copy=False)


SMALLEST_TURN = np.deg2rad(20)
SAME_BEND_M = 60.0  # bends to one side that are closer are one corner
FOUND_CORNERS = "Corners found from the track's shape; official numbers missing."


def find_corners(session: Session) -> tuple[Corner, ...]:
    """Return the bends of the reference lap as corners, numbered in driving order; () if there are fewer than two."""
    length = session.reference.length
    grid = np.arange(0, length, STEP_M)
    turn = curvature_along(session, grid)
    inside = np.flatnonzero(np.abs(turn) >= CORNER)
    ends = (np.diff(grid[inside]) > SAME_BEND_M) | (np.diff(np.sign(turn[inside])) != 0)
    bends = [
        bend
        for bend in np.split(inside, np.flatnonzero(ends) + 1)
        if np.abs(turn[bend]).sum() * STEP_M >= SMALLEST_TURN
    ]
    found = []
    for number, bend in enumerate(bends, start=1):
        apex = float(grid[bend[np.abs(turn[bend]).argmax()]])
        x, y = session.reference.position_at(apex).tolist()
        ahead = np.subtract(*session.reference.position_at([apex + STEP_M, apex - STEP_M]))
        outwards = np.rad2deg(np.arctan2(ahead[1], ahead[0])) - 90 * np.sign(turn[bend].sum())
        found.append(Corner(number, "", x, y, apex, float(outwards % 360)))
    return tuple(found) if len(found) > 1 else ()
