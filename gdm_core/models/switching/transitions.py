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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.maths.gaussian import products
from gdm_core.maths.hmm import ChainPosterior, log_normalise, row_max

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

KINDS = ("stationary", "sticky", "recurrent", "recurrent_only")
STAY_COUNT = 10.0  # sticky: prior observations of staying in each state
ROW_COUNT = 0.1  # prior observations of every other move, so that no probability reaches zero
WEIGHT_PENALTY = 1e-3  # on squared recurrent weights; separable data would drive them to infinity
BIAS_PENALTY = 1e-2
_CACHED_NUMBERS = 50_000
_LEAST = 1e-300  # of a sum of exponentials
_INFORMATION_STEPS = 2000  # steps of the path that the curvature of the recurrent weights is measured on


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

    def expected(self, x: Float, covariance: Float | None = None) -> Expected:
        """Bound on E[log p(z_t | z_{t-1}, x_{t-1})] for x [T, D] means and covariance [T, D, D] of the latents."""
        if not self.recurrent:
            return Expected(None, log_normalise(self.bias)[0], None)
        into = self._into(x)  # [T, K]
        along, before = _along_time(into), None if covariance is None else _along_time(_shifted(covariance))
        total = np.empty((len(into), len(self.bias)))
        for part in _blocks(len(into), *self.bias.shape):
            total[part] = _Step.of(self, along[:, part], None if before is None else before[..., part]).total.T
        return Expected(into, self.bias, total)

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
        into = self._into(x)
        outer = _outer(self.weights)
        value += float(np.vdot(chain.reached, into) + np.vdot(chain.counts, self.bias))
        along, left, reached = _along_time(into), chain.left_along, _along_time(chain.reached)
        for part in _blocks(n, *self.bias.shape):
            now = _Step.of(self, along[:, part], None)
            weight = left[:, part]  # [R, n]
            value -= float(np.vdot(weight, now.total))
            mixed = now.mixed(weight)
            gradient[part] = (reached[:, part] - mixed).T @ self.weights
            centred = now.mean_weights.swapaxes(0, 1)  # [D, R, n]
            precision[part] = (mixed.T @ outer).reshape(-1, d, d)
            precision[part] -= products(weight * centred, centred.swapaxes(0, 1)).transpose(2, 0, 1)
        # Row t holds what the step into sample t says about sample t - 1.
        gradient[:-1], precision[:-1] = gradient[1:].copy(), precision[1:].copy()
        gradient[-1], precision[-1] = 0.0, 0.0
        return value, gradient, precision

    def fitted(
        self, chain: ChainPosterior, starts: Bool, x: Float, covariance: Float | None = None, steps: int = 2
    ) -> tuple[Transitions, Expected]:
        """The M-step: closed form without recurrence, else a few Newton steps that never lower the objective. And what `expected`
        would say of it at x: the last step has found that on its way."""
        first = chain.states[starts].sum(axis=0) + ROW_COUNT
        log_initial = np.log(first / first.sum())
        if not self.recurrent:
            counts = chain.counts + self._counts()
            bias = np.log(counts / counts.sum(axis=1, keepdims=True))
            found = Transitions(self.kind, log_initial, bias, self.weights)
            return found, found.expected(x)
        current = Transitions(self.kind, log_initial, self.bias, self.weights)
        problem = _Problem(chain, x, covariance)
        value, gradient, total = problem.evaluate(current)
        for number in range(steps):
            move = np.asarray(np.linalg.solve(problem.information(current), gradient), dtype=np.float64)
            gain = float(move @ gradient)
            if gain < 1e-6:
                break
            for shrink in (1.0, 0.5, 0.2, 0.05, 0.01):
                trial = current._moved(shrink * move)
                reached, total_there = problem.value(trial)
                if reached > value:
                    current, value, total = trial, reached, total_there
                    break
            else:
                break
            if number + 1 < steps:
                value, gradient, total = problem.evaluate(current)
        return current, Expected(current._into(x), current.bias, total)

    def _moved(self, step: Float) -> Transitions:
        """bias and weights after adding a flat step (bias first)."""
        split = self.bias.size
        return Transitions(
            self.kind,
            self.log_initial,
            self.bias + step[:split].reshape(self.bias.shape),
            self.weights + step[split:].reshape(self.weights.shape),
        )


