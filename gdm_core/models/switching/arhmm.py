"""Autoregressive hidden Markov model on principal-component scores.

    y = center + basis (scale x) + residual        x_t ~ N(A_z [x_{t-1}, ..., x_{t-L}] + b_z, Q_z)

The scores are a projection of the observations, so inference over states is exact. Where entries are missing, inputs are
estimated from past observations, and the likelihood is the marginal of the observed ones. After a long gap the dynamics
start again.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gdm_core.arrays import Array, Float, Ints
from gdm_core.maths import hmm
from gdm_core.maths.pca import ComponentScores
from gdm_core.maths.threads import one_thread
from gdm_core.models.em import EMConfig
from gdm_core.models.parameters import one_of, parameter, parameters_of, whole
from gdm_core.models.switching.arhmm_em import ArhmmEM, ARParameters, EStep, ScoreSeries, e_step, log_likelihoods
from gdm_core.models.switching.base import SwitchingModel
from gdm_core.models.switching.filtering import ArhmmReader, sample_forward

Kind = Literal["stationary", "sticky", "recurrent_only"]


@dataclass(frozen=True)
class ARHMMConfig(EMConfig):
    """Parameters of an `ARHMM`."""

    _: KW_ONLY
    lags: int = parameter(1, "How many past samples the dynamics see.", whole())
    transitions: Kind = parameter(
        "stationary",
        "What the next state depends on: a matrix ('stationary'), one that favours staying ('sticky'), or the last sample "
        "alone ('recurrent_only').",
        one_of(Kind),
    )


class ARHMM(SwitchingModel[ARParameters]):
    """AR-HMM with stationary, sticky or recurrent-only transitions."""

    family: ClassVar[str] = "arhmm"
    config_class: ClassVar[type] = ARHMMConfig
    config: ARHMMConfig

    @parameters_of(ARHMMConfig)
    def __init__(self) -> None: ...

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _algorithm(self, ys: list[Array], fitted: bool = False) -> ArhmmEM:
        floor = self._noise_floor
        scores = self._scores if fitted else ComponentScores.fit(ys, self.config.n_dimensions, floor)
        return ArhmmEM.prepare(ys, scores, self.config.lags, floor)

    def _first_parameters(self, em: ArhmmEM) -> tuple[ARParameters, None]:
        return em.best_start(self.config.transitions, self.config), None

    def _parameters_from(self, em: ArhmmEM, states: Float) -> ARParameters:
        return em.from_states(states, self.config.transitions)

    # ---- parameters as arrays -----------------------------------------------------------------------------------
    def _keep(self, em: ArhmmEM, p: ARParameters, posterior: EStep | None = None) -> None:
        scores = em.series.scores
        self._keep_chain(p, vars(scores) | {"residual_variance": np.array([scores.residual_variance])})

    @property
    def _scores(self) -> ComponentScores:
        p: dict[str, Any] = self.params_
        return ComponentScores(
            p["center"], p["weight"], p["basis"], p["scale"], float(p["residual_variance"][0]), p["step"]
        )

    @property
    def _parameters(self) -> ARParameters:
        return ARParameters(*self._chain())

    # ---- one trial ----------------------------------------------------------------------------------------------
    def _posterior(self, y: Array) -> EStep:
        series = ScoreSeries.prepare([y], self._scores, self.config.lags)
        with one_thread():
            return e_step(series, self._parameters)

    def _reconstruct(self, y: Array) -> Array:
        return self._scores.expand(self._scores.project(self._scores.factors.fill(y))).astype(np.float32)

    def _latent(self, y: Array) -> Array:
        return self._scores.project(self._scores.factors.fill(y)).astype(np.float32)

    def _sample_reader(self) -> ArhmmReader:
        return ArhmmReader(self._parameters, self._scores, self.config.lags)

    def _paths(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        p, chain = self._parameters, self._parameters.transitions
        series = ScoreSeries.prepare([y[: int(origins.max()) + 1]], self._scores, self.config.lags)
        table = log_likelihoods(series, p)[0]
        states = hmm.filter_states(table, chain.log_initial, chain.expected(series.x), series.starts)
        log_states = np.log(np.maximum(states[origins], 1e-300))
        z = hmm.sample_index(np.broadcast_to(log_states, (n_paths, *log_states.shape)), rng)  # [P, O]
        back = np.maximum(origins[:, None] - np.arange(self.config.lags), 0)
        history = np.broadcast_to(series.x[back], (n_paths, *back.shape, series.x.shape[1]))  # [P, O, L, D]
        _, x = sample_forward(p.dynamics, chain, z, history, horizon, rng)
        return self._scores.sample(x, rng)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        p, lags = self._parameters, self.config.lags
        factor = np.linalg.cholesky(p.start_covariance)
        first = p.start_mean + rng.standard_normal((lags, len(factor))) @ factor.T  # [L, D] oldest first
        z = np.empty(n_samples, dtype=np.int64)
        z[0] = hmm.sample_index(p.transitions.log_initial, rng)
        for t in range(1, lags):
            z[t] = hmm.sample_index(p.transitions.logits(z[t - 1], first[t - 1]), rng)
        history = first[::-1][None, None]  # [1, 1, L, D] newest first
        later, x = sample_forward(p.dynamics, p.transitions, z[None, lags - 1 : lags], history, n_samples - lags, rng)
        z[lags:] = later[0, 0]
        path = np.concatenate([first, x[0, 0]])
        return (
            self._scores.sample(path, rng),
            np.eye(self.config.n_states, dtype=np.float32)[z],
            path.astype(np.float32),
        )
