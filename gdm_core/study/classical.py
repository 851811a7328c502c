"""Classical tests beside permutations: the mixed model, with animals as what is random, where sessions are missing; and what a
test would have claimed if each frame (or bout) were a sample of its own, which is reported and never recommended."""

from __future__ import annotations

import warnings

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


def put_mixed(table: pd.DataFrame, design: Design, values: Floats, trend: bool, notes: list[str]) -> None:
    """The classical columns of a mixed model over recordings, with animals as what is random."""
    from scipy import stats
    from statsmodels.regression.mixed_linear_model import MixedLM

    if len(design.factors) > 1:
        raise ConfigError("mixed=True takes one factor; ask for each by itself, with where.")
    of_unit = np.repeat(np.arange(len(design.rows)), [len(rows) for rows in design.rows])
    rows, subjects = np.concatenate(design.rows), design.subjects[of_unit]
    effect = (design.factors[0].amounts[design.levels[:, :1]] if trend else design.dummies())[of_unit]
    table["test"] = "permutation, mixed model"
    failed = 0
    for column in table.index:
        y = values[rows, column]
        known = np.isfinite(y)
        x = np.concatenate([np.ones((len(y), 1)), effect, design.covariates[of_unit]], axis=1)[known]
        q, n_subjects = effect.shape[1], len(np.unique(subjects[known]))
        df = int(known.sum()) - n_subjects - q if design.paired else n_subjects - x.shape[1]
        statistic = np.nan
        if df >= 1 and np.ptp(y[known]) > 0 and np.linalg.matrix_rank(x) == x.shape[1] and n_subjects < known.sum():
            scale = y[known].std()
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # what does not converge or is singular is counted below
                try:
                    fit = MixedLM(y[known] / scale, x, subjects[known]).fit(reml=True)
                    b, v = fit.fe_params[1 : 1 + q], np.asarray(fit.cov_params())[1 : 1 + q, 1 : 1 + q]
                    statistic = float(b @ np.linalg.solve(v, b)) / q
                except (np.linalg.LinAlgError, ValueError):
                    statistic = np.nan
        failed += not np.isfinite(statistic)
        table.loc[column, ["statistic", "df", "df_residual", "p_classical"]] = [
            statistic, float(q), float(df), float(stats.f.sf(statistic, q, df)) if df >= 1 else np.nan]  # fmt: skip
    if failed:
        notes.append(f"The mixed model found no answer for {failed} of {len(table)} rows.")


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