@dataclass(frozen=True)
class Expected:
    """Bound on E[log p(z_t | z_{t-1}, x_{t-1})] as a sum, so that [T, R, K] numbers are only made where they are needed.
    Row t leads into sample t; row 0 has nothing before it and holds placeholders."""

    into: Float | None  # [T, K]; None without recurrence
    bias: Float  # [R, K]
    total: Float | None  # [T, R] what normalises them

    @property
    def table(self) -> Float:
        """[T, R, K], or [K, K] without recurrence."""
        if self.into is None or self.total is None:
            return self.bias
        table: Float = self.into[:, None, :] + self.bias
        table -= self.total[..., None]
        return table

    def under(self, chain: ChainPosterior) -> float:
        """Its expectation under q(z)."""
        value = float(np.vdot(chain.counts, self.bias))
        if self.into is None or self.total is None:
            return value
        return value + float(np.vdot(chain.reached, self.into)) - float(np.vdot(chain.left, self.total))


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


def _along_time(values: Float) -> Float:
    """[T, ...] -> [..., T]: sums and products over few states are quick where time is the last axis."""
    return np.ascontiguousarray(np.moveaxis(values, 0, -1))


def _outer(weights: Float) -> Float:
    """[K, D D] each state's weights times themselves."""
    return (weights[:, :, None] * weights[:, None, :]).reshape(len(weights), -1)


@dataclass(frozen=True)
class _Step:
    """The softmax of a stretch of n steps, without an exponential for each pair of states: those of what leads
    into a state [K, n] and of the bias [R, K] multiply, and sums over states are products of matrices."""

    at: Transitions
    into: Float  # [K, n] exp of what leads into each state, largest one
    bias: Float  # [R, K] exp of the bias, largest one of each row
    scale: Float  # [R, n] their sum over states
    total: Float  # [R, n] bound on E[logsumexp]; the thing itself where the path is known
    tilt: _Tilt | None

    @classmethod
    def of(cls, at: Transitions, into: Float, covariance: Float | None) -> _Step:
        """into [K, n]; covariance [D, D, n] of the path, None where it is known."""
        top, peak = into.max(axis=0), row_max(at.bias)
        e, b = np.exp(into - top), np.exp(at.bias - peak[:, None])
        scale = np.maximum(b @ e, _LEAST)
        now = cls(at, e, b, scale, np.log(scale) + top + peak[:, None], None)
        if covariance is None:
            return now
        tilt = _Tilt.of(now, into, covariance)
        return replace(now, total=tilt.total, tilt=tilt)

    @property
    def p(self) -> Float:
        """[R, K, n] the softmax."""
        p: Float = self.bias[..., None] * self.into
        p /= self.scale[:, None]
        return p

    def mixed(self, weight: Float) -> Float:
        """[K, n] sum over rows of weight [R, n] times the softmax."""
        mixed: Float = self.into * (self.bias.T @ (weight / self.scale))
        return mixed

    @property
    def mean_weights(self) -> Float:
        """[R, D, n] mean of the recurrent weights under the softmax."""
        w = self.at.weights
        by_row = (self.bias[:, None, :] * w.T).reshape(-1, len(w))  # [R D, K]
        mean: Float = (by_row @ self.into).reshape(len(self.bias), w.shape[1], -1)
        mean /= self.scale[:, None]
        return mean


@dataclass(frozen=True)
class _Tilt:
    """What an uncertain path adds: logits m_k + 1/2 (w_k - a)' V (w_k - a), with a the mean weight under the softmax."""

    mean: Float  # [R, D, n] a
    pulled: Float  # [R, D, n] V a
    weights: Float  # [R, K, n] exponentials of the tilted logits
    sums: Float  # [R, n] over states
    total: Float  # [R, n]

    @classmethod
    def of(cls, now: _Step, into: Float, covariance: Float) -> _Tilt:
        w, mean = now.at.weights, now.mean_weights
        d = w.shape[1]
        own = into + 0.5 * (_outer(w) @ covariance.reshape(d * d, -1))  # [K, n]
        pulled = products(mean, covariance)
        shared = 0.5 * np.einsum("rdn,rdn->rn", pulled, mean)
        # A tilt only raises, so relative to the sum without it no sum vanishes; it overflows where the path is unknown.
        level = now.total - shared
        logits = own - w @ pulled  # [R, K, n]
        logits += now.at.bias[..., None]
        with np.errstate(over="ignore"):
            weights = logits - level[:, None]
            sums = np.exp(weights, out=weights).sum(axis=1)
        if not np.isfinite(sums).all():
            level = logits.max(axis=1)
            weights = np.exp(logits - level[:, None])
            sums = weights.sum(axis=1)
        return cls(mean, pulled, weights, sums, np.log(sums) + level + shared)

    @property
    def p(self) -> Float:
        """[R, K, n] softmax of the tilted logits."""
        p: Float = self.weights / self.sums[:, None]
        return p


