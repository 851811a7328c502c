"""Classes of the sheet's columns: part of the design, from before the treatment, or a possible consequence of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

DESIGN, BEFORE, AFTER = "design", "before treatment", "outcome or mediator"
LENGTH, MISSING, SCORE = RECORDED = "recording_min", "missing_share", "model_score"  # columns of every study
_SEPARATED = 0.98  # AUC from which a number may follow from the groups


@dataclass(frozen=True)
class ColumnClass:
    """Class of a column with respect to the groups: DESIGN, BEFORE or AFTER, and the reason in a sentence."""

    kind: str
    reason: str = ""


def classify_column(name: str, values: pd.Series[Any], groups: npt.NDArray[np.int64], between: str) -> ColumnClass:
    """Return the class of a column; only columns from before the treatment are covariates without a plan.

    values   a value for each unit, NaN if unknown
    groups   [n] number of the group of each unit
    between  name of the column that defines the groups
    """
    known = values.notna().to_numpy()
    if not known.any() or len(np.unique(groups[known])) < len(np.unique(groups)):
        return ColumnClass(
            AFTER, f"{name} is unknown in some groups, so it may follow from {between}. Adjust only if planned."
        )
    sizes = pd.crosstab(values.to_numpy()[known], groups[known]).to_numpy()  # [values, groups]
    constant = ((sizes > 0).sum(axis=0) == 1) & (sizes.sum(axis=0) > 1)
    if ((sizes > 0).sum(axis=1) == 1).all() and (constant.any() or len(sizes) <= known.sum() / 2):
        if constant.all():
            return ColumnClass(DESIGN, f"{name} follows from {between}, so the two cannot be separated.")
        return ColumnClass(DESIGN, f"{name} is part of the grouping by {between}; compare by {name} instead.")
    if name not in RECORDED and is_number(values) and _separates(values.to_numpy(np.float64)[known], groups[known]):
        return ColumnClass(AFTER, f"{name} may follow from {between}. Adjust only if planned.")
    return ColumnClass(BEFORE)


def is_number(values: pd.Series[Any]) -> bool:
    """Return whether values are numbers, which yes and no are not."""
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)


def _separates(values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64]) -> bool:
    """Return whether almost all values of one group exceed almost all values of the other."""
    parts = [values[groups == group] for group in np.unique(groups)]
    if len(parts) != 2 or min(map(len, parts)) < 3:
        return False
    above = (parts[1][:, None] > parts[0]).mean() + (parts[1][:, None] == parts[0]).mean() / 2
    return bool(max(above, 1 - above) >= _SEPARATED)
