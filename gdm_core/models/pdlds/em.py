"""Variational EM for probabilistic decomposed linear dynamical systems, every step of it in closed form.

    l_t ~ N(l_{t-1} + sum_k c_tk (A_k l_{t-1} + a_k), Q)      b_t ~ N(b_{t-1}, S)      y_t ~ N(C (l_t + b_t) + d, diag(R))
    c_tk = rho_k c_{t-1,k} + m_k + e_tk                       e_tk ~ Student-t: seldom large, mostly next to nothing

The posterior is q(s) q(c) q(v) with s = (l, b) and v the variances behind the Student-t steps. Given the others q(s)
and q(c) are Gaussian paths and q(v) is inverse-gamma, so the bound is exact and no update lowers it. With q(v) at its
optimum each step of a coefficient enters the bound as a Student-t density at its root mean square.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from gdm_core.maths.emission import Observed, regress_emission
from gdm_core.maths.gaussian import LOG_2PI
from gdm_core.models.climbing import settled
from gdm_core.models.pdlds.parameters import (
    CARRY_STRENGTH,
    DRIFT_RATE,
    DRIFT_SHAPE,
    OPERATOR_STRENGTH,
    STEP_RATE,
    STEP_SHAPE,
    CoefficientPosterior,
    Parameters,
    PathPosterior,
    Posterior,
    Prior,
)

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


# ---- the bound ----------------------------------------------------------------------------------------------------
def step_weights(squares: Float, step: Float, freedom: float) -> Float:
    """E[1 / v] of every step under the best q(v)."""
    result: Float = (freedom + 1) / (freedom * step + squares)
    return result


def step_terms(squares: Float, step: Float, freedom: float) -> float:
    """E[log p(c_t | c_{t-1}, v)] - KL(q(v) || p(v)) under the best q(v), summed over steps."""
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(np.pi * freedom * step)
    return float((constant - 0.5 * (freedom + 1) * np.log1p(squares / (freedom * step))).sum())


def whitened(p: Parameters) -> tuple[Float, Float, Float]:
    """(B [M, M], G [K, M, M], H [K, K, M, M]) of the quadratic form of l_t - l_{t-1} - sum_k c_k (A_k l_{t-1} + a_k) in
    [l_t, l_{t-1}, 1]: precision-weighted squares are B - sum_k c_k (G_k + G_k') + sum_kj c_k c_j H_kj."""
    k, d, _ = p.operators.shape
    precision = np.linalg.inv(p.noise)
    still = np.concatenate([np.eye(d), -np.eye(d), np.zeros((d, 1))], axis=1)  # [D, M]
    moving = np.concatenate([np.zeros((k, d, d)), p.operators], axis=2)  # [K, D, M]
    base = still.T @ precision @ still
    linear = still.T @ precision @ moving
    square = np.swapaxes(moving, 1, 2)[:, None] @ precision @ moving[None]
    return base, linear, square


def dynamics_terms(p: Parameters, x: PathPosterior, c: CoefficientPosterior, starts: Bool) -> float:
    """E[log p(l_t | l_{t-1}, c_t)] summed over all but starts."""
    base, linear, square = whitened(p)
    k, m = len(linear), base.shape[0]
    inside = ~starts
    moments = x.moments[inside].reshape(-1, m * m)
    mean, second = c.mean[inside], c.second_moments()[inside].reshape(-1, k * k)
    total = float((moments @ base.ravel()).sum())
    total -= 2 * float((mean * (moments @ linear.reshape(k, m * m).T)).sum())
    total += float((second * (moments @ square.reshape(k * k, m * m).T)).sum())
    size = len(p.noise) * LOG_2PI + np.linalg.slogdet(p.noise)[1]
    return -0.5 * (total + len(moments) * float(size))


def bound(observed: Observed, p: Parameters, prior: Prior, x: PathPosterior, c: CoefficientPosterior) -> float:
    """The ELBO of q(s) q(c), q(v) being at its best."""
    starts = observed.starts
    total = p.whole_emission.expected_log_density(observed, x.mean, x.variance)
    total += dynamics_terms(p, x, c, starts) + _start_terms(x.mean, x.variance, starts) + x.entropy
    if len(p.drift):
        total += _drift_terms(p, x, starts)
    total += step_terms(c.squares(p, starts), p.step, prior.freedom)
    return total + _start_terms(c.mean, c.variance, starts) + c.entropy


def _start_terms(mean: Float, variance: Float, starts: Bool) -> float:
    """E[log N(first sample | 0, I)]."""
    squares = (mean[starts] ** 2).sum() + np.trace(variance[starts], axis1=1, axis2=2).sum()
    return -0.5 * (float(squares) + mean[starts].size * LOG_2PI)


def _drift_squares(p: Parameters, x: PathPosterior, starts: Bool) -> Float:
    """[T - starts, D] E[(b_t - b_{t-1})^2]."""
    d, inside = len(p.drift), ~starts[1:]
    own = np.diagonal(x.variance, axis1=1, axis2=2)[:, d:]
    both = np.diagonal(x.cross, axis1=1, axis2=2)[1:, d:]
    result: Float = (np.diff(x.mean[:, d:], axis=0) ** 2 + own[1:] + own[:-1] - 2 * both)[inside]
    return result


def _drift_terms(p: Parameters, x: PathPosterior, starts: Bool) -> float:
    squares = _drift_squares(p, x, starts)
    return -0.5 * float((squares / p.drift + LOG_2PI + np.log(p.drift)).sum())


# ---- the two paths ------------------------------------------------------------------------------------------------
def path_given_coefficients(observed: Observed, p: Parameters, mean: Float, second: Float) -> PathPosterior:
    """q(s) from coefficients with the given first [T, K] and second [T, K, K] moments."""
    diagonal, linear = p.whole_emission.information(observed)
    (n, size), d = linear.shape, len(p.noise)
    base, single, square = whitened(p)
    k, m = len(single), base.shape[0]
    once = (mean @ single.reshape(k, m * m)).reshape(n, m, m)
    mixed = (
        base - once - np.swapaxes(once, 1, 2) + (second.reshape(n, k * k) @ square.reshape(k * k, -1)).reshape(n, m, m)
    )
    mixed[observed.starts] = 0.0
    below = np.zeros((n, size, size))
    below[:, :d, :d] = mixed[:, :d, d : 2 * d]
    diagonal[:, :d, :d] += mixed[:, :d, :d]
    diagonal[:-1, :d, :d] += mixed[1:, d : 2 * d, d : 2 * d]
    linear[:, :d] -= mixed[:, :d, -1]
    linear[:-1, :d] -= mixed[1:, d : 2 * d, -1]
    diagonal[observed.starts] += np.eye(size)
    if size > d:
        inside, own = ~observed.starts, np.arange(d, size)
        coupling = inside[:, None] / p.drift
        diagonal[:, own, own] += coupling
        diagonal[:-1, own, own] += coupling[1:]
        below[:, own, own] = -coupling
    return PathPosterior(diagonal, below, linear, d)


def coefficients_given_path(observed: Observed, p: Parameters, moments: Float, weights: Float) -> CoefficientPosterior:
    """q(c) from the path's moments [T, M, M] and E[1 / v] of every step [T - starts, K]."""
    _, single, square = whitened(p)
    k, m = len(single), single.shape[1]
    n, starts = len(moments), observed.starts
    flat = np.where(starts[:, None], 0.0, moments.reshape(n, m * m))
    linear = flat @ single.reshape(k, m * m).T
    diagonal = (flat @ square.reshape(k * k, m * m).T).reshape(n, k, k)
    diagonal = (diagonal + np.swapaxes(diagonal, 1, 2)) / 2
    tie = np.zeros((n, k))
    tie[~starts] = weights
    own = np.arange(k)
    diagonal[:, own, own] += tie + starts[:, None]
    diagonal[:-1, own, own] += p.carry**2 * tie[1:]
    below = np.zeros((n, k, k))
    below[:, own, own] = -p.carry * tie
    linear += p.level * tie
    linear[:-1] -= p.carry * p.level * tie[1:]
    return CoefficientPosterior(diagonal, below, linear)


# ---- parameters ---------------------------------------------------------------------------------------------------
def fit_operators(
    p: Parameters, prior: Prior, x: PathPosterior, c: CoefficientPosterior, starts: Bool
) -> tuple[Float, Float]:
    """(operators, Q): one regression of the path's steps on coefficients times inputs."""
    k, d, _ = p.operators.shape
    width = d + int(prior.constants)
    inside = ~starts
    moments = x.moments[inside]
    inputs = moments[:, d : d + width, d : d + width]
    pairs = c.second_moments()[inside].reshape(-1, k * k).T @ inputs.reshape(-1, width * width)  # [K K, P P]
    gram = np.swapaxes(pairs.reshape(k, k, width, width), 1, 2).reshape(k * width, k * width)
    gram = gram + OPERATOR_STRENGTH * np.eye(k * width)
    steps = moments[:, :d, d : d + width] - moments[:, d : 2 * d, d : d + width]  # [T, D, P]
    each = (c.mean[inside].T @ steps.reshape(-1, d * width)).reshape(k, d, width)
    across = np.swapaxes(each, 0, 1).reshape(d, k * width)
    flat = np.linalg.solve(gram, across.T).T
    still = moments.sum(axis=0)
    squares = still[:d, :d] - still[:d, d : 2 * d] - still[d : 2 * d, :d] + still[d : 2 * d, d : 2 * d]
    scatter = squares - flat @ across.T + prior.noise_scale
    noise = (scatter + scatter.T) / (2 * (len(moments) + prior.noise_power(p.operators)))
    operators = np.zeros_like(p.operators)
    operators[:, :, :width] = np.swapaxes(flat.reshape(d, k, width), 0, 1)
    return operators, noise


def fit_steps(p: Parameters, prior: Prior, c: CoefficientPosterior, starts: Bool) -> Parameters:
    """The coefficients' own dynamics: rho and m by weighted regression, then the scale of their steps."""
    squares = c.squares(p, starts)
    weights = step_weights(squares, p.step, prior.freedom)
    inside = ~starts[1:]
    mean, own = c.mean, np.diagonal(c.variance, axis1=1, axis2=2)
    before, after = mean[:-1][inside], mean[1:][inside]
    both = before * after + np.diagonal(c.cross, axis1=1, axis2=2)[1:][inside]
    total = weights.sum(axis=0) + CARRY_STRENGTH
    first = (weights * before).sum(axis=0)
    second = (weights * (before**2 + own[:-1][inside])).sum(axis=0) + CARRY_STRENGTH
    target = (weights * after).sum(axis=0)
    if prior.carry is None:
        across = (weights * both).sum(axis=0) + CARRY_STRENGTH
        carry = np.clip((across - first * target / total) / (second - first**2 / total), 0.0, 1.0)
    else:
        carry = np.full_like(total, prior.carry)
    p = replace(p, carry=carry, level=(target - carry * first) / total)
    squares = c.squares(p, starts)
    weights = step_weights(squares, p.step, prior.freedom)
    # Given E[1 / v] the scale has a gamma posterior; with its weak prior its mode is the root of a quadratic.
    half = 0.5 * prior.freedom
    a, b = half * weights.sum(axis=0), half * len(weights) - STEP_SHAPE - 1
    step = (b + np.sqrt(b**2 + 4 * a * STEP_RATE)) / (2 * a)
    return replace(p, step=step, jump=squares.mean(axis=0))


def m_step(observed: Observed, p: Parameters, prior: Prior, x: PathPosterior, c: CoefficientPosterior) -> Parameters:
    operators, noise = fit_operators(p, prior, x, c, observed.starts)
    reach = p.reach
    emission = regress_emission(observed, x.mean @ reach.T, reach @ x.variance @ reach.T)
    drift = p.drift
    if len(drift):
        squares = _drift_squares(p, x, observed.starts)
        drift = (squares.sum(axis=0) + 2 * DRIFT_RATE) / (len(squares) + 2 * DRIFT_SHAPE + 2)
    p = replace(p, emission=emission, operators=operators, noise=noise, drift=drift)
    return fit_steps(p, prior, c, observed.starts)


# ---- loops --------------------------------------------------------------------------------------------------------
def update(observed: Observed, p: Parameters, prior: Prior, now: Posterior) -> Posterior:
    """q(s), then q(v) and q(c)."""
    x = path_given_coefficients(observed, p, now.c.mean, now.c.second_moments())
    weights = step_weights(now.c.squares(p, observed.starts), p.step, prior.freedom)
    c = coefficients_given_path(observed, p, x.moments, weights)
    return Posterior(x, c, bound(observed, p, prior, x, c))


def first_posterior(observed: Observed, p: Parameters, prior: Prior) -> Posterior:
    """A start from the model itself: the path read off the observations, tied by steps as wide as the parameters allow."""
    diagonal, linear = p.whole_emission.information(observed)
    (n, size), d = linear.shape, len(p.noise)
    tie = np.zeros((n, size))
    tie[~observed.starts, :d] = 1.0 / np.diagonal(p.noise + _typical_move(p))
    tie[~observed.starts, d:] = 1.0 / p.drift if len(p.drift) else 0.0
    own = np.arange(size)
    below = np.zeros((n, size, size))
    diagonal[:, own, own] += tie + observed.starts[:, None]
    diagonal[:-1, own, own] += tie[1:]
    below[:, own, own] = -tie
    x = PathPosterior(diagonal, below, linear, d)
    steps = n - int(observed.starts.sum())
    weights = np.broadcast_to(1.0 / p.jump, (steps, len(p.jump)))
    c = coefficients_given_path(observed, p, x.moments, weights)
    return Posterior(x, c, bound(observed, p, prior, x, c))


def _typical_move(p: Parameters) -> Float:
    """[D, D] covariance of what the operators do to a latent of unit variance."""
    spread = p.jump / np.maximum(1 - p.carry**2, 0.05) + (p.level / np.maximum(1 - p.carry, 0.05)) ** 2
    result: Float = np.einsum("k,kdp,kep->de", spread, p.operators, p.operators)
    return result


def infer(observed: Observed, p: Parameters, prior: Prior, tolerance: float = 1e-4) -> Posterior:
    """The posterior of given data; ends when a round gains less than `tolerance` nats a sample."""
    first = first_posterior(observed, p, prior)
    return settled(first, lambda now: update(observed, p, prior, now), tolerance * len(observed.y))


def iterate(
    observed: Observed, p: Parameters, prior: Prior, n_iter: int, start: Posterior | None = None
) -> Iterator[tuple[Parameters, Posterior]]:
    """Variational EM; the first item holds what was given."""
    now = first_posterior(observed, p, prior) if start is None else start
    yield p, now
    for _ in range(n_iter):
        p = m_step(observed, p, prior, now.x, now.c)
        now = update(observed, p, prior, now)
        yield p, now
