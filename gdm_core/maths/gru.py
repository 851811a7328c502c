"""Gated recurrent units over rows: exact over whole trials, and cut into short overlapping windows while training.

A recursion over a thousand samples costs a thousand small steps whichever way it is written. Training needs it
hundreds of times, so there every trial becomes windows that run side by side, each after a run-up of rows from a zero
state (truncated back-propagation); the backward pass of a window keeps three operations a step. Whatever is reported
or forecast runs over the whole trial. `Scan` is that recursion once more in numpy, with a third of autograd's calls.

Arrays are [steps, G, B, C]: G units side by side, B windows of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gdm_core.maths.rows import Rows

WINDOW = 32  # rows that one training window answers for
RUN_UP = 16  # rows before them that bring its hidden state up from zero


def start_small(generator: torch.Generator, *weights: Tensor) -> None:
    """Random numbers for matrices [F, H] of a network, the smaller the more of them are added up."""
    for weight in weights:
        weight.copy_(torch.randn(weight.shape, generator=generator).to(weight) / weight.shape[0] ** 0.5)


def starts_anew(rows: Rows) -> Tensor:
    """[R] bool: rows that do not follow the row before them (a trial or a window begins, or it is padding)."""
    age = rows.age
    follows = torch.zeros_like(age, dtype=torch.bool)
    follows[1:] = (age[1:] == age[:-1] + 1) & (age[1:] > 0)
    for begin in np.cumsum((0, *rows.lengths[:-1])):
        follows[int(begin)] = False
    return ~follows


@lru_cache(maxsize=64)
def windows(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Rows of each window [steps, B], and where each row's answer stands in the flattened [steps * B] of them.

    The first window of a sequence answers for its run-up too; later ones overlap the one before by RUN_UP rows.
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


class _WindowedScan(torch.autograd.Function):
    """h [steps, G, B, H] of G units side by side from their input gates, with a backward pass written out."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, keep: Tensor | None) -> Tensor:
        """gates [steps, G, B, 3 H] as (reset, update, new); weight [G, H, 3 H]; bias [G, 1, 3 H]; keep [steps, G, B, 1]."""
        n_steps, n_units, n_windows, width = gates.shape
        h = width // 3
        path = gates.new_zeros(n_steps + 1, n_units, n_windows, h)
        own, active = torch.empty_like(gates), torch.empty_like(gates)
        before = path[:-1] if keep is None else torch.empty_like(path[:-1])
        offset = bias.expand(n_units, n_windows, width)
        # Views are made before the loop: a view costs as much as the arithmetic on it.
        given_both, given_new = gates[..., : 2 * h].unbind(0), gates[..., 2 * h :].unbind(0)
        own_all, own_both, own_new = own.unbind(0), own[..., : 2 * h].unbind(0), own[..., 2 * h :].unbind(0)
        mix, fresh = active[..., : 2 * h].unbind(0), active[..., 2 * h :].unbind(0)
        reset, update = active[..., :h].unbind(0), active[..., h : 2 * h].unbind(0)
        states, seen = path.unbind(0), before.unbind(0)
        for t in range(n_steps):
            if keep is not None:
                torch.mul(states[t], keep[t], out=seen[t])
            torch.baddbmm(offset, seen[t], weight, out=own_all[t])
            torch.add(given_both[t], own_both[t], out=mix[t]).sigmoid_()
            torch.addcmul(given_new[t], reset[t], own_new[t], out=fresh[t]).tanh_()
            torch.lerp(fresh[t], seen[t], update[t], out=states[t + 1])
        ctx.save_for_backward(weight, before, own[..., 2 * h :], active, keep)
        return path[1:]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, before, recalled, active, keep = ctx.saved_tensors
        n_steps, n_units, _, h = before.shape
        reset, update, new = active[..., :h], active[..., h : 2 * h], active[..., 2 * h :]
        # What one unit of gradient in h_t does to each gate's input: the same for every step, so found all at once.
        to_new = (1 - update) * (1 - new.square())
        slopes = torch.stack(
            [to_new * recalled * reset * (1 - reset), (before - new) * update * (1 - update), to_new * reset], 3
        )  # [steps, G, B, 3, H]
        back = weight.transpose(1, 2).contiguous()
        inner = torch.empty_like(slopes)  # gradient of the recurrent gates
        flowing = torch.empty_like(before)
        slope, part, flat_part = slopes.unbind(0), inner.unbind(0), inner.flatten(3).unbind(0)
        total, wide = flowing.unbind(0), flowing.unsqueeze(3).unbind(0)
        given, held = upstream[0].unbind(0), update.unbind(0)
        carried = torch.zeros_like(before[0])
        for t in range(n_steps - 1, -1, -1):
            torch.add(given[t], carried, out=total[t])
            torch.mul(wide[t], slope[t], out=part[t])
            carried = torch.baddbmm(total[t] * held[t], flat_part[t], back)
            if keep is not None:
                carried = carried * keep[t]
        flat = inner.flatten(3)  # [steps, G, B, 3 H]
        by_unit = before.transpose(0, 1).reshape(n_units, -1, h)
        flat_by_unit = flat.transpose(0, 1).reshape(n_units, -1, 3 * h)
        input_gates = torch.cat([flat[..., : 2 * h], flowing * to_new], -1)
        return input_gates, by_unit.transpose(1, 2) @ flat_by_unit, flat_by_unit.sum(1, keepdim=True), None


