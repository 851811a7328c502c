"""What models share that put every moment into one state: and other names for states."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, FitError
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import Array, Progress, Status
from gdm_core.models.climbing import ClimbingModel, Posterior


class SwitchingModel(ClimbingModel[Posterior]):
    """A model with hard states, linear dynamics in each of them, and transitions between them."""

    @property
    @abstractmethod
    def _parameters(self) -> Any:
        """What was learned, `dynamics` and `transitions` among it."""

    @abstractmethod
    def _steps(self, ys: list[Array]) -> Iterator[Progress]:
        """What `_fit` does, on whatever threads there are."""

    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        try:
            yield from on_one_thread(self._steps(ys))
        except (FitError, np.linalg.LinAlgError) as error:
            if not self.params_:
                raise FitError(
                    f"No start could be found for this data ({error}). Try fewer states or latents."
                ) from error
            self.status_ = Status.DIVERGED

    def relabelled(self, order: npt.ArrayLike) -> Self:
        """The same model with its states renamed: new state i is the old state order[i]."""
        self._require_fitted()
        chosen = np.asarray(order, dtype=np.int64)
        if sorted(chosen.tolist()) != list(range(self.config.n_states)):
            raise ConfigError(
                f"order is {chosen.tolist()}; it must name each state 0..{self.config.n_states - 1} once."
            )
        model = type(self).from_config(self.config)
        model.scaler_, model.calibration_, model.status_ = self.scaler_, self.calibration_, self.status_
        p, transitions = dict(self.params_), self._parameters.transitions.reordered(chosen)
        dynamics = self._parameters.dynamics.reordered(chosen)
        renamed: dict[str, Any] = {
            "coefficients": dynamics.coefficients,
            "covariance": dynamics.covariance,
            "log_initial": transitions.log_initial,
            "transition_bias": transitions.bias,
            "transition_weights": transitions.weights,
        }
        model.params_ = p | renamed
        return model
