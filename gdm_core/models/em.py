"""Expectation maximisation: the loop that several families share, and a base class for their models.

Fits converge by the rule in `EMModel._run_em`; `EM.run` serves short starts, `EM.settle` inference.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from gdm_core.arrays import Array, Float
from gdm_core.errors import FitError
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import StateModel
from gdm_core.models.parameters import FamilyConfig, parameter, whole
from gdm_core.models.progress import Progress, Status

PATIENCE = 3
CLEAR_GAIN = 0.05  # nats per sample by which a start is clearly better
_MAX_ROUNDS = 30
N_ITER = "Largest number of iterations."
N_RESTARTS = "Starts to try: clusters of steps, of windows, of steps with values, of values; then other seeds."


@dataclass(frozen=True)
class EMConfig(FamilyConfig):
    """Parameters of every model fitted by EM."""

    n_states: int = parameter(4, "Number of states (K).", whole(), "K")
    _: KW_ONLY
    n_iter: int = parameter(100, N_ITER, whole())
    n_restarts: int = parameter(4, N_RESTARTS, whole())


class Bounded(Protocol):
    """A posterior and the bound it reaches, in nats over all samples."""

    @property
    def elbo(self) -> float: ...


class Learned(Protocol):
    """Parameters with a prior."""

    def log_prior(self, prior: Any) -> float: ...


P = TypeVar("P", bound=Learned)
Q = TypeVar("Q", bound=Bounded)


class EM(ABC, Generic[P, Q]):
    """EM of one family on given data; P are its parameters, Q its posterior."""

    prior: Any

    @property
    @abstractmethod
    def n_samples(self) -> int: ...

    @abstractmethod
    def infer_first(self, p: P) -> Q:
        """Return a posterior to start from."""

    @abstractmethod
    def update(self, p: P, posterior: Q) -> tuple[P, Q]:
        """Run one iteration."""

    def objective(self, end: tuple[P, Q]) -> float:
        """Return the bound plus the log prior, in nats over all samples."""
        return end[1].elbo + end[0].log_prior(self.prior)

    def iterate(self, p: P, n_iter: int, posterior: Q | None = None) -> Iterator[tuple[P, Q]]:
        """Yield the given parameters with their posterior, then the result of each iteration."""
        posterior = self.infer_first(p) if posterior is None else posterior
        yield p, posterior
        for _ in range(n_iter):
            p, posterior = self.update(p, posterior)
            yield p, posterior

    def run(self, p: P, n_iter: int, posterior: Q | None = None, least_gain: float = -np.inf) -> tuple[P, Q]:
        """Iterate until the bound gains less than `least_gain` nats per sample."""
        reached, end = -np.inf, None
        for end in self.iterate(p, n_iter, posterior):
            elbo = end[1].elbo
            if elbo - reached < least_gain * self.n_samples or np.isnan(elbo):
                break
            reached = elbo
        assert end is not None
        return end

    def choose(self, ends: Iterable[tuple[P, Q]], least_gain: float) -> tuple[P, Q]:
        """Return the best end; the first, unless another gains `least_gain` nats per sample."""
        first, *others = ends
        best = max(others, key=self.objective, default=first)
        gain = self.objective(best) - self.objective(first)
        return best if gain > least_gain * self.n_samples else first


def settle(now: Q, improve: Callable[[Q], Q], least_gain: float) -> Q:
    """Improve a posterior until a round gains less than `least_gain` nats."""
    for _ in range(_MAX_ROUNDS):
        before, now = now, improve(now)
        if now.elbo - before.elbo < least_gain:
            break
    return now


def in_fixed_order(ys: list[Array]) -> list[Array]:
    """Return the trials in an order that does not depend on theirs, which must not reach rounding errors."""
    return sorted(ys, key=lambda y: (len(y), y.tobytes()))


class EMModel(StateModel, Generic[P, Q]):
    """A model fitted by EM.

    tolerance   nats per sample; the fit ends after PATIENCE iterations in a row that gain less
    """

    tolerance: ClassVar[float] = 1e-5

    _last: tuple[bytes, dict[str, Array], Q] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the cached posterior, which may be larger than everything else."""
        return self.__dict__ | {"_last": None}

    # ---- hooks --------------------------------------------------------------------------------------------------
    @abstractmethod
    def _algorithm(self, ys: list[Array], fitted: bool = False) -> Any:
        """Prepare EM on the trials `ys`, with the projection of a fitted model if it has one and is `fitted`."""

    @abstractmethod
    def _first_parameters(self, em: Any) -> tuple[P, Q | None]:
        """Return parameters to start from, and their posterior if it is known."""

    @property
    @abstractmethod
    def _parameters(self) -> Any:
        """The learned parameters."""

    @abstractmethod
    def _parameters_from(self, em: Any, states: Float) -> P:
        """Return the parameters that soft states [T, K] imply."""

    @abstractmethod
    def _keep(self, em: Any, p: P, posterior: Q | None = None) -> None:
        """Store the parameters."""

    @abstractmethod
    def _posterior(self, y: Array) -> Q:
        """Infer the posterior of a trial."""

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        try:
            yield from on_one_thread(self._run_em(ys))
        except (FitError, np.linalg.LinAlgError) as error:
            if not self.params_:
                raise FitError(
                    f"No start could be found for this data ({error}). Try fewer states or latents."
                ) from error
            self._fail(str(error))

    def _run_em(self, ys: list[Array]) -> Iterator[Progress]:
        em: EM[P, Q] = self._algorithm(in_fixed_order(ys))
        first = self._first_parameters(em)
        best, n_calm = -np.inf, 0
        for number, (p, posterior) in enumerate(em.iterate(first[0], self.config.n_iter, first[1])):
            objective = em.objective((p, posterior))
            if not np.isfinite(objective):
                self._fail(f"its objective is not finite at iteration {number}")
                return
            self._keep(em, p, posterior)
            yield Progress(number, self.config.n_iter, posterior.elbo / em.n_samples, objective / em.n_samples)
            n_calm = n_calm + 1 if objective - best < self.tolerance * em.n_samples else 0
            best = max(best, objective)
            if n_calm == PATIENCE:
                self.status_ = Status.CONVERGED
                return
        self.status_ = Status.MAX_STEPS

    def _set_random_parameters(self, ys: list[Array], seed: int) -> None:
        states = np.random.default_rng(seed).dirichlet(np.ones(self.config.n_states), size=sum(map(len, ys)))
        em = self._algorithm(ys)
        self._keep(em, self._parameters_from(em, states))

    # ---- one trial ----------------------------------------------------------------------------------------------
    def _infer(self, y: Array) -> Q:
        """Return the posterior of a trial, cached because pages ask for several results in turn."""
        digest = hashlib.blake2b(y.tobytes()).digest()
        if self._last is None or self._last[0] != digest or self._last[1] is not self.params_:
            self._last = (digest, self.params_, self._posterior(y))
        return self._last[2]

    def _bound(self, y: Array) -> float:
        return self._infer(y).elbo
