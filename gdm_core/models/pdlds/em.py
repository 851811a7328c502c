"""Variational EM for probabilistic decomposed linear dynamical systems, in closed form.

    l_t ~ N(l_{t-1} + sum_k c_tk (A_k l_{t-1} + a_k), Q)      b_t ~ N(b_{t-1}, S)      y_t ~ N(C (l_t + b_t) + d, diag(R))
    c_tk = rho_k c_{t-1,k} + m_k + e_tk                       e_tk ~ Student-t: mostly close to zero, seldom large

The posterior is q(s) q(c) q(v), with s = (l, b) and v the variances of the Student-t steps. Given the others, q(s) and
q(c) are Gaussian paths and q(v) is inverse-gamma, so the bound is exact and no update lowers it. With q(v) at its optimum,
each step of a coefficient enters the bound as a Student-t density at its root mean square.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln, ndtr

from gdm_core.arrays import Array, Bool, Float
from gdm_core.maths.emission import Emission, Observed, regress_emission
from gdm_core.maths.gaussian import LOG_2PI, GaussianPath, add_joint_steps, add_steps, joint_moments
from gdm_core.maths.pca import ComponentScores
from gdm_core.models.em import CLEAR_GAIN, EM, EMConfig, settle
from gdm_core.models.starts import candidate_states

# Priors, weak compared with a hundred samples; they keep unused operators and small noises away from zero.
OPERATOR_STRENGTH = 1e-2  # of the operators' entries, in units of Q
NOISE_FREEDOM = 4.0  # inverse-Wishart of Q
STEP_SHAPE, STEP_RATE = 1.0, 1e-3  # gamma precision of the coefficients' steps
CARRY_STRENGTH = 1.0  # Gaussian on (rho - 1, m)
DRIFT_SHAPE, DRIFT_RATE = 10.0, 1e-6  # inverse-gamma of S: slow compared with the dynamics
_SHORT_RUN = 10  # iterations of each start
_RIDGE = 1e-3  # on operators, as a share of a cluster's samples
_DYNAMICS_SHARE = 0.02  # of the clusters' residual variance, for the first noise of the dynamics
_FIRST_DRIFT = 1e-6  # small: the offset grows where the data need it


@dataclass(frozen=True)
class Prior:
    """Prior of the parameters."""

    noise_scale: Float  # [D, D] of the inverse-Wishart prior of Q
    freedom: float  # of the Student-t steps

    def noise_power(self, operators: Float) -> float:
        """Return the power of 1 / det(Q)^(1/2) in the priors of operators and Q together."""
        k, d, _ = operators.shape
        return float(k * (d + 1) + NOISE_FREEDOM + d + 1)


@dataclass(frozen=True)
class Parameters:
    emission: Emission
    operators: Float  # [K, D, D + 1], rows [A_k, a_k]
    noise: Float  # Q [D, D]
    drift: Float  # S [D] variances
    carry: Float  # rho [K]
    level: Float  # m [K]
    step: Float  # [K] squared scale of e
    jump: Float  # [K] mean square of e under the posterior; inference starts from it

    @property
    def reach(self) -> Float:
        """Map [D, S] from the path s to the sum of l and b."""
        return np.tile(np.eye(len(self.noise)), 2)

    @property
    def path_emission(self) -> Emission:
        """Emission of y from the path s."""
        return replace(self.emission, loadings=self.emission.loadings @ self.reach)

    def mix_operators(self, c: Float) -> Float:
        """Return the sum [..., D, D + 1] of operators with coefficients [..., K]."""
        k, d, p = self.operators.shape
        return (c @ self.operators.reshape(k, d * p)).reshape(*c.shape[:-1], d, p)

    def orient(self, c: Float) -> Parameters:
        """Return the same model with every operator's sign chosen for mostly positive coefficients [T, K]."""
        side = np.where(c.mean(axis=0) < 0, -1.0, 1.0)
        return replace(self, operators=self.operators * side[:, None, None], level=self.level * side)

    def log_prior(self, prior: Prior) -> float:
        d = len(self.noise)
        precision = np.linalg.inv(self.noise)
        flat = np.swapaxes(self.operators, 0, 1).reshape(d, -1)
        scatter = OPERATOR_STRENGTH * flat @ flat.T + prior.noise_scale
        power = prior.noise_power(self.operators)
        total = -0.5 * (np.linalg.slogdet(self.noise)[1] * power + (precision * scatter).sum())
        total -= ((STEP_SHAPE + 1) * np.log(self.step) + STEP_RATE / self.step).sum()
        total -= 0.5 * CARRY_STRENGTH * ((self.carry - 1) ** 2 + self.level**2).sum()
        total -= ((DRIFT_SHAPE + 1) * np.log(self.drift) + DRIFT_RATE / self.drift).sum()
        return self.emission.log_prior() + float(total)


