"""Switching linear dynamical systems, with and without recurrent transitions.

    x_t ~ N(A_z x_{t-1} + b_z, Q_z)        y_t ~ N(C x_t + d, diag(R))

Fitted by `gdm_core.models.switching.laplace_em`, started from an autoregressive HMM on principal-component scores, itself the best
of several starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.maths import hmm
from gdm_core.maths.emission import Emission, Observed
from gdm_core.maths.pca import ComponentScores
from gdm_core.maths.threads import one_thread
from gdm_core.models.base import Array, Progress
from gdm_core.models.climbing import ClimbingConfig, in_fixed_order
from gdm_core.models.parameters import one_of, parameter, parameters_of
from gdm_core.models.switching import arhmm_em as ar
from gdm_core.models.switching import laplace_em as em
from gdm_core.models.switching.base import SwitchingModel
from gdm_core.models.switching.dynamics import Dynamics, DynamicsPrior
from gdm_core.models.switching.filtering import SldsReader, filtered, roll
from gdm_core.models.switching.transitions import Transitions

_LONG_RUN = 10  # iterations of the chosen start
_START_EXCERPT = 4_000  # samples that starts are compared on: an AR-HMM, which is all there is of its fit, takes more
_EXCERPT = 8_000  # samples that a long recording is climbed on before all of them are looked at


Kind = Literal["sticky", "recurrent", "recurrent_only"]


@dataclass(frozen=True)
class SLDSConfig(ClimbingConfig):
    """Every parameter of an `SLDS`."""

    _: KW_ONLY
    transitions: Kind = parameter(
        "sticky",
        "What the next state follows from: the state before ('sticky'), the path, too, or the path alone.",
        one_of(Kind),
    )


class SLDS(SwitchingModel[em.SLDSPosterior]):
    """SLDS with sticky, (sticky) recurrent or recurrent-only transitions."""

    family: ClassVar[str] = "slds"
    tolerance: ClassVar[float] = 1e-4  # what comes after that gained a thousandth of a nat, and nothing on new tracks
    config_class: ClassVar[type] = SLDSConfig
    config: SLDSConfig

    @parameters_of(SLDSConfig)
    def __init__(self, config: SLDSConfig) -> None:
        super().__init__(config)

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _steps(self, ys: list[Array]) -> Iterator[Progress]:
        c = self.config
        ys = in_fixed_order(ys)
        observed = Observed.prepare(ys)
        scores = ComponentScores.fitted(ys, c.n_latent)
        series = ar.ScoreSeries.prepare(ys, scores, lags=1)
        prior = ar.prior_for(series, lags=1)
        previous = self._start_from()
        if previous is not None:
            parameters = previous._adapted(observed, prior, c)
        else:
            parameters = first_parameters(ys, scores, series, prior, c)
            few = observed.excerpt(_EXCERPT)
            if few is not observed:
                parameters = em.climbed(few, parameters, prior, c.n_iter)
        climb = em.iterate(observed, parameters, prior, c.n_iter)
        yield from self._climb(climb, prior, len(observed.y), lambda found, _: self._keep(found))

    def _adapted(self, observed: Observed, prior: DynamicsPrior, config: SLDSConfig) -> em.SLDSParameters:
        """This model's parameters, or after a change of K or transitions those of its states split or merged."""
        p = self._parameters
        if config.n_states == self.config.n_states and config.transitions == self.config.transitions:
            return p
        now = em.infer(observed, p)
        d = config.n_latent
        mean = now.x.mean
        inputs = np.concatenate([mean[:1], mean[:-1]])
        means = p.dynamics.means(np.concatenate([inputs, np.ones((len(mean), 1))], axis=1))
        errors = mean - (now.chain.states[:, :, None] * means).sum(axis=1)
        states = hmm.resized_states(now.chain.states, errors, config.n_states)
        blank = Transitions.blank(config.transitions, config.n_states, d)
        chain = hmm.ChainPosterior.independent(states, observed.starts, len(blank.bias))
        dynamics = em.fit_dynamics(observed, em.SLDSPosterior(chain, now.x, 0.0, 0.0), prior)
        transitions = blank.fitted(chain, observed.starts, mean, now.x.variance, steps=8)[0]
        return em.SLDSParameters(p.emission, dynamics, transitions, p.start_mean, p.start_covariance)

    def _keep_states(self, ys: list[Array], states: npt.NDArray[np.float64]) -> None:
        scores = ComponentScores.fitted(ys, self.config.n_latent)
        series = ar.ScoreSeries.prepare(ys, scores, lags=1)
        prior = ar.prior_for(series, lags=1)
        start = ar.from_states(series, states, self.config.transitions, prior)
        self._keep(from_autoregression(ys, scores, start))

    # ---- parameters as arrays -----------------------------------------------------------------------------------
    def _keep(self, p: em.SLDSParameters) -> None:
        self._keep_chain(p, vars(p.emission))

    @property
    def _parameters(self) -> em.SLDSParameters:
        p: dict[str, Any] = self.params_
        return em.SLDSParameters(Emission(p["loadings"], p["offset"], p["noise"]), *self._chain())

    # ---- one trial ----------------------------------------------------------------------------------------------
    def _posterior(self, y: Array) -> em.SLDSPosterior:
        with one_thread():
            return em.infer(Observed.prepare([y]), self._parameters)

    def _reconstruct(self, y: Array) -> Array:
        return self._parameters.emission.mean(self._infer(y).x.mean).astype(np.float32)

    def _latent(self, y: Array) -> Array:
        return self._infer(y).x.mean.astype(np.float32)

    def _sample_reader(self) -> SldsReader:
        return SldsReader(self._parameters)

    def _paths(self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        p = self._parameters
        z, x = filtered(origins, y, p).sample(n_paths, rng)
        _, path = roll(p.dynamics, p.transitions, z, x[:, :, None, :], horizon, rng)
        return p.emission.sample(path, rng)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        p = self._parameters
        z = np.empty(n_samples, dtype=np.int64)
        z[0] = hmm.sample_index(p.transitions.log_initial, rng)
        first = p.start_mean + np.linalg.cholesky(p.start_covariance) @ rng.standard_normal(len(p.start_mean))
        later, x = roll(p.dynamics, p.transitions, z[None, :1], first[None, None, None, :], n_samples - 1, rng)
        z[1:] = later[0, 0]
        path = np.concatenate([first[None], x[0, 0]])
        return p.emission.sample(path, rng), np.eye(self.config.n_states, dtype=np.float32)[z], path.astype(np.float32)


def first_parameters(
    ys: list[Array], scores: ComponentScores, series: ar.ScoreSeries, prior: DynamicsPrior, c: SLDSConfig
) -> em.SLDSParameters:
    """From an autoregressive HMM with the same kind of transitions."""
    start = ar.best_start(ar.excerpt(series, _START_EXCERPT), scores, prior, c.transitions, c)
    fitted = list(ar.iterate(ar.excerpt(series, _EXCERPT), start, scores, prior, min(_LONG_RUN, c.n_iter)))[-1][0]
    return from_autoregression(ys, scores, fitted)


def from_autoregression(ys: list[Array], scores: ComponentScores, start: ar.ARParameters) -> em.SLDSParameters:
    """The same dynamics, with the share of their noise that is observation noise moved to the emission."""
    filled = np.concatenate([scores.factors.fill(y) for y in ys])
    residual = filled - scores.expand(scores.project(filled))
    n_channels, d = scores.basis.shape
    floor = 1e-4 if n_channels == d else 1e-6
    noise = np.maximum((residual**2).mean(axis=0) * n_channels / max(n_channels - d, 1), floor)
    loadings = scores.basis * scores.scale / scores.weight[:, None]
    blur = np.linalg.inv(loadings.T @ (loadings / noise[:, None]))
    a = start.dynamics.coefficients[:, :, :-1]
    seen = start.dynamics.covariance
    factor = np.linalg.cholesky(seen)
    inverse = np.linalg.inv(factor)
    left = np.eye(d) - inverse @ (blur + a @ blur @ np.swapaxes(a, 1, 2)) @ np.swapaxes(inverse, 1, 2)
    values, vectors = np.linalg.eigh(left)  # what is left of each direction's noise, at least a fifth
    half = factor @ vectors * np.sqrt(np.clip(values, 0.2, 1.0))[:, None, :]
    dynamics = Dynamics(start.dynamics.coefficients, half @ np.swapaxes(half, 1, 2))
    emission = Emission(loadings, scores.center, noise)
    return em.SLDSParameters(emission, dynamics, start.transitions, start.start_mean, start.start_covariance)
