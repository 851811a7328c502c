"""Base of model families: the public verbs, over a few hooks that a family implements.

A hook gets one trial: each channel centred and scaled by the training data, NaN where missing. The base class checks input,
standardises it, converts results to the user's units, and calibrates forecasts.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.utils.metadata_routing import UNUSED

from gdm_core import forecast as forecasting
from gdm_core.adaptation import adapt
from gdm_core.arrays import Array as Array
from gdm_core.arrays import Float, Ints, Values
from gdm_core.errors import ConfigError, DataError, FitWarning
from gdm_core.maths.angles import find_angles
from gdm_core.maths.gaps import gap_factors, spread_stretches
from gdm_core.maths.spikes import find_new_spikes
from gdm_core.maths.threads import one_thread
from gdm_core.models.estimator import Estimator
from gdm_core.models.extrapolation import describe_extrapolation
from gdm_core.models.latent import principal_components
from gdm_core.models.online import Online, SampleReader
from gdm_core.models.parameters import whole
from gdm_core.models.progress import Progress, Status
from gdm_core.models.scaling import BASELINE_MARGIN, find_collapsed, may_have_collapsed, prepare, score_baseline
from gdm_core.text import first_of, plural
from gdm_core.trials import Recording, Recordings, Trial, Trials, TrialsLike, as_trials, is_single

_SAMPLES_PER_INPUT = 2  # observed samples per state and input of its dynamics that a fit needs
_MANY_MISSING = 0.3  # share of missing values that a failed fit names
_SCORED = 20_000  # samples that score and check a fit


class StateModel(Estimator, ABC):
    """A model of time series with K states."""

    why_not_online: ClassVar[str] = "it has no filter"
    # Parameters that a fitted model may change: see `variants.with_parameters`.
    adjustable: ClassVar[frozenset[str]] = frozenset()
    # The data are scikit-learn's X under another name, not metadata to route.
    __metadata_request__fit = MappingProxyType({"trials": UNUSED, "calibrate": UNUSED})
    __metadata_request__predict = __metadata_request__predict_proba = MappingProxyType({"data": UNUSED})
    __metadata_request__score = __metadata_request__transform = MappingProxyType({"data": UNUSED})

    # ---- hooks: one trial, standardised units -------------------------------------------------------------------
    @abstractmethod
    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        """Fit to the trials `ys`; keep `params_` usable at every yield; set `status_` at the end."""

    @abstractmethod
    def _soft_states(self, y: Array) -> Array:
        """Return the posterior mean of the soft states [T, K] of a trial [T, N]."""

    def _rough_states(self, y: Array) -> Array:
        """Return the same, faster and less exactly where the family can."""
        return self._soft_states(y)

    @abstractmethod
    def _reconstruct(self, y: Array) -> Array:
        """Return the expected observations [T, N] under the posterior."""

    def _impute(self, y: Array) -> tuple[Values, Values]:
        """Return `y` with missing entries filled, and the standard deviation of each entry (0 where observed)."""
        return np.where(np.isnan(y), self._reconstruct(y), y), self._factors.smooth(y)[1]

    @abstractmethod
    def _latent(self, y: Array) -> Array:
        """Return the latent path [T, D] of a trial [T, N]."""

    @abstractmethod
    def _bound(self, y: Array) -> float:
        """Return a lower bound on log p(observed entries of y), in nats."""

    @abstractmethod
    def _paths(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        """Sample futures with observation noise [P, O, H, N]; the path from origin t sees y[..t] only."""

    def _paths_across_gaps(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        """Sample futures as `_paths` does, from the last observed sample if an origin is inside a gap."""
        last = np.maximum.accumulate(np.where(np.isfinite(y).any(axis=1), np.arange(len(y)), -1))[origins]
        ahead = np.where(last >= self.min_samples - 1, origins - last, 0)
        if not ahead.any():
            return self._paths(y, origins, horizon, n_paths, seed)
        paths = np.empty((n_paths, len(origins), horizon, y.shape[1]), np.float32)
        doublings = np.where(ahead > 0, 1 + np.ceil(np.log2(np.maximum(ahead, 1))), 0)
        for count in np.unique(doublings):  # group gaps of similar length: short ones do not pay for long ones
            members = np.flatnonzero(doublings == count)
            starts, which = np.unique((origins - ahead)[members], return_inverse=True)
            found = self._paths(y, starts, horizon + int(ahead[members].max()), n_paths, seed)
            steps = ahead[members, None] + np.arange(horizon)
            paths[:, members] = found[:, which[:, None], steps]
        return paths

    def _cross_fit(self, ys: list[Array], folds: list[Ints]) -> list[forecasting.Sampler]:
        """Return a sampler of futures for each fold, with dynamics estimated without it; none where that takes a fit.

        folds  [T] fold of each sample, for each trial in `ys`
        """
        return []

    def _follow_config(self) -> None:
        """Make `params_` agree with a configuration that has changed after the fit."""

    def _set_random_parameters(self, ys: list[Array], seed: int) -> None:
        """Draw `params_` for an untrained control; a family without one leaves them empty."""
        self.params_ = {}

    @abstractmethod
    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        """Draw (y [T, N], z [T, K], x [T, D]) from the model."""

    def _sample_reader(self) -> SampleReader:
        """Return a reader of standardised samples, for `online`."""
        raise ConfigError(f"{type(self).__name__} cannot follow a recording as it is made: {self.why_not_online}.")

    def _check_trials(self, trials: Trials) -> None:
        """Raise ConfigError if this configuration cannot be fitted to the data."""
        k, d = self.config.n_states, self.config.n_latent
        if d > trials.n_channels:
            raise ConfigError(
                f"n_latent (D) is {d} but the data has {trials.n_channels} channels; choose n_latent <= {trials.n_channels}."
            )
        n_seen = _count_seen(trials)
        least = _SAMPLES_PER_INPUT * k * (d + 1)
        if n_seen < least:  # noise alone would fit, to held-out scores of thousands of nats below chance
            raise ConfigError(
                f"{plural(k, 'state')} (K) in {plural(d, 'latent dimension')} (D) need at least {least} observed samples, "
                f"but there are {n_seen}. Choose smaller K or D, or add data."
            )

    # ---- fitting ------------------------------------------------------------------------------------------------
    def fit(self, trials: TrialsLike, y: Any = None, *, calibrate: bool = True) -> Self:
        """Fit to one or several recordings. `y` is ignored.

        calibrate   calibrate prediction intervals as well; without, call `calibrate` before forecasts
        """
        for _ in self.fit_iter(trials, calibrate=calibrate):
            pass
        return self

    def calibrate(self, trials: TrialsLike) -> Self:
        """Calibrate prediction intervals on the recordings that the model was fitted to."""
        with one_thread():
            self._calibrate([self._scaler.apply(self._fitted_rows(trial.y).y) for trial in self._checked(trials)])
        return self

    def _calibrate(self, ys: list[Array]) -> None:
        self.calibration_ = forecasting.calibrate(self._paths_across_gaps, ys, self.min_samples, self._cross_fit)

    def fit_iter(
        self, trials: TrialsLike, *, finish: bool = True, start: bool = False, calibrate: bool = True
    ) -> Iterator[Progress]:
        """Fit step by step. Closing the iterator early leaves a usable model with status CANCELLED.

        finish     score the fit and check whether it failed
        start      yield the state before the first step as well
        calibrate  calibrate forecasts as well
        """
        self.params_, self._fitted_config = {}, None
        self._fitted_config = config = self.config
        recorded = as_trials(trials)
        self.repeats_ = self._find_repeats(recorded)
        data = self._as_fitted(recorded)
        if self.repeats_ is not None and (repeated := self.repeats_.describe(recorded[0].channels)):
            warnings.warn(
                f'Repeated values: {"; ".join(repeated)}. repeats="keep" fits them.', FitWarning, stacklevel=2
            )
        if angles := find_angles([trial.y for trial in recorded], recorded[0].channels):
            text = f"{first_of(list(angles), 3)}: an angle that jumps by a full turn. Fit its cosine and sine instead."
            warnings.warn(text, FitWarning, stacklevel=2)
        self._check_lengths(data)
        if config.n_latent == "auto":
            allowed = max(1, _count_seen(data) // (_SAMPLES_PER_INPUT * config.n_states) - 1)
            found = principal_components(data).choose_latent()
            self._fitted_config = config = replace(config, n_latent=min(found, allowed))
        self._check_trials(data)
        self.scaler_, self.factors_, ys = prepare(data, config.n_latent)
        self._remember_data(recorded[0])
        yield from self._run(self._fit(ys), ys, finish, start, calibrate)

    def _run(
        self, steps: Iterator[Progress], ys: list[Array], finish: bool, start: bool, calibrate: bool
    ) -> Iterator[Progress]:
        """Time and record the steps of a fit, then score it and calibrate its forecasts on `ys`."""
        self.history_, self.calibration_, self.elbo_ = (), None, float("nan")
        self.status_, self.failure_ = None, None
        started, spent = time.perf_counter(), 0.0
        try:
            for progress in steps:
                if not start and np.isnan(progress.elbo):
                    continue
                self.history_ = (*self.history_, progress)
                spent += time.perf_counter() - started
                yield progress
                started = time.perf_counter()
        finally:
            steps.close()  # type: ignore[attr-defined]
            if self.status_ is None:
                self.status_ = Status.CANCELLED
            self.seconds_ = spent + time.perf_counter() - started
            if finish and self.params_ and self.status_ is not Status.FAILED:
                with one_thread():  # arrays are small: threads would wait for each other
                    parts = spread_stretches(ys, _SCORED)
                    failure = self._validate(parts)
                    missing = np.isnan(np.concatenate(parts)).mean()
                    if failure and missing > _MANY_MISSING:
                        failure += f"; {missing:.0%} of the values are missing: fill gaps first"
                    if failure and self.status_ is not Status.CANCELLED:
                        self._fail(failure)
                    elif calibrate:
                        self._calibrate(ys)
            if self.status_ is Status.FAILED:
                warnings.warn(self.failure_message, FitWarning, stacklevel=2)

    def _fail(self, reason: str) -> None:
        self.status_, self.failure_ = Status.FAILED, reason

    def _validate(self, ys: list[Array]) -> str | None:
        """Score a fit; return why it has failed: no finite score, a state without noise, or a far better baseline."""
        self.elbo_ = score = self._score(ys)
        if not np.isfinite(score):
            return "its bound is not finite"
        if collapsed := self._collapsed(ys):
            return collapsed
        baseline = score_baseline(self._scaler, self._factors, ys, self._noise_floor)
        if score < baseline - BASELINE_MARGIN * ys[0].shape[1]:
            return f"its score ({score:.3g} nats per sample) is below that of a single autoregression ({baseline:.3g})"
        return None

    def _collapsed(self, ys: list[Array]) -> str | None:
        """Return why the likelihood is unbounded; None if it is not."""
        noise = self._state_noise()
        if noise is None or not may_have_collapsed(noise):
            return None
        usage, n_steps = np.zeros(len(noise)), 0.0
        squares: Float = np.zeros(noise.shape[1])
        for y in ys:
            usage += self._soft_states(y).sum(axis=0)
            moved = np.diff(self._noisy_path(y).astype(np.float64), axis=0) ** 2
            squares, n_steps = squares + np.nansum(moved, axis=0), n_steps + np.isfinite(moved).sum(axis=0)
        k = find_collapsed(noise, usage, np.maximum(squares / np.maximum(n_steps, 1), 1e-8))
        if k is None:
            return None
        advice = "" if self.repeats_ is not None else '; if values repeat there, use repeats="auto"'
        return f"the noise of state {k + 1} has collapsed, since {usage[k]:.0f} samples follow from those before exactly{advice}"

    def _state_noise(self) -> Float | None:
        """Return the covariance of each state's noise [K, D, D]; None if states share it."""
        return None

    def _noisy_path(self, y: Array) -> Array:
        """Return the path [T, D] that the noise of states drives."""
        return self._latent(y)

    # ---- verbs on data ------------------------------------------------------------------------------------------
    @overload
    def predict_proba(self, data: Recording) -> Array: ...
    @overload
    def predict_proba(self, data: Recordings) -> list[Array]: ...
    def predict_proba(self, data: TrialsLike) -> Any:
        """Return soft states [T, K]; a list for several recordings."""
        return self._each(data, self._soft_states)

    @overload
    def predict(self, data: Recording) -> Ints: ...
    @overload
    def predict(self, data: Recordings) -> list[Ints]: ...
    def predict(self, data: TrialsLike) -> Any:
        """Return the most probable state of each sample [T]; a list for several recordings."""
        return self._each(data, lambda y: self._soft_states(y).argmax(axis=1))

    @overload
    def smooth(self, data: Recording) -> Array: ...
    @overload
    def smooth(self, data: Recordings) -> list[Array]: ...
    def smooth(self, data: TrialsLike) -> Any:
        """Return the reconstruction [T, N]; a list for several recordings."""
        return self._each(data, lambda y: self._scaler.undo(self._reconstruct(y)))

    def impute(self, data: TrialsLike, return_std: bool = False) -> Any:
        """Return `data` [T, N] with missing entries (NaN) replaced by their posterior mean.

        With `return_std`, return a tuple of the values and their standard deviation, which is 0 where observed. In gaps
        it is calibrated: 90% of the values in artificial gaps of `data` lie within 1.64 standard deviations.
        """
        found = []
        for trial in self._checked(data):
            fitted = self._fitted_rows(trial.y)
            missing, y = np.isnan(fitted.y), self._scaler.apply(fitted.y)
            values, std = self._impute(y) if missing.any() else (y, np.zeros_like(y))
            if return_std and missing.any():
                std = std * gap_factors(self._impute, y)[:, None]
            filled = np.where(missing, self._scaler.undo(values), fitted.y).astype(self._scaler.center.dtype)
            filled, std = map(fitted.at_samples, (filled, (std * self._scaler.scale).astype(np.float32)))
            found.append((filled, std) if return_std else filled)
        return found[0] if is_single(data) else found

    @overload
    def latent(self, data: Recording) -> Array: ...
    @overload
    def latent(self, data: Recordings) -> list[Array]: ...
    def latent(self, data: TrialsLike) -> Any:
        """Return the latent path [T, D]; a list for several recordings."""
        return self._each(data, self._latent)

    def score(self, data: TrialsLike, y: Any = None) -> float:
        """Return the ELBO, a lower bound on the log-likelihood, in nats per observed sample.

        Samples without any observed channel and repeated rows do not count. `y` is ignored.
        """
        trials = self._checked(data)
        self._warn_if_extrapolating(trials)
        return self._score(self._scaler.apply(self._fitted_rows(trial.y).y) for trial in trials)

    def _score(self, ys: Iterable[Array]) -> float:
        """Return the score of standardised trials."""
        total, n_samples = 0.0, 0
        for y in ys:
            total += self._bound(y) - self._scaler.log_jacobian(y)
            n_samples += int(np.isfinite(y).any(axis=1).sum())
        if not n_samples:
            raise DataError("The data has no observed value, so there is nothing to score.")
        return total / n_samples

    def forecast(
        self,
        data: TrialsLike,
        horizon: int = 10,
        n_paths: int = 100,
        seed: int = 0,
        origins: npt.ArrayLike | None = None,
        adaptive: bool = True,
    ) -> Any:
        """Predict `data` from every origin, or from `origins`: `mean[t, h-1]` predicts y[t+h] from y[..t].

        Where rows repeat, each is expected to last as long as the mean row, and its value is certain until then.

        horizon         samples ahead
        n_paths, seed   number and seed of the simulated futures that intervals are made of
        adaptive        adapt intervals to the outcomes that are known at each origin
        """

        def predict(trial: Trial) -> forecasting.Forecast:
            fitted, rows = self._fitted_rows(trial.y, keep_outliers=True)
            y, at = self._scaler.apply(fitted), forecasting.checked_origins(origins, trial.n_samples)
            if self._ignores_outliers:
                y = np.where(find_new_spikes(y), np.float32(np.nan), y)
            n_steps, starts = horizon, at
            if rows is not None:
                n_steps = int(forecasting.rows_ahead(rows, at, horizon).max(initial=min(horizon, 1)))
                starts = np.unique(rows[at])
            found = forecasting.forecast(
                self._paths_across_gaps, y, n_steps, n_paths, seed, starts, self.min_samples, self.calibration_
            )
            found = adapt(found, y) if adaptive else found
            if rows is not None:
                found = found.over_repeats(y, rows, at, horizon)
            return found.rescaled(self._scaler.center, self._scaler.scale)

        trials = self._checked(data)
        self._warn_if_extrapolating(trials)
        found = [predict(trial) for trial in trials]
        return found[0] if is_single(data) else found

    def _warn_if_extrapolating(self, trials: Trials) -> None:
        if text := describe_extrapolation(self._scaler.center, self._scaler.scale, trials):
            warnings.warn(text, FitWarning, stacklevel=3)

    def online(self, lag: int = 0) -> Online:
        """Return a filter that takes sample by sample: `online().step(sample)`.

        lag   return the states of the sample `lag` steps ago instead, given all samples since
        """
        self._require_fitted()
        whole(0).require("lag", lag)
        k = self.config.n_states
        return Online(self._sample_reader(), self._scaler, k, lag, self._ignores_outliers, self.repeats_)

    @overload
    def filter(self, data: Recording, lag: int = 0) -> Array: ...
    @overload
    def filter(self, data: Recordings, lag: int = 0) -> list[Array]: ...
    def filter(self, data: TrialsLike, lag: int = 0) -> Any:
        """Return soft states [T, K] from the past and `lag` later samples; a list for several recordings."""
        fitted = [self._fitted_rows(trial.y, keep_outliers=True) for trial in self._checked(data)]
        found = [one.at_samples(self.online(lag).follow(one.y)) for one in fitted]
        return found[0] if is_single(data) else found

    def _next_states(self, y: Values, shares: Values) -> Float | None:
        """Return probabilities [G, K] of the state after each row of `y` [G, N], given `shares` [K] of the previous state.

        None for families whose transitions do not depend on position.
        """
        return None

    def sample(self, n_samples: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Simulate (y [T, N], z [T, K], x [T, D]) of T = `n_samples`.

        States of a GDM that last change about twice as often as in the data; those of an AR-HMM as often (docs/known-issues.md).
        """
        self._require_fitted()
        if n_samples < self.min_samples:
            raise ConfigError(f"n_samples is {n_samples}; at least {self.min_samples} samples must be generated.")
        y, z, x = self._generate(n_samples, seed)
        return self._scaler.undo(y), z, x

    def transform(self, data: TrialsLike) -> Any:
        """Return soft states [T, K] as `predict_proba` does; pandas after `set_output(transform="pandas")`."""
        return self.predict_proba(data)  # type: ignore[arg-type]

    def _each(self, data: TrialsLike, verb: Callable[[Array], Values]) -> Any:
        """Apply a verb to each recording as it is fitted, and return its results at the original samples."""
        fitted = (self._fitted_rows(trial.y) for trial in self._checked(data))
        results = [one.at_samples(verb(self._scaler.apply(one.y))) for one in fitted]
        return results[0] if is_single(data) else results


def _count_seen(trials: Trials) -> int:
    """Return the observed samples of an average channel."""
    return sum(int(np.isfinite(trial.y).sum()) for trial in trials) // trials.n_channels
