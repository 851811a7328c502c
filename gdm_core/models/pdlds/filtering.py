"""What the past alone says about path and coefficients, and futures sampled from there.

The dynamics multiply path and coefficients, so the filter is an extended Kalman filter over both at once; the mean of
the product is kept exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.emission import Observed
from gdm_core.maths.side_by_side import run_ups, steps_to
from gdm_core.models.pdlds.em import Parameters

Float = npt.NDArray[np.float64]

RUN_UP = 64


@dataclass(frozen=True)
class PathBelief:
    """Gaussians over [s, c] of B moments, s = (l, b) having S dimensions and c having K."""

    mean: Float  # [B, S + K]
    covariance: Float  # [B, S + K, S + K]

    def sample(self, n: int, rng: np.random.Generator) -> Float:
        """[n, B, S + K]."""
        factor = np.linalg.cholesky(self.covariance + 1e-12 * np.eye(self.mean.shape[1]))
        noise = rng.standard_normal((n, *self.mean.shape))
        result: Float = self.mean + (factor @ noise[..., None])[..., 0]
        return result


def blank(n: int, p: Parameters) -> PathBelief:
    """Before the first sample of a recording."""
    size = p.reach.shape[1] + len(p.operators)
    return PathBelief(np.zeros((n, size)), np.tile(np.eye(size), (n, 1, 1)))


def filtered(origins: npt.NDArray[np.int64], y: npt.NDArray[np.float32], p: Parameters) -> PathBelief:
    """What samples 0..t of y [T, N] say at moment t, for each origin t."""
    observed = Observed.prepare([y[: int(origins.max()) + 1]])
    information, linear = p.emission.information(observed)  # of l + b
    belief = blank(len(run_ups(origins, RUN_UP)), p)
    size = belief.mean.shape[1]
    result = PathBelief(np.empty((len(origins), size)), np.empty((len(origins), size, size)))
    for step, (now, here, stretch) in enumerate(steps_to(origins, RUN_UP)):
        if step:
            belief = predicted(belief, p)
        belief = updated(belief, information[now], linear[now], p)
        result.mean[here] = belief.mean[stretch]
        result.covariance[here] = belief.covariance[stretch]
    return result


def predicted(belief: PathBelief, p: Parameters) -> PathBelief:
    """One step ahead: coefficients first, then the path that they move."""
    k, d, _ = p.operators.shape
    size = p.reach.shape[1]
    mean, covariance = belief.mean.copy(), belief.covariance.copy()
    mean[:, size:] = p.carry * mean[:, size:] + p.level
    covariance[:, size:] *= p.carry[:, None]
    covariance[:, :, size:] *= p.carry
    own = np.arange(size, size + k)
    covariance[:, own, own] += p.jump
    matrices, constants = p.operators[:, :, :d], p.operators[:, :, d]
    pushes = np.einsum("kij,bj->bik", matrices, mean[:, :d]) + constants.T  # [B, D, K] what each operator does to l
    whole = np.eye(size + k)
    jacobian = np.tile(whole, (len(mean), 1, 1))
    jacobian[:, :d, :d] += p.mean_operator(mean[:, size:])[:, :, :d]
    jacobian[:, :d, size:] = pushes
    move = (pushes @ mean[:, size:, None])[:, :, 0] + np.einsum("kij,bjk->bi", matrices, covariance[:, :d, size:])
    mean[:, :d] += move
    covariance = jacobian @ covariance @ np.swapaxes(jacobian, 1, 2)
    covariance[:, :d, :d] += p.noise
    drifting = np.arange(d, size)
    covariance[:, drifting, drifting] += p.drift
    return PathBelief(mean, covariance)


def updated(belief: PathBelief, information: Float, linear: Float, p: Parameters) -> PathBelief:
    """After seeing a sample; an all-missing one has zero information and changes nothing."""
    d, size = p.reach.shape
    across = belief.covariance[:, :, :size] @ p.reach.T  # [B, S + K, D] covariance with l + b
    system = np.eye(d) + information @ (p.reach @ across[:, :size])
    gain = across @ np.linalg.solve(system, information)
    covariance = belief.covariance - gain @ np.swapaxes(across, 1, 2)
    covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
    surprise = linear - (information @ (belief.mean[:, :size] @ p.reach.T)[:, :, None])[:, :, 0]
    after = covariance[:, :, :size] @ p.reach.T
    return PathBelief(belief.mean + (after @ surprise[:, :, None])[:, :, 0], covariance)


def roll(p: Parameters, freedom: float, state: Float, horizon: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Sample on from [s, c] in [..., S + K]: paths s [..., H, S] and coefficients [..., H, K].

    The loop is over the horizon, each step being drawn from the one before.
    """
    d, size = p.reach.shape
    factor = np.linalg.cholesky(p.noise)
    s, c = state[..., :size].copy(), state[..., size:]
    paths, coefficients = np.empty((*s.shape[:-1], horizon, size)), np.empty((*c.shape[:-1], horizon, c.shape[-1]))
    for step in range(horizon):
        c = p.carry * c + p.level + np.sqrt(p.step) * rng.standard_t(freedom, c.shape)
        operator = p.mean_operator(c)
        move = (operator[..., :d] @ s[..., :d, None])[..., 0] + operator[..., d]
        s[..., :d] += move + rng.standard_normal(move.shape) @ factor.T
        s[..., d:] += rng.standard_normal(s[..., d:].shape) * np.sqrt(p.drift)
        paths[..., step, :], coefficients[..., step, :] = s, c
    return paths, coefficients
