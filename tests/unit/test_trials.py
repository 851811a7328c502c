"""Trial and Trials: validation, slices and fingerprints."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from gdm_core.errors import DataError
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
    ):
        with pytest.raises(DataError, match=message):
            as_trials(bad)
    with pytest.raises(DataError, match="is empty"):
        Trials(())


def test_missing_share_is_described_in_a_sentence():
    y = np.zeros((50, 10))
    assert describe_missing([Trial(y)]) == ""
    y[3, 4] = np.nan
    assert describe_missing([Trial(y)]).startswith("0.2% of values are missing; the model estimates them")
    assert describe_missing([Trial(y), Trial(np.zeros((1000, 10)))]).startswith("less than 0.1% of values")