@dataclass(frozen=True)
class _Problem:
    """The expected log-probability of the states as a function of bias and weights."""

    chain: ChainPosterior
    path: Float  # [T, D]
    path_covariance: Float | None  # [T, D, D]

    @cached_property
    def x(self) -> Float:
        """[T, D] the sample before each; nothing is before the first, which has no step into it."""
        return _shifted(self.path)

    @cached_property
    def covariance(self) -> Float | None:
        """[D, D, T] likewise, along time."""
        return None if self.path_covariance is None else _along_time(_shifted(self.path_covariance))

    def _parts(self, at: Transitions, into: Float) -> Iterator[tuple[slice, _Step, Float | None]]:
        along = _along_time(into)
        for part in _blocks(len(into), *at.bias.shape):
            covariance = None if self.covariance is None else self.covariance[..., part]
            yield part, _Step.of(at, along[:, part], covariance), covariance

    def value(self, at: Transitions) -> tuple[float, Float]:
        """The value, and what normalises each step [T, R]."""
        into, chain = self.x @ at.weights.T, self.chain
        total = np.empty_like(chain.left)
        for part, now, _ in self._parts(at, into):
            total[part] = now.total.T
        return at.log_prior() + Expected(into, at.bias, total).under(chain), total

    def evaluate(self, at: Transitions) -> tuple[float, Float, Float]:
        """Value, gradient and what normalises each step [T, R]."""
        into, chain = self.x @ at.weights.T, self.chain
        total = np.empty_like(chain.left)
        bias = chain.counts - BIAS_PENALTY * at.bias
        weights = chain.reached.T @ self.x - WEIGHT_PENALTY * at.weights
        for part, now, covariance in self._parts(at, into):
            by_bias, by_weights = _slopes(now, chain.left_along[:, part], self.x[part], covariance)
            total[part], bias, weights = now.total.T, bias - by_bias, weights - by_weights
        value = at.log_prior() + Expected(into, at.bias, total).under(chain)
        return value, np.concatenate([bias.ravel(), weights.ravel()]), total

    def information(self, at: Transitions) -> Float:
        """[P, P] expected curvature of the softmax plus the penalties, a positive definite stand-in for the negative
        Hessian. A few thousand evenly spread steps are enough: the line search does not depend on its being exact."""
        stride = max(1, len(self.x) // _INFORMATION_STEPS)
        x, weight = self.x[::stride], stride * self.chain.left_along[:, ::stride]
        by_row = _Step.of(at, _along_time(x @ at.weights.T), None).p  # [R, K, n]
        rows, k, d = at.bias.shape[0], at.bias.shape[1], x.shape[1]
        split = rows * k
        matrix = np.diag(np.repeat([BIAS_PENALTY, WEIGHT_PENALTY], [split, k * d]))
        features = np.concatenate([np.ones((1, len(x))), x.T])  # [1 + D, n]
        diagonal = np.arange(k)
        for row in range(rows):
            spread = (features[:, None] * by_row[row]).reshape((1 + d) * k, -1)
            heavy = spread * weight[row]
            block = -(heavy @ spread.T).reshape(1 + d, k, 1 + d, k).transpose(0, 2, 1, 3)
            block[:, :, diagonal, diagonal] += (heavy @ features.T).reshape(1 + d, k, 1 + d).transpose(0, 2, 1)
            at_row = slice(row * k, (row + 1) * k)
            matrix[at_row, at_row] += block[0, 0]
            cross = block[0, 1:].transpose(1, 2, 0).reshape(k, k * d)
            matrix[at_row, split:] += cross
            matrix[split:, at_row] += cross.T
            matrix[split:, split:] += block[1:, 1:].transpose(2, 0, 3, 1).reshape(k * d, k * d)
        return matrix


def _slopes(now: _Step, weight: Float, x: Float, covariance: Float | None) -> tuple[Float, Float]:
    """Gradients by bias and weights of the sum of weight [R, n] times the bound on E[logsumexp]."""
    if now.tilt is None or covariance is None:
        by_bias = now.bias * ((weight / now.scale) @ now.into.T)
        return by_bias, now.mixed(weight) @ x
    w, tilt = now.at.weights, now.tilt
    k, d = w.shape
    p, a, heavy = tilt.p, now.p, weight[:, None]
    gap = products(tilt.mean - w.T @ p, covariance)  # [R, D, n]
    slope = w @ gap  # [R, K, n]
    slope -= np.einsum("rdn,rdn->rn", gap, tilt.mean)[:, None]
    slope *= a * heavy
    curved = (a @ (heavy * gap).swapaxes(1, 2)).sum(axis=0)
    p *= heavy
    slope += p
    curved -= (p @ tilt.pulled.swapaxes(1, 2)).sum(axis=0)
    seen = (p.sum(axis=0) @ covariance.reshape(d * d, -1).T).reshape(k, d, d)  # sum of V over the steps into each state
    curved += np.einsum("kd,kde->ke", w, seen)
    return slope.sum(axis=2), slope.sum(axis=0) @ x + curved
