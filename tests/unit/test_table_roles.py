"""Column roles, clocks, gaps, outliers, and common notations of numbers and dates."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from datasets import tables
from datasets.cohort_files import read_recordings
from datasets.readers.quality import fill_gaps, outlier_mask
from datasets.splits import split_trials
from datasets.tables import Role
from gdm_core.analysis.tables import csv as tables_csv
from gdm_core.errors import ConfigError, DataError
from tests.support import table_files
from tests.support.table_files import NUMBERS, PLAIN, read, written


def test_roles_are_guessed():
    n = 200
    rng = np.random.default_rng(0)
    columns = {
        "frame": (np.arange(n), Role.IGNORE),
        "timestamp": (pd.date_range("2024-01-01", periods=n, freq="40ms"), Role.TIME),
        "session": (np.repeat(["a", "b"], n // 2), Role.GROUP),
        "x": (rng.normal(size=n), Role.POSITION),
        "y": (rng.normal(size=n), Role.POSITION),
        "speed": (rng.normal(size=n), Role.CHANNEL),
        "likelihood": (rng.uniform(size=n), Role.SCORE),
        "state": (rng.integers(0, 3, n), Role.LABEL),
        "constant": (1.0, Role.IGNORE),
        "comment": ([f"note {i}" for i in range(n)], Role.IGNORE),
        "empty": (np.nan, Role.IGNORE),
    }
    frame = pd.DataFrame({name: values for name, (values, _) in columns.items()})
    table = tables.read(written(frame, "parquet"), "a.parquet")
    assert table.roles == {name: role for name, (_, role) in columns.items()}
    assert table.report().low_scores == int((frame["likelihood"] < 0.3).sum())
    trials = table.to_trials()
    assert [trial.name for trial in trials] == ["session a", "session b"]
    assert trials[0].rate_hz == pytest.approx(25)
    assert trials[0].channels == ("x", "y", "speed")
    np.testing.assert_allclose(trials[1].position, frame[["x", "y"]][100:], rtol=1e-6)
    assert trials.label_names == ("0", "1", "2")
    assert table.to_trials(position_is_channel=False)[0].channels == ("speed",)


@pytest.mark.parametrize(
    ("copy", "role"),
    [
        (lambda y: y, Role.IGNORE),
        (lambda y: (3.6 * y).round(3), Role.IGNORE),
        (lambda y: 1.8 * y + 32, Role.IGNORE),
        (lambda y: y + np.where(np.arange(len(y)) == 8, 0.5, 0), Role.CHANNEL),
        (lambda y: np.abs(y), Role.CHANNEL),
    ],
    ids=["copy", "km/h", "degrees F", "one other value", "absolute"],
)
def test_copy_in_another_unit_is_ignored(copy, role):
    random = np.random.default_rng(0)
    speed = random.normal(size=5000)
    speed[::7] = np.nan
    frame = pd.DataFrame({"speed": speed, "pitch": random.normal(size=5000), "again": copy(speed)})
    assert list(tables.read(written(frame, "parquet"), "a.parquet").roles.values()) == [*2 * [Role.CHANNEL], role]


def test_sparse_comments_are_not_labels():
    n = 3_000
    comments = ["", *["door opened"] * 2, *[""] * (n - 3)]
    words = np.array(["walk", "rest", "groom"])[np.arange(n) // 50 % 3]
    columns = {"remark": comments, "doing": words, "speed": np.sin(np.arange(n) / 9)}
    table = read(columns)
    assert table.roles == {"remark": Role.IGNORE, "doing": Role.LABEL, "speed": Role.CHANNEL}
    named = read(columns | {"label": words[::-1]})
    assert [name for name, role in named.roles.items() if role is Role.LABEL] == ["label"]


def test_faulty_times_are_reported_by_row():
    days = pd.date_range("2024-02-20", periods=40, freq="D").strftime("%d/%m/%Y").tolist()
    days[10], days[20] = "31/02/2024", days[20].replace("2024", "2204")
    table = read({"date": days, "level": np.sin(np.arange(40))})
    notes = table.report().notes
    assert "the time of row 11 (31/02/2024) cannot be read" in notes
    assert f"the time of row 21 ({days[20]}) is far from those of the rows before and after" in notes
    assert sum("the time of" in note for note in notes) == 2


def test_edited_roles_replace_guesses():
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


def test_frame_counter_gives_no_rate():
    table = read({"time": np.arange(50), "a": np.arange(50.0) % 7})
    clock = table.understand().clock
    assert clock.rate_hz is None
    assert replace(table, answers={"unit": "s"}).understand().clock.rate_hz == 1.0
    assert any("counts frames" in note for note in table.report().notes)
    with pytest.raises(ConfigError, match="Resampling needs a time column"):
        table.to_trials(resample_to_fixed_step=True)


def test_irregular_time_is_resampled_on_request():
    rng = np.random.default_rng(1)
    seconds = np.cumsum(rng.uniform(0.05, 0.15, 400))
    seconds[200:] += 5.0  # a gap
    frame = pd.DataFrame({"time": seconds, "a": 3 * seconds, "label": np.where(seconds < 10, "early", "late")})
    table = read(frame)
    clock = table.understand().clock
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


def test_only_short_gaps_are_filled():
    y = np.arange(30.0)[:, None].repeat(2, axis=1)
    y[[0, 5, 6, 12, 13, 14, 15, 29], 0] = np.nan
    filled = fill_gaps(y, longest=2)
    assert np.flatnonzero(np.isnan(filled[:, 0])).tolist() == [0, 12, 13, 14, 15, 29]
    np.testing.assert_allclose(filled[[5, 6], 0], [5, 6])
    np.testing.assert_array_equal(fill_gaps(y, longest=0), y)
    assert np.isnan(fill_gaps(np.full((5, 1), np.nan), longest=9)).all()


def test_outliers_are_found():
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


SAMPLES = 60
SPEED = np.random.default_rng(0).normal(size=SAMPLES)


def timed(time: object, **more: object) -> tables.Table:
    """Return a table with this time column."""
    return table_files.read({"time": time, "speed": SPEED} | more)


def test_trials_start_at_their_time():
    (trial,) = timed(12.5 + np.arange(SAMPLES) / 25).to_trials()
    assert trial.start_seconds == pytest.approx(12.5)
    assert trial.seconds[-1] == pytest.approx(12.5 + (SAMPLES - 1) / 25)
    first, rest = split_trials(tables.Trials((trial,)))
    np.testing.assert_allclose(np.concatenate([first[0].seconds, rest[0].seconds]), trial.seconds)


@pytest.mark.parametrize(("first", "seconds"), [(0, 0.0), (1, 0.0), (301, 301 / 25)])
def test_frame_counter_uses_the_given_rate(first, seconds):
    table = timed(first + np.arange(SAMPLES))
    assert table.to_trials(rate_hz=25)[0].start_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "time",
    [pd.date_range("2024-05-01 10:00", periods=SAMPLES, freq="40ms").astype(str), 1.7e9 + np.arange(SAMPLES) / 25],
)
def test_dates_count_from_each_trials_start(time):
    table = timed(time, trial=["a"] * 30 + ["b"] * 30)
    trials = table.to_trials({"time": "time", "speed": "channel", "trial": "group"})
    assert [trial.start_seconds for trial in trials] == [0, 0]


def csv(**options: object) -> str:
    return NUMBERS.to_csv(index=False, **options)  # type: ignore[call-overload,no-any-return]


def test_sentences_are_not_split():
    table = tables.read(b"note\n" + b"mouse sits still\nmouse runs away\n" * 20, "a.csv")
    assert table.columns == ("note",)
    with pytest.raises(DataError, match="single column: separate fields by commas"):
        table.to_trials()


def test_bad_line_is_named_by_number():
    lines = ("# one\n# two\n" + csv()).split("\n")
    lines[20] += ",9,9"
    with pytest.raises(DataError, match="line 21 has 5 fields where 3 are expected"):
        tables.read("\n".join(lines).encode(), "a.csv")


# ---- numbers and times -------------------------------------------------------------------------
N = 300
A, B = np.sin(np.arange(N) / 9), np.cos(np.arange(N) / 7)


def report_text(table: tables.Table) -> str:
    return "\n".join(table.report().sentences())


def test_values_beyond_float32_are_missing():
    one = np.where(np.arange(N) == 100, 1e39, A)
    words = ["1e300", "x"] + ["1.5", "2.5"] * (N // 2 - 1)
    table = read({"time": np.arange(N) / 50, "a": one, "b": B, "c": A * 1e300, "d": words})
    assert table.roles["c"] is Role.IGNORE
    assert np.flatnonzero(np.isnan(table.to_trials()[0].y[:, 0])).tolist() == [100]
    text = report_text(table)
    assert "1 values of 'a' are too large" in text
    assert f"{int((np.abs(A * 1e300) > 4e38).sum())} values of 'c' are too large" in text
    assert "1 values of 'd' are too large" in text
    assert "1 cells of 'd' are not numbers" in text


def test_column_of_words_is_ignored():
    table = read({"a": [f"bad {i}" if i % 2 else v for i, v in enumerate(A)], "b": B})
    assert table.roles["a"] is Role.IGNORE
    assert f"{N // 2} cells of 'a' are not numbers, too many for a channel" in report_text(table)
    chosen = read({"a": [f"bad {i}" if i < 3 else v for i, v in enumerate(A)], "b": B})
    assert chosen.report({"b": "channel"}).notes == ()


def test_words_and_session_days_are_no_time():
    table = read(
        {
            "a": A,
            "note": [f"seen at 5 s, no. {i}" for i in range(N)],
            "name": [f"M-{i}-{i}" for i in range(N)],
            "session": ["2024-03-01"] * (N // 2) + ["2024-03-02"] * (N // 2),
            "dose": [f"{i} m" for i in range(N)],  # pandas reads these as minutes
        }
    )
    assert Role.TIME not in table.roles.values()
    assert table.roles["session"] is Role.GROUP


@pytest.mark.parametrize("jump", [1.0, 0.07])
def test_clock_jump_is_reported(jump: float):
    seconds = np.arange(N) / 50 + jump * (np.arange(N) > 200)
    assert f"the longest step is {jump + 0.02:.3g} s, the usual one 0.02 s" in report_text(
        read({"time": seconds, "a": A})
    )
    small = np.arange(N) / 50 + 0.03 * (np.arange(N) > 200)
    assert "longest" not in report_text(read({"time": small, "a": A}))


@pytest.mark.parametrize("options", [{}, {"resample_to_fixed_step": True}])
def test_small_walk_far_from_zero_keeps_its_detail(tmp_path, options):
    rng = np.random.default_rng(0)
    northing = 4_649_776.2 + rng.normal(0, 0.05, 300).cumsum()
    frame = pd.DataFrame({"time": np.arange(300) / 10, "northing": northing.round(4), "speed": rng.normal(size=300)})
    frame.loc[20:22, "northing"] = np.nan
    frame.to_csv(tmp_path / "walk.csv", index=False)
    trial = tables.read(tmp_path / "walk.csv").to_trials(**options)[0]
    seen = np.arange(300) > 25
    assert trial.y.dtype == np.float64
    np.testing.assert_allclose(trial.y[seen, trial.channels.index("northing")], northing[seen], atol=1e-3)
    exported = tables_csv(pd.DataFrame({"northing": trial.y[seen, trial.channels.index("northing")]}))
    np.testing.assert_allclose(pd.read_csv(io.BytesIO(exported))["northing"], northing[seen], atol=1e-3)
    found = read_recordings([tmp_path / "walk.csv"])["walk.csv"]
    assert found.y.dtype == np.float64
