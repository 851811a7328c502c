"""EM for autoregressive hidden Markov models on principal-component scores.

The E-step is an exact forward-backward pass, the M-step weighted regressions and, for recurrent transitions, Newton
steps of a multinomial logistic regression. Trials are concatenated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gdm_core.arrays import Bool, Float, Ints, Values
from gdm_core.maths import hmm
from gdm_core.maths.gaps import gap_lengths, interpolate_gaps, stretches
from gdm_core.maths.gaussian import LOG_2PI
from gdm_core.maths.pca import ComponentScores, PartialRows
from gdm_core.maths.threads import one_thread
from gdm_core.models.em import CLEAR_GAIN, EM, EMConfig
from gdm_core.models.starts import WINDOW, candidate_states
from gdm_core.models.switching.dynamics import Dynamics, DynamicsPrior, weighted_moments
from gdm_core.models.switching.transitions import Transitions

LONGEST_GAP = 5  # samples without any observation that the dynamics bridge
_START_SAMPLES = 8_000
_FIRST_RUN = 2  # iterations of every start
_SHORT_RUN = 8  # further iterations of the first start and of the best other one
_LASTING_RUN, _LASTING_GAIN = 10, 3e-3  # iterations, and nats per sample, of a fit for lasting states


@dataclass(frozen=True)
class ScoreSeries:
    """Observations prepared for autoregression; T counts the samples of all trials.

    scores       the projection
    joint        [T, D + P] scores, then inputs: the L score vectors before, newest first, and a one
    x            [T, D] scores, with missing channels estimated from the past
    starts       [T] first samples of trials
    regressed    [T] samples with L others before them; those before, and those after a long gap, follow the start
                 distribution
    full         [T] samples with every channel observed
    partial_rows samples with some channels observed
    partial      what these channels say about the scores
    log_residual log-density of the residuals of the scores, summed over full samples
    """

    scores: ComponentScores
    joint: Float
    x: Float
    starts: Bool
    regressed: Bool
    full: Bool
    partial_rows: Ints
    partial: PartialRows
    log_residual: float

    @classmethod
    def prepare(cls, ys: list[Values], scores: ComponentScores, lags: int) -> ScoreSeries:
        y = np.concatenate(ys).astype(np.float64)
        starts = np.zeros(len(y), dtype=bool)
        starts[np.cumsum([0, *(len(one) for one in ys[:-1])])] = True
        x = scores.project(np.concatenate([scores.factors.fill_causally(one) for one in ys]))
        begins = starts.copy()
        begins[1:] |= (
            np.concatenate([gap_lengths(np.asarray(np.isnan(one).all(axis=1))) for one in ys])[:-1] > LONGEST_GAP
        )
        age = np.arange(len(y)) - np.maximum.accumulate(np.where(begins, np.arange(len(y)), 0))
        before = (np.where((age >= lag)[:, None], np.roll(x, lag, axis=0), 0.0) for lag in range(1, lags + 1))
        joint = np.concatenate([x, *before, np.ones((len(y), 1))], axis=1)
        observed = np.isfinite(y)
        full: Bool = np.asarray(observed.all(axis=1))
        rows = np.flatnonzero(observed.any(axis=1) & ~full)
        partial, residual = PartialRows.reduce(y[rows], scores), float(scores.log_residual(y[full]).sum())
        return cls(scores, joint, x, starts, np.asarray(age >= lags), full, rows, partial, residual)

    def excerpt(self, n_samples: int) -> ScoreSeries:
        """Return about `n_samples` of a long recording, in evenly spread stretches."""
        total = len(self.x)
        if total <= 2 * n_samples:
            return self
        kept = stretches(total, n_samples).ravel()
        # Inputs still hold the samples before a cut, but the chain of states starts again.
        starts = self.starts[kept] | (np.diff(kept, prepend=-2) != 1)
        place = np.full(total, -1)
        place[kept] = np.arange(len(kept))
        rows = place[self.partial_rows]
        inside = rows >= 0
        return ScoreSeries(
            self.scores,
            self.joint[kept],
            self.x[kept],
            starts,
            self.regressed[kept],
            self.full[kept],
            rows[inside],
            self.partial.select(inside),
            0.0,
        )

    def guess_partial(self) -> tuple[Float, Float]:
        """Return mean [M, 1, D] and covariance [M, 1, D, D] of incomplete rows if each score is an AR(1) process."""
        memory = np.maximum(1 - self.scores.step / 2, 0)  # correlation of neighbours: scores have unit variance
        before = (memory * self.x[self.partial_rows])[:, None]
        _, mean, covariance = self.partial.condition(before, np.diag(1 - memory**2)[None], self.scores)
        return mean, covariance + 1e-9 * np.eye(len(memory))

    def prior(self, noise_floor: Float | None = None) -> DynamicsPrior:
        """Return a prior on the scale of the data's steps; `noise_floor` [N] are least standard deviations of channels."""
        d = self.x.shape[1]
        steps = np.diff(self.x, axis=0)[~self.starts[1:]]
        variance = np.maximum((steps**2).mean(axis=0), 1e-8) if len(steps) else np.ones(d)
        floor = None if noise_floor is None else self.scores.project_covariance(noise_floor**2)
        return DynamicsPrior.stay(d, (self.joint.shape[1] - 1) // d - 1, variance, floor)


@dataclass(frozen=True)
class ARParameters:
    """Learned parameters except the projection."""

    dynamics: Dynamics
    transitions: Transitions
    start_mean: Float  # [D]
    start_covariance: Float  # [D, D]

    def log_prior(self, prior: DynamicsPrior) -> float:
        return self.dynamics.log_prior(prior) + self.transitions.log_prior()


@dataclass(frozen=True)
class EStep:
    chain: hmm.ChainPosterior
    elbo: float  # the log-likelihood, as inference is exact
    partial_mean: Float  # [M, K, D] scores of incomplete rows given state and observed entries
    partial_covariance: Float  # [M, K, D, D]


def log_likelihoods(series: ScoreSeries, p: ARParameters) -> tuple[Float, Float, Float]:
    """Return the log-density of each sample under each state [T, K], and the `partial` moments of an `EStep`."""
    d = series.x.shape[1]
    table = p.dynamics.log_density(series.joint)  # [T, K]
    table[~series.regressed] = _log_normal(series.x[~series.regressed] - p.start_mean, p.start_covariance)[:, None]
    table[~series.full] = 0.0
    k = table.shape[1]
    rows = series.partial_rows
    mean = p.dynamics.means(series.joint[rows, d:])
    after = np.empty((len(rows), k, d, d))
    for regressed in (True, False):
        chosen = series.regressed[rows] == regressed
        if not chosen.any():
            continue
        covariance = p.dynamics.covariance
        if not regressed:
            mean[chosen] = p.start_mean
            covariance = np.broadcast_to(p.start_covariance, (k, d, d))
        part = series.partial.select(chosen)
        table[rows[chosen]], mean[chosen], after[chosen] = part.condition(mean[chosen], covariance, series.scores)
    return table, mean, after


def _log_normal(error: Float, covariance: Float) -> Float:
    """Return the log-density [M] of errors [M, D]."""
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, error.T)
    return np.asarray(
        -0.5 * (white**2).sum(axis=0) - np.log(np.diagonal(factor)).sum() - 0.5 * len(covariance) * LOG_2PI
    )