@dataclass(frozen=True, eq=False)
class PathPosterior(GaussianPath):
    """q(s), whose first D dimensions are l."""

    n_latent: int

    @cached_property
    def moments(self) -> Float:
        """[T, M, M] of [l_t, l_{t-1}, 1], M = 2D + 1; at a start only the l_t block counts."""
        d = self.n_latent
        return joint_moments(self.mean[:, :d], self.variance[:, :d, :d], self.cross[:, :d, :d])


class CoefficientPosterior(GaussianPath):
    """q(c); c of a start belongs to no step and is under its prior N(0, 1) alone."""

    def squares(self, p: Parameters, starts: Bool) -> Float:
        """Return E[e^2] of every step [T - starts, K]."""
        return self.step_squares(starts, p.carry, p.level)

    def shares(self) -> Float:
        """Return soft states [T, K]: each operator's share of the expected positive parts of all coefficients."""
        return positive_shares(self.mean, np.sqrt(np.diagonal(self.variance, axis1=1, axis2=2)))

    def second_moments(self) -> Float:
        """[T, K, K]."""
        return self.variance + self.mean[:, :, None] * self.mean[:, None, :]


def positive_shares(mean: Float, deviation: Float) -> Float:
    """Return proportions [T, K] of E[max(c, 0)] for Gaussian c; equal ones where no coefficient is positive."""
    scaled = mean / np.maximum(deviation, 1e-12)
    density = np.exp(-0.5 * np.minimum(scaled**2, 1e3)) / np.sqrt(2 * np.pi)
    positive = np.maximum(mean * ndtr(scaled) + deviation * density, 0.0) + 1e-12
    return positive / positive.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Posterior:
    x: PathPosterior
    c: CoefficientPosterior
    elbo: float


# ---- the bound ----------------------------------------------------------------------------------------------------
def step_weights(squares: Float, step: Float, freedom: float) -> Float:
    """Return E[1 / v] of every step under the best q(v)."""
    return (freedom + 1) / (freedom * step + squares)


def step_terms(squares: Float, step: Float, freedom: float) -> float:
    """Return E[log p(c_t | c_{t-1}, v)] - KL(q(v) || p(v)) under the best q(v), summed over steps."""
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(np.pi * freedom * step)
    return float((constant - 0.5 * (freedom + 1) * np.log1p(squares / (freedom * step))).sum())


def whiten_operators(p: Parameters) -> tuple[Float, Float, Float]:
    """Return B [M, M], G [K, M, M], H [K, K, M, M] of a quadratic form in [l_t, l_{t-1}, 1].

    The precision-weighted square of l_t - l_{t-1} - sum_k c_k (A_k l_{t-1} + a_k) is
    B - sum_k c_k (G_k + G_k') + sum_kj c_k c_j H_kj.
    """
    k, d, _ = p.operators.shape
    precision = np.linalg.inv(p.noise)
    still = np.concatenate([np.eye(d), -np.eye(d), np.zeros((d, 1))], axis=1)  # [D, M]
    moving = np.concatenate([np.zeros((k, d, d)), p.operators], axis=2)  # [K, D, M]
    base = still.T @ precision @ still
    linear = still.T @ precision @ moving
    square = np.swapaxes(moving, 1, 2)[:, None] @ precision @ moving[None]
    return base, linear, square


def dynamics_terms(p: Parameters, x: PathPosterior, c: CoefficientPosterior, starts: Bool) -> float:
    """Return E[log p(l_t | l_{t-1}, c_t)] summed over all but starts."""
    base, linear, square = whiten_operators(p)
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
    """Return the ELBO of q(s) q(c) with the best q(v)."""
    starts = observed.starts
    total = p.path_emission.expected_log_density(observed, x.mean, x.variance)
    total += dynamics_terms(p, x, c, starts) + _start_terms(x.mean, x.variance, starts) + x.entropy
    total += _drift_terms(p, x, starts)
    total += step_terms(c.squares(p, starts), p.step, prior.freedom)
    return total + _start_terms(c.mean, c.variance, starts) + c.entropy


def _start_terms(mean: Float, variance: Float, starts: Bool) -> float:
    """Return E[log N(first sample | 0, I)]."""
    squares = (mean[starts] ** 2).sum() + np.trace(variance[starts], axis1=1, axis2=2).sum()
    return -0.5 * (float(squares) + mean[starts].size * LOG_2PI)


def _drift_terms(p: Parameters, x: PathPosterior, starts: Bool) -> float:
    squares = x.step_squares(starts)[:, len(p.drift) :]
    return -0.5 * float((squares / p.drift + LOG_2PI + np.log(p.drift)).sum())


