"""Simulated mice match CalMS21 statistics; simulated tracks and regimes follow their equations.

Statistics of mice are bulk: test_recipes notices any change of the simulator.
"""

import numpy as np
import pytest

from datasets import mice, nascar, regimes
from gdm_core.errors import ConfigError, DataError

ATTACK, INVESTIGATION, MOUNT, OTHER = range(4)


@pytest.fixture(scope="module")
def bouts() -> list[tuple[list[int], list[int]]]:
    """Return states and lengths of complete bouts of 150 long trials."""
    made = []
    for seed in range(150):
        label = mice.behaviours(20_000, np.random.default_rng(seed)).astype(int)
        starts = np.r_[0, np.flatnonzero(np.diff(label)) + 1]
        made.append((label[starts].tolist()[:-1], np.diff(starts).tolist()))
    return made


@pytest.mark.bulk
def test_bouts_match_calms21(bouts: list[tuple[list[int], list[int]]]):
    state = np.concatenate([b[0] for b in bouts])
    length = np.concatenate([b[1] for b in bouts])
    for k, (median, mean) in enumerate([(46, 72), (34, 81), (61, 102), (100, 185)]):
        assert np.median(length[state == k]) == pytest.approx(median, rel=0.1)
        assert length[state == k].mean() == pytest.approx(mean, rel=0.12)
    jumps = np.zeros((4, 4))
    for state, _ in bouts:
        np.add.at(jumps, (state[:-1], state[1:]), 1)
    jumps /= jumps.sum(axis=1, keepdims=True)
    assert jumps[OTHER, INVESTIGATION] == pytest.approx(0.963, abs=0.02)
    assert jumps[INVESTIGATION, [OTHER, MOUNT, ATTACK]] == pytest.approx([0.774, 0.147, 0.079], abs=0.02)
    assert jumps[ATTACK, [OTHER, INVESTIGATION]] == pytest.approx([0.695, 0.289], abs=0.05)
    assert jumps[MOUNT, [INVESTIGATION, OTHER]] == pytest.approx([0.542, 0.444], abs=0.05)
    assert np.diag(jumps).max() == 0
    assert all(state[0] == OTHER for state, _ in bouts)


@pytest.mark.bulk
def test_positions_match_calms21():
    recordings = mice.simulate_recordings(n_trials=20, n_frames=10_000, seed=3)
    keypoints = np.stack([table.xy for table in recordings]).astype(float)  # [20, T, mouse, 2, part]
    labels = np.stack([table.labels for table in recordings]).astype(int)
    centre = keypoints.mean(axis=-1)
    apart = np.linalg.norm(centre[:, :, 0] - centre[:, :, 1], axis=-1)
    for behaviour, quantiles in ((INVESTIGATION, (75, 135, 214)), (MOUNT, (29, 60, 96)), (OTHER, (121, 356, 615))):
        assert np.quantile(apart[labels == behaviour], [0.1, 0.5, 0.9]) == pytest.approx(quantiles, rel=0.15)
    speed = np.linalg.norm(np.diff(centre, axis=1), axis=-1)  # [20, T-1, mouse], px a frame
    assert np.median(speed, axis=(0, 1)) == pytest.approx([4.1, 2.9], rel=0.2)
    assert np.quantile(speed, 0.95, axis=(0, 1)) == pytest.approx([18, 17], rel=0.2)
    assert np.quantile(speed, 0.999) < 100
    length = np.linalg.norm(keypoints[..., 0] - keypoints[..., 6], axis=-1)
    assert np.median(length, axis=(0, 1)) == pytest.approx([210, 186], rel=0.04)
    # the second difference of a smooth path is small, that of white noise is sqrt(6) times the noise
    jitter = 1.4826 * np.median(np.abs(np.diff(keypoints, n=2, axis=1)), axis=(0, 1, 3)) / np.sqrt(6)  # [mouse, part]
    assert jitter.min() > 1.5
    assert jitter.max() < 2.3
    away = np.linalg.norm(keypoints[:, :, 0, :, 0] - centre[:, :, 1], axis=-1) - apart
    assert np.mean(away[labels == INVESTIGATION] < 0) > 0.9  # the resident's nose is closer than its middle
    assert 0.3 < np.mean(away[labels == OTHER] < 0) < 0.7
    tail_to_neck = keypoints[..., 3] - keypoints[..., 6]
    facing = tail_to_neck / np.linalg.norm(tail_to_neck, axis=-1, keepdims=True)
    assert np.median((facing[:, :, 0] * facing[:, :, 1]).sum(axis=-1)[labels == MOUNT]) > 0.8
    x, y = keypoints[..., 0, :], keypoints[..., 1, :]
    assert ((x > 0) & (x < 1024) & (y > 0) & (y < 570)).mean() > 0.999
    assert x.min() > -60
    assert y.max() < 630


