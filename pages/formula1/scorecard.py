"""The rows of the honest card: how well states say where on the lap a car is, and how well the next steps are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pages import lab
from pages.formula1.accuracy import RivalScores
from pages.lab import scores as rows
from pages.lab.card import Rows
from pages.ui import shell
from pages.ui.card import Score

TESTED = "other driver"
PAPER = "The paper's state accuracy"
_CAUTION = (
    "The paper's measure reads soft shares, which can pass on where the car is: even an untrained model scores high. "
    "One segment a state is the stricter test. A state is no corner: one that stands in several names only one of them."
)
_PAPER_HELP = (
    "The paper's measure: from the states of a moment alone, its ten nearest neighbours in the fitted driver's laps say "
    "between which corners the car is. Measured on the other driver. It reads soft shares, so blends carry information."
)
_VOTE_HELP = (
    "Each state stands for the segment where the fitted driver has it most; share of the other driver's samples."
)


def show_card(view: lab.View) -> None:
    """The card, and what has to be known to read it."""
    if any(row.name == PAPER for row in lab.honest_card(view, rows_of(view))):
        with view.frame.card:
            shell.quiet(_CAUTION)


def rows_of(view: lab.View) -> Rows:
    """The rows of what was measured, beside recurrent SLDS at the same K where the sweep has fitted it."""
    known = view.fit.records.last(RivalScores)
    rslds = known.by_states.get(view.shown.n_states, []) if known is not None else []
    return lambda scores: score_rows(scores, rslds)


def score_rows(scores: Mapping[str, Any], rslds: Sequence[float] = ()) -> list[Score]:
    """Each score beside what it has to beat."""

    def accuracy(field: str, name: str, help: str, others: rows.Others = ()) -> Score | None:
        # Neighbours of the raw place know where the car is by definition: only what also has to find states is a line.
        small = ("untrained model", "majority class")
        return rows.accuracy_row(
            scores, field, name, help, no_line=lambda base: base.startswith("10-NN"), beside=small, others=others
        )

    beside = [(f"rSLDS, {len(rslds)} seeds", float(np.mean(rslds)))] if rslds else []
    return rows.known(
        [
            accuracy("majority_map_accuracy", "One segment a state", _VOTE_HELP),
            accuracy("paper_accuracy", PAPER, _PAPER_HELP, beside),
            rows.forecast_row(scores, TESTED, "A step is a quarter of a second unless chosen otherwise."),
            rows.coverage_row(scores, TESTED),
        ]
    )
