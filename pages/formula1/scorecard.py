"""Score card of the page: accuracy of states and of forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.controls import supervised_controls
from gdm_core.analysis.state_scores import majority_map
from pages import lab
from pages.formula1.data import race_of, read
from pages.lab import scores as rows
from pages.lab.card import Rows
from pages.lab.live.queries import query_key
from pages.ui import shell
from pages.ui.card import Score
from pages.ui.model_controls import Choice

TESTED = "other driver"
PAPER = "10-NN accuracy (paper's metric)"
NAMES = "Segment accuracy"
SAYS = "Activity accuracy"
_CAUTION = (
    "10-NN accuracy can be high even for an untrained model, because soft states encode position. "
    "Segment accuracy is stricter."
)
_PAPER_HELP = (
    "Predicts the track segment from the soft states by ten nearest neighbours in the reference driver's laps. "
    "Measured on the held-out driver."
)
_SAYS_HELP = (
    "Each state is assigned the reference driver's most frequent activity in it (braking, cornering, full or part throttle), "
    "and scored on the other driver. Supervised classifiers on the same channels show the attainable accuracy."
)
_VOTE_HELP = (
    "Each state is assigned the segment where the reference driver uses it most, and scored on the other driver. "
    "A state used in several segments counts for one of them."
)


def show_card(view: lab.View) -> None:
    """Show the score card and how to read it."""
    if any(row.name == PAPER for row in lab.show_scorecard(view, rows_of(view))):
        with view.frame.card, shell.made_for(view.made_for):
            shell.quiet(f"{_CAUTION} {named_segments(view)}".strip())


def named_segments(view: lab.View) -> str:
    """Describe how many segments the states identify."""
    race = race_of(view)
    here, segment = read(view, race.train, "train"), race.train.segment
    if isinstance(here, lab.Undecoded) or segment is None:
        return ""
    states = here.states
    found: int = view.state.memoize("named-segments", lambda: _distinct(states, segment), of=(states, segment))
    return f"These {states.shape[1]} states identify {found} of {len(race.circuit.segments)} segments."


def _distinct(states: npt.NDArray[np.float32], segment: npt.NDArray[np.int64]) -> int:
    """Return the number of segments that are most frequent in some state."""
    strongest = states.argmax(axis=1)
    known = segment >= 0
    mapping = majority_map(strongest[known], segment[known], states.shape[1])
    return len(set(mapping[np.unique(strongest[known])].tolist()))


def rows_of(view: lab.View) -> Rows:
    """Return a function from scores to rows: activities for telemetry states, segments for position states."""
    if race_of(view).pick.looked.drives:
        told = _supervised_accuracy(view)
        return lambda scores: driving_rows(scores, told)
    return score_rows


def _supervised_accuracy(view: lab.View) -> Mapping[str, float]:
    """Return accuracies of supervised classifiers; {} until they are known."""
    if view.shipped_scores is not None:
        found: Mapping[str, float] = view.shipped_scores.get("told", {})
        return found
    if not view.settled:
        return {}
    asked = (view.dataset.train, view.dataset.test)
    key = query_key("told", supervised_controls, asked)
    answer = view.fit.query("told", key, supervised_controls, *asked, kept=view.dataset.keep)
    return answer.value if answer.fresh else {}


def driving_rows(scores: Mapping[str, Any], told: Mapping[str, float]) -> list[Score]:
    """Return rows for states of car telemetry."""
    says = rows.accuracy_row(
        scores,
        "majority_map_accuracy",
        SAYS,
        _SAYS_HELP,
        small=("untrained model", "majority class"),
        others=[*told.items()],
    )
    return rows.drop_missing([says, *_predictions(scores)])


def _predictions(scores: Mapping[str, Any]) -> list[Score | None]:
    step = "One time step is 0.25 s by default."
    return [rows.forecast_row(scores, TESTED, step), rows.coverage_row(scores, TESTED)]


def score_rows(scores: Mapping[str, Any]) -> list[Score]:
    """Return rows for states of positions."""

    def accuracy(field: str, name: str, help: str) -> Score | None:
        # Neighbours of raw positions know the segment by definition: not a baseline.
        small = ("untrained model", "majority class")
        return rows.accuracy_row(
            scores, field, name, help, is_excluded=lambda base: base.startswith("10-NN"), small=small
        )

    return rows.drop_missing(
        [
            accuracy("majority_map_accuracy", NAMES, _VOTE_HELP),
            accuracy("paper_accuracy", PAPER, _PAPER_HELP),
            *_predictions(scores),
        ]
    )


def kind_of(choice: Choice) -> str:
    """Return the definition of states in a word; "" if the family has no choice."""
    return {"linear": "places", "window": "moves"}.get(str(choice.config.get("posterior", "")), "")
