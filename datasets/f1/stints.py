"""Tyres: which stint a lap belongs to, how many laps its tyres have done, and laps of two drivers on tyres alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

    from .session import LapTable


@dataclass(frozen=True)
class Stint:
    """Laps on one set of tyres.

    number        of the stint, from 1
    compound      such as MEDIUM; "" where the feed did not say
    first, last   numbers of its laps
    age           laps that the tyres had done at the end of the first one; NaN where unknown
    """

    number: int
    compound: str
    first: int
    last: int
    age: float


def tyres_of(rows: pd.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """([L] stint of each lap, 0 where unknown; [L] laps that its tyres have done at its end, NaN where unknown).

    rows   a driver's laps as FastF1 has them, with `Stint` and `TyreLife` where it knows them
    """
    known = [
        rows[name].to_numpy(np.float64, na_value=np.nan) if name in rows else np.full(len(rows), np.nan)
        for name in ("Stint", "TyreLife")
    ]
    return np.nan_to_num(known[0]).astype(np.int64), known[1]


def stints(laps: LapTable) -> tuple[Stint, ...]:
    """A driver's stints in order; none where the feed did not say.

    laps   of one driver
    """
    found = []
    for number in np.unique(laps.stint[laps.stint > 0]):
        rows = np.flatnonzero(laps.stint == number)
        first = int(rows[0])
        compound = next((laps.compound[row] for row in rows if laps.compound[row]), "")
        found.append(
            Stint(
                int(number),
                compound,
                int(laps.number[first]),
                int(laps.number[rows[-1]]),
                float(laps.tyre_age[first]),
            )
        )
    return tuple(found)


def laps_on_like_tyres(
    one: LapTable, other: LapTable, laps: Iterable[int], others: Iterable[int]
) -> tuple[tuple[int, int], ...]:
    """(lap of one, lap of the other) on tyres of the same compound and age, each lap once, nearest numbers first.

    one, other     of two drivers
    laps, others   numbers that may be used of each
    """
    wanted, offered = (
        [
            (int(table.number[row]), table.compound[row], float(table.tyre_age[row]))
            for row in np.flatnonzero(np.isin(table.number, list(numbers)) & np.isfinite(table.tyre_age))
            if table.compound[row]
        ]
        for table, numbers in ((one, laps), (other, others))
    )
    near = sorted((abs(a - b), a, b) for a, *tyre in wanted for b, *worn in offered if tyre == worn)
    found: dict[int, int] = {}
    for _, a, b in near:
        if a not in found and b not in found.values():
            found[a] = b
    return tuple(sorted(found.items()))
