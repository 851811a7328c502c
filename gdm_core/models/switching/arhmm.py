"""Autoregressive hidden Markov model on principal-component scores.

    y = center + basis (scale x) + residual        x_t ~ N(A_z [x_{t-1}, ..., x_{t-L}] + b_z, Q_z)

The scores are read off the observations, so inference over states is exact and needs no approximation at all. Missing
entries: the inputs are estimated from past observations, the likelihood is the marginal of what was observed. After a long
gap the dynamics start again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.maths import hmm
from gdm_core.maths.pca import ComponentScores
from gdm_core.maths.threads import one_thread
from gdm_core.models.base import Array, Progress
from gdm_core.models.climbing import ClimbingConfig, in_fixed_order
from gdm_core.models.parameters import one_of, parameter, parameters_of, whole
from gdm_core.models.switching import arhmm_em as em
from gdm_core.models.switching.base import SwitchingModel
from gdm_core.models.switching.filtering import ArhmmReader, roll

Kind = Literal["stationary", "sticky", "recurrent_only"]


@dataclass(frozen=True)
class ARHMMConfig(ClimbingConfig):
    """Every parameter of an `ARHMM`."""

    n_latent: int = parameter(2, "Principal components that the dynamics see (D).", whole(), "D")
    _: KW_ONLY
    lags: int = parameter(1, "How many past samples the dynamics see.", whole())
    transitions: Kind = parameter(
        "stationary",
        "What the next state follows from: a matrix, one that prefers to stay, or the last sample alone.",
        one_of(Kind),
    )


class ARHMM(SwitchingModel[em.EStep]):
    """AR-HMM with stationary, sticky or recurrent-only transitions."""

    family: ClassVar[str] = "arhmm"
    config_class: ClassVar[type] = ARHMMConfig
    same_to_warm = ("n_latent", "lags")
    config: ARHMMConfig

    @parameters_of(ARHMMConfig)
    def __init__(self, config: ARHMMConfig) -> None:
        super().__init__(config)

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _steps(self, ys: list[Array]) -> Iterator[Progress]:
        c = self.config
        ys = in_fixed_order(ys)
        previous = self._start_from()
        scores = previous._scores if previous is not None else ComponentScores.fitted(ys, c.n_latent)
        series = em.ScoreSeries.prepare(ys, scores, c.lags)
        prior = em.prior_for(series, c.lags)
        if previous is not None:
            parameters = previous._adapted(series, scores, prior, c)
        else:
            parameters = em.best_start(series, scores, prior, c.transitions, c)
        climb = em.iterate(series, parameters, scores, prior, c.n_iter)
        yield from self._climb(climb, prior, len(series.x), lambda found, _: self._keep(found, scores))

    def _adapted(
        self, series: em.ScoreSeries, scores: ComponentScores, prior: em.DynamicsPrior, config: ARHMMConfig
    ) -> em.ARParameters:
        """Return the parameters, with states split or merged after a change of K or transitions."""
        parameters = self._parameters
        if config.n_states == self.config.n_states and config.transitions == self.config.transitions:
            return parameters
        states = em.e_step(series, parameters, scores).chain.states
        means = parameters.dynamics.means(series.joint[:, series.x.shape[1] :])
        errors = series.x - (states[:, :, None] * means).sum(axis=1)
        resized = hmm.resized_states(states, errors, config.n_states)
        return em.from_states(series, resized, config.transitions, prior)

    def _keep_states(self, ys: list[Array], states: npt.NDArray[np.float64]) -> None:
        scores = ComponentScores.fitted(ys, self.config.n_latent)
        series = em.ScoreSeries.prepare(ys, scores, self.config.lags)
        prior = em.prior_for(series, self.config.lags)
        self._keep(em.from_states(series, states, self.config.transitions, prior), scores)

    # ---- parameters as arrays -----------------------------------------------------------------------------------
    def _keep(self, parameters: em.ARParameters, scores: ComponentScores) -> None:
        self._keep_chain(parameters, vars(scores) | {"residual_variance": np.array([scores.residual_variance])})

    @property
    def _scores(self) -> ComponentScores:
        p: dict[str, Any] = self.params_
        return ComponentScores(
            p["center"], p["weight"], p["basis"], p["scale"], float(p["residual_variance"][0]), p["step"]
        )

    @property
    def _parameters(self) -> em.ARParameters:
        return em.ARParameters(*self._chain())

    # ---- one trial ----------------------------------------------------------------------------------------------
    def _posterior(self, y: Array) -> em.EStep:
        series = em.ScoreSeries.prepare([y], self._scores, self.config.lags)
        with one_thread():
            return em.e_step(series, self._parameters, self._scores)

    def _reconstruct(self, y: Array) -> Array:
        return self._scores.expand(self._scores.project(self._scores.factors.fill(y))).astype(np.float32)

    def _latent(self, y: Array) -> Array:
        return self._scores.project(self._scores.factors.fill(y)).astype(np.float32)

    def _sample_reader(self) -> ArhmmReader:
        return ArhmmReader(self._parameters, self._scores, self.config.lags)

    def _paths(self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        parameters, scores = self._parameters, self._scores
        seen = y[: int(origins.max()) + 1]
        series = em.ScoreSeries.prepare([seen], scores, self.config.lags)
        table, _, _ = em.log_likelihoods(series, parameters, scores)
        chain = parameters.transitions
        states = hmm.filtered(table, chain.log_initial, chain.expected(series.x).table, series.starts)
        log_states = np.log(np.maximum(states[origins], 1e-300))
        z = hmm.sample_index(np.broadcast_to(log_states, (n_paths, *log_states.shape)), rng)  # [P, O]
        back = np.maximum(origins[:, None] - np.arange(self.config.lags), 0)
        history = np.broadcast_to(series.x[back], (n_paths, *back.shape, series.x.shape[1]))  # [P, O, L, D]
        _, x = roll(parameters.dynamics, parameters.transitions, z, history, horizon, rng)
        return self._observe(x, rng)

    def _observe(self, x: npt.NDArray[Any], rng: np.random.Generator) -> Array:
        """Observations [..., N] with noise from scores [..., D]."""
        clean = self._scores.expand(x).astype(np.float32)
        result: Array = clean + self._scores.sample_residual(clean.shape[:-1], rng)
        return result

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        p, lags = self._parameters, self.config.lags
        factor = np.linalg.cholesky(p.start_covariance)
        first = p.start_mean + rng.standard_normal((lags, len(factor))) @ factor.T  # [L, D] in order of time
        z = np.empty(n_samples, dtype=np.int64)
        z[0] = hmm.sample_index(p.transitions.log_initial, rng)
        for t in range(1, lags):
            z[t] = hmm.sample_index(p.transitions.logits(z[t - 1], first[t - 1]), rng)
        history = first[::-1][None, None]  # [1, 1, L, D] newest first
        later, x = roll(p.dynamics, p.transitions, z[None, lags - 1 : lags], history, n_samples - lags, rng)
        z[lags:] = later[0, 0]
        path = np.concatenate([first, x[0, 0]])
        return self._observe(path, rng), np.eye(self.config.n_states, dtype=np.float32)[z], path.astype(np.float32)
