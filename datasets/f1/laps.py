"""Lap selection, best and ideal laps, and remarks on missing data and conditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.text import listed

from .session import QUICK, FeedError, LapTable, Reason, Session

PARTS = ("Q1", "Q2", "Q3")
MOST_AROUND_STOP = 10  # laps on each side


@dataclass(frozen=True)
class Stint:
    """Laps on one set of tyres.

    number        stint number, from 1
    compound      such as MEDIUM; "" if unknown
    first, last   numbers of its first and last lap
    age           tyre age in laps at the end of the first lap; NaN if unknown
    """

    number: int
    compound: str
    first: int
    last: int
    age: float


def stints(laps: LapTable) -> tuple[Stint, ...]:
    """Return a driver's stints in order, or () if unknown.

    laps   laps of one driver
    """
    found = []
    for number in laps.stints:
        rows = np.flatnonzero(laps.stint == number)
        first = int(rows[0])
        compound = next((laps.compound[row] for row in rows if laps.compound[row]), "")
        ends = int(laps.number[first]), int(laps.number[rows[-1]])
        found.append(Stint(number, compound, *ends, float(laps.tyre_age[first])))
    return tuple(found)


def laps_on_like_tyres(
    one: LapTable, other: LapTable, laps: Iterable[int], others: Iterable[int]
) -> tuple[tuple[int, int], ...]:
    """Pair laps of equal compound and tyre age, each lap once, closest lap numbers first.

    one, other     laps of two drivers
    laps, others   lap numbers to choose from, for each driver
    """
    first, second = (
        [
            (int(table.number[row]), table.compound[row], float(table.tyre_age[row]))
            for row in np.flatnonzero(np.isin(table.number, list(numbers)) & np.isfinite(table.tyre_age))
            if table.compound[row]
        ]
        for table, numbers in ((one, laps), (other, others))
    )
    near = sorted((abs(a - b), a, b) for a, *tyre in first for b, *worn in second if tyre == worn)
    found: dict[int, int] = {}
    for _, a, b in near:
        if a not in found and b not in found.values():
            found[a] = b
    return tuple(sorted(found.items()))


def pairs_in_stints(session: Session, code: str) -> tuple[tuple[int, int], ...]:
    """Pair each undisturbed lap of the first half of a stint with one of the second half, in order."""
    found = []
    for numbers in _clean_in_stints(session, code):
        half = len(numbers) // 2
        found += list(zip(numbers[:half], numbers[len(numbers) - half :], strict=True))
    return tuple(found)


def pairs_around_stops(session: Session, code: str) -> tuple[tuple[int, int], ...]:
    """Pair the last undisturbed laps before each stop with as many after it, in order."""
    found = []
    for old, new in pairwise(_clean_in_stints(session, code)):
        count = min(len(old), len(new), MOST_AROUND_STOP)
        found += list(zip(old[len(old) - count :], new[:count], strict=True))
    return tuple(found)


def _clean_in_stints(session: Session, code: str) -> list[list[int]]:
    """Return the undisturbed laps of each stint of a race."""
    laps = session.driver(code).laps
    stints = laps.stints if is_race(session) else ()
    return [laps.number[(laps.stint == stint) & laps.undisturbed].tolist() for stint in stints]


def pairs_of_runs(session: Session, one: str, other: str) -> tuple[tuple[int, int], ...]:
    """Pair the quick laps of two drivers in each part of qualifying, in order; of one driver, the first and the last."""
    found = []
    for part in PARTS if is_qualifying(session) else ():
        try:
            laps, others = (laps_where(session, code, part=part, quick=True) for code in (one, other))
        except FeedError:  # a driver who was out of the session
            continue
        if one == other:
            laps, others = laps[:1], others[1:][-1:]
        found += list(zip(laps, others, strict=False))
    return tuple(found)


def laps_where(
    session: Session,
    driver: str,
    *,
    stint: int | None = None,
    compound: str | None = None,
    tyre_age: tuple[int, int] | None = None,
    part: str | None = None,
    quick: bool = False,
) -> tuple[int, ...]:
    """Return the numbers of a driver's laps that match every filter.

    Raises FeedError with the available values if no lap matches.

    session    from `load_session` or `simulate_race`
    driver     three letters, such as VER
    stint      stint number, from 1
    compound   such as "HARD"
    tyre_age   minimum and maximum tyre age in laps, at the end of the lap
    part       part of a qualifying session, from `PARTS`
    quick      keep only laps within 107 % of the driver's best, without in-laps and out-laps
    """
    person = session.driver(driver)
    laps = person.laps
    kept = np.ones(len(laps), bool)
    compounds = np.array(laps.compound)
    filters = []
    if stint is not None:
        kept &= laps.stint == stint
        filters.append((f"in stint {stint}", "stints", [str(n) for n in laps.stints]))
    if compound is not None:
        kept &= compounds == compound
        filters.append((f"on {compound}", "compounds", sorted({name for name in laps.compound if name})))
    if tyre_age is not None:
        first, last = tyre_age
        kept &= (laps.tyre_age >= first) & (laps.tyre_age <= last)
        known = laps.tyre_age[np.isfinite(laps.tyre_age)]
        ages = [f"{known.min():.0f} to {known.max():.0f}"] if known.size else []
        filters.append((f"on {first}- to {last}-lap-old tyres", "ages", ages))
    if part is not None:
        kept &= laps.part == (PARTS.index(part) + 1 if part in PARTS else -1)
        filters.append((f"in {part}", "parts", [PARTS[n - 1] for n in np.unique(laps.part[laps.part > 0])]))
    if quick:
        best = np.nanmin(laps.seconds) if laps.timed.any() else np.nan
        kept &= (laps.seconds <= QUICK * best) & ~laps.pit_in & ~laps.pit_out
        filters.append(("within 107% of the best", "", []))
    if not kept.any():
        words = " ".join(words for words, *_ in filters)
        there = "; ".join(f"{what}: {', '.join(known) or 'none known'}" for _, what, known in filters if what)
        raise FeedError(
            Reason.NO_LAPS,
            f"{session.title}: {person.code} has no lap {words}{f' ({there})' if there else ''}. Choose other laps.",
        )
    return tuple(int(number) for number in laps.number[kept])


def parts_of(laps: Any) -> npt.NDArray[np.int64]:
    """Return [L] qualifying part of each lap in FastF1's table, from 1; 0 if unknown or not applicable."""
    found = np.zeros(len(laps), np.int64)
    try:
        parts = laps.split_qualifying_sessions()
    except (ValueError, IndexError):  # no qualifying session, or its status is unknown
        return found
    for number, part in enumerate(parts, start=1):
        if part is not None:
            found[laps.index.isin(part.index)] = number
    return found


