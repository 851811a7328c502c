"""The methods paragraph of a study, in sentences that can be printed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gdm_core import __version__
from gdm_core.models.base import StateModel
from gdm_core.models.registry import TITLES
from gdm_core.study.design import Question
from gdm_core.study.flow import Flow
from gdm_core.study.rare import MINIMUM
from gdm_core.study.sheet import RECORDING, format_list, format_value
from gdm_core.study.states import CHANGE_MEASURES, RECORDING_MEASURES, STATE_MEASURES
from gdm_core.study.text import count, format_minutes, format_p, format_rates, format_sizes, join_words, plural

if TYPE_CHECKING:
    from gdm_core.study.study import Study

CORRECTIONS = {"p_holm": "Holm", "p_bh": "Benjamini and Hochberg"}
_MEASURES = STATE_MEASURES | CHANGE_MEASURES | RECORDING_MEASURES


def write_methods(study: Study, found: Sequence[pd.DataFrame | Flow], correction: str) -> str:
    """Return the methods paragraph.

    found        comparisons and flow tests; their filters decide which recordings are counted
    correction   column of p values that the paper reports
    """
    word = study.sheet.subject
    names = study.sheet.names
    used = {
        row
        for one in found
        for row in (one.rows if isinstance(one, Flow) else map(names.index, one.attrs["recordings"]))
    }
    rows = sorted(used) or list(range(len(names)))
    names = tuple(names[row] for row in rows)
    minutes, rates = study.counts.labelled_minutes[rows], study.counts.rates[rows]
    animals = f" of {count(len({study.sheet.animals[name] for name in names}), word)}" if study.sheet.animal else ""
    length = format_minutes(minutes.min(), minutes.max())
    each = "" if len(names) == 1 else " each"
    sentences = [
        f"We analysed {count(len(names), RECORDING)}{animals} ({length}{each} with a state, "
        f"{format_rates(rates.min(), rates.max())}).",
        *study.preparation,
        f"Behaviour was described by {count(len(study.states), 'state')}, {_describe_source(study.model, word)}.",
    ]
    if n := len(study.sheet.set_aside):
        reasons = format_list(sorted(set(study.sheet.set_aside.values())))
        sentences.append(f"{count(n, RECORDING)} {'was' if n == 1 else 'were'} left out ({reasons}).")
    sentences += [
        _describe_flow(one) if isinstance(one, Flow) else _describe_comparison(one, correction) for one in found
    ]
    packages = join_words([f"{name} {version(name)}" for name in ("numpy", "scipy", "statsmodels")])
    return " ".join([*sentences, f"Analyses used GDM Studio {__version__} with {packages}."])


def _describe_source(model: StateModel | None, word: str) -> str:
    if model is None:
        return "which another tool found"
    config = model.config
    settings = [f"K = {config.n_states}, set by the analyst"]
    settings += [f"D = {config.n_latent}"] if hasattr(config, "n_latent") else []
    settings += [f"random seed {config.seed}"] if hasattr(config, "seed") else []
    title = TITLES.get(model.family.replace("_", "-"), type(model).__name__)
    return (
        f"which one {title} ({', '.join(settings)}) found for all {plural(word)}, fitted to equally many samples of each {word} "
        "and blind to conditions"
    )


def _describe_flow(found: Flow) -> str:
    return (
        f"Behavioural flow ({format_sizes(found.sizes)}) was compared by the Manhattan distance between mean matrices of "
        f"transitions between states, in {found.unit} (von Ziegler et al., 2024), against {len(found.null):,} random "
        f"permutations of the labels (distance {found.distance:.4g}, z = {found.z:.2f}, {format_p(found.p)})."
    )


def _describe_comparison(table: pd.DataFrame, correction: str) -> str:
    question: Question = table.attrs["question"]
    parts = [
        f"The {_MEASURES.get(question.measure, question.measure)} was compared between {join_words(list(question.between))}"
    ]
    for name, value in question.where.items():
        parts.append(f"where {name} is {join_words([format_value(one) for one in np.ravel(value).tolist()])}")
    parts += [f"in sessions paired within {question.within}"] if question.within else []
    parts += [f"within blocks of {question.blocks}"] if question.blocks else []
    parts += [f"adjusted for {join_words(list(question.covariates))}"] if question.covariates else []
    test = str(table["test"].iloc[0]).removeprefix("permutation, ")
    tests = int(np.isfinite(table["p"]).sum())
    sentences = [
        f"{' '.join(parts)} ({format_sizes(table.attrs['sizes'])}). The unit of analysis was the {table.attrs['unit']}"
        + ("; recordings of one unit under the same condition were averaged." if table.attrs["averaged"] else "."),
        f"The test statistic ({test}) was compared with {table.attrs['n_permutations']:,} random permutations of the labels"
        + (f" within {question.within or question.blocks}." if question.within or question.blocks else "."),
    ]
    if tests > 1:
        sentences.append(f"P values were corrected over {tests} tests by the method of {CORRECTIONS[correction]}.")
    effect = str(table["effect_is"].iloc[0])
    if "minus" in effect:
        sentences.append(f"Effects are differences ({effect}) with 95% confidence intervals, and Cohen's d.")
    else:
        sentences.append(f"Effects are given as {effect}, with 95% confidence intervals.")
    if n := len(table.attrs["unused"]) if question.measure in STATE_MEASURES | CHANGE_MEASURES else 0:
        sentences.append(f"{count(n, 'unused state')} ({MINIMUM}) {'was' if n == 1 else 'were'} not tested.")
    return " ".join(sentences)
