"""Estimates of the remaining time of long work."""

from __future__ import annotations

import pytest

from gdm_core.engine.estimate import Estimate, format_duration


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
