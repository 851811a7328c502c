"""Amortised posteriors q(z | y): networks from observations to Gumbel-Softmax logits (paper, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from gdm_core.maths.gru import Gru, find_starts, start_small
from gdm_core.maths.relaxed import log_sample
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.transitions import LinearTransition

BAND = 16  # rows on either side that attention sees
_HEADS = 2
_RANDOM_SCALE = 0.8  # of the authors' released code
MARGIN = 3.0  # largest difference in nats between the best and the next state of a typical row


def discriminant(features: Tensor, member: Tensor, every_state: bool = False) -> tuple[Tensor, Tensor]:
    """Return weights [F, K] and bias [K] of a softened linear discriminant of soft membership [R, K].

    Features with little variance separate states by thousands of nats. Where posterior and transitions then disagree, a
    row costs as much, and gradient steps do not recover. Logits are therefore scaled down to MARGIN.

    every_state  also limit the logits in the typical row of each state, to K - 1 margins between the best and the worst
                 state; channels that are on or off, such as a brake, need that
    """
    count = member.sum(0).clamp_min(1e-3)  # [K]
    center = (member.T @ features) / count[:, None]  # [K, F]
    residual = features - member @ center
    within = residual.T @ residual / len(features)
    scale = within.diagonal().mean().clamp_min(1e-6)
    within = within + 1e-2 * scale * torch.eye(within.shape[0], dtype=within.dtype, device=within.device)
    weight = torch.linalg.solve(within, center.T)  # [F, K]
    bias = (count / count.sum()).log() - 0.5 * (center.T * weight).sum(0)
    bias = bias - bias.mean()
    if len(bias) < 2:
        return weight, bias
    logits = torch.addmm(bias, features, weight)
    top = logits.topk(2, dim=1).values
    soften = min(1.0, MARGIN / max(float((top[:, 0] - top[:, 1]).median()), 1e-6))
    if every_state:
        spread, best = logits.amax(1) - logits.amin(1), logits.argmax(1)
        widest = max(float(spread[best == state].median()) for state in best.unique())
        soften = min(soften, MARGIN * (len(bias) - 1) / max(widest, 1e-6))
    return weight * soften, bias * soften


def step_features(x: Tensor, rows: Rows, scale: Tensor) -> Tensor:
    """Return positions and scaled steps [R, 2 D]; the step is zero in the first row of a trial."""
    moved = (x - shift(x, 1)) / scale * (rows.age > 0)[:, None]
    return torch.cat([x, moved], -1)


class PosteriorNetwork(nn.Module, ABC):
    """Network for the logits of q(z_t | y)."""

    causal: ClassVar[bool] = True  # reads no later sample, so forecasts may start from it
    sequential: ClassVar[bool] = False  # q(z_t) depends on z_{t-1}

    @abstractmethod
    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        """Return logits [R, K] from rows and their projections x [R, D], without terms in z_{t-1}."""

    def logits_given(self, rows: Rows, base: Tensor, z: Tensor) -> Tensor:
        """Return logits [S, R, K] given soft states z [S, R, K], from the logits of `forward`."""
        return base.expand_as(z)

    def sample_log(self, rows: Rows, base: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return samples of log z and their logits, [S, R, K] each."""
        return log_sample(base, temperature, noise), base.expand_as(noise)

    @abstractmethod
    def start(self, past: Tensor, features: Tensor, member: Tensor, scale: Tensor, generator: torch.Generator) -> None:
        """Start from observations [R, N], `step_features` [R, 2 D], clusters [R, K] and the scale [D] of steps."""

    @torch.no_grad()
    def start_random(self, generator: torch.Generator) -> None:
        """Draw random weights."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                parameter.copy_(_RANDOM_SCALE * torch.randn(parameter.shape, generator=generator))
            else:
                parameter.zero_()


class LinearPosterior(PosteriorNetwork):
    """Linear posterior of the paper: logits = W y_t + b. States are positions."""

    def __init__(self, n_inputs: int, config: GDMConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_inputs, config.n_states))
        self.bias = nn.Parameter(torch.zeros(config.n_states))

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, rows.past, self.weight)

    def start(self, past: Tensor, features: Tensor, member: Tensor, scale: Tensor, generator: torch.Generator) -> None:
        _start_linear(self.weight, self.bias, past, member, every_state=True)


class StickyPosterior(LinearPosterior):
    """Linear posterior with the previous state: logits = W y_t + B z_{t-1} + b."""

    sequential = True

    def __init__(self, n_inputs: int, config: GDMConfig) -> None:
        super().__init__(n_inputs, config)
        self.memory = nn.Parameter(torch.zeros(config.n_states, config.n_states))

    def sample_log(self, rows: Rows, base: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        # Each sweep over all rows makes one more step of history exact. The influence of the past falls geometrically, so a
        # few sweeps suffice.
        logits = base.expand_as(noise)
        log_z = log_sample(logits, temperature, noise)
        for _ in range(len(rows)):
            logits = self.logits_given(rows, base, log_z.exp())
            update = log_sample(logits, temperature, noise)
            settled = bool((update - log_z).detach().abs().max() < 1e-4)
            log_z = update
            if settled:
                break
        return log_z, logits

    def logits_given(self, rows: Rows, base: Tensor, z: Tensor) -> Tensor:
        started = (rows.age > 0).to(base.dtype)[:, None]
        return base + (shift(z, 1) * started) @ self.memory


class PreviousPosterior(StickyPosterior):
    """Posterior of the paper's Appendix C: logits = W x_{t-1} + B z_{t-1} + b, and b_1 for the first row of a trial."""

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__(config.n_dimensions, config)
        self.initial = nn.Parameter(torch.zeros(config.n_states))  # b_1

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        return torch.where((rows.age > 0)[:, None], torch.addmm(self.bias, shift(x, 1), self.weight), self.initial)

    @torch.no_grad()
    def start_from(self, transition: LinearTransition, initial: Tensor) -> None:
        """Start as the prior."""
        gamma = transition.gamma
        self.weight.copy_((1 - gamma) * transition.weight)
        self.bias.copy_((1 - gamma) * transition.bias)
        self.memory.copy_(gamma * transition.scale * torch.eye(len(self.bias), dtype=self.bias.dtype))
        self.initial.copy_(initial)


