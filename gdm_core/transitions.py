"""How discrete states follow each other: one softmax that covers every kind of transition.

    p(z_t = j | z_{t-1} = i, x_{t-1}) = softmax_j(bias[i, j] + weights[j] . x_{t-1})

stationary, sticky   weights are zero; sticky has a prior that favours staying
recurrent            everything is learned
recurrent_only       bias has one row: the state before is not used

When x is only known as a Gaussian, E[log softmax] has no closed form. With u ~ N(m, V) the logits and any weights a,
    E[logsumexp(u)] <= logsumexp_k(m_k + 1/2 (e_k - a)' V (e_k - a)),
by Jensen's inequality after taking a.u out of the sum. With a = softmax(m) this is exact to second order in V, so the
expected log-probabilities used here are a strict lower bound, tight where x is well known, and a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.hmm import ChainPosterior, log_normalise

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

KINDS = ("stationary", "sticky", "recurrent", "recurrent_only")
STAY_COUNT = 10.0  # sticky: prior observations of staying in each state
ROW_COUNT = 0.1  # prior observations of every other move, so that no probability reaches zero
WEIGHT_PENALTY = 1e-3  # on squared recurrent weights; separable data would drive them to infinity
BIAS_PENALTY = 1e-2


@dataclass(frozen=True)
class Transitions:
    """Initial distribution and transition logits."""

    kind: str
    log_initial: Float  # [K]
    bias: Float  # [R, K], R = K, or 1 where the state before is not used
    weights: Float  # [K, D]

    @classmethod
    def blank(cls, kind: str, n_states: int, n_latent: int) -> Transitions:
        """Uniform start, no recurrence; staying is likely where the state before is used."""
        if kind not in KINDS:
            raise ConfigError(f"transitions is {kind!r}; choose one of {', '.join(KINDS)}.")
        rows = 1 if kind == "recurrent_only" else n_states
        bias = np.zeros((1, n_states)) if rows == 1 else np.eye(n_states) * (0.0 if kind == "stationary" else 2.0)
        return cls(
            kind,
            np.full(n_states, -np.log(n_states)),
            log_normalise(bias)[0],
            np.zeros((n_states, n_latent)),
        )

    @property
    def recurrent(self) -> bool:
        return self.kind in ("recurrent", "recurrent_only")

    def logits(self, before: npt.NDArray[Any], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[..., K] logits of the next state, given states [...] and latents [..., D]."""
        rows = self.bias[0] if self.bias.shape[0] == 1 else self.bias[before]
        result: npt.NDArray[Any] = rows + x @ self.weights.T if self.recurrent else rows
        return result

    def expected_log(self, x: Float, covariance: Float | None = None) -> Float:
        """[T, R, K] (or [K, K] without recurrence) bound on E[log p(z_t | z_{t-1}, x_{t-1})]; row t leads into sample t.

        x [T, D] means and covariance [T, D, D] of the latents; row 0 has nothing before it and holds placeholders.
        """
        if not self.recurrent:
            return log_normalise(self.bias)[0]
        mean = self._into(x)[:, None, :] + self.bias  # [T, R, K]
        if covariance is None:
            return log_normalise(mean)[0]
        spread = self.weights @ _shifted(covariance) @ self.weights.T  # [T, K, K]
        _, total = log_normalise(_tilted(mean, spread)[0])
        return mean - total[..., None]

    def _into(self, x: Float) -> Float:
        """[T, K] recurrent logits leading into each sample."""
        return _shifted(x @ self.weights.T)

    def log_prior(self) -> float:
        if not self.recurrent:
            return float((self._counts() * log_normalise(self.bias)[0]).sum())
        return float(-WEIGHT_PENALTY / 2 * (self.weights**2).sum() - BIAS_PENALTY / 2 * (self.bias**2).sum())

    def _counts(self) -> Float:
        stay = STAY_COUNT if self.kind == "sticky" else 0.0
        counts: Float = ROW_COUNT + stay * np.eye(len(self.bias))
        return counts

    def curvature(self, x: Float, chain: ChainPosterior) -> tuple[float, Float, Float]:
        """Value, gradient [T, D] and negative Hessian [T, D, D] of E_q(z)[log p(z | x)] as a function of the path x."""
        n, d = x.shape
        gradient, precision = np.zeros((n, d)), np.zeros((n, d, d))
        logits = self._into(x)[:, None, :] + self.bias  # [T, R, K]
        log_p = log_normalise(logits)[0]
        weight = chain.pairs.sum(axis=2, keepdims=True)  # [T, R, 1]
        p = np.exp(log_p)
        mixed = (weight * p).sum(axis=1)  # [T, K]
        gradient[:-1] = ((chain.pairs.sum(axis=1) - mixed) @ self.weights)[1:]
        centred = p @ self.weights  # [T, R, D] mean weights under p
        outer = (self.weights[:, :, None] * self.weights[:, None, :]).reshape(-1, d * d)
        second = (mixed @ outer).reshape(n, d, d) - np.swapaxes(weight * centred, 1, 2) @ centred
        precision[:-1] = second[1:]
        return float((chain.pairs * log_p).sum()), gradient, precision

    def fitted(
        self, chain: ChainPosterior, starts: Bool, x: Float, covariance: Float | None = None, steps: int = 2
    ) -> Transitions:
        """The M-step: closed form without recurrence, else a few Newton steps that never lower the objective."""
        first = chain.states[starts].sum(axis=0) + ROW_COUNT
        log_initial = np.log(first / first.sum())
        if not self.recurrent:
            counts = chain.pairs.sum(axis=0) + self._counts()
            bias = np.log(counts / counts.sum(axis=1, keepdims=True))
            return Transitions(self.kind, log_initial, bias, self.weights)
        current = Transitions(self.kind, log_initial, self.bias, self.weights)
        problem = _Problem(chain.pairs[1:], x[:-1], None if covariance is None else covariance[:-1])
        value, gradient, hessian = problem.evaluate(current)
        for _ in range(steps):
            move = np.linalg.solve(hessian, gradient)
            gain = float(move @ gradient)
            if gain < 1e-6:
                break
            for shrink in (1.0, 0.5, 0.2, 0.05, 0.01):
                trial = current._moved(shrink * move)
                trial_value, trial_gradient, trial_hessian = problem.evaluate(trial)
                if trial_value > value:
                    current, value, gradient, hessian = trial, trial_value, trial_gradient, trial_hessian
                    break
            else:
                break
        return current

    def _moved(self, step: Float) -> Transitions:
        """bias and weights after adding a flat step (bias first)."""
        split = self.bias.size
        return Transitions(
            self.kind,
            self.log_initial,
            self.bias + step[:split].reshape(self.bias.shape),
            self.weights + step[split:].reshape(self.weights.shape),
        )

    def reordered(self, order: npt.NDArray[Any]) -> Transitions:
        """The same transitions with states renamed."""
        bias = self.bias[:, order] if len(self.bias) == 1 else self.bias[np.ix_(order, order)]
        return Transitions(self.kind, self.log_initial[order], bias, self.weights[order])