Floats = npt.NDArray[np.float64]
# ---- qualifying -----------------------------------------------------------------------------------------------------
RACES = ("Race", "Sprint")


@dataclass(frozen=True)
class BestLap:
    """A driver's fastest lap in one part of a session.

    code      driver code
    part      from `PARTS`; "" for a session without parts
    number    lap number
    seconds   lap time
    sectors   sector times; NaN if not timed
    """

    code: str
    part: str
    number: int
    seconds: float
    sectors: tuple[float, ...]


@dataclass(frozen=True)
class IdealLap:
    """A driver's best sectors combined.

    code      driver code
    best      fastest lap in seconds
    ideal     sum of the best sectors in seconds
    laps      lap number of each best sector
    """

    code: str
    best: float
    ideal: float
    laps: tuple[int, ...]


def is_qualifying(session: Session) -> bool:
    """Return whether the session has the parts Q1 to Q3."""
    return any((driver.laps.part > 0).any() for driver in session.drivers)


def is_race(session: Session) -> bool:
    """Return whether finishing order, not the best lap, decides the session."""
    return session.name in RACES


def best_laps(session: Session) -> tuple[BestLap, ...]:
    """Return each driver's fastest valid lap by part, fastest first within a part."""
    found = []
    for index, part in enumerate(PARTS if is_qualifying(session) else ("",), start=1):
        rows = []
        for driver in session.drivers:
            laps = driver.laps
            timed = laps.timed & ~laps.deleted & ((laps.part == index) if part else np.True_)
            if timed.any():
                row = int(np.flatnonzero(timed)[np.argmin(laps.seconds[timed])])
                number, sectors = int(laps.number[row]), tuple(map(float, laps.sectors[row]))
                rows.append(BestLap(driver.code, part, number, float(laps.seconds[row]), sectors))
        found += sorted(rows, key=lambda one: one.seconds)
    return tuple(found)


