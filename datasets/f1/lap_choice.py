"""Laps chosen by what is known of them: stint, compound, age of the tyres, part of a qualifying session, pace."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .session import FeedError, Reason, Session

PARTS = ("Q1", "Q2", "Q3")
QUICK = 1.07  # of the driver's own best: slower laps of a qualifying session prepare, or cool down after, a fast one


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
    """The numbers of a driver's laps for which all of this holds; a FeedError that says what there is where none is left.

    session    as `load_session` or `simulate_race` gives it
    driver     three letters, such as VER
    stint      from 1 with each set of tyres
    compound   such as "HARD"
    tyre_age   first and last: laps that the tyres have done at the end of the lap
    part       of a qualifying session, of `PARTS`
    quick      whether only laps within 107 % of the driver's best are taken, without those into and out of the pits
    """
    person = session.driver(driver)
    laps = person.laps
    kept = np.ones(len(laps), bool)
    compounds = np.array(laps.compound)
    asked = []
    if stint is not None:
        kept &= laps.stint == stint
        asked.append((f"in stint {stint}", "stints", [str(n) for n in np.unique(laps.stint[laps.stint > 0])]))
    if compound is not None:
        kept &= compounds == compound
        asked.append((f"on {compound}", "compounds", sorted({name for name in laps.compound if name})))
    if tyre_age is not None:
        first, last = tyre_age
        kept &= (laps.tyre_age >= first) & (laps.tyre_age <= last)
        known = laps.tyre_age[np.isfinite(laps.tyre_age)]
        ages = [f"{known.min():.0f} to {known.max():.0f}"] if known.size else []
        asked.append((f"on tyres {first} to {last} laps old", "ages", ages))
    if part is not None:
        kept &= laps.part == (PARTS.index(part) + 1 if part in PARTS else -1)
        asked.append((f"in {part}", "parts", [PARTS[n - 1] for n in np.unique(laps.part[laps.part > 0])]))
    if quick:
        best = np.nanmin(laps.seconds) if np.isfinite(laps.seconds).any() else np.nan
        kept &= (laps.seconds <= QUICK * best) & ~laps.pit_in & ~laps.pit_out
        asked.append(("within 107 % of the best", "", []))
    if not kept.any():
        words = " ".join(words for words, *_ in asked)
        there = "; ".join(f"{what}: {', '.join(known) or 'none known'}" for _, what, known in asked if what)
        raise FeedError(
            Reason.NO_LAPS,
            f"{session.title}: {person.code} has no lap {words}{f' ({there})' if there else ''}. Choose other laps.",
        )
    return tuple(int(number) for number in laps.number[kept])


def parts_of(laps: Any) -> npt.NDArray[np.int64]:
    """[L] which part of a qualifying session each lap belongs to, from 1; 0 elsewhere, and where nothing tells.

    laps   of all drivers: FastF1's own table, which knows its session
    """
    found = np.zeros(len(laps), np.int64)
    source = getattr(laps, "session", None)
    if source is None or source.name not in getattr(source, "_QUALI_LIKE_SESSIONS", ()):
        return found
    if source.session_status is None or not len(source.session_status):
        return found
    for number, part in enumerate(laps.split_qualifying_sessions(), start=1):
        if part is not None:
            found[laps.index.isin(part.index)] = number
    return found
