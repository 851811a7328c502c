"""Stretches of laps in metres are the right samples, over the line too, and what cannot be marked is refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from gdm_core import Trial, Trials
from gdm_core.errors import DataError
from pages.formula1.data import Laps
from pages.formula1.teach import LapAxis

LENGTH, STEP = 1_000.0, 10.0


def driven(*parts: tuple[float, float], late: int = 0) -> LapAxis:
    """Laps at a sample every 10 m, from 5 m on, of each (first, last metre since the start of lap 1).

    late   samples by which the number of the lap comes after the line
    """
    ways = [np.arange(first + 5, last, STEP) for first, last in parts]
    laps = [(np.maximum(np.floor((way - late * STEP) / LENGTH), 0) + 1).astype(np.int64) for way in ways]
    names = [f"AAA {i}" for i in range(len(ways))]
    trials = Trials(tuple(Trial(way[:, None], 4.0, name=name) for way, name in zip(ways, names, strict=True)))
    all_of = np.concatenate(ways)
    found = Laps("AAA", "", trials, np.zeros((len(all_of), 2), np.float32), (all_of % LENGTH).astype(np.float32),
                 np.concatenate(laps), {}, None, np.arange(len(all_of)) / 4)  # fmt: skip
    return LapAxis(found, LENGTH)


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize(
    ("lap", "begin", "end", "first", "stop"),
    [
        (2, 200, 450, 120, 145),
        (1, 0, 20, 0, 2),
        (2, 0, 1_000, 100, 200),
        (2, 950, 1_050, 195, 205),  # over the line
        (2, 204.9, 225.0, 120, 122),  # up to the sample at 225 m, without it
        (3, 980, 1_000, 298, 300),  # up to the last metre
    ],
)
def test_metres_of_a_lap_are_its_samples(late, lap, begin, end, first, stop):
    axis = driven((0, 3_000), late=late)
    assert axis.frames(lap, begin, end) == (0, first, stop)
    again = axis.metres(0, first, stop)
    assert axis.frames(*again) == (0, first, stop), "and back"


def test_a_lap_over_two_stretches_is_found_in_the_one_that_holds_it():
    axis = driven((0, 1_400), (1_700, 3_000))
    assert axis.frames(2, 100, 300) == (0, 110, 130)
    assert axis.frames(2, 800, 900) == (1, 10, 20)
    assert axis.trials_of(2) == [0, 1]
    values = np.ones((axis.along[0].size, 1), np.float32)
    shown = axis.on_grid(2, 0, values, 100)
    assert np.isfinite(shown[:40]).all()
    assert np.isnan(shown[50:]).all(), "nothing was sent there, and nothing is drawn"


@pytest.mark.parametrize(
    ("lap", "begin", "end", "said"),
    [
        (2, 300, 200, "lap 2 has to end after it begins. If it goes on over the start line"),
        (2, 300, None, "From and To are needed"),
        (2, float("nan"), 200, "From and To are needed"),
        (2, 1_000, 1_100, "lies outside of it: a lap has 1,000 m"),
        (2, 500, 2_001, "lies outside of it"),
        (2, 100, 104, "is not all among the laps that are fitted: nothing of it is"),
        (2, 100, 106, "holds less than two samples, .* one every 10 m"),
        (2, 300, 800, "has a hole in what AAA has sent, between 395 and 705 m"),
        (2, 420, 480, "is not all among the laps that are fitted: nothing of it is"),
        (2, 500, 720, r"is not all among the laps that are fitted: of it positions are known from 705 to 715 m"),
        (3, 900, 1_100, "positions are known from 905 to 995 m"),  # there is no lap 4
    ],
)
def test_what_cannot_be_marked_is_refused_in_a_sentence(lap, begin, end, said):
    with pytest.raises(DataError, match=said):
        driven((0, 1_400), (1_700, 3_000)).frames(lap, begin, end)


def test_samples_that_go_back_stay_where_they_were_and_standing_still_is_no_step():
    axis = driven((0, 2_000))
    axis.laps.distance[120:124] = [205, 203, 204, 205]  # the car stands, and its place is sent with noise
    assert (np.diff(axis.along[0]) >= 0).all()
    assert axis.step == 10
    assert axis.frames(2, 150, 204) == (0, 115, 120)


def test_stretches_in_words():
    axis = driven((0, 3_000))
    assert axis.in_words(0, 120, 145) == "lap 2, 205-455 m"
    assert axis.in_words(0, 195, 205) == "lap 2, 955 m to lap 3, 55 m"
    assert axis.in_words(0, 290, 300) == "lap 3, 905-1,000 m", "there is no lap 4"
