"""What a page fits: two sets of trials, how pictures, files and scripts call them, what is known of the recording, and which trial
is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from datasets import windows
from datasets.features import PcaPreview, SliderStart, principal_components, suggest
from datasets.keypoints import KeypointTable
from datasets.splits import is_part, usable
from gdm_core.analysis.bouts import LONGEST_S, BoutRule, like_expert
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
LONGEST_STEPS = 50.0  # that bouts are smoothed over


def rule_words(rule: BoutRule, counted: str) -> str:
    """How bouts are read, as a part of a sentence."""
    if rule.plain:
        return "as fitted"
    unit = "steps" if counted == "step" else "s"
    return f"smoothed over {rule.smooth_s:g} {unit}, none below {rule.shortest_s:g} {unit}"


def count_previewed(trials: Trials) -> int:
    """Return how many of the first trials a running fit shows: all of a long set would slow it down."""
    total = 0
    for count, trial in enumerate(trials, start=1):
        total += trial.n_samples
        if total > MAX_PREVIEWED:
            return max(1, count - 1)
    return len(trials)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Trials, ready to fit.

    about      in a line, for the header of the page and the titles of files
    train      what the model is fitted to; test, which it has never seen. The same objects from run to run of a page, so
               that their fingerprints are computed once
    recipe     how a script of one's own makes or reads the same
    truth      known soft states of the training trials, [T, any number] each: they get the first colours
    unit       "s", or "step" where samples have no time
    tested     what `test` is called in sentences
    facts      (name, value) for reports
    keep       whether finished fits may stay on disk: not for what somebody uploaded
    source     the page's own record of where the data come from
    name       of the recording, for names of files; "" where the page's own says enough
    called     what channels are called on the screen, by their names, where those say little

    Of a recording besides:

    key        names the content, for addresses and caches
    of         names the recording alone, whatever is done to it: what its controls belong to, "" for the simulated ones
    recorded   bouts are read, and labels of trials are what an expert called each moment
    poses      the recording behind each trial, fitted ones first; () for plain tables
    recordings what the trials, which are windows, summarise, in the same order; () where samples are fitted
    notes      sentences on what was found and done
    """

    about: str
    train: Trials
    test: Trials
    recipe: Recipe
    truth: tuple[npt.NDArray[np.float32], ...] | None = None
    unit: Literal["s", "step"] = "s"
    tested: str = "new trial"
    facts: tuple[tuple[str, str], ...] = ()
    licences: tuple[str, ...] = ()
    keep: bool = True
    source: Any = None
    name: str = ""
    called: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    of: str = ""
    recorded: bool = False
    poses: tuple[KeypointTable, ...] = ()
    recordings: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Fitted ones first, then the new ones."""
        return (*self.train, *self.test)

    @property
    def time_unit(self) -> Unit:
        """What time is written in: it suits all that lies between the earliest and the latest moment of any trial."""
        ends = [trial.start_seconds + trial.n_samples / trial.rate_hz for trial in self.trials]
        return unit_for(max(ends) - min(trial.start_seconds for trial in self.trials), self.unit)

    def step(self, trial: Trial) -> float:
        """From one sample to the next, in `unit`: samples without a time are a second long."""
        return 1.0 / trial.rate_hz

    @cached_property
    def fitted_recordings(self) -> Trials:
        """The recordings of the fitted trials."""
        return replace(self.train, trials=self.recordings[: len(self.train)]) if self.recordings else self.train

    def recording(self, index: int) -> Trial:
        """Return the recording of a trial, which has more samples than the trial where windows are fitted."""
        return (self.recordings or self.trials)[index]

    def to_samples(self, index: int, states: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return states of every sample of a recording from those of its trial."""
        if not self.recordings:
            return states
        return windows.to_samples([states], [self.trials[index]], [self.recordings[index]])[0]

    # ---- of a recording ------------------------------------------------------------------------------------------
    @property
    def label_names(self) -> tuple[str, ...]:
        return self.train.label_names

    @cached_property
    def every_label(self) -> tuple[str, ...]:
        """The expert's words, also for labels that the data give no name; () without labels."""
        most = max((int(np.max(t.labels, initial=-1)) for t in self.trials if t.labels is not None), default=-1)
        return () if most < 0 else words_of(self.label_names, most + 1)

    @property
    def longest(self) -> float:
        """The most that bouts are smoothed over."""
        return LONGEST_STEPS if self.unit == "step" else LONGEST_S

    @cached_property
    def expert_rule(self) -> BoutRule | None:
        """How to read bouts, as the labels of the fitted trials suggest; None without labels."""
        known = [np.asarray(trial.labels) for trial in self.train if trial.labels is not None]
        whole = {"unit": 1.0} if self.unit == "step" else {}
        return like_expert(known, self.train[0].rate_hz, longest=self.longest, **whole)

    @cached_property
    def first_rule(self) -> BoutRule:
        """How bouts are read at first: as the labels suggest; without any, as bouts of animals, or of three samples at the
        least: among soft states, which of them is strongest for a sample or two is chance."""
        if self.expert_rule is not None:
            return self.expert_rule
        if self.poses:
            return OF_ANIMALS
        step = 1.0 if self.unit == "step" else 0.1
        few = min(round(round(FEW_SAMPLES / self.train[0].rate_hz / step) * step, 6), self.longest)
        return BoutRule(few, few)

    @property
    def bouts_of(self) -> str:
        """What the controls of bouts belong to: this recording, with the expert's bouts that they start from."""
        return settings.scope(self.of, self.expert_rule, *([self.unit] if self.unit == "step" else []))

    @cached_property
    def words(self) -> LabelNames | None:
        """What the expert saw, as pictures show it; None without labels."""
        return None if not self.recorded else LabelNames.of(self.label_names, [trial.labels for trial in self.trials])

    @cached_property
    def suggestion(self) -> SliderStart:
        """What a first look at the fitted trials says of K and D."""
        return suggest(self.train)

    @cached_property
    def components(self) -> PcaPreview:
        """Principal components of the fitted trials."""
        return principal_components(self.train)

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

    @cached_property
    def missing(self) -> str:
        """How much of the data is missing, in a sentence; "" if nothing is."""
        return describe_missing(self.trials)

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
        return tuple(words.hot(labels) for labels in known[: count_previewed(self.train)])


def from_trials(
    key: str, about: str, train: Trials, test: Trials, recipe: Recipe, *, notes: Sequence[str] = (), **more: Any
) -> Dataset:
    """Trials of a recording, with what a fit cannot use left out and said so; `more` are other fields of the data."""
    ours, theirs, dropped = usable(train, test)
    if dropped:
        recipe = replace(recipe, lines=[*recipe.lines, "train, test, left_out = splits.usable(train, test)"])
    made = Dataset(about, ours, theirs, recipe, key=key, recorded=True, notes=(*notes, *dropped), **more)
    return replace(made, truth=made.known_states())


def pick_trial(data: Dataset) -> int:
    """Show the choice of a trial and return its number; the first new one by default."""
    said = "The model is fitted to some trials and has never seen the new ones."
    names = list(_titles(data))
    return names.index(one_of("Trial", _titles(data), names[len(data.train)], key="trial", of=data.of, help=said))


def go_to(data: Dataset, index: int) -> None:
    """Show that trial, as the `on_click` of a button."""
    settings.change(settings.key("trial", data.of), list(_titles(data).values())[index])


def _titles(data: Dataset) -> dict[str, str]:
    """Return the titles of trials by their names."""
    return {f"{'new' if data.is_new(i) else 'fit'}-{i}": data.title(i) for i in range(len(data.trials))}
