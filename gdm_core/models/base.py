"""What every model shares: the verbs of the public API over a handful of hooks that a family fills in.

A family works on one trial at a time, each channel centred and scaled by its training data, NaN where missing. This
class checks input, standardises, converts results back to the user's units, calibrates forecasts, saves and loads.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt

from gdm_core import forecast as forecasting
from gdm_core.adaptation import adapt
from gdm_core.errors import ConfigError, DataError, FitError, FitWarning
from gdm_core.files import write_whole
from gdm_core.maths.artificial_gaps import gap_factors
from gdm_core.maths.factor import Autoregression, FactorModel
from gdm_core.maths.spikes import find_new_spikes, find_spikes
from gdm_core.models.online import Online, SampleReader
from gdm_core.models.parameters import whole
from gdm_core.models.progress import Progress, Status
from gdm_core.models.scaling import Scaler
from gdm_core.store import encode
from gdm_core.trials import Recording, Recordings, Trials, TrialsLike, as_trials, is_single

Array = npt.NDArray[np.float32]
_BASELINE_MARGIN = 0.1  # nats per sample and channel that a fit may lose to the baseline


class StateModel(ABC):
    """A model of a time series with K states. Parameters in the constructor, learned values with a trailing underscore."""

    family: ClassVar[str]
    config_class: ClassVar[type]
    warm_changes: ClassVar[frozenset[str] | None] = None  # parameters that `warm_start` may change; None for all
    why_not_online: ClassVar[str] = "it has no filter"
    # Parameters of inference, which a fitted model may change: see `variants.with_parameters`.
    adjustable: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config_class" in cls.__dict__ and cls.__init__.__doc__:
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{cls.__init__.__doc__}\n"

    def __init__(self, config: Any) -> None:
        self.config = config
        self._warm_from: StateModel | None = None
        self._forget()

    def _forget(self) -> None:
        """Be as one that was never fitted."""
        self.params_: dict[str, Array] = {}
        self.scaler_: Scaler | None = None
        self.factors_: FactorModel | None = None
        self.history_: list[Progress] = []
        self.status_: Status | None = None
        self.failure_: str | None = None
        self.elbo_: float = float("nan")
        self.seconds_: float = 0.0
        self.calibration_: forecasting.Calibration | None = None

    # ---- parameters ---------------------------------------------------------------------------------------------
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter of the constructor by its name. `deep` is there for scikit-learn: no parameter has its own."""
        return {one.name: getattr(self.config, one.name) for one in dataclasses.fields(self.config)}

    def set_params(self, **changes: Any) -> Self:
        """Take `changes` and return self. What was fitted with others is forgotten, unless they only say how it is read."""
        unknown = sorted(set(changes) - self.get_params().keys())
        if unknown:
            known = ", ".join(self.get_params())
            raise ConfigError(f"{type(self).__name__} has no parameter {', '.join(unknown)}; it has {known}.")
        config = dataclasses.replace(self.config, **changes)
        if config != dataclasses.replace(self.config, **{n: v for n, v in changes.items() if n in self.adjustable}):
            self._forget()
        self.config = config
        return self

    # ---- hooks: one trial, standardised units -------------------------------------------------------------------
    @abstractmethod
    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        """Fit to the trials `ys`; keep `params_` usable at every yield; set `status_` at the end."""

    @abstractmethod
    def _soft_states(self, y: Array) -> Array:
        """[T, N] -> posterior mean of the soft states [T, K]."""

    def _rough_states(self, y: Array) -> Array:
        """The same, where a quicker answer may be a rougher one."""
        return self._soft_states(y)

    @abstractmethod
    def _reconstruct(self, y: Array) -> Array:
        """[T, N] -> the model's account of each sample [T, N]."""

    def _impute(self, y: Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """[T, N] -> y with missing entries filled, and the standard deviation of each entry (0 where observed)."""
        return np.where(np.isnan(y), self._reconstruct(y), y), self._factors.smooth(y)[1]

    @abstractmethod
    def _latent(self, y: Array) -> Array:
        """[T, N] -> latent path [T, D]."""

    @abstractmethod
    def _bound(self, y: Array) -> float:
        """[T, N] -> lower bound on log p(observed entries of y), total, in nats."""

    @abstractmethod
    def _paths(self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int) -> Array:
        """Sampled futures with observation noise [P, O, H, N]; the path from origin t sees y[..t] only."""

    def _paths_across_gaps(
        self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int
    ) -> Array:
        """Sample futures as `_paths` does; those from an origin inside a gap start at the last sample with an observation."""
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

    def _cross_fit(self, ys: list[Array], folds: list[npt.NDArray[np.int64]]) -> list[forecasting.Sampler]:
        """Return a sampler of futures for each fold, with dynamics estimated without it; none where that takes a fit.

        folds  [T] of each trial in `ys`, the fold of each sample
        """
        return []

    def _set_random_parameters(self, ys: list[Array], seed: int) -> None:
        """Draw `params_` for an untrained control; a family without one leaves them empty."""
        self.params_ = {}

    @abstractmethod
    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        """(y [T, N], z [T, K], x [T, D]) drawn from the model."""

    def _sample_reader(self) -> SampleReader:
        """What reads one standardised sample after the other, for `online`."""
        raise ConfigError(f"{type(self).__name__} cannot follow a recording as it is made: {self.why_not_online}.")

    @property
    def min_samples(self) -> int:
        """Samples that a trial needs at the least: more than the dynamics look back at."""
        return int(getattr(self.config, "lags", 1)) + 1

    def _check_trials(self, trials: Trials) -> None:
        """Refuse data that this configuration cannot be fitted to. Families add their own."""
        k, d = self.config.n_states, self.config.n_latent
        if d > trials.n_channels:
            raise ConfigError(
                f"n_latent (D) is {d} but the data has {trials.n_channels} channels; choose n_latent <= {trials.n_channels}."
            )
        if k > trials.n_samples // 2:
            raise ConfigError(
                f"n_states (K) is {k} but there are only {trials.n_samples} samples; choose K <= {trials.n_samples // 2}."
            )

    # ---- fitting ------------------------------------------------------------------------------------------------
    def fit(self, trials: TrialsLike, y: Any = None) -> Self:
        """Fit to `trials` (a Trial, an array [T, N], several, or Trials). `y` is ignored: scikit-learn hands it on."""
        for _ in self.fit_iter(trials):
            pass
        return self

    def fit_iter(
        self, trials: TrialsLike, *, finish: bool = True, start: bool = False, calibrate: bool = True
    ) -> Iterator[Progress]:
        """Fit to `trials` step by step, with `start` from before the first one. Closing the iterator early leaves a usable model
        with status CANCELLED.

        finish     score the fit and check whether it failed
        calibrate  calibrate forecasts as well
        """
        data = self._without_outliers(as_trials(trials))
        scaler = self._scaler_to_fit(data)
        ys = [scaler.apply(trial.y) for trial in data]
        self.factors_ = FactorModel.fit(ys, self.config.n_latent)
        if self._warm_from is None and any(np.isnan(y).any() for y in ys):
            ys = self._rescale(data, scaler, ys)
        yield from self._run(self._fit(ys), ys, finish, start, calibrate)

    def _rescale(self, data: Trials, scaler: Scaler, ys: list[Array]) -> list[Array]:
        """Standardise by the filled recordings: channels missing at different times are then centred on the same ones."""
        filled = np.concatenate([self._factors.fill(y) for y in ys])
        center, scale = filled.mean(axis=0), np.maximum(filled.std(axis=0), 1e-3)
        self.scaler_ = Scaler(
            (scaler.center + center * scaler.scale).astype(scaler.center.dtype),
            (scaler.scale * scale).astype(scaler.scale.dtype),
        )
        self.factors_ = self._factors.rescale(center, scale)
        return [self.scaler_.apply(trial.y) for trial in data]

    def _scaler_to_fit(self, data: Trials) -> Scaler:
        """The scale in which to fit to `data`, which is refused where this configuration cannot be fitted to it."""
        self._check_lengths(data)
        self._check_trials(data)
        scaler = Scaler.from_trials(data) if self._warm_from is None else self._warm_from._scaler
        if len(scaler.center) != data.n_channels:
            raise DataError(
                f"The model to start from was fitted on {len(scaler.center)} channels, this data has {data.n_channels}."
            )
        self.scaler_ = scaler
        return scaler

    def _run(
        self, steps: Iterator[Progress], ys: list[Array], finish: bool, start: bool = False, calibrate: bool = True
    ) -> Iterator[Progress]:
        """The steps of a fit, timed and kept; to `finish` it, its score and, with `calibrate`, calibrated forecasts on `ys`.

        start  with a look from before the first step
        """
        self.history_, self.calibration_, self.elbo_ = [], None, float("nan")
        self.status_, self.failure_ = None, None
        started, spent = time.perf_counter(), 0.0
        try:
            for progress in steps:
                if not (start or progress.step) and np.isnan(progress.elbo):
                    continue
                self.history_.append(progress)
                spent += time.perf_counter() - started
                yield progress
                started = time.perf_counter()
        finally:
            steps.close()  # type: ignore[attr-defined]
            if self.status_ is None:
                self.status_ = Status.CANCELLED
            self.seconds_ = spent + time.perf_counter() - started
            if finish and self.params_ and self.status_ is not Status.FAILED:
                self.elbo_ = self._score(ys)
                if self.status_ is not Status.CANCELLED:
                    self._check_fit(ys)
            if finish and calibrate and self.params_ and self.status_ is not Status.FAILED:
                self.calibration_ = forecasting.calibrate(
                    self._paths_across_gaps, ys, self.min_samples, self._cross_fit
                )
            if self.status_ is Status.FAILED:
                warnings.warn(self.failure_message, FitWarning, stacklevel=2)

    def _fail(self, reason: str) -> None:
        self.status_, self.failure_ = Status.FAILED, reason

    @property
    def failure_message(self) -> str:
        """Why the fit failed and what to try, in two sentences."""
        return f"The fit failed: {self.failure_}. Try another seed, fewer states, or data without extreme values."

    def raise_if_failed(self) -> None:
        """Raise FitError if the fit failed: it is not a result."""
        if self.status_ is Status.FAILED:
            raise FitError(self.failure_message)

    def _check_fit(self, ys: list[Array]) -> None:
        """Mark the fit as failed if its score is not finite, a state has lost its noise, or one linear model for all
        samples scores far better."""
        if not np.isfinite(self.elbo_):
            self._fail("its bound is not finite")
            return
        if collapsed := self._collapsed(ys):
            self._fail(collapsed)
            return
        baseline = self._baseline_score(ys)
        if self.elbo_ < baseline - _BASELINE_MARGIN * ys[0].shape[1]:
            self._fail(
                f"its score ({self.elbo_:.3g} nats per sample) is below that of a single autoregression ({baseline:.3g})"
            )

    def _collapsed(self, ys: list[Array]) -> str | None:
        """Return why the likelihood is unbounded, as where a state's noise vanishes; None if it is not."""
        return None

    def _baseline_score(self, ys: list[Array]) -> float:
        """Return the log-likelihood per observed sample of a first-order autoregression on `n_latent` factors."""
        total, n_samples = 0.0, 0
        past = [self._fill_causally(y) for y in ys]  # a fill that knew later samples would predict them too well
        autoregression = Autoregression.fit(past, ys, self._factors)
        for y, filled in zip(ys, past, strict=True):
            total += autoregression.log_likelihood(filled, y) - self._scaler.log_jacobian(y)
            n_samples += int(np.isfinite(y).any(axis=1).sum())
        return total / max(n_samples, 1)

    def warm_start(self, **changes: Any) -> Self:
        """A new, unfitted model with `changes` (n_states=5) to the parameters, whose fit will start from this one."""
        self._require_fitted()
        if unknown := sorted(set(changes) - self.get_params().keys()):
            raise ConfigError(f"Unknown parameter in warm_start: {', '.join(unknown)}.")
        refused = sorted(
            name
            for name, value in changes.items()
            if self.warm_changes is not None and name not in self.warm_changes and value != getattr(self.config, name)
        )
        if refused:
            raise ConfigError(
                f"warm_start cannot change {', '.join(refused)}; it can change {', '.join(sorted(self.warm_changes or ()))}. "
                "Fit a new model for anything else."
            )
        model = type(self)._from_config(dataclasses.replace(self.config, **changes))
        model._warm_from = self
        return model

    # ---- verbs on data ------------------------------------------------------------------------------------------
    @overload
    def predict_proba(self, data: Recording) -> Array: ...
    @overload
    def predict_proba(self, data: Recordings) -> list[Array]: ...
    def predict_proba(self, data: TrialsLike) -> Any:
        """Soft states [T, K] of `data`: a Trial or an array [T, N]; a list of states for a list of them, or for Trials."""
        return self._each(data, self._soft_states)

    @overload
    def predict(self, data: Recording) -> npt.NDArray[np.int64]: ...
    @overload
    def predict(self, data: Recordings) -> list[npt.NDArray[np.int64]]: ...
    def predict(self, data: TrialsLike) -> Any:
        """The largest state at each time [T] of `data`."""
        return self._each(data, lambda y: self._soft_states(y).argmax(axis=1))

    @overload
    def smooth(self, data: Recording) -> Array: ...
    @overload
    def smooth(self, data: Recordings) -> list[Array]: ...
    def smooth(self, data: TrialsLike) -> Any:
        """The model's account of each sample [T, N] of `data`, in its units."""
        return self._each(data, lambda y: self._scaler.undo(self._reconstruct(y)))

    def impute(self, data: TrialsLike, return_std: bool = False) -> Any:
        """Return `data` [T, N] with missing entries (NaN) replaced by their posterior mean.

        With `return_std`, return a tuple of the values and their standard deviation, which is 0 where observed. In gaps
        it is calibrated: 90% of the values in artificial gaps of `data` lie within 1.64 standard deviations.
        """
        found = []
        for trial in self._checked(data):
            missing = np.isnan(trial.y)
            y = self._scaler.apply(trial.y)
            values, std = self._impute(y) if missing.any() else (y, np.zeros_like(y))
            if return_std and missing.any():
                std = std * gap_factors(self._impute, y)[:, None]
            filled = np.where(missing, self._scaler.undo(values), trial.y).astype(self._scaler.center.dtype)
            found.append((filled, (std * self._scaler.scale).astype(np.float32)) if return_std else filled)
        return found[0] if is_single(data) else found

    @overload
    def latent(self, data: Recording) -> Array: ...
    @overload
    def latent(self, data: Recordings) -> list[Array]: ...
    def latent(self, data: TrialsLike) -> Any:
        """The latent path [T, D] of `data`."""
        return self._each(data, self._latent)

    def score(self, data: TrialsLike, y: Any = None) -> float:
        """Return the ELBO per observed sample of `data` in nats, in its units: a lower bound on its log-likelihood.

        Samples without any observed channel do not count. `y` is ignored, as in `fit`.
        """
        trials = self._checked(data)
        return self._score(self._scaler.apply(trial.y) for trial in trials)

    def _score(self, ys: Iterable[Array]) -> float:
        """The same of standardised trials."""
        total, n_samples = 0.0, 0
        for y in ys:
            total += self._bound(y) - self._scaler.log_jacobian(y)
            n_samples += int(np.isfinite(y).any(axis=1).sum())
        if not n_samples:
            raise DataError("The data has no observed value, so there is nothing to score.")
        return total / n_samples

    @overload
    def forecast(
        self,
        data: Recording,
        horizon: int = ...,
        n_paths: int = ...,
        seed: int = ...,
        origins: npt.ArrayLike | None = ...,
        adaptive: bool = ...,
    ) -> forecasting.Forecast: ...  # fmt: skip
    @overload
    def forecast(
        self,
        data: Recordings,
        horizon: int = ...,
        n_paths: int = ...,
        seed: int = ...,
        origins: npt.ArrayLike | None = ...,
        adaptive: bool = ...,
    ) -> list[forecasting.Forecast]: ...  # fmt: skip
    def forecast(
        self,
        data: TrialsLike,
        horizon: int = 10,
        n_paths: int = 100,
        seed: int = 0,
        origins: npt.ArrayLike | None = None,
        adaptive: bool = True,
    ) -> Any:
        """Futures of `data` from every origin (or the `origins` asked for); `mean[t, h-1]` predicts y[t+h] from y[..t].

        horizon         how many steps ahead
        n_paths, seed   how many simulated futures an envelope is made of, and what they are drawn with
        adaptive        bands learn from what followed earlier `origins`, as far as it is known by then; else as calibrated
        """

        def ahead(y: Array) -> forecasting.Forecast:
            if self._ignores_outliers:
                y = np.where(find_new_spikes(y), np.float32(np.nan), y)
            found = forecasting.forecast(
                self._paths_across_gaps, y, horizon, n_paths, seed, origins, self.min_samples, self.calibration_
            )
            return (adapt(found, y) if adaptive else found).rescaled(self._scaler.center, self._scaler.scale)

        return self._each(data, ahead, as_recorded=True)

    def online(self, lag: int = 0) -> Online:
        """Infer states while a recording is made: `online().step(sample)` returns those of the current sample.

        lag   return the states of the sample `lag` steps ago instead, given all samples since
        """
        self._require_fitted()
        whole(0).require("lag", lag)
        return Online(self._sample_reader(), self._scaler, self.config.n_states, lag, self._ignores_outliers)

    @overload
    def filter(self, data: Recording, lag: int = 0) -> Array: ...
    @overload
    def filter(self, data: Recordings, lag: int = 0) -> list[Array]: ...
    def filter(self, data: TrialsLike, lag: int = 0) -> Any:
        """Soft states [T, K] of `data` as they could have been known then, or `lag` samples later; a list for several."""

        found = [self.online(lag).follow(trial.y) for trial in self._checked(data, as_recorded=True)]
        return found[0] if is_single(data) else found

    def _next_states(self, y: npt.NDArray[Any], shares: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
        """[G, K] probability of the state after observing each row of `y` [G, N], over states before it by `shares` [K].

        None for a family whose transitions do not look at where they are.
        """
        return None

    def sample(self, n_samples: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Generate (y [T, N], z [T, K], x [T, D]), T = `n_samples`, from the model; `seed` decides all that is drawn."""
        self._require_fitted()
        if n_samples < self.min_samples:
            raise ConfigError(f"n_samples is {n_samples}; at least {self.min_samples} samples must be generated.")
        y, z, x = self._generate(n_samples, seed)
        return self._scaler.undo(y), z, x

    # ---- in the middle of a scikit-learn pipeline: soft states are what it makes of its input --------------------------
    def transform(self, data: Any) -> Any:
        """Soft states [T, K] of `data`, as `predict_proba` gives them; pandas after `set_output(transform="pandas")`."""
        found: Any = self.predict_proba(data)
        if getattr(self, "_sklearn_output_config", {}).get("transform") != "pandas" or isinstance(found, list):
            return found
        import pandas as pd

        index = data.index if isinstance(data, pd.DataFrame) else None
        return pd.DataFrame(found, index=index, columns=self.get_feature_names_out())

    def fit_transform(self, data: Any, y: Any = None) -> Any:
        """`fit`, then `transform`, both of `data`; `y` is ignored, as in `fit`."""
        return self.fit(data).transform(data)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the output of `transform`: "default" (NumPy) or "pandas"; None changes nothing."""
        if transform not in (None, "default", "pandas"):
            raise ConfigError(f"transform is {transform!r}; choose 'default' or 'pandas'.")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the columns that `transform` gives: S1, S2, ... `input_features` is there for scikit-learn."""
        return np.array([f"S{k + 1}" for k in range(self.config.n_states)], dtype=np.object_)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: it needs no target, gaps may stay in the data, and it transforms."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(allow_nan=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.params_)

    @property
    def n_features_in_(self) -> int:
        """Channels, under scikit-learn's name."""
        if not self.params_:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet, so it has no n_features_in_.")
        return self.n_channels

    # ---- saving -------------------------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write the model to one safetensors file at `path`, with its configuration as JSON in the header."""
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        self._require_fitted()
        tensors = {f"param.{name}": value for name, value in self.params_.items()}
        tensors |= {"scaler.center": self._scaler.center, "scaler.scale": self._scaler.scale}
        tensors |= {f"factors.{name}": value for name, value in vars(self._factors).items()}
        if self.calibration_ is not None:
            tensors |= {f"calibration.{name}": value for name, value in vars(self.calibration_).items()}
        header = {
            "family": self.family,
            "config": dataclasses.asdict(self.config),
            "status": str(self.status_),
            "failure": self.failure_,
            "elbo": self.elbo_,
            "seconds": self.seconds_,
        }
        return encode(tensors, header)

    @classmethod
    def _from_file(cls, tensors: dict[str, Array], header: dict[str, Any]) -> Self:
        """A model from `tensors` and `header` of a file; `load_model` finds the family by itself."""
        model = cls._from_config(cls.config_class(**header["config"]))
        model.params_ = {name.removeprefix("param."): v for name, v in tensors.items() if name.startswith("param.")}
        model.scaler_ = Scaler(tensors["scaler.center"], tensors["scaler.scale"])
        model.status_, model.failure_ = Status(header["status"]), header.get("failure")
        model.elbo_ = float(header["elbo"])
        model.seconds_ = float(header["seconds"])
        factors: dict[str, Any] = {
            name.removeprefix("factors."): v for name, v in tensors.items() if name.startswith("factors.")
        }
        model.factors_ = FactorModel(**factors)
        calibration = {k.removeprefix("calibration."): v for k, v in tensors.items() if k.startswith("calibration.")}
        model.calibration_ = forecasting.Calibration(**calibration) if calibration else None
        return model

    @classmethod
    def _from_config(cls, config: Any) -> Self:
        """An unfitted model with the configuration `config`."""
        return cls(**{f.name: getattr(config, f.name) for f in dataclasses.fields(config)})

    # ---- checks -------------------------------------------------------------------------------------------------
    @property
    def n_channels(self) -> int:
        """N, how many channels the model was fitted to."""
        return int(self._scaler.center.shape[0])

    @property
    def _scaler(self) -> Scaler:
        if not self.params_ or self.scaler_ is None:
            raise FitError(f"This {type(self).__name__} is not fitted yet. Call fit() first, or load_model().")
        return self.scaler_

    @property
    def _factors(self) -> FactorModel:
        """Factor model of the training data, which gives a first estimate of missing entries."""
        if self.factors_ is None:
            raise FitError(f"This {type(self).__name__} has no estimate for missing values. Call fit() first.")
        return self.factors_

    def _fill(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a standardised recording with missing entries estimated from all of it."""
        return self._factors.fill(y) if np.isnan(y).any() else y

    def _fill_causally(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the same with missing entries estimated from past and present samples only."""
        return self._factors.fill_causally(y) if np.isnan(y).any() else y

    def _require_fitted(self) -> None:
        _ = self._scaler

    def _check_lengths(self, trials: Trials) -> None:
        for trial in trials:
            if trial.n_samples < self.min_samples:
                raise DataError(
                    f"Trial {trial.name!r} has {trial.n_samples} sample(s); this model needs at least {self.min_samples}. "
                    "Drop the trial or join it to its neighbour."
                )

    @property
    def _ignores_outliers(self) -> bool:
        return getattr(self.config, "outliers", "keep") == "ignore"

    def _without_outliers(self, trials: Trials) -> Trials:
        """Mark outliers as missing if this model ignores them."""
        if not self._ignores_outliers:
            return trials
        kept = (dataclasses.replace(one, y=np.where(find_spikes(one.y), np.nan, one.y)) for one in trials)
        return Trials(tuple(kept), trials.name, trials.label_names)

    def _checked(self, data: TrialsLike, as_recorded: bool = False) -> Trials:
        """Return `data` as trials that this model can read, without outliers unless `as_recorded`."""
        self._require_fitted()
        trials = as_trials(data)
        if trials.n_channels != self.n_channels:
            raise DataError(f"The model was fitted on {self.n_channels} channels, this data has {trials.n_channels}.")
        self._check_lengths(trials)
        return trials if as_recorded else self._without_outliers(trials)

    def _each(self, data: TrialsLike, verb: Any, as_recorded: bool = False) -> Any:
        results = [verb(self._scaler.apply(trial.y)) for trial in self._checked(data, as_recorded)]
        return results[0] if is_single(data) else results

    def __repr__(self) -> str:
        """The call that makes it, with what is not the default; and how the fit ended."""
        default = {one.name: one.default for one in dataclasses.fields(self.config)}
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if value != default[name])
        fitted = f" [{self.status_}, ELBO {self.elbo_:.3f}]" if self.params_ else ""
        return f"{type(self).__name__}({given}){fitted}"
