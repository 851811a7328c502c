"""Messages of a hidden Markov chain against enumeration of all paths."""

import itertools

import numpy as np
import pytest

from gdm_core.maths import hmm


def chain(rng, n_samples, n_states, scale=1.0, recurrent=True):
    shape = (n_samples, n_states, n_states) if recurrent else (n_states, n_states)
    log_transitions = hmm.log_normalise(2 * rng.normal(size=shape))[0]
    log_initial = hmm.log_normalise(rng.normal(size=n_states))[0]
    return scale * rng.normal(size=(n_samples, n_states)), log_initial, log_transitions


def weigh_paths(paths, table, log_initial, log_transitions, starts):
    """Return the log joint density of each path."""
    n, k = table.shape
    full = np.broadcast_to(log_transitions, (n, log_transitions.shape[-2], k))
    weight = np.zeros(len(paths))
    for t in range(n):
        before = paths[:, t - 1] if full.shape[1] > 1 else 0
        weight += log_initial[paths[:, t]] if starts[t] else full[t, before, paths[:, t]]
        weight += table[t, paths[:, t]]
    return weight


def enumerate_paths(table, log_initial, log_transitions, starts):
    """Return log evidence, marginals [T, K] and pairs [T, K, K] by summing over all K^T paths."""
    n, k = table.shape
    paths = np.array(list(itertools.product(range(k), repeat=n)))
    weight = weigh_paths(paths, table, log_initial, log_transitions, starts)
    evidence = np.logaddexp.reduce(weight)
    p = np.exp(weight - evidence)
    marginal = np.array([[p[paths[:, t] == j].sum() for j in range(k)] for t in range(n)])
    pairs = np.zeros((n, k, k))
    for t in range(1, n):
        if not starts[t]:
            np.add.at(pairs[t], (paths[:, t - 1], paths[:, t]), p)
    return evidence, marginal, pairs


@pytest.mark.parametrize("scale", [1.0, 60.0, 4000.0])
@pytest.mark.parametrize("recurrent", [True, False, None])
@pytest.mark.parametrize("n_samples", [1, 2, 5, 7])
def test_posterior_equals_enumeration(n_samples, recurrent, scale):
    """Transitions of None do not depend on the previous state."""
    rng = np.random.default_rng(n_samples)
    table, first, moves = chain(rng, n_samples, 3, scale, recurrent is not False)
    starts = np.isin(np.arange(n_samples), [0, 4])
    if recurrent is None:
        moves = hmm.log_normalise(moves[:, :1])[0]
    evidence, marginal, pairs = enumerate_paths(table, first, moves, starts)
    found = hmm.posterior(table, first, moves, starts)
    assert found.log_likelihood == pytest.approx(evidence, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(found.states, marginal, atol=1e-9)
    expected = pairs.sum(axis=1, keepdims=True) if recurrent is None else pairs
    np.testing.assert_allclose(found.pairs, expected, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 3])
def test_filter_equals_posterior_of_the_past(rows):
    rng = np.random.default_rng(3)
    table, first, _ = chain(rng, 12, 3, 3.0)
    moves = hmm.log_normalise(rng.normal(size=(12, rows, 3)))[0]
    starts = np.isin(np.arange(12), [0, 5])
    found = hmm.filter_states(table, first, moves, starts)
    for t in range(12):
        past = hmm.posterior(table[: t + 1], first, moves[: t + 1], starts[: t + 1])
        np.testing.assert_allclose(found[t], past.states[-1], atol=1e-10)


def test_impossible_transitions_stay_finite():
    """Zero probabilities and underflowing likelihoods must give finite sums."""
    with np.errstate(divide="ignore"):
        moves = np.log(np.array([[0.0, 1.0], [1.0, 0.0]]))
    table = np.tile([[0.0, -2000.0]], (33, 1))
    found = hmm.posterior(table, np.log([0.5, 0.5]), moves, np.arange(33) == 0)
    assert np.isfinite(found.log_likelihood)
    np.testing.assert_allclose(found.states.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.states[:, 0], np.arange(33) % 2 == 0, atol=1e-12)
    assert found.log_likelihood == pytest.approx(np.log(0.5) - 16 * 2000.0)