def test_simulations_are_reproducible():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that it stays untouched is the point)
    first = mice.simulate(3, [96, 400, 250], seed=5)
    assert [trial.n_samples for trial in first] == [96, 400, 250]
    assert first[0].y.max() < 1.2  # image scaling
    makers = (lambda seed: mice.simulate(1, 200, seed), lambda seed: [nascar.simulate("soft", 200, seed)])
    for make in (*makers, lambda seed: regimes.simulate("drift", 200, seed)):
        one, again, other = (make(seed)[0] for seed in (5, 5, 6))
        np.testing.assert_array_equal(one.y, again.y)
        assert np.abs(one.y - other.y).max() > 0.01
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(("n_trials", "n_frames"), [(0, 100), (2, [100]), (1, 1), (1, 3_000_000)])
def test_invalid_sizes_raise_config_error(n_trials: int, n_frames: int | list[int]):
    with pytest.raises(ConfigError, match=r"n_trials|n_frames"):
        mice.simulate(n_trials, n_frames)
    with pytest.raises(ConfigError, match="at least 96"):
        mice.simulate_training_set(n_frames=100)


@pytest.mark.parametrize("setting", nascar.PRESETS)
def test_samples_follow_the_dynamics(setting):
    chosen = nascar.parameters(setting)
    trial = nascar.simulate(setting, T=400, seed=3)
    A, b = chosen.dynamics()
    z, x = trial.states.astype(float), trial.position.astype(float)
    mixed = np.einsum("tk,kij,tj->ti", z[1:], A, x[:-1])
    drift = z[1:] @ b
    if chosen.s_min == 1:
        np.testing.assert_allclose(x[1:], mixed + drift, atol=2e-5)
        return
    # The step is a multiple in [s_min, 1] of the state's own, constant within a bout.
    speed = np.einsum("ti,ti->t", x[1:] - mixed, drift) / np.einsum("ti,ti->t", drift, drift)
    np.testing.assert_allclose(x[1:] - mixed, speed[:, None] * drift, atol=1e-4)
    assert speed.min() > chosen.s_min - 1e-3
    assert speed.max() < 1 + 1e-3
    same = trial.labels[1:-1] == trial.labels[2:]
    assert np.abs(np.diff(speed))[same].max() < 1e-3
    assert np.abs(np.diff(speed))[~same].max() > 0.05


def test_standard_states_follow_regions():
    trial = nascar.simulate("standard", T=1000, seed=0)
    before = np.vstack([[0.0, 1.0], trial.position[:-1]])
    weights, offsets = nascar.parameters("standard").transitions()
    scores = before @ weights.T + offsets
    clear = np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2] > 20  # Gumbel noise cannot bridge 20
    assert clear.sum() > 500
    np.testing.assert_array_equal(trial.labels[clear], scores[clear].argmax(axis=1))
    assert trial.states[clear].max(axis=1).min() > 0.999


def test_soft_states_follow_their_distribution():
    # argmax z ~ Categorical(softmax(logits)) at every temperature: counts agree with the summed probabilities.
    chosen = nascar.parameters("soft")
    trial = nascar.simulate("soft", T=8_000, seed=5)
    weights, offsets = chosen.transitions()
    z = np.vstack([[0, 0, 1, 0], trial.states[:-1]])
    logits = np.vstack([[0.0, 1.0], trial.position[:-1]]) @ weights.T + offsets + chosen.gamma * z
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    count = np.bincount(trial.labels, minlength=4)
    error = np.sqrt((p * (1 - p)).sum(axis=0))
    assert (np.abs(count - p.sum(axis=0)) < 4 * error).all()
    assert 0.6 < trial.states.max(axis=1).mean() < 0.9


@pytest.mark.parametrize("tau", [1e-3, 50.0])
def test_states_stay_on_the_simplex(tau):
    trial = nascar.simulate("standard", T=500, tau=tau, transition_scale=5)
    assert np.isfinite(trial.states).all()
    np.testing.assert_allclose(trial.states.sum(axis=1), 1, atol=1e-5)


def test_trial_has_position_states_and_labels():
    trial = nascar.simulate("soft", T=300, seed=1, n_channels=7)
    assert trial.y.shape == (300, 7)
    assert trial.position.shape == (300, 2)
    assert trial.states.shape == (300, 4)
    assert trial.rate_hz == 1
    np.testing.assert_array_equal(trial.labels, trial.states.argmax(axis=1))
    residual = trial.y - trial.position @ nascar.emission(7, seed=1).T
    assert 0.009 < residual.std() < 0.011


