"""Laplace-EM for switching linear dynamical systems with a structured posterior q(z) q(x).

    x_t ~ N(A_z x_{t-1} + b_z, Q_z)        y_t ~ N(C x_t + d, diag(R))        z_t as in `gdm_core.models.switching.transitions`

q(z) comes from an exact forward-backward pass. q(x) is the Gaussian at the mode of E_q(z)[log p(x, z, y)] with that
mode's curvature: the exact optimum without recurrence, and with it a Laplace approximation, taken only as far as it raises
the bound. The bound has a closed form. Missing entries drop out of the emission. Trials are concatenated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdm_core.arrays import Bool, Float, Values
from gdm_core.maths import hmm
from gdm_core.maths.emission import Emission, Observed, regress_emission
from gdm_core.maths.gaussian import LOG_2PI, GaussianPath, add_joint_steps
from gdm_core.maths.hmm import ChainPosterior
from gdm_core.maths.pca import ComponentScores
from gdm_core.models.em import EM, settle
from gdm_core.models.switching.arhmm_em import ArhmmEM, ARParameters
from gdm_core.models.switching.dynamics import Dynamics, DynamicsPrior
from gdm_core.models.switching.transitions import expected_log_probability

_ROUNDING = 1e-12  # relative to a bound


@dataclass(frozen=True)
class SLDSParameters(ARParameters):
    emission: Emission

    def log_prior(self, prior: DynamicsPrior) -> float:
        return super().log_prior(prior) + self.emission.log_prior()


@dataclass(frozen=True)
class SLDSPosterior:
    """q(z), q(x) and the bound they reach."""

    chain: ChainPosterior
    x: GaussianPath
    chain_entropy: float
    elbo: float


# ---- the bound --------------------------------------------------------------------------------------------------
def dynamics_table(x: GaussianPath, dynamics: Dynamics, starts: Bool) -> Float:
    """Return E_q(x)[log p(x_t | x_{t-1}, z_t = k)] [T, K]; zero at starts."""
    quadratic, logdet = dynamics.quadratic
    d, m = dynamics.covariance.shape[1], x.moments.shape[1]
    table: Float = -0.5 * (x.moments.reshape(-1, m * m) @ quadratic.reshape(-1, m * m).T + logdet + d * LOG_2PI)
    table[starts] = 0.0
    return table


def path_terms(observed: Observed, p: SLDSParameters, x: GaussianPath) -> float:
    """Return E_q(x)[log p(y | x) + log p(x at starts)] plus the entropy of q(x)."""
    emitted = p.emission.expected_log_density(observed, x.mean, x.variance)
    gap = x.mean[observed.starts] - p.start_mean
    scatter = gap[:, :, None] * gap[:, None, :] + x.variance[observed.starts]
    trace = float((np.linalg.inv(p.start_covariance) * scatter.sum(axis=0)).sum())
    size = len(gap) * (len(p.start_mean) * LOG_2PI + np.linalg.slogdet(p.start_covariance)[1])
    return emitted - 0.5 * (trace + float(size)) + x.entropy


@dataclass(frozen=True)
class Terms:
    """Terms of the bound that depend on q(x), for any q(z)."""

    table: Float  # [T, K] of the dynamics
    moves: Float  # [T, R, K] or [K, K] of the transitions
    path: float

    @classmethod
    def prepare(cls, observed: Observed, p: SLDSParameters, x: GaussianPath) -> Terms:
        moves = p.transitions.expected(x.mean, x.variance)
        return cls(dynamics_table(x, p.dynamics, observed.starts), moves, path_terms(observed, p, x))

    def under(self, chain: ChainPosterior, p: SLDSParameters, starts: Bool) -> float:
        """Return the expectation of the table, the transitions and the initial distribution under q(z)."""
        total = float(np.vdot(chain.states, self.table)) + expected_log_probability(self.moves, chain)
        return total + float(chain.states[starts].sum(axis=0) @ p.transitions.log_initial)


def infer_states(observed: Observed, p: SLDSParameters, x: GaussianPath, terms: Terms | None = None) -> SLDSPosterior:
    """Return the best q(z) given q(x), and the bound; pass `terms` of x if they are known."""
    terms = Terms.prepare(observed, p, x) if terms is None else terms
    chain = hmm.posterior(terms.table, p.transitions.log_initial, terms.moves, observed.starts)
    entropy = chain.log_likelihood - terms.under(chain, p, observed.starts)
    return SLDSPosterior(chain, x, entropy, chain.log_likelihood + terms.path)


# ---- q(x) -------------------------------------------------------------------------------------------------------
def quadratic_part(observed: Observed, p: SLDSParameters, chain: ChainPosterior) -> GaussianPath:
    """Return the part of E_q(z)[log p(x, z, y)] that is quadratic in x: all but recurrent transitions."""
    diagonal, linear = p.emission.information(observed)
    _add_starts(observed, p, diagonal, linear)
    forms, _ = p.dynamics.quadratic
    m = forms.shape[1]
    weights = np.where(observed.starts[:, None], 0.0, chain.states)
    below = np.zeros_like(diagonal)
    add_joint_steps(diagonal, below, linear, (weights @ forms.reshape(-1, m * m)).reshape(-1, m, m))
    return GaussianPath(diagonal, below, linear)


def _add_starts(observed: Observed, p: SLDSParameters, diagonal: Float, linear: Float) -> None:
    """Add the distribution of first samples."""
    precision = np.linalg.inv(p.start_covariance)
    diagonal[observed.starts] += precision
    linear[observed.starts] += precision @ p.start_mean


def log_joint(
    quadratic: GaussianPath, p: SLDSParameters, chain: ChainPosterior, x: Float
) -> tuple[float, Float, Float]:
    """Return E_q(z)[log p(x, z, y)] at a path x [T, D], its gradient and the recurrent part of its negative Hessian."""
    pushed = quadratic.times(x)
    value = float((x * (quadratic.linear - 0.5 * pushed)).sum())
    gradient = quadratic.linear - pushed
    if not p.transitions.recurrent:
        return value, gradient, np.zeros((*x.shape, x.shape[1]))
    extra, slope, curve = p.transitions.path_derivatives(x, chain)
    return value + extra, gradient + slope, curve


def laplace(quadratic: GaussianPath, p: SLDSParameters, chain: ChainPosterior, x: Float, steps: int) -> GaussianPath:
    """Return the Gaussian at the mode of q(x), found by Newton's method with a line search."""
    if not p.transitions.recurrent:
        return quadratic
    value, gradient, curve = log_joint(quadratic, p, chain, x)
    at = GaussianPath(quadratic.diagonal + curve, quadratic.below, gradient)
    for _ in range(steps):
        move = at.mean
        gain = float((move * gradient).sum())
        if gain < 1e-6 * len(x):
            break
        for shrink in (1.0, 0.5, 0.25, 0.1, 0.02):
            trial = x + shrink * move
            trial_value, trial_gradient, trial_curve = log_joint(quadratic, p, chain, trial)
            if trial_value >= value:
                x, value, gradient = trial, trial_value, trial_gradient
                at = GaussianPath(quadratic.diagonal + trial_curve, quadratic.below, gradient)
                break
        else:
            break
    return at.recentre(x)