def log_recursion(table, log_initial, log_transitions, starts):
    """Return log evidence, marginals and pairs, sample by sample in log space."""
    n, k = table.shape
    steps = np.broadcast_to(log_transitions, (n, k, k)) + table[:, None, :]
    steps = np.where(starts[:, None, None], (log_initial + table)[:, None, :], steps)
    forward, backward = np.full((n + 1, k), -np.log(k)), np.zeros((n + 1, k))
    for t in range(n):
        forward[t + 1] = np.logaddexp.reduce(forward[t][:, None] + steps[t], axis=0)
        backward[n - t - 1] = np.logaddexp.reduce(steps[n - t - 1] + backward[n - t], axis=1)
    evidence = np.logaddexp.reduce(forward[n])
    pairs = np.exp(forward[:-1, :, None] + steps + backward[1:, None, :] - evidence)
    marginal = pairs.sum(axis=1)
    return evidence, marginal, np.where(starts[:, None, None], 0.0, pairs)


def test_unlikely_step_to_the_only_likely_state_is_kept():
    """The best path has a transition of e^-800; every other path has an emission of e^-2,400."""
    table = np.array([[0.0, -9000.0], [0.0, 0.0], [-2400.0, 0.0]])
    moves = np.array([[0.0, -800.0], [-800.0, 0.0]])
    found = hmm.posterior(table, np.log([0.5, 0.5]), moves, np.arange(3) == 0)
    assert found.log_likelihood == pytest.approx(-800 + np.log(0.5) + np.log(2))
    np.testing.assert_allclose(found.states, [[1, 0], [0.5, 0.5], [0, 1]], atol=1e-12)


@pytest.mark.parametrize("emission", [1.0, 500.0])
@pytest.mark.parametrize("logit", [1.0, 100.0, 500.0, 3000.0])
def test_sharp_chains_equal_a_recursion_in_log_space(emission, logit):
    for seed in range(40):
        rng = np.random.default_rng([seed, int(logit), int(emission)])
        n, k = int(rng.integers(2, 40)), int(rng.integers(2, 5))
        shape = (k, k) if seed % 2 else (n, k, k)
        moves = hmm.log_normalise(logit * rng.normal(size=shape))[0]
        first = hmm.log_normalise(logit * rng.normal(size=k))[0]
        table = emission * rng.normal(size=(n, k))
        starts = np.isin(np.arange(n), [0, n // 3])
        evidence, marginal, pairs = log_recursion(table, first, moves, starts)
        found = hmm.posterior(table, first, moves, starts)
        assert found.log_likelihood == pytest.approx(evidence, rel=1e-12, abs=1e-9)
        np.testing.assert_allclose(found.states, marginal, atol=1e-8)
        np.testing.assert_allclose(found.pairs, pairs, atol=1e-8)
        last = log_recursion(table[: n // 2], first, moves if seed % 2 else moves[: n // 2], starts[: n // 2])
        if n > 3:
            np.testing.assert_allclose(
                hmm.filter_states(table, first, moves, starts)[n // 2 - 1], last[1][-1], atol=1e-8
            )


def test_sampled_indices_follow_their_probabilities():
    rng = np.random.default_rng(6)
    p = np.array([0.1, 0.6, 0.3])
    draws = hmm.sample_index(np.broadcast_to(np.log(p), (20_000, 3)), rng)
    share = np.bincount(draws, minlength=3) / len(draws)
    assert (np.abs(share - p) < 5 * np.sqrt(p * (1 - p) / len(draws))).all()


def test_nan_evidence_reaches_the_likelihood():
    table, first, moves = chain(np.random.default_rng(0), 9, 3)
    table[4] = np.nan
    assert np.isnan(hmm.posterior(table, first, moves, np.arange(9) == 0).log_likelihood)


@pytest.mark.parametrize("rows", [3, 1])
@pytest.mark.parametrize("seed", range(6))
def test_path_is_the_best_of_all(seed, rows):
    rng = np.random.default_rng(seed)
    table = 2 * rng.normal(size=(7, 3))
    initial, moves = (hmm.log_normalise(2 * rng.normal(size=shape))[0] for shape in ((3,), (7, rows, 3)))
    starts = np.isin(np.arange(7), [0, 4])
    found = hmm.most_probable_path(hmm.posterior(table, initial, moves, starts))
    paths = np.array(list(itertools.product(range(3), repeat=7)))
    assert found.tolist() == paths[weigh_paths(paths, table, initial, moves, starts).argmax()].tolist()
