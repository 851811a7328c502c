"""Structure of a sheet: experiments that a comparison would pool, and columns that are associated with its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.study.design import BEFORE, DESIGN, LEVEL, ColumnClass, Design, is_control, is_number
from gdm_core.study.permutation import Floats, Model, correct_holm
from gdm_core.study.sheet import RECORDING
from gdm_core.study.text import format_list, format_p, format_value
from gdm_core.text import listed

_EXPERIMENTS = ("experiment", "study", "project", "assay", "paradigm", "dataset")
_DRUGS = ("drug", "compound", "substance", "agent", "treatment")
_MOST_VALUES = 12
ALIKE = 0.99  # correlation of columns that measure the same
FEWEST_UNITS = 2  # of a group, to count as compared within an experiment


# ---- experiments ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pooling:
    """Experiments or drugs that a comparison pools unless it is limited to one.

    column    column of the sheet that tells them apart
    choices   name -> values of `column` to select, with controls that the sheet lists separately
    default   name of the choice with the most animals
    question  what to ask the user
    note      sentence for results that pool them anyway
    """

    column: str
    choices: dict[str, list[Any]]
    default: str
    question: str
    note: str


def find_pooling(
    frame: pd.DataFrame, between: str, ignored: Sequence[str] = (), unit: str = RECORDING
) -> Pooling | None:
    """Return the experiments or drugs that a comparison would pool, or None.

    frame     the compared rows of the sheet
    between   compared column
    ignored   columns that the comparison accounts for, such as blocks
    unit      column of the animals; columns that vary within animals are sessions, not experiments
    """
    frame = frame[frame[between].notna()]
    numeric = pd.api.types.is_numeric_dtype(frame[between].dtype)
    found: list[tuple[int, Pooling]] = []
    for name in [str(c) for c in frame if c not in (between, unit, RECORDING, *ignored)]:
        values = frame[name]
        if not 2 <= values.nunique() <= _MOST_VALUES or (frame.groupby(unit)[name].nunique() > 1).any():
            continue
        named = name.casefold() in _EXPERIMENTS or (numeric and name.casefold() in _DRUGS)
        once = frame[values.notna()].drop_duplicates([unit, between])
        pooling = _find_pooling_by(once, between, name, named, numeric)
        if pooling is not None:
            found.append((values.nunique() - 100 * named, pooling))
    return min(found, key=lambda item: item[0])[1] if found else None


def _find_pooling_by(frame: pd.DataFrame, between: str, name: str, named: bool, numeric: bool) -> Pooling | None:
    """Return the pooling over the values of one column; other names need groups of their own."""
    sizes = pd.crosstab(frame[name], frame[between])  # of animals
    compared = sizes >= FEWEST_UNITS if not numeric else sizes > 0
    usable = sizes.index[(compared.sum(axis=1) >= 2) & (sizes.sum(axis=1) >= 2 * FEWEST_UNITS)].tolist()
    shared = sizes.columns[(sizes > 0).sum() > 1].tolist()
    own_groups = sizes.loc[usable, (sizes > 0).sum() == 1].any(axis=1).sum()
    pooled = (shared or (numeric and len(usable) > 1)) if named else (shared and own_groups > 1)
    if not usable or not pooled:
        return None
    controls = [level for level in sizes if (level == 0 if numeric else is_control(level))]
    own = [value for value in usable if sizes.loc[value, controls].any()]
    apart = (
        []
        if own
        else [v for v in sizes.index if v not in usable and sizes.loc[v, controls].sum() == sizes.loc[v].sum()]
    )
    if len(sizes) - len(apart) < 2:
        return None
    choices = {format_value(value): [value, *apart] for value in usable}
    default = format_value(sizes.loc[usable].sum(axis=1).idxmax())
    both = format_list([format_value(level) for level in shared])
    values = format_list([format_value(value) for value in sizes.index if value not in apart])
    what = f"{between} {both} {'occurs' if len(shared) == 1 else 'occur'}" if shared else f"{between} is given"
    return Pooling(
        name, choices, default,
        f"{what} in several values of {name} ({values}). Which {name} do you want to analyse?",
        f"Recordings are pooled over {name} ({values}), although {what} in several of them. To compare within one, select "
        f"it with where, for example {{{name!r}: {default!r}}}, or use blocks={name!r}.",
    )  # fmt: skip


# ---- confounds ------------------------------------------------------------------------------------------------------
def find_confounds(design: Design, columns: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each column, by p: its association with the groups, strength, p, its class, and sentences.

    `associated` is True if p_holm, corrected over the columns, is below .05; `offered` if a comparison can adjust for the
    column. `same` lists columns that measure the same (|r| > .99), which have no row.

    columns   a value of each column for each unit of the design, NaN if unknown
    """
    rows: list[dict[str, Any]] = []
    words = listed([factor.name for factor in design.factors])
    for name in columns:
        known = columns[name].notna().to_numpy()
        part, values = design.part(known), columns[name][known]
        n_values = values.nunique()
        if n_values < 2 or (not is_number(values) and n_values > max(2, len(values) / 3)):
            continue
        its_class, found = design.classify(str(name), columns[name]), ("", np.nan, np.nan)
        if len(np.unique(part.cells)) > 1:
            found = (
                _associate(part, values.to_numpy(np.float64)) if is_number(values) else _associate_words(part, values)
            )
            if its_class.kind == BEFORE and not _can_adjust(part, values):
                its_class = ColumnClass(DESIGN, f"{name} cannot be separated from {words}.")
        rows.append({"column": str(name), **dict(zip(("association", "strength", "p"), found, strict=True)), "n": len(values),
                     "kind": its_class.kind, "reason": its_class.reason, "offered": its_class.kind == BEFORE})  # fmt: skip
    alike = columns.select_dtypes("number").corr(min_periods=3).abs() > ALIKE
    same: dict[str, list[str]] = {}
    for name in [row["column"] for row in sorted(rows, key=lambda row: row["p"])]:
        first = next((one for one in same if name in alike and one in alike and alike.loc[one, name]), None)
        same.setdefault(first or name, []).extend([name] if first else [])
    names = ["column", "association", "strength", "p", "n", "kind", "reason", "offered"]
    table = pd.DataFrame([row for row in rows if row["column"] in same], columns=names)
    table = table.sort_values("p", kind="stable", ignore_index=True)
    table.insert(4, "p_holm", correct_holm(table["p"].to_numpy(np.float64)))
    table["associated"], table["same"] = table["p_holm"] < LEVEL, [", ".join(same[name]) for name in table["column"]]
    table["sentence"] = [_describe_association(row, words) for _, row in table.iterrows()]
    return table


