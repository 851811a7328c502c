"""EM for autoregressive hidden Markov models on principal-component scores.

The exact algorithm: forward-backward, weighted regressions, and for recurrent transitions a Newton step on a
multinomial logistic regression. Every step raises log-likelihood plus log-prior. Trials lie end to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths import hmm
from gdm_core.maths.emission import stretches
from gdm_core.maths.gaps import gap_lengths, interpolated
from gdm_core.maths.gaussian import LOG_2PI
from gdm_core.maths.pca import ComponentScores, PartialRows
from gdm_core.maths.threads import one_thread
from gdm_core.models.climbing import CLEAR_GAIN, Climb, ClimbingConfig, clearly_best, objective
from gdm_core.models.starts import WINDOW, candidate_states
from gdm_core.models.switching.dynamics import Dynamics, DynamicsPrior, weighted_moments
from gdm_core.models.switching.transitions import Transitions

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
_START_SAMPLES = 8_000
LONGEST_GAP = 5  # samples without any observation that the dynamics bridge
_FIRST_RUN = 2  # iterations of every start
_SHORT_RUN = 8  # further iterations of the first start and of the best other one
_ROUGH_GAIN = 1e-3  # nats per sample: a short fit ends below it


@dataclass(frozen=True)
class ScoreSeries:
    """Observations prepared for autoregression; T counts the samples of all trials.

    joint        [T, D + P] scores, then inputs: the L score vectors before, newest first, and a one
    x            [T, D] scores, with missing channels estimated from the past
    starts       [T] first samples of trials
    regressed    [T] samples with L others before them; the first L of a trial, and after a long gap, follow the start
                 distribution
    full         [T] nothing is missing
    partial      rows with some entries missing, and what is known about them
    log_residual log-density of what the scores leave out, over all full rows
    """

    joint: Float
    x: Float
    starts: Bool
    regressed: Bool
    full: Bool
    partial_rows: npt.NDArray[np.int64]
    partial: PartialRows
    log_residual: float

    @classmethod
    def prepare(cls, ys: list[npt.NDArray[Any]], scores: ComponentScores, lags: int) -> ScoreSeries:
        y = np.concatenate(ys).astype(np.float64)
        lengths = np.array([len(one) for one in ys])
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        factors = scores.factors
        x = scores.project(np.concatenate([factors.fill_causally(one) for one in ys]))
        begins = np.zeros(len(y), dtype=bool)
        begins[first] = True
        begins[1:] |= np.concatenate([gap_lengths(np.isnan(one).all(axis=1)) for one in ys])[:-1] > LONGEST_GAP
        age = np.arange(len(y)) - np.maximum.accumulate(np.where(begins, np.arange(len(y)), 0))
        columns = [x]
        for lag in range(1, lags + 1):
            before = np.zeros_like(x)
            before[lag:] = x[:-lag]
            before[age < lag] = 0.0
            columns.append(before)
        joint = np.concatenate([*columns, np.ones((len(y), 1))], axis=1)
        observed = np.isfinite(y)
        full: Bool = np.asarray(observed.all(axis=1))
        rows = np.flatnonzero(observed.any(axis=1) & ~full)
        residual = float(scores.log_residual(y[full]).sum())
        return cls(
            joint,
            x,
            np.isin(np.arange(len(y)), first),
            np.asarray(age >= lags),
            full,
            rows,
            PartialRows.reduce(y[rows], scores),
            residual,
        )


@dataclass(frozen=True)
class ARParameters:
    """The learned parameters except the projection."""

    dynamics: Dynamics
    transitions: Transitions
    start_mean: Float  # [D]
    start_covariance: Float  # [D, D]

    def log_prior(self, prior: DynamicsPrior) -> float:
        return self.dynamics.log_prior(prior) + self.transitions.log_prior()


@dataclass(frozen=True)
class EStep:
    chain: hmm.ChainPosterior
    elbo: float  # the log-likelihood itself: nothing is bounded here
    partial_mean: Float  # [M, K, D] scores of incomplete rows given state and observed entries
    partial_covariance: Float  # [M, K, D, D]


def log_likelihoods(
    series: ScoreSeries, parameters: ARParameters, scores: ComponentScores
) -> tuple[Float, Float, Float]:
    """[T, K] log-density of each sample under each state, and the completed scores of incomplete rows."""
    d = series.x.shape[1]
    table = parameters.dynamics.log_density(series.joint)  # [T, K]
    start_error = series.x[~series.regressed] - parameters.start_mean
    table[~series.regressed] = _log_normal(start_error, parameters.start_covariance)[:, None]
    table[~series.full] = 0.0
    k = table.shape[1]
    rows = series.partial_rows
    mean = parameters.dynamics.means(series.joint[rows, d:])
    after = np.empty((len(rows), k, d, d))
    for regressed in (True, False):
        chosen = series.regressed[rows] == regressed
        if not chosen.any():
            continue
        if regressed:
            covariance = parameters.dynamics.covariance
        else:
            mean[chosen] = parameters.start_mean
            covariance = np.broadcast_to(parameters.start_covariance, (k, d, d))
        part = series.partial.chosen(chosen)
        table[rows[chosen]], mean[chosen], after[chosen] = part.condition(mean[chosen], covariance, scores)
    return table, mean, after


def _log_normal(error: Float, covariance: Float) -> Float:
    """[M, D] -> [M]."""
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, error.T)
    return np.asarray(
        -0.5 * (white**2).sum(axis=0) - np.log(np.diagonal(factor)).sum() - 0.5 * len(covariance) * LOG_2PI
    )


def e_step(series: ScoreSeries, parameters: ARParameters, scores: ComponentScores) -> EStep:
    table, mean, covariance = log_likelihoods(series, parameters, scores)
    log_transitions = parameters.transitions.expected(series.x).table
    chain = hmm.posterior(table, parameters.transitions.log_initial, log_transitions, series.starts)
    return EStep(chain, chain.log_likelihood + series.log_residual, mean, covariance)


def m_step(
    series: ScoreSeries, step: EStep, previous: ARParameters, prior: DynamicsPrior, newton_steps: int = 2
) -> ARParameters:
    """The parameters that raise the expected log joint density plus the log prior."""
    d = series.x.shape[1]
    weights = step.chain.states * (series.full & series.regressed)[:, None]
    moments = weighted_moments(weights, series.joint)
    chosen = series.regressed[series.partial_rows]
    rows = series.partial_rows[chosen]
    if len(rows):
        share = step.chain.states[rows]  # [M, K]
        for k in range(share.shape[1]):
            joint = np.concatenate([step.partial_mean[chosen, k], series.joint[rows, d:]], axis=1)
            moments[k] += (joint * share[:, k, None]).T @ joint
            moments[k, :d, :d] += np.tensordot(share[:, k], step.partial_covariance[chosen, k], axes=1)
    transitions = previous.transitions.fitted(step.chain, series.starts, series.x, steps=newton_steps)[0]
    return ARParameters(Dynamics.fitted(moments, prior), transitions, previous.start_mean, previous.start_covariance)


def prior_for(series: ScoreSeries, lags: int) -> DynamicsPrior:
    """Scaled by the steps in the data."""
    inside = ~series.starts[1:]
    steps = np.diff(series.x, axis=0)[inside]
    variance = np.maximum((steps**2).mean(axis=0), 1e-8) if len(steps) else np.ones(series.x.shape[1])
    return DynamicsPrior.stay(series.x.shape[1], lags, variance)


def from_states(series: ScoreSeries, states: Float, kind: str, prior: DynamicsPrior) -> ARParameters:
    """Parameters that fit given soft states [T, K] best."""
    k, d = states.shape[1], series.x.shape[1]
    blank = Transitions.blank(kind, k, d)
    rows = len(series.partial_rows)
    start = ARParameters(
        Dynamics(np.zeros((k, *prior.coefficients.shape)), np.broadcast_to(np.eye(d), (k, d, d))),
        blank,
        series.x.mean(axis=0),
        np.atleast_2d(np.cov(series.x.T, bias=True)) + 1e-6 * np.eye(d),
    )
    guess = EStep(
        hmm.ChainPosterior.independent(states, series.starts, len(blank.bias)),
        0.0,
        np.broadcast_to(series.x[series.partial_rows][:, None], (rows, k, d)),
        np.zeros((rows, k, d, d)),
    )
    return m_step(series, guess, start, prior, newton_steps=8)


def first_states(series: ScoreSeries, n_states: int, n_candidates: int, seed: int) -> list[Float]:
    """Return hard states [T, K] to start from."""
    known = series.full.copy()
    known[series.partial_rows] = True
    # Values carried forward would make one large step of every gap.
    path = interpolated(np.where(known[:, None], series.x, np.nan))
    fresh = series.starts | np.diff(series.regressed, prepend=True) & ~series.regressed
    found = candidate_states(path, fresh, n_states, n_candidates, seed, known)
    return [np.eye(n_states)[labels] for labels in found]


def iterate(
    series: ScoreSeries,
    parameters: ARParameters,
    scores: ComponentScores,
    prior: DynamicsPrior,
    n_iter: int,
    step: EStep | None = None,
) -> Climb[ARParameters, EStep]:
    """Run EM; yield the given parameters with their E-step, then those after each M-step."""
    step = e_step(series, parameters, scores) if step is None else step
    yield parameters, step
    for _ in range(n_iter):
        parameters = m_step(series, step, parameters, prior)
        step = e_step(series, parameters, scores)
        yield parameters, step


def excerpt(series: ScoreSeries, n_samples: int) -> ScoreSeries:
    """Return about `n_samples` of a long recording, in evenly spread stretches."""
    total = len(series.x)
    if total <= 2 * n_samples:
        return series
    kept = stretches(total, n_samples).ravel()
    starts, full = series.starts[kept].copy(), series.full[kept]
    # Inputs still hold the samples before a cut, but the chain of states starts again.
    starts[np.diff(kept, prepend=-2) != 1] = True
    place = np.full(total, -1)
    place[kept] = np.arange(len(kept))
    rows = place[series.partial_rows]
    inside = rows >= 0
    partial = series.partial.chosen(inside)
    return ScoreSeries(
        series.joint[kept], series.x[kept], starts, series.regressed[kept], full, rows[inside], partial, 0.0
    )


def best_start(
    series: ScoreSeries, scores: ComponentScores, prior: DynamicsPrior, kind: str, c: ClimbingConfig
) -> ARParameters:
    """Return the best of several starts on an excerpt of a long recording.

    Near ties go to the best of the later starts if its states last, and to the first start otherwise.
    """
    series = excerpt(series, _START_SAMPLES)
    guesses = first_states(series, c.n_states, c.n_restarts, c.seed)

    def climb(parameters: ARParameters, step: EStep | None, n_iter: int) -> tuple[ARParameters, EStep]:
        return list(iterate(series, parameters, scores, prior, n_iter, step))[-1]

    n_first = min(_FIRST_RUN, c.n_iter)
    n_more = min(_SHORT_RUN, c.n_iter - n_first)
    first, *others = (climb(from_states(series, one, kind, prior), None, n_first) for one in guesses)
    first = climb(*first, n_more)
    if not others:
        return first[0]
    other = climb(*max(others, key=lambda end: objective(end, prior)), n_more)
    n_changes = np.count_nonzero(np.diff(other[1].chain.states.argmax(axis=1)))
    lasts = n_changes * WINDOW < len(series.x)
    return clearly_best([first, other], prior, (-CLEAR_GAIN if lasts else CLEAR_GAIN) * len(series.x))[0]


def find_lasting_states(
    ys: list[npt.NDArray[Any]], n_states: int, n_latent: int, seed: int = 0, n_iter: int = 20
) -> Float:
    """Return the states [T, K] of a short fit of a sticky model, concatenated over trials.

    It starts from the best of several clusterings except that of steps. Long recordings are fitted by an excerpt.

    ys        standardised trials [T, N]
    n_latent  principal components that the dynamics use
    n_iter    largest number of iterations; they end when one gains less than _ROUGH_GAIN
    """
    with one_thread():
        scores = ComponentScores.fitted(ys, n_latent)
        series = ScoreSeries.prepare(ys, scores, lags=1)
        prior = prior_for(series, lags=1)
        few, before = excerpt(series, _START_SAMPLES), -np.inf
        starts = (from_states(few, one, "sticky", prior) for one in first_states(few, n_states, 4, seed)[1:])
        ends = [list(iterate(few, one, scores, prior, _FIRST_RUN))[-1] for one in starts]
        best, reached = max(ends, key=lambda end: objective(end, prior))
        for parameters, step in iterate(few, best, scores, prior, n_iter, reached):
            found, now = parameters, step
            if now.elbo - before < _ROUGH_GAIN * len(few.x):
                break
            before = now.elbo
        if few is not series:
            now = e_step(series, found, scores)
    return now.chain.states
