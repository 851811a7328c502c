"""The plan of an analysis, locked before its results, and what changed afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gdm_core.study.design import CORRECTIONS, Question
from gdm_core.study.sheet import format_value
from gdm_core.study.states import MEASURES
from gdm_core.study.text import format_rates
from gdm_core.text import listed

if TYPE_CHECKING:
    from gdm_core.study.study import Study

NONE = "none"


def describe_plan(study: Study, question: Question) -> dict[str, str]:
    """Return what a plan fixes, as text by heading."""
    rates = study.counts.rates
    where = [
        f"{name} {listed([format_value(one) for one in np.ravel(value).tolist()])}"
        for name, value in question.where.items()
    ]
    sessions = [f"sessions within {question.within}"] if question.within else []
    return {
        "primary measure": MEASURES.get(question.measure, question.measure),
        "compared by": listed([*question.between, *sessions]),
        "blocks": question.blocks or NONE,
        "covariates": listed([*question.covariates, *question.planned]) or NONE,
        "recordings where": listed(where) or "all",
        "left out": listed(sorted(study.sheet.set_aside)) or NONE,
        "number of states": str(len(study.states)),
        "time scale": format_rates(float(rates.min()), float(rates.max())),
        "correction": CORRECTIONS[question.correction],
    }


def list_changes(plan: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what differs from a plan, as phrases."""
    return [
        f"{name} ({plan[name]} in the plan, now {value})"
        for name, value in now.items()
        if plan.get(name, value) != value
    ]
