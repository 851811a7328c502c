"""States in segments of a recording, and differences between drivers along a lap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.maths.gaps import ratio
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.variants import without_correction
from gdm_core.trials import Trials


@dataclass(frozen=True)
class Part:
    """A state in a segment.

    presence   share of samples in which the state has weight
    weight     its mean proportion
    main       whether its presence passes the main threshold
    """

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
    """Return the states of each segment, most present first.

    A main state has more than `weight` in more than `presence` of the samples; others need more than `complementary`.
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
    """Return mean states [drivers, 2, 2, n_stations, K] along the lap; NaN without samples.

    The second axis is the driver and the first driver, on their common laps; the third is odd and even laps.

    stations   station of each sample of each driver
    """
    model = without_correction(model_from_bytes(model_bytes))
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


def driver_distances(profiles: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return distances to the first driver [drivers, stations], and those expected by chance.

    The distance is half the absolute difference of mean states, from 0 to 1. The chance level comes from the difference
    between odd and even laps of each driver.

    profiles   [drivers, 2, 2, stations, K] from `drivers_along_lap`
    """
    halves = np.asarray(profiles, np.float64)  # [D, 2, 2, stations, K]
    whole = halves.mean(axis=2)  # [D, 2, stations, K]
    apart = 0.5 * np.abs(whole[:, 0] - whole[:, 1]).sum(axis=-1)
    # Halves are noisier than wholes, hence the factor.
    chance = np.hypot(*np.moveaxis(0.25 * np.abs(halves[:, :, 0] - halves[:, :, 1]).sum(axis=-1), 1, 0))
    missing = ~np.isfinite(halves).all(axis=(1, 2, 4))
    apart[missing], chance[missing] = np.nan, np.nan
    return apart, chance
