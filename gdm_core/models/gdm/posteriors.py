"""Amortised posteriors q(z | y): networks that read observations and answer with Gumbel-Softmax logits.

Some read a moment or two; those over sequences read the whole trial, past and future (paper, section 3.1). First
logits, of transitions too, are linear discriminants in closed form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from gdm_core.maths.gru import Gru, find_starts, start_small
from gdm_core.maths.relaxed import log_sample
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.config import GDMConfig

BAND = 16  # rows that attention sees to either side
_HEADS = 2
_RANDOM_SCALE = 0.8  # of the authors' released code
MARGIN = 3.0  # nats between the best and the next state of a typical row, at the most


def discriminant(features: Tensor, member: Tensor, every_state: bool = False) -> tuple[Tensor, Tensor]:
    """Weights [F, K] and bias [K] of the linear discriminant of one-hot (or soft) membership [R, K], softened.

    States whose features hardly vary are told apart by thousands of nats. Where two such sets of logits (posterior
    and transitions) disagree, a row costs as much, and no optimiser takes that back in small steps.

    every_state   keep the best and the worst of K states within K - 1 margins in the typical row of every state, too: a state
                  that is rare is no part of the typical row of all. Where a channel is on or off, as a brake is, one state
                  is known by hundreds of nats
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
    """Where the projected data is and how it just moved: [R, 2 D]. The first row of a trial has not moved."""
    moved = (x - shift(x, 1)) / scale * (rows.age > 0)[:, None]
    return torch.cat([x, moved], -1)


class PosteriorNetwork(nn.Module, ABC):
    """Logits of q(z_t | y) for every row."""

    causal: ClassVar[bool] = True  # reads no later sample, so forecasts may start from it
    sequential: ClassVar[bool] = False  # q(z_t) looks at z_{t-1}

    @abstractmethod
    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, K] logits from rows and their projections x [R, D], before any term in z_{t-1}."""

    def logits_given(self, rows: Rows, base: Tensor, z: Tensor) -> Tensor:
        """[S, R, K] logits of each row given the z of the row before it, from those before any term in it."""
        return base.expand_as(z)

    def sample_log(self, rows: Rows, base: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """(log z, logits), [S, R, K]."""
        return log_sample(base, temperature, noise), base.expand_as(noise)

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
        _start_linear(self.weight, self.bias, past, member, every_state=True)


class StickyPosterior(LinearPosterior):
    """logits = W y_t + B z_{t-1} + b: remembers the previous state, so sampling runs along the trial."""

    sequential = True

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__(n_channels, config)
        self.memory = nn.Parameter(torch.zeros(config.n_states, config.n_states))

    def sample_log(self, rows: Rows, base: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """All times at once: each sweep makes one more step of history exact, and the influence of the distant past dies out
        geometrically, so a few sweeps reach the recursion's fixed point."""
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


class WindowPosterior(PosteriorNetwork):
    """logits = W f_t + b + O tanh(U f_t + V e_t + c) of places and moves f_t = [x_t, dx_t]. The small network of tanh units is
    left out where the configuration says so; e_t is what subclasses read besides. O starts at zero, so a fit starts as the
    linear posterior."""

    move_scale: Tensor

    def __init__(self, n_channels: int, config: GDMConfig, n_encoded: int = 0) -> None:
        super().__init__()
        k, width, m = config.n_states, 2 * config.n_latent, config.n_hidden
        self.weight = nn.Parameter(torch.zeros(width, k))
        self.bias = nn.Parameter(torch.zeros(k))
        self.register_buffer("move_scale", torch.ones(config.n_latent))
        if config.reads == "window_linear":
            self.out = None
            return
        self.hidden_weight = nn.Parameter(torch.zeros(width, m))
        self.encoded_weight = nn.Parameter(torch.zeros(n_encoded, m)) if n_encoded else None
        self.hidden_bias = nn.Parameter(torch.zeros(m))
        self.out = nn.Parameter(torch.zeros(m, k))

    def forward(self, rows: Rows, x: Tensor) -> Tensor:
        features = step_features(x, rows, self.move_scale)
        if self.out is None:
            return torch.addmm(self.bias, features, self.weight)
        # First: autograd adds up the gradients of features in the order of their uses, and a fit keeps its last bits.
        hidden = torch.tanh(self.inner(features, rows))
        return torch.addmm(torch.addmm(self.bias, features, self.weight), hidden, self.out)

    def inner(self, features: Tensor, rows: Rows) -> Tensor:
        """[R, M] what goes into the tanh units."""
        return torch.addmm(self.hidden_bias, features, self.hidden_weight)

    def start(
        self, past: Tensor, features: Tensor, member: Tensor, move_scale: Tensor, generator: torch.Generator
    ) -> None:
        self.move_scale.copy_(move_scale)
        _start_linear(self.weight, self.bias, features, member)
        if self.out is not None:
            self.start_networks(generator)

    def start_networks(self, generator: torch.Generator) -> None:
        """First parameters of all that the output weights silence."""
        start_small(generator, self.hidden_weight, *(() if self.encoded_weight is None else (self.encoded_weight,)))
        self.hidden_bias.copy_(0.5 * torch.randn(self.hidden_bias.shape, generator=generator).to(self.hidden_bias))


