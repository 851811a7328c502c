"""The methods paragraph of a study, in sentences that can be printed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gdm_core import __version__
from gdm_core.models.registry import TITLES
from gdm_core.study.design import Question
from gdm_core.study.fitting import LABELS
from gdm_core.study.flow import Flow
from gdm_core.study.rare import describe_minimum
from gdm_core.study.sheet import RECORDING, format_list, format_value
from gdm_core.study.states import CHANGE_MEASURES, RECORDING_MEASURES, SHARES, STATE_MEASURES
from gdm_core.study.text import format_minutes, format_p, format_rates, format_sizes
from gdm_core.text import listed, plural, pluralise

if TYPE_CHECKING:
    from gdm_core.analysis.suggestions import Recommendation
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
    animals = f" of {plural(len({study.sheet.animals[name] for name in names}), word)}" if study.sheet.animal else ""
    length = format_minutes(minutes.min(), minutes.max())
    each = "" if len(names) == 1 else " each"
    sentences = [
        f"We analysed {plural(len(names), RECORDING)}{animals} ({length}{each} with a state, "
        f"{format_rates(rates.min(), rates.max())}).",
        *study.preparation,
        _describe_states(study),
    ]
    if n := len(study.sheet.set_aside):
        reasons = format_list(sorted(set(study.sheet.set_aside.values())))
        sentences.append(f"{plural(n, RECORDING)} {'was' if n == 1 else 'were'} left out ({reasons}).")
    sentences += [
        _describe_flow(one) if isinstance(one, Flow) else _describe_comparison(one, correction, word) for one in found
    ]
    packages = listed([f"{name} {version(name)}" for name in ("numpy", "scipy", "statsmodels")])
    return " ".join([*sentences, f"Analyses used GDM Studio {__version__} with {packages}."])


def _describe_states(study: Study) -> str:
    """Return how states were found, with the reason for their number."""
    n, word = len(study.states), study.sheet.subject
    if labels := next((note for note in study.notes if note.startswith(LABELS)), ""):
        return f"Behaviour was described by {plural(n, 'label')}{labels.removeprefix(LABELS)}"
    if study.model is None:
        return f"Behaviour was described by {plural(n, 'state')}, which another tool found."
    config = study.model.config
    settings = [f"K = {config.n_states}"]
    settings += [f"D = {config.n_latent}"] if hasattr(config, "n_latent") else []
    settings += [f"random seed {config.seed}"] if hasattr(config, "seed") else []
    title = TITLES.get(study.model.family.replace("_", "-"), type(study.model).__name__)
    why = study.why_k.strip().rstrip(".")
    if not why.startswith("K "):
        why = f"K was set by the analyst: {why}" if why else "K was set by the analyst"
    return (
        f"Behaviour was described by {plural(n, 'state')}, which one {title} ({', '.join(settings)}) found for all "
        f"{pluralise(word)}, fitted to equally many samples of each {word} and blind to conditions. {why}."
    )


def describe_search(verdict: Recommendation, n_states: int) -> str:
    """Return how a search for settings led to K, as `Study.why_k`.

    verdict    on the model and K
    n_states   K of the study
    """
    reason = verdict.sentences[0].partition(": ")[2].rstrip(".")
    certainty = verdict.sentences[1].partition(";")[0].rstrip(".")
    found = f"{reason} ({certainty[:1].lower()}{certainty[1:]})"
    if verdict.n_states == n_states:
        return f"K was chosen by fits to one half of the data, scored on the other: {found}."
    return f"K was set by the analyst; fits to one half of the data, scored on the other, favoured K = {verdict.n_states}: {found}."


def _describe_flow(found: Flow) -> str:
    return (
        f"Behavioural flow ({format_sizes(found.sizes)}) was compared by the Manhattan distance between mean matrices of "
        f"transitions between states, in {found.unit} (von Ziegler et al., 2024), against {len(found.null):,} random "
        f"permutations of the labels (distance {found.distance:.4g}, z = {found.z:.2f}, {format_p(found.p)})."
    )


def _describe_comparison(table: pd.DataFrame, correction: str, word: str) -> str:
    question: Question = table.attrs["question"]
    parts = [
        f"The {_MEASURES.get(question.measure, question.measure)} was compared by {listed(list(question.between))}"
    ]
    for name, value in question.where.items():
        parts.append(f"where {name} is {listed([format_value(one) for one in np.ravel(value).tolist()])}")
    parts += [f"in sessions paired within {question.within}"] if question.within else []
    parts += [f"within blocks of {question.blocks}"] if question.blocks else []
    parts += [f"adjusted for {listed(list(question.covariates))}"] if question.covariates else []
    parts += [f"adjusted for {listed(list(question.planned))}, as planned in advance"] if question.planned else []
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
        points = " in percentage points" if question.measure in SHARES else ""
        sentences.append(f"Effects are differences{points} ({effect}) with 95% confidence intervals, and Cohen's d.")
    else:
        sentences.append(f"Effects are given as {effect}, with 95% confidence intervals.")
    if n := len(table.attrs["unused"]) if question.measure in STATE_MEASURES | CHANGE_MEASURES else 0:
        sentences.append(
            f"{plural(n, 'rare state')} ({describe_minimum(word)}) {'was' if n == 1 else 'were'} not tested."
        )
    return " ".join(sentences)
