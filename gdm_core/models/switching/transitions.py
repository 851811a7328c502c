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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.maths.hmm import ChainPosterior, log_normalise, row_sum, softmax

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

KINDS = ("stationary", "sticky", "recurrent", "recurrent_only")
STAY_COUNT = 10.0  # sticky: prior observations of staying in each state
ROW_COUNT = 0.1  # prior observations of every other move, so that no probability reaches zero
WEIGHT_PENALTY = 1e-3  # on squared recurrent weights; separable data would drive them to infinity
BIAS_PENALTY = 1e-2
_CACHED_NUMBERS = 50_000
_INFORMATION_STEPS = 4000  # steps of the path that the curvature of the recurrent weights is measured on


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
        rows = self.bias[np.zeros_like(before) if len(self.bias) == 1 else before]
        result: npt.NDArray[Any] = rows + x @ self.weights.T if self.recurrent else rows
        return result

    def expected_log(self, x: Float, covariance: Float | None = None) -> Float:
        """[T, R, K] (or [K, K] without recurrence) bound on E[log p(z_t | z_{t-1}, x_{t-1})]; row t leads into sample t.

        x [T, D] means and covariance [T, D, D] of the latents; row 0 has nothing before it and holds placeholders.
        """
        if not self.recurrent:
            return log_normalise(self.bias)[0]
        expected = self._into(x)[:, None, :] + self.bias  # [T, R, K]
        if covariance is None:
            return log_normalise(expected)[0]
        before = _shifted(covariance)
        for part in _blocks(*expected.shape):
            spread = self.weights @ before[part] @ self.weights.T  # [n, K, K]
            expected[part] -= softmax(_tilted(expected[part], spread)[0])[1][..., None]
        return expected

    def _into(self, x: Float) -> Float:
        """[T, K] recurrent logits leading into each sample."""
        return _shifted(x @ self.weights.T)

    def log_prior(self) -> float:
        first = ROW_COUNT * float(self.log_initial.sum())
        if not self.recurrent:
            return first + float((self._counts() * log_normalise(self.bias)[0]).sum())
        return first - float(WEIGHT_PENALTY / 2 * (self.weights**2).sum() + BIAS_PENALTY / 2 * (self.bias**2).sum())

    def _counts(self) -> Float:
        stay = STAY_COUNT if self.kind == "sticky" else 0.0
        counts: Float = ROW_COUNT + stay * np.eye(len(self.bias))
        return counts

    def curvature(self, x: Float, chain: ChainPosterior) -> tuple[float, Float, Float]:
        """Value, gradient [T, D] and negative Hessian [T, D, D] of E_q(z)[log p(z | x)] as a function of the path x."""
        n, d = x.shape
        value, gradient, precision = 0.0, np.zeros((n, d)), np.zeros((n, d, d))
        into = self._into(x)[:, None, :]
        outer = (self.weights[:, :, None] * self.weights[:, None, :]).reshape(-1, d * d)
        for part in _blocks(n, *self.bias.shape):
            logits, pairs = into[part] + self.bias, chain.pairs[part]  # [n, R, K]
            p, total = softmax(logits)
            weight = row_sum(pairs)  # [n, R]
            value += float((pairs * logits).sum() - (weight * total).sum())
            mixed = np.einsum("tr,trk->tk", weight, p)
            gradient[part] = (np.einsum("trk->tk", pairs) - mixed) @ self.weights
            centred = p @ self.weights  # [n, R, D] mean weights under p
            second = (mixed @ outer).reshape(-1, d, d)
            precision[part] = second - np.swapaxes(weight[..., None] * centred, 1, 2) @ centred
        # Row t holds what the step into sample t says about sample t - 1.
        gradient[:-1], precision[:-1] = gradient[1:].copy(), precision[1:].copy()
        gradient[-1], precision[-1] = 0.0, 0.0
        return value, gradient, precision

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
        value, gradient = problem.evaluate(current)
        for number in range(steps):
            move = np.asarray(np.linalg.solve(problem.information(current), gradient), dtype=np.float64)
            gain = float(move @ gradient)
            if gain < 1e-6:
                break
            for shrink in (1.0, 0.5, 0.2, 0.05, 0.01):
                trial = current._moved(shrink * move)
                reached = problem.value(trial)
                if reached > value:
                    current, value = trial, reached
                    break
            else:
                break
            if number + 1 < steps:
                value, gradient = problem.evaluate(current)
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


