"""Prior logits of the next soft state: the paper's linear sticky form with a scale, and one with memory (section 2.2)."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from gdm_core.maths.gru import Gru, start_small
from gdm_core.maths.rows import Rows, shift

_LEARNED_START, _RANDOM_START = -1.5, -2.197  # of gamma's logit; the second is gamma = 0.1
_START_SCALE = 4.0
MAX_LOG_SCALE = math.log(20.0)


class LinearTransition(nn.Module):
    """pi_t = (1 - gamma) (R x_{t-1} + r) + gamma c z_{t-1}: observations come in through a context, the previous soft state
    directly, with gamma in [0, 1). The paper's form has c = 1."""

    affine_in_state: ClassVar[bool] = True  # pi_t = context + gamma c z_{t-1}: the ELBO can integrate z_{t-1} out
    fixed_stickiness: Tensor
    fixed_scale: Tensor

    def __init__(
        self,
        n_states: int,
        n_latent: int,
        stickiness: float | Literal["learn"],
        scale: float | Literal["learn"] = 1.0,
    ) -> None:
        super().__init__()
        if stickiness == "learn":
            self.stickiness_logit = nn.Parameter(torch.tensor(_LEARNED_START))
        else:
            self.register_buffer("fixed_stickiness", torch.tensor(float(stickiness)))
        if scale == "learn":
            self.log_scale = nn.Parameter(torch.tensor(math.log(_START_SCALE)))
        else:
            self.register_buffer("fixed_scale", torch.tensor(float(scale)))
        self.weight = nn.Parameter(torch.zeros(n_latent, n_states))  # R
        self.bias = nn.Parameter(torch.zeros(n_states))  # r

    @property
    def gamma(self) -> Tensor:
        """How strongly the previous soft state holds on."""
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
        """First parameters, given linear logits (R, r) of a first clustering."""
        self.weight.copy_(weight)
        self.bias.copy_(bias)

    def start_random(self, generator: torch.Generator) -> None:
        """Everything random, nothing looked at; gamma, where learned, at 0.1."""
        self.weight.copy_(torch.randn(self.weight.shape, generator=generator))
        self._start_neutral()

    def _start_neutral(self) -> None:
        self.bias.zero_()
        if hasattr(self, "stickiness_logit"):
            self.stickiness_logit.fill_(_RANDOM_START)

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, C] what the logits take from observations up to t-1."""
        return torch.addmm(self.bias, shift(x, 1), self.weight)

    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        """[..., K] from context [..., C] and the previous soft state [..., K]."""
        return torch.lerp(context.expand_as(previous), self.scale * previous, self.gamma)

    def memory(self, rows: Rows, x: Tensor) -> Tensor | None:
        """[R, H] what a rollout that starts after row t carries along, if anything."""
        return None

    def memory_at_start(self) -> Tensor | None:
        """[H] the same before a trial's first sample."""
        return None

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One step of a rollout: context of the next sample from the newest x [D] or [R, D], and memory that has read x."""
        context = (self.weight.T @ x.transpose(0, -1)).transpose(0, -1) + self.bias
        return context, None  # with columns that lie together where those of x do


class GruTransition(LinearTransition):
    """pi_t = (1 - gamma) FNN(z_{t-1}, h_t, x_{t-1}) + gamma z_{t-1}, with h_t = GRU(h_{t-1}, F y_{t-1}).

    FNN(z, h, x) = R x + r + O tanh(U h + V z + c) + W h: the paper's linear form with what memory adds to it, so that
    a fit starts as the linear model and can only gain. gamma keeps its meaning, the pull of the previous soft state.
    h is zero where a trial starts and reads x_1, ..., x_{t-1} of its own trial alone.
    """

    affine_in_state = False  # the reported bound averages over samples of z_{t-1}

    def __init__(self, n_states: int, n_latent: int, stickiness: float | Literal["learn"], n_hidden: int) -> None:
        super().__init__(n_states, n_latent, stickiness)
        width = max(1, n_hidden // 2)
        self.gru = Gru(n_latent, width)
        self.recurrent_weight = nn.Parameter(torch.zeros(width, n_states))  # W
        self.hidden_weight = nn.Parameter(torch.zeros(width, width))  # U
        self.state_weight = nn.Parameter(torch.zeros(n_states, width))  # V
        self.hidden_bias = nn.Parameter(torch.zeros(width))  # c
        self.out = nn.Parameter(torch.zeros(width, n_states))  # O

    def start(self, generator: torch.Generator, weight: Tensor, bias: Tensor) -> None:
        """A linear transition (R, r) as first guess, and small random memory whose outputs are still zero."""
        super().start(generator, weight, bias)
        self._start_memory(generator)

    def _start_memory(self, generator: torch.Generator) -> None:
        self.gru.start(generator)
        start_small(generator, self.hidden_weight, self.state_weight)
        self.hidden_bias.copy_(0.5 * torch.randn(self.hidden_bias.shape, generator=generator).to(self.hidden_bias))

    def start_random(self, generator: torch.Generator) -> None:
        self._start_memory(generator)
        start_small(generator, self.weight, self.recurrent_weight, self.out)
        self._start_neutral()

    def _context(self, x: Tensor, hidden: Tensor) -> Tensor:
        """[..., K + M] everything but z_{t-1}: the part that is linear, and what goes into the tanh units."""
        linear = x @ self.weight + hidden @ self.recurrent_weight + self.bias
        return torch.cat([linear, hidden @ self.hidden_weight + self.hidden_bias], -1)

    def context(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, K + M] from observations up to t-1. First rows of a trial have a prior of their own and ignore theirs."""
        return self._context(shift(x, 1), shift(self.gru(x, rows), 1))

    def memory(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, H] the hidden state that has read x up to t-1: a rollout from row t reads x_t first."""
        return shift(self.gru(x, rows), 1) * (rows.age > 0)[:, None]

    def memory_at_start(self) -> Tensor:
        return self.weight.new_zeros(self.gru.n_hidden)

    def next_context(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        assert memory is not None
        hidden = self.gru.step(x, memory)
        return self._context(x, hidden), hidden

    def logits(self, context: Tensor, previous: Tensor) -> Tensor:
        """[..., K] from context [..., K + M] and the previous soft state [..., K]."""
        k = previous.shape[-1]
        hidden = torch.tanh(context[..., k:] + previous @ self.state_weight)
        free = context[..., :k] + hidden @ self.out
        return torch.lerp(free, self.scale * previous.expand_as(free), self.gamma)
