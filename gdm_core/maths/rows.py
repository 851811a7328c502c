"""Concatenated trials as rows, for vectorised operations over trials of any length.

Each row has its distance from the start of its trial, so no operation crosses a boundary. Mini-batches are windows of
rows after a few unscored rows of context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gdm_core.arrays import Array, Float, Values
from gdm_core.maths.gaps import interpolate_gaps, stretches

Fill = Callable[[Values], Values]
_STRETCHES = 4  # of an excerpt


@dataclass(frozen=True)
class Rows:
    """Concatenated sequences of observations."""

    y: Tensor  # [R, N] observations, 0 where missing
    known: Tensor | None  # [R, N] 1 where observed, None if all are
    past: Tensor  # [R, N] observations with filled gaps, the input of networks and dynamics
    age: Tensor  # [R] samples since the start of the trial; -1 on padding
    scored: Tensor | None  # [R] 1 for scored rows, None if all are
    n_scored: int
    lengths: tuple[int, ...]  # rows of each sequence
    chain: Tensor | None = None  # [R, K] log-probabilities of a chain of states, if known
    noise_floor: Float | None = None  # [N] least standard deviations of the noise

    def __len__(self) -> int:
        return int(self.y.shape[0])

    @property
    def device(self) -> torch.device:
        return self.y.device

    @torch.no_grad()
    def raise_noise(self, log_noise: Tensor) -> None:
        """Raise log standard deviations [N] or [K, N] to the floor."""
        if self.noise_floor is not None:
            least = torch.as_tensor(np.log(np.maximum(self.noise_floor, 1e-12)))
            log_noise.copy_(torch.maximum(log_noise, least.to(log_noise)))

    def select(self, index: Tensor | slice, **changes: Any) -> Rows:
        """Return the rows at `index`, with `changes` of their attributes."""
        columns = {name: getattr(self, name) for name in ("y", "known", "past", "age", "scored", "chain")}
        chosen: dict[str, Any] = {name: part if part is None else part[index] for name, part in columns.items()}
        return replace(self, **chosen | changes)

    def windows(self, index: Tensor, outside: Tensor, scored: Tensor) -> Rows:
        """Return rows `index` [W, L] as W sequences; rows in `outside` [W, L] are padding."""
        flat = index.reshape(-1)
        age, n_scored = torch.where(outside.reshape(-1), -1, self.age[flat]), max(1, int(scored.sum()))
        return self.select(flat, age=age, scored=scored, n_scored=n_scored, lengths=(index.shape[1],) * len(index))

    def piece(self, begin: int, end: int) -> Rows:
        """Return rows begin to end as one sequence."""
        if (begin, end) == (0, len(self)):
            return self
        return self.select(slice(begin, end), n_scored=end - begin, lengths=(end - begin,))

    def excerpt(self, n_rows: int) -> Rows:
        """Return evenly spread stretches of longer data, as separate sequences."""
        if len(self) <= n_rows:
            return self
        index = torch.as_tensor(stretches(len(self), n_rows, _STRETCHES), device=self.device)
        size, index = index.shape[1], index.flatten()
        age = torch.minimum(self.age[index], torch.arange(size, device=self.device).repeat(_STRETCHES))
        return self.select(index, age=age, n_scored=len(index), lengths=(size,) * _STRETCHES)

    def draw(self, length: int, n_windows: int, context: int, generator: torch.Generator, after: int = 0) -> Rows:
        """Return random windows, with `context` unscored rows before and `after` rows after each.

        Rows outside the data are padding: unscored, with age -1.
        """
        total, offsets = len(self), torch.arange(-context, length + after, device=self.device)
        jitter = int(torch.randint(length, (1,), generator=generator, device=generator.device))
        chosen = torch.randint(-(-total // length) + 1, (n_windows,), generator=generator, device=generator.device)
        index = (chosen.to(self.device) * length - jitter)[:, None] + offsets  # [W, L]
        outside = (index < 0) | (index >= total)
        scored = (((offsets >= 0) & (offsets < length)) & ~outside).float().flatten()
        return self.windows(index.clamp(0, total - 1), outside, scored)


def make_rows(
    ys: list[Values], device: torch.device, dtype: torch.dtype = torch.float32, fill: Fill = interpolate_gaps
) -> Rows:
    """Return the rows of standardised trials [T, N]; `fill` estimates the missing entries of a trial."""

    def tensor(array: Values) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)

    y, lengths = np.concatenate(ys), tuple(map(len, ys))
    age = torch.as_tensor(np.concatenate([np.arange(n) for n in lengths]), device=device)
    missing = np.isnan(y)
    if not missing.any():
        observed = tensor(y)
        return Rows(observed, None, observed, age, None, len(y), lengths)
    past = tensor(np.concatenate([fill(one) for one in ys]))
    return Rows(tensor(np.where(missing, 0.0, y)), tensor(~missing), past, age, None, len(y), lengths)


def shift(values: Tensor, by: int) -> Tensor:
    """Delay rows (the second last axis) by `by`; the first rows repeat and must be masked."""
    by = min(by, values.shape[-2])
    first = values[..., :1, :].expand(*values.shape[:-2], by, values.shape[-1])
    return torch.cat([first, values[..., : values.shape[-2] - by, :]], -2)


def as_numpy(tensor: Tensor) -> Array:
    return tensor.numpy(force=True).astype(np.float32, copy=False)
