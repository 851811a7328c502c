"""Prior logits of the next soft state: the paper's linear sticky form. Recurrent ones live in their own module."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from gdm_core.rows import Rows, shift


class LinearTransition(nn.Module):
    """pi_t = (1 - gamma) (R x_{t-1} + r) + gamma z_{t-1}, gamma kept in [0, 1)."""

    affine_in_state = True  # which lets the reported bound integrate z_{t-1} out

    def __init__(self, n_states: int, n_latent: int, stickiness: float | Literal["learn"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_latent, n_states))
        self.bias = nn.Parameter(torch.zeros(n_states))
        if stickiness == "learn":
            self.stickiness_logit = nn.Parameter(torch.tensor(-1.5))
        else:
            self.register_buffer("fixed_stickiness", torch.tensor(float(stickiness)))

    @property
    def gamma(self) -> Tensor:
        if hasattr(self, "stickiness_logit"):
            return torch.sigmoid(self.stickiness_logit) * 0.999  # strictly below 1
        fixed: Tensor = self.fixed_stickiness
        return fixed

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, K] what the logits take from observations up to t-1."""
        return torch.addmm(self.bias, shift(x, 1), self.weight)

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The same for one step of a rollout: context from the newest x [..., D]; linear transitions carry no memory."""
        return x @ self.weight + self.bias, None

    def memory(self, rows: Rows, x: Tensor) -> Tensor | None:
        """[R, H] what a rollout that starts after row t must carry along."""
        return None

    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        gamma = self.gamma
        return (
            torch.lerp(context, previous, gamma)
            if context.shape == previous.shape
            else ((1 - gamma) * context + gamma * previous)
        )


def make_transition(
    n_states: int, n_latent: int, kind: str, stickiness: float | Literal["learn"], n_hidden: int
) -> nn.Module:
    """The transition that the configuration names."""
    if kind == "gru":
        from gdm_core.recurrent import GruTransition

        return GruTransition(n_states, n_latent, n_hidden, stickiness)
    return LinearTransition(n_states, n_latent, stickiness)
