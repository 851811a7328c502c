"""The part of a `Study` that turns questions into designs, values of units, and warnings about the sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.study import comparing
from gdm_core.study.classes import LENGTH, MISSING, SCORE, ColumnClass
from gdm_core.study.design import Design, Question, make_design, unit_values
from gdm_core.study.means import adjust_values, tabulate_means
from gdm_core.study.permutation import Floats
from gdm_core.study.sheet import ANIMAL, RECORDING, find_column, select_rows
from gdm_core.study.states import StudyTables
from gdm_core.study.structure import Pooling, find_confounds, find_pooling


def make_question(
    measure: str, between: str | Sequence[str], unit: str = ANIMAL, within: str | None = None, blocks: str | None = None,
    covariates: Sequence[str] = (), planned: Sequence[str] = (), where: Mapping[str, Any] | None = None,
    trend: bool | None = None,
) -> Question:  # fmt: skip
    """Return a question from the arguments of `Study.compare`."""
    several = (between,) if isinstance(between, str) else tuple(between)
    along, after = ((one,) if isinstance(one, str) else tuple(one) for one in (covariates, planned))
    return Question(measure, several, unit, within, blocks, along, after, dict(where or {}), trend)


class StudyDesigns(StudyTables):
    """The part of a `Study` that turns questions into designs; see `StudyTables` for its fields."""

    def design(self, question: Question) -> Design:
        """Return the design of a question, with a note on experiments that it pools."""
        sheet = self.sheet
        if named := {
            name: one for name, one in self._recorded.items() if name in question.covariates + question.planned
        }:
            known = sheet.frame[RECORDING].isin(sheet.names).to_numpy()
            filled = {name: np.full(len(known), np.nan) for name in named if name not in sheet.frame}
            for name in filled:
                filled[name][known] = named[name]
            sheet = replace(sheet, frame=sheet.frame.assign(**filled))
        design = make_design(question, sheet, sheet.names, self.counts.labelled_minutes == 0)
        accounted = [*question.between[1:], *question.covariates, *question.planned, question.blocks or ""]
        pooling = self.find_pooling(question.between[0], question.where, accounted)
        return design if pooling is None else replace(design, notes=(pooling.note, *design.notes))

    @property
    def _recorded(self) -> dict[str, Floats]:
        """Length, missing share and score of each recording, which can serve as covariates."""
        lengths = np.array([one.n_samples / one.rate_hz / 60 for one in self.counts.recordings])
        found = {LENGTH: lengths, MISSING: 1 - self.counts.labelled_minutes / lengths}
        if self.scores:
            found[SCORE] = np.array([self.scores.get(name, np.nan) for name in self.sheet.names])
        return found

    def find_pooling(
        self, between: str, where: Mapping[str, Any] | None = None, ignored: Sequence[str] = ()
    ) -> Pooling | None:
        """Return the experiments or drugs that a comparison would pool, with the question to ask; None if there are none.

        between, where   as in `compare`
        ignored          columns that the comparison accounts for, such as blocks
        """
        frame = select_rows(self.conditions, where)
        return find_pooling(frame, find_column(frame, between, "between"), ignored, self.sheet.animal or RECORDING)

    def find_confounds(self, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return the association of the groups with other columns, recording length, missing data and model score.

        Columns are column, association, strength, p, p_holm, n, kind (class of the column) with its reason, offered (as a
        covariate), associated, same (columns that measure the same) and sentence.

        between   as in `compare`
        options   unit, within, blocks and where, as in `compare`
        """
        return find_confounds(*self._columns(make_question("", between, **options)))

    def classify_columns(self, between: str | Sequence[str], **options: Any) -> dict[str, ColumnClass]:
        """Return the class of each other column of the sheet: design, before treatment, or outcome or mediator.

        between   as in `compare`
        options   unit, within, blocks and where, as in `compare`
        """
        design, columns = self._columns(make_question("", between, **options))
        return {str(name): design.classify(str(name), columns[name]) for name in columns}

    def _columns(self, question: Question) -> tuple[Design, pd.DataFrame]:
        """Return the compared units, and their values of the columns without a role in the question."""
        design, frame = self.design(question), self.conditions.assign(**self._recorded)
        roles = (*question.between, question.within, question.blocks, self.sheet.animal, RECORDING)
        return design, pd.DataFrame({c: unit_values(frame[c], design.rows) for c in frame if c not in roles})

    def adjusted_values(self, question: Question) -> tuple[Design, Floats, pd.DataFrame]:
        """Return the compared units, their adjusted values [n, m] and the labels of the columns."""
        values, labels = self.measure_values(question.measure)
        design = self.design(question)
        return design, adjust_values(design, design.average(values), comparing.is_trend(design, question.trend)), labels

    def per_unit(self, measure: str, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return the values that `compare` compares, adjusted for covariates and blocks, per unit (animal) and state.

        `gdm_core.study.layouts` turns them into wide tables and tables for Prism.

        measure, between   as in `compare`
        options            unit, within, blocks, covariates, planned and where, as in `compare`
        """
        design, its, labels = self.adjusted_values(make_question(measure, between, **options))
        k = len(labels)
        table = pd.DataFrame({design.unit_word: np.repeat(design.units, k)})
        for j, factor in enumerate(design.factors):
            table[factor.name] = np.repeat([factor.levels[code] for code in design.levels[:, j]], k)
        return pd.concat([table, pd.concat([labels] * len(its), ignore_index=True)], axis=1).assign(
            **{measure: its.ravel()}
        )

    def group_means(self, measure: str, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return n, mean and 95% interval per group and state, adjusted for covariates and blocks.

        measure, between   as in `compare`
        options            unit, within, blocks, covariates, planned and where, as in `compare`
        """
        design, values, labels = self.adjusted_values(make_question(measure, between, **options))
        return tabulate_means(design.part(~design.unpaired), values[~design.unpaired], labels, measure)
