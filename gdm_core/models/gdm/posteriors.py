"""Amortised posteriors q(z | y): networks that read observations and answer with Gumbel-Softmax logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from gdm_core.maths.discriminant import discriminant
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.config import GDMConfig

_RANDOM_SCALE = 0.8  # of the authors' released code


def step_features(x: Tensor, rows: Rows, scale: Tensor) -> Tensor:
    """Where the projected data is and how it just moved: [R, 2 D]. The first row of a trial has not moved."""
    moved = (x - shift(x, 1)) / scale * (rows.age > 0)[:, None]
    return torch.cat([x, moved], -1)


class PosteriorNetwork(nn.Module, ABC):
    """Logits of q(z_t | y) for every row."""

    causal: ClassVar[bool] = True  # reads no later sample, so forecasts may start from it
    sequential: ClassVar[bool] = False  # q(z_t) looks at z_{t-1}
    state_axes: ClassVar[dict[str, tuple[int, ...]]] = {}

    @abstractmethod
    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, K] logits from rows and their projections x [R, D], before any term in z_{t-1}."""

    @abstractmethod
    def start(
        self, past: Tensor, features: Tensor, member: Tensor, move_scale: Tensor, generator: torch.Generator
    ) -> None:
        """First parameters, given observations [R, N], `step_features` [R, 2 D] and a first clustering [R, K]."""

    @torch.no_grad()
    def start_random(self, generator: torch.Generator) -> None:
        """Everything random, nothing looked at."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                parameter.copy_(_RANDOM_SCALE * torch.randn(parameter.shape, generator=generator))
            else:
                parameter.zero_()


class LinearPosterior(PosteriorNetwork):
    """logits = W y_t + b, the paper's linear posterior: states are places."""

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_channels, config.n_states))
        self.bias = nn.Parameter(torch.zeros(config.n_states))

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, rows.past, self.weight)

    def start(
        self, past: Tensor, features: Tensor, member: Tensor, move_scale: Tensor, generator: torch.Generator
    ) -> None:
        _start_linear(self.weight, self.bias, past, member)


class StickyPosterior(LinearPosterior):
    """logits = W y_t + B z_{t-1} + b: remembers the previous state, so sampling runs along the trial."""

    sequential = True

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__(n_channels, config)
        self.memory = nn.Parameter(torch.zeros(config.n_states, config.n_states))

    def sample_log(self, rows: Rows, base: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """(log z, logits), [S, R, K]. All times at once: each sweep makes one more step of history exact, and the
        influence of the distant past dies out geometrically, so a few sweeps reach the recursion's fixed point."""
        logits = base.expand_as(noise)
        log_z = torch.log_softmax((logits + noise) / temperature, -1)
        for _ in range(len(rows)):
            logits = self.logits_given(rows, base, log_z.exp())
            update = torch.log_softmax((logits + noise) / temperature, -1)
            settled = bool((update - log_z).detach().abs().max() < 1e-4)
            log_z = update
            if settled:
                break
        return log_z, logits

    def logits_given(self, rows: Rows, base: Tensor, z: Tensor) -> Tensor:
        """[S, R, K] logits of each row given the z of the row before it."""
        started = (rows.age > 0).to(base.dtype)[:, None]
        return base + (shift(z, 1) * started) @ self.memory


class WindowPosterior(PosteriorNetwork):
    """logits from (F y_{t-1}, F y_t): places and moves; linear, plus a small network of tanh units unless told not to."""

    move_scale: Tensor

    def __init__(self, n_latent: int, config: GDMConfig, hidden: bool) -> None:
        super().__init__()
        k, width = config.n_states, 2 * n_latent
        self.weight = nn.Parameter(torch.zeros(width, k))
        self.bias = nn.Parameter(torch.zeros(k))
        self.register_buffer("move_scale", torch.ones(n_latent))
        if hidden:
            self.hidden_weight = nn.Parameter(torch.zeros(width, config.n_hidden))
            self.hidden_bias = nn.Parameter(torch.zeros(config.n_hidden))
            self.out = nn.Parameter(torch.zeros(config.n_hidden, k))
        else:
            self.register_parameter("out", None)

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        features = step_features(x, rows, self.move_scale)
        logits = torch.addmm(self.bias, features, self.weight)
        if self.out is not None:
            hidden = torch.tanh(torch.addmm(self.hidden_bias, features, self.hidden_weight))
            logits = torch.addmm(logits, hidden, self.out)
        return logits

    def start(
        self, past: Tensor, features: Tensor, member: Tensor, move_scale: Tensor, generator: torch.Generator
    ) -> None:
        self.move_scale.copy_(move_scale)
        _start_linear(self.weight, self.bias, features, member)
        if self.out is not None:  # its output weights stay zero: a fit starts as the linear posterior
            hidden = torch.randn(self.hidden_weight.shape, generator=generator) / len(self.hidden_weight) ** 0.5
            self.hidden_weight.copy_(hidden)
            self.hidden_bias.copy_(torch.randn(self.hidden_bias.shape, generator=generator) * 0.5)


def _start_linear(weight: Tensor, bias: Tensor, features: Tensor, member: Tensor) -> None:
    first_weight, first_bias = discriminant(features, member)
    weight.copy_(first_weight)
    bias.copy_(first_bias)


def make_posterior(n_channels: int, config: GDMConfig) -> PosteriorNetwork:
    """The posterior that the configuration names."""
    if config.posterior == "linear":
        return LinearPosterior(n_channels, config)
    if config.posterior == "sticky":
        return StickyPosterior(n_channels, config)
    if config.posterior in ("bigru", "transformer"):
        from gdm_core.models.gdm.sequence_posteriors import make_sequence_posterior

        return make_sequence_posterior(n_channels, config)
    return WindowPosterior(config.n_latent, config, hidden=config.posterior != "window_linear")
