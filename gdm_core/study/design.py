"""Designs: the units, levels, strata and covariates that a question needs, and the classes of the other columns.

The unit is an animal: its recordings under the same condition are averaged first. Invalid designs raise an error (an animal
in two groups, ambiguous pairs, a condition that never differs within a block); other limits become notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import known_mean
from gdm_core.study.permutation import Floats, Ints, smallest_p
from gdm_core.study.question import Question
from gdm_core.study.sheet import ANIMAL, RECORDING, Sheet, find_column, select_rows
from gdm_core.study.text import format_count, format_items, format_list, format_value
from gdm_core.text import listed, plural, pluralise

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
        unknown = f"{name} is unknown in some groups, so it may follow from {between}"
        return ColumnClass(AFTER, f"{unknown}. Adjust only if planned.")
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


# Names of control groups, which come first.
_CONTROLS = (
    "control", "ctrl", "ctl", "vehicle", "veh", "saline", "sham", "baseline", "placebo", "untreated", "wt", "wildtype"
)  # fmt: skip
_LITTERS = ("litter", "dam", "cage", "pen", "tank", "clutch", "home cage")  # columns of animals that are alike
MOST_GROUPS, MOST_SESSIONS = 50, 12
LEVEL = 0.05


@dataclass(frozen=True)
class Factor:
    """A column of the sheet that defines groups.

    name     name of the column
    levels   its values in order: numbers by size, else controls first, then by name
    numeric  whether the levels are numbers
    ordered  whether the levels are numbers or ordered categories
    """

    name: str
    levels: tuple[Any, ...]
    numeric: bool
    ordered: bool

    @property
    def words(self) -> list[str]:
        """Levels as text."""
        return [format_value(level) for level in self.levels]

    @property
    def amounts(self) -> Floats:
        """Levels as numbers; those of ordered categories are their ranks."""
        return np.array([float(level) for level in self.levels] if self.numeric else np.arange(float(len(self.levels))))


@dataclass(frozen=True, eq=False)
class Design:
    """The units of a comparison, with their levels, strata and covariates.

    rows        indices of each unit's recordings
    animals     number of the animal of each recording, by its index
    units       [n] names of the units
    factors     columns to compare between
    levels      [n, factors] level index of each unit
    subjects    [n] subject number of each unit; paired units share it
    strata      [n] strata within which units are exchangeable
    covariates  [n, c] numeric columns
    paired      whether subjects are the strata
    unit_word   noun for a unit
    notes       caveats, in sentences
    """

    rows: tuple[Ints, ...]
    animals: Ints
    units: tuple[str, ...]
    factors: tuple[Factor, ...]
    levels: Ints
    subjects: Ints
    strata: Ints
    covariates: Floats
    paired: bool
    unit_word: str
    notes: tuple[str, ...]

    def dummies(self, j: int = 0) -> Floats:
        """Return dummy variables [n, levels - 1] relative to a factor's first level."""
        return np.asarray((self.levels[:, j, None] == np.arange(1, len(self.factors[j].levels))).astype(np.float64))

    @property
    def cells(self) -> Ints:
        """Number [n] of the combination of levels of each unit."""
        sizes = tuple(len(factor.levels) for factor in self.factors)
        return np.asarray(np.ravel_multi_index(tuple(self.levels.T), sizes), np.int64)

    @property
    def sizes(self) -> dict[str, int]:
        """Group, or combination of groups, -> number of units."""
        found: dict[str, int] = {}
        for codes, n in zip(*np.unique(self.levels, axis=0, return_counts=True), strict=True):
            words = [factor.words[code] for factor, code in zip(self.factors, codes, strict=True)]
            found[" × ".join(words)] = int(n)
        return found

    @property
    def unpaired(self) -> npt.NDArray[np.bool_]:
        """Mask [n] of paired units without a partner, which a comparison of one factor leaves out."""
        if not self.paired or len(self.factors) > 1:
            return np.zeros(len(self.units), dtype=bool)
        return np.asarray(np.bincount(self.subjects)[self.subjects] < 2)

    def classify(self, name: str, values: pd.Series[Any]) -> ColumnClass:
        """Return the class of a column with a value for each unit, with respect to the groups of any factor."""
        kinds = [classify_column(name, values, self.levels[:, j], factor.name) for j, factor in enumerate(self.factors)]
        return min(kinds, key=lambda one: (DESIGN, AFTER, BEFORE).index(one.kind))

    def average(self, values: Floats) -> Floats:
        """Return the mean [n, ...] over each unit's recordings, first within animals, ignoring NaN."""

        def mean(rows: Ints) -> Floats:
            its = self.animals[rows]
            if (its == its[0]).all() or len(np.unique(its)) == len(rows):
                return known_mean(values[rows])
            return known_mean(np.stack([known_mean(values[rows[its == animal]]) for animal in np.unique(its)]))

        return np.stack([mean(rows) for rows in self.rows])

    def part(self, kept: npt.NDArray[np.bool_]) -> Design:
        """Return the design with the units in the mask `kept`."""
        arrays: dict[str, Any] = {
            name: getattr(self, name)[kept] for name in ("levels", "subjects", "strata", "covariates")
        }
        return replace(self, rows=tuple(compress(self.rows, kept)), units=tuple(compress(self.units, kept)), **arrays)