def _blocks(n: int, rows: int, columns: int) -> Iterator[slice]:
    """Stretches of time short enough for their [n, R, K] arrays to stay in the processor's cache."""
    size = max(256, _CACHED_NUMBERS // (rows * columns))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _tilted(mean: Float, spread: Float) -> tuple[Float, Float, Float]:
    """(m_k + 1/2 (e_k - a)' V (e_k - a), a, V a) for logits' means [T, R, K] and covariance [T, K, K]."""
    a = softmax(mean)[0]
    pulled = a @ spread  # [T, R, K]
    own = np.diagonal(spread, axis1=1, axis2=2)[:, None, :]
    both = np.einsum("trk,trk->tr", a, pulled)
    return mean - pulled + 0.5 * (own + both[..., None]), a, pulled


@dataclass(frozen=True)
class _Problem:
    """The expected log-probability of the states as a function of bias and weights (shapes: n = T - 1 steps)."""

    pairs: Float  # [n, R, K]
    x: Float  # [n, D]
    covariance: Float | None  # [n, D, D]

    def value(self, at: Transitions) -> float:
        value = at.log_prior()
        for part in _blocks(*self.pairs.shape):
            mean = (self.x[part] @ at.weights.T)[:, None, :] + at.bias  # [n, R, K]
            tilted = mean
            if self.covariance is not None:
                tilted = _tilted(mean, at.weights @ self.covariance[part] @ at.weights.T)[0]
            pairs = self.pairs[part]
            value += float((pairs * mean).sum() - (row_sum(pairs) * softmax(tilted)[1]).sum())
        return value

    def evaluate(self, at: Transitions) -> tuple[float, Float]:
        """Value and gradient."""
        value = at.log_prior()
        bias, weights = -BIAS_PENALTY * at.bias, -WEIGHT_PENALTY * at.weights
        for part in _blocks(*self.pairs.shape):
            covariance = None if self.covariance is None else self.covariance[part]
            gain, by_bias, by_weights = _expected(at, self.pairs[part], self.x[part], covariance)
            value, bias, weights = value + gain, bias + by_bias, weights + by_weights
        return value, np.concatenate([bias.ravel(), weights.ravel()])

    def information(self, at: Transitions) -> Float:
        """[P, P] expected curvature of the softmax plus the penalties, a positive definite stand-in for the negative
        Hessian. A few thousand evenly spread steps are enough: the line search does not depend on its being exact."""
        stride = max(1, len(self.x) // _INFORMATION_STEPS)
        x, weight = self.x[::stride], stride * row_sum(self.pairs[::stride])
        p = softmax((x @ at.weights.T)[:, None, :] + at.bias)[0]
        rows, k, d = at.bias.shape[0], at.bias.shape[1], x.shape[1]
        split = rows * k
        matrix = np.diag(np.repeat([BIAS_PENALTY, WEIGHT_PENALTY], [split, k * d]))
        features = np.concatenate([np.ones((len(x), 1)), x], axis=1)  # [n, 1 + D]
        states = np.arange(k)
        for row in range(rows):
            spread = (p[:, row, :, None] * features[:, None, :]).reshape(len(x), -1)  # [n, K (1 + D)]
            weighted = spread * weight[:, row, None]
            block = -(weighted.T @ spread).reshape(k, 1 + d, k, 1 + d)
            block[states, :, states, :] += (weighted.T @ features).reshape(k, 1 + d, 1 + d)
            at_row = slice(row * k, (row + 1) * k)
            matrix[at_row, at_row] += block[:, 0, :, 0]
            matrix[at_row, split:] += block[:, 0, :, 1:].reshape(k, k * d)
            matrix[split:, at_row] += block[:, 1:, :, 0].reshape(k * d, k)
            matrix[split:, split:] += block[:, 1:, :, 1:].reshape(k * d, k * d)
        return matrix


def _expected(at: Transitions, pairs: Float, x: Float, covariance: Float | None) -> tuple[float, Float, Float]:
    """Expected log-probability of the states over n steps, and its gradients by bias and weights."""
    mean = (x @ at.weights.T)[:, None, :] + at.bias  # [n, R, K]
    weight = row_sum(pairs)  # [n, R]
    curved = np.zeros_like(at.weights)
    if covariance is None:
        slope, total = softmax(mean)
    else:
        half = at.weights @ covariance  # [n, K, D]
        spread = half @ at.weights.T
        tilted, a, pulled = _tilted(mean, spread)
        p, total = softmax(tilted)
        push = pulled - p @ spread
        slope = p + a * (push - np.einsum("nrk,nrk->nr", a, push)[..., None])
        wp, wa = (np.swapaxes(weight[..., None] * share, 1, 2) for share in (p, a))  # [n, K, R]
        outer = wa @ (a - p) - wp @ a  # [n, K, K]
        curved = np.einsum("nkd->kd", outer @ half) + np.einsum("nk,nkd->kd", row_sum(wp), half)
    value = float((pairs * mean).sum() - (weight * total).sum())
    left = pairs - weight[..., None] * slope
    return value, left.sum(axis=0), np.einsum("nrk->nk", left).T @ x - curved
