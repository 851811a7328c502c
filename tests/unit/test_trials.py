"""Trial and Trials: validation, slices and fingerprints."""

import pickle

import numpy as np
import pandas as pd
import pytest

from gdm_core import ARHMM
from gdm_core.errors import DataError
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trial, Trials, as_trials, describe_missing, is_single

Y = np.arange(12.0).reshape(6, 2)


def test_trials_are_immutable():
    y = Y.copy()
    trial = Trial(y, labels=np.arange(6))
    y[0, 0] = 99
    assert trial.y[0, 0] == 0
    assert trial.y.dtype == np.float32
    for array in (trial.y, trial.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"y": np.zeros(5)}, r"shape \(5,\); expected \[time, channels\]"),
        ({"y": np.zeros((0, 2))}, "at least one of each"),
        ({"y": np.array([[1.0, np.inf]])}, "infinite .* at sample 0, channel 1"),
        ({"y": [["a"]]}, "not numeric"),
        ({"y": Y, "rate_hz": 0}, "rate_hz is 0"),
        ({"y": Y, "rate_hz": float("nan")}, "rate_hz is nan"),
        ({"y": Y, "start_seconds": float("nan")}, "start_seconds is nan"),
        ({"y": Y, "channels": ("a",)}, "2 channels but 1 channel names"),
        ({"y": Y, "labels": [1, 2]}, r"labels has shape \(2,\); expected \[6\]"),
        ({"y": Y, "position": np.zeros((6, 3))}, r"position has shape \(6, 3\); expected \[6, 2\]"),
        ({"y": Y, "states": np.zeros((5, 3))}, r"states .* expected \[6, K\]"),
    ],
)
def test_invalid_trials_raise_data_error(keywords, message):
    with pytest.raises(DataError, match=message):
        Trial(**keywords)


def test_fingerprint_follows_content():
    base = Trial(Y, labels=np.zeros(6))
    assert base.fingerprint == Trial(Y.astype(np.int64), labels=[0] * 6, name="other").fingerprint
    others = [Trial(Y), Trial(Y + 1, labels=[0] * 6), Trial(Y, rate_hz=2, labels=[0] * 6), base.slice(0, 5)]
    assert len({t.fingerprint for t in [base, *others]}) == 5
    assert Trials((base, others[0])).fingerprint != Trials((others[0], base)).fingerprint


def test_slice_keeps_every_field():
    part = Trial(Y, rate_hz=2, labels=np.arange(6), position=Y, segments=np.ones(6), name="a").slice(2, 5)
    assert part.labels.tolist() == [2, 3, 4]
    assert (part.n_samples, part.name, part.rate_hz) == (3, "a", 2)
    np.testing.assert_array_equal(part.position, Y[2:5])
    np.testing.assert_array_equal(part.seconds, [1, 1.5, 2])


def test_slice_keeps_the_time():
    whole = Trial(Y, rate_hz=2, start_seconds=100)
    first, rest = whole.slice(0, 2), whole.slice(2, 6)
    np.testing.assert_array_equal(np.concatenate([first.seconds, rest.seconds]), whole.seconds)
    np.testing.assert_array_equal(whole.seconds, [100, 100.5, 101, 101.5, 102, 102.5])
    assert rest.slice(-1, 6).start_seconds == 102.5
    assert pickle.loads(pickle.dumps(rest)).start_seconds == 101


def test_start_time_does_not_change_the_fingerprint():
    late = Trial(Y, start_seconds=60)
    assert late.fingerprint == Trial(Y).fingerprint
    assert Trials((late,)).fingerprint == Trials((Trial(Y),)).fingerprint


def test_as_trials_accepts_arrays_lists_and_trials():
    trial = Trial(Y)
    assert as_trials(trial).trials == (trial,)
    assert len(as_trials([Y, trial])) == 2
    assert as_trials(Y.tolist()).n_samples == 6  # one array as nested lists
    assert (is_single(Y), is_single(trial), is_single(Y.tolist())) == (True, True, True)
    assert (is_single([Y]), is_single(as_trials(Y))) == (False, False)
    for bad, message in (
        ([], "empty"),
        (np.zeros(3), "1 dimensions"),
        ([Y, Y[:, :1]], "2 channels but 'trial 1' has 1"),
        (
            [Trial(Y, name="one"), Trial(Y, name="two", channels=("a", "b"))],
            "'two' has the channel 'a' where 'one' has 'y1'",
        ),
        (
            [Trial(Y, name="one", rate_hz=50), Trial(Y, name="two", rate_hz=25)],
            "'two' has 25 samples per second, 'one' has 50",
        ),
    ):
        with pytest.raises(DataError, match=message):
            as_trials(bad)
    with pytest.raises(DataError, match="is empty"):
        Trials(())


