"""What a lab works on: trials to fit and trials to test on, the poses behind them, and how a script gets the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.features import in_unit
from datasets.keypoints import FeatureSet, KeypointSet, KeypointTable
from datasets.preview import PcaPreview, Suggestion, principal_components, suggest
from datasets.splits import is_part, usable
from gdm_core.analysis.bouts import BoutRule, like_expert
from gdm_core.trials import Trial, Trials
from pages import lab
from pages.lab.live.pictures import previewed
from pages.recording.labels import Words, words_of
from pages.recording.units import longest
from pages.ui import model_controls, settings
from pages.ui.exports import Recipe

MOST_LATENT = model_controls.D_RANGE[1]
OF_ANIMALS = BoutRule(1.0, 0.5)
FEW_SAMPLES = 3
FEATURES: dict[str, str] = {"egocentric": "What they do", "keypoints": "Raw keypoints"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Data(lab.Data):
    """Trials, ready to fit.

    key         names the content, for addresses and caches
    of          names the recording alone, whatever is done to it: what its controls belong to, "" for the simulated ones
    poses       the recording behind each trial, fitted ones first; () for plain tables
    notes       sentences on what was found and done
    """

    key: str
    suggestion: Suggestion
    components: PcaPreview
    poses: tuple[KeypointTable, ...] = ()
    notes: tuple[str, ...] = ()
    of: str = ""

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.train.label_names

    @cached_property
    def every_label(self) -> tuple[str, ...]:
        """The expert's words, also for labels that the data give no name; () without labels."""
        most = max((int(np.max(t.labels, initial=-1)) for t in self.trials if t.labels is not None), default=-1)
        return () if most < 0 else words_of(self.label_names, most + 1)

    @cached_property
    def expert_rule(self) -> BoutRule | None:
        """How to read bouts, as the labels of the fitted trials suggest; None without labels."""
        known = [np.asarray(trial.labels) for trial in self.train if trial.labels is not None]
        whole = {"unit": 1.0} if self.unit == "step" else {}
        return like_expert(known, self.train[0].rate_hz, longest=longest(self.unit), **whole)

    @cached_property
    def first_rule(self) -> BoutRule:
        """How bouts are read at first: as the labels suggest; without any, as bouts of animals, or of three samples at the
        least: among soft states, which of them is strongest for a sample or two is chance."""
        if self.expert_rule is not None:
            return self.expert_rule
        if self.poses:
            return OF_ANIMALS
        step = 1.0 if self.unit == "step" else 0.1
        few = min(round(round(FEW_SAMPLES / self.train[0].rate_hz / step) * step, 6), longest(self.unit))
        return BoutRule(few, few)

    @property
    def bouts_of(self) -> str:
        """What the controls of bouts belong to: this recording, with the expert's bouts that they start from."""
        return settings.of(self.of, self.expert_rule, *([self.unit] if self.unit == "step" else []))

    @cached_property
    def words(self) -> Words | None:
        """What the expert saw, as pictures show it; None without labels."""
        return Words.of(self.label_names, [trial.labels for trial in self.trials])

    @property
    def start(self) -> tuple[int, int]:
        """(K, D) to begin with, within what the controls offer: a first look, no recommendation (gdm_core/engine/suggest.py)."""
        return self.suggestion.n_states, min(self.suggestion.n_latent, MOST_LATENT, self.train.n_channels)

    @property
    def why_latent(self) -> str:
        """The reason for the D to begin with."""
        most, wanted = self.start[1], self.suggestion.n_latent
        return self.suggestion.why_latent if wanted == most else f"as many as are offered; {self.suggestion.why_latent}"

    def is_new(self, index: int) -> bool:
        return index >= len(self.train)

    def title(self, index: int) -> str:
        trial = self.trials[index]
        return f"{'New' if self.is_new(index) else 'Fitted'}: {trial.name}"

    def observation(self, trial: Trial) -> str:
        """The recording that a trial is, or is a part of."""
        return f"{self.train.name}" if is_part(trial.name) else trial.name

    @property
    def subject(self) -> str:
        """Whom the states are about: the animals of a recording of poses."""
        return ", ".join(self.poses[0].animals) if self.poses else ""

    def pose(self, index: int) -> KeypointTable | None:
        return self.poses[index] if index < len(self.poses) else None

    def known_states(self) -> tuple[npt.NDArray[np.float32], ...] | None:
        """Expert labels of the fitted trials as states [T, labels], where every trial has some. Long sets are previewed in
        part, and only that part has them."""
        words = self.words
        known = [trial.labels for trial in self.train if trial.labels is not None]
        if words is None or len(known) < len(self.train):
            return None
        return tuple(words.hot(labels) for labels in known[: previewed(self.train)])


def from_recordings(
    key: str, about: str, train: KeypointSet, test: KeypointSet, features: FeatureSet, recipe: Recipe, **more: Any
) -> Data:
    """Poses as features; `more` is as in `from_trials`."""
    poses, (fitted, new) = (*train.tables, *test.tables), (train.to_trials(features), test.to_trials(features))
    called = in_unit(fitted[0].channels, poses[0].unit)
    return from_trials(key, about, fitted, new, recipe, poses=poses, called=called, **more)


def from_trials(
    key: str, about: str, train: Trials, test: Trials, recipe: Recipe, *, notes: Sequence[str] = (), **more: Any
) -> Data:
    """Trials, with what a fit cannot use left out and said so; `more` are other fields of the data."""
    ours, theirs, dropped = usable(train, test)
    if dropped:
        recipe = replace(recipe, lines=[*recipe.lines, "train, test, left_out = splits.usable(train, test)"])
    made = Data(
        about, ours, theirs, recipe, key=key, suggestion=suggest(ours), components=principal_components(ours),
        notes=(*notes, *dropped), **more,
    )  # fmt: skip
    return replace(made, truth=made.known_states())
