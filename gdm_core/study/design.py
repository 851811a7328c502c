"""What a question asks of a sheet: whose values are compared, between what, and what may be exchanged with what.

The unit is an animal: its recordings under the same condition are averaged first. What a design cannot answer is refused
with a sentence (an animal in two groups, wrong pairs, a condition that differs in no block), or said in a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import known_mean
from gdm_core.study.permutation import Floats, Ints, smallest_p
from gdm_core.study.sheet import ANIMAL, RECORDING, Sheet, column_of, counted, in_words, listed, selected

FRAME = "frame"
# What a group that others are compared with is called: it comes first.
_REFERENCE = (
    "control",
    "ctrl",
    "ctl",
    "vehicle",
    "veh",
    "saline",
    "sham",
    "baseline",
    "placebo",
    "untreated",
    "wt",
    "wildtype",
)
MOST_GROUPS = 50
LEVEL = 0.05


@dataclass(frozen=True)
class Question:
    """What is asked of a study, as `compare` takes it.

    measure         its name
    between         columns that say what differs: one, or two for two factors
    unit            column that says what is a unit, "recording", or "frame"
    within          column that says whose measurements are paired
    blocks          column within whose values units are exchanged
    covariates      columns whose share is taken away first
    where           column -> value or values: the recordings that take part
    """

    measure: str
    between: tuple[str, ...]
    unit: str = ANIMAL
    within: str | None = None
    blocks: str | None = None
    covariates: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Factor:
    """A column that is compared between.

    name     of the column
    levels   its values in order: numbers by size, else a control first and the rest by name
    numeric  whether they are numbers
    """

    name: str
    levels: tuple[Any, ...]
    numeric: bool

    @property
    def words(self) -> list[str]:
        """Its levels in words."""
        return [in_words(level) for level in self.levels]

    @property
    def amounts(self) -> Floats:
        """Its levels as numbers, where they are."""
        return np.array([float(level) for level in self.levels])


@dataclass(frozen=True, eq=False)
class Design:
    """Values of units, and where each stands.

    rows        recordings of each unit, as places among those that were counted
    units       [n] names
    factors     what is compared between
    levels      [n, factors] the level of each unit
    subjects    [n] the number of whose value it is; the same for paired ones
    strata      [n] within which units are exchanged
    covariates  [n, c] columns of numbers
    paired      whether subjects are the strata
    unit_word   what a unit is called
    notes       what a reader has to know, in sentences
    """

    rows: tuple[npt.NDArray[np.int64], ...]
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
        """[n, levels - 1] whether a unit is at each level of a factor but the first."""
        return (self.levels[:, j, None] == np.arange(1, len(self.factors[j].levels))).astype(np.float64)

    def averaged(self, values: Floats) -> Floats:
        """[n, ...] mean of each unit's recordings, of those where there is a value."""
        return np.stack([known_mean(values[rows]) for rows in self.rows])

    def part(self, kept: npt.NDArray[np.bool_]) -> Design:
        """The same with some units only."""
        return replace(
            self,
            rows=tuple(rows for rows, yes in zip(self.rows, kept, strict=True) if yes),
            units=tuple(unit for unit, yes in zip(self.units, kept, strict=True) if yes),
            levels=self.levels[kept],
            subjects=self.subjects[kept],
            strata=self.strata[kept],
            covariates=self.covariates[kept],
        )