def test_index_of_times_sets_the_rate_and_must_be_even():
    frame = pd.DataFrame(np.arange(20.0).reshape(10, 2), pd.date_range("2024", periods=10, freq="20ms"), ["a", "b"])
    assert as_trials(frame)[0].rate_hz == pytest.approx(50)
    assert as_trials(frame.tz_localize("Asia/Tokyo"))[0].rate_hz == pytest.approx(50)
    assert as_trials(frame.set_index(frame.index - frame.index[0]))[0].rate_hz == pytest.approx(50)
    assert as_trials(frame.set_index(np.arange(10) / 25))[0].rate_hz == pytest.approx(25)
    assert as_trials(frame.reset_index(drop=True))[0].rate_hz == 1
    for bad, message in (
        (frame.drop(frame.index[3:6]), "Time jumps by 4.0 steps at row 3"),
        (frame.iloc[[0, 1, 1, 2, 3]], "Rows 1 and 2 have the same time"),
        (frame[::-1], "the index decreases at row 1"),
    ):
        with pytest.raises(DataError, match=message):
            as_trials(bad)


def test_missing_share_is_described_in_a_sentence():
    y = np.zeros((50, 10))
    assert describe_missing([Trial(y)]) == ""
    y[3, 4] = np.nan
    assert describe_missing([Trial(y)]).startswith("0.2% of values are missing; the model estimates them")
    assert describe_missing([Trial(y), Trial(np.zeros((1000, 10)))]).startswith("less than 0.1% of values")


# ---- masks and precision ----------------------------------------------------------------------------------------------
def test_masked_values_are_missing():
    mask = np.zeros(Y.shape, dtype=bool)
    mask[2, 1] = True
    expected = np.where(mask, np.nan, Y)
    for values in (np.where(mask, 999.0, Y), np.where(mask, 999, Y).astype(int)):
        masked = np.ma.masked_array(values, mask)
        for trial in (Trial(masked), as_trials(masked)[0], as_trials([masked, Y])[0], as_trials(list(masked))[0]):
            np.testing.assert_array_equal(trial.y, expected.astype(np.float32))
    labels = np.ma.masked_array(np.arange(6), [0, 1, 0, 0, 0, 1])
    assert Trial(Y, labels=labels).labels.tolist() == [0, -1, 2, 3, 4, -1]
    center = Scaler.from_trials(as_trials(np.ma.masked_array(np.where(mask, 999.0, Y), mask))).center
    np.testing.assert_allclose(center, np.nanmean(expected, axis=0), rtol=1e-6)


@pytest.fixture
def walk() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 2)).cumsum(axis=0)


def test_precision_follows_the_steps(walk):
    assert Trial(walk).y.dtype == np.float32
    assert Trial(walk + 1e4).y.dtype == np.float32
    assert Trial(walk * 1e-30).y.dtype == np.float32
    far = Trial(walk + 1e6)
    assert far.y.dtype == np.float64
    np.testing.assert_array_equal(far.slice(3, 90).y, (walk + 1e6)[3:90])
    assert far.fingerprint != Trial((walk + 1e6).astype(np.float32)).fingerprint
    assert Trial(np.column_stack([walk, np.full(400, 1e9)])).y.dtype == np.float32, "a constant has no detail"
    assert Trial(np.round(walk * 100).astype(np.int64) + 10**9).y.dtype == np.float64
    gaps = walk + 1e6
    gaps[50:300] = np.nan
    assert Trial(gaps).y.dtype == np.float64


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1e-30), (1e6, 1e30)])
def test_fit_does_not_depend_on_offset_and_scale(walk, offset, scale):
    plain, moved = (ARHMM(2, n_latent=1, n_iter=5, n_restarts=1).fit(y) for y in (walk, (walk + offset) * scale))
    np.testing.assert_allclose(moved.predict_proba((walk + offset) * scale), plain.predict_proba(walk), atol=1e-3)
    assert moved.score((walk + offset) * scale) == pytest.approx(plain.score(walk) - 2 * np.log(scale), abs=1e-3)
    np.testing.assert_allclose(moved.smooth((walk + offset) * scale) / scale - offset, plain.smooth(walk), atol=1e-2)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda y: np.column_stack([y[:, 0], np.full(400, 3.0)]), "Channel y2 is constant over all trials"),
        (lambda y: (y + 1e8).astype(np.float32), "Channel y1 varies by .* around 1e.08, which float32 values cannot"),
        (lambda y: y * 1e-3 + 1e14, "which float64 values cannot resolve. Give float64 values, subtract an offset"),
        (lambda y: y * 1e-37, "which float32 values cannot resolve.*multiply the channel"),
    ],
)
def test_channels_that_cannot_be_resolved_are_refused(walk, y, message):
    with pytest.raises(DataError, match=message):
        Scaler.from_trials(as_trials(y(walk)))
