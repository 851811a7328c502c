"""What a test would have claimed if each frame (or bout) were a sample of its own. Reported, never recommended."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.study.design import Design
from gdm_core.study.permutation import Floats
from gdm_core.study.states import Counts

WHY_NOT = (
    "Frames as units: neighbouring frames of one animal are nearly the same, so they are not samples of their own. p is what "
    "this mistake would have claimed; almost any two groups of animals 'differ' by it. p_by_animal is the answer."
)


def by_frames(design: Design, counts: Counts, measure: str) -> pd.DataFrame:
    """statistic, df, df_residual and p of each state with frames (for lengths of bouts: bouts) as units, by sums alone."""
    if len(design.factors) != 1 or design.paired:
        raise ConfigError("unit='frame' shows a mistake between the groups of one column; leave out within.")
    if measure == "median_bout_s":
        raise ConfigError("unit='frame' takes usage, bouts, bouts_per_min or mean_bout_s.")
    recording, place, _, long = counts.runs
    k = len(counts.states)
    group = np.full(len(counts.recordings), -1)
    for rows, level in zip(design.rows, design.levels[:, 0], strict=True):
        group[rows] = level
    n_groups = len(design.factors[0].levels)
    inside = group[recording] >= 0
    cells = group[recording] * k + place

    def total(weights: Floats | None = None) -> Floats:
        weighed = None if weights is None else weights[inside]
        return np.bincount(cells[inside], weighed, minlength=n_groups * k).reshape(n_groups, k).astype(np.float64)

    if measure == "mean_bout_s":
        seconds = long / counts.rates[recording]
        n, sums, squares = total(), total(seconds), total(seconds**2)
    else:  # 0 or 1 a frame: in the state, or at the beginning of a bout
        frames = np.bincount(
            group[group >= 0],
            [one.labelled for one, g in zip(counts.recordings, group, strict=True) if g >= 0],
            n_groups,
        )
        n = np.repeat(frames[:, None], k, axis=1)
        sums = squares = total(long.astype(np.float64)) if measure == "usage" else total()
    return _from_sums(n, sums, squares)


def _from_sums(n: Floats, sums: Floats, squares: Floats) -> pd.DataFrame:
    """Welch's t of two groups, one-way F of several, from [G, K] sums."""
    from scipy import stats

    if (n < 2).all(axis=1).any():
        raise DataError("A group has no frames with a state.")
    with np.errstate(divide="ignore", invalid="ignore"):
        means, within = sums / n, squares - sums**2 / n
        if len(n) == 2:
            error = within / (n - 1) / n
            t = (means[1] - means[0]) / np.sqrt(error.sum(axis=0))
            df = error.sum(axis=0) ** 2 / (error**2 / (n - 1)).sum(axis=0)
            return pd.DataFrame(
                {"statistic": t, "df": 1.0, "df_residual": df, "p_classical": 2 * stats.t.sf(np.abs(t), df)}
            )
        all_n = n.sum(axis=0)
        between = (sums**2 / n).sum(axis=0) - sums.sum(axis=0) ** 2 / all_n
        f = between / (len(n) - 1) / (within.sum(axis=0) / (all_n - len(n)))
    df_residual = all_n - len(n)
    return pd.DataFrame(
        {
            "statistic": f,
            "df": len(n) - 1.0,
            "df_residual": df_residual,
            "p_classical": stats.f.sf(f, len(n) - 1, df_residual),
        }
    )
