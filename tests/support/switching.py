"""Small switching systems with exact results by dense algebra, enumeration and grids."""

import itertools

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from gdm_core import SLDS
from gdm_core.maths import hmm
from gdm_core.models.switching import laplace_em as em
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.transitions import Transitions


def random_parameters(rng, kind, k=2, d=2, n=3, recurrence=1.0):
    spread = rng.normal(size=(k + 1, d, d))
    spread = 0.3 * spread @ np.swapaxes(spread, 1, 2) + 0.1 * np.eye(d)
    blank = Transitions.blank(kind, k, d)
    weights = recurrence * rng.normal(size=(k, d)) if blank.recurrent else blank.weights
    bias = hmm.log_normalise(rng.normal(size=blank.bias.shape))[0]
    emission = em.Emission(rng.normal(size=(n, d)), rng.normal(size=n), 0.1 + rng.random(n))
    return em.SLDSParameters(
        Dynamics(0.6 * rng.normal(size=(k, d, d + 1)), spread[:k]),
        Transitions(kind, hmm.log_normalise(rng.normal(size=k))[0], bias, weights),
        rng.normal(size=d),
        spread[k],
        emission,
    )


def parameters_of(model: SLDS):
    """Return the parameters of a fitted model."""
    p = model.params_
    chain = p["log_initial"], p["transition_bias"], p["transition_weights"]
    return em.SLDSParameters(
        Dynamics(p["coefficients"], p["covariance"]),
        Transitions(model.transitions, *chain),
        p["start_mean"],
        p["start_covariance"],
        em.Emission(p["loadings"], p["offset"], p["noise"]),
    )


def walk(rng, states, noise=0.1):
    """Return a path [T, 2] that moves in one direction per state."""
    moves = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    return np.cumsum(moves[states] + noise * rng.normal(size=(len(states), 2)), axis=0)


def random_trials(rng, lengths, n=3, missing=0.0):
    trials = [rng.normal(size=(t, n)) for t in lengths]
    for y in trials:
        y[rng.random(y.shape) < missing] = np.nan
    return trials


def dense_path(p, states):
    """Return mean [T D] and covariance [T D, T D] of the latents given states."""
    d, t = len(p.start_mean), len(states)
    mean, cover = np.zeros((t, d)), np.zeros((t, d, t, d))
    mean[0], cover[0, :, 0] = p.start_mean, p.start_covariance
    for s in range(1, t):
        a, b = p.dynamics.coefficients[states[s], :, :-1], p.dynamics.coefficients[states[s], :, -1]
        mean[s] = a @ mean[s - 1] + b
        for r in range(s):
            cover[s, :, r] = a @ cover[s - 1, :, r]
            cover[r, :, s] = cover[s, :, r].T
        cover[s, :, s] = a @ cover[s - 1, :, s - 1] @ a.T + p.dynamics.covariance[states[s]]
    return mean.ravel(), cover.reshape(t * d, t * d)


def dense_observation(p, y, states):
    """Return log evidence, smoothed mean [T, D] and covariance [T, D, T, D] by dense conditioning."""
    mean, cover = dense_path(p, states)
    t, d = len(states), len(p.start_mean)
    loadings = np.kron(np.eye(t), p.emission.loadings)
    log_likelihood = np.isfinite(y).ravel()
    centre = (loadings @ mean + np.tile(p.emission.offset, t))[log_likelihood]
    loadings = loadings[log_likelihood]
    total = loadings @ cover @ loadings.T + np.diag(np.tile(p.emission.noise, t)[log_likelihood])
    gain = cover @ loadings.T @ np.linalg.inv(total)
    after = mean + gain @ (y.ravel()[log_likelihood] - centre)
    evidence = multivariate_normal(centre, total).logpdf(y.ravel()[log_likelihood]) if log_likelihood.any() else 0.0
    return evidence, after.reshape(t, d), (cover - gain @ loadings @ cover).reshape(t, d, t, d)


def exact_evidence(p, y):
    """Return the Kalman evidence summed over all K^T paths, without recurrence."""
    moves = hmm.log_normalise(p.transitions.bias)[0]
    total = []
    for path in itertools.product(range(len(moves)), repeat=len(y)):
        weight = p.transitions.log_initial[path[0]] + sum(moves[a, b] for a, b in itertools.pairwise(path))
        total.append(weight + dense_observation(p, y, path)[0])
    return logsumexp(total)


def evidence_on_a_grid(p, y, size=600):
    """Return the exact evidence with one latent, on a fine grid, with recurrence."""
    k = len(p.transitions.log_initial)
    x = np.linspace(-9, 9, size)
    width = x[1] - x[0]

    def log_likelihood(t):
        known = np.isfinite(y[t])
        means = x[:, None] * p.emission.loadings[known, 0] + p.emission.offset[known]
        return norm(means, np.sqrt(p.emission.noise[known])).logpdf(y[t, known]).sum(axis=1)

    weight = p.transitions.log_initial[:, None] + norm(p.start_mean[0], np.sqrt(p.start_covariance[0, 0])).logpdf(x)
    weight = weight + log_likelihood(0)  # [K, X]
    for t in range(1, len(y)):
        logits = np.stack([p.transitions.logits(np.full(size, i), x[:, None]) for i in range(k)])  # [K, X, K]
        arriving = logsumexp(weight[:, :, None] + hmm.log_normalise(logits)[0], axis=0)  # [X, K]
        new = []
        for j in range(k):
            a, b = p.dynamics.coefficients[j, 0]
            step = norm(a * x + b, np.sqrt(p.dynamics.covariance[j, 0, 0])).logpdf(x[:, None])  # [X', X]
            new.append(logsumexp(step + arriving[:, j], axis=1) + np.log(width) + log_likelihood(t))
        weight = np.stack(new)
    return logsumexp(weight) + np.log(width)
