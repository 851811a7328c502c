"""The compiled training step on a module's parameters.

It covers linear transitions and feed-forward posteriors, and equals `sampled_elbo` and `importance_objective` up to rounding.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from gdm_core.arrays import Array
from gdm_core.compiled import training
from gdm_core.compiled.batches import Batch, Curvature, Emission, Inputs, Settings
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.transitions import MAX_LOG_SCALE

_LEAST_LOG_NOISE = np.float32(math.log(1e-4))


def supports(module: GdmModule) -> bool:
    """Return whether the compiled step covers the configuration; others use autograd."""
    config = module.config
    return (
        config.transition == "linear"
        and config.effective_posterior in ("window", "linear")
        and module.initial.device.type == "cpu"
    )


class FusedObjective:
    """Parameters as one flat vector, with the gradient in another of the same layout."""

    def __init__(self, module: GdmModule) -> None:
        named = dict(module.named_parameters())
        self._shapes = {name: tuple(p.shape) for name, p in named.items()}
        self.flat: Array = np.concatenate([p.detach().numpy().ravel() for p in named.values()]).astype(np.float32)
        self.gradient: Array = np.zeros_like(self.flat)
        self.p, self.g = self.views(self.flat), self.views(self.gradient)
        n_rows, n_channels = math.prod(self._shapes["dynamics"][:2]), self._shapes["dynamics"][2]
        config = module.config
        self.state_noise = module.has_state_noise and config.n_states > 1
        size = n_channels if self.state_noise else 1
        self.curvature = Curvature(
            np.zeros((size, n_rows, n_rows), np.float32), np.zeros((config.n_states, config.n_states), np.float32)
        )
        self.temperature = np.float32(config.temperature)
        self._transition = module.transition
        self._first_log_noise: Array = module.first_log_noise.numpy()
        scale = getattr(module.posterior, "move_scale", None)
        self._move_scale: Array | None = None if scale is None else scale.numpy()[:, None]

    def views(self, flat: Array) -> dict[str, Array]:
        """Split a vector of this layout into named parts."""
        views, at = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            views[name] = flat[at : at + size].reshape(shape)
            at += size
        return views

    def write_to(self, module: GdmModule) -> None:
        """Copy the parameters back into the module."""
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.from_numpy(self.p[name]))

    def log_noise(self) -> Array:
        """Log standard deviations: [1, N], or [K, N] per state."""
        return np.maximum(_rows(self.p["log_noise"]), _LEAST_LOG_NOISE)

    def _emission(self) -> Emission:
        return Emission(self.p["dynamics"], self.p["initial"], self.log_noise())

    def _affine(self, weight: str, bias: str) -> Array:
        """Return weights [F + 1, K] for features that end with a one."""
        return np.concatenate([self.p[weight], self.p[bias][None]])

    def _gamma(self) -> tuple[float, float]:
        """Return gamma and its slope in the logit."""
        if "transition.stickiness_logit" not in self.p:
            return float(self._transition.gamma), 0.0
        s = 0.5 + 0.5 * math.tanh(0.5 * float(self.p["transition.stickiness_logit"]))  # never overflows
        return 0.999 * s, 0.999 * s * (1 - s)

    def _scale(self) -> tuple[float, float]:
        """Return the factor of the sticky term and its slope in the logarithm."""
        if "transition.log_scale" not in self.p:
            return float(self._transition.scale), 0.0
        log_scale = float(self.p["transition.log_scale"])
        scale = math.exp(min(log_scale, MAX_LOG_SCALE))
        return scale, scale if log_scale < MAX_LOG_SCALE else 0.0

    def evidence(self, batch: Batch) -> Array:
        """Return the log-likelihood of each pure state [K, R], up to a constant per row."""
        before = _shift(self.p["projection"] @ batch.past)
        return training.evidence(batch, before, self._emission())

    def __call__(self, batch: Batch, n_draws: int, seed: int, importance: bool) -> float:
        """Return the objective per time step; fill `gradient` and `curvature`."""
        p, g = self.p, self.g
        (gamma, gamma_slope), (scale, scale_slope) = self._gamma(), self._scale()
        x = p["projection"] @ batch.past  # [D, R]
        before = _shift(x)
        one: Array = np.ones((1, x.shape[1]), np.float32)
        if self._move_scale is None:
            features = np.concatenate([batch.past, one])
        else:
            features = np.concatenate([x, (x - before) / self._move_scale * batch.linked, one])  # [2 D + 1, R]
        logits = self._affine("posterior.weight", "posterior.bias").T @ features  # [K, R]
        if "posterior.out" in p:
            hidden = self._affine("posterior.hidden_weight", "posterior.hidden_bias").T @ features
            np.tanh(hidden, out=hidden)
            logits += p["posterior.out"].T @ hidden
        if "log_trust" in p:
            logits += np.exp(p["log_trust"]) * batch.chain
        past = np.concatenate([before, one])
        context = self._affine("transition.weight", "transition.bias").T @ past  # [K, R]

        inputs = Inputs(before, context, logits)
        d_inputs = Inputs(*map(np.empty_like, inputs))
        slopes = Emission(g["dynamics"], g["initial"], _rows(g["log_noise"]))
        sticky, free = np.float32(gamma * scale), np.float32(1 - gamma)
        settings = Settings(self._first_log_noise, sticky, free, self.temperature, n_draws, seed, importance)
        objective, by_sticky, by_free = training.step(
            batch, inputs, self._emission(), settings, d_inputs, slopes, self.curvature
        )
        d_before, d_context, d_logits = d_inputs

        g["log_noise"][p["log_noise"] < _LEAST_LOG_NOISE] = 0
        if gamma_slope:
            g["transition.stickiness_logit"][...] = (scale * by_sticky - by_free) * gamma_slope
        if "transition.log_scale" in g:
            g["transition.log_scale"][...] = gamma * scale_slope * by_sticky
        if "log_trust" in p:
            g["log_trust"][...] = np.exp(p["log_trust"]) * np.vdot(d_logits, batch.chain)
        g["transition.weight"][...], g["transition.bias"][:] = _split(past @ d_context.T)
        d_before += p["transition.weight"] @ d_context
        g["posterior.weight"][...], g["posterior.bias"][:] = _split(features @ d_logits.T)
        d_x = np.zeros_like(x)
        if self._move_scale is not None:
            d_features = p["posterior.weight"] @ d_logits
            if "posterior.out" in p:
                g["posterior.out"][...] = hidden @ d_logits.T
                d_hidden = p["posterior.out"] @ d_logits
                hidden *= hidden
                d_hidden -= hidden * d_hidden
                g["posterior.hidden_weight"][...], g["posterior.hidden_bias"][:] = _split(features @ d_hidden.T)
                d_features += p["posterior.hidden_weight"] @ d_hidden
            moved = d_features[len(x) :] / self._move_scale * batch.linked
            d_before -= moved
            d_x = d_features[: len(x)] + moved
        d_x[:, :-1] += d_before[:, 1:]
        g["projection"][...] = d_x @ batch.past.T
        return float(objective)


def _split(slopes: Array) -> tuple[Array, Array]:
    """Return the slopes of weights [F, K] and bias [K]."""
    return slopes[:-1], slopes[-1]


def _rows(noise: Array) -> Array:
    """Return log noise or its gradient as [1, N] or [K, N]."""
    return noise.reshape(-1, noise.shape[-1])


def _shift(values: Array) -> Array:
    """Return values [C, R] of the row before; the first row repeats and must be masked."""
    return np.concatenate([values[:, :1], values[:, :-1]], axis=1)