def design_of(question: Question, sheet: Sheet, names: Sequence[str], empty: npt.NDArray[np.bool_]) -> Design:
    """The design of a question."""
    if not 1 <= len(question.between) <= 2:
        raise ConfigError(f"between is {question.between!r}; name one column, or two for two factors.")
    frame = sheet.frame[~sheet.frame[RECORDING].isin(list(sheet.set_aside))]
    frame = selected(frame, question.where)
    notes: list[str] = []
    place = {name: i for i, name in enumerate(names)}
    blank = [name for name in frame[RECORDING] if empty[place[name]]]
    if blank:
        notes.append(f"{counted(len(blank), 'recording')} left out, without a single labelled sample: {listed(blank)}.")
        frame = frame[~frame[RECORDING].isin(blank)]
    between = [column_of(frame, asked, "between") for asked in question.between]
    unit, unit_word = _unit(question, sheet)
    within = None if question.within is None else column_of(frame, question.within, "within")
    blocks = None if question.blocks is None else column_of(frame, question.blocks, "blocks")
    covariates = [column_of(frame, asked, "covariates") for asked in question.covariates]
    needed = [c for c in dict.fromkeys([*between, unit, within, blocks, *covariates]) if c is not None]
    if len(set(between) | set(covariates) | {blocks}) < len(between) + len(covariates) + 1:
        raise ConfigError("between, blocks and covariates must name different columns.")
    for column in needed:
        missing = frame[column].isna()
        if missing.any():
            lost = frame.loc[missing, RECORDING].tolist()
            notes.append(f"{counted(len(lost), 'recording')} left out, with nothing in {column!r}: {listed(lost)}.")
            frame = frame[~missing]
    if frame.empty:
        raise DataError(f"No recording has a value in {listed(needed)}.")
    factors = [_factor(frame, name) for name in between]
    subject = within or unit
    if within is not None and within != unit:
        _check_nested(frame, unit, within)
    keys = [subject, *(between if within else [])] if within == unit else [*dict.fromkeys([subject, unit, *between])]
    groups = frame.groupby(keys, sort=False, dropna=False, observed=True).indices
    rows = [np.asarray(found) for found in groups.values()]
    firsts = frame.iloc[[found[0] for found in rows]]
    _check_units(frame, firsts, unit, unit_word, between, within, blocks)
    if within is not None and within != unit:
        _check_pairs(firsts, within, between)
    several = sum(len(found) > 1 for found in rows)
    if several:
        notes.append(f"{counted(several, unit_word)} the mean of several recordings.")
    levels = np.stack(
        [[factor.levels.index(value) for value in firsts[factor.name].tolist()] for factor in factors], axis=1
    ).astype(np.int64)
    subjects = pd.factorize(firsts[subject])[0].astype(np.int64)
    strata = np.zeros(len(rows), np.int64) if blocks is None else pd.factorize(firsts[blocks])[0].astype(np.int64)
    whose = frame[RECORDING].map(place).to_numpy()
    units = tuple(str(value) for value in firsts[subject])
    alone = np.bincount(subjects)[subjects] < 2
    if within is not None and len(factors) == 1 and alone.any():
        names = [name for name, yes in zip(units, alone, strict=True) if yes]
        notes.append(
            f"{counted(len(names), unit_word)} left out, with one of {len(factors[0].levels)} values of "
            f"{factors[0].name!r}: {listed(names)}. mixed=True uses them, too."
        )
    return Design(
        rows=tuple(whose[found] for found in rows),
        units=units,
        factors=tuple(factors),
        levels=levels,
        subjects=subjects,
        strata=subjects if within is not None else strata,
        covariates=_covariates(frame, rows, covariates),
        paired=within is not None,
        unit_word=unit_word,
        notes=tuple(notes),
    )


def _unit(question: Question, sheet: Sheet) -> tuple[str, str]:
    if question.unit in (RECORDING, FRAME):
        return RECORDING, RECORDING
    if question.unit == ANIMAL:
        return (sheet.animal, ANIMAL) if sheet.animal else (RECORDING, RECORDING)
    return column_of(sheet.frame, question.unit, "unit"), question.unit


