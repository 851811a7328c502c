"""Means with 95% intervals by Student's t, the one rule of significance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Means and their uncertainty; arrays of one shape, or numbers.

    mean      means
    error     standard errors
    freedom   degrees of freedom of the errors; infinite for errors that are known
    """

    mean: Floats
    error: Floats
    freedom: Floats

    @property
    def margin(self) -> Floats:
        """Return half the width of the 95% intervals."""
        from scipy.special import stdtrit  # would slow the first visit

        return np.asarray(stdtrit(self.freedom, 0.975) * self.error)

    @property
    def sure(self) -> npt.NDArray[np.bool_]:
        """Return whether the 95% intervals exclude zero."""
        return np.asarray(np.abs(self.mean) > self.margin)

    def __getitem__(self, index: Any) -> Estimate:
        """Return a selection of the means."""
        return Estimate(self.mean[index], self.error[index], self.freedom[index])

    def __sub__(self, other: Estimate) -> Estimate:
        """Return the difference of independent means, with Welch's degrees of freedom."""
        own, others = np.square(self.error), np.square(other.error)
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.square(own + others) / (np.square(own) / self.freedom + np.square(others) / other.freedom)
        freedom = np.where(own + others == 0, np.inf, freedom)
        return Estimate(self.mean - other.mean, np.sqrt(own + others), freedom)