def ideal_laps(session: Session) -> tuple[IdealLap, ...]:
    """Return ideal laps, fastest first, from every completed sector of laps that were not deleted."""
    found = []
    for driver in session.drivers:
        laps = driver.laps
        valid = laps.timed & ~laps.deleted
        sectors = np.where(laps.deleted[:, None], np.nan, laps.sectors)
        sectors[laps.pit_out, 0] = sectors[laps.pit_in, 2] = np.nan  # driven through the pit lane
        if not valid.any() or not np.isfinite(sectors).any(axis=0).all():
            continue
        rows = np.nanargmin(sectors, axis=0)
        ideal = float(sectors[rows, range(3)].sum())
        found.append(IdealLap(driver.code, float(laps.seconds[valid].min()), ideal, tuple(laps.number[rows].tolist())))
    return tuple(sorted(found, key=lambda one: one.ideal))


def no_time(session: Session) -> tuple[str, ...]:
    """Return the codes of drivers without a valid lap time."""
    return tuple(driver.code for driver in session.drivers if not (driver.laps.timed & ~driver.laps.deleted).any())


def ranked_by_time(session: Session) -> list[str]:
    """Return drivers by best lap in the last part they reached."""
    best: dict[str, BestLap] = {one.code: one for one in best_laps(session)}  # the last part counts
    timed = sorted(best, key=lambda code: (-ord(best[code].part[-1:] or "0"), best[code].seconds))
    return [*timed, *no_time(session)]


# ---- remarks --------------------------------------------------------------------------------------------------------
WET = ("INTERMEDIATE", "WET")
PEDALS = ("speed", "throttle", "brake", "gear")
MOST_MISSING = 0.05  # share of a channel's samples; fewer are not worth a remark
HELD_UP = {
    "red flag": "was stopped under a red flag; laps under it excluded",
    "rain": "had rain; compare laps in the same conditions",
}


def remarks_on_session(session: Session) -> tuple[str, ...]:
    """Return a sentence about each red flag or rain condition of the session."""
    start = min((driver.laps.start.min() for driver in session.drivers if len(driver.laps)), default=0.0)
    remarks = []
    for what, words in HELD_UP.items():
        spells = [one for one in session.spells if one.what == what and one.end > start]
        minutes = [f"{max(0.0, one.start - start) / 60:.0f}" for one in spells]
        if minutes:
            remarks.append(f"The session {words} (from minute {listed(minutes)}).")
    return tuple(remarks)


def remarks_on_laps(session: Session, code: str, laps: Iterable[int]) -> tuple[str, ...]:
    """Return sentences about missing data and mixed conditions in a driver's laps."""
    driver, numbers = session.driver(code), list(laps)
    table = driver.laps
    there = np.isin(table.number, numbers)
    remarks = []
    if not table.timed.any():
        remarks.append(f"{code} set no time: lap times are not compared.")
    if gone := [str(n) for n in table.number[there & table.deleted]]:
        which = f"lap {gone[0]}" if len(gone) == 1 else f"laps {listed(gone)}"
        remarks.append(f"Race control deleted {which} of {code}: shown, but excluded from best laps.")
    wet = np.isin(table.compound, WET) & there
    if wet.any() and not wet[there].all():
        remarks.append(
            f"{code} drove {wet.sum()} of these {there.sum()} laps on wet or intermediate tyres: compare one compound "
            "at a time."
        )
    mine = np.isin(driver.lap, numbers)
    known = [name for name in PEDALS if name in driver.available_channels]
    if lacking := [name for name in PEDALS if name not in known]:
        remarks.append(f"No {listed(lacking)} data for {code}: the model uses the other channels.")
    for name in known if mine.any() else ():
        share = float(np.isnan(driver.channels[name][mine]).mean())
        if share > MOST_MISSING:
            remarks.append(
                f"No {name} data for {code} in {share:.0%} of these laps: states there use the other channels."
            )
    return tuple(remarks)
