"""Causal filters of switching models, and futures sampled from filtered states.

The filter of a switching linear system is the interacting multiple model filter: one Gaussian per state, merged at every
step. For `online`, the candidates of each sample are the K states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gdm_core.arrays import Array, Float, Ints, Values
from gdm_core.compiled import as_floats, switching
from gdm_core.maths import hmm
from gdm_core.maths.emission import Observed
from gdm_core.maths.pca import ComponentScores
from gdm_core.models.online import Candidates, SampleReader
from gdm_core.models.switching import laplace_em as slds
from gdm_core.models.switching.arhmm_em import LONGEST_GAP, ARParameters, ScoreSeries, log_likelihoods
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.transitions import Transitions


class SwitchingBelief(NamedTuple):
    """State probabilities and a Gaussian for each state."""

    log_weight: Float  # [..., K]
    mean: Float  # [..., K, D]
    covariance: Float  # [..., K, D, D]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Ints, Float]:
        """Draw states [n, B] and latents [n, B, D] of B beliefs."""
        z = hmm.sample_index(np.broadcast_to(self.log_weight, (n, *self.log_weight.shape)), rng)
        row = np.arange(z.shape[1])
        factor = np.linalg.cholesky(self.covariance)
        noise = rng.standard_normal((*z.shape, self.mean.shape[2]))
        return z, self.mean[row, z] + (factor[row, z] @ noise[..., None])[..., 0]


def first_belief(p: slds.SLDSParameters) -> switching.Belief:
    """Return the belief before the first sample of a recording."""
    k = len(p.transitions.log_initial)
    return as_floats(p.transitions.log_initial), np.tile(p.start_mean, (k, 1)), np.tile(p.start_covariance, (k, 1, 1))


def filter_up_to(origins: Ints, y: Values, p: slds.SLDSParameters) -> SwitchingBelief:
    """Filter y [T, N] up to each origin."""
    at, place = np.unique(origins, return_inverse=True)
    samples = p.emission.information(Observed.prepare([y[: at[-1] + 1]]))
    found = switching.filter_path(at, *samples, first_belief(p), _system(p.dynamics, p.transitions))
    return SwitchingBelief(*(part[place] for part in found))


def sample_forward(
    dynamics: Dynamics, transitions: Transitions, z: Ints, history: Values, horizon: int, rng: np.random.Generator
) -> tuple[Ints, Values]:
    """Sample states [P, O, H] and scores [P, O, H, D] from states [P, O] and scores [P, O, L, D], newest first."""
    factors = as_floats(np.linalg.cholesky(dynamics.covariance))
    lags, d = history.shape[2:]
    states, path = switching.sample_paths(
        np.require(z, np.int64, ("C", "W")).ravel(),
        as_floats(history).reshape(-1, lags, d),
        (*_system(dynamics, transitions)[:3], factors),
        rng.random((z.size, horizon)),
        rng.standard_normal((z.size, horizon, d)),
    )
    return states.reshape(*z.shape, horizon), path.reshape(*z.shape, horizon, d)


def _system(dynamics: Dynamics, transitions: Transitions) -> switching.System:
    """Return transitions and dynamics as compiled loops take them."""
    logits = as_floats(transitions.bias), as_floats(transitions.weights)
    return (*logits, as_floats(dynamics.coefficients), as_floats(dynamics.covariance))


def _candidates(log_transfer: Float) -> Candidates:
    return Candidates(np.exp(log_transfer - log_transfer.max()), np.eye(log_transfer.shape[1]))


class ArhmmReader(SampleReader):
    """Reader of an AR-HMM; it keeps the last `lags` samples, with gaps filled from the past."""

    def __init__(self, parameters: ARParameters, scores: ComponentScores, lags: int) -> None:
        self._parameters, self._scores, self._lags = parameters, scores, lags
        self._factors = scores.factors
        self._factor_belief = list(self._factors.filter_start())
        self._past = np.zeros((0, len(scores.center)))  # inputs of the dynamics; empty after a long gap
        self._last = self._past
        self._unseen = 0  # samples since the last one with an observation

    def read(self, y: Array) -> Candidates:
        *self._factor_belief, filled = self._factors.filter(y[None], *self._factor_belief)
        nothing = bool(np.isnan(y).all())
        past = self._past[:0] if self._unseen > LONGEST_GAP and not nothing else self._past
        series = ScoreSeries.prepare([np.concatenate([past, y[None]])], self._scores, self._lags)
        seen = log_likelihoods(series, self._parameters)[0][-1]  # [K]
        chain = self._parameters.transitions
        moves = chain.log_initial[None]
        if len(self._last):
            table = chain.expected(self._scores.project(np.concatenate([self._last, filled])))
            moves = table if table.ndim == 2 else table[-1]
        self._past = np.concatenate([past, filled])[-self._lags :]
        self._last = filled
        self._unseen = self._unseen + 1 if nothing else 0
        return _candidates(moves + seen)


class SldsReader(SampleReader):
    """Reader of an SLDS; it keeps one Gaussian of the latent path for each state."""

    def __init__(self, parameters: slds.SLDSParameters) -> None:
        self._parameters = parameters
        self._belief: switching.Belief | None = None

    def read(self, y: Array) -> Candidates:
        p = self._parameters
        system = _system(p.dynamics, p.transitions)
        if self._belief is None:
            belief = first_belief(p)
            moves = belief[0][None]
        else:
            moves = switching.transitions_at(self._belief[1], *system[:2])
            belief = switching.predict(self._belief, system)
        information, linear = p.emission.information(Observed.prepare([y[None]]))
        self._belief = switching.update(belief, information[0], linear[0])
        return _candidates(moves + (self._belief[0] - belief[0]))
