"""How a hand-written gradient becomes a step: Newton's for what has a closed form, Adam with a rate of its own for the rest.

Given the states, the dynamics are a weighted least-squares problem and the noise is what it leaves over. Adam takes
hundreds of steps to get there, because noise is a hundredth of the data and a step must not jump over it; Newton's step takes
one, and draws of the states are all that is left to average over. Logits are the other way round: they have to
become large where states are hard, and a step may be.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.models.gdm.fused import FusedObjective

Array = npt.NDArray[np.float32]

# Of the common rate of Adam. F starts at its best for a linear model, and moves the ground under everything else.
RATES = {"projection": 0.1} | dict.fromkeys(
    (
        "transition.weight",
        "transition.bias",
        "transition.stickiness_logit",
        "posterior.weight",
        "posterior.bias",
        "posterior.out",
    ),
    4.0,
)
# What the weights of logits lose in a step, of the rate. Where states never meet they would grow with every step, and
# one step of a new trial that the fit thought impossible would cost its bound hundreds of nats.
DECAY = {"transition.weight": 0.5, "posterior.weight": 0.5, "posterior.out": 0.5}
FIRST_SHARE, LAST_SHARE = 0.5, 0.05  # of Newton's step that is taken, at the first and at the last step
_MEMORY = 0.9  # of the curvature seen before
_RIDGE = 1e-4  # on the curvature of a design with unit variance, per time step
_MOST_CHANGE = 0.25  # of the log of a standard deviation, a step
_LEAST_OBSERVED = 0.05


class NewtonAscent:
    """Climbs one objective."""

    def __init__(self, objective: FusedObjective) -> None:
        self.objective = objective
        self._adam = Adam(objective.flat.size)
        self._rates: Array = objective.trainable.copy()
        rates = objective.views(self._rates)
        for name, rate in RATES.items():
            if name in rates:
                rates[name] *= np.float32(rate)
        for name in ("dynamics", "log_noise"):
            rates[name][...] = 0
        self._curvature: npt.NDArray[np.float64] | None = None

    def ascend(self, rate: float, done: float, observed: Array | None) -> None:
        """One step.

        rate      of Adam
        done      share of the fit that lies behind
        observed  [N] share of each channel's samples that was observed, None for all
        """
        now = self.objective
        share = FIRST_SHARE + (LAST_SHARE - FIRST_SHARE) * done
        dynamics, noise = self._newton(observed)
        self._adam.ascend(now.flat, now.gradient, rate, self._rates)
        for name in DECAY.keys() & now.p.keys():
            now.p[name] *= np.float32(1 - DECAY[name] * rate)
        now.p["dynamics"][...] += np.float32(share) * dynamics
        now.p["log_noise"][...] += np.clip(np.float32(share) * noise, -_MOST_CHANGE, _MOST_CHANGE)

    def _newton(self, observed: Array | None) -> tuple[Array, Array]:
        """Whole steps of the dynamics [K, P, N] and of the log of the noise [N]."""
        now = self.objective
        seen = now.curvature.astype(np.float64)
        self._curvature = seen if self._curvature is None else _MEMORY * self._curvature + (1 - _MEMORY) * seen
        weight = np.float32(1) if observed is None else np.maximum(observed, np.float32(_LEAST_OBSERVED))
        variance = np.exp(2 * now.log_noise()) / weight
        slope = now.g["dynamics"]
        solved = np.linalg.solve(self._curvature + _RIDGE * np.eye(len(seen)), slope.reshape(len(seen), -1) * variance)
        return solved.astype(np.float32).reshape(slope.shape), now.g["log_noise"] / (2 * weight)


class AdamAscent:
    """The same with Adam alone."""

    def __init__(self, objective: FusedObjective) -> None:
        self.objective = objective
        self._adam = Adam(objective.flat.size)

    def ascend(self, rate: float, done: float, observed: Array | None) -> None:
        """One step at a `rate`."""
        now = self.objective
        self._adam.ascend(now.flat, now.gradient, rate, now.trainable)


class Adam:
    """Adam on one flat vector."""

    def __init__(self, size: int, beta1: float = 0.9, beta2: float = 0.99) -> None:
        self._first: Array = np.zeros(size, np.float32)
        self._second: Array = np.zeros(size, np.float32)
        self._beta1, self._beta2, self._steps = np.float32(beta1), np.float32(beta2), 0

    def ascend(self, flat: Array, gradient: Array, rate: float, rates: Array | float = 1.0) -> None:
        """One step up the `gradient`, with `rate` times `rates`."""
        self._steps += 1
        self._first += (1 - self._beta1) * (gradient - self._first)
        self._second += (1 - self._beta2) * (np.square(gradient) - self._second)
        first = self._first / (1 - self._beta1**self._steps)
        second = self._second / (1 - self._beta2**self._steps)
        flat += np.float32(rate) * rates * first / (np.sqrt(second) + np.float32(1e-8))
