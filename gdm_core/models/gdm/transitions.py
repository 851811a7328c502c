"""Transitions of the GDM: prior logits of the next soft state (paper, section 2.2)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from gdm_core.maths.gru import Gru, start_small
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.config import GDMConfig

_START_LOGIT, _RANDOM_START_LOGIT = -1.5, -2.197  # of gamma; the second is gamma = 0.1
_START_SCALE = 4.0
MAX_LOG_SCALE = math.log(20.0)


class LinearTransition(nn.Module):
    """Linear sticky transition: pi_t = (1 - gamma) (R x_{t-1} + r) + gamma c z_{t-1}.

    gamma lies in [0, 1). The paper has c = 1.
    """

    affine_in_state: ClassVar[bool] = True  # the ELBO can then integrate z_{t-1} out
    fixed_stickiness: Tensor
    fixed_scale: Tensor

    def __init__(self, config: GDMConfig) -> None:
        super().__init__()
        if config.stickiness == "learn":
            self.stickiness_logit = nn.Parameter(torch.tensor(_START_LOGIT))
        else:
            self.register_buffer("fixed_stickiness", torch.tensor(float(config.stickiness)))
        scale = config.effective_stickiness_scale
        if scale == "learn":
            self.log_scale = nn.Parameter(torch.tensor(math.log(_START_SCALE)))
        else:
            self.register_buffer("fixed_scale", torch.tensor(float(scale)))
        self.weight = nn.Parameter(torch.zeros(config.n_dimensions, config.n_states))  # R
        self.bias = nn.Parameter(torch.zeros(config.n_states))  # r

    @property
    def gamma(self) -> Tensor:
        """Stickiness."""
        if hasattr(self, "stickiness_logit"):
            return torch.sigmoid(self.stickiness_logit) * 0.999  # strictly below 1
        return self.fixed_stickiness

    @property
    def scale(self) -> Tensor:
        """Factor c of the sticky term."""
        if hasattr(self, "log_scale"):
            return self.log_scale.clamp_max(MAX_LOG_SCALE).exp()
        return self.fixed_scale

    def start(self, generator: torch.Generator, weight: Tensor, bias: Tensor) -> None:
        """Start from linear logits (R, r)."""
        self.weight.copy_(weight)
        self.bias.copy_(bias)

    def start_random(self, generator: torch.Generator) -> None:
        """Draw random weights; a learned gamma starts at 0.1."""
        self.weight.copy_(torch.randn(self.weight.shape, generator=generator))
        self._start_neutral()

    def _start_neutral(self) -> None:
        self.bias.zero_()
        if hasattr(self, "stickiness_logit"):
            self.stickiness_logit.fill_(_RANDOM_START_LOGIT)

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        """Return the part of the logits [R, C] that depends on observations up to t-1."""
        return torch.addmm(self.bias, shift(x, 1), self.weight)

    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        """Return logits [..., K] from context [..., C] and the previous soft state [..., K]."""
        return torch.lerp(context.expand_as(previous), self.scale * previous, self.gamma)

    def memory(self, rows: Rows, x: Tensor) -> Tensor | None:
        """Return the memory [R, H] of a forecast from each row, or None without memory."""
        return None

    def memory_at_start(self) -> Tensor | None:
        """Return the memory [H] before the first sample of a trial, or None without memory."""
        return None

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the context of the next sample from the newest x [D] or [R, D], and the updated memory."""
        # Transposed to keep the memory layout of x.
        return (self.weight.T @ x.transpose(0, -1)).transpose(0, -1) + self.bias, None


