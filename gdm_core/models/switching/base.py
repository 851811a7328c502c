"""Base of the models with one state per sample."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from gdm_core.arrays import Array, Float, Ints
from gdm_core.errors import FitError
from gdm_core.forecast import N_FOLDS, Sampler
from gdm_core.maths.gaps import split_runs
from gdm_core.maths.hmm import most_probable_path
from gdm_core.maths.threads import one_thread
from gdm_core.models.em import EMModel, P, in_fixed_order
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.transitions import Transitions
from gdm_core.trials import TrialsLike


class SwitchingModel(EMModel[P, Any]):
    """A model with hard states, linear dynamics in each of them, and transitions between them."""

    def _keep_chain(self, p: Any, others: dict[str, Any]) -> None:
        """Store the parameters that all switching models have, and the arrays `others`."""
        arrays = others | {
            "coefficients": p.dynamics.coefficients,
            "covariance": p.dynamics.covariance,
            "log_initial": p.transitions.log_initial,
            "transition_bias": p.transitions.bias,
            "transition_weights": p.transitions.weights,
            "start_mean": p.start_mean,
            "start_covariance": p.start_covariance,
        }
        # Contiguous, as files give them back: products of other layouts round differently.
        self.params_ = {name: np.ascontiguousarray(value) for name, value in arrays.items()}

    def _chain(self) -> tuple[Dynamics, Transitions, Any, Any]:
        """Return dynamics, transitions, and mean and covariance of a trial's first sample."""
        p: dict[str, Any] = self.params_
        transitions = (self.config.transitions, p["log_initial"], p["transition_bias"], p["transition_weights"])
        dynamics = Dynamics(p["coefficients"], p["covariance"])
        return dynamics, Transitions(*transitions), p["start_mean"], p["start_covariance"]

    def _soft_states(self, y: Array) -> Array:
        return self._infer(y).chain.states.astype(np.float32)

    def viterbi(self, data: TrialsLike) -> Any:
        """Return the most probable path of states [T]; a list for several recordings.

        `predict` returns the most probable state of each sample instead, which makes fewer errors per sample.
        """
        return self._each(data, lambda y: most_probable_path(self._infer(y).chain))

    def _state_noise(self) -> Float:
        return np.asarray(self._parameters.dynamics.covariance, np.float64)

    def _cross_fit(self, ys: list[Array], folds: list[Ints]) -> list[Sampler]:
        samplers: list[Sampler] = []
        for number in range(N_FOLDS):
            others = [part for y, fold in zip(ys, folds, strict=True) for part in split_runs(y, fold != number)]
            model = copy.copy(self)
            try:
                with one_thread():
                    em = self._algorithm(in_fixed_order([y for y in others if len(y) > self.min_samples]), fitted=True)
                    end = em.run(self._parameters, 1)
            except (FitError, np.linalg.LinAlgError):
                return []
            if not np.isfinite(em.objective(end)):
                return []
            model._keep(em, *end)
            samplers.append(model._paths_across_gaps)
        return samplers
