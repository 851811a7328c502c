"""Gated recurrent units over rows.

Training splits every sequence into short windows that run in parallel, each after a run-up from a zero state (truncated
back-propagation). Inference and forecasts run over whole sequences.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from gdm_core.maths.rows import Rows

WINDOW = 16  # rows that a training window outputs
RUN_UP = 16  # rows before them, which initialise the hidden state


def start_small(generator: torch.Generator, *weights: Tensor) -> None:
    """Fill weight matrices [F, H] with random numbers, scaled by the number of inputs."""
    for weight in weights:
        weight.copy_(torch.randn(weight.shape, generator=generator).to(weight) / weight.shape[0] ** 0.5)


def find_starts(rows: Rows) -> Tensor:
    """Return a mask [R] of rows that do not continue the previous row: starts of trials or windows, and padding."""
    age = rows.age
    follows = torch.zeros_like(age, dtype=torch.bool)
    follows[1:] = (age[1:] == age[:-1] + 1) & (age[1:] > 0)
    for begin in np.cumsum((0, *rows.lengths[:-1])):
        follows[int(begin)] = False
    return ~follows


@lru_cache(maxsize=64)
def windows(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the rows of each window [steps, B], and the place of each row in the flattened outputs [steps * B].

    The first window of a sequence outputs its run-up as well; later ones overlap the previous one by RUN_UP rows.
    """
    steps = min(WINDOW + RUN_UP, max(lengths))
    starts, row_window, row_step, begin, count = [], [], [], 0, 0
    for length in lengths:
        extra = max(0, -(-(length - steps) // WINDOW))
        starts.append(begin + WINDOW * np.arange(extra + 1))
        row = np.arange(length)
        window = np.maximum(0, (row - RUN_UP) // WINDOW) if extra else np.zeros(length, np.int64)
        window = np.minimum(window, extra)
        row_window.append(count + window)
        row_step.append(row - WINDOW * window)
        begin, count = begin + length, count + extra + 1
    index = np.minimum(np.concatenate(starts) + np.arange(steps)[:, None], begin - 1)
    place = np.concatenate(row_step) * count + np.concatenate(row_window)
    return torch.as_tensor(index), torch.as_tensor(place)


class Gru(nn.Module):
    """G independent gated recurrent units with H hidden values each; the second reads backwards."""

    def __init__(self, n_inputs: int, n_hidden: int, both_ways: bool = False) -> None:
        super().__init__()
        units = 2 if both_ways else 1
        self.input_weight = nn.Parameter(torch.zeros(units, n_inputs, 3 * n_hidden))
        self.input_bias = nn.Parameter(torch.zeros(units, 1, 3 * n_hidden))
        self.hidden_weight = nn.Parameter(torch.zeros(units, n_hidden, 3 * n_hidden))
        self.hidden_bias = nn.Parameter(torch.zeros(units, 1, 3 * n_hidden))

    @property
    def n_hidden(self) -> int:
        return int(self.hidden_weight.shape[1])

    def start(self, generator: torch.Generator) -> None:
        """Draw small random weights, and set update gates to remember about three samples."""
        for weight in (self.input_weight, self.hidden_weight):
            drawn = torch.randn(weight.shape, generator=generator) / weight.shape[1] ** 0.5
            weight.copy_(0.7 * drawn.to(weight))
        self.input_bias.zero_()
        self.hidden_bias.zero_()
        self.input_bias[..., self.n_hidden : 2 * self.n_hidden] = 0.7

    def step(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """Advance the forward unit by one step, [..., F] and [..., H] -> [..., H]."""
        gates = inputs @ self.input_weight[0] + self.input_bias[0, 0]
        own = hidden @ self.hidden_weight[0] + self.hidden_bias[0, 0]
        return _update(*self._parts(gates), own, hidden)

    def forward(self, inputs: Tensor, rows: Rows) -> Tensor:
        """Map inputs [R, F] to hidden values [R, G H]; each unit reads its trial up to the row, or from the row on."""
        if self.training and torch.is_grad_enabled():
            return self._windowed(inputs, rows)
        return self._whole(inputs, rows)

    def _whole(self, inputs: Tensor, rows: Rows) -> Tensor:
        """Run over each sequence separately, so batches do not affect results."""
        weights: list[Tensor] = []
        for unit in range(len(self.input_weight)):
            weights += [self.input_weight[unit].T.contiguous(), self.hidden_weight[unit].T.contiguous()]
            weights += [self.input_bias[unit, 0], self.hidden_bias[unit, 0]]
        both_ways = len(self.input_weight) > 1
        zero = inputs.new_zeros(len(self.input_weight), 1, self.n_hidden)
        return torch.cat(
            [
                torch.gru(sequence[:, None], zero, weights, True, 1, 0.0, False, both_ways, False)[0][:, 0]
                for sequence in inputs.split(rows.lengths)
            ]
        )

    def _windowed(self, inputs: Tensor, rows: Rows) -> Tensor:
        """Run over all windows and units in parallel; windows end with their trial."""
        starts = torch.nonzero(find_starts(rows)).flatten().tolist()
        lengths = tuple(np.diff([*starts, len(rows)]).tolist())
        gates = inputs @ self.input_weight + self.input_bias  # [G, R, 3 H]
        layouts = [windows(lengths), windows(lengths[::-1])][: len(gates)]
        layouts = [(index.to(inputs.device), place.to(inputs.device)) for index, place in layouts]
        ordered = [gates[0], *(unit.flip(0) for unit in gates[1:])]
        windowed = [_take(unit, index) for unit, (index, _) in zip(ordered, layouts, strict=True)]
        hidden = self._scan(torch.stack(windowed, 1))
        outputs = [_take(hidden[:, unit].flatten(0, 1), place) for unit, (_, place) in enumerate(layouts)]
        return torch.cat([outputs[0], *(answer.flip(0) for answer in outputs[1:])], -1)

    def _scan(self, gates: Tensor) -> Tensor:
        """Return hidden values [steps, G, B, H] from input gates [steps, G, B, 3 H], faster than `torch.gru` on a CPU."""
        hidden = gates.new_zeros(*gates.shape[1:-1], self.n_hidden)
        path = []
        mix, new = (part.unbind(0) for part in self._parts(gates))  # once, because views are slow
        for step in range(len(gates)):
            own = torch.baddbmm(self.hidden_bias, hidden, self.hidden_weight)
            hidden = _update(mix[step], new[step], own, hidden)
            path.append(hidden)
        return torch.stack(path)

    def _parts(self, gates: Tensor) -> tuple[Tensor, Tensor]:
        """Split gates [..., 3 H] into (reset, update) and new."""
        mix, new = gates.split((2 * self.n_hidden, self.n_hidden), -1)
        return mix, new


def _update(mix: Tensor, new: Tensor, own: Tensor, hidden: Tensor) -> Tensor:
    """Return hidden values [..., H] after a step, from input gates, recurrent gates [..., 3 H] and previous values."""
    h = hidden.shape[-1]
    own_mix, own_new = own.split((2 * h, h), -1)
    reset, update = torch.sigmoid(mix + own_mix).chunk(2, -1)
    return torch.lerp(torch.tanh(torch.addcmul(new, reset, own_new)), hidden, update)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """Index rows of [R, C]; the gradient is much cheaper than that of plain indexing."""
    return values.index_select(0, index.flatten()).reshape(*index.shape, -1)
