"""Dataset of a page: training and held-out trials, and their names in pictures, files and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from datasets import windows
from datasets.keypoints import KeypointTable
from datasets.splits import is_part, usable
from gdm_core.analysis.bouts import LONGEST_S, BoutRule, fit_bout_rule
from gdm_core.analysis.first_guess import SliderStart, suggest
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.models.latent import principal_components
from gdm_core.trials import Trial, Trials, describe_missing
from gdm_core.units import Unit, unit_for
from pages.lab.naming import LabelNames, words_of
from pages.ui import model_controls, settings
from pages.ui.controls import one_of
from pages.ui.exports import Recipe

MOST_LATENT = model_controls.D_RANGE[1]
OF_ANIMALS = BoutRule(1.0, 0.5)
FEW_SAMPLES = 3
MAX_PREVIEWED = 60_000  # samples
LONGEST_STEPS = 50.0  # of smoothing bouts


def rule_words(rule: BoutRule, counted: str) -> str:
    """Return the rule of bouts as a part of a sentence."""
    if rule.plain:
        return "as fitted"
    unit = "steps" if counted == "step" else "s"
    return f"smoothed over {rule.smooth_s:g} {unit}, none below {rule.shortest_s:g} {unit}"


def count_previewed(trials: Trials) -> int:
    """Return how many of the first trials a running fit shows; all trials of a large set would slow it down."""
    ends = np.cumsum([trial.n_samples for trial in trials])
    return max(1, int(np.searchsorted(ends, MAX_PREVIEWED, side="right")))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and held-out trials, their provenance, and the recipe that recreates them.

    about        one line for the header of the page and the titles of files
    train, test  training and held-out trials: the same objects in every run, to compute fingerprints once
    recipe       code that recreates the data in a script
    truth        known soft states [T, any number] of the training trials, which get the first colours
    unit         "s", or "step" for samples without a time
    tested       name of `test` in sentences
    keep         whether results may stay on disk; not for uploads
    source       source of the data, as the page knows it
    columns      further columns of a table of samples, for a trial
    name         name of the recording in file names; "" for simulated data
    called       titles of channels on the screen, by name

    For recordings:

    key          name of the content, for addresses and caches
    of           scope of the recording's controls; "" for simulated ones
    recorded     whether it has bouts, and labels of an expert
    poses        keypoints behind each trial, training trials first; () for tables
    recordings   recording of each trial that consists of windows; () for samples
    notes        sentences on repairs and omissions
    first_guess  initial K and D; None to guess from the training trials
    """

    about: str
    train: Trials
    test: Trials
    recipe: Recipe
    truth: tuple[npt.NDArray[np.float32], ...] | None = None
    unit: Literal["s", "step"] = "s"
    tested: str = "held-out trial"
    licences: tuple[str, ...] = ()
    keep: bool = True
    source: Any = None
    columns: Callable[[Trial], dict[str, Any]] = lambda trial: {}
    name: str = ""
    called: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    scope: str = ""
    recorded: bool = False
    poses: tuple[KeypointTable, ...] = ()
    recordings: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    first_guess: SliderStart | None = None

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Training trials, then held-out trials."""
        return (*self.train, *self.test)

    @property
    def time_unit(self) -> Unit:
        """Unit of time that suits the range of all trials."""
        ends = [trial.start_seconds + trial.n_samples / trial.rate_hz for trial in self.trials]
        return unit_for(max(ends) - min(trial.start_seconds for trial in self.trials), self.unit)

    @cached_property
    def fitted_recordings(self) -> Trials:
        """Recordings of the training trials."""
        return replace(self.train, trials=self.recordings[: len(self.train)]) if self.recordings else self.train

    def recording(self, index: int) -> Trial:
        """Return the recording of a trial; it has more samples than a trial of windows."""
        return (self.recordings or self.trials)[index]

    def to_samples(self, index: int, states: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return states of every sample of a recording from the states of its trial."""
        if not self.recordings:
            return states
        return windows.to_samples([states], [self.trials[index]], [self.recordings[index]])[0]

    # ---- recordings ------------------------------------------------------------------------------------------
    @cached_property
    def every_label(self) -> tuple[str, ...]:
        """Names of the expert's labels, numbered if the data have none; () without labels."""
        most = max((int(np.max(t.labels, initial=-1)) for t in self.trials if t.labels is not None), default=-1)
        return () if most < 0 else words_of(self.train.label_names, most + 1)

    @property
    def longest(self) -> float:
        """Longest smoothing of bouts."""
        return LONGEST_STEPS if self.unit == "step" else LONGEST_S

    @cached_property
    def expert_rule(self) -> BoutRule | None:
        """Rule of bouts from the training labels; None without labels."""
        known = [np.asarray(trial.labels) for trial in self.train if trial.labels is not None]
        whole = {"unit": 1.0} if self.unit == "step" else {}
        return fit_bout_rule(known, self.train[0].rate_hz, longest=self.longest, **whole)

    @cached_property
    def first_rule(self) -> BoutRule:
        """Default rule of bouts: from the labels, else for animals, else at least three samples."""
        if self.expert_rule is not None:
            return self.expert_rule
        if self.poses:
            return OF_ANIMALS
        step = 1.0 if self.unit == "step" else 0.1
        few = min(round(round(FEW_SAMPLES / self.train[0].rate_hz / step) * step, 6), self.longest)
        return BoutRule(few, few)

    @property
    def bouts_of(self) -> str:
        """Scope of the controls of bouts: the recording and the expert's bouts."""
        return settings.scope(self.scope, self.expert_rule, *([self.unit] if self.unit == "step" else []))

    @cached_property
    def words(self) -> LabelNames | None:
        """Names and colours of the expert's labels; None without labels."""
        labels = [trial.labels for trial in self.trials] if self.recorded else []
        return LabelNames.from_labels(self.train.label_names, labels)

    @cached_property
    def suggestion(self) -> SliderStart:
        """First guess of K and D."""
        return self.first_guess or suggest(self.train)

    @property
    def start(self) -> tuple[int, int]:
        """Default (K, D) within the range of the controls."""
        return self.suggestion.n_states, min(self.suggestion.n_latent, MOST_LATENT, self.train.n_channels)

    @property
    def why_latent(self) -> str:
        """Reason for the default D."""
        why = self.suggestion.why_latent
        return why if self.suggestion.n_latent == self.start[1] else f"the most available; {why}"

    def is_new(self, index: int) -> bool:
        return index >= len(self.train)

    @cached_property
    def quality(self) -> str:
        """Sentences on missing, repeated and extrapolated values; "" without any."""
        repeated = (f"{line[0].upper()}{line[1:]}." for line in self.train.repeats.describe(self.train[0].channels))
        outside = describe_held_out(self.train, self.test)
        return " ".join(filter(None, (describe_missing(self.trials), *repeated, outside)))

    def describe_left_out(self, n_latent: int) -> str:
        """Return a sentence about the variance that D dimensions leave out; "" without any."""
        return principal_components(self.train).describe_left_out(n_latent, MOST_LATENT)

    def title(self, index: int) -> str:
        trial = self.trials[index]
        return f"{'Held-out' if self.is_new(index) else 'Training'}: {trial.name}"

    def observation(self, trial: Trial) -> str:
        """Return the name of the recording that contains a trial."""
        return f"{self.train.name}" if is_part(trial.name) else trial.name

    @property
    def subject(self) -> str:
        """Names of the animals of a recording of poses."""
        return ", ".join(self.poses[0].animals) if self.poses else ""

    def pose(self, index: int) -> KeypointTable | None:
        return self.poses[index] if index < len(self.poses) else None

    def known_states(self) -> tuple[npt.NDArray[np.float32], ...] | None:
        """Return expert labels of the previewed training trials as states [T, labels]; None if a trial has none."""
        words = self.words
        known = [trial.labels for trial in self.train if trial.labels is not None]
        if words is None or len(known) < len(self.train):
            return None
        return tuple(words.one_hot(labels) for labels in known[: count_previewed(self.train)])


