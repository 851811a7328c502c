"""Comparison of a study: its controls, stored in the URL, and its cached results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from gdm_core.errors import GdmError
from gdm_core.study import Flow, Study
from gdm_core.study.classes import BEFORE
from gdm_core.study.sheet import RECORDING, format_value
from gdm_core.study.states import CHANGE_MEASURES, RECORDING_MEASURES, STATE_MEASURES
from pages.study import work
from pages.study.bring import Brought
from pages.study.cropping import NOTHING
from pages.study.work import Say
from pages.ui import settings, shell
from pages.ui.controls import one_of, several
from pages.ui.shell import Frame

MEASURES = STATE_MEASURES | CHANGE_MEASURES | RECORDING_MEASURES
SHORT = {
    "usage": "Usage",
    "bouts_per_min": "Bouts per minute",
    "bouts": "Number of bouts",
    "mean_bout_s": "Mean bout duration",
    "median_bout_s": "Median bout duration",
    "transitions": "Transition rates",
    "transition_shares": "Transition probabilities",
    "entropy": "Usage entropy",
    "changes_per_min": "Transitions per minute",
}
CORRECTIONS = {"p_holm": "Holm (family-wise)", "p_bh": "Benjamini-Hochberg (FDR)"}
N_PERMUTATIONS = 10_000
POOLED = "all, pooled"
Where = tuple[tuple[str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Asked:
    """Settings of a comparison.

    where       columns and the values that select recordings
    experiment  chosen experiment or drug of a sheet with several, "" if there is one
    pooled      caveat on experiments that are pooled
    """

    measure: str
    between: tuple[str, ...]
    within: str | None
    blocks: str | None
    covariates: tuple[str, ...]
    where: Where
    correction: str
    experiment: str = ""
    pooled: str = ""

    @property
    def design(self) -> dict[str, Any]:
        """Arguments of every comparison."""
        where = {column: list(values) for column, values in self.where}
        return {"within": self.within, "blocks": self.blocks, "where": where}

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `Study.compare` and `Study.flow` that differ from their defaults."""
        given = {**self.design, "covariates": list(self.covariates)}
        return {name: value for name, value in given.items() if value}

    @property
    def plain(self) -> dict[str, Any]:
        """Settings as JSON values for a study file."""
        where = [[column, [format_value(value) for value in values]] for column, values in self.where]
        return asdict(self) | {"where": where}

    @property
    def one(self) -> str | list[str]:
        """Compared columns as written in a script."""
        return self.between[0] if len(self.between) == 1 else list(self.between)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.measure, self.between, self.within, self.blocks, self.covariates, self.where)


@dataclass(frozen=True)
class StudyAnswer:
    """Result of a comparison; `table` is None and `trouble` an error if it failed.

    per_unit   adjusted values of each animal and state
    means      adjusted means of groups, with intervals
    confounds  columns of the sheet that are associated with the groups
    """

    flow: Flow | None
    no_flow: str
    table: pd.DataFrame | None = None
    per_unit: pd.DataFrame | None = None
    means: pd.DataFrame | None = None
    confounds: pd.DataFrame | None = None
    trouble: str = ""


def choose(brought: Brought, page: Frame) -> Asked | None:
    """Show the controls of a comparison; return None if the sheet has nothing to compare."""
    shell.section("Question")
    study, of = brought.study, brought.of
    frame, animal = study.conditions, study.sheet.animal
    offered = [str(c) for c in frame if c not in (RECORDING, "file") and frame[c].nunique() > 1]  # columns with groups
    groups = [c for c in offered if c != animal]
    if not groups:
        shell.quiet(
            "No column of the sheet differs between recordings. Add one to compare, such as group, dose or session."
        )
        return None
    saved: dict[str, Any] = dict(study.questions[0]) if study.questions else {}  # from a saved study
    usual = next(
        (c for c in groups if c.casefold() in ("group", "treatment", "condition", "dose", "genotype")), groups[0]
    )
    first, other = [*saved.get("between", [usual]), NOTHING][:2]

    about = "A column of the sheet, such as group, dose or session."
    start = first if first in groups else usual
    between = one_of("Compare groups by", groups, start, key="between", of=of, help=about)
    measures = [*MEASURES, *[c for c in groups if pd.api.types.is_numeric_dtype(frame[c].dtype) and c != between]]
    called, start = {one: SHORT.get(one, one) for one in measures}, saved.get("measure", "usage")
    measure = one_of("Measure", called, start, key="measured", of=of)
    where = _filter(brought, offered, saved)
    where, experiment, pooled = _choose_experiment(brought, between, where, saved)
    with page.advanced:
        second = one_of("Second factor", [NOTHING, *[c for c in groups if c != between]], other, key="and", of=of)
        paired = [NOTHING, *([animal] if animal else []), *[c for c in groups if c not in (between, second)]]
        comes_again = animal is not None and bool((frame.groupby(animal)[between].nunique() > 1).any())
        again = str(animal) if comes_again else NOTHING
        start = (saved.get("within") or NOTHING) if saved and between == first else again
        its_own = settings.key(of, settings.scope(between))
        about = f"The {study.sheet.subject}, if each was recorded under several conditions."
        within = one_of("Repeated measures within", paired, start, key="within", of=its_own, help=about)
        others = [c for c in groups if c not in (between, second)]
        batch, about = saved.get("blocks") or NOTHING, "Labels are permuted within blocks only."
        blocks = one_of("Blocks", [NOTHING, *others], batch, key="blocks", of=of, help=about)
        offered = [c for c in _offer_covariates(study, between, None if within == NOTHING else within) if c != second]
        kept = [c for c in saved.get("covariates", []) if c in offered]
        about = "Effects to adjust for, such as age or the length of recordings (min)."
        covariates = several("Covariates", offered, kept, key="covariates", of=of, placeholder="none", help=about)
        correction = one_of("Correction", CORRECTIONS, saved.get("correction", "p_holm"), key="correct", of=of)
    compared = (between,) if second in (NOTHING, between) else (between, second)
    return Asked(
        measure, compared, None if within == NOTHING else within, None if blocks == NOTHING else blocks,
        tuple(c for c in covariates if c != blocks), where, correction, experiment, pooled,
    )  # fmt: skip