# ---- the two paths ------------------------------------------------------------------------------------------------
def path_given_coefficients(observed: Observed, p: Parameters, mean: Float, second: Float) -> PathPosterior:
    """Return q(s) given first [T, K] and second [T, K, K] moments of the coefficients."""
    diagonal, linear = p.path_emission.information(observed)
    n, d = len(linear), len(p.noise)
    base, single, square = whiten_operators(p)
    k, m = len(single), base.shape[0]
    once = (mean @ single.reshape(k, m * m)).reshape(n, m, m)
    twice = (second.reshape(n, k * k) @ square.reshape(k * k, -1)).reshape(n, m, m)
    mixed = base - once - np.swapaxes(once, 1, 2) + twice
    mixed[observed.starts] = 0.0
    below = np.zeros_like(diagonal)
    add_joint_steps(diagonal[:, :d, :d], below[:, :d, :d], linear[:, :d], mixed)
    diagonal[observed.starts] += np.eye(2 * d)
    add_steps(diagonal[:, d:, d:], below[:, d:, d:], ~observed.starts[:, None] / p.drift)
    return PathPosterior(diagonal, below, linear, d)


def coefficients_given_path(observed: Observed, p: Parameters, moments: Float, weights: Float) -> CoefficientPosterior:
    """Return q(c) given the path's moments [T, M, M] and E[1 / v] of every step, [T - starts, K] or [K]."""
    _, single, square = whiten_operators(p)
    k, m = len(single), single.shape[1]
    n, starts = len(moments), observed.starts
    flat = np.where(starts[:, None], 0.0, moments.reshape(n, m * m))
    linear = flat @ single.reshape(k, m * m).T
    diagonal = (flat @ square.reshape(k * k, m * m).T).reshape(n, k, k)
    diagonal = (diagonal + np.swapaxes(diagonal, 1, 2)) / 2
    tie, below = np.zeros((n, k)), np.zeros((n, k, k))
    tie[~starts] = weights
    diagonal[starts] += np.eye(k)
    add_steps(diagonal, below, tie, p.carry)
    linear += p.level * tie
    linear[:-1] -= p.carry * p.level * tie[1:]
    return CoefficientPosterior(diagonal, below, linear)


# ---- parameters ---------------------------------------------------------------------------------------------------
def fit_operators(
    p: Parameters, prior: Prior, x: PathPosterior, c: CoefficientPosterior, starts: Bool
) -> tuple[Float, Float]:
    """Return operators and Q by one regression of the path's steps on coefficients times inputs."""
    k, d, _ = p.operators.shape
    width = d + 1
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
    return np.ascontiguousarray(np.swapaxes(flat.reshape(d, k, width), 0, 1)), noise


def fit_steps(p: Parameters, prior: Prior, c: CoefficientPosterior, starts: Bool) -> Parameters:
    """Update the coefficients' dynamics: rho and m by weighted regression, then the scale of their steps."""
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
    across = (weights * both).sum(axis=0) + CARRY_STRENGTH
    carry = np.clip((across - first * target / total) / (second - first**2 / total), 0.0, 1.0)
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
    squares = x.step_squares(observed.starts)[:, len(p.drift) :]
    drift = (squares.sum(axis=0) + 2 * DRIFT_RATE) / (len(squares) + 2 * DRIFT_SHAPE + 2)
    p = replace(p, emission=emission, operators=operators, noise=noise, drift=drift)
    return fit_steps(p, prior, c, observed.starts)


# ---- loops --------------------------------------------------------------------------------------------------------
def update(observed: Observed, p: Parameters, prior: Prior, now: Posterior) -> Posterior:
    """Update q(s), then q(v) and q(c)."""
    x = path_given_coefficients(observed, p, now.c.mean, now.c.second_moments())
    weights = step_weights(now.c.squares(p, observed.starts), p.step, prior.freedom)
    c = coefficients_given_path(observed, p, x.moments, weights)
    return Posterior(x, c, bound(observed, p, prior, x, c))


def first_posterior(observed: Observed, p: Parameters, prior: Prior) -> Posterior:
    """Return a first posterior: a random-walk path with steps as wide as the parameters allow, then coefficients."""
    diagonal, linear = p.path_emission.information(observed)
    below = np.zeros_like(diagonal)
    diagonal[observed.starts] += np.eye(linear.shape[1])
    width = np.concatenate([np.diagonal(p.noise + _typical_move(p)), p.drift])
    add_steps(diagonal, below, ~observed.starts[:, None] / width)
    x = PathPosterior(diagonal, below, linear, len(p.noise))
    c = coefficients_given_path(observed, p, x.moments, 1.0 / p.jump)
    return Posterior(x, c, bound(observed, p, prior, x, c))