def infer_path(observed: Observed, p: SLDSParameters, now: SLDSPosterior) -> tuple[GaussianPath, Terms | None]:
    """Return q(x) given q(z), and its terms if they were computed.

    This is the Laplace approximation, or a step towards it that raises the bound.
    """
    quadratic = quadratic_part(observed, p, now.chain)
    target = laplace(quadratic, p, now.chain, now.x.mean, steps=3)
    if not p.transitions.recurrent:
        return target, None
    least = now.elbo - _ROUNDING * abs(now.elbo)
    for share in (1.0, 0.5, 0.2, 0.05):
        x = target if share == 1.0 else now.x.move_towards(target, share)
        terms = Terms.prepare(observed, p, x)
        if terms.under(now.chain, p, observed.starts) + now.chain_entropy + terms.path >= least:
            return x, terms
    return now.x, None


# ---- parameters -------------------------------------------------------------------------------------------------
def fit_dynamics(observed: Observed, now: SLDSPosterior, prior: DynamicsPrior) -> Dynamics:
    weights = np.where(observed.starts[:, None], 0.0, now.chain.states)
    m = now.x.moments.shape[1]
    moments = (weights.T @ now.x.moments.reshape(-1, m * m)).reshape(-1, m, m)
    return Dynamics.fit(moments, prior)


def m_step(observed: Observed, p: SLDSParameters, now: SLDSPosterior, prior: DynamicsPrior) -> SLDSParameters:
    """Raise every block of parameters in turn."""
    x = now.x
    return replace(
        p,
        transitions=p.transitions.fit(now.chain, observed.starts, x.mean, x.variance, steps=1),
        emission=regress_emission(observed, x.mean, x.variance),
        dynamics=fit_dynamics(observed, now, prior),
    )


