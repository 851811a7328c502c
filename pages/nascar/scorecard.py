"""The rows of the honest card: how close the states come to the true ones, and how well the model knows what comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pages.lab import scores as rows
from pages.ui.card import Score

TESTED = "new trial"
_MATCHED = (
    "Share of the new trial's steps whose strongest state is the true one. States are matched on the fitted trial; with "
    "another number of states than four, each stands for its most frequent true state."
)
_PAPER = "Ten nearest neighbours from soft states to true states, learned on the fitted trial (the paper's measure)."


def score_rows(scores: Mapping[str, Any]) -> list[Score]:
    """Each score beside what it has to beat."""

    def accuracy(field: str, name: str, help: str) -> Score | None:
        small = ("untrained model", "k-means on steps")
        return rows.accuracy_row(
            scores, field, name, help, no_line=lambda base: base == "untrained model", beside=small
        )

    return rows.known(
        [
            accuracy("matched_accuracy", "Matches the true states", _MATCHED),
            accuracy("paper_accuracy", "The paper's accuracy", _PAPER),
            rows.forecast_row(scores, TESTED),
            rows.coverage_row(scores, TESTED),
            rows.bound_row(scores, TESTED),
        ]
    )
