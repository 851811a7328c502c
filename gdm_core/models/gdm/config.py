"""Parameters of the Gumbel Dynamical Model, checked when they are set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gdm_core.models.checks import require, require_choice, require_count

Transition = Literal["linear", "gru"]
PosteriorName = Literal["window", "window_linear", "linear", "sticky", "bigru", "transformer", "auto"]
Preset = Literal["fast", "paper"]
Covariance = Literal["diagonal", "full"]
Readout = Literal["corrected", "amortised"]


@dataclass(frozen=True)
class GDMConfig:
    """Every parameter of a `GDM`; see its constructor for what they mean."""

    n_states: int = 4
    n_latent: int = 2
    temperature: float = 0.99
    stickiness: float | Literal["learn"] = "learn"
    transition: Transition = "linear"
    posterior: PosteriorName = "window"
    preset: Preset = "fast"
    lags: int = 1
    covariance: Covariance = "diagonal"
    train_projection: bool = True
    temperature_start: float | None = None
    readout: Readout | None = None
    n_steps: int | None = None
    n_samples: int | None = None
    batch_size: int = 8192
    n_restarts: int = 1
    n_hidden: int = 32
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        require_count("n_states (K)", self.n_states, 1, 64)
        require_count("n_latent (D)", self.n_latent)
        require_count("lags", self.lags)
        require_count("batch_size", self.batch_size, 32)
        require_count("n_restarts", self.n_restarts)
        require_count("n_hidden", self.n_hidden)
        require_count("seed", self.seed, 0)
        for name in ("n_steps", "n_samples"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        for name, value in (("temperature (tau)", self.temperature), ("temperature_start", self.temperature_start)):
            if value is not None:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                require(number and 0.01 <= value <= 10, name, value, "a number from 0.01 to 10 (it must be positive)")
        sticky = self.stickiness
        number = isinstance(sticky, int | float) and not isinstance(sticky, bool)
        require(
            sticky == "learn" or (number and 0 <= float(sticky) < 1),
            "stickiness (gamma)",
            sticky,
            "'learn' or a number in [0, 1)",
        )
        for name, choices in (
            ("transition", Transition),
            ("posterior", PosteriorName),
            ("preset", Preset),
            ("covariance", Covariance),
        ):
            require_choice(name, getattr(self, name), choices)
        if self.readout is not None:
            require_choice("readout", self.readout, Readout)
        require(isinstance(self.device, str), "device", self.device, "'auto', 'cpu' or 'cuda'")

    @property
    def steps(self) -> int:
        """Optimiser steps. "Places" take fewer: see docs/decisions.md, 6, for how that was chosen."""
        if self.n_steps is not None:
            return self.n_steps
        if self.preset == "paper":
            return 4000
        if self.transition == "gru" or self.posterior in ("bigru", "transformer"):
            return 260  # a step along sequences costs several times one without; states change little after these
        return 200 if self.posterior == "linear" else 600

    @property
    def corrects(self) -> bool:
        """Whether soft states are read out with importance weights. The paper's recipe has none; nor have "places",
        since weighing by how well a move is explained would make moves of them."""
        if self.readout is not None:
            return self.readout == "corrected"
        return self.preset == "fast" and self.posterior != "linear"
