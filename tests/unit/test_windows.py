"""Windows: summaries of recordings, and states back on samples."""

import numpy as np
import pytest

from datasets import mice, windows
from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trial, Trials


def recording(n_samples: int = 500, n_channels: int = 2, **fields: object) -> Trial:
    y = np.random.default_rng(0).normal(size=(n_samples, n_channels)).cumsum(axis=0)
    return Trial(y, rate_hz=50.0, **fields)  # type: ignore[arg-type]


def test_summaries_equal_those_of_each_window():
    trial = recording()
    (found,) = windows.summarise(trial, scale=41, step=7)
    y, at = np.asarray(trial.y, np.float64), np.arange(500)
    steps = np.diff(y, axis=0, prepend=np.nan)
    for row in (0, 3, 30, found.n_samples - 1):
        distance = (at + 3) // 7 - row  # in blocks of 7 samples around each centre
        weight = np.where(np.abs(distance) <= 5, np.cos(np.pi / 2 * 7 * distance / 41) ** 2, 0)
        mean = np.average(y, axis=0, weights=weight)
        spread = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))
        step = np.sqrt(np.average(steps[1:] ** 2, axis=0, weights=weight[1:]))
        np.testing.assert_allclose(found.y[row], np.column_stack([mean, spread, step]).ravel(), rtol=1e-5)
    assert found.channels[:3] == ("y1 mean", "y1 SD", "y1 RMS step")
    assert found.rate_hz == 50.0 / 7


def test_gaps_change_summaries_little():
    rng = np.random.default_rng(1)
    loudness = 1 + 0.9 * np.sin(np.arange(4000) / 200)
    y = (loudness * rng.normal(size=4000)).cumsum()[:, None]
    holes = np.where(rng.random((4000, 1)) < 0.3, np.nan, y)
    (whole,), (partial,) = (windows.summarise(values, scale=101) for values in (y, holes))
    for ours, theirs in zip(whole.y.T, partial.y.T, strict=True):
        assert np.corrcoef(ours, theirs)[0, 1] > 0.95
        assert theirs.mean() == pytest.approx(ours.mean(), rel=0.05)


def test_window_inside_a_gap_is_missing():
    y = np.array(recording(1000).y)
    y[300:600, 0] = np.nan
    (found,) = windows.summarise(y, scale=51, step=10)
    gone = np.isnan(found.y[:, :3]).all(axis=1)
    assert gone[34:56].all()
    assert not gone[:31].any()
    assert not gone[59:].any()
    assert np.isfinite(found.y[:, 3:]).all()


def test_channel_far_from_zero_keeps_its_spread():
    y = 1e6 + 0.01 * np.random.default_rng(0).normal(size=(2000, 1))
    (found,) = windows.summarise(Trial(y), scale=201)
    np.testing.assert_allclose(found.y[:, 1], 0.01, rtol=0.3)


def test_what_is_known_of_samples_is_kept_at_centres():
    labels, position = np.arange(500) // 100, np.arange(1000).reshape(500, 2)
    trial = recording(labels=labels, position=position, start_seconds=3.0)
    (found,) = windows.summarise(Trials((trial,), label_names=tuple("abcde")), scale=30)
    assert found.start_seconds == 3.0
    np.testing.assert_array_equal(found.labels, labels[::3])
    np.testing.assert_array_equal(found.position, position[::3])


def test_states_return_to_their_samples():
    trials = Trials((recording(500), recording(333)))
    summaries = windows.summarise(trials, scale=40, step=8)
    hard = [np.arange(trial.n_samples) for trial in summaries]
    soft = [np.eye(len(one))[one] for one in hard]
    for trial, numbers, shares in zip(
        trials, windows.to_samples(hard, summaries, trials), windows.to_samples(soft, summaries, trials), strict=True
    ):
        nearest = np.minimum((np.arange(trial.n_samples) + 4) // 8, len(shares[0]) - 1)
        np.testing.assert_array_equal(numbers, nearest)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert (np.abs(shares.argmax(axis=1) - nearest) <= 1).all()
        np.testing.assert_array_equal(shares[::8].argmax(axis=1), numbers[::8])


@pytest.mark.parametrize(("seconds", "length"), [(1.0, 51), (0.5, 25), (0.001, 3)])
def test_seconds_become_an_odd_number_of_samples(seconds: float, length: int):
    assert windows.window_length(seconds, 50.0) == length


def test_unusable_scales_raise():
    trial = recording(100)
    with pytest.raises(ConfigError, match="at least 3"):
        windows.summarise(trial, 2)
    with pytest.raises(ConfigError, match="step"):
        windows.summarise(trial, 20, step=0)
    with pytest.raises(ConfigError, match="positive"):
        windows.window_length(0, 50.0)
    with pytest.raises(DataError, match="smaller time scale"):
        windows.summarise(trial, 101)


def test_summaries_of_a_simulation_have_a_recipe():
    trials = mice.simulate(2, 300, 1)
    first, again, other = (windows.summarise(trials, scale) for scale in (31, 31, 41))
    assert first[0].recipe
    assert first.fingerprint == again.fingerprint != other.fingerprint != trials.fingerprint