def from_trials(
    key: str, about: str, train: Trials, test: Trials, recipe: Recipe, *, notes: Sequence[str] = (), **more: Any
) -> Dataset:
    """Return the dataset of a recording, without unusable trials and channels; `more` are other fields."""
    ours, theirs, dropped = usable(train, test)
    if dropped:
        recipe = replace(recipe, lines=[*recipe.lines, "train, test, left_out = splits.usable(train, test)"])
    made = Dataset(about, ours, theirs, recipe, key=key, recorded=True, notes=(*notes, *dropped), **more)
    return replace(made, truth=made.known_states())


def pick_trial(data: Dataset) -> int:
    """Show the choice of a trial and return its number; default: the first held-out trial."""
    help = "The model is fitted to the training trials and has never seen the held-out ones."
    titles, key = _titles(data), settings.key("trial", data.scope)
    names = list(titles)
    return names.index(one_of("Trial", titles, names[len(data.train)], key=key, help=help))


def go_to(data: Dataset, index: int) -> None:
    """Show a trial, as the `on_click` of a button."""
    settings.change(settings.key("trial", data.scope), list(_titles(data).values())[index])


def _titles(data: Dataset) -> dict[str, str]:
    """Return the titles of trials by their names."""
    return {f"{'new' if data.is_new(i) else 'fit'}-{i}": data.title(i) for i in range(len(data.trials))}
