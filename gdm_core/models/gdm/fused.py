"""Value and gradient of the training objective in one hand-written pass.

It covers linear transitions and feed-forward posteriors, and equals `sampled_elbo` and
`importance_objective` up to rounding. At T = 1,000 a step is dozens of operations on small arrays, and this pass makes a
quarter of autograd's calls. Arrays are [K, S, R], because sums over a short last axis are slow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.transitions import MAX_LOG_SCALE

Array = npt.NDArray[np.float32]

_LOG_2PI = math.log(2 * math.pi)
_LEAST_LOG_NOISE = math.log(1e-4)
_LEAST_EXPONENTIAL = np.float32(1e-20)
_EVIDENCE_ROWS = 2048  # at a time
_CURVATURE_DRAWS = 1024  # draws for the curvature of each channel, with noise per state


def supports(config: GDMConfig, module: GdmModule) -> bool:
    """Return whether the fused pass covers the configuration; others use autograd."""
    return (
        config.transition == "linear" and config.reads in ("window", "linear") and module.initial.device.type == "cpu"
    )


class Batch:
    """Rows with time as the last axis."""

    def __init__(self, rows: Rows) -> None:
        self.y: Array = np.ascontiguousarray(rows.y.numpy().T)  # [N, R]
        self.past: Array = self.y if rows.past is rows.y else np.ascontiguousarray(rows.past.numpy().T)
        self.known: Array | None = None if rows.known is None else np.ascontiguousarray(rows.known.numpy().T)
        age = rows.age.numpy()
        self.started: Array = (age > 0).astype(np.float32)  # [R]
        self.starts = np.flatnonzero(age <= 0)  # rows whose noise is R_1
        self.share: Array = np.full(len(age), 1 / rows.n_scored, np.float32)  # of each row in the average
        if rows.scored is not None:
            self.share *= rows.scored.numpy()
        self.observed: Array | None = (
            None if self.known is None else self.known @ self.share
        )  # [N] share of each channel
        self.chain: Array | None = None if rows.chain is None else np.ascontiguousarray(rows.chain.numpy().T)  # [K, R]

    @property
    def n_rows(self) -> int:
        return int(self.y.shape[1])


class Noise:
    """Exponential variables E = exp(-gumbel), drawn in bulk."""

    def __init__(self, seed: int, pool: int = 2_000_000) -> None:
        self._rng = np.random.Generator(np.random.SFC64(seed))
        self._size = pool
        self._pool: tuple[Array, Array, Array] | None = None
        self._used = 0

    def draw(self, k: int, n_samples: int, n_rows: int) -> tuple[Array, Array, Array]:
        """Return E, log E [K, S, R] and log sum_k E [S, R]."""
        shape = (k, n_samples, n_rows)
        if self._pool is None or self._pool[0].shape[1:] != shape or self._used == len(self._pool[0]):
            count = max(1, min(16, self._size // math.prod(shape)))
            drawn = self._rng.standard_exponential((count, *shape), dtype=np.float32)
            np.maximum(drawn, _LEAST_EXPONENTIAL, out=drawn)
            self._pool, self._used = (drawn, np.log(drawn), np.log(drawn.sum(axis=1))), 0
        self._used += 1
        exponential, logarithm, total = self._pool
        return exponential[self._used - 1], logarithm[self._used - 1], total[self._used - 1]


class FusedObjective:
    """Parameters as one flat vector, with the gradient in another of the same layout."""

    def __init__(self, module: GdmModule, config: GDMConfig) -> None:
        self.k = config.n_states
        named = dict(module.named_parameters())
        self._shapes = {name: tuple(p.shape) for name, p in named.items()}
        self.flat: Array = np.concatenate([p.detach().numpy().ravel() for p in named.values()]).astype(np.float32)
        self.gradient: Array = np.zeros_like(self.flat)
        self.p, self.g = self.views(self.flat), self.views(self.gradient)
        n_rows, n_channels = math.prod(self._shapes["dynamics"][:2]), self._shapes["dynamics"][2]
        self.state_noise = module.has_state_noise
        # Of the dynamics, in units of 1 / R: [K P, K P], or [N, K P, K P] with noise per state.
        self.curvature: Array = np.zeros((n_channels,) * self.state_noise + (n_rows, n_rows), np.float32)
        self.noise_curvature: Array = np.zeros((self.k, self.k), np.float32)  # [K, K] of log noise per state
        self.informed = module.informed
        transition = module.transition
        self._gamma_fixed = None if "transition.stickiness_logit" in named else float(transition.gamma)
        self._scale_fixed = None if "transition.log_scale" in named else float(transition.scale)
        self._first_log_noise: Array | None = module.first_log_noise.numpy() if module.own_start_noise else None
        scale = getattr(module.posterior, "move_scale", None)
        self._move_scale = None if scale is None else scale.numpy()[:, None]

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
        import torch

        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.from_numpy(self.p[name]))

    def log_noise(self) -> Array:
        """Log standard deviations: [N], or [K, N] per state."""
        return np.maximum(self.p["log_noise"], np.float32(_LEAST_LOG_NOISE))

    def _gamma(self) -> tuple[float, float]:
        """Return gamma and its slope in the logit."""
        if self._gamma_fixed is not None:
            return self._gamma_fixed, 0.0
        s = 0.5 + 0.5 * math.tanh(0.5 * float(self.p["transition.stickiness_logit"]))  # never overflows
        return 0.999 * s, 0.999 * s * (1 - s)

    def design(self, batch: Batch, x: Array) -> Array:
        """Return the inputs [D + 2, R] of the dynamics for projections x [D, R]."""
        return np.concatenate([_shift(x) * batch.started, batch.started[None], 1 - batch.started[None]])

    def evidence(self, batch: Batch) -> Array:
        """Return the log-likelihood of each pure state [K, R], up to a constant per row."""
        log_noise = np.broadcast_to(self.log_noise(), (self.k, len(batch.y)))[..., None]
        precision, constant = np.exp(-log_noise), 2 * log_noise
        design = self.design(batch, self.p["projection"] @ batch.past)
        found = np.empty((self.k, batch.n_rows), np.float32)
        for begin in range(0, batch.n_rows, _EVIDENCE_ROWS):  # temporary arrays stay in the processor's cache
            part = slice(begin, begin + _EVIDENCE_ROWS)
            for k in range(self.k):
                terms = batch.y[:, part] - self.p["dynamics"][k].T @ design[:, part]
                terms *= precision[k]
                np.square(terms, out=terms)
                terms += constant[k]
                if batch.known is not None:
                    terms *= batch.known[:, part]
                np.sum(terms, axis=0, out=found[k, part])
        found *= -0.5
        if self._first_log_noise is not None:
            found[:, batch.starts] = 0
        return found

    def _scale(self) -> tuple[float, float]:
        """Return the factor of the sticky term and its slope in the logarithm."""
        if self._scale_fixed is not None:
            return self._scale_fixed, 0.0
        log_scale = float(self.p["transition.log_scale"])
        scale = math.exp(min(log_scale, MAX_LOG_SCALE))
        return scale, scale if log_scale < MAX_LOG_SCALE else 0.0

    def __call__(self, batch: Batch, noise: tuple[Array, Array, Array], temperature: float, importance: bool) -> float:
        """Return the objective per time step; fill `gradient` and `curvature`."""
        p, g, k = self.p, self.g, self.k
        exponential, log_exponential, log_total = noise
        n_samples = exponential.shape[1]
        projection = p["projection"]

        # ---- forward
        x = projection @ batch.past  # [D, R]
        before = _shift(x)
        design = self.design(batch, x)
        context = p["transition.weight"].T @ before + p["transition.bias"][:, None]  # [K, R]
        features, hidden, logits = self._posterior(batch, x, before)  # [F, R], [H, R] or None, [K, R]
        if self.informed:
            assert batch.chain is not None
            trust = np.exp(p["log_trust"])
            logits += trust * batch.chain

        z = (logits[:, None] - log_exponential) / np.float32(temperature)  # [K, S, R]
        z -= z.max(axis=0)
        np.exp(z, out=z)
        z /= z.sum(axis=0)
        gamma, gamma_slope = self._gamma()
        scale, scale_slope = self._scale()
        previous = _shift(z)
        prior = np.float32(gamma * scale) * previous + (np.float32(1 - gamma) * context)[:, None]
        prior[:, :, batch.starts] = p["initial"][:, None, None]
        delta = prior - logits[:, None]  # [K, S, R]
        top = delta.max(axis=0)
        mixture = np.exp(delta - top) * exponential
        mixture_total = mixture.sum(axis=0)
        divergence = k * (np.log(mixture_total) + top - log_total) - delta.sum(axis=0)  # [S, R]

        weighted = (z[:, None] * design[None, :, None]).reshape(-1, n_samples * batch.n_rows)  # [K P, S R]
        coefficients = p["dynamics"].reshape(weighted.shape[0], -1)  # [K P, N]
        log_noise = self.log_noise()
        precision, constant = self._row_noise(batch, log_noise, z)  # [N, 1 or S, R], [1 or S, R]
        mean = (coefficients.T @ weighted).reshape(-1, n_samples, batch.n_rows)
        error = (batch.y[:, None] - mean) * precision  # [N, S, R]
        if batch.known is not None:
            error *= batch.known[:, None]
        square = np.square(error)
        value = -0.5 * square.sum(axis=0) - constant - divergence  # [S, R] log importance weights
        if importance:
            peak = value.max(axis=0)
            weight = np.exp(value - peak)
            total = weight.sum(axis=0)
            objective = float(((np.log(total) + peak - math.log(n_samples)) * batch.share).sum())
            upstream = weight * (batch.share / total)  # [S, R]
        else:
            objective = float((value.mean(axis=0) * batch.share).sum())
            upstream = np.broadcast_to(batch.share / np.float32(n_samples), value.shape)

        # ---- backward
        d_delta = upstream * (1 - np.float32(k) * (mixture / mixture_total))
        if importance:
            # Draws are fixed; each pulls q by its weight: d log q / d logits = 1 - K E / sum(E).
            d_logits = (upstream * (1 - np.float32(k) * (exponential / np.exp(log_total)))).sum(axis=1)  # [K, R]
        else:
            d_logits = -d_delta.sum(axis=1)
        g["initial"][:] = d_delta[:, :, batch.starts].sum(axis=(1, 2))
        d_prior = d_delta
        d_prior[:, :, batch.starts] = 0
        d_context = np.float32(1 - gamma) * d_prior.sum(axis=1)
        if gamma_slope:
            d_gamma = scale * (d_prior * previous).sum() - (d_prior.sum(axis=1) * context).sum()
            g["transition.stickiness_logit"][...] = d_gamma * gamma_slope
        if self._scale_fixed is None:
            g["transition.log_scale"][...] = gamma * scale_slope * (d_prior * previous).sum()

        scaled = error * upstream
        d_mean = (scaled * precision).reshape(len(precision), -1)  # [N, S R]
        flat_z = z.reshape(k, -1)
        if self.state_noise:
            pull = scaled * error
            pull -= upstream if batch.known is None else batch.known[:, None] * upstream
            pull[:, :, batch.starts] = 0
            d_deviation = pull.reshape(len(precision), -1)  # [N, S R]
            g["log_noise"][...] = (flat_z @ d_deviation.T) * (p["log_noise"] > _LEAST_LOG_NOISE)
        else:
            counted = upstream.sum(axis=0)  # [R]
            pull = (scaled * error).sum(axis=1)  # [N, R]
            pull -= counted if batch.known is None else batch.known * counted
            if self._first_log_noise is not None:
                pull[:, batch.starts] = 0
            g["log_noise"][:] = pull.sum(axis=1) * (p["log_noise"] > _LEAST_LOG_NOISE)
        g["dynamics"][...] = (weighted @ d_mean.T).reshape(g["dynamics"].shape)
        self._curve(batch, weighted, flat_z, upstream.reshape(-1), precision)
        d_weighted = (coefficients @ d_mean).reshape(k, -1, n_samples, batch.n_rows)  # [K, P, S, R]
        if not importance:
            d_z = (d_weighted * design[None, :, None]).sum(axis=1)  # [K, S, R]
            if self.state_noise:
                d_z += (log_noise @ d_deviation).reshape(d_z.shape)
            d_z += _unshift(np.float32(gamma * scale) * d_prior)
            d_z -= (d_z * z).sum(axis=0)
            d_z *= z
            d_logits += d_z.sum(axis=1) / np.float32(temperature)
        if self.informed:
            g["log_trust"][...] = trust * (d_logits * batch.chain).sum()

        g["transition.weight"][...] = before @ d_context.T
        g["transition.bias"][:] = d_context.sum(axis=1)
        d_before = p["transition.weight"] @ d_context  # [D, R]
        d_x = self._posterior_backward(batch, features, hidden, d_logits, d_before)
        d_design = (d_weighted * z[:, None]).sum(axis=(0, 2)) * batch.started  # [P, R]
        d_before += d_design[: len(projection)]
        d_x += _unshift(d_before)
        g["projection"][...] = d_x @ batch.past.T
        return objective

    def _curve(self, batch: Batch, weighted: Array, z: Array, upstream: Array, precision: Array) -> None:
        """Fill the curvatures of dynamics and noise from draws [.., S R]."""
        if not self.state_noise:
            np.matmul(weighted * upstream, weighted.T, out=self.curvature)
            return
        if batch.known is not None:
            precision = precision * batch.known[:, None]
        precision = precision.reshape(len(precision), -1)
        some = slice(None, None, max(1, len(upstream) // _CURVATURE_DRAWS))
        share = upstream[some] * (upstream.sum() / max(upstream[some].sum(), _LEAST_EXPONENTIAL))
        thinned = weighted[:, some]
        weight = np.square(precision[:, some]) * share  # [N, S R]
        rows, columns = np.tril_indices(len(thinned))
        found = weight @ (thinned[rows] * thinned[columns]).T
        self.curvature[:, rows, columns] = self.curvature[:, columns, rows] = found
        np.matmul(z[:, some] * share, z[:, some].T, out=self.noise_curvature)

    def _row_noise(self, batch: Batch, log_noise: Array, z: Array) -> tuple[Array, Array]:
        """Return inverse standard deviations [N, 1, R] and minus the log density of a zero residual [R].

        With noise per state the shapes are [N, S, R] and [S, R].
        """
        if self.state_noise:
            logs = (log_noise.T @ z.reshape(len(z), -1)).reshape(-1, *z.shape[1:])
        else:
            logs = np.repeat(log_noise[:, None, None], batch.n_rows, axis=2)
        if self._first_log_noise is not None:
            logs[:, :, batch.starts] = self._first_log_noise[:, None, None]
        per_channel = logs + np.float32(0.5 * _LOG_2PI)
        if batch.known is not None:
            per_channel *= batch.known[:, None]
        return np.exp(-logs), per_channel.sum(axis=0)

    def _features(self, batch: Batch, x: Array, before: Array) -> Array:
        if self._move_scale is None:
            return batch.past
        return np.concatenate([x, (x - before) / self._move_scale * batch.started])  # [2 D, R]

    def _posterior(self, batch: Batch, x: Array, before: Array) -> tuple[Array, Array | None, Array]:
        p = self.p
        features = self._features(batch, x, before)
        logits = p["posterior.weight"].T @ features + p["posterior.bias"][:, None]
        hidden = None
        if "posterior.out" in p:
            hidden = np.tanh(p["posterior.hidden_weight"].T @ features + p["posterior.hidden_bias"][:, None])
            logits += p["posterior.out"].T @ hidden
        return features, hidden, logits

    def _posterior_backward(
        self, batch: Batch, features: Array, hidden: Array | None, d_logits: Array, d_before: Array
    ) -> Array:
        """Fill the posterior's gradient, add to the row before's and return the gradient of x."""
        p, g = self.p, self.g
        g["posterior.weight"][...] = features @ d_logits.T
        g["posterior.bias"][:] = d_logits.sum(axis=1)
        d_features: Any = 0.0 if self._move_scale is None else p["posterior.weight"] @ d_logits
        if hidden is not None:
            g["posterior.out"][...] = hidden @ d_logits.T
            d_hidden = (p["posterior.out"] @ d_logits) * (1 - np.square(hidden))
            g["posterior.hidden_weight"][...] = features @ d_hidden.T
            g["posterior.hidden_bias"][:] = d_hidden.sum(axis=1)
            d_features = d_features + p["posterior.hidden_weight"] @ d_hidden
        if self._move_scale is None:
            return np.zeros_like(d_before)
        d = len(d_before)
        moved = d_features[d:] / self._move_scale * batch.started
        d_before -= moved
        result: Array = d_features[:d] + moved
        return result


def _shift(values: Array) -> Array:
    """Return values [..., R] of the row before; the first row repeats and must be masked."""
    return np.concatenate([values[..., :1], values[..., :-1]], axis=-1)


def _unshift(gradient: Array) -> Array:
    """Apply the transpose of `_shift` to gradients that are zero on its masked rows."""
    return np.concatenate([gradient[..., 1:], np.zeros_like(gradient[..., :1])], axis=-1)
