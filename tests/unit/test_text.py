"""Text of messages, remaining time, and conversion to JSON."""

import json

import numpy as np
import pytest

from gdm_core.analysis.state_scores import StateScores
from gdm_core.engine.estimate import Estimate, format_duration
from gdm_core.text import for_json, listed, shorten


def test_parts_are_listed():
    assert [listed(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_long_texts_are_shortened():
    assert shorten("x" * 160) == "x" * 160
    assert shorten("x" * 161) == "x" * 157 + "..."


def test_nested_records_become_json():
    found = for_json({"lines": {"chance": StateScores(nmi=float("nan"), ari=0.5)}, "r2": (np.float64(1.0), np.inf)})
    assert found["lines"]["chance"]["nmi"] is None
    assert found["lines"]["chance"]["ari"] == 0.5
    assert json.loads(json.dumps(found))["r2"] == [1.0, None]


# ---- remaining time ------------------------------------------------------------------------------------------------
class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_estimate_follows_recent_rate(clock: Clock) -> None:
    estimate = Estimate(clock)
    estimate.describe(0, 64)
    for done in range(1, 9):
        clock.now += 1
        said = estimate.describe(done, 64)
    assert said == "8 of 64 fits, about 55 s left"
    for done in range(9, 25):
        clock.now += 10
        said = estimate.describe(done, 64)
    assert said == "24 of 64 fits, about 7 minutes left"


def test_estimate_grows_while_nothing_finishes(clock: Clock) -> None:
    estimate = Estimate(clock)
    estimate.left_s(0, 10)
    clock.now += 10
    assert estimate.left_s(5, 10) == pytest.approx(10)
    clock.now += 30
    assert estimate.left_s(5, 10) == pytest.approx(40)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s"), (7.4, "about 7 s"), (43, "about 45 s"), (89, "about 90 s"), (100, "about 2 minutes"),
        (5000, "about 83 minutes"), (7300, "about 2 hours"),
    ],
)  # fmt: skip
def test_durations_are_rounded(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words
