"""Base of models that put every sample into one state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from gdm_core.errors import FitError
from gdm_core.forecast import N_FOLDS, Sampler
from gdm_core.maths.gaps import runs
from gdm_core.maths.hmm import ChainPosterior
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import Array, Progress, Status
from gdm_core.models.climbing import Bounded, ClimbingModel
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.transitions import Transitions


class OfChain(Bounded, Protocol):
    """A posterior of states, and of what else a model does not see."""

    @property
    def chain(self) -> ChainPosterior: ...


Posterior = TypeVar("Posterior", bound=OfChain)

# A state has collapsed below both, in some direction: repeated values do that, and noise-free data stay above the second.
_LEAST_OF_STEPS = 1e-6  # noise as a share of the variance of steps; the prior leaves more to fewer than 1,000 samples
_LEAST_OF_NOISE = 1e-3  # as a share of the noise of all states


class SwitchingModel(ClimbingModel[Posterior]):
    """A model with hard states, linear dynamics in each of them, and transitions between them."""

    @property
    @abstractmethod
    def _parameters(self) -> Any:
        """What was learned; its `dynamics`, its `transitions` and where trials start are kept by `_keep_chain`."""

    def _keep_chain(self, learned: Any, beside: dict[str, Any]) -> None:
        """Make the model's what both kinds have in common, and the arrays `beside` it."""
        dynamics, transitions = learned.dynamics, learned.transitions
        kept = beside | {
            "coefficients": dynamics.coefficients,
            "covariance": dynamics.covariance,
            "log_initial": transitions.log_initial,
            "transition_bias": transitions.bias,
            "transition_weights": transitions.weights,
        }
        kept |= {"start_mean": learned.start_mean, "start_covariance": learned.start_covariance}
        # In the layout that a file gives back: products of other layouts round differently.
        self.params_ = {name: np.ascontiguousarray(value) for name, value in kept.items()}

    def _chain(self) -> tuple[Dynamics, Transitions, Any, Any]:
        """What `_keep_chain` kept: dynamics, transitions, and mean and covariance of where trials start."""
        p: dict[str, Any] = self.params_
        transitions = (self.config.transitions, p["log_initial"], p["transition_bias"], p["transition_weights"])
        dynamics = Dynamics(p["coefficients"], p["covariance"])
        return dynamics, Transitions(*transitions), p["start_mean"], p["start_covariance"]

    def _soft_states(self, y: Array) -> Array:
        return self._infer(y).chain.states.astype(np.float32)

    def _collapsed(self, ys: list[Array]) -> str | None:
        noise = np.asarray(self._parameters.dynamics.covariance, np.float64)
        if (_smallest(noise, noise.sum(axis=0)) >= _LEAST_OF_NOISE).all():
            return None  # the mean over samples is at most that sum
        usage, n_steps = np.zeros(len(noise)), 0
        steps: npt.NDArray[np.float64] = np.zeros(noise.shape[1:])
        for y in ys:
            usage += self._soft_states(y).sum(axis=0)
            moved = np.diff(self._latent(y).astype(np.float64), axis=0)
            steps += moved.T @ moved
            n_steps += len(moved)
        mean = np.einsum("k,kij->ij", usage / usage.sum(), noise)
        variance = np.maximum(np.diag(steps) / n_steps, 1e-8)
        collapsed = _smallest(noise, np.diag(variance)) < _LEAST_OF_STEPS
        collapsed &= _smallest(noise, mean) < _LEAST_OF_NOISE
        if not collapsed.any():
            return None
        k = int(collapsed.argmax())
        return (
            f"the noise of state {k + 1} has collapsed, since {usage[k]:.0f} samples follow from those before exactly; "
            "if values are repeated or interpolated there, make them missing (NaN)"
        )

    @abstractmethod
    def _steps(self, ys: list[Array]) -> Iterator[Progress]:
        """What `_fit` does, on whatever threads there are."""

    def _cross_fit(self, ys: list[Array], folds: list[npt.NDArray[np.int64]]) -> list[Sampler]:
        samplers: list[Sampler] = []
        for number in range(N_FOLDS):
            others = [part for y, fold in zip(ys, folds, strict=True) for part in runs(y, fold != number)]
            model = self.warm_start(n_iter=1)
            model.scaler_, model.factors_ = self.scaler_, self.factors_
            for _ in model._fit([part for part in others if len(part) > self.min_samples]):
                pass
            if model.status_ is Status.FAILED:
                return []
            samplers.append(model._paths_across_gaps)
        return samplers

    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        try:
            yield from on_one_thread(self._steps(ys))
        except (FitError, np.linalg.LinAlgError) as error:
            if not self.params_:
                raise FitError(
                    f"No start could be found for this data ({error}). Try fewer states or latents."
                ) from error
            self._fail(str(error))


def _smallest(covariances: npt.NDArray[np.float64], reference: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the smallest eigenvalue of each covariance [K, D, D] in units of `reference` [D, D]."""
    inverse = np.linalg.inv(np.linalg.cholesky(reference))
    return np.asarray(np.linalg.eigvalsh(inverse @ covariances @ inverse.T)[:, 0], np.float64)