def make_design(question: Question, sheet: Sheet, empty: npt.NDArray[np.bool_]) -> Design:
    """Return the design that answers a question, or raise an error that names the problem.

    empty   mask of the included recordings without a labelled sample
    """
    if not 1 <= len(question.between) <= 2:
        raise ConfigError(f"between is {question.between!r}; name one column, or two for two factors.")
    frame = sheet.frame[~sheet.frame[RECORDING].isin(list(sheet.set_aside))]
    frame = select_rows(frame, question.where)
    notes: list[str] = []
    place = {name: i for i, name in enumerate(sheet.names)}
    blank = [name for name in frame[RECORDING] if empty[place[name]]]
    if blank:
        notes.append(format_items(blank, "recording", "excluded, without labelled samples"))
        frame = frame[~frame[RECORDING].isin(blank)]
    between = [find_column(frame, name, "between") for name in question.between]
    unit, unit_word = _unit(question, sheet)
    within = None if question.within is None else find_column(frame, question.within, "within")
    blocks = None if question.blocks is None else find_column(frame, question.blocks, "blocks")
    covariates = [find_column(frame, name, "covariates") for name in (*question.covariates, *question.planned)]
    needed = [c for c in dict.fromkeys([*between, unit, within, blocks, *covariates]) if c is not None]
    if len(set(between) | set(covariates) | {blocks}) < len(between) + len(covariates) + 1:
        raise ConfigError("between, blocks and covariates must name different columns.")
    for column in needed:
        missing = frame[column].isna()
        if missing.any():
            lost = frame.loc[missing, RECORDING].tolist()
            notes.append(format_items(lost, "recording", f"excluded, without a value in {column!r}"))
            frame = frame[~missing]
    if frame.empty:
        raise DataError(f"No recording has a value in {format_list(needed)}.")
    factors = [_factor(frame, name) for name in between]
    subject = within or unit
    keys = [subject, *(between if within else [])] if within == unit else [*dict.fromkeys([subject, unit, *between])]
    groups = frame.groupby(keys, sort=False, dropna=False, observed=True).indices
    rows = [np.asarray(found) for found in groups.values()]
    firsts = frame.iloc[[found[0] for found in rows]]
    _check_units(frame, firsts, unit, unit_word, between, within, blocks)
    if within is not None and within != unit:
        _check_pairs(frame, firsts, unit, within, between)
    levels = np.stack(
        [[factor.levels.index(value) for value in firsts[factor.name].tolist()] for factor in factors], axis=1
    ).astype(np.int64)
    subjects = pd.factorize(firsts[subject])[0].astype(np.int64)
    strata = np.zeros(len(rows), np.int64) if blocks is None else pd.factorize(firsts[blocks])[0].astype(np.int64)
    indices = frame[RECORDING].map(place).to_numpy()
    units = tuple(str(value) for value in firsts[subject])
    design = Design(
        rows=tuple(indices[found] for found in rows),
        animals=pd.factorize(np.array([sheet.animals[name] for name in sheet.names]))[0].astype(np.int64),
        units=units, factors=tuple(factors), levels=levels, subjects=subjects,
        strata=subjects if within is not None else strata, covariates=_covariates(frame, rows, covariates),
        paired=within is not None, unit_word=unit_word, notes=(),
    )  # fmt: skip
    for name in covariates[: len(question.covariates)]:
        its_class = design.classify(name, unit_values(frame[name], rows))
        if its_class.kind == DESIGN:
            raise DataError(f"{its_class.reason} As planned in advance, write planned=[{name!r}].")
        notes += [its_class.reason] if its_class.reason else []
    if design.unpaired.any():
        status = f"excluded, with only one of {len(factors[0].levels)} values of {factors[0].name!r}"
        notes.append(format_items(list(compress(units, design.unpaired)), unit_word, status))
    several = np.array([len(found) > 1 for found in rows])
    if n := len(np.unique(subjects[several & ~design.unpaired])):
        have = f"{plural(n, unit_word)} {'has' if n == 1 else 'have'}"
        over = _varying(frame, [found for found in rows if len(found) > 1])
        notes.append(f"{have} several recordings under one condition, which are averaged{over}.")
    if litter := _find_litter(frame, unit, sheet.animal, [*between, within, blocks]):
        notes.append(
            f"{pluralise(unit_word).capitalize()} of one {litter} may resemble each other. Compare with unit={litter!r} if each "
            f"{litter} is in one group, or with blocks={litter!r}."
        )
    return replace(design, notes=tuple(notes))


