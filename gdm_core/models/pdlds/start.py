"""Where the fit of a decomposed linear dynamical system starts: clusters of moves, each with one operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.emission import Emission, Observed
from gdm_core.maths.gaps import interpolated
from gdm_core.maths.pca import ComponentScores
from gdm_core.models.base import Array
from gdm_core.models.climbing import best_of
from gdm_core.models.pdlds.em import iterate
from gdm_core.models.pdlds.parameters import Parameters, Posterior, Prior

Float = npt.NDArray[np.float64]

_PLACE_WEIGHTS = (0.0, 0.7, 0.3)  # of the position beside the move, one clustering each in turn
_MAX_CLUSTERED = 20_000
_RIDGE = 1e-3  # share of a cluster's samples that its operator's entries are worth at zero
_DYNAMICS_SHARE = 0.02  # of what the clusters leave unexplained, put down to noise of the dynamics at the start
_FIRST_DRIFT = 1e-6  # next to nothing: the offset comes in where the data ask for it


@dataclass(frozen=True)
class Series:
    """Principal-component scores of all trials end to end, and their moves."""

    scores: ComponentScores
    x: Float  # [T, D]
    before: Float  # [T, D] the sample before; at a start the sample itself
    inside: npt.NDArray[np.bool_]  # [T] false at starts
    noise: Float  # [N] variance that the scores leave in every channel

    @classmethod
    def prepare(cls, ys: list[Array], n_latent: int, observed: Observed) -> Series:
        scores = ComponentScores.fitted(ys, n_latent)
        filled = np.concatenate([interpolated(y) for y in ys])
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


def prior_for(series: Series, freedom: float, carry: float | None, constants: bool) -> Prior:
    step_variance = (series.moves[series.inside] ** 2).mean(axis=0)
    return Prior(np.diag(1e-3 * np.maximum(step_variance, 1e-6)), freedom, carry, constants)


def clustered(series: Series, n_states: int, attempt: int, seed: int) -> Float:
    """[T, K] one-hot clusters of moves, and of positions as far as this attempt looks at them."""
    from sklearn.cluster import KMeans

    moves = series.moves / np.maximum(np.sqrt((series.moves**2).mean(axis=0)), 1e-8)
    features = np.concatenate([moves, _PLACE_WEIGHTS[attempt % len(_PLACE_WEIGHTS)] * series.x], axis=1)
    thinned = features[:: max(1, len(features) // _MAX_CLUSTERED)]
    fitted = KMeans(n_states, n_init=2, random_state=seed + 1009 * attempt).fit(thinned)
    return np.eye(n_states)[fitted.predict(features)]


def from_coefficients(series: Series, member: Float, prior: Prior, drifts: bool) -> Parameters:
    """The parameters that coefficients [T, K], one cluster's or random ones, imply."""
    inside = series.inside
    c, before, moves = member[inside], series.before[inside], series.moves[inside]
    n, d = moves.shape
    k = c.shape[1]
    inputs = np.concatenate([before, np.ones((n, 1))], axis=1) if prior.constants else before
    design = (c[:, :, None] * inputs[:, None, :]).reshape(n, -1)  # [T, K P]
    gram = design.T @ design + _RIDGE * n / k * np.eye(design.shape[1])
    flat = np.linalg.solve(gram, design.T @ moves)  # [K P, D]
    residual = moves - design @ flat
    operators = np.zeros((k, d, d + 1))
    operators[:, :, : inputs.shape[1]] = np.swapaxes(flat.reshape(k, -1, d), 1, 2)
    noise = _DYNAMICS_SHARE * residual.T @ residual / n + prior.noise_scale
    steps = np.diff(member, axis=0)[inside[1:]]
    jump = np.maximum((steps**2).mean(axis=0), 1e-3)
    carry = np.full(k, 0.9 if prior.carry is None else prior.carry)
    loadings = series.scores.basis * series.scores.scale / series.scores.weight[:, None]
    emission = Emission(loadings, series.scores.center, series.noise)
    drift = np.full(d, _FIRST_DRIFT) if drifts else np.zeros(0)
    return Parameters(emission, operators, noise, drift, carry, (1 - carry) * c.mean(axis=0), 0.5 * jump, jump)


def best_start(
    observed: Observed, series: Series, prior: Prior, drifts: bool, k: int, attempts: int, seed: int, n_iter: int
) -> tuple[Parameters, Posterior]:
    """Several starts, a few iterations each; the one with the highest objective."""
    starts = (
        from_coefficients(series, clustered(series, k, attempt, seed), prior, drifts) for attempt in range(attempts)
    )
    climbs = (iterate(observed, start, prior, n_iter) for start in starts)
    return best_of(climbs, lambda end: end[1].elbo + end[0].log_prior(prior))
