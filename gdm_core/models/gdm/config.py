"""Parameters of the Gumbel Dynamical Model."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from gdm_core.errors import ConfigError
from gdm_core.models.parameters import Allowed, FamilyConfig, number, one_of, parameter, whole

Transition = Literal["linear", "network", "gru"]
PosteriorName = Literal["window", "linear", "sticky", "bigru", "transformer"]
Preset = Literal["fast", "paper"]
Readout = Literal["corrected", "amortised"]

TEMPERATURE = number(lambda tau: 0.01 <= tau <= 10, "a number from 0.01 to 10 (it must be positive)")


@dataclass(frozen=True)
class SoftConfig(FamilyConfig):
    """Parameters of every model with soft states."""

    temperature: float = parameter(
        0.99, "Softness of the states (tau); small values approach hard switching.", TEMPERATURE, "tau"
    )
    stickiness: float | Literal["learn"] = parameter(
        "learn",
        "Persistence of the previous state (gamma): a number in [0, 1), or 'learn'.",
        number(lambda gamma: 0 <= gamma < 1, "'learn' or a number in [0, 1)", "learn"),
        "gamma",
    )
    _: KW_ONLY
    n_hidden: int = parameter(32, "Hidden units of the networks in posterior and transition.", whole())


@dataclass(frozen=True)
class GDMConfig(SoftConfig):
    """Every parameter of a `GDM`."""

    transition: Transition = parameter(
        "linear",
        "'linear', 'network' for a feed-forward network of z_{t-1} and x_{t-1}, or 'gru' for memory beyond one step.",
        one_of(Transition),
    )
    posterior: PosteriorName | None = parameter(
        None,
        "Input of q(z): 'window' (position and step), 'linear' (position, as in the paper), 'sticky' (position and the "
        "previous state), 'bigru' or 'transformer' (the whole trial); None is 'bigru' with transition 'gru', 'linear' with "
        "preset 'paper', and 'window' otherwise.",
        one_of(PosteriorName),
    )
    lasting: bool | Literal["auto"] = parameter(
        "auto",
        "Whether states may last many samples: each has its own noise, and q(z) also sees a Markov chain of states under the "
        "model's likelihood. 'auto' chooses by the bound.",
        Allowed(lambda value: value in (True, False, "auto"), "True, False or 'auto'"),
    )
    stickiness_scale: float | Literal["learn"] | None = parameter(
        None,
        "Factor of the sticky term: a number, or 'learn'. With 1, as in the paper, states last a few samples; None is "
        "'learn' for posterior 'window' with preset 'fast', and 1 otherwise.",
        number(lambda scale: 0 < scale <= 20, "'learn' or a number above 0 and up to 20", "learn"),
    )
    preset: Preset = parameter(
        "fast", "'fast', or 'paper' for the paper's own optimiser, samples and schedule.", one_of(Preset)
    )
    readout: Readout | None = parameter(
        None,
        "'corrected' weighs posterior samples by the model, 'amortised' does not; None is the preset's.",
        one_of(Readout),
    )
    n_steps: int | None = parameter(None, "Training steps; None is the preset's.", whole())
    n_samples: int | None = parameter(None, "Posterior samples per training step; None is the preset's.", whole())
    batch_size: int = parameter(8192, "Samples per training step.", whole(32))
    device: str = parameter(
        "auto", "'auto', 'cpu' or 'cuda'.", Allowed(lambda name: isinstance(name, str), "'auto', 'cpu' or 'cuda'")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lasting is True and not self.may_last:
            raise ConfigError(
                "lasting is True, which needs transition 'linear', posterior 'window' and preset 'fast'; choose False or 'auto'."
            )

    @property
    def effective_posterior(self) -> PosteriorName:
        """Posterior after defaults."""
        if self.posterior is not None:
            return self.posterior
        return "bigru" if self.transition == "gru" else "linear" if self.preset == "paper" else "window"

    @property
    def may_last(self) -> bool:
        """Whether states may last, and the fit chooses its start by the bound."""
        return self.transition == "linear" and self.effective_posterior == "window" and self.preset == "fast"

    @property
    def effective_stickiness_scale(self) -> float | Literal["learn"]:
        """Factor of the sticky term after defaults."""
        if self.stickiness_scale is not None:
            return self.stickiness_scale
        return "learn" if self.may_last else 1.0

    @property
    def reads_whole_trials(self) -> bool:
        """Whether transition or posterior reads whole trials."""
        return self.transition == "gru" or self.effective_posterior in ("bigru", "transformer")

    @property
    def effective_steps(self) -> int:
        """Training steps with Adam; Newton steps are fewer (`fit.Plan`)."""
        if self.n_steps is not None:
            return self.n_steps
        if self.preset == "paper":
            return 4000
        if self.reads_whole_trials:
            return 260  # steps over sequences are slow, and states change little after these
        return 200 if self.effective_posterior == "linear" else 600

    @property
    def weighs_samples(self) -> bool:
        """Whether the model weighs posterior samples for soft states."""
        # Not position states (docs/decisions/006): weighing by how well a step is explained would define them by steps.
        if self.readout is not None:
            return self.readout == "corrected"
        return self.preset == "fast" and self.effective_posterior != "linear"