def _find_litter(frame: pd.DataFrame, unit: str, animal: str | None, roles: Sequence[str | None]) -> str | None:
    """Return the column of animals, litters or cages that the comparison ignores, if several units share one."""
    if unit.casefold() in _LITTERS:
        return None
    alike = [str(c) for c in frame if c == animal or str(c).casefold().removesuffix("_id") in _LITTERS]
    named = [name for name in alike if name not in (unit, *roles)]
    return next((name for name in named if is_nested(frame, unit, name)), None)


def is_nested(frame: pd.DataFrame, unit: str, column: str) -> bool:
    """Return whether each unit has one value of a column, and some share it."""
    pairs = frame[[unit, column]].dropna().drop_duplicates()
    return not pairs[unit].duplicated().any() and bool(pairs[column].duplicated().any())


def _unit(question: Question, sheet: Sheet) -> tuple[str, str]:
    if question.unit == RECORDING:
        return RECORDING, RECORDING
    if question.unit == ANIMAL:
        return (sheet.animal, sheet.subject) if sheet.animal else (RECORDING, RECORDING)
    return find_column(sheet.frame, question.unit, "unit"), question.unit


def _factor(frame: pd.DataFrame, name: str) -> Factor:
    column = frame[name]
    numeric = is_number(column)
    found = column.unique().tolist()
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = [value for value in column.cat.categories.tolist() if value in found]
    else:
        levels = sorted(found, key=float if numeric else lambda value: (not is_control(value), str(value)))
    if len(levels) < 2:
        raise DataError(f"All selected recordings have {name} {str(levels[0])!r}, so there is nothing to compare.")
    if len(levels) > MOST_GROUPS and not numeric:
        raise DataError(f"{name!r} has {len(levels)} different values; at most {MOST_GROUPS} groups can be compared.")
    is_ordered = numeric or (isinstance(column.dtype, pd.CategoricalDtype) and bool(column.cat.ordered))
    return Factor(name, tuple(levels), numeric, is_ordered)


def _varying(frame: pd.DataFrame, groups: list[Any]) -> str:
    """Return the columns with few values that vary within groups of rows, as text."""
    few = [c for c in frame if c != RECORDING and 2 <= frame[c].nunique() <= min(MOST_SESSIONS, len(frame) / 3)]
    names = [str(c) for c in few if any(frame[c].iloc[rows].nunique() > 1 for rows in groups)]
    return f" over {listed(names)}" if names else ""


def is_control(value: Any) -> bool:
    """Return True if the name of a group is that of controls."""
    return str(value).casefold() in _CONTROLS


def _find_split(frame: pd.DataFrame, key: str, column: str) -> list[Any]:
    """Return the values of `key` that have several values of `column`."""
    values = frame.groupby(key, observed=True)[column].nunique()
    found: list[Any] = values[values > 1].index.tolist()
    return found


def _check_units(
    frame: pd.DataFrame, firsts: pd.DataFrame, unit: str, word: str, between: list[str], within: str | None, blocks: str | None
) -> None:  # fmt: skip
    """Raise DataError for units in several groups or blocks, or without pairs."""
    if within is None:
        for factor in between:
            if found := _find_split(frame, unit, factor):
                same = f"within={unit!r}" if len(between) == 1 else f"one column, within={unit!r}"
                raise DataError(
                    f"{format_items(found, word, f'in more than one group of {factor!r}')} "
                    f"To compare sessions of the same {word}, use {same}. Otherwise select recordings with where."
                )
    elif len(between) == 1 and not _find_split(frame, within, between[0]):
        raise DataError(
            f"Nothing can be paired: each {within} has only one value of {between[0]!r}. Omit within to compare groups, or "
            f"set it to the column that identifies the subjects."
        )
    if blocks is not None:
        if found := _find_split(frame, unit, blocks):
            raise DataError(
                f"{format_items(found, word, f'in more than one block of {blocks!r}')} Each {word} must be in one block; to "
                f"pair its sessions, use within={unit!r}."
            )
        for factor in between:
            if within is None and not _find_split(firsts, blocks, factor):
                raise DataError(
                    f"Each {blocks} has only one value of {factor!r}, so the two are confounded. Omit blocks, and interpret "
                    "differences with care."
                )


