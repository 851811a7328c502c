"""Probabilistic decomposed linear dynamical systems (p-dLDS).

    l_t ~ N(l_{t-1} + sum_k c_tk (A_k l_{t-1} + a_k), Q)      b_t ~ N(b_{t-1}, S)      y_t ~ N(C (l_t + b_t) + d, diag(R))

K dynamic operators are mixed by coefficients c_t that move smoothly with rare jumps; the latent path is split into fast
dynamics l and a slow offset b. After Chen, Mudrik and Charles (NeurIPS 2024), with a model whose likelihood has an exact
lower bound: see `gdm_core.models.pdlds.em`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.errors import FitError
from gdm_core.maths.emission import Emission, Observed
from gdm_core.maths.hmm import resized_states
from gdm_core.models.base import Array, Progress
from gdm_core.models.climbing import ClimbingConfig, ClimbingModel, in_fixed_order
from gdm_core.models.parameters import number, one_of, parameter, parameters_of, whole
from gdm_core.models.pdlds import em
from gdm_core.models.pdlds import filtering as decomposed_filter
from gdm_core.models.pdlds.em import Parameters, Posterior, Prior, Series, positive_shares
from gdm_core.trials import TrialsLike

_SHORT_RUN = 10  # iterations that each start is given before the best is chosen
_FAR = 1e30  # of a latent of about unit variance; float32 ends soon after
_PLAIN = ("operators", "noise", "drift", "carry", "level", "step", "jump")

Offset = Literal["drift", "operators", "both"]


@dataclass(frozen=True)
class PDLDSConfig(ClimbingConfig):
    """Every parameter of a `PDLDS`."""

    n_states: int = parameter(4, "Number of operators (K).", whole(most=64), "K")
    _: KW_ONLY
    offset: Offset = parameter(
        "both",
        "What may move a path besides linear maps: 'drift' is a slow offset b_t as published, 'operators' gives every "
        "operator a constant term, 'both' has both.",
        one_of(Offset),
    )
    smoothness: float | Literal["learn"] = parameter(
        "learn",
        "Share of a coefficient that carries over to the next moment (xi); 'learn' finds one per operator.",
        number(lambda xi: 0 <= xi <= 1, "'learn' or a number in [0, 1]", "learn"),
        "xi",
    )
    # At a half and beyond steps of coefficients would have no variance, and forecasts no mean.
    sparsity: float = parameter(
        0.3,
        "Of the coefficients' steps: they follow a Student-t distribution with 1 / sparsity degrees of freedom.",
        number(
            lambda share: 0.001 <= share < 0.5, "a number from 0.001 (Gaussian steps) to below 0.5 (few, large ones)"
        ),
    )
    n_iter: int = parameter(60, "Iterations at the most.", whole())
    n_restarts: int = parameter(3, "Starts, of which the best is climbed from.", whole())


class PDLDS(ClimbingModel[Posterior]):
    """Decomposed linear dynamics with K operators."""

    family: ClassVar[str] = "pdlds"
    config_class: ClassVar[type] = PDLDSConfig
    same_to_warm = ("n_latent", "offset")
    why_not_online = "its shares follow from coefficients that are smoothed over whole recordings"
    config: PDLDSConfig

    @parameters_of(PDLDSConfig)
    def __init__(self, config: PDLDSConfig) -> None:
        super().__init__(config)

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        c = self.config
        ys = in_fixed_order(ys)
        observed = Observed.prepare(ys)
        series = Series.prepare(ys, c.n_latent, observed)
        prior = self._prior_for(series)
        previous = self._start_from()
        if previous is not None:
            parameters = previous._adapted(observed, series, prior, c)
            start = em.infer(observed, parameters, prior)
        else:
            short = min(_SHORT_RUN, c.n_iter)
            parameters, start = em.best_start(
                observed, series, prior, self._drifts, c.n_states, c.n_restarts, c.seed, short
            )
        climb = em.iterate(observed, parameters, prior, c.n_iter, start)
        yield from self._climb(climb, prior, len(observed.y), lambda p, now: self._keep(p.oriented(now.c.mean), prior))

    @property
    def _drifts(self) -> bool:
        return self.config.offset != "operators"

    def _prior_for(self, series: Series) -> Prior:
        c = self.config
        carry = None if c.smoothness == "learn" else float(c.smoothness)
        return em.prior_for(series, 1 / c.sparsity, carry, c.offset != "drift")

    def _adapted(self, observed: Observed, series: Series, prior: Prior, config: PDLDSConfig) -> Parameters:
        """This model's parameters, or after a change of K those that its operators, split or merged, imply."""
        p = self._parameters
        if config.n_states == self.config.n_states:
            return p if prior.carry is None else replace(p, carry=np.full(len(p.carry), prior.carry))
        now = em.infer(observed, p, prior)
        moved = p.mean_operator(now.c.mean)
        inputs = np.concatenate([series.before, np.ones((len(series.before), 1))], axis=1)
        errors = series.moves - (moved @ inputs[:, :, None])[:, :, 0]
        resized = resized_states(now.c.shares(), errors, config.n_states)
        return em.from_coefficients(series, resized, prior, self._drifts)

    def _keep_random(self, ys: list[Array], random: Callable[[int], npt.NDArray[np.float64]]) -> None:
        series = Series.prepare(ys, self.config.n_latent, Observed.prepare(ys))
        prior = self._prior_for(series)
        self._keep(em.from_coefficients(series, random(len(series.x)), prior, self._drifts), prior)

    # ---- parameters as arrays -----------------------------------------------------------------------------------
    def _keep(self, p: Parameters, prior: Prior) -> None:
        plain = {name: getattr(p, name) for name in _PLAIN}
        emission = {f"emission_{field.name}": getattr(p.emission, field.name) for field in fields(p.emission)}
        self.params_ = plain | emission | {"noise_scale": prior.noise_scale}

    @property
    def _parameters(self) -> Parameters:
        p = {name: np.asarray(value, np.float64) for name, value in self.params_.items()}
        emission = Emission(p["emission_loadings"], p["emission_offset"], p["emission_noise"])
        return Parameters(emission, **{name: p[name] for name in _PLAIN})

    @property
    def _prior(self) -> Prior:
        c = self.config
        return Prior(np.asarray(self.params_["noise_scale"], np.float64), 1 / c.sparsity, None, c.offset != "drift")

    # ---- one trial ----------------------------------------------------------------------------------------------
    def _posterior(self, y: Array) -> Posterior:
        return em.infer(Observed.prepare([y]), self._parameters, self._prior)

    def coefficients(self, data: TrialsLike) -> Any:
        """The mixing coefficients c [T, K], of either sign; a list for several trials.

        data   a Trial, an array [T, N], several of either in a list, or Trials
        """
        return self._each(data, lambda y: self._infer(y).c.mean.astype(np.float32))

    def _soft_states(self, y: Array) -> Array:
        return self._infer(y).c.shares().astype(np.float32)

    def _reconstruct(self, y: Array) -> Array:
        return self._parameters.emission.mean(self._path(y)).astype(np.float32)

    def _latent(self, y: Array) -> Array:
        return self._path(y).astype(np.float32)

    def _path(self, y: Array) -> npt.NDArray[np.float64]:
        """[T, D] posterior mean of l + b."""
        result: npt.NDArray[np.float64] = self._infer(y).x.mean @ self._parameters.reach.T
        return result

    def _paths(self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        p = self._parameters
        belief = decomposed_filter.filtered(origins, y, p)
        path, _ = decomposed_filter.roll(p, self._prior.freedom, belief.sample(n_paths, rng), horizon, rng)
        return p.emission.sample(path @ p.reach.T, rng)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        p = self._parameters
        first = decomposed_filter.blank(1, p).sample(1, rng)[0, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            path, c = decomposed_filter.roll(p, self._prior.freedom, first, n_samples - 1, rng)
        # Nothing in this model holds a path back: operators may amplify it for as long as they are on.
        if (far := ~(np.abs(path) < _FAR).all(axis=1)).any():
            raise FitError(
                f"The sampled path ran off to infinity after {int(far.argmax()) + 1} samples: this model's operators can "
                "amplify without end. Sample fewer, or with another seed."
            )
        size = p.reach.shape[1]
        x = np.concatenate([first[None, :size], path]) @ p.reach.T
        c = np.concatenate([first[None, size:], c])
        return p.emission.sample(x, rng), positive_shares(c, np.zeros_like(c)).astype(np.float32), x.astype(np.float32)
