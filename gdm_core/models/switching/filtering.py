"""Causal filters of switching models, and futures sampled from filtered states.

The filter of a switching linear system is the interacting multiple model filter: one Gaussian per state, merged at every
step. For `online`, the candidates of each sample are the K states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths import hmm
from gdm_core.maths.chunked_filter import chunk_starts, iterate_chunks
from gdm_core.maths.emission import Observed
from gdm_core.maths.pca import ComponentScores
from gdm_core.models.online import Candidates, SampleReader
from gdm_core.models.switching import laplace_em as slds
from gdm_core.models.switching.arhmm_em import LONGEST_GAP, ARParameters, ScoreSeries, log_likelihoods
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.transitions import Transitions

Float = npt.NDArray[np.float64]

RUN_UP = 48


@dataclass(frozen=True)
class SwitchingBelief:
    """State probabilities and a Gaussian for each state."""

    log_weight: Float  # [B, K]
    mean: Float  # [B, K, D]
    covariance: Float  # [B, K, D, D]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], Float]:
        """Draw states [n, B] and latents [n, B, D]."""
        z = hmm.sample_index(np.broadcast_to(self.log_weight, (n, *self.log_weight.shape)), rng)
        row = np.arange(z.shape[1])
        factor = np.linalg.cholesky(self.covariance)
        noise = rng.standard_normal((*z.shape, self.mean.shape[2]))
        return z, self.mean[row, z] + (factor[row, z] @ noise[..., None])[..., 0]


def filter_up_to(origins: npt.NDArray[np.int64], y: npt.NDArray[Any], p: slds.SLDSParameters) -> SwitchingBelief:
    """Filter y [T, N] up to each origin."""
    information, linear = p.emission.information(Observed.prepare([y[: int(origins.max()) + 1]]))
    k, d = p.dynamics.coefficients.shape[:2]
    first = chunk_starts(origins, RUN_UP)
    b = len(first)
    belief = SwitchingBelief(
        np.where(first[:, None] == 0, p.transitions.log_initial, -np.log(k)),
        np.broadcast_to(p.start_mean, (b, k, d)),
        np.broadcast_to(p.start_covariance, (b, k, d, d)),
    )
    result = SwitchingBelief(
        np.empty((len(origins), k)), np.empty((len(origins), k, d)), np.empty((len(origins), k, d, d))
    )
    for step, (now, here, stretch) in enumerate(iterate_chunks(origins, RUN_UP)):
        if step:
            belief = predict(belief, p.dynamics, p.transitions)
        belief = update(belief, information[now], linear[now])
        result.log_weight[here] = belief.log_weight[stretch]
        result.mean[here] = belief.mean[stretch]
        result.covariance[here] = belief.covariance[stretch]
    return result


def predict(belief: SwitchingBelief, dynamics: Dynamics, transitions: Transitions) -> SwitchingBelief:
    """Predict one step ahead: states change, their Gaussians are merged per new state, then the dynamics act."""
    k = belief.log_weight.shape[1]
    moves = hmm.log_normalise(transitions.logits(np.arange(k), belief.mean))[0]
    moves = np.broadcast_to(moves, (*belief.log_weight.shape, k))
    joint = belief.log_weight[:, :, None] + moves  # [B, K before, K after]
    weight = joint.max(axis=1)
    share = np.exp(joint - weight[:, None, :])
    total = share.sum(axis=1)
    share /= total[:, None, :]
    mean = np.swapaxes(share, 1, 2) @ belief.mean  # [B, K, D]
    gap = belief.mean[:, :, None] - mean[:, None]  # [B, before, after, D]
    spread = belief.covariance[:, :, None] + gap[..., :, None] * gap[..., None, :]
    merged = (share[..., None, None] * spread).sum(axis=1)
    a = dynamics.coefficients[:, :, :-1]
    moved = (a @ mean[..., None])[..., 0] + dynamics.coefficients[:, :, -1]
    return SwitchingBelief(weight + np.log(total), moved, a @ merged @ np.swapaxes(a, 1, 2) + dynamics.covariance)


def update(belief: SwitchingBelief, information: Float, linear: Float) -> SwitchingBelief:
    """Condition on a sample; one without observations has zero information and changes nothing."""
    d = linear.shape[1]
    precision = information[:, None]  # [B, 1, D, D]
    system = np.eye(d) + belief.covariance @ precision
    covariance = np.linalg.solve(system, belief.covariance)
    covariance = (covariance + np.swapaxes(covariance, 2, 3)) / 2
    explained = (precision @ belief.mean[..., None])[..., 0]  # [B, K, D]
    surprise = linear[:, None] - explained
    shift = (covariance @ surprise[..., None])[..., 0]
    log_likelihood = (belief.mean * (linear[:, None] - 0.5 * explained)).sum(axis=2)
    log_likelihood += 0.5 * (surprise * shift).sum(axis=2) - 0.5 * np.linalg.slogdet(system)[1]
    return SwitchingBelief(hmm.log_normalise(belief.log_weight + log_likelihood)[0], belief.mean + shift, covariance)


def sample_forward(
    dynamics: Dynamics,
    transitions: Transitions,
    z: npt.NDArray[np.int64],
    history: npt.NDArray[Any],
    horizon: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Sample states [P, O, H] and scores [P, O, H, D] from states [P, O] and scores [P, O, L, D], newest first."""
    factors = np.linalg.cholesky(dynamics.covariance)
    coefficients = dynamics.coefficients
    d = factors.shape[1]
    states = np.empty((*z.shape, horizon), dtype=np.int64)
    path = np.empty((*z.shape, horizon, d))
    for step in range(horizon):
        z = hmm.sample_index(transitions.logits(z, history[..., 0, :]), rng)
        inputs = history.reshape(*z.shape, -1)  # [P, O, L D]
        x = np.empty((*z.shape, d))
        noise = rng.standard_normal((*z.shape, d))
        for k in range(len(factors)):
            chosen = z == k
            x[chosen] = (
                inputs[chosen] @ coefficients[k, :, :-1].T + coefficients[k, :, -1] + noise[chosen] @ factors[k].T
            )
        history = np.concatenate([x[..., None, :], history[..., :-1, :]], axis=-2)
        states[..., step], path[..., step, :] = z, x
    return states, path