# ---- inference and EM -------------------------------------------------------------------------------------------
def first_posterior(observed: Observed, p: SLDSParameters) -> SLDSPosterior:
    """Return a first posterior: the path from observations alone, then states that allow for its uncertainty."""
    e = p.emission
    a, b = p.dynamics.coefficients[:, :, :-1], p.dynamics.coefficients[:, :, -1]
    if observed.mask is None:
        weighted = e.loadings / e.noise[:, None]
        blur = np.linalg.inv(e.loadings.T @ weighted + np.linalg.inv(p.start_covariance))
        x = p.start_mean + (observed.y - e.offset - p.start_mean @ e.loadings.T) @ weighted @ blur
        before = np.concatenate([x[:1], x[:-1]])
        blurred = Dynamics(p.dynamics.coefficients, p.dynamics.covariance + blur + a @ blur @ np.swapaxes(a, 1, 2))
        table = blurred.log_density(np.concatenate([x, before, np.ones((len(x), 1))], axis=1))
    else:
        x, variance = _random_walk_path(observed, p)
        error = x[1:, None] - (a @ x[:-1, None, :, None])[..., 0] - b  # [T - 1, K, D]
        spread = p.dynamics.covariance + variance[1:, None] + a @ variance[:-1, None] @ np.swapaxes(a, 1, 2)
        table = np.zeros((len(x), len(a)))
        square = (error * np.linalg.solve(spread, error[..., None])[..., 0]).sum(axis=2)
        table[1:] = -0.5 * (square + np.linalg.slogdet(spread)[1])
    table[observed.starts] = 0.0
    chain = hmm.posterior(table, p.transitions.log_initial, p.transitions.expected(x), observed.starts)
    path = laplace(quadratic_part(observed, p, chain), p, chain, x, steps=4)
    return infer_states(observed, p, path)


def _random_walk_path(observed: Observed, p: SLDSParameters) -> tuple[Float, Float]:
    """Return mean and variance of a random walk with steps as large as the states'."""
    a, b = p.dynamics.coefficients[:, :, :-1], p.dynamics.coefficients[:, :, -1]
    drift = a - np.eye(a.shape[1])
    steps = p.dynamics.covariance + b[:, :, None] * b[:, None, :]
    walk = np.linalg.inv((steps + drift @ p.start_covariance @ np.swapaxes(drift, 1, 2)).mean(axis=0))
    diagonal, linear = p.emission.information(observed)
    _add_starts(observed, p, diagonal, linear)
    below = np.tile(-walk, (len(linear), 1, 1))
    below[observed.starts] = 0.0
    diagonal -= below
    diagonal[:-1] -= below[1:]
    path = GaussianPath(diagonal, below, linear)
    return path.mean, path.covariances[0]


def infer(observed: Observed, p: SLDSParameters, tolerance: float = 1e-5) -> SLDSPosterior:
    """Infer the posterior under given parameters, until a round gains less than `tolerance` nats per sample."""

    def improve(now: SLDSPosterior) -> SLDSPosterior:
        return infer_states(observed, p, *infer_path(observed, p, now))

    return settle(first_posterior(observed, p), improve, tolerance * len(observed.y))


@dataclass(frozen=True)
class LaplaceEM(EM[SLDSParameters, SLDSPosterior]):
    """Variational EM."""

    observed: Observed
    prior: DynamicsPrior
    scores: ArhmmEM  # of the principal-component scores, for starts

    @classmethod
    def prepare(cls, ys: list[Values], n_latent: int, noise_floor: Float | None = None) -> LaplaceEM:
        scores = ArhmmEM.prepare(ys, ComponentScores.fit(ys, n_latent, noise_floor), 1, noise_floor)
        return cls(Observed.prepare(ys, noise_floor), replace(scores.prior, floor=None), scores)

    @property
    def n_samples(self) -> int:
        return len(self.observed.y)

    def infer_first(self, p: SLDSParameters) -> SLDSPosterior:
        return first_posterior(self.observed, p)

    def update(self, p: SLDSParameters, posterior: SLDSPosterior) -> tuple[SLDSParameters, SLDSPosterior]:
        observed = self.observed
        now = replace(posterior, x=infer_path(observed, p, posterior)[0])
        p = m_step(observed, p, now, self.prior)
        return p, infer_states(observed, p, now.x)
