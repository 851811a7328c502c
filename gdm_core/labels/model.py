"""Labels learned from a few clips: a classifier of samples, smoothed by a sticky hidden Markov model and calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.utils.metadata_routing import UNUSED

from gdm_core.errors import DataError, ModelFileError
from gdm_core.files import write_whole
from gdm_core.labels.checks import Codes, check_labels
from gdm_core.labels.classifier import Classifier
from gdm_core.labels.features import window_features
from gdm_core.labels.scores import Agreement, measure_agreement
from gdm_core.maths import hmm
from gdm_core.models.base import StateModel
from gdm_core.models.estimator import BaseEstimator, NotFittedError
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.scaling import Scaler
from gdm_core.models.variants import infer_quickly
from gdm_core.store import decode, encode
from gdm_core.text import shorten
from gdm_core.trials import UNLABELLED, Trial, Trials, TrialsLike, as_trials, is_single

Array = npt.NDArray[np.float32]
Float = npt.NDArray[np.float64]
CalibratedOn = Literal["recordings", "parts", "nothing"]

MEAN_BOUT_SECONDS = 1.0
CLIP_SECONDS = 2.0  # longer labelled stretches are split for cross-validation
INDEPENDENT_PER_SECOND = 3.0  # effective samples per second, since adjacent samples are correlated
FOLDS = 5
TREES, FOLD_TREES = 40, 20
ROWS_PER_SECOND = 10
MOST_ROWS, MOST_LABELLED_ROWS = 8_000, 6_000
STATE_WEIGHTS = (0.0, 0.3, 1.0)  # of states relative to features; cross-validation chooses
UNKNOWN_STATE_WEIGHT = 0.3  # without cross-validation
TEMPERATURES = np.geomspace(0.25, 32.0, 29)
TINY = 1e-12


class LabelModel(BaseEstimator):
    """Probabilities of labels for every sample, learned from a few labelled clips.

    Attributes
    ----------
    class_names_ : tuple of str
    calibrated_on_ : "recordings", "parts" or "nothing"
        Unit of cross-validation: recordings, parts of a recording, or nothing if there are too few labels.
    held_out_ : Agreement or None
        Agreement in cross-validation, or None if there are too few labels.
    """

    # The data are scikit-learn's X and y under other names, not metadata to route.
    __metadata_request__fit = MappingProxyType(dict.fromkeys(("trials", "labels", "class_names"), UNUSED))
    __metadata_request__predict = __metadata_request__predict_proba = MappingProxyType({"trials": UNUSED})

    class_names_: tuple[str, ...] = ()
    calibrated_on_: CalibratedOn = "nothing"
    held_out_: Agreement | None = None

    def __init__(self, model: StateModel | None = None, *, seed: int = 0) -> None:
        """Create a label model; the soft states of a fitted `model` are additional features."""
        self.model, self.seed = model, seed

    def fit(self, trials: TrialsLike, labels: Any, class_names: Sequence[str] | None = None) -> Self:
        """Fit to labels [T], -1 if unlabelled, or a list of them per trial.

        Parameters
        ----------
        class_names : sequence of str, optional
            Names of the labels 0, 1, ...; the trials' own label names by default.
        """
        if self.model is not None:
            self.model.raise_if_failed()
        data = as_trials(trials)
        single = is_single(trials) or (len(data) == 1 and np.ndim(labels) == 1)
        codes, class_names = check_labels(labels, data, single, class_names)
        self._codes = np.unique(np.concatenate(codes))
        self._codes = self._codes[self._codes != UNLABELLED]
        self._scaler = Scaler.from_trials(data)
        self._rate_hz = float(np.median([trial.rate_hz for trial in data]))
        self._learn(data, [np.where(a < 0, UNLABELLED, np.searchsorted(self._codes, a)) for a in codes])
        self.class_names_ = tuple(class_names)
        return self

    def _learn(self, data: Trials, classes: list[Codes]) -> None:
        """Fit the classifier, and cross-validate it to calibrate its probabilities."""
        folds, held_back = _folds(classes, max(2, round(CLIP_SECONDS * self._rate_hz)))
        finest = max(1, round(self._rate_hz / ROWS_PER_SECOND))
        step = max(finest, -(-data.n_samples // MOST_ROWS))
        labelled_step = max(finest, -(-sum(int((a >= 0).sum()) for a in classes) // MOST_LABELLED_ROWS))
        labelled, grid = [], []  # features, states, classes and folds of some rows of each trial
        for trial, a, fold_of in zip(data, classes, folds, strict=True):
            rows = _labelled_rows(a, labelled_step)
            every = np.concatenate([rows, np.arange(0, trial.n_samples, step)])
            columns = (*self._features(trial, every), a[every], fold_of[every])
            labelled.append([column[: len(rows)] for column in columns])
            grid.append([column[len(rows) :] for column in columns])
        x, states, y, fold = (np.concatenate(column) for column in zip(*labelled, strict=True))
        grid_x, grid_states, truth, grid_fold = (np.concatenate(column) for column in zip(*grid, strict=True))

        def fit(kept: npt.NDArray[Any], n_trees: int, number: int) -> Classifier:
            seed = self.seed * (FOLDS + 1) + number
            return Classifier.fit(x[kept], states[kept], y[kept], len(self._codes), n_trees, seed)

        held_out = []
        for number in range(FOLDS):
            kept = fold != number
            rows = (grid_fold == number) & np.isin(truth, y[kept])
            if rows.any() and len(np.unique(y[kept])) > 1:
                held_out.append((*fit(kept, FOLD_TREES, number).predict_log_proba(grid_x, grid_states), rows))
        self.calibrated_on_ = held_back if held_out else "nothing"
        self._calibrate(held_out, truth, [len(part[0]) for part in grid], step)
        self._classifier = fit(np.ones(len(y), bool), TREES, FOLDS)
        self._low, self._high = np.quantile(grid_x, (0.01, 0.99), axis=0).astype(np.float32)

    def _calibrate(
        self, held_out: list[tuple[Float, Float, npt.NDArray[np.bool_]]], truth: Codes, lengths: list[int], step: int
    ) -> None:
        """Choose the weight of states and the temperature that maximise the likelihood of held-out labels."""
        self._state_weight, self._temperature, self.held_out_ = UNKNOWN_STATE_WEIGHT, 1.0, None
        if not held_out:
            return
        known = np.concatenate([truth[rows] for *_, rows in held_out])
        n_clips = len(known) * step / self._rate_hz / CLIP_SECONDS
        best = -np.inf
        for weight in STATE_WEIGHTS if self.model is not None else (0.0,):
            smoothed = [self._smooth(own + weight * other, lengths, step)[rows] for own, other, rows in held_out]
            log_p = np.concatenate(smoothed)
            for temperature in TEMPERATURES:
                likelihood = hmm.log_normalise(log_p / temperature)[0][np.arange(len(known)), known].mean()
                score = float(likelihood - np.log(temperature) ** 2 / 2 / n_clips)  # prior for few clips
                if score > best:
                    best, self._state_weight, self._temperature = score, weight, float(temperature)
                    predicted = log_p.argmax(axis=1)
        if len(np.unique(known)) > 1:
            self.held_out_ = measure_agreement(predicted, known)

    def _smooth(self, log_p: Float, lengths: list[int], step: int = 1) -> Float:
        """Return log marginals [R, W] of a sticky chain over every `step`-th sample."""
        n = log_p.shape[1]
        stay = max(0.9, 1 - 1 / (MEAN_BOUT_SECONDS * self._rate_hz)) ** step
        transition = np.where(np.eye(n, dtype=bool), np.log(stay), np.log((1 - stay) / (n - 1)))
        starts = np.zeros(len(log_p), bool)
        starts[np.cumsum([0, *lengths[:-1]])] = True
        evidence = min(1.0, INDEPENDENT_PER_SECOND * step / self._rate_hz) * log_p
        return np.log(hmm.posterior(evidence, np.full(n, -np.log(n)), transition, starts).states + TINY)

    def predict_proba(self, trials: TrialsLike) -> Any:
        """Return calibrated probabilities [T, C], 0 for classes without labels; a list for several trials."""
        return self._each(trials, self._predict)

    def predict(self, trials: TrialsLike) -> Any:
        """Return the most probable label [T]; a list for several trials."""
        return self._each(trials, lambda trial: self._predict(trial).argmax(axis=1))

    def unfamiliar_share(self, trials: TrialsLike) -> Any:
        """Return the share of features outside the central 98% of the training recordings' features."""

        def share(trial: Trial) -> float:
            x, _ = self._features(trial)
            return float(((x < self._low) | (x > self._high)).mean())

        return self._each(trials, share)

    def _predict(self, trial: Trial) -> Array:
        own, other = self._classifier.predict_log_proba(*self._features(trial))
        smoothed = self._smooth(own + self._state_weight * other, [trial.n_samples])
        found = np.zeros((trial.n_samples, len(self.class_names_)), np.float32)
        found[:, self._codes] = hmm.softmax(smoothed / self._temperature)[0]
        return found

    def _features(self, trial: Trial, rows: npt.NDArray[np.intp] | None = None) -> tuple[Array, Array]:
        """Return window features [R, F] and soft states [R, K] of some or all rows."""
        x = window_features(self._scaler.apply(trial.y), self._rate_hz, rows)
        if self.model is None:
            return x, np.zeros((len(x), 0), np.float32)
        states = np.asarray(
            infer_quickly(self.model, trial), np.float32
        )  # exact ones are slow with many missing values
        return x, states if rows is None else states[rows]

    def _each(self, trials: TrialsLike, function: Any) -> Any:
        if not self.class_names_:
            raise NotFittedError("This LabelModel is not fitted yet. Call fit() first, or LabelModel.load().")
        data = as_trials(trials)
        if data.n_channels != len(self._scaler.center):
            raise DataError(
                f"Labels were learned on {len(self._scaler.center)} channels; this data has {data.n_channels}."
            )
        results = [function(trial) for trial in data]
        return results[0] if is_single(trials) else results

    # ---- saving -------------------------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write the label model, with its base model, to one safetensors file."""
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
        if not self.class_names_:
            raise NotFittedError("This LabelModel is not fitted yet. Call fit() first.")
        tensors: dict[str, npt.NDArray[Any]] = {
            "center": self._scaler.center,
            "scale": self._scaler.scale,
            "codes": self._codes,
        }
        tensors |= {"low": self._low, "high": self._high}
        tensors |= {f"classifier.{name}": value for name, value in self._classifier.to_arrays().items()}
        if self.model is not None:
            tensors["model"] = np.frombuffer(self.model.to_bytes(), np.uint8)
        header = {
            "family": "labels",
            "class_names": list(self.class_names_),
            "seed": self.seed,
            "rate_hz": self._rate_hz,
            "temperature": self._temperature,
            "state_weight": self._state_weight,
            "calibrated_on": self.calibrated_on_,
            "held_out": self.held_out_,
        }
        return encode(tensors, header)

    @classmethod
    def load(cls, path: str | Path) -> LabelModel:
        """Read a label model that `save` wrote."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read ({error}).") from error
        return cls.from_bytes(content, str(path))

    @classmethod
    def from_bytes(cls, content: bytes, path: str = "The label model") -> LabelModel:
        """Read a label model from its file's content; messages mention `path`."""
        tensors, header = decode(content, path, families=("labels",))
        try:
            base = tensors.get("model")
            found = cls(None if base is None else model_from_bytes(base.tobytes(), path), seed=int(header["seed"]))
            found.class_names_ = tuple(str(name) for name in header["class_names"])
            found.calibrated_on_ = get_args(CalibratedOn)[get_args(CalibratedOn).index(header["calibrated_on"])]
            found.held_out_ = None if header["held_out"] is None else Agreement(*header["held_out"])
            found._scaler = Scaler(tensors["center"], tensors["scale"])
            found._codes, found._low, found._high = tensors["codes"], tensors["low"], tensors["high"]
            found._rate_hz, found._temperature = float(header["rate_hz"]), float(header["temperature"])
            found._state_weight = float(header["state_weight"])
            prefix = "classifier."
            arrays = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
            found._classifier = Classifier.from_arrays(arrays)
            probe = np.zeros((1000, len(found._scaler.center)), np.float32)
            fits = np.isfinite(found.predict_proba(probe)).all() and found.unfamiliar_share(probe) >= 0
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: its parts do not match ({shorten(error)}). The file is damaged.") from error
        if not fits:
            raise ModelFileError(f"{path}: its parts do not match. The file is damaged.")
        return found