def test_emission_and_noise_keep_the_path():
    usual = nascar.simulate("soft", T=200, seed=4)
    wide = nascar.simulate("soft", T=200, seed=4, emission=np.ones((3, 2)))
    renoised = nascar.simulate("soft", T=200, seed=4, noise_seed=9)
    np.testing.assert_array_equal(usual.position, wide.position)
    np.testing.assert_array_equal(usual.position, renoised.position)
    assert wide.n_channels == 3
    assert 0.005 < np.abs(usual.y - renoised.y).std() < 0.03


def test_train_and_test_share_the_emission():
    train, test = nascar.train_test("soft", seed=2, T=300)
    matrix = nascar.emission(10, seed=2)
    for trial in (train, test):
        assert np.abs(trial.y - trial.position @ matrix.T).max() < 0.06
    np.testing.assert_allclose(test.y, nascar.simulate("soft", T=300, seed=102, emission=matrix).y, atol=1e-5)
    assert not np.allclose(train.position, test.position)


def test_paper_pairing_shares_the_standard_path():
    train, test = nascar.paper_train_test("standard", T=300)
    np.testing.assert_array_equal(train.position, test.position)
    assert not np.allclose(train.y, test.y, atol=1e-3)
    train, test = nascar.paper_train_test("soft", T=300)
    assert not np.allclose(train.position, test.position)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.0}, r"gamma is 1.0; stickiness must be in \[0, 1\)"),
        ({"track": "oval"}, "track is 'oval'; choose 'rounded' or 'square'"),
        ({"speed": 2.0}, "Unknown simulation parameter speed; known: gamma"),
        ({"T": 0}, "T is 0"),
        ({"setting": "hard"}, "setting is 'hard'; choose one of standard, soft"),
    ],
)
def test_invalid_parameters_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        nascar.simulate(**changes)


@pytest.mark.parametrize("matrix", [np.ones((3, 3)), np.full((3, 2), np.nan)])
def test_invalid_emission_raises_data_error(matrix):
    with pytest.raises(DataError, match="emission has shape"):
        nascar.simulate("soft", T=10, emission=matrix)


@pytest.mark.parametrize("kind", regimes.KINDS)
def test_regimes_last_as_long_as_documented(kind):
    (trial,) = regimes.simulate(kind, 4000, seed=1)
    jumps = np.flatnonzero(np.diff(trial.labels)) + 1
    shortest, longest = regimes.KINDS[kind].dwell
    assert shortest <= np.diff(jumps).min() < 1.3 * shortest
    assert 0.8 * longest < np.diff(jumps).max() <= longest
    assert set(trial.labels) == {0, 1, 2}
    turns = set((np.diff(trial.labels[jumps]) % 3).tolist())
    assert turns == ({1} if kind == "walk" else {1, 2})


def test_held_out_regimes_continue_the_recording():
    train, test = regimes.simulate("rotations", 200, seed=1, held_out=100)
    (whole,) = regimes.simulate("rotations", 300, seed=1)
    np.testing.assert_array_equal(np.concatenate([train.y, test.y]), whole.y)
    np.testing.assert_array_equal(test.labels, whole.labels[200:])
    assert len({one.fingerprint for one in (train, test, whole, *regimes.simulate("rotations", 200, 1))}) == 4


def test_regimes_differ_as_described():
    def moments(kind):
        (trial,) = regimes.simulate(kind, 20_000, seed=5)
        parts = [trial.y[trial.labels == k] for k in range(3)]
        return np.array([part.mean(axis=0) for part in parts]), np.array([part.std(axis=0) for part in parts])

    levels = np.array([[0, 0, 0], [2, 0, 1], [0, 2, -1]])
    means, spreads = moments("levels")
    np.testing.assert_allclose(means, levels, atol=0.05)
    np.testing.assert_allclose(spreads, 0.7, rtol=0.05)
    means, spreads = moments("variances")
    np.testing.assert_allclose(means, 0, atol=0.15)
    np.testing.assert_allclose(spreads, np.array([[0.3], [1], [3]]) * np.ones(2), rtol=0.05)
    (trial,) = regimes.simulate("outliers", 20_000, seed=5)
    error = trial.y - levels[trial.labels]
    assert (np.abs(error) > 4).mean() == pytest.approx(0.01 * 0.84, rel=0.15)
    assert error[np.abs(error) < 2].std() == pytest.approx(0.4, rel=0.05)
    (walk,) = regimes.simulate("walk_random", 20_000, seed=5)
    drifts = [np.diff(walk.y, axis=0)[walk.labels[1:] == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(drifts, [[0.3, 0], [-0.2, 0.3], [0, -0.3]], atol=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "jumps"}, "kind is 'jumps'; choose one of levels, rotations"),
        ({"n_samples": 0}, "n_samples is 0"),
        ({"held_out": -1}, "held_out is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
    ],
)
def test_invalid_regimes_raise_config_error(changes, message):
    with pytest.raises(ConfigError, match=message):
        regimes.simulate(**{"kind": "levels"} | changes)
