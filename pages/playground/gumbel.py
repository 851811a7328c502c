"""The Gumbel-Softmax distribution in NumPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def noise(n: int, n_states: int, seed: int) -> Array:
    """Return standard Gumbel noise [n, K]."""
    return np.random.default_rng(seed).gumbel(size=(n, n_states))


def log_draws(logits: Array, temperature: float, gumbel: Array, scale: float = 1.0) -> Array:
    """Return the logarithms [n, K] of softmax((logits + scale * noise) / temperature)."""
    u = (logits + scale * gumbel) / temperature
    result: Array = u - np.logaddexp.reduce(u, axis=-1, keepdims=True)
    return result


def draws(logits: Array, temperature: float, gumbel: Array, scale: float = 1.0) -> Array:
    """Return soft states [n, K]."""
    return np.exp(log_draws(logits, temperature, gumbel, scale))


def log_density(log_z: Array, logits: Array, temperature: float) -> Array:
    """Return the log density [...] of log soft states [..., K] on the log-simplex."""
    k = logits.shape[-1]
    u = logits - temperature * log_z
    result: Array = math.lgamma(k) + (k - 1) * np.log(temperature) + u.sum(-1) - k * np.logaddexp.reduce(u, axis=-1)
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
    ratio = []
    gumbel = noise(n * len(temperatures), len(first), seed)
    for tau, mine in zip(temperatures, np.split(gumbel, len(temperatures)), strict=True):
        log_z = log_draws(first, tau, mine)
        ratio.append(log_density(log_z, first, tau) - log_density(log_z, second, tau))
    return np.mean(ratio, axis=1), np.std(ratio, axis=1, ddof=1) / np.sqrt(n)


def probabilities(logits: Array, scale: float = 1.0) -> Array:
    """Return the probability [K] that each state is the strongest."""
    return draws(logits, scale, np.zeros_like(logits))