def _folds(classes: list[Codes], clip: int) -> tuple[list[Codes], CalibratedOn]:
    """Return each labelled sample's fold, by recording or by parts of one."""
    labelled = [i for i, a in enumerate(classes) if (a >= 0).any()]
    if len(labelled) > 1:
        fold = {i: number * FOLDS // max(len(labelled), FOLDS) for number, i in enumerate(labelled)}
        return [np.where(a < 0, UNLABELLED, fold.get(i, UNLABELLED)) for i, a in enumerate(classes)], "recordings"
    clips, n_clips = [], 0
    for a in classes:
        known = a >= 0
        begins = known & ~np.concatenate([[False], known[:-1]])
        since = np.arange(len(a)) - np.maximum.accumulate(np.where(begins, np.arange(len(a)), 0))
        begins |= known & (since % clip == 0)
        clips.append(np.where(known, np.cumsum(begins) - 1 + n_clips, UNLABELLED))
        n_clips += int(begins.sum())
    return [np.where(a < 0, UNLABELLED, a * FOLDS // n_clips) for a in clips], "parts"


def _labelled_rows(classes: Codes, step: int) -> npt.NDArray[np.intp]:
    """Return every `step`-th labelled sample and the first of each bout, to keep every class."""
    labelled = np.flatnonzero(classes >= 0)
    changes = np.flatnonzero(np.diff(classes[labelled], prepend=-1) != 0)
    return np.union1d(labelled[::step], labelled[changes])