class WindowPosterior(PosteriorNetwork):
    """Posterior of positions and steps f_t = [x_t, dx_t]: logits = W f_t + b + O tanh(U f_t + V e_t + c).

    e_t is what subclasses encode. O starts at zero, so a fit starts as a linear posterior.
    """

    move_scale: Tensor

    def __init__(self, n_channels: int, config: GDMConfig, n_encoded: int = 0) -> None:
        super().__init__()
        k, width, m = config.n_states, 2 * config.n_dimensions, config.n_hidden
        self.weight = nn.Parameter(torch.zeros(width, k))
        self.bias = nn.Parameter(torch.zeros(k))
        self.register_buffer("move_scale", torch.ones(config.n_dimensions))
        self.hidden_weight = nn.Parameter(torch.zeros(width, m))
        self.encoded_weight = nn.Parameter(torch.zeros(n_encoded, m)) if n_encoded else None
        self.hidden_bias = nn.Parameter(torch.zeros(m))
        self.out = nn.Parameter(torch.zeros(m, k))

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        features = step_features(x, rows, self.move_scale)
        # Before the linear part: autograd adds gradients in the order of use, which fixes the last bits of a fit.
        hidden = torch.tanh(self.inner(features, rows))
        return torch.addmm(torch.addmm(self.bias, features, self.weight), hidden, self.out)

    def inner(self, features: Tensor, rows: Rows) -> Tensor:
        """Return the inputs [R, M] of the hidden units."""
        return torch.addmm(self.hidden_bias, features, self.hidden_weight)

    def start(self, past: Tensor, features: Tensor, member: Tensor, scale: Tensor, generator: torch.Generator) -> None:
        self.move_scale.copy_(scale)
        _start_linear(self.weight, self.bias, features, member)
        self.start_networks(generator)

    def start_networks(self, generator: torch.Generator) -> None:
        """Draw the weights of hidden units and encoders."""
        start_small(generator, self.hidden_weight, *(() if self.encoded_weight is None else (self.encoded_weight,)))
        self.hidden_bias.copy_(0.5 * torch.randn(self.hidden_bias.shape, generator=generator).to(self.hidden_bias))


def _start_linear(weight: Tensor, bias: Tensor, features: Tensor, member: Tensor, every_state: bool = False) -> None:
    first_weight, first_bias = discriminant(features, member, every_state)
    weight.copy_(first_weight)
    bias.copy_(first_bias)