def _shifted(values: Float) -> Float:
    """Row t holds what row t - 1 held."""
    moved = np.empty_like(values)
    moved[1:] = values[:-1]
    moved[0] = values[0]
    return moved


def _tilted(mean: Float, spread: Float) -> tuple[Float, Float, Float]:
    """(m_k + 1/2 (e_k - a)' V (e_k - a), a, V a) for logits' means [T, R, K] and covariance [T, K, K]."""
    a = np.exp(log_normalise(mean)[0])
    pulled = a @ spread  # [T, R, K]
    own = np.diagonal(spread, axis1=1, axis2=2)[:, None, :]
    quadratic = own - 2 * pulled + (a * pulled).sum(axis=2, keepdims=True)
    return mean + 0.5 * quadratic, a, pulled


@dataclass(frozen=True)
class _Problem:
    """The expected log-probability of the states as a function of bias and weights (shapes: n = T - 1 steps)."""

    pairs: Float  # [n, R, K]
    x: Float  # [n, D]
    covariance: Float | None  # [n, D, D]

    def evaluate(self, at: Transitions) -> tuple[float, Float, Float]:
        """Value, gradient, and a positive definite stand-in for the negative Hessian."""
        mean = (self.x @ at.weights.T)[:, None, :] + at.bias  # [n, R, K]
        weight = self.pairs.sum(axis=2, keepdims=True)
        extra = np.zeros_like(at.weights)
        if self.covariance is None:
            log_p, total = log_normalise(mean)
            p = np.exp(log_p)
            slope = p
        else:
            half = at.weights @ self.covariance  # [n, K, D]
            spread = half @ at.weights.T
            tilted, a, pulled = _tilted(mean, spread)
            log_p, total = log_normalise(tilted)
            p = np.exp(log_p)
            push = pulled - p @ spread
            slope = p + a * (push - (a * push).sum(axis=2, keepdims=True))
            wp, wa = np.swapaxes(weight * p, 1, 2), np.swapaxes(weight * a, 1, 2)  # [n, K, R]
            outer = wa @ (a - p) - wp @ a  # [n, K, K]
            extra = (outer @ half).sum(axis=0) + np.einsum("nk,nkd->kd", wp.sum(axis=2), half)
        value = float((self.pairs * mean).sum() - (weight[..., 0] * total).sum()) + at.log_prior()
        left = self.pairs - weight * slope
        gradient = np.concatenate(
            [
                (left.sum(axis=0) - BIAS_PENALTY * at.bias).ravel(),
                (left.sum(axis=1).T @ self.x - extra - WEIGHT_PENALTY * at.weights).ravel(),
            ]
        )
        return value, gradient, self._information(at, p, weight)

    def _information(self, at: Transitions, p: Float, weight: Float) -> Float:
        """[P, P] expected curvature of the softmax, plus the penalties."""
        rows, k, d = at.bias.shape[0], at.bias.shape[1], self.x.shape[1]
        split = rows * k
        matrix = np.diag(np.repeat([BIAS_PENALTY, WEIGHT_PENALTY], [split, k * d]))
        features = np.concatenate([np.ones((len(self.x), 1)), self.x], axis=1)  # [n, 1 + D]
        for row in range(rows):
            weighted = weight[:, row] * p[:, row]  # [n, K]
            spread = (p[:, row, :, None] * features[:, None, :]).reshape(len(self.x), -1)  # [n, K (1 + D)]
            block = -(spread * weight[:, row]).T @ spread
            block = block.reshape(k, 1 + d, k, 1 + d)
            own = (weighted[:, :, None] * features[:, None, :]).reshape(len(self.x), -1).T @ features
            states = np.arange(k)
            block[states, :, states, :] += own.reshape(k, 1 + d, 1 + d)
            at_row = slice(row * k, (row + 1) * k)
            matrix[at_row, at_row] += block[:, 0, :, 0]
            matrix[at_row, split:] += block[:, 0, :, 1:].reshape(k, k * d)
            matrix[split:, at_row] += block[:, 1:, :, 0].reshape(k * d, k)
            matrix[split:, split:] += block[:, 1:, :, 1:].reshape(k * d, k * d)
        return matrix
