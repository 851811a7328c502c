"""The finding of a question: the flow test, the comparison, and what follows from both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from gdm_core.errors import ConfigError, GdmError
from gdm_core.study.flow import Flow
from gdm_core.study.followup import assess_equivalence, compare_pairs, compare_recordings
from gdm_core.study.question import Question
from gdm_core.study.states import CHANGE_MEASURES
from gdm_core.study.study import Study


@dataclass(frozen=True)
class Finding:
    """Answer to a question; `table` is None and `trouble` an error if it has none.

    no_flow      why there is no flow test
    unadjusted   the comparison without covariates, None if there are none
    log_ratios   the comparison of log-ratios of shares, if shares were compared, which sum to one
    recordings   mixed model of all recordings, if recordings of one unit were averaged
    per_unit     adjusted values of each unit and state
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
    measure, between, options = question.measure, question.between, question.options
    random: dict[str, Any] = {"n_permutations": n_permutations, "seed": seed}
    plain = options | {"covariates": (), "planned": ()}
    found = Finding()
    report("Comparing how one state follows another", 0.1)
    if len(between) == 1:
        try:
            found = Finding(study.flow(between[0], counts=counts, **random, **options), no_flow="")
        except GdmError as error:
            found = Finding(no_flow=str(error))
    report("Comparing each state", 0.5)
    try:
        table = study.compare(measure, between, **random, **options)
        return replace(
            found, table=table, recordings=_compare_recordings(study, table),
            unadjusted=study.compare(measure, between, **random, **plain) if plain != options else None,
            log_ratios=study.compare("log_ratio", between, **random, **options) if measure == "usage" else None,
            per_unit=study.per_unit(measure, between, **options), means=study.group_means(measure, between, **options),
            confounds=study.find_confounds(between, **plain),
        )  # fmt: skip
    except GdmError as error:
        return replace(found, trouble=str(error))


def _compare_recordings(study: Study, table: pd.DataFrame) -> pd.DataFrame | None:
    question: Question = table.attrs["question"]
    if question.measure in CHANGE_MEASURES or not (table.attrs["averaged"] or question.blocks):
        return None
    try:
        return compare_recordings(study, table)
    except ConfigError:  # pairs or several groups
        return None


def follow_up(study: Study, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the pairs of groups or doses, or the equivalence, that follow a comparison."""
    if table["d"].notna().any():
        return {"equivalence": table[["name"]].join(assess_equivalence(table))}
    is_pooled = "omega" in table["effect_is"].iloc[0] and len(table.attrs["question"].between) == 1
    return {"pairs": compare_pairs(study, table)} if is_pooled or table.attrs["n_contrasts"] else {}
