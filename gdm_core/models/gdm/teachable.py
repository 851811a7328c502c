"""A GDM that can be taught words: labels of a few moments go into its fit, and it names all others."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from gdm_core.errors import FitError
from gdm_core.maths.rows import Rows
from gdm_core.models.base import Array, Progress, StateModel
from gdm_core.models.gdm.evidence import Evidence, learn
from gdm_core.models.gdm.labels import Labels, check_labels
from gdm_core.trials import TrialsLike, as_trials, is_single

STATES_STRENGTH = 0.3  # of what soft states say of words, beside the classifier (docs/teach.md)
_LEAST_SHARE = 1e-3


class TeachableModel(StateModel):
    """The verbs for words. `params_` holds "word_logits" [K, W] after a fit with labels."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._labels: Labels | None = None
        self._rate_hz = 1.0
        self.word_evidence_: Evidence | None = None
        self.class_names_: tuple[str, ...] = ()

    def fit(
        self, trials: TrialsLike, y: Any = None, labels: Any = None, class_names: Sequence[str] | None = None
    ) -> Self:
        """Fit to `trials` (a Trial, an array [T, N], several, or Trials). `y` is ignored: scikit-learn hands it on.

        labels       words for a few moments: [T] whole numbers, -1 elsewhere; a list of such arrays for several trials.
                     States are then tied to words, and `predict_labels` names every moment
        class_names  the words that the numbers stand for; if None the trials' own label names
        """
        for _ in self.fit_iter(trials, labels, class_names):
            pass
        return self

    def fit_iter(
        self,
        trials: TrialsLike,
        labels: Any = None,
        class_names: Sequence[str] | None = None,
        *,
        finish: bool = True,
    ) -> Iterator[Progress]:
        """Fit to `trials` step by step, with `labels` and `class_names` as in `fit`.

        Closing the iterator early leaves a usable model with status CANCELLED. Without `finish`
        there is no score and no calibration in the end.
        """
        self._labels, self.word_evidence_, self.class_names_ = None, None, ()
        data = as_trials(trials)
        if labels is not None:
            one = is_single(trials) or (len(data) == 1 and np.ndim(labels) == 1)
            self._labels = check_labels(labels, data, one, class_names, self.config.n_states)
            self._rate_hz = float(np.median([trial.rate_hz for trial in data]))
        return super().fit_iter(data, finish=finish)

    def predict_label_proba(self, data: TrialsLike) -> Any:
        """Calibrated probability of each word [T, C] at each time of `data`, in the order of `class_names_`.

        It is 0 for words that were never marked.
        """
        return self._each(data, self._word_probabilities)

    def predict_labels(self, data: TrialsLike) -> Any:
        """The likeliest word [T] at each time of `data`, a number into `class_names_`."""
        return self._each(data, lambda y: self._word_probabilities(y).argmax(axis=1))

    def label_disagreement(self, data: TrialsLike) -> Any:
        """[T] how much a mark at each time of `data` would tell, in nats: what classifiers that lack a part of the marks each
        disagree about."""
        return self._each(data, self._taught.disagreement)

    def strange_share(self, data: TrialsLike) -> Any:
        """Share of the features of `data` that lie outside of what the recordings that were taught hold (98 % of theirs)."""
        return self._each(data, self._taught.strange_share)

    @property
    def word_map_(self) -> npt.NDArray[np.float32]:
        """[K, C] probability of each word in each state."""
        return self._taught.spread(self._word_shares)

    @property
    def state_words_(self) -> tuple[str | None, ...]:
        """The word that each state stands for; None for a free state, in which no word has more than half."""
        return tuple(self.class_names_[int(row.argmax())] if row.max() > 0.5 else None for row in self.word_map_)

    @property
    def _taught(self) -> Evidence:
        self._require_fitted()
        if self.word_evidence_ is None:
            raise FitError("This GDM was taught no words. Give fit() labels of at least two words to predict them.")
        return self.word_evidence_

    @property
    def _word_shares(self) -> npt.NDArray[np.float64]:
        """[K, W] probability of each marked word in each state."""
        return torch.softmax(torch.as_tensor(self.params_["word_logits"]).double(), -1).numpy()

    @abstractmethod
    def _amortised_states(self, y: Array) -> Array:
        """[T, K] mean of q(z), without weights."""

    def _word_probabilities(self, y: Array) -> Array:
        evidence = self._taught
        by_state = self._amortised_states(y).astype(np.float64) @ self._word_shares  # [T, W]
        return evidence.probabilities(y, STATES_STRENGTH * np.log(by_state + _LEAST_SHARE))

    def _with_words(self, rows: Rows, ys: list[Array]) -> Rows:
        """The rows of `ys`, with how much each counts as each word."""
        if self._labels is None:
            return rows
        self.class_names_ = self._labels.names
        self.word_evidence_, guess = learn(ys, self._labels, self._rate_hz, self.config.seed)
        weights = guess.row_weights(rows.y.shape[1], [len(y) for y in ys])
        return dataclasses.replace(rows, words=torch.as_tensor(weights, device=rows.y.device))

    def _beside_parameters(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        if self.word_evidence_ is None:
            return {}, {}
        arrays = {f"evidence.{name}": value for name, value in self.word_evidence_.arrays().items()}
        return arrays, {"class_names": list(self.class_names_)}

    @classmethod
    def from_file(cls, tensors: dict[str, Array], header: dict[str, Any]) -> StateModel:
        model = super().from_file(tensors, header)
        kept = {k.removeprefix("evidence."): value for k, value in tensors.items() if k.startswith("evidence.")}
        if kept and isinstance(model, TeachableModel):
            model.word_evidence_, model.class_names_ = Evidence.from_arrays(kept), tuple(header["class_names"])
        return model
