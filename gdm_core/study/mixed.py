"""The mixed model, with animals as what is random: the classical test where sessions are missing."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError
from gdm_core.study.design import Design
from gdm_core.study.permutation import Floats


def put_mixed(table: pd.DataFrame, design: Design, values: Floats, trend: bool, notes: list[str]) -> None:
    """The classical columns of a mixed model over recordings, with animals as what is random."""
    from scipy import stats
    from statsmodels.regression.mixed_linear_model import MixedLM

    if len(design.factors) > 1:
        raise ConfigError("mixed=True takes one factor; ask for each by itself, with where.")
    of_unit = np.repeat(np.arange(len(design.rows)), [len(rows) for rows in design.rows])
    rows, codes, subjects = np.concatenate(design.rows), design.levels[of_unit, 0], design.subjects[of_unit]
    effect: Floats = (codes[:, None] == np.arange(1, len(design.factors[0].levels))).astype(np.float64)
    if trend:
        effect = np.array([[float(level)] for level in design.factors[0].levels])[codes]
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
