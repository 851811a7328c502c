"""The finding of a question: the flow test, the comparison, and what follows from both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from gdm_core.errors import ConfigError, GdmError
from gdm_core.study.design import Question
from gdm_core.study.flow import Flow
from gdm_core.study.followup import assess_equivalence
from gdm_core.study.states import CHANGE_MEASURES
from gdm_core.study.study import Study


@dataclass(frozen=True)
class Finding:
    """Answer to a question; `table` is None and `trouble` an error if it has none.

    no_flow      why there is no flow test
    unadjusted   the comparison without covariates, None if there are none
    log_ratios   the comparison of log-ratios of shares, if shares were compared, which sum to one
    recordings   mixed model of all recordings, if recordings of one animal were averaged
    per_unit     adjusted values of each animal and state
    means        adjusted means of groups, with intervals
    confounds    columns of the sheet, and which of them are associated with the groups
    """

    flow: Flow | None = None
    no_flow: str = "The flow test compares the groups of one column."
    table: pd.DataFrame | None = None
    unadjusted: pd.DataFrame | None = None
    log_ratios: pd.DataFrame | None = None
    recordings: pd.DataFrame | None = None
    per_unit: pd.DataFrame | None = None
    means: pd.DataFrame | None = None
    confounds: pd.DataFrame | None = None
    trouble: str = ""

    @property
    def tests(self) -> list[Flow | pd.DataFrame]:
        """The flow test and the comparison, as far as there are any."""
        return [one for one in (self.flow, self.table) if one is not None]


def answer_question(
    study: Study, question: Question, n_permutations: int = 10_000, seed: int = 0, counts: bool = False,
    report: Callable[[str, float], None] = lambda text, share: None,
) -> Finding:  # fmt: skip
    """Return the finding of a question to a study.

    n_permutations, seed   number and seed of the permutations
    counts                 as in `Study.flow`
    report                 called with (text, share) of the progress
    """
    options: dict[str, Any] = question.options
    asked: dict[str, Any] = {"n_permutations": n_permutations, "seed": seed}
    found = Finding()
    report("Comparing how one state follows another", 0.1)
    if len(question.between) == 1:
        try:
            flow = study.flow(question.between[0], counts=counts, **asked, **options)
            found = replace(found, flow=flow, no_flow="")
        except GdmError as error:
            found = replace(found, no_flow=str(error))
    report("Comparing each state", 0.5)
    try:
        table = study.compare(question.measure, question.between, **asked, **options)
        plain = options | {"covariates": (), "planned": ()}
        return replace(
            found,
            table=table,
            recordings=_compare_recordings(study, table),
            unadjusted=study.compare(question.measure, question.between, **asked, **plain)
            if question.covariates + question.planned
            else None,
            log_ratios=study.compare("log_ratio", question.between, **asked, **options)
            if question.measure == "usage"
            else None,
            per_unit=study.per_unit(question.measure, question.between, **options),
            means=study.group_means(question.measure, question.between, **options),
            confounds=study.find_confounds(question.between, **plain),
        )
    except GdmError as error:
        return replace(found, trouble=str(error))


def _compare_recordings(study: Study, table: pd.DataFrame) -> pd.DataFrame | None:
    if not table.attrs["averaged"] or table.attrs["question"].measure in CHANGE_MEASURES:
        return None
    try:
        return study.compare_recordings(table)
    except ConfigError:  # pairs, blocks or several groups
        return None


def follow_up(study: Study, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the pairs of groups or doses, or the equivalence, that follow a comparison."""
    if table["d"].notna().any():
        return {"equivalence": table[["name"]].join(assess_equivalence(table))}
    is_pooled = "omega" in table["effect_is"].iloc[0] and len(table.attrs["question"].between) == 1
    return {"pairs": study.compare_pairs(table)} if is_pooled or table.attrs["n_contrasts"] else {}
