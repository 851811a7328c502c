"""Prior logits of the next soft state: what every form offers, and the paper's linear sticky one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from gdm_core.maths.rows import Rows, shift

_LEARNED_START, _RANDOM_START = -1.5, -2.197  # of gamma's logit; the second is gamma = 0.1


class TransitionNetwork(nn.Module, ABC):
    """pi_t from the past: observations through a context, the previous soft state directly, gamma kept in [0, 1)."""

    affine_in_state: ClassVar[bool]  # when pi_t = context + gamma z_{t-1}, the ELBO can integrate z_{t-1} out
    state_axes: ClassVar[dict[str, tuple[int, ...]]] = {}
    fixed_stickiness: Tensor

    def __init__(self, stickiness: float | Literal["learn"]) -> None:
        super().__init__()
        if stickiness == "learn":
            self.stickiness_logit = nn.Parameter(torch.tensor(_LEARNED_START))
        else:
            self.register_buffer("fixed_stickiness", torch.tensor(float(stickiness)))

    @property
    def gamma(self) -> Tensor:
        """How strongly the previous soft state holds on."""
        if hasattr(self, "stickiness_logit"):
            return torch.sigmoid(self.stickiness_logit) * 0.999  # strictly below 1
        return self.fixed_stickiness

    @abstractmethod
    def start(self, generator: torch.Generator, weight: Tensor, bias: Tensor) -> None:
        """First parameters, given linear logits (R, r) of a first clustering."""

    @abstractmethod
    def start_random(self, generator: torch.Generator) -> None:
        """Everything random, nothing looked at; gamma, where learned, at 0.1."""

    def _start_gamma(self) -> None:
        if hasattr(self, "stickiness_logit"):
            self.stickiness_logit.fill_(_RANDOM_START)

    @abstractmethod
    def context(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, C] what the logits take from observations up to t-1."""

    @abstractmethod
    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        """[..., K] from context [..., C] and the previous soft state [..., K]."""

    @abstractmethod
    def memory(self, rows: Rows, x: Tensor) -> Tensor | None:
        """[R, H] what a rollout that starts after row t carries along, if anything."""

    @abstractmethod
    def memory_at_start(self) -> Tensor | None:
        """[H] the same before a trial's first sample."""

    @abstractmethod
    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One step of a rollout: context of the next sample from the newest x [..., D], and memory that has read x."""


class LinearTransition(TransitionNetwork):
    """pi_t = (1 - gamma) (R x_{t-1} + r) + gamma z_{t-1}."""

    affine_in_state = True

    def __init__(self, n_states: int, n_latent: int, stickiness: float | Literal["learn"]) -> None:
        super().__init__(stickiness)
        self.weight = nn.Parameter(torch.zeros(n_latent, n_states))  # R
        self.bias = nn.Parameter(torch.zeros(n_states))  # r

    def start(self, generator: torch.Generator, weight: Tensor, bias: Tensor) -> None:
        self.weight.copy_(weight)
        self.bias.copy_(bias)

    def start_random(self, generator: torch.Generator) -> None:
        self.weight.copy_(torch.randn(self.weight.shape, generator=generator))
        self.bias.zero_()
        self._start_gamma()

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, shift(x, 1), self.weight)

    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        return torch.lerp(context.expand_as(previous), previous, self.gamma)

    def memory(self, rows: Rows, x: Tensor) -> None:
        return None

    def memory_at_start(self) -> None:
        return None

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, None]:
        return x @ self.weight + self.bias, None


def make_transition(
    n_states: int, n_latent: int, kind: str, stickiness: float | Literal["learn"], n_hidden: int
) -> TransitionNetwork:
    """The transition that the configuration names."""
    if kind == "gru":
        from gdm_core.models.gdm.recurrent import GruTransition

        return GruTransition(n_states, n_latent, n_hidden, stickiness)
    return LinearTransition(n_states, n_latent, stickiness)
