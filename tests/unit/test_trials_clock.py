"""When a trial began: what readers find in a file, and what is left of it after cutting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets import mice, tables
from datasets.splits import split_recording, split_trials
from tests.support import table_files

N = 60
Y = np.random.default_rng(0).normal(size=N)


def read(time: object, **more: object) -> tables.Table:
    """A table with this time column, through a file."""
    return table_files.read({"time": time, "speed": Y} | more)


def test_trials_of_a_table_begin_where_its_clock_does():
    (trial,) = read(12.5 + np.arange(N) / 25).to_trials()
    assert trial.start_seconds == pytest.approx(12.5)
    assert trial.seconds[-1] == pytest.approx(12.5 + (N - 1) / 25)
    first, rest = split_trials(tables.Trials((trial,)))
    np.testing.assert_allclose(np.concatenate([first[0].seconds, rest[0].seconds]), trial.seconds)


def test_milliseconds_count_as_seconds_and_a_gap_before_the_second_trial_stays():
    time = np.concatenate([np.arange(30), 100 + np.arange(30)]) * 40 + 2000
    table = read(time, trial=["a"] * 30 + ["b"] * 30)
    trials = table.to_trials({"time": "time", "speed": "channel", "trial": "group"}, unit="ms")
    assert [trial.start_seconds for trial in trials] == pytest.approx([2.0, 6.0])


@pytest.mark.parametrize(("first", "seconds"), [(0, 0.0), (1, 0.0), (301, 301 / 25)])
def test_a_counter_of_frames_is_read_at_the_rate_that_was_given(first, seconds):
    table = read(first + np.arange(N))
    assert table.to_trials(rate_hz=25)[0].start_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "time", [pd.date_range("2024-05-01 10:00", periods=N, freq="40ms").astype(str), 1.7e9 + np.arange(N) / 25]
)
def test_dates_count_from_the_first_row_of_each_trial(time):
    table = read(time, trial=["a"] * 30 + ["b"] * 30)
    trials = table.to_trials({"time": "time", "speed": "channel", "trial": "group"})
    assert [trial.start_seconds for trial in trials] == [0, 0]


def test_resampled_trials_begin_with_their_earliest_row():
    time = 5 + np.arange(N) / 25
    time[[0, 1]] = time[[1, 0]]
    (trial,) = read(time).to_trials(resample_to_fixed_step=True)
    assert trial.start_seconds == pytest.approx(5.0)


def test_the_held_out_part_of_a_tracking_file_goes_on_where_the_fitted_part_ends():
    table = mice.simulate_recordings(1, 100, seed=0)[0]
    _, rest = split_recording(table)
    assert rest[0].start_seconds == pytest.approx(60 / 30)
    assert rest.to_trials("egocentric")[0].seconds[0] == pytest.approx(2.0)
