"""Parameters of the Gumbel Dynamical Model, checked when they are set."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from gdm_core.models.parameters import (
    OUTLIERS,
    Allowed,
    Configuration,
    Outliers,
    number,
    one_of,
    parameter,
    whole,
)

Transition = Literal["linear", "gru"]
PosteriorName = Literal["window", "window_linear", "linear", "sticky", "bigru", "transformer"]
Preset = Literal["fast", "paper"]
Covariance = Literal["diagonal", "full"]
Readout = Literal["corrected", "amortised"]


TEMPERATURE = number(lambda tau: 0.01 <= tau <= 10, "a number from 0.01 to 10 (it must be positive)")


@dataclass(frozen=True)
class SoftConfig(Configuration):
    """What every model is told whose states are soft."""

    n_states: int = parameter(4, "Number of states (K).", whole(most=64), "K")
    n_latent: int = parameter(2, "Dimensions that the dynamics see (D).", whole(), "D")
    temperature: float = parameter(
        0.99, "How soft states are (tau); small values approach hard switching.", TEMPERATURE, "tau"
    )
    stickiness: float | Literal["learn"] = parameter(
        "learn",
        "How much the previous state holds on (gamma): a number in [0, 1), or 'learn'.",
        number(lambda gamma: 0 <= gamma < 1, "'learn' or a number in [0, 1)", "learn"),
        "gamma",
    )
    _: KW_ONLY
    outliers: Outliers = parameter("keep", OUTLIERS, one_of(Outliers))


@dataclass(frozen=True)
class GDMConfig(SoftConfig):
    """Every parameter of a `GDM`."""

    transition: Transition = parameter("linear", "'linear', or 'gru' for memory beyond one step.", one_of(Transition))
    posterior: PosteriorName | None = parameter(
        None,
        "What q(z) sees: 'window' (places and moves), 'window_linear' (the same, linear), 'linear' (places, the paper's), "
        "'sticky' (adds the previous state), 'bigru' and 'transformer' (the whole trial); None is 'bigru' with "
        "transition 'gru', 'linear' with preset 'paper', and 'window' otherwise.",
        one_of(PosteriorName),
    )
    informed: bool | None = parameter(
        None,
        "Whether q(z) also sees a chain of states weighed by the model's own likelihood, which suits states that last; None "
        "chooses by the bound.",
    )
    state_noise: bool | None = parameter(None, "Whether each state has noise of its own; None chooses by the bound.")
    stickiness_scale: float | Literal["learn"] | None = parameter(
        None,
        "Factor of the sticky term: a number, or 'learn'. 1 is the paper's form, which holds a state for a few samples; None is "
        "'learn' for posterior 'window' with preset 'fast', and 1 otherwise.",
        number(lambda scale: 0 < scale <= 20, "'learn' or a number above 0 and up to 20", "learn"),
    )
    preset: Preset = parameter(
        "fast", "'fast', or 'paper' for the paper's own optimiser, samples and schedule.", one_of(Preset)
    )
    lags: int = parameter(1, "How many past samples the dynamics see.", whole())
    covariance: Covariance = parameter("diagonal", "'diagonal' or 'full' observation noise R.", one_of(Covariance))
    train_projection: bool = parameter(True, "Whether F is refined by gradient or stays at the principal components.")
    temperature_start: float | None = parameter(
        None, "Where tau is annealed from, down to `temperature`; None keeps it fixed.", TEMPERATURE
    )
    readout: Readout | None = parameter(
        None,
        "'corrected' soft states weigh posterior samples by the model, 'amortised' ones do not; None is the preset's.",
        one_of(Readout),
    )
    n_steps: int | None = parameter(None, "Optimiser steps; None is the preset's choice.", whole())
    n_samples: int | None = parameter(None, "Posterior samples a step; None is the preset's choice.", whole())
    batch_size: int = parameter(8192, "Samples a step looks at.", whole(32))
    n_restarts: int = parameter(1, "Fits from different seeds, of which the best is kept.", whole())
    n_hidden: int = parameter(32, "Width of the networks in posterior and transition.", whole())
    seed: int = parameter(0, "Where all randomness comes from.", whole(0))
    device: str = parameter(
        "auto", "'auto', 'cpu' or 'cuda'.", Allowed(lambda name: isinstance(name, str), "'auto', 'cpu' or 'cuda'")
    )

    @property
    def reads(self) -> PosteriorName:
        """The posterior that was asked for, or the one that suits."""
        if self.posterior is not None:
            return self.posterior
        return "bigru" if self.transition == "gru" else "linear" if self.preset == "paper" else "window"

    @property
    def adapts(self) -> bool:
        """Whether the fit may choose start, posterior and noise by the bound."""
        moves = self.transition == "linear" and self.reads in ("window", "window_linear")
        return moves and self.preset == "fast" and self.covariance == "diagonal"

    @property
    def scale_of_stickiness(self) -> float | Literal["learn"]:
        """The factor that was asked for, or the one that suits."""
        if self.stickiness_scale is not None:
            return self.stickiness_scale
        return "learn" if self.adapts else 1.0

    @property
    def remembers(self) -> bool:
        """Whether anything runs along the trial: the transition, or the posterior."""
        return self.transition == "gru" or self.reads in ("bigru", "transformer")

    @property
    def steps(self) -> int:
        """Optimiser steps of Adam; Newton's take fewer (`fit.plan`). "Places", too: see docs/decisions/006."""
        if self.n_steps is not None:
            return self.n_steps
        if self.preset == "paper":
            return 4000
        if self.remembers:
            return 260  # a step along sequences costs several times one without; states change little after these
        return 200 if self.reads == "linear" else 600

    @property
    def corrects(self) -> bool:
        """Whether soft states are read out with importance weights. The paper's recipe has none; nor have "places",
        since weighing by how well a move is explained would make moves of them."""
        if self.readout is not None:
            return self.readout == "corrected"
        return self.preset == "fast" and self.reads != "linear"