def _candidates(log_transfer: Float) -> Candidates:
    return Candidates(np.exp(log_transfer - log_transfer.max()), np.eye(log_transfer.shape[1]))


class ArhmmReader(SampleReader):
    """Reader of an AR-HMM; it keeps the last `lags` samples, with gaps filled from the past."""

    def __init__(self, parameters: ARParameters, scores: ComponentScores, lags: int) -> None:
        self._parameters, self._scores, self._lags = parameters, scores, lags
        self._factors = scores.factors
        self._factor_belief = self._factors.filter_start()
        self._past = np.zeros((0, len(scores.center)))  # inputs of the dynamics; empty after a long gap
        self._last = self._past
        self._unseen = 0  # samples since the last one with an observation

    def read(self, y: npt.NDArray[np.float32]) -> Candidates:
        mean, covariance, filled = self._factors.filter_step(*self._factor_belief, y)
        self._factor_belief = mean, covariance
        nothing = bool(np.isnan(y).all())
        past = self._past[:0] if self._unseen > LONGEST_GAP and not nothing else self._past
        series = ScoreSeries.prepare([np.concatenate([past, y[None]])], self._scores, self._lags)
        seen = log_likelihoods(series, self._parameters)[0][-1]  # [K]
        chain = self._parameters.transitions
        moves = chain.log_initial[None]
        if len(self._last):
            table = chain.expected(self._scores.project(np.concatenate([self._last, filled[None]])))
            moves = table if table.ndim == 2 else table[-1]
        self._past = np.concatenate([past, filled[None]])[-self._lags :]
        self._last = filled[None]
        self._unseen = self._unseen + 1 if nothing else 0
        return _candidates(moves + seen)


class SldsReader(SampleReader):
    """Reader of an SLDS; it keeps one Gaussian of the latent path for each state."""

    def __init__(self, parameters: slds.SLDSParameters) -> None:
        self._parameters = parameters
        self._belief: SwitchingBelief | None = None

    def read(self, y: npt.NDArray[np.float32]) -> Candidates:
        p = self._parameters
        k, d = p.dynamics.coefficients.shape[:2]
        if self._belief is None:
            mean, covariance = (
                np.broadcast_to(p.start_mean, (1, k, d)),
                np.broadcast_to(p.start_covariance, (1, k, d, d)),
            )
            belief = SwitchingBelief(p.transitions.log_initial[None], mean, covariance)
            moves = belief.log_weight
        else:
            moves = hmm.log_normalise(p.transitions.logits(np.arange(k), self._belief.mean))[0]
            moves = np.broadcast_to(moves, (1, k, k))[0]
            belief = predict(self._belief, p.dynamics, p.transitions)
        self._belief = update(belief, *p.emission.information(Observed.prepare([y[None]])))
        return _candidates(moves + (self._belief.log_weight - belief.log_weight))
