"""The simulators: the equations hold sample by sample, seeds mean what they say, bad parameters are refused.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from datasets import nascar
from gdm_core.errors import ConfigError, DataError


@pytest.mark.parametrize("setting", nascar.PRESETS)
def test_each_sample_follows_the_dynamics(setting):
    chosen = nascar.parameters(setting)
    trial = nascar.simulate(setting, T=400, seed=3)
    A, b = chosen.dynamics()
    z, x = trial.states.astype(float), trial.position.astype(float)
    mixed = np.einsum("tk,kij,tj->ti", z[1:], A, x[:-1])
    drift = z[1:] @ b
    if chosen.s_min == 1:
        np.testing.assert_allclose(x[1:], mixed + drift, atol=2e-5)
        return
    # With a varying speed the move is some multiple in [s_min, 1] of the state's own, the same within a stretch.
    speed = np.einsum("ti,ti->t", x[1:] - mixed, drift) / np.einsum("ti,ti->t", drift, drift)
    np.testing.assert_allclose(x[1:] - mixed, speed[:, None] * drift, atol=1e-4)
    assert speed.min() > chosen.s_min - 1e-3
    assert speed.max() < 1 + 1e-3
    same = trial.labels[1:-1] == trial.labels[2:]
    assert np.abs(np.diff(speed))[same].max() < 1e-3
    assert np.abs(np.diff(speed))[~same].max() > 0.05


def test_the_rounded_track_turns_by_its_angle_about_the_ends_of_the_straights():
    A, b = nascar.parameters("standard").dynamics()
    for state, center in ((0, [2.0, 0.0]), (1, [-2.0, 0.0])):
        np.testing.assert_allclose(A[state] @ center + b[state], center, atol=1e-12)
        np.testing.assert_allclose(np.linalg.eigvals(A[state]), np.exp([1j * np.pi / 24, -1j * np.pi / 24]), atol=1e-12)
    np.testing.assert_allclose(b[2:], [[0.1, 0.0], [-0.25, 0.0]])


def test_the_square_track_moves_by_its_step():
    A, b = nascar.parameters("soft").dynamics()
    np.testing.assert_array_equal(A, np.tile(np.eye(2), (4, 1, 1)))
    np.testing.assert_allclose(b, [[0, -0.05], [0, 0.05], [0.05, 0], [-0.05, 0]])


def test_appendix_and_notebook_presets_differ_by_the_transition_weight():
    weights, offsets = nascar.parameters("standard").transitions()
    np.testing.assert_allclose(weights, [[100, 0], [-100, 0], [0, 100], [0, -100]])
    np.testing.assert_allclose(offsets, [-200, -200, -100, -100])
    weights, offsets = nascar.parameters("standard_appendix").transitions()
    np.testing.assert_allclose(weights, [[10, 0], [-10, 0], [0, 10], [0, -10]])
    np.testing.assert_allclose(offsets, [-20, -20, -10, -10])
    weights, _ = nascar.parameters("soft").transitions()
    np.testing.assert_allclose(weights[0], [100 * 0.02 * 0.75, 0])


def test_standard_states_follow_the_regions_of_the_plane():
    trial = nascar.simulate("standard", T=1000, seed=0)
    before = np.vstack([[0.0, 1.0], trial.position[:-1]])
    weights, offsets = nascar.parameters("standard").transitions()
    scores = before @ weights.T + offsets
    clear = np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2] > 20  # Gumbel noise cannot bridge 20
    assert clear.sum() > 500
    np.testing.assert_array_equal(trial.labels[clear], scores[clear].argmax(axis=1))
    assert trial.states[clear].max(axis=1).min() > 0.999


def test_soft_states_are_draws_of_the_stated_distribution():
    # argmax z ~ Categorical(softmax(logits)) at every temperature: counts agree with the summed probabilities.
    chosen = nascar.parameters("soft")
    trial = nascar.simulate("soft", T=20_000, seed=5)
    weights, offsets = chosen.transitions()
    z = np.vstack([[0, 0, 1, 0], trial.states[:-1]])
    logits = np.vstack([[0.0, 1.0], trial.position[:-1]]) @ weights.T + offsets + chosen.gamma * z
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    count = np.bincount(trial.labels, minlength=4)
    error = np.sqrt((p * (1 - p)).sum(axis=0))
    assert (np.abs(count - p.sum(axis=0)) < 4 * error).all()
    assert 0.6 < trial.states.max(axis=1).mean() < 0.9


@pytest.mark.parametrize("tau", [1e-3, 0.01, 0.99, 50.0])
def test_states_stay_on_the_simplex_at_extreme_temperatures(tau):
    trial = nascar.simulate("standard", T=500, tau=tau, transition_scale=5)
    assert np.isfinite(trial.states).all()
    np.testing.assert_allclose(trial.states.sum(axis=1), 1, atol=1e-5)


def test_a_trial_carries_everything_known_about_it():
    trial = nascar.simulate("soft", T=300, seed=1, n_channels=7)
    assert trial.y.shape == (300, 7)
    assert trial.position.shape == (300, 2)
    assert trial.states.shape == (300, 4)
    assert trial.rate_hz == 1
    np.testing.assert_array_equal(trial.labels, trial.states.argmax(axis=1))
    residual = trial.y - trial.position @ nascar.emission(7, seed=1).T
    assert 0.009 < residual.std() < 0.011


def test_seeds_fix_everything_and_leave_the_global_generator_alone():
    np.random.seed(0)  # noqa: NPY002 (the global generator is what is tested)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (nascar.simulate("soft", T=200, seed=s) for s in (4, 4, 5))
    np.testing.assert_array_equal(first.y, again.y)
    assert np.abs(first.y - other.y).max() > 0.1
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_emission_and_noise_leave_the_path_alone():
    usual = nascar.simulate("soft", T=200, seed=4)
    wide = nascar.simulate("soft", T=200, seed=4, emission=np.ones((3, 2)))
    renoised = nascar.simulate("soft", T=200, seed=4, noise_seed=9)
    np.testing.assert_array_equal(usual.position, wide.position)
    np.testing.assert_array_equal(usual.position, renoised.position)
    assert wide.n_channels == 3
    assert 0.005 < np.abs(usual.y - renoised.y).std() < 0.03


def test_train_and_test_share_the_emission_and_not_the_path():
    train, test = nascar.train_test("soft", seed=2, T=300)
    matrix = nascar.emission(10, seed=2)
    for trial in (train, test):
        assert np.abs(trial.y - trial.position @ matrix.T).max() < 0.06
    np.testing.assert_allclose(test.y, nascar.simulate("soft", T=300, seed=102, emission=matrix).y, atol=1e-5)
    assert not np.allclose(train.position, test.position)


def test_the_papers_pairing():
    train, test = nascar.paper_train_test("standard", T=300)
    np.testing.assert_array_equal(train.position, test.position)
    assert not np.allclose(train.y, test.y, atol=1e-3)
    train, test = nascar.paper_train_test("soft", T=300)
    assert not np.allclose(train.position, test.position)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tau": 0.0}, "tau is 0.0"),
        ({"tau": float("nan")}, "tau is nan"),
        ({"gamma": 1.0}, r"gamma is 1.0; stickiness must be in \[0, 1\)"),
        ({"gamma": -0.1}, "gamma is -0.1"),
        ({"s_min": 0.0}, "s_min is 0.0"),
        ({"s_min": 1.5}, "s_min is 1.5"),
        ({"track": "oval"}, "track is 'oval'; choose 'rounded' or 'square'"),
        ({"transition_scale": -1.0}, r"transition_scale \(c\) is -1.0"),
        ({"transition_weight": 0.0}, "transition_weight is 0.0"),
        ({"step": 0.0}, "step is 0.0"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"n_channels": 0}, "n_channels is 0"),
        ({"start_state": 4}, "start_state is 4"),
        ({"start": (0.0, float("inf"))}, "start is"),
        ({"speed": 2.0}, "Unknown simulation parameter speed; known: gamma"),
        ({"T": 0}, "T is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"setting": "hard"}, "setting is 'hard'; choose one of standard, soft"),
    ],
)
def test_bad_parameters_are_refused_by_name(changes, message):
    with pytest.raises(ConfigError, match=message):
        nascar.simulate(**changes)


@pytest.mark.parametrize("matrix", [np.ones((3, 3)), np.ones(4), np.full((3, 2), np.nan), np.ones((0, 2))])
def test_bad_emissions_are_refused(matrix):
    with pytest.raises(DataError, match="emission has shape"):
        nascar.simulate("soft", T=10, emission=matrix)


def test_a_simulation_needs_no_torch():
    code = "import sys; from datasets import nascar; nascar.simulate(T=5); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
