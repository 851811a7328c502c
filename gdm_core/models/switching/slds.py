"""Switching linear dynamical systems, with and without recurrent transitions (`laplace_em` has the equations).

They are fitted by Laplace-EM, which starts from an autoregressive HMM on principal-component scores.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from gdm_core.arrays import Array, Float, Ints
from gdm_core.maths import hmm
from gdm_core.maths.emission import Emission, Observed
from gdm_core.maths.threads import one_thread
from gdm_core.models.em import EMConfig
from gdm_core.models.parameters import one_of, parameter, parameters_of
from gdm_core.models.switching import laplace_em as em
from gdm_core.models.switching.arhmm_em import ARParameters
from gdm_core.models.switching.base import SwitchingModel
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.filtering import SldsReader, filter_up_to, sample_forward

_LONG_RUN = 10  # iterations of the chosen start
_START_EXCERPT = 4_000  # samples on which starts are compared
EXCERPT, _ROUGH_GAIN = 8_000, 1e-4  # samples, and nats per sample, of a first fit to part of a long recording

Kind = Literal["sticky", "recurrent", "recurrent_only"]


@dataclass(frozen=True)
class SLDSConfig(EMConfig):
    """Parameters of an `SLDS`."""

    _: KW_ONLY
    transitions: Kind = parameter(
        "sticky",
        "What the next state depends on: the state before ('sticky'), the path as well ('recurrent'), or the path alone.",
        one_of(Kind),
    )


class SLDS(SwitchingModel[em.SLDSParameters]):
    """SLDS with sticky, (sticky) recurrent or recurrent-only transitions."""

    family: ClassVar[str] = "slds"
    tolerance: ClassVar[float] = 1e-4
    config_class: ClassVar[type] = SLDSConfig
    config: SLDSConfig

    @parameters_of(SLDSConfig)
    def __init__(self) -> None: ...

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _algorithm(self, ys: list[Array], fitted: bool = False) -> em.LaplaceEM:
        return em.LaplaceEM.prepare(ys, self.config.n_dimensions, self._noise_floor)

    def _first_parameters(self, algorithm: em.LaplaceEM) -> tuple[em.SLDSParameters, None]:
        c, scores = self.config, algorithm.scores
        start = scores.excerpt(_START_EXCERPT).best_start(c.transitions, c)
        p = from_autoregression(algorithm, scores.excerpt(EXCERPT).run(start, min(_LONG_RUN, c.n_iter))[0])
        few = algorithm.observed.excerpt(EXCERPT)
        if few is not algorithm.observed:
            p = replace(algorithm, observed=few).run(p, c.n_iter, least_gain=_ROUGH_GAIN)[0]
        return p, None

    def _parameters_from(self, algorithm: em.LaplaceEM, states: Float) -> em.SLDSParameters:
        return from_autoregression(algorithm, algorithm.scores.from_states(states, self.config.transitions))

    # ---- parameters as arrays -----------------------------------------------------------------------------------
    def _keep(self, algorithm: em.LaplaceEM, p: em.SLDSParameters, posterior: em.SLDSPosterior | None = None) -> None:
        self._keep_chain(p, vars(p.emission))

    @property
    def _parameters(self) -> em.SLDSParameters:
        p: dict[str, Any] = self.params_
        return em.SLDSParameters(*self._chain(), Emission(p["loadings"], p["offset"], p["noise"]))

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

    def _paths(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        p = self._parameters
        z, x = filter_up_to(origins, y, p).sample(n_paths, rng)
        _, path = sample_forward(p.dynamics, p.transitions, z, x[:, :, None, :], horizon, rng)
        return p.emission.sample(path, rng)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        p = self._parameters
        z = np.empty(n_samples, dtype=np.int64)
        z[0] = hmm.sample_index(p.transitions.log_initial, rng)
        first = p.start_mean + np.linalg.cholesky(p.start_covariance) @ rng.standard_normal(len(p.start_mean))
        later, x = sample_forward(
            p.dynamics, p.transitions, z[None, :1], first[None, None, None, :], n_samples - 1, rng
        )
        z[1:] = later[0, 0]
        path = np.concatenate([first[None], x[0, 0]])
        return p.emission.sample(path, rng), np.eye(self.config.n_states, dtype=np.float32)[z], path.astype(np.float32)


def from_autoregression(algorithm: em.LaplaceEM, start: ARParameters) -> em.SLDSParameters:
    """Return the same dynamics, with observation noise moved to the emission."""
    scores, observed = algorithm.scores.series.scores, algorithm.observed
    filled = np.concatenate([scores.factors.fill(part) for part in observed.split()])
    residual = filled - scores.expand(scores.project(filled))
    n_channels, d = scores.basis.shape
    floor = 1e-4 if n_channels == d else 1e-6
    noise = np.maximum((residual**2).mean(axis=0) * n_channels / max(n_channels - d, 1), floor)
    noise = observed.raise_noise(noise)
    blur = np.linalg.inv(scores.loadings.T @ (scores.loadings / noise[:, None]))
    a = start.dynamics.coefficients[:, :, :-1]
    seen = start.dynamics.covariance
    factor = np.linalg.cholesky(seen)
    inverse = np.linalg.inv(factor)
    left = np.eye(d) - inverse @ (blur + a @ blur @ np.swapaxes(a, 1, 2)) @ np.swapaxes(inverse, 1, 2)
    values, vectors = np.linalg.eigh(left)  # at least a fifth of each direction's noise remains
    half = factor @ vectors * np.sqrt(np.clip(values, 0.2, 1.0))[:, None, :]
    dynamics = Dynamics(start.dynamics.coefficients, half @ np.swapaxes(half, 1, 2))
    emission = Emission(scores.loadings, scores.center, noise)
    return em.SLDSParameters(dynamics, start.transitions, start.start_mean, start.start_covariance, emission)
