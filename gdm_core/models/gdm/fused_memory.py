"""The hand-written pass for what remembers: transitions with a GRU, and posteriors with one each way.

Every unit has as many hidden values, so all of them run through the windows of a batch side by side, in one recursion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdm_core.maths.gru_scan import Scan, kept, layout, seams
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fused import Array, Batch, FusedObjective
from gdm_core.models.gdm.module import GdmModule


def objective_of(module: GdmModule, config: GDMConfig) -> FusedObjective:
    """The pass for a configuration that `fused.supports`."""
    return (MemoryObjective if config.remembers else FusedObjective)(module, config)


class MemoryObjective(FusedObjective):
    """The same objective with memory in the transition, in the posterior or in both."""

    def __init__(self, module: GdmModule, config: GDMConfig) -> None:
        super().__init__(module, config)
        self._transition, self._posterior_reads = config.transition == "gru", config.reads == "bigru"
        # (prefix of the parameters, number among them, whether it reads backwards)
        self._units = [("posterior.gru.", 0, False), ("posterior.gru.", 1, True)] if self._posterior_reads else []
        if self._transition:
            self._units.append(("transition.gru.", 0, False))
        self._batch: Batch | None = None

    def _prepare(self, batch: Batch) -> None:
        """How the units read the rows of a batch."""
        backwards = tuple(back for _, _, back in self._units)
        self._layouts = tuple(layout(batch.lengths, back) for back in backwards)
        self._keep = kept(seams(batch.age, batch.lengths), self._layouts, backwards)
        self._batch = batch

    def _of_units(self, values: dict[str, Array], name: str) -> Array:
        return np.stack([values[prefix + name][unit] for prefix, unit, _ in self._units])

    # ---- forward ------------------------------------------------------------------------------------------------
    def _context(self, batch: Batch, x: Array, before: Array) -> Array:
        if batch is not self._batch:
            self._prepare(batch)
        self._read(x, self._features(batch, x, before))
        context = super()._context(batch, x, before)
        if self._transition:
            h = self._hidden_values(len(self._units) - 1, shifted=True)
            self._remembered = h  # [H, R] of the row before
            context += self.p["transition.recurrent_weight"].T @ h
            self._inner = self.p["transition.hidden_weight"].T @ h + self.p["transition.hidden_bias"][:, None]
        return context

    def _read(self, x: Array, features: Array) -> None:
        """Run all units over the batch."""
        by_row = {"posterior.gru.": np.ascontiguousarray(features.T), "transition.gru.": np.ascontiguousarray(x.T)}
        steps, windows = self._layouts[0].rows.shape
        width = self.p[self._units[0][0] + "input_weight"].shape[-1]
        gates = np.empty((steps, len(self._units), windows, width), np.float32)
        self._given: list[Array] = []  # [steps * B, F] what each unit reads
        for g, ((prefix, unit, _), one) in enumerate(zip(self._units, self._layouts, strict=True)):
            given = one.gathered(by_row[prefix])
            gate = given @ self.p[prefix + "input_weight"][unit] + self.p[prefix + "input_bias"][unit]
            gates[:, g] = gate.reshape(steps, windows, width)
            self._given.append(given)
        weight, bias = (self._of_units(self.p, name) for name in ("hidden_weight", "hidden_bias"))
        self._scan = Scan(gates, weight, bias, self._keep)

    def _hidden_values(self, unit: int, shifted: bool = False) -> Array:
        """[H, R] of one unit; of the row before, if shifted."""
        place = self._layouts[unit].place
        if shifted:
            place = np.concatenate([place[:1], place[:-1]])
        path = self._scan.hidden[:, unit]
        step, window = np.divmod(place, path.shape[1])
        return path[step, window].T

    def _prior(self, context: Array, previous: Array, gamma: float) -> Array:
        if not self._transition:
            return super()._prior(context, previous, gamma)
        k = len(previous)
        inner = (self.p["transition.state_weight"].T @ previous.reshape(k, -1)).reshape(-1, *previous.shape[1:])
        inner += self._inner[:, None]
        self._tanh = np.tanh(inner, out=inner)  # [M, S, R]
        free = (self.p["transition.out"].T @ inner.reshape(len(inner), -1)).reshape(previous.shape)
        free += context[:, None]
        self._free = free
        return np.asarray(np.float32(gamma) * previous + np.float32(1 - gamma) * free, np.float32)

    def _hidden(self, features: Array) -> Array:
        hidden = super()._hidden(features)
        if self._posterior_reads:
            self._encoded = np.concatenate([self._hidden_values(0), self._hidden_values(1)])  # [2 H, R]
            hidden += self.p["posterior.encoded_weight"].T @ self._encoded
        return hidden

    # ---- backward -----------------------------------------------------------------------------------------------
    def _prior_backward(
        self, d_prior: Array, context: Array, previous: Array, gamma: float
    ) -> tuple[Array, Array, np.float32]:
        if not self._transition:
            return super()._prior_backward(d_prior, context, previous, gamma)
        p, g, k = self.p, self.g, len(previous)
        d_gamma = (d_prior * (previous - self._free)).sum()
        d_free = np.float32(1 - gamma) * d_prior
        flat, units = d_free.reshape(k, -1), self._tanh.reshape(len(self._tanh), -1)
        g["transition.out"][...] = units @ flat.T
        d_inner = (p["transition.out"] @ flat) * (1 - np.square(units))
        g["transition.state_weight"][...] = previous.reshape(k, -1) @ d_inner.T
        d_previous = np.float32(gamma) * d_prior
        d_previous += (p["transition.state_weight"] @ d_inner).reshape(previous.shape)
        d_row = d_inner.reshape(self._tanh.shape).sum(axis=1)  # [M, R]
        d_context = d_free.sum(axis=1)
        g["transition.hidden_weight"][...] = self._remembered @ d_row.T
        g["transition.hidden_bias"][:] = d_row.sum(axis=1)
        g["transition.recurrent_weight"][...] = self._remembered @ d_context.T
        self._d_remembered = p["transition.hidden_weight"] @ d_row + p["transition.recurrent_weight"] @ d_context
        return d_context, d_previous, d_gamma

    def _hidden_backward(self, features: Array, d_hidden: Array) -> Array:
        if self._posterior_reads:
            self.g["posterior.encoded_weight"][...] = self._encoded @ d_hidden.T
            self._d_encoded = self.p["posterior.encoded_weight"] @ d_hidden
        return super()._hidden_backward(features, d_hidden)

    def _memory_backward(self, d_features: Any) -> Array | None:
        steps, n_units, windows, h = self._scan.hidden.shape
        upstream = np.zeros((steps * windows, n_units, h), np.float32)
        for g, one in enumerate(self._layouts):
            if self._units[g][0] == "transition.gru.":
                upstream[one.place[:-1], g] = self._d_remembered.T[1:]  # a row's answer is read by the row after it
            else:
                upstream[one.place, g] = self._d_encoded[g * h : (g + 1) * h].T
        upstream = np.ascontiguousarray(upstream.reshape(steps, windows, n_units, h).transpose(0, 2, 1, 3))
        d_gates, d_weight, d_bias = self._scan.backward(upstream)
        d_x = None
        for g, ((prefix, unit, _), one) in enumerate(zip(self._units, self._layouts, strict=True)):
            self.g[prefix + "hidden_weight"][unit] = d_weight[g]
            self.g[prefix + "hidden_bias"][unit] = d_bias[g]
            flat = d_gates[:, g].reshape(steps * windows, -1)
            self.g[prefix + "input_weight"][unit] = self._given[g].T @ flat
            self.g[prefix + "input_bias"][unit] = flat.sum(axis=0)
            d_given = one.scattered(flat @ self.p[prefix + "input_weight"][unit].T).T
            if prefix == "transition.gru.":
                d_x = d_given
            else:
                d_features += d_given
        return d_x