class NetworkTransition(LinearTransition):
    """Feed-forward transition without memory: pi_t = (1 - gamma) FNN(z_{t-1}, x_{t-1}) + gamma c z_{t-1}.

    FNN(z, x) = R x + r + O tanh(U x + V z + u), with x_{t-1} = F y_{t-1}. O starts at zero, so a fit starts as the
    linear transition. gamma is the stickiness, as there.
    """

    affine_in_state = False  # the reported bound averages over samples of z_{t-1}

    def __init__(self, config: GDMConfig) -> None:
        super().__init__(config)
        self._add_units(config.n_dimensions, config.n_hidden, config.n_states)

    def _add_units(self, n_inputs: int, width: int, n_states: int) -> None:
        self.hidden_weight = nn.Parameter(torch.zeros(n_inputs, width))  # U
        self.state_weight = nn.Parameter(torch.zeros(n_states, width))  # V
        self.hidden_bias = nn.Parameter(torch.zeros(width))  # u
        self.out = nn.Parameter(torch.zeros(width, n_states))  # O

    def start(self, generator: torch.Generator, weight: Tensor, bias: Tensor) -> None:
        """Start from linear logits (R, r) and random hidden units without effect."""
        super().start(generator, weight, bias)
        self._start_units(generator)

    def _start_units(self, generator: torch.Generator) -> None:
        start_small(generator, self.hidden_weight, self.state_weight)
        self.hidden_bias.copy_(0.5 * torch.randn(self.hidden_bias.shape, generator=generator).to(self.hidden_bias))

    def start_random(self, generator: torch.Generator) -> None:
        self._start_units(generator)
        start_small(generator, self.weight, self.out)
        self._start_neutral()

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        """Return the linear logits and the inputs of the hidden units [R, K + M], without z_{t-1}."""
        return self._context(shift(x, 1), shift(x, 1))

    def _context(self, x: Tensor, inputs: Tensor) -> Tensor:
        return torch.cat([x @ self.weight + self.bias, inputs @ self.hidden_weight + self.hidden_bias], -1)

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self._context(x, x), None

    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        """Return logits [..., K] from context [..., K + M] and the previous soft state [..., K]."""
        k = previous.shape[-1]
        hidden = torch.tanh(context[..., k:] + previous @ self.state_weight)
        free = context[..., :k] + hidden @ self.out
        return torch.lerp(free, self.scale * previous.expand_as(free), self.gamma)


class GruTransition(NetworkTransition):
    """Transition with memory: pi_t = (1 - gamma) FNN(z_{t-1}, h_t, x_{t-1}) + gamma c z_{t-1}.

    h_t = GRU(h_{t-1}, x_{t-1}) is zero where a trial starts. FNN(z, h, x) = R x + r + W h + O tanh(U h + V z + u);
    W and O start at zero, so a fit starts as the linear transition.
    """

    def _add_units(self, n_inputs: int, width: int, n_states: int) -> None:
        width = max(1, width // 2)
        self.gru = Gru(n_inputs, width)
        self.recurrent_weight = nn.Parameter(torch.zeros(width, n_states))  # W
        super()._add_units(width, width, n_states)

    def _start_units(self, generator: torch.Generator) -> None:
        self.gru.start(generator)
        super()._start_units(generator)

    def start_random(self, generator: torch.Generator) -> None:
        self._start_units(generator)
        start_small(generator, self.weight, self.recurrent_weight, self.out)
        self._start_neutral()

    def _context(self, x: Tensor, inputs: Tensor) -> Tensor:
        linear = x @ self.weight + inputs @ self.recurrent_weight + self.bias
        return torch.cat([linear, inputs @ self.hidden_weight + self.hidden_bias], -1)

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        # First rows get the memory of the previous trial, but use pi_1 instead of their context.
        return self._context(shift(x, 1), shift(self.gru(x, rows), 1))

    def memory(self, rows: Rows, x: Tensor) -> Tensor:
        # Up to t-1: a forecast from row t reads x_t first.
        return shift(self.gru(x, rows), 1) * (rows.age > 0)[:, None]

    def memory_at_start(self) -> Tensor:
        return self.weight.new_zeros(self.gru.n_hidden)

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        assert memory is not None
        hidden = self.gru.step(x, memory)
        return self._context(x, hidden), hidden


TRANSITIONS: dict[str, type[LinearTransition]] = {
    "linear": LinearTransition,
    "network": NetworkTransition,
    "gru": GruTransition,
}
