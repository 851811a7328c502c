"""Column roles, clocks, gaps and outliers of tables: guessed, editable, and told before any fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from datasets import tables
from datasets.readers.quality import fill_gaps, outlier_mask
from datasets.readers.timing import clock_from_steps
from datasets.tables import Role
from gdm_core.errors import ConfigError, DataError
from tests.support.table_files import PLAIN, check, read, written


def test_roles_are_guessed():
    n = 200
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "frame": np.arange(n),
            "timestamp": pd.date_range("2024-01-01", periods=n, freq="40ms"),
            "session": np.repeat(["a", "b"], n // 2),
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "speed": rng.normal(size=n),
            "likelihood": rng.uniform(size=n),
            "state": rng.integers(0, 3, n),
            "constant": 1.0,
            "comment": [f"note {i}" for i in range(n)],
            "empty": np.nan,
        }
    )
    table = tables.read(written(frame, "parquet"), "a.parquet")
    assert table.roles == {
        "frame": Role.IGNORE,
        "timestamp": Role.TIME,
        "session": Role.GROUP,
        "x": Role.POSITION,
        "y": Role.POSITION,
        "speed": Role.CHANNEL,
        "likelihood": Role.SCORE,
        "state": Role.LABEL,
        "constant": Role.IGNORE,
        "comment": Role.IGNORE,
        "empty": Role.IGNORE,
    }
    assert table.report().low_scores == int((frame["likelihood"] < 0.3).sum())
    trials = table.to_trials()
    assert [trial.name for trial in trials] == ["session a", "session b"]
    assert trials[0].rate_hz == pytest.approx(25)
    assert trials[0].channels == ("x", "y", "speed")
    np.testing.assert_allclose(trials[1].position, frame[["x", "y"]][100:], rtol=1e-6)
    assert trials.label_names == ("0", "1", "2")
    assert table.to_trials(position_is_channel=False)[0].channels == ("speed",)


def test_edited_roles_win_and_wrong_ones_are_named():
    table = read(PLAIN)
    trial = table.to_trials({"speed": "channel", "behaviour": "group"}, rate_hz=5)[1]
    assert (trial.name, trial.rate_hz, trial.labels, trial.channels) == ("behaviour rest", 5.0, None, ("speed",))
    for roles, says in (
        ({"spede": "channel"}, "no column 'spede'"),
        ({"speed": "chanel"}, "roles are time"),
        ({"speed": "label", "height": "label"}, "all have the role label"),
        ({"speed": "position"}, "choose two"),
    ):
        with pytest.raises(ConfigError, match=says):
            table.to_trials(roles)
    with pytest.raises(DataError, match="no column is a channel"):
        table.to_trials({"behaviour": "label"})
    with pytest.raises(ConfigError, match="rate_hz is 0"):
        table.to_trials(rate_hz=0)


@pytest.mark.parametrize(
    ("name", "values", "rate"),
    [
        ("time", np.arange(100) / 30, 30),
        ("time", (np.arange(100) / 30).round(3), 30),
        ("time_ms", np.arange(100) * 40, 25),
        ("t", np.arange(100) * 20, 50),
        ("timestamp", 1.7e9 + np.arange(100) / 10, 10),
        ("timestamp", 1_700_000_000_000 + np.arange(100) * 100, 10),
        ("time (min)", np.arange(100) / 60, 1),
        ("date", pd.date_range("2024-03-01", periods=100, freq="1s").astype(str), 1),
        ("time", [f"0:00:{i * 0.5:04.1f}" for i in range(100)], 2),
    ],
)
def test_the_rate_comes_from_seconds_milliseconds_epochs_and_dates(name: str, values: Any, rate: float):
    frame = pd.DataFrame({name: values, "a": np.sin(np.arange(100.0))})
    table = read(frame)
    clock = table.clock()
    assert clock.rate_hz == pytest.approx(rate, rel=1e-4)
    assert clock.irregular == clock.backwards == 0
    assert table.to_trials()[0].rate_hz == pytest.approx(rate, rel=1e-4)


def test_a_column_that_counts_frames_gives_no_rate():
    table = read({"time": np.arange(50), "a": np.arange(50.0) % 7})
    clock = table.clock()
    assert clock.rate_hz is None
    assert table.clock(unit="s").rate_hz == 1.0  # type: ignore[union-attr]
    assert any("counts frames" in note for note in table.report().notes)
    with pytest.raises(ConfigError, match="Resampling needs a time column"):
        table.to_trials(resample_to_fixed_step=True)


def test_irregular_time_is_reported_and_resampled_on_request():
    rng = np.random.default_rng(1)
    seconds = np.cumsum(rng.uniform(0.05, 0.15, 400))
    seconds[200:] += 5.0  # a gap
    frame = pd.DataFrame({"time": seconds, "a": 3 * seconds, "label": np.where(seconds < 10, "early", "late")})
    table = read(frame)
    clock = table.clock()
    assert clock.irregular > 0.5
    assert clock.longest == pytest.approx(5, abs=0.2)
    assert any("irregular" in sentence for sentence in table.report().sentences())
    trial = table.to_trials(resample_to_fixed_step=True, rate_hz=20)[0]
    at = seconds[0] + np.arange(trial.n_samples) / 20
    seen = np.isfinite(trial.y[:, 0])
    np.testing.assert_allclose(trial.y[seen, 0], 3 * at[seen], rtol=1e-5)
    in_gap = (at > seconds[199]) & (at < seconds[200])
    assert not seen[in_gap].any()
    assert seen[~in_gap].all()
    assert trial.labels is not None
    assert np.mean((at < 10) == (trial.labels == 0)) > 0.99


def test_time_that_goes_back_is_reported_and_sorted_when_resampled():
    seconds = np.arange(50) / 10
    seconds[[20, 21]] = seconds[[21, 20]]
    table = read({"time": seconds, "a": seconds**2})
    assert any("goes back at 1 rows" in sentence for sentence in table.report().sentences())
    y = table.to_trials(resample_to_fixed_step=True)[0].y[:, 0]
    np.testing.assert_allclose(y, (np.arange(50) / 10) ** 2, atol=1e-5)


def test_short_gaps_are_filled_and_long_ones_stay_missing():
    y = np.arange(30.0)[:, None].repeat(2, axis=1)
    y[[0, 5, 6, 12, 13, 14, 15, 29], 0] = np.nan
    filled, count = fill_gaps(y, longest=2)
    assert count == 2
    assert np.flatnonzero(np.isnan(filled[:, 0])).tolist() == [0, 12, 13, 14, 15, 29]
    np.testing.assert_allclose(filled[[5, 6], 0], [5, 6])
    same, none = fill_gaps(y, longest=0)
    np.testing.assert_array_equal(same, y.astype(np.float32))
    assert none == 0
    everything, _ = fill_gaps(np.full((5, 1), np.nan), longest=9)
    assert np.isnan(everything).all()


def test_outliers_are_found_and_ordinary_movement_is_not():
    rng = np.random.default_rng(2)
    t = np.arange(3000)
    y = np.column_stack(
        [np.cumsum(rng.normal(size=3000)), np.sin(t / 3), np.where(t % 500 < 250, 0.0, 8.0), np.ones(3000)]
    )
    assert outlier_mask(y).sum() == 0
    y[700, 0] += 300
    y[1500, 1] = -40
    y[10, 1] = np.nan
    assert np.argwhere(outlier_mask(y)).tolist() == [[700, 0], [1500, 1]]
    frame = pd.DataFrame(y, columns=["walk", "wave", "steps", "still"])
    table = read(frame)
    assert table.report().outliers == 2
    assert np.isnan(table.to_trials(drop_outliers=True)[0].y).sum() == 3


def test_groups_that_are_interleaved_or_unnamed():
    frame = pd.DataFrame({"trial": [1, 2, 1, 2, None, 1], "a": [1.0, 10, 2, 20, 5, 3]})
    trials = read(frame).to_trials({"trial": "group", "a": "channel"})
    assert [trial.name for trial in trials] == ["trial 1", "trial 2"]
    assert [trial.y[:, 0].tolist() for trial in trials] == [[1, 2, 3], [10, 20]]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", "row", "trial", "ID"])
@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_numbers_the_rows_is_no_channel(name: str, start: int):
    frame = PLAIN.copy()
    frame.insert(0, name, np.arange(start, start + len(PLAIN)))
    table = read(frame)
    assert table.roles[table.columns[0]] is Role.IGNORE
    assert table.to_trials()[0].channels == ("speed", "height")


def test_an_unnamed_first_column_of_values_stays_a_channel():
    frame = PLAIN.copy()
    frame.insert(0, "", np.arange(len(PLAIN)) * 2 % 7)
    table = read(frame)
    assert table.to_trials()[0].channels == ("column 1", "speed", "height")


@pytest.mark.parametrize("index", ["time", None])
def test_the_index_that_pandas_keeps_in_parquet_is_a_column(index: str | None):
    frame = PLAIN.set_index("time")
    if index is None:
        frame = PLAIN.iloc[::-1].iloc[::-1].set_index(np.arange(60))  # a nameless index of numbers
    check(tables.read(written(frame, "parquet"), "a.parquet"))


def test_a_slow_clock_is_said_as_the_time_between_samples():
    minutes = np.arange(6) * 60.0
    assert clock_from_steps(minutes, "s", np.diff(minutes), "time").sentence() == "a sample every 60 s (time in s)"
    assert (
        clock_from_steps(minutes / 600, "s", np.diff(minutes / 600), "time")
        .sentence()
        .startswith("10 samples a second")
    )