def _factor(frame: pd.DataFrame, name: str) -> Factor:
    column = frame[name]
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    found = column.unique().tolist()
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = [value for value in column.cat.categories.tolist() if value in found]
    else:
        levels = sorted(
            found, key=float if numeric else lambda value: (str(value).casefold() not in _REFERENCE, str(value))
        )
    if len(levels) < 2:
        raise DataError(
            f"All recordings that take part have {name} {str(levels[0])!r}, so there is nothing to compare."
        )
    if len(levels) > MOST_GROUPS and not numeric:
        raise DataError(f"{name!r} has {len(levels)} different values; {MOST_GROUPS} groups may be compared at once.")
    return Factor(name, tuple(levels), numeric)


def _torn(frame: pd.DataFrame, whose: str, column: str) -> list[Any]:
    """Who has several values of a column."""
    values = frame.groupby(whose, observed=True)[column].nunique()
    found: list[Any] = values[values > 1].index.tolist()
    return found


def _check_units(
    frame: pd.DataFrame,
    firsts: pd.DataFrame,
    unit: str,
    word: str,
    between: list[str],
    within: str | None,
    blocks: str | None,
) -> None:
    """Nobody is in two groups or two blocks, unless measurements of one are paired."""
    if within is None:
        for factor in between:
            if found := _torn(frame, unit, factor):
                same = f"within={word!r}" if len(between) == 1 else f"one column, within={word!r}"
                raise DataError(
                    f"{counted(len(found), word)} in more than one group of {factor!r}: {listed(found)}. If its sessions are "
                    f"to be compared with each other, pair them: {same}. Else choose recordings with where."
                )
    elif len(between) == 1 and not _torn(frame, within, between[0]):
        raise DataError(
            f"Nothing can be paired: each {within} has one value of {between[0]!r} only. Leave out within to compare "
            f"groups, or name the column that says whose recordings belong together."
        )
    if blocks is not None:
        if found := _torn(frame, unit, blocks):
            raise DataError(
                f"{counted(len(found), word)} in more than one block of {blocks!r}: {listed(found)}. A block holds whole "
                f"{word}s; to pair the sessions of one, use within={word!r}."
            )
        for factor in between:
            if within is None and not _torn(firsts, blocks, factor):
                raise DataError(
                    f"Within each {blocks} all have one value of {factor!r}, so the two cannot be told apart. Leave out blocks, "
                    "and keep in mind that what differs may be either."
                )


def _check_nested(frame: pd.DataFrame, unit: str, within: str) -> None:
    if found := _torn(frame, unit, within):
        raise DataError(
            f"within={within!r} pairs wrongly: {counted(len(found), unit)} in several of its values ({listed(found)}). "
            f"within names whose recordings belong together, such as {unit!r}; what differs between them is `between`."
        )


def _check_pairs(firsts: pd.DataFrame, within: str, between: list[str]) -> None:
    sizes = firsts.groupby([within, *between], observed=True).size()
    if len(found := sizes[sizes > 1].index.tolist()):
        raise DataError(
            f"within={within!r} pairs wrongly: {listed(found[:1])} holds {int(sizes.max())} units, and which belongs to which "
            f"is not said. For exchanging within {within} without pairs, use blocks={within!r}."
        )


def _covariates(frame: pd.DataFrame, rows: list[Any], columns: list[str]) -> Floats:
    """[n, c] a column for each number, and one for each but the first value of words."""
    made: list[Floats] = []
    for name in columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            values = column.to_numpy(np.float64)
            made.append(np.array([[values[found].mean()] for found in rows]))
            continue
        words = sorted(column.unique().tolist(), key=str)
        if len(words) > MOST_GROUPS:
            raise DataError(f"The covariate {name!r} has {len(words)} different words; is it one at all?")
        shares = np.stack([column == word for word in words[1:]], axis=1).astype(np.float64)
        made.append(np.stack([shares[found].mean(axis=0) for found in rows]))
    return np.concatenate(made, axis=1) if made else np.zeros((len(rows), 0))


