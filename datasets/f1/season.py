"""Sessions as rows of a sheet: every driver, or every stint, with what the car does and where its laps take their time.

A study takes them as they are: `Study.of_states(rows.states, pandas.DataFrame(rows.sheet), rows.rate_hz, rows.names)`. Corners are
told apart by their speed alone, so that low, medium and high speed and straights mean the same on every circuit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import UNLABELLED

from .driving import ACTIVITIES, CORNER, FAST_KMH, SLOW_KMH, corners_of, curvature_along
from .laps import QUICK
from .session import Driver, LapClock, Session, lap_clock
from .time_won import clean_laps
from .trials import to_trials

Floats = npt.NDArray[np.float64]

CELL_M = 10.0
KINDS = ("straights", "low speed", "medium speed", "high speed")
BY = ("driver", "stint")


@dataclass(frozen=True, eq=False)
class SeasonRows:
    """Recordings of a study: one for each driver or stint of each session.

    states    by recording, [T] what the car does at each moment, as numbers of `names`; -1 where that is not known
    sheet     columns of the sheet: recording, subject (the driver), team, session and what was measured; NaN where it was not
    rate_hz   samples a second
    names     of states
    """

    states: dict[str, npt.NDArray[np.int64]]
    sheet: dict[str, list[Any]]
    rate_hz: float
    names: tuple[str, ...]


def kinds_along(session: Session, clocks: Iterable[LapClock]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """([M + 1] shares of the lap at which cells begin and end, [M] which of `KINDS` each is).

    A corner is a stretch that turns; it is slow or fast by the lowest speed in it, on average over the laps.
    """
    reference = session.reference
    n = max(50, round(reference.length / CELL_M))
    edges = np.linspace(0, 1, n + 1)
    took = np.mean([np.diff(clock.at(edges)) for clock in clocks], axis=0)
    speed = 3.6 * reference.length / n / took
    turns = np.abs(curvature_along(session, (edges[1:] + edges[:-1]) / 2 * reference.length)) >= CORNER
    kind = np.zeros(n, np.int64)
    first = int(np.flatnonzero(~turns)[0]) if not turns.all() else 0  # begin on a straight: no corner is cut in two
    order = np.roll(np.arange(n), -first)
    changes = np.flatnonzero(np.diff(turns[order].astype(int))) + 1
    for cells in np.split(order, changes):
        if turns[cells[0]]:
            slowest = float(speed[cells].min())
            kind[cells] = 1 if slowest < SLOW_KMH else 3 if slowest > FAST_KMH else 2
    return edges, kind


def quick_laps(driver: Driver) -> npt.NDArray[np.int64]:
    """Numbers of undisturbed laps within 107 % of the driver's best: neither traffic nor cooling down."""
    laps = driver.laps
    clean = clean_laps(laps)
    seconds = laps.seconds[np.isin(laps.number, clean)]
    return clean[seconds <= QUICK * seconds.min()] if len(seconds) else clean


def study_rows(sessions: Sequence[Session], by: str = "driver") -> SeasonRows:
    """A row for each driver, or each stint, of each session who drove an undisturbed lap.

    sessions   as `load_session` or `simulate_race` gives them
    by         of `BY`
    """
    if by not in BY:
        raise ConfigError(f"by is {by!r}; it must be one of {', '.join(map(repr, BY))}.")
    states: dict[str, npt.NDArray[np.int64]] = {}
    rows: list[dict[str, Any]] = []
    rate_hz = 4.0
    for session in sessions:
        laps = {driver.code: quick_laps(driver) for driver in session.drivers if driver.has_position}
        clocks = {
            code: {int(n): clock for n in numbers if (clock := lap_clock(session, code, int(n))) is not None}
            for code, numbers in laps.items()
        }
        every = [clock for known in clocks.values() for clock in known.values()]
        where = kinds_along(session, every) if every else None
        for code, numbers in laps.items():
            driver = session.driver(code)
            stint = dict(zip(driver.laps.number.tolist(), driver.laps.stint.tolist(), strict=True))
            parts = {0: numbers} if by == "driver" else {
                s: numbers[[stint[int(n)] == s for n in numbers]] for s in sorted({stint[int(n)] for n in numbers})
            }  # fmt: skip
            for number, part in parts.items():
                if not len(part):
                    continue
                name = f"{session.title} {code}" + (f" stint {number}" if by == "stint" else "")
                trials = to_trials(session, code, laps=part.tolist(), channels=("X", "Y"), labels="activities")
                rate_hz = trials[0].rate_hz
                states[name] = np.concatenate(
                    [np.full(t.n_samples, UNLABELLED) if t.labels is None else t.labels for t in trials]
                )
                rows.append({"recording": name} | _measured(session, driver, part, clocks[code], where))
    if not rows:
        raise DataError("Nobody drove an undisturbed timed lap in these sessions. Choose other sessions.")
    sheet = {column: [row[column] for row in rows] for column in rows[0]}
    return SeasonRows(states, sheet, rate_hz, ACTIVITIES)


def _measured(
    session: Session,
    driver: Driver,
    numbers: npt.NDArray[np.int64],
    clocks: dict[int, LapClock],
    where: tuple[Floats, npt.NDArray[np.int64]] | None,
) -> dict[str, Any]:
    """The columns of one row."""
    table = driver.laps
    mine = np.isin(table.number, numbers)
    compounds = {table.compound[i] for i in np.flatnonzero(mine)}
    known = [clocks[int(n)] for n in numbers if int(n) in clocks]
    took = np.full(len(KINDS), np.nan)
    if where is not None and known:
        edges, kind = where
        mean = np.mean([np.diff(clock.at(edges)) for clock in known], axis=0)
        took = np.bincount(kind, mean, len(KINDS))
        took[np.bincount(kind, minlength=len(KINDS)) == 0] = np.nan  # this circuit has none
    braking = np.nan
    if len(session.corners) > 1:
        points, _ = corners_of(session, driver.code, numbers.tolist()).mean("braking point")
        braking = float(np.nanmean(points)) if np.isfinite(points).any() else np.nan
    speed = driver.channels.get("speed", np.zeros(0, np.float32))
    speed = speed[np.isin(driver.lap, numbers)] if len(speed) else speed
    return {
        "subject": driver.code,
        "team": driver.team,
        "session": session.title,
        "circuit": session.circuit,
        "compound": compounds.pop() if len(compounds) == 1 else "",
        "laps": len(numbers),
        "best lap (s)": float(table.seconds[mine].min()),
        "mean lap (s)": float(table.seconds[mine].mean()),
        **{f"{name} (s a lap)": float(seconds) for name, seconds in zip(KINDS, took, strict=True)},
        "braking point (m)": braking,
        "top speed (km/h)": float(np.nanmax(speed)) if np.isfinite(speed).any() else np.nan,
    }


def joined(parts: Sequence[SeasonRows]) -> SeasonRows:
    """The rows of several such tables, each with sessions of its own."""
    states = {name: one for part in parts for name, one in part.states.items()}
    sheet = {column: [cell for part in parts for cell in part.sheet[column]] for column in parts[0].sheet}
    return SeasonRows(states, sheet, parts[0].rate_hz, parts[0].names)
