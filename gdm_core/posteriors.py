"""Amortised posteriors q(z | y): networks that read observations and answer with Gumbel-Softmax logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gdm_core.config import GDMConfig
from gdm_core.rows import Rows, shift


def step_features(x: Tensor, rows: Rows, scale: Tensor) -> Tensor:
    """Where the projected data is and how it just moved: [R, 2 D]. The first row of a trial has not moved."""
    moved = (x - shift(x, 1)) / scale * (rows.age > 0)[:, None]
    return torch.cat([x, moved], -1)


class LinearPosterior(nn.Module):
    """logits = W y_t + b, the paper's linear posterior: states are places."""

    causal, sequential = True, False

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_channels, config.n_states))
        self.bias = nn.Parameter(torch.zeros(config.n_states))

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, rows.past, self.weight)


class StickyPosterior(LinearPosterior):
    """logits = W y_t + B z_{t-1} + b: remembers the previous state, so sampling runs along the trial."""

    sequential = True

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__(n_channels, config)
        self.memory = nn.Parameter(torch.zeros(config.n_states, config.n_states))

    def sample_log(self, rows: Rows, base: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """(log z, logits), [S, R, K]. All times at once: each sweep makes one more step of history exact, and the
        influence of the distant past dies out geometrically, so a few sweeps reach the recursion's fixed point."""
        started = (rows.age > 0).to(base.dtype)[:, None]
        logits = base.expand_as(noise)
        log_z = torch.log_softmax((logits + noise) / temperature, -1)
        for _ in range(len(rows)):
            logits = base + (shift(log_z.exp(), 1) * started) @ self.memory
            update = torch.log_softmax((logits + noise) / temperature, -1)
            settled = bool((update - log_z).detach().abs().max() < 1e-4)
            log_z = update
            if settled:
                break
        return log_z, logits


class WindowPosterior(nn.Module):
    """logits from (F y_{t-1}, F y_t): places and moves; linear, plus a small network of tanh units unless told not to."""

    causal, sequential = True, False

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


def make_posterior(n_channels: int, config: GDMConfig) -> nn.Module:
    """The posterior that the configuration names."""
    if config.posterior == "linear":
        return LinearPosterior(n_channels, config)
    if config.posterior == "sticky":
        return StickyPosterior(n_channels, config)
    if config.posterior in ("bigru", "transformer"):
        from gdm_core.sequence_posteriors import make_sequence_posterior

        return make_sequence_posterior(n_channels, config)
    return WindowPosterior(config.n_latent, config, hidden=config.posterior != "window_linear")
