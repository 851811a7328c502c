"""Means of groups, adjusted for covariates and blocks, with intervals inside the range of the measure."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from gdm_core.maths.gaps import known_mean
from gdm_core.study.design import Design
from gdm_core.study.permutation import Floats, centre
from gdm_core.study.states import MEASURES

CONFIDENCE = 0.95
PROPORTIONS = ("usage", "transition_shares", "entropy")  # measures from 0 to 1; the others start at 0


def adjust_values(design: Design, values: Floats, trend: bool = False) -> Floats:
    """Remove the effects of covariates and blocks from values [n, m], estimated with the groups in the model.

    trend   the groups enter the model as one numeric column
    """
    blocks = (design.strata[:, None] == np.unique(design.strata)[1:]).astype(np.float64)
    if design.paired:  # differences between animals stay
        removed, others = centre(design.covariates, design.strata), blocks
    else:
        removed, others = np.hstack([design.covariates, blocks]), blocks[:, :0]
    if not removed.any():
        return values
    groups = design.cells[:, None] == np.unique(design.cells)
    if trend:
        groups = np.hstack([np.ones((len(values), 1)), design.factors[0].amounts[design.levels[:, :1]]])
    known, found = np.isfinite(values), values.copy()
    for pattern in np.unique(known, axis=1).T:
        at = np.ix_(pattern, (known == pattern[:, None]).all(axis=0))
        free = removed[pattern] - removed[pattern].mean(axis=0)
        model = np.hstack([free, groups[pattern], others[pattern]])
        found[at] -= free @ np.linalg.lstsq(model, values[at], rcond=None)[0][: free.shape[1]]
    return found


def mean_interval(values: Floats, measure: str) -> tuple[Floats, Floats, Floats]:
    """Return the mean of values [n, m] and its 95% interval, on a logit scale for proportions and a log scale for rates.

    measure   name of the measure; a column of the sheet has no range
    """
    from scipy import special, stats

    n = np.isfinite(values).sum(axis=0)
    mean = known_mean(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(known_mean((values - mean) ** 2) / (n - 1))
        half = stats.t.ppf((1 + CONFIDENCE) / 2, np.maximum(n - 1, 1)) * error
        if measure in PROPORTIONS:
            far = half / (mean * (1 - mean))
            low, high = special.expit(special.logit(mean) - far), special.expit(special.logit(mean) + far)
            at_edge = (mean <= 0) | (mean >= 1)
        elif measure != "log_ratio" and measure in MEASURES:
            low, high = mean * np.exp(-half / mean), mean * np.exp(half / mean)
            at_edge = mean <= 0
        else:
            return mean, mean - half, mean + half
    return mean, np.where(at_edge, mean, low), np.where(at_edge, mean, high)


def tabulate_means(design: Design, values: Floats, labels: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return a table with a row for each group and state: n, mean and the interval of the mean.

    values   [n, m] values of units
    labels   m rows that name the columns of `values`
    """
    parts = []
    for codes in itertools.product(*(range(len(factor.levels)) for factor in design.factors)):
        inside = values[(design.levels == codes).all(axis=1)]
        mean, low, high = mean_interval(inside, measure)
        its = {factor.name: factor.levels[code] for factor, code in zip(design.factors, codes, strict=True)}
        numbers = {"n": np.isfinite(inside).sum(axis=0), "mean": mean, "low": low, "high": high}
        parts.append(labels.reset_index(drop=True).assign(**its, **numbers))
    return pd.concat(parts, ignore_index=True)
