"""Transitions between discrete states: one softmax for every kind.

    p(z_t = j | z_{t-1} = i, x_{t-1}) = softmax_j(bias[i, j] + weights[j] . x_{t-1})

stationary, sticky   weights are zero; sticky has a prior that favours staying
recurrent            everything is learned
recurrent_only       bias has one row, as the state before is not used

For Gaussian x, E[log softmax] has no closed form. With logits u ~ N(m, V) and any weights a,
    E[logsumexp(u)] <= logsumexp_k(m_k + 1/2 (e_k - a)' V (e_k - a)),
by Jensen's inequality. With a = softmax(m) this is exact to second order in V.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gdm_core.arrays import Bool, Float, Values
from gdm_core.compiled import as_floats
from gdm_core.compiled import transitions as loops
from gdm_core.errors import ConfigError
from gdm_core.maths.gaussian import products
from gdm_core.maths.hmm import ChainPosterior, log_normalise, row_max

KINDS = ("stationary", "sticky", "recurrent", "recurrent_only")
STAY_COUNT = 10.0  # sticky: prior observations of staying in each state
ROW_COUNT = 0.1  # prior observations of every other transition, which keep probabilities above zero
WEIGHT_PENALTY = 1e-3  # on squared recurrent weights; separable data would drive them to infinity
BIAS_PENALTY = 1e-2
_CACHED_NUMBERS = 50_000
_MIN_SUM = 1e-300  # of exponentials
_INFORMATION_STEPS = 2000  # steps used for the curvature of the recurrent weights


@dataclass(frozen=True)
class Transitions:
    """Initial distribution and transition logits."""

    kind: str
    log_initial: Float  # [K]
    bias: Float  # [R, K]; R is K, or 1 where the state before is not used
    weights: Float  # [K, D]

    @classmethod
    def blank(cls, kind: str, n_states: int, n_latent: int) -> Transitions:
        """Return transitions without recurrence, from a uniform start; staying is likely unless they are stationary."""
        if kind not in KINDS:
            raise ConfigError(f"transitions is {kind!r}; choose one of {', '.join(KINDS)}.")
        rows = 1 if kind == "recurrent_only" else n_states
        bias = np.zeros((1, n_states)) if rows == 1 else np.eye(n_states) * (0.0 if kind == "stationary" else 2.0)
        return cls(kind, np.full(n_states, -np.log(n_states)), log_normalise(bias)[0], np.zeros((n_states, n_latent)))

    @property
    def recurrent(self) -> bool:
        return self.kind in ("recurrent", "recurrent_only")

    def logits(self, before: Values, x: Values) -> Values:
        """Return the logits [..., K] of the next state, given states [...] and latents [..., D]."""
        rows = self.bias[np.zeros_like(before) if len(self.bias) == 1 else before]
        return rows + x @ self.weights.T if self.recurrent else rows

    def expected(self, x: Float, covariance: Float | None = None) -> Float:
        """Return a lower bound on E[log p(z_t | z_{t-1}, x_{t-1})]: [T, R, K], or [K, K] without recurrence.

        x           [T, D] mean of the path
        covariance  [T, D, D] of the path; None where it is known
        """
        if not self.recurrent:
            return log_normalise(self.bias)[0]
        last = vars(self).get("_last")
        if last is None or last[0] is not x or last[1] is not covariance:  # EM asks for each table twice
            last = vars(self)["_last"] = (x, covariance, self._table(x, covariance))
        return last[2]

    def _table(self, x: Float, covariance: Float | None) -> Float:
        into = _shifted(x) @ self.weights.T  # [T, K]
        table = into[:, None, :] + self.bias
        for part, step in self._steps(_shifted(x), covariance):
            table[part] -= step.total.T[..., None]
        return np.asarray(table)

    def log_prior(self) -> float:
        first = ROW_COUNT * float(self.log_initial.sum())
        if not self.recurrent:
            return first + float((self._counts() * log_normalise(self.bias)[0]).sum())
        return first - float(WEIGHT_PENALTY / 2 * (self.weights**2).sum() + BIAS_PENALTY / 2 * (self.bias**2).sum())

    def _counts(self) -> Float:
        stay = STAY_COUNT if self.kind == "sticky" else 0.0
        return np.asarray(ROW_COUNT + stay * np.eye(len(self.bias)))

    def path_derivatives(self, x: Float, chain: ChainPosterior) -> tuple[float, Float, Float]:
        """Return E_q(z)[log p(z | x)], its gradient [T, D] and the blocks [T, D, D] of its negative Hessian in x."""
        chances, peak = self._chances()
        sums, slope, curve = loops.path_derivatives(as_floats(x), chances, as_floats(self.weights), chain.left)
        value = np.vdot(chain.reached, _shifted(x) @ self.weights.T) + np.vdot(chain.counts, self.bias - peak[:, None])
        # Row t is about what the step into sample t + 1 says about sample t.
        slope[:-1] -= chain.reached[1:] @ self.weights
        return float(value) - sums, -slope, curve

    def _chances(self) -> tuple[Float, Float]:
        """Return exponentials of `bias` [R, K], relative to the largest one of each row, and its logarithm [R]."""
        peak = row_max(self.bias)
        return np.exp(self.bias - peak[:, None]), peak

    def fit(
        self, chain: ChainPosterior, starts: Bool, x: Float, covariance: Float | None = None, steps: int = 2
    ) -> Transitions:
        """Return the M-step's transitions, in closed form or by monotone Newton steps."""
        first = chain.states[starts].sum(axis=0) + ROW_COUNT
        current = replace(self, log_initial=np.log(first / first.sum()))
        if not self.recurrent:
            counts = chain.counts + self._counts()
            return replace(current, bias=np.log(counts / counts.sum(axis=1, keepdims=True)))
        value = current.log_prior() + expected_log_probability(self.expected(x, covariance), chain)
        for _ in range(steps):
            gradient = current.gradient(chain, x, covariance)
            move: Float = np.asarray(np.linalg.solve(current.information(chain, x), gradient), np.float64)
            if float(move @ gradient) < 1e-6:
                break
            for shrink in (1.0, 0.5, 0.2, 0.05, 0.01):
                trial = current.add_step(shrink * move)
                reached = trial.objective(chain, x, covariance)
                if reached > value:
                    current, value = trial, reached
                    break
            else:
                break
        return current

    def add_step(self, step: Float) -> Transitions:
        """Add a flat step to bias and weights, in this order."""
        split = self.bias.size
        return replace(
            self,
            bias=self.bias + step[:split].reshape(self.bias.shape),
            weights=self.weights + step[split:].reshape(self.weights.shape),
        )

    # ---- the recurrent M-step -----------------------------------------------------------------------------------
    def objective(self, chain: ChainPosterior, x: Float, covariance: Float | None = None) -> float:
        """Return the expected log-probability of the states plus the log prior."""
        return self.log_prior() + expected_log_probability(self.expected(x, covariance), chain)

    def gradient(self, chain: ChainPosterior, x: Float, covariance: Float | None = None) -> Float:
        """Return the gradient [R K + K D] of `objective` in bias and weights."""
        before = _shifted(x)
        bias = chain.counts - BIAS_PENALTY * self.bias
        weights = chain.reached.T @ before - WEIGHT_PENALTY * self.weights
        for part, step in self._steps(before, covariance):
            slope, curved = step.slopes(chain.left_along[:, part], self.weights)
            bias = bias - slope.sum(axis=2)
            weights = weights - slope.sum(axis=0) @ before[part] - curved
        return np.concatenate([bias.ravel(), weights.ravel()])

    def information(self, chain: ChainPosterior, x: Float) -> Float:
        """Return the expected curvature of the softmax plus the penalties [P, P], in place of the negative Hessian.

        It uses a few thousand evenly spread steps, as the line search needs no exact curvature.
        """
        stride = max(1, len(x) // _INFORMATION_STEPS)
        inputs = as_floats(x), self._chances()[0], as_floats(self.weights)
        own, across, weights = loops.information(*inputs, chain.left, stride)
        (rows, k), size = self.bias.shape, self.weights.size
        matrix = np.diag(np.repeat([BIAS_PENALTY, WEIGHT_PENALTY], [rows * k, size]))
        for row in range(rows):
            matrix[row * k : (row + 1) * k, row * k : (row + 1) * k] += own[row]
        matrix[: rows * k, rows * k :] = across.reshape(rows * k, size)
        matrix[rows * k :, : rows * k] = across.reshape(rows * k, size).T
        matrix[rows * k :, rows * k :] += weights.swapaxes(1, 2).reshape(size, size)
        return matrix

    def _steps(self, before: Float, covariance: Float | None) -> Iterator[tuple[slice, _Softmax]]:
        """Yield stretches of time whose arrays stay in the processor's cache, with the softmax of their steps."""
        size = max(256, _CACHED_NUMBERS // self.bias.size)
        along = np.ascontiguousarray(before.T)
        spread = None if covariance is None else np.ascontiguousarray(np.moveaxis(_shifted(covariance), 0, -1))
        for start in range(0, len(before), size):
            part = slice(start, min(start + size, len(before)))
            yield part, _Softmax.compute(self, along[:, part], None if spread is None else spread[..., part])


def expected_log_probability(table: Float, chain: ChainPosterior) -> float:
    """Return E_q(z)[log p(z)] from the log-probabilities of `Transitions.expected`."""
    return float(np.vdot(chain.counts if table.ndim == 2 else chain.pairs, table))


def _shifted(values: Float) -> Float:
    """Return values in which row t holds row t - 1; the first row repeats."""
    return np.concatenate([values[:1], values[:-1]])


def _outer(weights: Float) -> Float:
    """Return the outer product [K, D D] of each state's weights."""
    return (weights[:, :, None] * weights[:, None, :]).reshape(len(weights), -1)


@dataclass(frozen=True)
class _Softmax:
    """Distribution of the next state at n steps.

    Time is the last axis, since sums over few states are quick there. An uncertain path tilts the logits:
    m_k + 1/2 (w_k - a)' V (w_k - a), with a the mean weight under the softmax.
    """

    p: Float  # [R, K, n] at the mean of the path
    mean_weights: Float  # [R, D, n] a
    total: Float  # [R, n] bound on E[logsumexp], exact where the path is known
    covariance: Float | None = None  # [D, D, n] V
    pulled: Float | None = None  # [R, D, n] V a
    tilted: Float | None = None  # [R, K, n] softmax of the tilted logits

    @classmethod
    def compute(cls, transitions: Transitions, x: Float, covariance: Float | None) -> _Softmax:
        """Compute the distribution after samples x [D, n] with covariance [D, D, n]."""
        w, bias = transitions.weights, transitions.bias
        into = w @ x  # [K, n]
        top = into.max(axis=0)
        # Exponentials of [K, n] and [R, K] multiply: one for each pair of states would cost most of the time.
        e, (b, peak) = np.exp(into - top), transitions._chances()
        scale = np.maximum(b @ e, _MIN_SUM)
        p = b[..., None] * e
        p /= scale[:, None]
        mean = w.T @ p
        total = np.log(scale) + top + peak[:, None]
        if covariance is None:
            return cls(p, mean, total)
        pulled = products(mean, covariance)
        shared = 0.5 * np.einsum("rdn,rdn->rn", pulled, mean)
        logits = into + 0.5 * (_outer(w) @ covariance.reshape(w.shape[1] ** 2, -1)) - w @ pulled
        logits += bias[..., None]
        level = logits.max(axis=1)
        tilted = np.exp(logits - level[:, None])
        sums = tilted.sum(axis=1)
        tilted /= sums[:, None]
        return cls(p, mean, np.log(sums) + level + shared, covariance, pulled, tilted)

    def slopes(self, weight: Float, w: Float) -> tuple[Float, Float]:
        """Return the slopes of weight [R, n] times `total` in the logits, and further ones in the weights."""
        heavy = weight[:, None]
        if self.covariance is None or self.pulled is None or self.tilted is None:
            return self.p * heavy, np.zeros_like(w)
        k, d = w.shape
        gap = products(self.mean_weights - w.T @ self.tilted, self.covariance)  # [R, D, n]
        slope = w @ gap  # [R, K, n]
        slope -= np.einsum("rdn,rdn->rn", gap, self.mean_weights)[:, None]
        slope *= self.p * heavy
        curved = (self.p @ (heavy * gap).swapaxes(1, 2)).sum(axis=0)
        tilted = self.tilted * heavy
        slope += tilted
        curved -= (tilted @ self.pulled.swapaxes(1, 2)).sum(axis=0)
        spread = (tilted.sum(axis=0) @ self.covariance.reshape(d * d, -1).T).reshape(k, d, d)
        curved += np.einsum("kd,kde->ke", w, spread)
        return slope, curved
