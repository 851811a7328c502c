"""The sentence about the effect of the last change of settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pages.lab.sentences import LastChange, Settled, score_change, states_change
from pages.ui.card import Score

NAMES = ("S1", "S2", "S3")
BEFORE = np.repeat([0, 1, 2], 100)


def settled(key: str, labels: np.ndarray, value: float, spread: float | None = 0.003, **settings: str) -> Settled:
    names = tuple(f"S{k + 1}" for k in range(labels.max() + 1))
    row = Score("Matches the true states", value, 0.5, "k-means on steps", spread)
    return Settled(key, ("track",), {"model": "GDM", **settings}, labels, names, row)


def test_split_names_the_state():
    after = BEFORE.copy()
    after[250:] = 3
    assert states_change(BEFORE, after, NAMES, 4) == "splits S3"
    after[40:80] = 4
    assert states_change(BEFORE, after, NAMES, 5) == "splits S1 and S3"


def test_join_names_the_states():
    assert states_change(BEFORE, np.where(BEFORE == 2, 0, BEFORE), NAMES, 2) == "joins S1 with S3"
    four = np.repeat([0, 1, 2, 3], 100)
    assert states_change(four, four // 2, (*NAMES, "S4"), 2) == "joins S1 with S2 and S3 with S4"
    assert states_change(four, np.maximum(four, 1) - 1, (*NAMES, "S4"), 3) == "joins S1 with S2"
    after = np.where(np.arange(400) >= 350, 4, np.maximum(four, 1))
    assert states_change(four, after, (*NAMES, "S4"), 5) == "splits S4 and joins S1 with S2"


def test_reordered_states_are_no_change():
    assert states_change(BEFORE, (BEFORE + 1) % 3, NAMES, 3) == "leaves the states as they were"


def test_changed_samples_are_counted():
    after = BEFORE.copy()
    after[:30] = 1
    assert states_change(BEFORE, after, NAMES, 3) == "leaves the states as they were but for 10 % of moments"
    after[100:150] = 2
    assert states_change(BEFORE, after, NAMES, 3) == "gives 27 % of moments another state"


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        (0.913, 0.901, "fell from 0.913 to 0.901"),
        (0.901, 0.913, "rose from 0.901 to 0.913"),
        (0.9012, 0.9009, "stays at 0.901"),
        (0.905, 0.901, "is 0.901 after 0.905, no more apart than seeds are"),
    ],
)
def test_score_change_needs_more_than_its_spread(was, now, words):
    before, after = (Score("Matches", value, spread=0.003) for value in (was, now))
    assert score_change(before, after) == f"“Matches” {words}"
    assert score_change(replace(before, spread=None), after) == f"“Matches” {words}"


def test_score_without_spread_gives_no_sentence():
    score = Score("Matches", 0.9)
    assert score_change(score, replace(score, value=0.5)) == ""
    assert score_change(None, score) == ""
    assert score_change(replace(score, spread=0.01), replace(score, name="Another", spread=0.01)) == ""
    assert score_change(replace(score, spread=0.01), replace(score, value=float("nan"), spread=0.01)) == ""


def test_sentence_names_setting_and_effect():
    after = BEFORE.copy()
    after[250:] = 3
    before, now = settled("a", BEFORE, 0.913, K="K 3"), settled("b", after, 0.880, K="K 4")
    assert LastChange(before).then(now).sentence == (
        "K 4 splits S3; “Matches the true states” fell from 0.913 to 0.880."
    )


def test_no_sentence_without_comparison():
    before = settled("a", BEFORE, 0.913)
    assert LastChange(before).sentence == ""
    assert LastChange(before).then(settled("b", BEFORE, 0.9)).sentence == ""
    other = replace(settled("b", BEFORE, 0.9, K="K 4"), content=("another track",))
    assert LastChange(before).then(other).sentence == ""
