"""The Gumbel-Softmax distribution in NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def logsumexp(values: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Return log sum exp; importing SciPy's would slow the first visit."""
    top = values.max(axis=axis, keepdims=True)
    found: Array = np.log(np.exp(values - top).sum(axis=axis, keepdims=True)) + top
    return found if keepdims else found.squeeze(axis)


def noise(n: int, n_states: int, seed: int) -> Array:
    """Return standard Gumbel noise [n, K]."""
    return np.random.default_rng(seed).gumbel(size=(n, n_states))


def log_draws(logits: Array, temperature: float | Array, gumbel: Array, scale: float = 1.0) -> Array:
    """Return the logarithms [n, K] of softmax((logits + scale * noise) / temperature)."""
    u = (logits + scale * gumbel) / temperature
    result: Array = u - logsumexp(u, axis=-1, keepdims=True)
    return result


def draws(logits: Array, temperature: float, gumbel: Array, scale: float = 1.0) -> Array:
    """Return soft states [n, K]."""
    return np.exp(log_draws(logits, temperature, gumbel, scale))


def log_density(log_z: Array, logits: Array, temperature: float) -> Array:
    """Return the log density [...] of log soft states [..., K] on the log-simplex."""
    k = logits.shape[-1]
    u = logits - temperature * log_z
    result: Array = math.lgamma(k) + (k - 1) * np.log(temperature) + u.sum(-1) - k * logsumexp(u, axis=-1)
    return result


def log_density_on_simplex(z: Array, logits: Array, temperature: float) -> Array:
    """Return the log density [...] on the simplex, NaN where a proportion is zero."""
    log_z = np.log(z)
    return log_density(log_z, logits, temperature) - log_z.sum(-1)


def winners(logits: Array, gumbel: Array, scale: float = 1.0) -> Array:
    """Return how often [K] each state is the strongest; this does not depend on the temperature."""
    top = (logits + scale * gumbel).argmax(axis=1)
    return np.bincount(top, minlength=len(logits)) / len(gumbel)


def exact_kl(logits: Array, other: Array) -> float:
    """Return the KL divergence of two distributions with the same temperature, without importing torch.

    `gdm_core.maths.relaxed.gumbel_softmax_kl` computes the same integral.
    """
    delta, k = other - logits, len(logits)
    around = delta - delta.mean()
    end = float(np.abs(around).max()) + 22.0
    at = np.arange(-end, end, 0.8)  # the trapezoid rule: errors stay below 1e-7
    survival = np.exp(-np.logaddexp(0.0, at[:, None] + around).sum(axis=1))
    mixture = 0.8 * float((np.exp(-k * np.logaddexp(0.0, at)) - survival).sum()) + float(delta.mean())
    return k * mixture - float(delta.sum())


def sampled_kl(first: Array, second: Array, temperatures: Array, n: int, seed: int) -> tuple[Array, Array]:
    """Return Monte Carlo estimates of the KL divergence at several temperatures, and their standard errors."""
    k = len(first)
    gumbel = noise(n * len(temperatures), k, seed).reshape(len(temperatures), n, k)
    tau = temperatures[:, None, None]
    log_z = log_draws(first, tau, gumbel)  # [taus, n, K]

    def unnormalised(logits: Array) -> Array:
        v: Array = logits - tau * log_z
        result: Array = v.sum(-1) - k * logsumexp(v, axis=-1)
        return result

    ratio = unnormalised(first) - unnormalised(second)  # [taus, n]
    return ratio.mean(1), ratio.std(1, ddof=1) / np.sqrt(n)


@dataclass(frozen=True)
class DwellTimes:
    """Dwell times of a chain at several values of stickiness."""

    gammas: Array  # [G]
    lengths: list[npt.NDArray[np.int64]]  # for each gamma
    example: Array  # [G, T, K] one chain each

    def mean(self) -> Array:
        return np.array([float(np.mean(v)) if len(v) else np.nan for v in self.lengths])

    def survival(self, index: int, longest: int) -> Array:
        """Return the share [longest] of dwells that last at least 1, 2, ... steps."""
        counts = np.bincount(np.minimum(self.lengths[index], longest + 1), minlength=longest + 2)
        at_least = counts[::-1].cumsum()[::-1]
        return at_least[1 : longest + 1] / max(len(self.lengths[index]), 1)


def simulate_dwell_times(
    logits: Array,
    temperature: float,
    scale: float,
    gammas: Array,
    seed: int,
    n_chains: int = 120,
    n_steps: int = 400,
) -> DwellTimes:
    """Simulate z_t = softmax(((1 - gamma) e_t + gamma z_{t-1} + scale * noise) / temperature) for each gamma.

    e_t is a new permutation of the logits at each step, so nothing persists without stickiness. Dwells that begin in the
    first half count; nearly all of them end before the simulation does.
    """
    k = len(logits)
    rng = np.random.default_rng(seed)
    gumbel = scale * rng.gumbel(size=(n_steps, 1, n_chains, k))  # the same noise for every gamma
    permuted = rng.permuted(np.broadcast_to(logits, (n_steps, n_chains, k)), axis=-1)
    g = gammas[:, None, None]
    z = np.full((len(gammas), n_chains, k), 1 / k)
    path = np.empty((n_steps, len(gammas), n_chains, k))
    for t in range(n_steps):
        u = ((1 - g) * permuted[t] + g * z + gumbel[t]) / temperature
        u -= u.max(axis=-1, keepdims=True)
        np.exp(u, out=u)
        z = u / u.sum(axis=-1, keepdims=True)
        path[t] = z
    top = path.argmax(-1)  # [T, G, chains]
    return DwellTimes(gammas, [_first_half_dwells(top[:, i]) for i in range(len(gammas))], path[:, :, 0].swapaxes(0, 1))


def _first_half_dwells(top: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the lengths of dwells in [T, chains] that begin in the first half, without the first of each chain."""
    n_steps = len(top)
    flat = top.T.ravel()
    begins = np.ones(len(flat), bool)
    begins[1:] = flat[1:] != flat[:-1]
    begins[::n_steps] = True
    at = np.flatnonzero(begins)
    length = np.diff(np.append(at, len(flat)))
    when = at % n_steps
    return length[(when > 0) & (when < n_steps // 2)]


def probabilities(logits: Array, scale: float = 1.0) -> Array:
    """Return the probability [K] that each state is the strongest."""
    result: Array = np.exp(logits / scale - logsumexp(logits / scale))
    return result