def _describe_association(row: Any, groups: str) -> str:
    strength = f"{row['association']} = {row['strength']:.2f}, adjusted {format_p(row['p_holm'])}"
    text = f"{row['column']} is associated with {groups} ({strength})."
    others = row["same"].split(", ") if row["same"] else []
    return text + (f" {listed(others)} {'measures' if len(others) == 1 else 'measure'} the same." if others else "")


def _associate(design: Design, values: Floats) -> tuple[str, float, float]:
    from scipy import stats

    groups = [values[design.cells == cell] for cell in np.unique(design.cells)]
    if design.factors[0].numeric and len(design.factors) == 1 and np.median([len(group) for group in groups]) < 2:
        rank = stats.spearmanr(design.factors[0].amounts[design.levels[:, 0]], values)
        return "Spearman's rho", float(rank.statistic), float(rank.pvalue)
    if len(groups) == 2:
        test = stats.mannwhitneyu(groups[1], groups[0])
        return "AUC", float(test.statistic / (len(groups[0]) * len(groups[1]))), float(test.pvalue)
    total = ((values - values.mean()) ** 2).sum()
    share = 1 - sum(((group - group.mean()) ** 2).sum() for group in groups) / total
    return "eta squared", float(share), float(stats.f_oneway(*groups).pvalue)


def _associate_words(design: Design, values: pd.Series[Any]) -> tuple[str, float, float]:
    from scipy import stats

    table = pd.crosstab(design.cells, values.to_numpy()).to_numpy()
    strength = stats.contingency.association(table, method="cramer")
    return "Cramér's V", float(strength), float(stats.chi2_contingency(table, correction=False).pvalue)


def _can_adjust(design: Design, values: pd.Series[Any]) -> bool:
    """Return True if the groups still differ, and residual degrees of freedom are left, given the column."""
    free = (
        values.to_numpy(np.float64)[:, None]
        if is_number(values)
        else pd.get_dummies(values, drop_first=True).to_numpy(np.float64)
    )
    groups = (design.cells[:, None] == np.unique(design.cells)[1:]).astype(np.float64)
    model = Model.from_columns(groups, free, design.strata)
    alone = Model.from_columns(groups, free[:, :0], design.strata)
    return model.effect.shape[1] == alone.effect.shape[1] and model.df_residual > 0
