"""Base of all models: parameters, learned attributes, scikit-learn's conventions, checks of data, and model files."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Array, Float, Values
from gdm_core.errors import DataError, FitError
from gdm_core.files import write_whole
from gdm_core.forecast import Calibration
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.repeats import Fitted, Repeats
from gdm_core.maths.spikes import find_spikes
from gdm_core.models.progress import Progress, Status
from gdm_core.models.scaling import Scaler
from gdm_core.store import encode
from gdm_core.trials import Trial, Trials, TrialsLike, as_trials, check_alike, default_channels

if TYPE_CHECKING:  # scikit-learn has no types, and a base class without types would switch off all checks

    class SklearnNotFittedError(ValueError, AttributeError): ...

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

    class TransformerMixin:
        def fit_transform(self, X: TrialsLike, y: Any = None) -> Any: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

else:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError


class NotFittedError(FitError, SklearnNotFittedError):
    """The model is not fitted yet; also scikit-learn's error of this name."""


class Estimator(TransformerMixin, BaseEstimator):
    """Parameters in the constructor, learned values in attributes that end in an underscore."""

    family: ClassVar[str]
    config_class: ClassVar[type]

    params_: dict[str, Array] = {}  # noqa: RUF012 (replaced by fits, never changed)
    scaler_: Scaler | None = None
    factors_: FactorModel | None = None
    history_: tuple[Progress, ...] = ()
    status_: Status | None = None
    failure_: str | None = None
    elbo_: float = float("nan")
    seconds_: float = 0.0
    calibration_: Calibration | None = None
    rate_hz_: float = Trial.rate_hz
    feature_names_in_: npt.NDArray[np.object_]  # only after a fit to named channels
    repeats_: Repeats | None = None  # only where repeats="auto"
    _fitted_config: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config_class" in cls.__dict__ and cls.__init__.__doc__:
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{cls.__init__.__doc__}\n"

    # ---- parameters ---------------------------------------------------------------------------------------------
    @property
    def config(self) -> Any:
        """Checked parameters: those of the last fit, or of the next one if there is none.

        `set_params` takes effect at the next fit. Raises ConfigError for values that are not allowed.
        """
        return self._fitted_config or self.config_class(**self.get_params(deep=False))

    @classmethod
    def _from_config(cls, config: Any) -> Self:
        return cls(**{one.name: getattr(config, one.name) for one in dataclasses.fields(config)})

    @property
    def min_samples(self) -> int:
        """Smallest number of samples of a trial: one more than the dynamics look back."""
        return int(getattr(self.config, "lags", 1)) + 1

    @property
    def n_channels(self) -> int:
        """Number of channels (N) of the training data."""
        return int(self._scaler.center.shape[0])

    # ---- scikit-learn -------------------------------------------------------------------------------------------
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.params_)

    @property
    def n_features_in_(self) -> int:
        """Number of channels, under scikit-learn's name."""
        return self.n_channels

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns of `transform`: S1, S2, ... `input_features` is ignored."""
        return np.array([f"S{k + 1}" for k in range(self.config.n_states)], dtype=np.object_)

    # ---- what a fit has learned ---------------------------------------------------------------------------------
    def _require_fitted(self) -> None:
        _ = self._scaler

    @property
    def _scaler(self) -> Scaler:
        if not self.params_ or self.scaler_ is None:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet. Call fit() first, or load_model().")
        return self.scaler_

    @property
    def _factors(self) -> FactorModel:
        """Factor model of the training data, which gives a first estimate of missing entries."""
        if self.factors_ is None:
            raise NotFittedError(f"This {type(self).__name__} cannot estimate missing values. Call fit() first.")
        return self.factors_

    def _fill(self, y: Values) -> Values:
        """Return a standardised recording with missing entries estimated from all of it."""
        return self._factors.fill(y) if np.isnan(y).any() else y

    def _fill_causally(self, y: Values) -> Values:
        """Return the same with missing entries estimated from past and present samples only."""
        return self._factors.fill_causally(y) if np.isnan(y).any() else y

    @property
    def failure_message(self) -> str:
        """Reason for the failure and advice, in two sentences."""
        return f"The fit failed: {self.failure_}. Try another seed, fewer states, or data without extreme values."

    def raise_if_failed(self) -> None:
        """Raise FitError if the fit failed: it is not a result."""
        if self.status_ is Status.FAILED:
            raise FitError(self.failure_message)

    # ---- checks of data -----------------------------------------------------------------------------------------
    @property
    def _ignores_outliers(self) -> bool:
        return getattr(self.config, "outliers", "keep") == "ignore"

    def _find_repeats(self, trials: Trials) -> Repeats | None:
        return trials.repeats if getattr(self.config, "repeats", "keep") == "auto" else None

    def _fitted_rows(self, y: Values, keep_outliers: bool = False) -> Fitted:
        """Return a recording without repeats, and without outliers if this model ignores them."""
        found = Fitted(y, None) if self.repeats_ is None else self.repeats_.apply(y, self.min_samples)
        if keep_outliers or not self._ignores_outliers:
            return found
        return found._replace(y=np.where(find_spikes(found.y), np.nan, found.y))

    @property
    def _noise_floor(self) -> Float | None:
        """Least standard deviations [N] of the noise of standardised channels; None for no floor."""
        floor = None if self.repeats_ is None else self.repeats_.noise_floor()
        return None if floor is None or self.scaler_ is None or not floor.any() else floor / self.scaler_.scale

    def _as_fitted(self, trials: Trials) -> Trials:
        """Return recordings as they are fitted; those without repeats and outliers stay the same."""
        rows = [self._fitted_rows(one.y).y for one in trials]
        kept = (
            one if y is one.y else Trial(y, one.rate_hz, one.channels, name=one.name)
            for one, y in zip(trials, rows, strict=True)
        )
        return Trials(tuple(kept), trials.name, trials.label_names)

    def _check_lengths(self, trials: Trials) -> None:
        for trial in trials:
            if trial.n_samples < self.min_samples:
                raise DataError(
                    f"Trial {trial.name!r} has {trial.n_samples} sample(s); this model needs at least {self.min_samples}. "
                    "Drop the trial or join it to its neighbour."
                )

    def _checked(self, data: TrialsLike) -> Trials:
        """Return `data` as trials that this model can read."""
        self._require_fitted()
        trials = as_trials(data)
        if trials.n_channels != self.n_channels:
            raise DataError(
                f"X has {trials.n_channels} features, but {type(self).__name__} is expecting {self.n_channels} features "
                "as input: the channels of the training data."
            )
        self._check_data(trials[0])
        self._check_lengths(trials)
        return trials

    def _remember_data(self, trial: Trial) -> None:
        """Remember channels and rate, unless they are the defaults of an array."""
        vars(self).pop("feature_names_in_", None)
        if trial.channels != default_channels(trial.n_channels):
            self.feature_names_in_ = np.array(trial.channels, dtype=np.object_)
        self.rate_hz_ = trial.rate_hz

    def _check_data(self, trial: Trial) -> None:
        """Raise DataError if channels or rate differ from those of the fit and both are known."""
        channels = tuple(getattr(self, "feature_names_in_", ()))
        unnamed = not channels or trial.channels == default_channels(trial.n_channels)
        unknown = Trial.rate_hz in (self.rate_hz_, trial.rate_hz)
        check_alike(
            "the training data",
            trial.channels if unnamed else channels,
            trial.rate_hz if unknown else self.rate_hz_,
            trial,
        )

    # ---- files --------------------------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write the model to one safetensors file, with its configuration as JSON in the header."""
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
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
            "history": [dataclasses.astuple(one) for one in self.history_],
            "channels": list(getattr(self, "feature_names_in_", ())),
            "rate_hz": self.rate_hz_,
            "repeats": None if self.repeats_ is None else dataclasses.asdict(self.repeats_),
        }
        return encode(tensors, header)

    @classmethod
    def _from_file(cls, tensors: dict[str, Array], header: dict[str, Any]) -> Self:
        """Return the model of a file; `load_model` finds the family."""

        def part(kind: str) -> dict[str, Any]:
            prefix = f"{kind}."
            return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}

        model = cls(**header["config"])
        model._fitted_config = model.config
        model.params_ = part("param")
        model.scaler_, model.factors_ = Scaler(**part("scaler")), FactorModel(**part("factors"))
        model.calibration_ = Calibration(**calibration) if (calibration := part("calibration")) else None
        model.status_, model.failure_ = Status(header["status"]), header.get("failure")
        model.elbo_, model.seconds_ = float(header["elbo"]), float(header["seconds"])
        model.history_ = tuple(Progress(*one) for one in header.get("history", ()))
        model.repeats_ = Repeats.from_dict(repeats) if (repeats := header.get("repeats")) else None
        model.rate_hz_ = float(header.get("rate_hz", Trial.rate_hz))
        if channels := header.get("channels"):
            model.feature_names_in_ = np.array(channels, dtype=np.object_)
        return model
