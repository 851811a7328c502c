"""The record of an analysis: every number that the methods paragraph and the page state, and what the plan fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import pandas as pd

from gdm_core import __version__
from gdm_core.models.registry import TITLES
from gdm_core.study.flow import Flow
from gdm_core.study.means import CONFIDENCE
from gdm_core.study.question import CORRECTIONS, Question
from gdm_core.study.rare import describe_minimum
from gdm_core.study.sheet import describe_filters
from gdm_core.study.states import CHANGE_MEASURES, MEASURES, STATE_MEASURES
from gdm_core.study.study import Study
from gdm_core.study.text import format_rates
from gdm_core.text import listed

SETTINGS = {"n_states": "K", "n_latent": "D", "seed": "random seed"}  # of a model, and their names in the paragraph


@dataclass(frozen=True)
class Compared:
    """What one comparison of a measure did; see `Study.compare`.

    n_tests      rows with a p value
    n_rare       states that were too rare to test: `minimum` says when
    confidence   level of the intervals, which are not corrected
    is_averaged  whether recordings of one unit under the same condition were averaged
    n_contrasts  doses that were compared with the control by Dunnett's test
    control      first level, which other doses are compared with
    """

    question: Question
    sizes: Mapping[str, int]
    unit: str
    is_averaged: bool
    test: str
    effect: str
    n_permutations: int
    n_tests: int
    n_rare: int
    correction: str
    n_contrasts: int
    control: str
    minimum: str
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class FlowTested:
    """What one flow test found; see `Flow`."""

    sizes: Mapping[str, int]
    unit: str
    n_permutations: int
    distance: float
    z: float
    p: float


@dataclass(frozen=True)
class Record:
    """An analysis: its recordings, its states, what was left out, and its tests.

    n_subjects   None if the sheet has no column for them
    minutes, rates_hz   smallest and largest of the recordings
    preparation  sentences on cropping, windows and missing data
    smoothed_s, shortest_s   smoothing of soft states and shortest bout, 0 where they change nothing
    origin       where the states came from, "" for a model or another tool
    model, settings     title of the model and its settings
    excluded     reason -> recordings that were left out
    plan, changes   what was planned, and phrases on what changed after results were seen
    n_tried      questions that were answered so far, 0 if unknown
    packages     name -> version
    """

    n_recordings: int
    n_subjects: int | None
    subject: str
    minutes: tuple[float, float]
    rates_hz: tuple[float, float]
    rate_source: str
    preparation: tuple[str, ...]
    smoothed_s: float
    shortest_s: float
    n_states: int
    origin: str
    model: str
    settings: Mapping[str, int]
    why_k: str
    excluded: Mapping[str, tuple[str, ...]]
    tests: tuple[Compared | FlowTested, ...]
    plan: Mapping[str, str]
    changes: tuple[str, ...]
    n_tried: int
    packages: Mapping[str, str]


def make_record(study: Study, found: Sequence[pd.DataFrame | Flow] = (), correction: str = "p_holm") -> Record:
    """Return the record of a study and its tests.

    found        comparisons and flow tests; their filters decide which recordings are counted
    correction   column of p values that the paper reports
    """
    sheet, every, model = study.sheet, study.sheet.names, study.model
    used = {
        row
        for one in found
        for row in (one.rows if isinstance(one, Flow) else map(every.index, one.attrs["recordings"]))
    }
    rows = sorted(used) or list(range(len(every)))
    minutes, rates = study.counts.labelled_minutes[rows], study.counts.rates[rows]
    excluded: dict[str, tuple[str, ...]] = {}
    for name, reason in sheet.set_aside.items():
        excluded[reason] = (*excluded.get(reason, ()), name)
    lasts = {name: seconds * (round(seconds * rates.max()) > 1) for name, seconds in study.smoothing.items()}
    asked = [one.attrs["question"] for one in found if not isinstance(one, Flow)]
    return Record(
        n_recordings=len(rows), n_subjects=len({sheet.animals[every[row]] for row in rows}) if sheet.animal else None,
        subject=sheet.subject, minutes=(float(minutes.min()), float(minutes.max())),
        rates_hz=(float(rates.min()), float(rates.max())), rate_source=study.rate_source,
        preparation=tuple(study.preparation), smoothed_s=lasts.get("smooth_s", 0.0), shortest_s=lasts.get("shortest_s", 0.0),
        n_states=len(study.states), origin=study.origin,
        model=TITLES.get(model.family.replace("_", "-"), type(model).__name__) if model else "",
        settings={word: getattr(model.config, name) for name, word in SETTINGS.items() if model and hasattr(model.config, name)},
        why_k=study.why_k.strip().rstrip("."), excluded=excluded,
        tests=tuple(_record_test(one, correction, sheet.subject) for one in found), plan=study.plan,
        changes=tuple(change for q in asked for change in list_changes(study.plan, describe_plan(study, q))),
        n_tried=len(study.tried),
        packages={name: version(name) for name in ("numpy", "scipy", "statsmodels")} | {"GDM Studio": __version__},
    )  # fmt: skip


def _record_test(one: pd.DataFrame | Flow, correction: str, word: str) -> Compared | FlowTested:
    if isinstance(one, Flow):
        return FlowTested(one.sizes, one.unit, len(one.null), one.distance, one.z, one.p)
    about, question = one.attrs, one.attrs["question"]
    of_states = question.measure in STATE_MEASURES | CHANGE_MEASURES
    return Compared(
        question, about["sizes"], about["unit"], about["averaged"], str(one["test"].iloc[0]).removeprefix("permutation, "),
        str(one["effect_is"].iloc[0]), about["n_permutations"], int(np.isfinite(one["p"]).sum()),
        len(about["unused"]) if of_states else 0, correction, about["n_contrasts"], about["control"], describe_minimum(word),
    )  # fmt: skip


# ---- the plan -----------------------------------------------------------------------------------------------------------
def describe_plan(study: Study, question: Question) -> dict[str, str]:
    """Return what a plan fixes, as text by heading."""
    rates, none = study.counts.rates, "none"
    sessions = [f"sessions within {question.within}"] if question.within else []
    return {
        "primary measure": MEASURES.get(question.measure, question.measure),
        "compared by": listed([*question.between, *sessions]), "unit": question.unit, "blocks": question.blocks or none,
        "covariates": listed([*question.covariates, *question.planned]) or none,
        "recordings where": listed(describe_filters(question.where)) or "all",
        "left out": listed(sorted(study.sheet.set_aside)) or none, "number of states": str(len(study.states)),
        "time scale": format_rates(float(rates.min()), float(rates.max())), "correction": CORRECTIONS[question.correction],
    }  # fmt: skip


def list_changes(plan: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what differs from a plan, as phrases."""
    changed = [(name, value) for name, value in now.items() if plan.get(name, value) != value]
    return [f"{name} ({plan[name]} in the plan, now {value})" for name, value in changed]