def e_step(series: ScoreSeries, p: ARParameters) -> EStep:
    table, mean, covariance = log_likelihoods(series, p)
    log_transitions = p.transitions.expected(series.x)
    chain = hmm.posterior(table, p.transitions.log_initial, log_transitions, series.starts)
    return EStep(chain, chain.log_likelihood + series.log_residual, mean, covariance)


@dataclass(frozen=True)
class ArhmmEM(EM[ARParameters, EStep]):
    """Exact EM."""

    series: ScoreSeries
    prior: DynamicsPrior

    @classmethod
    def prepare(cls, ys: list[Values], scores: ComponentScores, lags: int, noise_floor: Float | None = None) -> ArhmmEM:
        series = ScoreSeries.prepare(ys, scores, lags)
        return cls(series, series.prior(noise_floor))

    def excerpt(self, n_samples: int) -> ArhmmEM:
        return replace(self, series=self.series.excerpt(n_samples))

    @property
    def n_samples(self) -> int:
        return len(self.series.x)

    def infer_first(self, p: ARParameters) -> EStep:
        return e_step(self.series, p)

    def update(self, p: ARParameters, posterior: EStep) -> tuple[ARParameters, EStep]:
        p = self.m_step(posterior, p)
        return p, e_step(self.series, p)

    def m_step(self, step: EStep, previous: ARParameters, newton_steps: int = 2) -> ARParameters:
        series = self.series
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
        transitions = previous.transitions.fit(step.chain, series.starts, series.x, steps=newton_steps)
        return replace(previous, dynamics=Dynamics.fit(moments, self.prior), transitions=transitions)

    def from_states(self, states: Float, kind: str) -> ARParameters:
        """Return the parameters that fit soft states [T, K] best."""
        series, (k, d) = self.series, (states.shape[1], self.series.x.shape[1])
        mean, covariance = series.guess_partial()
        start = ARParameters(
            Dynamics(np.zeros((k, *self.prior.coefficients.shape)), np.broadcast_to(np.eye(d), (k, d, d))),
            Transitions.blank(kind, k, d),
            series.x.mean(axis=0),
            np.atleast_2d(np.cov(series.x.T, bias=True)) + 1e-6 * np.eye(d),
        )
        guess = EStep(
            hmm.ChainPosterior.independent(states, series.starts, len(start.transitions.bias)),
            0.0,
            np.broadcast_to(mean, (len(mean), k, d)),
            np.broadcast_to(covariance, (len(mean), k, d, d)),
        )
        return self.m_step(guess, start, newton_steps=8)

    def first_states(self, n_states: int, numbers: Iterable[int], seed: int) -> list[Float]:
        """Return the guesses with these numbers as hard states [T, K]."""
        series, known = self.series, self.series.full.copy()
        known[series.partial_rows] = True
        # Values carried forward would make one large step of every gap.
        x = series.x.copy()
        # A channel that stops would make a state of its own if its estimates varied less than its values.
        mean, covariance = series.guess_partial()
        normal = np.random.default_rng(seed).standard_normal((len(mean), x.shape[1], 1))
        x[series.partial_rows] = mean[:, 0] + (np.linalg.cholesky(covariance[:, 0]) @ normal)[..., 0]
        path = interpolate_gaps(np.where(known[:, None], x, np.nan))
        if self.prior.floor is not None:  # clusters must not follow what the noise will hide
            path = path + np.random.default_rng(seed).multivariate_normal(
                np.zeros(path.shape[1]), self.prior.floor, len(path)
            )
        fresh = series.starts | np.diff(series.regressed, prepend=True) & ~series.regressed
        found = candidate_states(path, fresh, n_states, numbers, seed, known)
        return [np.eye(n_states)[labels] for labels in found]

    def best_start(self, kind: str, c: EMConfig) -> ARParameters:
        """Return the best of several starts on an excerpt of a long recording.

        Near ties go to the best of the later starts if its states last, and to the first start otherwise.
        """
        few = self.excerpt(_START_SAMPLES)
        guesses = few.first_states(c.n_states, range(c.n_restarts), c.seed)
        n_first = min(_FIRST_RUN, c.n_iter)
        n_more = min(_SHORT_RUN, c.n_iter - n_first)
        first, *others = (few.run(few.from_states(guess, kind), n_first) for guess in guesses)
        first = few.run(first[0], n_more, first[1])
        if not others:
            return first[0]
        best = max(others, key=few.objective)
        other = few.run(best[0], n_more, best[1])
        n_changes = np.count_nonzero(np.diff(other[1].chain.states.argmax(axis=1)))
        lasts = n_changes * WINDOW < few.n_samples
        return few.choose([first, other], -CLEAR_GAIN if lasts else CLEAR_GAIN)[0]


def find_lasting_states(ys: list[Values], n_states: int, n_latent: int, seed: int, noise_floor: Float | None) -> Float:
    """Return the states [T, K] of a short fit of a sticky model, concatenated over trials.

    It starts from the best of several clusterings except that of steps. Long recordings are fitted by an excerpt.

    ys        standardised trials [T, N]
    n_latent  principal components that the dynamics use
    noise_floor    [N] least standard deviations of the noise of channels
    """
    with one_thread():
        em = ArhmmEM.prepare(ys, ComponentScores.fit(ys, n_latent, noise_floor), 1, noise_floor)
        few = em.excerpt(_START_SAMPLES)
        guesses = few.first_states(n_states, range(1, 4), seed)
        best = max((few.run(few.from_states(one, "sticky"), _FIRST_RUN) for one in guesses), key=few.objective)
        p, step = few.run(best[0], _LASTING_RUN, best[1], _LASTING_GAIN)
        if few.series is not em.series:
            step = e_step(em.series, p)
    return step.chain.states
