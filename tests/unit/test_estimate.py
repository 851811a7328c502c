"""How long work will take: by what is done of it, at each look anew, and never what the clock has already passed."""

from __future__ import annotations

import pytest

from gdm_core.engine.estimate import Estimate, Slowness, beforehand, in_words


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slowness(clock: Clock) -> Slowness:
    return Slowness(clock)


def test_before_anything_is_done_it_says_how_long_that_has_lasted(clock: Clock, slowness: Slowness) -> None:
    estimate = Estimate(12.0, clock, slowness)
    assert estimate.words(0, 64) == "0 of 64 fits"
    clock.now += 16
    assert estimate.words(0, 64) == "0 of 64 fits after 16 s: how long it takes is known once more of them are done"


def test_it_follows_the_rate_of_late_however_quick_the_first_ones_were(clock: Clock, slowness: Slowness) -> None:
    estimate = Estimate(12.0, clock, slowness)
    estimate.words(0, 64)
    for done in range(1, 9):
        clock.now += 1
        said = estimate.words(done, 64)
    assert said == "8 of 64 fits, about 55 s left"
    for done in range(9, 25):  # the machine gets busy
        clock.now += 10
        said = estimate.words(done, 64)
    assert said == "24 of 64 fits, about 7 minutes left"


def test_it_grows_while_nothing_comes(clock: Clock, slowness: Slowness) -> None:
    estimate = Estimate(None, clock, slowness)
    estimate.left_s(0, 10)
    clock.now += 10
    assert estimate.left_s(5, 10) == pytest.approx(10)
    clock.now += 30
    assert estimate.left_s(5, 10) == pytest.approx(40)


def test_what_was_known_before_is_no_sign_of_speed(clock: Clock, slowness: Slowness) -> None:
    estimate = Estimate(None, clock, slowness)
    assert estimate.words(60, 64) == "60 of 64 fits"
    clock.now += 20
    assert estimate.words(61, 64) == "61 of 64 fits, about 60 s left"
    clock.now += 60
    assert estimate.words(64, 64) == "64 of 64 fits, about 1 s left"


def test_the_next_estimate_goes_by_what_was_done_just_now(clock: Clock, slowness: Slowness) -> None:
    assert beforehand(80.0, slowness=slowness) == "about 80 s"
    estimate = Estimate(80.0, clock, slowness)
    estimate.left_s(0, 64)
    for done in (1, 2, 3):
        clock.now += 7.5  # six times as long as on a quiet machine
        estimate.left_s(done, 64)
    assert beforehand(80.0, slowness=slowness) == "about 8 minutes, going by what was fitted here just now"
    clock.now += Slowness.FORGOTTEN_S
    assert beforehand(80.0, slowness=slowness) == "about 80 s"


def test_others_who_wait_are_counted(slowness: Slowness) -> None:
    assert beforehand(30.0, 1, slowness) == "about 30 s, and 1 other job runs or waits here"
    assert beforehand(30.0, 9, slowness) == "about 30 s, and 9 other jobs run or wait here"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s"), (7.4, "about 7 s"), (43, "about 45 s"), (89, "about 90 s"), (100, "about 2 minutes"),
        (5000, "about 83 minutes"), (7300, "about 2 hours"),
    ],
)  # fmt: skip
def test_durations_are_said_as_well_as_they_are_known(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
