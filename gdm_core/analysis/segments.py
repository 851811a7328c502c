"""Which states a part of a recording is made of: segments, as the paper's figure says it (by presence, in order, sized by weight),
and places of a lap, driver by driver, with how far they lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.maths.gaps import ratio
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trials


@dataclass(frozen=True)
class Part:
    """One state in one segment. Presence: share of samples in which it has weight. Weight: its mean share."""

    state: int
    presence: float
    weight: float
    main: bool


def composition(
    states: npt.ArrayLike,
    segment: npt.ArrayLike,
    n_segments: int,
    *,
    weight: float = 0.01,
    presence: float = 0.2,
    complementary: float = 0.05,
) -> list[list[Part]]:
    """The states of each segment that hold more than `weight` in more than `presence` of its samples, most present first.

    Those that only pass `complementary` follow, marked as not main.
    """
    soft, where = np.asarray(states, np.float64), np.asarray(segment, np.int64)
    if len(soft) != len(where):
        raise DataError(f"There are {len(soft)} states but {len(where)} segment numbers.")
    count = np.bincount(where, minlength=n_segments)[:n_segments]
    safe = np.maximum(count, 1)[:, None]
    k = soft.shape[1]
    there = np.column_stack([np.bincount(where, soft[:, j] > weight, n_segments) for j in range(k)]) / safe  # [C, K]
    mean = np.column_stack([np.bincount(where, soft[:, j], n_segments) for j in range(k)]) / safe
    found = []
    for c in range(n_segments):
        order = np.lexsort((-mean[c], -there[c]))
        found.append(
            [
                Part(int(j), float(there[c, j]), float(mean[c, j]), bool(there[c, j] > presence))
                for j in order
                if count[c] and there[c, j] > min(presence, complementary)
            ]
        )
    return found


def drivers_along_lap(
    model_bytes: bytes, stations: Sequence[npt.NDArray[np.int64]], n_stations: int, *drivers: Trials
) -> npt.NDArray[np.float32]:
    """[drivers, 2, 2, n_stations, K] mean states at each station of the lap: of the driver and of the first one, on the laps
    that both drove, odd ones and even ones.

    The model is applied as it is: its posterior reads the states off each driver's laps. `stations` says for every
    sample of a driver where on the lap it lies; NaN where no sample lies.
    """
    model = model_from_bytes(model_bytes).uncorrected()
    read = []
    for where, trials in zip(stations, drivers, strict=True):
        soft = np.concatenate(model.predict_proba(trials))  # [T, K]
        read.append((soft, np.concatenate([trial.segments for trial in trials]), where))

    def halves(
        soft: npt.NDArray[Any], lap: npt.NDArray[Any], where: npt.NDArray[np.int64], kept: npt.NDArray[Any]
    ) -> Any:
        parts = [np.isin(lap, kept[kept % 2 == odd]) for odd in (1, 0)]
        return [_means(soft[part], where[part], n_stations) for part in parts]

    first = read[0]
    common = [np.intersect1d(lap, first[1]) for _, lap, _ in read]
    return np.asarray(
        [[halves(*one, kept), halves(*first, kept)] for one, kept in zip(read, common, strict=True)], np.float32
    )


def _means(soft: npt.NDArray[Any], where: npt.NDArray[np.int64], n_stations: int) -> npt.NDArray[np.float64]:
    count = np.bincount(where, minlength=n_stations)
    total = np.column_stack([np.bincount(where, column, n_stations) for column in soft.T])
    return ratio(total, count[:, None])


def unlikeness(profiles: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """([drivers, stations] how far each driver's states lie from the first one's, [drivers, stations] the same by chance).

    profiles   [drivers, 2, 2, stations, K] as `drivers_along_lap` gives them

    The distance is the share of states that would have to change, from 0 to 1. By chance: what the means of the two
    stray from what they would be over many laps, told from odd laps against even laps of each, which differ by nothing
    but the lap. Who drove few laps strays further.
    """
    halves = np.asarray(profiles, np.float64)  # [D, 2, 2, stations, K]
    whole = halves.mean(axis=2)  # [D, 2, stations, K]
    apart = 0.5 * np.abs(whole[:, 0] - whole[:, 1]).sum(axis=-1)
    # Halves are noisier than wholes: scaled to them.
    chance = np.hypot(*np.moveaxis(0.25 * np.abs(halves[:, :, 0] - halves[:, :, 1]).sum(axis=-1), 1, 0))
    missing = ~np.isfinite(halves).all(axis=(1, 2, 4))
    apart[missing], chance[missing] = np.nan, np.nan
    return apart, chance
