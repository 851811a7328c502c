"""Probabilistic decomposed linear dynamical systems (p-dLDS).

K dynamic operators are mixed by coefficients c_t that change smoothly with rare jumps; the latent path is the sum of fast
dynamics l and a slow offset b. After Chen, Mudrik and Charles (NeurIPS 2024), with a likelihood that has an exact lower
bound: see `gdm_core.models.pdlds.em`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from gdm_core.arrays import Array, Float, Ints
from gdm_core.errors import FitError
from gdm_core.maths.emission import Emission, Observed
from gdm_core.models.em import N_ITER, N_RESTARTS, EMConfig, EMModel
from gdm_core.models.parameters import number, parameter, parameters_of, whole
from gdm_core.models.pdlds import em
from gdm_core.models.pdlds.em import Parameters, Posterior, Prior, positive_shares
from gdm_core.trials import TrialsLike

_STRETCH, RUN_UP = 64, 256  # samples filtered side by side; the run-up is long because of the slow offset
_FAR = 1e30  # close to the range of float32
_PLAIN = ("operators", "noise", "drift", "carry", "level", "step", "jump")


@dataclass(frozen=True)
class PDLDSConfig(EMConfig):
    """Parameters of a `PDLDS`."""

    n_states: int = parameter(4, "Number of operators (K).", whole(most=64), "K")
    _: KW_ONLY
    # From a half on, steps of coefficients have no variance and forecasts no mean.
    sparsity: float = parameter(
        0.3,
        "Sparsity of the coefficients' steps: a Student-t distribution with 1 / sparsity degrees of freedom.",
        number(
            lambda share: 0.001 <= share < 0.5, "a number from 0.001 (Gaussian steps) to below 0.5 (few, large ones)"
        ),
    )
    n_iter: int = parameter(60, N_ITER, whole())
    n_restarts: int = parameter(3, N_RESTARTS, whole())


class PDLDS(EMModel[Parameters, Posterior]):
    """Decomposed linear dynamics with K operators."""

    family: ClassVar[str] = "pdlds"
    config_class: ClassVar[type] = PDLDSConfig
    why_not_online = "its shares follow from coefficients that are smoothed over whole recordings"
    config: PDLDSConfig

    @parameters_of(PDLDSConfig)
    def __init__(self) -> None: ...

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _algorithm(self, ys: list[Array], fitted: bool = False) -> em.PdldsEM:
        observed = Observed.prepare(ys, self._noise_floor)
        series = em.Series.prepare(ys, self.config.n_dimensions, observed)
        return em.PdldsEM(observed, series, self._prior_with(series.noise_scale))

    def _first_parameters(self, algorithm: em.PdldsEM) -> tuple[Parameters, Posterior]:
        return algorithm.best_start(self.config)

    def _parameters_from(self, algorithm: em.PdldsEM, states: Float) -> Parameters:
        return em.from_coefficients(algorithm.series, states, algorithm.prior)

    # ---- parameters as arrays -----------------------------------------------------------------------------------
    def _keep(self, algorithm: em.PdldsEM, p: Parameters, posterior: Posterior | None = None) -> None:
        if posterior is not None:
            p = p.orient(posterior.c.mean)
        plain = {name: getattr(p, name) for name in _PLAIN}
        emission = {f"emission_{name}": value for name, value in vars(p.emission).items()}
        self.params_ = plain | emission | {"noise_scale": algorithm.prior.noise_scale}

    @property
    def _parameters(self) -> Parameters:
        p = {name: np.asarray(value, np.float64) for name, value in self.params_.items()}
        emission = Emission(p["emission_loadings"], p["emission_offset"], p["emission_noise"])
        return Parameters(emission, **{name: p[name] for name in _PLAIN})

    def _prior_with(self, noise_scale: Float) -> Prior:
        return Prior(noise_scale, 1 / self.config.sparsity)

    @property
    def _prior(self) -> Prior:
        return self._prior_with(np.asarray(self.params_["noise_scale"], np.float64))

    # ---- one trial ----------------------------------------------------------------------------------------------
    def _posterior(self, y: Array) -> Posterior:
        return em.infer(Observed.prepare([y]), self._parameters, self._prior)

    def coefficients(self, data: TrialsLike) -> Any:
        """Return the mixing coefficients c [T, K] of `data`, of either sign; a list for several trials."""
        return self._each(data, lambda y: self._infer(y).c.mean.astype(np.float32))

    def _soft_states(self, y: Array) -> Array:
        return self._infer(y).c.shares().astype(np.float32)

    def _reconstruct(self, y: Array) -> Array:
        return self._parameters.emission.mean(self._path(y)).astype(np.float32)

    def _latent(self, y: Array) -> Array:
        return self._path(y).astype(np.float32)

    def _path(self, y: Array) -> Float:
        """Return the posterior mean [T, D] of l + b."""
        return self._infer(y).x.mean @ self._parameters.reach.T

    def _paths(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        p, freedom = self._parameters, self._prior.freedom
        belief = filter_up_to(origins, y, p, p.step * freedom / (freedom - 2))
        path, _ = sample_forward(p, freedom, belief.sample(n_paths, rng), horizon, rng)
        return p.emission.sample(path @ p.reach.T, rng)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        p = self._parameters
        first = first_belief(1, p).sample(1, rng)[0, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            path, c = sample_forward(p, self._prior.freedom, first, n_samples - 1, rng)
        # Operators may amplify a path for as long as they are active.
        if (far := ~(np.abs(path) < _FAR).all(axis=1)).any():
            raise FitError(
                f"The sampled path ran off to infinity after {int(far.argmax()) + 1} samples: this model's operators can "
                "amplify without end. Sample fewer, or with another seed."
            )
        size = p.reach.shape[1]
        x = np.concatenate([first[None, :size], path]) @ p.reach.T
        c = np.concatenate([first[None, size:], c])
        return p.emission.sample(x, rng), positive_shares(c, np.zeros_like(c)).astype(np.float32), x.astype(np.float32)


# ---- causal filter and sampling -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PathBelief:
    """Gaussians over [s, c] at B time steps; s = (l, b) has S dimensions and c has K."""

    mean: Float  # [B, S + K]
    covariance: Float  # [B, S + K, S + K]

    def sample(self, n: int, rng: np.random.Generator) -> Float:
        """Draw [s, c] [n, B, S + K]."""
        factor = np.linalg.cholesky(self.covariance + 1e-12 * np.eye(self.mean.shape[1]))
        noise = rng.standard_normal((n, *self.mean.shape))
        return self.mean + (factor @ noise[..., None])[..., 0]


def first_belief(n: int, p: Parameters) -> PathBelief:
    """Return the belief before the first sample of a recording."""
    size = p.reach.shape[1] + len(p.operators)
    return PathBelief(np.zeros((n, size)), np.tile(np.eye(size), (n, 1, 1)))


def filter_up_to(origins: Ints, y: Array, p: Parameters, step_variance: Float) -> PathBelief:
    """Filter y [T, N] up to each origin; `step_variance` [K] is that of the coefficients' steps.

    This is an extended Kalman filter over path and coefficients, with the exact mean and covariance of their product:
    linearised, an unknown offset would look known. Stretches of a recording run side by side, each after a run-up.
    """
    observed = Observed.prepare([y[: int(origins.max()) + 1]])
    information, linear = p.emission.information(observed)  # of l + b
    ends, stretch = np.unique(origins // _STRETCH, return_inverse=True)
    first = np.maximum(ends * _STRETCH - RUN_UP, 0)
    reach = origins - first[stretch]
    belief = first_belief(len(first), p)
    size = belief.mean.shape[1]
    result = PathBelief(np.empty((len(origins), size)), np.empty((len(origins), size, size)))
    for step in range(int(reach.max()) + 1):
        now, here = np.minimum(first + step, origins.max()), reach == step
        if step:
            belief = predict(belief, p, step_variance)
        belief = update(belief, information[now], linear[now], p)
        result.mean[here], result.covariance[here] = belief.mean[stretch[here]], belief.covariance[stretch[here]]
    return result


def predict(belief: PathBelief, p: Parameters, step_variance: Float) -> PathBelief:
    """Predict one step ahead: coefficients, then the path."""
    k, d, _ = p.operators.shape
    size = p.reach.shape[1]
    mean, covariance = belief.mean.copy(), belief.covariance.copy()
    mean[:, size:] = p.carry * mean[:, size:] + p.level
    covariance[:, size:] *= p.carry[:, None]
    covariance[:, :, size:] *= p.carry
    own = np.arange(size, size + k)
    covariance[:, own, own] += step_variance
    matrices, constants = p.operators[:, :, :d], p.operators[:, :, d]
    pushes = np.einsum("kij,bj->bik", matrices, mean[:, :d]) + constants.T  # [B, D, K] effect of each operator on l
    whole = np.eye(size + k)
    jacobian = np.tile(whole, (len(mean), 1, 1))
    jacobian[:, :d, :d] += p.mix_operators(mean[:, size:])[:, :, :d]
    jacobian[:, :d, size:] = pushes
    move = (pushes @ mean[:, size:, None])[:, :, 0] + np.einsum("kij,bjk->bi", matrices, covariance[:, :d, size:])
    mean[:, :d] += move
    product = _product_covariance(
        matrices, covariance[:, :d, :d], covariance[:, :d, size:], covariance[:, size:, size:]
    )
    covariance = jacobian @ covariance @ np.swapaxes(jacobian, 1, 2)
    covariance[:, :d, :d] += p.noise + product
    drifting = np.arange(d, size)
    covariance[:, drifting, drifting] += p.drift
    return PathBelief(mean, covariance)


def _product_covariance(matrices: Float, path: Float, across: Float, coefficients: Float) -> Float:
    """Return the part [B, D, D] of the covariance of sum_k c_k A_k l that a linearisation leaves out.

    matrices      [K, D, D]
    path          [B, D, D] covariance of l
    across        [B, D, K] covariance of l and c
    coefficients  [B, K, K] covariance of c
    """
    k, d, _ = matrices.shape
    moved = matrices @ path[:, None]  # [B, K, D, D] A_k Cov(l)
    mixed = (coefficients @ moved.reshape(-1, k, d * d)).reshape(moved.shape)
    both = (mixed @ np.swapaxes(matrices, 1, 2)).sum(axis=1)
    carried = matrices @ across[:, None]  # [B, K, D, K] A_k Cov(l, c)
    return both + np.einsum("bkij,bjnk->bin", carried, carried)


def update(belief: PathBelief, information: Float, linear: Float, p: Parameters) -> PathBelief:
    """Condition on a sample; one without observations has zero information and changes nothing."""
    d, size = p.reach.shape
    across = belief.covariance[:, :, :size] @ p.reach.T  # [B, S + K, D] covariance with l + b
    system = np.eye(d) + information @ (p.reach @ across[:, :size])
    gain = across @ np.linalg.solve(system, information)
    covariance = belief.covariance - gain @ np.swapaxes(across, 1, 2)
    covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
    surprise = linear - (information @ (belief.mean[:, :size] @ p.reach.T)[:, :, None])[:, :, 0]
    after = covariance[:, :, :size] @ p.reach.T
    return PathBelief(belief.mean + (after @ surprise[:, :, None])[:, :, 0], covariance)


def sample_forward(
    p: Parameters, freedom: float, state: Float, horizon: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Sample paths s [..., H, S] and coefficients [..., H, K] that follow [s, c] [..., S + K]."""
    d, size = p.reach.shape
    factor = np.linalg.cholesky(p.noise)
    s, c = state[..., :size].copy(), state[..., size:]
    paths, coefficients = np.empty((*s.shape[:-1], horizon, size)), np.empty((*c.shape[:-1], horizon, c.shape[-1]))
    for step in range(horizon):
        c = p.carry * c + p.level + np.sqrt(p.step) * rng.standard_t(freedom, c.shape)
        operator = p.mix_operators(c)
        move = (operator[..., :d] @ s[..., :d, None])[..., 0] + operator[..., d]
        s[..., :d] += move + rng.standard_normal(move.shape) @ factor.T
        s[..., d:] += rng.standard_normal(s[..., d:].shape) * np.sqrt(p.drift)
        paths[..., step, :], coefficients[..., step, :] = s, c
    return paths, coefficients