class SequencePosterior(WindowPosterior):
    """Window posterior with an encoding e_t of the whole trial."""

    causal = False
    encoded_weight: nn.Parameter

    @abstractmethod
    def encode(self, features: Tensor, rows: Rows) -> Tensor:
        """Return the encoding [R, E] of whole trials from features [R, 2 D]."""

    def inner(self, features: Tensor, rows: Rows) -> Tensor:
        return torch.addmm(super().inner(features, rows), self.encode(features, rows), self.encoded_weight)

    @torch.no_grad()
    def start_random(self, generator: torch.Generator) -> None:
        self.start_networks(generator)
        start_small(generator, self.weight, self.out)
        self.bias.zero_()


class BiGruPosterior(SequencePosterior):
    """Posterior with an encoding of two GRUs, one forwards up to t and one backwards down to t."""

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        each = max(1, config.n_hidden // 2)
        super().__init__(n_channels, config, 2 * each)
        self.gru = Gru(2 * config.n_dimensions, each, both_ways=True)

    def encode(self, features: Tensor, rows: Rows) -> Tensor:
        return self.gru(features, rows)

    def start_networks(self, generator: torch.Generator) -> None:
        super().start_networks(generator)
        self.gru.start(generator)


class TransformerPosterior(SequencePosterior):
    """Posterior with one layer of attention over the rows within BAND of t, with a learned bias for each distance.

    Rows of other trials and padding are masked. Time and memory are proportional to the rows.
    """

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        width = _HEADS * max(1, -(-config.n_hidden // _HEADS))
        super().__init__(n_channels, config, width)
        self.to_heads = nn.Parameter(torch.zeros(2 * config.n_dimensions, 3 * width))  # queries, keys, values
        self.distance = nn.Parameter(torch.zeros(_HEADS, 2 * BAND + 1))
        self.mix = nn.Parameter(torch.zeros(width, width))

    def start_networks(self, generator: torch.Generator) -> None:
        super().start_networks(generator)
        start_small(generator, self.to_heads, self.mix)
        # One head starts with a focus before t, the other after it.
        steps = torch.arange(-BAND, BAND + 1) / BAND
        self.distance.copy_(torch.stack([-2 * (steps + 0.25).abs(), -2 * (steps - 0.25).abs()])[:_HEADS])

    def encode(self, features: Tensor, rows: Rows) -> Tensor:
        n = len(features)
        blocks = -(-n // BAND)
        trial = torch.cumsum(find_starts(rows).long(), 0)
        queries, keys, values = self._blocks(features @ self.to_heads, blocks)
        own = nn.functional.pad(trial, (0, blocks * BAND - n), value=-1).reshape(blocks, BAND)
        others = nn.functional.pad(trial, (BAND, blocks * BAND - n + BAND), value=-2).unfold(0, 3 * BAND, BAND)
        step = torch.arange(3 * BAND, device=own.device) - BAND - torch.arange(BAND, device=own.device)[:, None]
        near = step.abs() <= BAND  # [BAND, 3 BAND]
        bias = self.distance[:, (step + BAND).clamp(0, 2 * BAND)]  # [heads, BAND, 3 BAND]
        scores = torch.einsum("bhqe,bhke->bhqk", queries, keys) / queries.shape[-1] ** 0.5 + bias
        visible = (own[:, :, None] == others[:, None, :]) & near  # [blocks, BAND, 3 BAND]
        weights = torch.softmax(scores.masked_fill(~visible[:, None], -1e9), -1)
        read = torch.einsum("bhqk,bhke->bqhe", weights, values).reshape(blocks * BAND, -1)[:n]
        return torch.tanh(read @ self.mix)

    def _blocks(self, projected: Tensor, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries [blocks, heads, BAND, E], and keys and values [blocks, heads, 3 BAND, E] with neighbours."""
        n, width = projected.shape
        spare = blocks * BAND - n
        parts = projected.reshape(n, 3, _HEADS, width // (3 * _HEADS)).unbind(1)  # three of [R, heads, E]
        queries = nn.functional.pad(parts[0], (0, 0, 0, 0, 0, spare)).reshape(blocks, BAND, _HEADS, -1).transpose(1, 2)
        keys, values = (
            nn.functional.pad(part, (0, 0, 0, 0, BAND, BAND + spare)).unfold(0, 3 * BAND, BAND).transpose(2, 3)
            for part in parts[1:]
        )
        return queries, keys, values


POSTERIORS: dict[str, type[LinearPosterior | WindowPosterior]] = {
    "linear": LinearPosterior,
    "sticky": StickyPosterior,
    "previous": PreviousPosterior,
    "window": WindowPosterior,
    "bigru": BiGruPosterior,
    "transformer": TransformerPosterior,
}