def _typical_move(p: Parameters) -> Float:
    """Return the covariance [D, D] of the operators' effect on a latent of unit variance."""
    spread = p.jump / np.maximum(1 - p.carry**2, 0.05) + (p.level / np.maximum(1 - p.carry, 0.05)) ** 2
    return np.einsum("k,kdp,kep->de", spread, p.operators, p.operators)


def infer(observed: Observed, p: Parameters, prior: Prior, tolerance: float = 1e-4) -> Posterior:
    """Infer the posterior under given parameters, until a round gains less than `tolerance` nats per sample."""
    first = first_posterior(observed, p, prior)
    return settle(first, lambda now: update(observed, p, prior, now), tolerance * len(observed.y))


# ---- EM and its starts: clusters of steps, each with one operator -----------------------------------------------------
@dataclass(frozen=True)
class Series:
    """Principal-component scores of all trials, concatenated, and their steps."""

    scores: ComponentScores
    x: Float  # [T, D]
    before: Float  # [T, D] the sample before; at a start the sample itself
    inside: Bool  # [T] false at starts
    noise: Float  # [N] residual variance of every channel

    @classmethod
    def prepare(cls, ys: list[Array], n_latent: int, observed: Observed) -> Series:
        scores = ComponentScores.fit(ys, n_latent)
        filled = np.concatenate([scores.factors.fill(y) for y in ys])
        x = scores.project(filled)
        before = np.concatenate([x[:1], x[:-1]])
        before[observed.starts] = x[observed.starts]
        rest = max(filled.shape[1] - n_latent, 1)
        residual = filled - scores.expand(x)
        noise = np.maximum((residual**2).mean(axis=0) * filled.shape[1] / rest, 1e-5)
        return cls(scores, x, before, ~observed.starts, noise)

    @property
    def moves(self) -> Float:
        return self.x - self.before

    @property
    def noise_scale(self) -> Float:
        """Scale [D, D] of the prior of Q, a thousandth of the steps' variance."""
        return np.diag(1e-3 * np.maximum((self.moves[self.inside] ** 2).mean(axis=0), 1e-6))


def from_coefficients(series: Series, member: Float, prior: Prior) -> Parameters:
    """Return the parameters that coefficients [T, K] imply."""
    inside = series.inside
    c, before, moves = member[inside], series.before[inside], series.moves[inside]
    n, d = moves.shape
    k = c.shape[1]
    inputs = np.concatenate([before, np.ones((n, 1))], axis=1)
    design = (c[:, :, None] * inputs[:, None, :]).reshape(n, -1)  # [T, K P]
    gram = design.T @ design + _RIDGE * n / k * np.eye(design.shape[1])
    flat = np.linalg.solve(gram, design.T @ moves)  # [K P, D]
    residual = moves - design @ flat
    operators = np.ascontiguousarray(np.swapaxes(flat.reshape(k, -1, d), 1, 2))
    noise = _DYNAMICS_SHARE * residual.T @ residual / n + prior.noise_scale
    steps = np.diff(member, axis=0)[inside[1:]]
    jump = np.maximum((steps**2).mean(axis=0), 1e-3)
    carry = np.full(k, 0.9)
    emission = Emission(series.scores.loadings, series.scores.center, series.noise)
    drift = np.full(d, _FIRST_DRIFT)
    return Parameters(emission, operators, noise, drift, carry, (1 - carry) * c.mean(axis=0), 0.5 * jump, jump)


@dataclass(frozen=True)
class PdldsEM(EM[Parameters, Posterior]):
    """Variational EM."""

    observed: Observed
    series: Series
    prior: Prior

    @property
    def n_samples(self) -> int:
        return len(self.observed.y)

    def infer_first(self, p: Parameters) -> Posterior:
        return first_posterior(self.observed, p, self.prior)

    def update(self, p: Parameters, posterior: Posterior) -> tuple[Parameters, Posterior]:
        p = m_step(self.observed, p, self.prior, posterior.x, posterior.c)
        return p, update(self.observed, p, self.prior, posterior)

    def best_start(self, c: EMConfig) -> tuple[Parameters, Posterior]:
        """Return the best of several short runs; the first, unless another is clearly better."""
        guesses = candidate_states(self.series.x, ~self.series.inside, c.n_states, range(c.n_restarts), c.seed)
        starts = (from_coefficients(self.series, np.eye(c.n_states)[guess], self.prior) for guess in guesses)
        return self.choose((self.run(one, min(_SHORT_RUN, c.n_iter)) for one in starts), CLEAR_GAIN)
