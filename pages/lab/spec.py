"""The fit that a page requests, in code and in words, and the scores of its card."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from gdm_core.analysis import inference
from gdm_core.engine.spec import FitSpec
from gdm_core.models.scaling import Scaler
from pages.lab.dataset import Dataset, count_previewed
from pages.ui.model_controls import Choice


@dataclass(frozen=True)
class Measure:
    """Scores of the card.

    scores    function of (model_bytes, train, test, *options, seed) that yields known scores, with the next part as "under_way"
    options   further plain arguments
    words     the options in words, to label scores of an earlier result
    """

    scores: Callable[..., Any] = field(default_factory=lambda: inference.score_parts)
    options: tuple[Any, ...] = ()
    words: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class PageSpec(FitSpec):
    """A FitSpec with its dataset, model choice and scores."""

    dataset: Dataset
    choice: Choice
    measure: Measure = field(default_factory=Measure)

    @classmethod
    def from_choice(cls, dataset: Dataset, choice: Choice, measure: Measure | None = None, **changes: Any) -> Self:
        """Return the fit of a dataset with a model choice; `changes` override its configuration."""
        return cls(
            choice.family,
            {**choice.config, **changes},
            dataset.train,
            preview=tuple(range(count_previewed(dataset.train))),
            use_cache=dataset.keep,
            dataset=dataset,
            choice=choice,
            measure=measure or Measure(),
        )

    @property
    def n_states(self) -> int:
        return int(self.config["n_states"])

    @cached_property
    def number(self) -> str:
        """Name of the settings: the fit and its held-out trials."""
        return hashlib.sha256(f"{self.key}/{self.dataset.test.fingerprint}".encode()).hexdigest()[:12]

    @cached_property
    def log_scale(self) -> float:
        """Difference of the ELBO in standardised units and in the data's units, in nats per time step.

        Only observed values change their units, so channels with gaps count less.
        """
        scaler = Scaler.from_trials(self.trials)
        return sum(scaler.log_jacobian(trial.y) for trial in self.trials) / self.trials.n_samples

    def describe_changes(self, other: PageSpec) -> str:
        """Return the main settings that differ from `other`, in words; "" if none do."""
        ours, theirs = self.choice, other.choice
        if ours.label != theirs.label:
            return f"{ours.label}, K {ours.n_states}"
        return ", ".join(f"{name} {value}" for name, value in ours.facts if (name, value) not in theirs.facts)