def _offer_covariates(study: Study, between: str, within: str | None) -> list[str]:
    """Return the columns from before the treatment; adjusting for others can erase the question."""
    try:
        classes = study.classify_columns(between, within=within)
    except GdmError:  # the comparison says why
        return []
    return [name for name, one in classes.items() if one.kind == BEFORE]


def _choose_experiment(brought: Brought, between: str, where: Where, saved: dict[str, Any]) -> tuple[Where, str, str]:
    """Ask which experiment to analyse if the sheet has several; return the filters, the answer and a caveat."""
    study = brought.study
    blocks = settings.text(settings.key("blocks", brought.of)) or saved.get("blocks") or ""
    second = settings.text(settings.key("and", brought.of)) or ""
    pooling = study.find_pooling(between, {column: list(values) for column, values in where}, [blocks, second])
    if pooling is None:
        return where, "", ""
    its_own = settings.key(brought.of, settings.scope(between, pooling.column))
    start = saved.get("experiment") or pooling.default
    options = [*pooling.choices, POOLED]
    chosen = one_of(f"{pooling.column} to analyse", options, start, key="experiment", of=its_own)
    shell.quiet(pooling.question)
    if chosen == POOLED:
        return where, chosen, pooling.note
    return (*where, (pooling.column, tuple(pooling.choices[chosen]))), chosen, ""


def _filter(brought: Brought, offered: list[str], saved: dict[str, Any]) -> Where:
    """Show the filter of recordings."""
    frame, of = brought.study.conditions, brought.of
    filters = saved.get("where") or []
    column, values = (
        filters[0] if len(filters) > bool(saved.get("experiment", "") not in ("", POOLED)) else (NOTHING, [])
    )
    where = one_of("Filter by", [NOTHING, *offered], column, key="where", of=of)
    if where == NOTHING:
        return ()
    by_word = {format_value(value): value for value in sorted(frame[where].dropna().unique().tolist(), key=str)}
    kept = [format_value(value) for value in values if where == column and format_value(value) in by_word]
    its_own = settings.key(of, settings.scope(where))
    chosen = several(f"{where} is", list(by_word), kept or list(by_word)[:1], key="values", of=its_own)
    return ((where, tuple(by_word[word] for word in chosen)),) if chosen else ()


def answers(brought: Brought, asked: Asked) -> StudyAnswer | None:
    """Return the results of a comparison once they are computed."""
    study = brought.study

    def do(say: Say) -> StudyAnswer:
        flow, no_flow = None, "The flow test compares the groups of one column."
        say("Comparing how one state follows another", 0.1)
        if len(asked.between) == 1:
            try:
                flow, no_flow = study.flow(asked.between[0], n_permutations=N_PERMUTATIONS, **asked.arguments), ""
            except GdmError as error:
                no_flow = str(error)
        say("Comparing each state", 0.5)
        try:
            question = (asked.measure, asked.between)
            table = study.compare(*question, n_permutations=N_PERMUTATIONS, **asked.arguments)
            each, means = study.per_unit(*question, **asked.arguments), study.group_means(*question, **asked.arguments)
            return StudyAnswer(flow, no_flow, table, each, means, study.find_confounds(asked.between, **asked.design))
        except GdmError as error:
            return StudyAnswer(flow, no_flow, trouble=str(error))

    return work.outcome("study-asking", (brought.key, "answers", asked.key), do, "This cannot be answered")