def _check_pairs(frame: pd.DataFrame, firsts: pd.DataFrame, unit: str, within: str, between: list[str]) -> None:
    """Raise DataError if sessions of subjects that are not the units cannot be paired."""
    if found := _find_split(frame, unit, within):
        raise DataError(
            f"within={within!r} is not a subject: {format_count(len(found), unit)} in several of its values "
            f"({format_list(found)}). Use a column such as {unit!r}."
        )
    sizes = firsts.groupby([within, *between], observed=True).size()
    if len(found := sizes[sizes > 1].index.tolist()):
        raise DataError(
            f"within={within!r} gives ambiguous pairs: {format_list(found[:1])} has {int(sizes.max())} units. "
            f"To exchange units within {within} without pairs, use blocks={within!r}."
        )


def unit_values(column: pd.Series[Any], rows: Sequence[Any]) -> pd.Series[Any]:
    """Return a value for each unit: the mean of numbers, or the only word; None if it has several."""
    if is_number(column):
        return pd.Series([column.iloc[found].mean() for found in rows], dtype=np.float64)
    its = [column.iloc[found].unique() for found in rows]
    return pd.Series([one[0] if len(one) == 1 else None for one in its])


def _covariates(frame: pd.DataFrame, rows: list[Any], columns: list[str]) -> Floats:
    """Return covariates [n, c]: numeric columns as they are, others as dummy variables."""
    parts: list[Floats] = []
    for name in columns:
        column = frame[name]
        if is_number(column):
            parts.append(unit_values(column, rows).to_numpy()[:, None])
            continue
        words = sorted(column.unique().tolist(), key=str)
        if len(words) > MOST_GROUPS:
            raise DataError(
                f"The covariate {name!r} has {len(words)} different values; at most {MOST_GROUPS} are allowed."
            )
        shares = np.stack([column == word for word in words[1:]], axis=1).astype(np.float64)
        parts.append(np.stack([shares[found].mean(axis=0) for found in rows]))
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))


# ---- limits of a design ---------------------------------------------------------------------------------------------
def check_sizes(design: Design) -> None:
    """Raise DataError if the groups are too small for a test."""
    word = design.unit_word
    if not len(design.units):
        raise DataError(f"No {word} has two of the compared values, so nothing can be paired.")
    if design.paired:
        if (n := len(np.unique(design.subjects))) < 2:
            raise DataError(f"Only one {word} can be paired. At least 2 are needed.")
        return
    for j, factor in enumerate(design.factors):
        sizes = np.bincount(design.levels[:, j], minlength=len(factor.levels))
        single = [words for words, n in zip(factor.words, sizes, strict=True) if n < 2]
        if single and len(factor.levels) == 2:
            raise DataError(
                f"Only one {word} has {factor.name} {single[0]!r}, which allows no inference. Add {pluralise(word)}, or compare "
                "other groups with where."
            )
        if len(sizes) >= (n := int(sizes.sum())) and not (factor.numeric and n > 2):
            raise DataError(
                f"{factor.name!r} has {len(sizes)} groups for {plural(n, word)}; each group needs more than one {word}. "
                "Join groups, or compare fewer with where."
            )


def describe_limits(design: Design, trend: bool, n_permutations: int, n_rows: int) -> list[str]:
    """Return sentences on what this design cannot show."""
    notes: list[str] = []
    if len(design.factors) > 1:
        return notes
    factor, word = design.factors[0], design.unit_word
    single = format_list([words for words, n in design.sizes.items() if n == 1])
    if single and not trend:
        notes.append(f"{factor.name} {single} has a single {word}, which allows no inference on that group.")
    notes += explain_smallest_p(design, trend, n_rows)
    if n_rows > 1 and n_rows / (n_permutations + 1) >= LEVEL:
        too_few = f"{n_permutations:,} permutations are too few for {n_rows} rows"
        notes.append(f"{too_few}: no corrected p can be below {LEVEL:g}.")
    return notes


def explain_smallest_p(design: Design, trend: bool = False, n_rows: int = 1) -> list[str]:
    """Return a sentence if no p, or none after correction for the rows, can be below .05; else an empty list."""
    levels = design.levels[:, 0]
    least = smallest_p(levels, design.strata, design.factors[0].amounts[levels] if trend else None)
    if least >= LEVEL:
        return [
            f"This design cannot reach p < {LEVEL:g}: with {_sizes(design)} the smallest possible p is {least:.2g}."
        ]
    if least * n_rows >= LEVEL:
        return [
            f"With {_sizes(design)} the smallest possible p is {least:.2g}, which exceeds {LEVEL:g} after correction for {n_rows} "
            "rows (Holm). Compare fewer states or one measure."
        ]
    return []


def _sizes(design: Design) -> str:
    if not design.paired:
        return f"{format_list(list(design.sizes.values()))} {pluralise(design.unit_word)} in its groups"
    n = len(np.unique(design.subjects))
    return f"{n} pairs" if len(design.factors[0].levels) == 2 else plural(n, design.unit_word)