# ---- what a design cannot say ---------------------------------------------------------------------------------------
def check_sizes(design: Design) -> None:
    word = design.unit_word
    if not len(design.units):
        raise DataError(f"No {word} has two of the values that are compared, so nothing can be paired.")
    if design.paired:
        if (n := len(np.unique(design.subjects))) < 2:
            raise DataError(
                f"Only one {word} can be paired; how much {word}s differ is unknown. At least 2 are needed."
            )
        return
    for j, factor in enumerate(design.factors):
        sizes = np.bincount(design.levels[:, j], minlength=len(factor.levels))
        single = [words for words, n in zip(factor.words, sizes, strict=True) if n < 2]
        if single and len(factor.levels) == 2:
            raise DataError(
                f"Of {factor.name} {single[0]!r} there is a single {word}, so how much {word}s of it differ is unknown and "
                f"nothing can be said of the group. Add {word}s, or compare other groups with where."
            )
        if len(sizes) >= (n := int(sizes.sum())) and not (factor.numeric and n > 2):
            raise DataError(
                f"{factor.name!r} has {len(sizes)} groups of {n} {word}s: each group needs more than one {word}. Join groups, or "
                "compare fewer with where."
            )


def limits_of(design: Design, trend: bool, n_permutations: int, n_rows: int) -> list[str]:
    """What this design cannot say, in sentences."""
    said: list[str] = []
    if len(design.factors) > 1:
        return said
    factor, word = design.factors[0], design.unit_word
    sizes = np.bincount(design.levels[:, 0], minlength=len(factor.levels))
    single = [words for words, n in zip(factor.words, sizes, strict=True) if n == 1]
    if single and not trend:
        said.append(
            f"A single {word} stands for {factor.name} {listed(single)}: of that group alone nothing can be said."
        )
    least, group = smallest_p(design.levels[:, 0], design.strata), _sizes(design)
    if least >= LEVEL:
        said += out_of_reach(design)
    elif n_rows > 1 and least * n_rows >= LEVEL:
        said.append(
            f"With {group} the smallest p possible is {least:.2g}: corrected for {n_rows} rows (Holm) none can be below {LEVEL:g}. "
            "Ask of fewer states or one measure."
        )
    if n_rows > 1 and n_rows / (n_permutations + 1) >= LEVEL:
        said.append(
            f"{n_permutations:,} permutations are too few for {n_rows} rows: corrected, no p can be below {LEVEL:g}."
        )
    if len(sizes) == 2 and not trend and min(sizes) > 1:
        detectable = _detectable(sizes, design.paired)
        said.append(
            f"A difference below {detectable:.1f} standard deviations between {word}s would be missed more often than in one study "
            "of five: no difference found does not mean none."
        )
    return said


def out_of_reach(design: Design) -> list[str]:
    """Why no p of this design can be below .05, in a sentence; none where one can."""
    least = smallest_p(design.levels[:, 0], design.strata)
    if least < LEVEL:
        return []
    return [f"This design cannot reach p < {LEVEL:g}: with {_sizes(design)} the smallest p possible is {least:.2g}."]


def _sizes(design: Design) -> str:
    if not design.paired:
        sizes = np.bincount(design.levels[:, 0], minlength=len(design.factors[0].levels))
        return f"{listed(sizes.tolist())} {design.unit_word}s in its groups"
    n = len(np.unique(design.subjects))
    return f"{n} pairs" if len(design.factors[0].levels) == 2 else f"{n} {design.unit_word}s"


def _detectable(sizes: npt.NDArray[np.int64], paired: bool) -> float:
    """The difference in standard deviations that a t test finds in four studies of five."""
    from statsmodels.stats.power import TTestIndPower, TTestPower

    asked = {"power": 0.8, "alpha": LEVEL}
    if paired:
        return float(TTestPower().solve_power(nobs=int(sizes[0]), **asked))
    return float(TTestIndPower().solve_power(nobs1=int(sizes[0]), ratio=sizes[1] / sizes[0], **asked))