class Gru(nn.Module):
    """G independent gated recurrent units with H hidden values each; unit 1 of two reads the rows backwards."""

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
        """Small random weights, and update gates that remember about three samples."""
        for weight in (self.input_weight, self.hidden_weight):
            drawn = torch.randn(weight.shape, generator=generator) / weight.shape[1] ** 0.5
            weight.copy_(0.7 * drawn.to(weight))
        self.input_bias.zero_()
        self.hidden_bias.zero_()
        self.input_bias[..., self.n_hidden : 2 * self.n_hidden] = 0.7

    def step(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """One step of the forward unit, [..., F] and [..., H] -> [..., H]."""
        h = self.n_hidden
        gates = inputs @ self.input_weight[0] + self.input_bias[0, 0]
        own = hidden @ self.hidden_weight[0] + self.hidden_bias[0, 0]
        mix = torch.sigmoid(gates[..., : 2 * h] + own[..., : 2 * h])
        fresh = torch.tanh(gates[..., 2 * h :] + mix[..., :h] * own[..., 2 * h :])
        return torch.lerp(fresh, hidden, mix[..., h:])

    def forward(self, inputs: Tensor, rows: Rows) -> Tensor:
        """[R, F] -> [R, G H]: row t of the forward unit has read its trial up to t, of the backward one from t on."""
        if self.training and torch.is_grad_enabled():
            return self._windowed(inputs, rows)
        return self._whole(inputs, rows)

    def _whole(self, inputs: Tensor, rows: Rows) -> Tensor:
        """Every sequence on its own, so that its neighbours change nothing."""
        parts = []
        for sequence in inputs.split(rows.lengths):
            answers = []
            for unit in range(len(self.input_weight)):
                weights = [
                    self.input_weight[unit].T.contiguous(), self.hidden_weight[unit].T.contiguous(),
                    self.input_bias[unit, 0], self.hidden_bias[unit, 0],
                ]  # fmt: skip
                ordered = sequence.flip(0) if unit else sequence
                zero = inputs.new_zeros(1, 1, self.n_hidden)
                found = torch.gru(ordered[:, None], zero, weights, True, 1, 0.0, False, False, False)[0][:, 0]
                answers.append(found.flip(0) if unit else found)
            parts.append(torch.cat(answers, -1))
        return torch.cat(parts)

    def _windowed(self, inputs: Tensor, rows: Rows) -> Tensor:
        new = starts_anew(rows)
        gates = inputs @ self.input_weight + self.input_bias  # [G, R, 3 H]
        index, place = (part.to(inputs.device) for part in windows(rows.lengths))
        order = [index]
        broken = [new[index]]
        if len(gates) == 2:
            backward, back_place = (part.to(inputs.device) for part in windows(rows.lengths[::-1]))
            order.append(len(rows) - 1 - backward)
            # On the way back a row begins where the row after it begins anew.
            broken.append(torch.cat([new[1:], new.new_ones(1)])[order[1]])
        windowed = torch.stack([_take(gates[unit], rows_of) for unit, rows_of in enumerate(order)], 1)
        seams = torch.stack(broken, 1)  # [steps, G, B]
        # A window's first row starts from zero as it is; seams further in have to cut the memory.
        keep = (~seams)[..., None].to(gates.dtype) if bool(seams[1:].any()) else None
        hidden = _WindowedScan.apply(windowed, self.hidden_weight, self.hidden_bias, keep)
        forward = _take(hidden[:, 0].flatten(0, 1), place)
        if len(gates) == 1:
            return forward
        return torch.cat([forward, _take(hidden[:, 1].flatten(0, 1), back_place.flip(0))], -1)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """Rows of [R, C] by an index of any shape; its gradient is far cheaper than that of plain indexing."""
    return values.index_select(0, index.flatten()).reshape(*index.shape, -1)


Array = npt.NDArray[np.float32]
Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WindowLayout:
    """How one unit reads rows by windows."""

    rows: Index  # [steps, B] which row stands where
    place: Index  # [R] where each row's answer stands in the flattened [steps * B]
    again: Index  # rows that are the run-up of another window, too
    again_place: Index  # and where they stand there

    def gathered(self, values: Array) -> Array:
        """[R, C] -> [steps * B, C]."""
        return values.take(self.rows.ravel(), axis=0)

    def scattered(self, gradient: Array) -> Array:
        """The transpose of `gathered`, [steps * B, C] -> [R, C]. What stands behind the end of its sequence has none."""
        total = gradient.take(self.place, axis=0)
        total[self.again] += gradient.take(self.again_place, axis=0)
        return total


@lru_cache(maxsize=64)
def layout(lengths: tuple[int, ...], backwards: bool) -> WindowLayout:
    """Windows of WINDOW rows behind a run-up each; the first one of a sequence answers for its run-up, too."""
    index, place = (part.numpy() for part in windows(lengths[::-1] if backwards else lengths))
    n_rows, n_windows = len(place), index.shape[1]
    step, window = np.divmod(place, n_windows)
    # A row so far into its window is in the run-up of the next, if that is of the same sequence.
    later = np.minimum(window + 1, n_windows - 1)
    again = np.flatnonzero((step >= WINDOW) & (index[np.maximum(step - WINDOW, 0), later] == np.arange(n_rows)))
    again_place = (step[again] - WINDOW) * n_windows + window[again] + 1
    if backwards:
        return WindowLayout(n_rows - 1 - index, place[::-1].copy(), n_rows - 1 - again, again_place)
    return WindowLayout(index, place, again, again_place)


def seams(age: npt.NDArray[np.int64], lengths: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """[R] rows inside a sequence that do not follow the row before them: there, memory is cut."""
    new = np.ones(len(age), bool)
    new[1:] = (age[1:] != age[:-1] + 1) | (age[1:] <= 0)
    new[np.cumsum((0, *lengths[:-1]))] = False
    return new


def kept(new: npt.NDArray[np.bool_], layouts: tuple[WindowLayout, ...], backwards: tuple[bool, ...]) -> Array | None:
    """[steps, G, B, 1] 0 where memory is cut, 1 elsewhere; None where it never is."""
    if not new.any():
        return None
    ahead = np.append(new[1:], False)  # on the way back, a row begins where the row after it begins anew
    cut = [(ahead if back else new)[one.rows] for one, back in zip(layouts, backwards, strict=True)]
    return (~np.stack(cut, 1))[..., None].astype(np.float32)


class Scan:
    """One pass forwards in numpy, and what its way back needs."""

    def __init__(self, gates: Array, weight: Array, bias: Array, keep: Array | None) -> None:
        """gates [steps, G, B, 3 H] from the inputs, as (reset, update, new); weight [G, H, 3 H]; bias [G, 1, 3 H]."""
        n_steps, n_units, n_windows, width = gates.shape
        h = width // 3
        # sigmoid(u) = (1 + tanh(u / 2)) / 2. The bias of "new" is the product's last row, so that `reset` scales it.
        inner = np.concatenate([weight, bias], axis=1)
        inner[..., : 2 * h] *= np.float32(0.5)
        mixed = gates[..., : 2 * h] * np.float32(0.5)
        fresh = gates[..., 2 * h :].copy()
        path = np.ones((n_steps + 1, n_units, n_windows, h + 1), np.float32)
        path[0, ..., :h] = 0
        before = path[:-1] if keep is None else np.ones_like(path[:-1])
        recalled = np.empty_like(fresh)
        own = np.empty(gates.shape[1:], np.float32)
        own_mixed, own_fresh = own[..., : 2 * h], own[..., 2 * h :]
        half = np.float32(0.5)
        reset, update = mixed[..., :h], mixed[..., h:]
        states, seen = path[..., :h], before[..., :h]
        for t in range(n_steps):
            if keep is not None:
                np.multiply(states[t], keep[t], out=seen[t])
            np.matmul(before[t], inner, out=own)
            mix, new, old, made = mixed[t], fresh[t], seen[t], states[t + 1]
            mix += own_mixed
            np.tanh(mix, out=mix)
            mix *= half
            mix += half
            recalled[t] = own_fresh
            new += np.multiply(reset[t], own_fresh, out=made)
            np.tanh(new, out=new)
            np.subtract(old, new, out=made)
            made *= update[t]
            made += new
        self.hidden = states[1:]  # [steps, G, B, H]
        self._saved = (weight, seen, recalled, reset, update, fresh, keep)

    def backward(self, upstream: Array) -> tuple[Array, Array, Array]:
        """Gradients of gates, weight and bias from that of `hidden`."""
        weight, before, recalled, reset, update, new, keep = self._saved
        n_steps, n_units, n_windows, h = before.shape
        to_new = (1 - update) * (1 - np.square(new))
        slopes = np.empty((n_steps, n_units, n_windows, 3, h), np.float32)  # of what flows, in the recurrent gates
        np.multiply(to_new, reset, out=slopes[..., 2, :])
        np.multiply(slopes[..., 2, :] * recalled, 1 - reset, out=slopes[..., 0, :])
        np.multiply((before - new) * update, 1 - update, out=slopes[..., 1, :])
        back = np.ascontiguousarray(weight.transpose(0, 2, 1))
        flowing = np.empty_like(to_new)
        flat = slopes.reshape(n_steps, n_units, n_windows, 3 * h)
        carried, stays = np.zeros(to_new.shape[1:], np.float32), np.empty(to_new.shape[1:], np.float32)
        for t in range(n_steps - 1, -1, -1):
            total = np.add(upstream[t], carried, out=flowing[t])
            slopes[t] *= total[..., None, :]
            np.matmul(flat[t], back, out=carried)
            carried += np.multiply(total, update[t], out=stays)
            if keep is not None:
                carried *= keep[t]
        d_weight = np.stack([before[:, g].reshape(-1, h).T @ flat[:, g].reshape(-1, 3 * h) for g in range(n_units)])
        d_bias = flat.sum(axis=(0, 2))[:, None]
        np.multiply(flowing, to_new, out=slopes[..., 2, :])
        return flat, d_weight, d_bias
