"""Parameters of the Gumbel Dynamical Model, checked when they are set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gdm_core.models.parameters import Configuration, is_number, parameter, require, require_choice, require_count

Transition = Literal["linear", "gru"]
PosteriorName = Literal["window", "window_linear", "linear", "sticky", "bigru", "transformer", "auto"]
Preset = Literal["fast", "paper"]
Covariance = Literal["diagonal", "full"]
Readout = Literal["corrected", "amortised"]


def require_temperature(name: str, value: float) -> None:
    require(is_number(value) and 0.01 <= value <= 10, name, value, "a number from 0.01 to 10 (it must be positive)")


@dataclass(frozen=True)
class SoftConfig(Configuration):
    """What every model is told whose states are soft."""

    n_states: int = parameter(4, "Number of states (K).")
    n_latent: int = parameter(2, "Dimensions that the dynamics see (D).")
    temperature: float = parameter(0.99, "How soft states are (tau); small values approach hard switching.")
    stickiness: float | Literal["learn"] = parameter(
        "learn", "How much the previous state holds on (gamma): a number in [0, 1), or 'learn'."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("n_states (K)", self.n_states, 1, 64)
        require_count("n_latent (D)", self.n_latent)
        require_temperature("temperature (tau)", self.temperature)
        require(
            self.stickiness == "learn" or (is_number(self.stickiness) and 0 <= float(self.stickiness) < 1),
            "stickiness (gamma)",
            self.stickiness,
            "'learn' or a number in [0, 1)",
        )


@dataclass(frozen=True)
class GDMConfig(SoftConfig):
    """Every parameter of a `GDM`."""

    transition: Transition = parameter("linear", "'linear', or 'gru' for memory beyond one step.")
    posterior: PosteriorName | None = parameter(
        None,
        "What q(z) sees: 'window' (places and moves), 'window_linear' (the same, linear), 'linear' (places, the paper's), "
        "'sticky' (adds the previous state), 'bigru' and 'transformer' (the whole trial), 'auto' (window or linear, by "
        "held-out ELBO); None is 'bigru' with transition 'gru', 'linear' with preset 'paper', and 'window' otherwise.",
    )
    preset: Preset = parameter("fast", "'fast', or 'paper' for the paper's own optimiser, samples and schedule.")
    lags: int = parameter(1, "How many past samples the dynamics see.")
    covariance: Covariance = parameter("diagonal", "'diagonal' or 'full' observation noise R.")
    train_projection: bool = parameter(True, "Whether F is refined by gradient or stays at the principal components.")
    temperature_start: float | None = parameter(
        None, "Where tau is annealed from, down to `temperature`; None keeps it fixed."
    )
    readout: Readout | None = parameter(
        None,
        "'corrected' soft states weigh posterior samples by the model, 'amortised' ones do not; None is the preset's.",
    )
    n_steps: int | None = parameter(None, "Optimiser steps; None is the preset's choice.")
    n_samples: int | None = parameter(None, "Posterior samples a step; None is the preset's choice.")
    batch_size: int = parameter(8192, "Samples a step looks at.")
    n_restarts: int = parameter(1, "Fits from different seeds, of which the best is kept.")
    n_hidden: int = parameter(32, "Width of the networks in posterior and transition.")
    seed: int = parameter(0, "Where all randomness comes from.")
    device: str = parameter("auto", "'auto', 'cpu' or 'cuda'.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("lags", self.lags)
        require_count("batch_size", self.batch_size, 32)
        require_count("n_restarts", self.n_restarts)
        require_count("n_hidden", self.n_hidden)
        require_count("seed", self.seed, 0)
        for name in ("n_steps", "n_samples"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        if self.temperature_start is not None:
            require_temperature("temperature_start", self.temperature_start)
        for name, choices in (("transition", Transition), ("preset", Preset), ("covariance", Covariance)):
            require_choice(name, getattr(self, name), choices)
        for name, choices in (("posterior", PosteriorName), ("readout", Readout)):
            if getattr(self, name) is not None:
                require_choice(name, getattr(self, name), choices)
        require(isinstance(self.device, str), "device", self.device, "'auto', 'cpu' or 'cuda'")

    @property
    def reads(self) -> PosteriorName:
        """The posterior that was asked for, or the one that suits."""
        if self.posterior is not None:
            return self.posterior
        return "bigru" if self.transition == "gru" else "linear" if self.preset == "paper" else "window"

    @property
    def remembers(self) -> bool:
        """Whether anything runs along the trial: the transition, or the posterior."""
        return self.transition == "gru" or self.reads in ("bigru", "transformer")

    @property
    def steps(self) -> int:
        """Optimiser steps of Adam; Newton's take fewer (`fit.plan`). "Places", too: see docs/decisions, 6."""
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
