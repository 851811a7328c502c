"""How recordings become what a lab fits: poses as features, and what a fit cannot use left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from datasets.features import in_unit
from datasets.keypoints import FeatureSet, KeypointSet
from datasets.splits import usable
from gdm_core.trials import Trials
from pages.lab import Data
from pages.ui.exports import Recipe

FEATURES: dict[FeatureSet, str] = {"egocentric": "What they do", "keypoints": "Raw keypoints"}


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
    made = Data(about, ours, theirs, recipe, key=key, recorded=True, notes=(*notes, *dropped), **more)
    return replace(made, truth=made.known_states())
