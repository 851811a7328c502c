"""The methods paragraph: what was done, in the words, versions and numbers that a paper prints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gdm_core import __version__
from gdm_core.models.base import StateModel
from gdm_core.study.design import Question
from gdm_core.study.flow import Flow
from gdm_core.study.sheet import Sheet, listed
from gdm_core.study.states import OF_CHANGES, OF_RECORDINGS, OF_STATES, Counts

_MEASURES = OF_STATES | OF_CHANGES | OF_RECORDINGS


def methods_of(sheet: Sheet, counts: Counts, model: StateModel | None, found: Sequence[pd.DataFrame | Flow]) -> str:
    """One paragraph."""
    minutes, rates = counts.labelled_minutes, counts.rates
    rate = " to ".join(dict.fromkeys(f"{one:.4g}" for one in (rates.min(), rates.max())))
    taking_part = sheet.frame["recording"].isin(sheet.names)
    whose = f" of {sheet.frame.loc[taking_part, sheet.animal].nunique()} animals" if sheet.animal else ""
    how = "as found by another tool"
    if model is not None:
        how = (
            f"found by one model for all animals, blind to conditions ({model!r}; equally many samples of each animal)"
        )
    said = [
        f"{len(counts.recordings)} recordings{whose} ({minutes.min():.1f} to {minutes.max():.1f} minutes with a state, "
        f"{rate} Hz) were described by {len(counts.states)} states, {how}."
    ]
    if sheet.set_aside:
        said.append(
            f"{len(sheet.set_aside)} recordings were left out ({listed(sorted(set(sheet.set_aside.values())))})."
        )
    said += [_flow(one) if isinstance(one, Flow) else _comparison(one) for one in found]
    said.append(f"Computed with GDM Studio {__version__}, {_versions()}.")
    return " ".join(said)


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "statsmodels"))


def _flow(found: Flow) -> str:
    groups = ", ".join(f"{name} n = {n}" for name, n in found.sizes.items())
    return (
        f"Behavioural flow ({groups}) was compared by the Manhattan distance between mean matrices of changes from one state to "
        f"another (von Ziegler et al. 2024), against {len(found.null):,} studies with animals re-labelled: distance "
        f"{found.distance:.1f}, z = {found.z:.2f}, p = {found.p:.2g}."
    )


def _comparison(table: pd.DataFrame) -> str:
    question: Question = table.attrs["question"]
    if question.unit == "frame":
        return "Frames were taken for units, which they are not: see the notes of this comparison."
    said = [
        f"The {_MEASURES.get(question.measure, question.measure)} was compared between {' and '.join(question.between)}"
    ]
    said += [f"where {name} is {listed(np.ravel(value).tolist())}" for name, value in question.where.items()]
    for words, value in (("with sessions paired within", question.within), ("within blocks of", question.blocks)):
        said += [f"{words} {value}"] if value else []
    said += [f"adjusted for {listed(list(question.covariates))}"] if question.covariates else []
    test = str(table["test"].iloc[0]).removeprefix("permutation, ")
    return (
        f"{' '.join(said)}, with one value per {question.unit} (n = {table['n'].max()}; its recordings under the same "
        f"condition averaged). Differences were tested by {table.attrs['n_permutations']:,} permutations of {test}; p was "
        f"corrected over {int(np.isfinite(table['p']).sum())} tests by Holm's method, and intervals hold 95 %. The "
        f"classical test beside it is {test}."
    )