def _start_linear(weight: Tensor, bias: Tensor, features: Tensor, member: Tensor, every_state: bool = False) -> None:
    first_weight, first_bias = discriminant(features, member, every_state)
    weight.copy_(first_weight)
    bias.copy_(first_bias)


class SequencePosterior(WindowPosterior):
    """Adds what the trial tells to what the last move tells, by a network over the sequence."""

    causal = False
    out: nn.Parameter
    encoded_weight: nn.Parameter

    @abstractmethod
    def encode(self, features: Tensor, rows: Rows) -> Tensor:
        """[R, E] what the network makes of whole trials, from features [R, 2 D]."""

    def inner(self, features: Tensor, rows: Rows) -> Tensor:
        return torch.addmm(super().inner(features, rows), self.encode(features, rows), self.encoded_weight)

    @torch.no_grad()
    def start_random(self, generator: torch.Generator) -> None:
        self.start_networks(generator)
        start_small(generator, self.weight, self.out)
        self.bias.zero_()


class BiGruPosterior(SequencePosterior):
    """e_t = (a GRU that has read the trial up to t, another that has read it backwards down to t)."""

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        each = max(1, config.n_hidden // 2)
        super().__init__(n_channels, config, 2 * each)
        self.gru = Gru(2 * config.n_latent, each, both_ways=True)

    def encode(self, features: Tensor, rows: Rows) -> Tensor:
        encoded: Tensor = self.gru(features, rows)
        return encoded

    def start_networks(self, generator: torch.Generator) -> None:
        super().start_networks(generator)
        self.gru.start(generator)


class TransformerPosterior(SequencePosterior):
    """One layer of attention over the rows within BAND of t, by content and by a learned bias for each distance.

    Rows of other trials, and padding, are never attended to. Time and memory grow in proportion to the rows.
    """

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        width = _HEADS * max(1, -(-config.n_hidden // _HEADS))
        super().__init__(n_channels, config, width)
        self.to_heads = nn.Parameter(torch.zeros(2 * config.n_latent, 3 * width))  # queries, keys, values
        self.distance = nn.Parameter(torch.zeros(_HEADS, 2 * BAND + 1))
        self.mix = nn.Parameter(torch.zeros(width, width))

    def start_networks(self, generator: torch.Generator) -> None:
        super().start_networks(generator)
        start_small(generator, self.to_heads, self.mix)
        # One head starts by looking back, the other ahead.
        steps = torch.arange(-BAND, BAND + 1) / BAND
        self.distance.copy_(torch.stack([-2 * (steps + 0.25).abs(), -2 * (steps - 0.25).abs()])[:_HEADS])

    def encode(self, features: Tensor, rows: Rows) -> Tensor:
        n = len(features)
        blocks = -(-n // BAND)
        # Trials by number; a row may only see rows of its own.
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
        """Queries [blocks, heads, BAND, E], and keys and values [blocks, heads, 3 BAND, E] of a block and its neighbours."""
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
    "window": WindowPosterior,
    "window_linear": WindowPosterior,
    "bigru": BiGruPosterior,
    "transformer": TransformerPosterior,
}
