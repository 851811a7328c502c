"""The recursion of gated recurrent units over windows of rows and its gradient, in numpy: what gru.py does under
autograd, with a third of its calls. Arrays are [steps, G, B, C]: G units side by side, B windows of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gru import WINDOW, windows

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
    """One pass forwards, and what its way back needs."""

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
