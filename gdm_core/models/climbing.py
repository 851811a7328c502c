"""Fits that climb: iterations of expectation and maximisation, until nothing is gained any more."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from gdm_core.maths.factor import FactorModel
from gdm_core.models.base import Array, Progress, StateModel, Status
from gdm_core.models.parameters import OUTLIERS, Configuration, Outliers, one_of, parameter, whole
from gdm_core.models.scaling import Scaler
from gdm_core.trials import TrialsLike, as_trials

CALM = 3
CLEAR_GAIN = 0.05  # nats per sample by which a start is clearly better


@dataclass(frozen=True)
class ClimbingConfig(Configuration):
    """What every model is told that climbs."""

    n_states: int = parameter(4, "Number of states (K).", whole(), "K")
    n_latent: int = parameter(2, "Dimensions of the latent path (D).", whole(), "D")
    _: KW_ONLY
    outliers: Outliers = parameter("keep", OUTLIERS, one_of(Outliers))
    seed: int = parameter(0, "Where all randomness comes from.", whole(0))
    n_iter: int = parameter(100, "Iterations at the most.", whole())
    n_restarts: int = parameter(
        4,
        "Starts that are tried: clusters of steps, of windows, of steps with values, of values; then other seeds.",
        whole(),
    )


def in_fixed_order(ys: Iterable[Array]) -> list[Array]:
    """The trials in an order of their own: theirs must not reach rounding errors."""
    return sorted(ys, key=lambda y: (len(y), y.tobytes()))


class Bounded(Protocol):
    """A posterior with its bound, in nats over all samples."""

    @property
    def elbo(self) -> float: ...


class Weighed(Protocol):
    """Parameters under a prior."""

    def log_prior(self, prior: Any) -> float: ...


Posterior = TypeVar("Posterior", bound=Bounded)
Learned = TypeVar("Learned", bound=Weighed)
Climb = Iterator[tuple[Learned, Posterior]]  # of iterations: parameters, and the posterior under them


def settled(now: Posterior, better: Callable[[Posterior], Posterior], least: float) -> Posterior:
    """What `now` becomes in at most 30 rounds of `better`, the last of which gains less than `least`."""
    for _ in range(30):
        after = better(now)
        done = after.elbo - now.elbo < least
        now = after
        if done:
            break
    return now


def objective(end: tuple[Learned, Posterior], prior: Any) -> float:
    """Bound and log prior, in nats over all samples."""
    return end[1].elbo + end[0].log_prior(prior)


def clearly_best(ends: Iterable[tuple[Learned, Posterior]], prior: Any, least_gain: float) -> tuple[Learned, Posterior]:
    """Return the end with the highest objective; the first, unless another gains more than `least_gain` nats."""
    first, *others = ends
    best = max(others, key=lambda end: objective(end, prior), default=first)
    return best if objective(best, prior) - objective(first, prior) > least_gain else first


class ClimbingModel(StateModel, Generic[Posterior]):
    """A model that is fitted by iterations each of which gains.

    tolerance     nats per sample; CALM iterations in a row that gain less end the fit
    same_to_warm  parameters in which another model must be like this one for a fit to start from it
    """

    tolerance: ClassVar[float] = 1e-5
    same_to_warm: ClassVar[tuple[str, ...]] = ("n_latent",)

    def __init__(self, config: ClimbingConfig) -> None:
        super().__init__(config)
        self._last: tuple[bytes, dict[str, Array], Posterior] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels between processes: not the last posterior, which may be larger than everything else."""
        return self.__dict__ | {"_last": None}

    def _infer(self, y: Array) -> Posterior:
        """The posterior of a trial; the last one is kept, since a page asks for its states, path and score in turn."""
        digest = hashlib.blake2b(y.tobytes()).digest()
        if self._last is None or self._last[0] != digest or self._last[1] is not self.params_:
            self._last = (digest, self.params_, self._posterior(y))
        return self._last[2]

    def _start_from(self) -> Self | None:
        """The model to start from, if its solution fits this configuration."""
        previous = self._warm_from
        if not isinstance(previous, type(self)) or not previous.params_:
            return None
        same = all(getattr(previous.config, name) == getattr(self.config, name) for name in self.same_to_warm)
        return previous if same else None

    @abstractmethod
    def _posterior(self, y: Array) -> Posterior:
        """What `_infer` works out and keeps."""

    def _bound(self, y: Array) -> float:
        return self._infer(y).elbo

    @abstractmethod
    def _keep_states(self, ys: list[Array], states: npt.NDArray[np.float64]) -> None:
        """Make those parameters the model's that `states` [T, K] of the trials, end to end, imply."""

    def untrained(self, trials: TrialsLike, seed: int = 0) -> Self:
        """The control beside every score: random states, and the parameters that they imply.

        trials   whose scale the control has
        seed     of its random parameters
        """
        data = as_trials(trials)
        model = type(self).from_config(self.config)
        model.scaler_ = Scaler.from_trials(data)
        ys = [model.scaler_.apply(trial.y) for trial in data]
        model.factors_ = FactorModel.fit(ys, self.config.n_latent)
        even = np.ones(self.config.n_states)
        model._keep_states(ys, np.random.default_rng(seed).dirichlet(even, size=data.n_samples))
        model.status_ = Status.MAX_STEPS
        return model

    def _climb(
        self, climb: Climb[Learned, Posterior], prior: Any, n_samples: int, keep: Callable[[Learned, Posterior], None]
    ) -> Iterator[Progress]:
        """Keep every iteration, by `keep` of what it gives; set `status_` at the end."""
        best, calm = -np.inf, 0
        for number, (learned, now) in enumerate(climb):
            objective = now.elbo + learned.log_prior(prior)
            if not np.isfinite(objective):
                self._fail(f"its objective is not finite at iteration {number}")
                return
            keep(learned, now)
            yield Progress(number, self.config.n_iter, now.elbo / n_samples, objective / n_samples)
            calm = calm + 1 if objective - best < self.tolerance * n_samples else 0
            best = max(best, objective)
            if calm == CALM:
                self.status_ = Status.CONVERGED
                return
        self.status_ = Status.MAX_STEPS
