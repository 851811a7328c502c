"""What a lab works on: trials to fit and trials to test on, the poses behind them, and how a script gets the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.keypoints import FeatureSet, KeypointSet, KeypointTable
from datasets.preview import PcaPreview, Suggestion, principal_components, suggest
from gdm_core.analysis.bouts import BoutRule, like_expert
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials
from pages import lab
from pages.lab.live.pictures import previewed
from pages.recording.labels import Words, words_of
from pages.ui import model_controls, settings
from pages.ui.exports import Recipe

HELD_OUT = 0.4
PART = re.compile(r"(first|last) \d+ %")  # how the two parts of one recording are called
MOST_LATENT = model_controls.D_RANGE[1]
FEATURES: dict[str, str] = {"egocentric": "What they do", "keypoints": "Raw keypoints"}


@dataclass(frozen=True, eq=False)
class Data:
    """Trials, ready to fit.

    key         names the content, for addresses and caches
    of          names the recording alone, whatever is done to it: what its controls belong to, "" for the simulated ones
    poses       the recording behind each trial, fitted ones first; () for plain tables
    notes       sentences on what was found and done
    """

    key: str
    about: str
    train: Trials
    test: Trials
    suggestion: Suggestion
    components: PcaPreview
    recipe: Recipe
    poses: tuple[KeypointTable, ...] = ()
    notes: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    of: str = ""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Fitted ones first, then the new ones."""
        return (*self.train, *self.test)

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
        return like_expert(known, self.train[0].rate_hz)

    @property
    def bouts_of(self) -> str:
        """What the controls of bouts belong to: this recording, with the expert's bouts that they start from."""
        return settings.of(self.of, self.expert_rule)

    @cached_property
    def words(self) -> Words | None:
        """What the expert saw, as pictures show it; None without labels."""
        return Words.of(self.label_names, [trial.labels for trial in self.trials])

    @property
    def start(self) -> tuple[int, int]:
        """(K, D) to begin with: as suggested, within what the controls offer."""
        return self.suggestion.n_states, min(self.suggestion.n_latent, MOST_LATENT, self.train.n_channels)

    def to_fit(self, keep: bool) -> lab.Data:
        """The same as every page with a fit has it. Long sets are previewed in part, so only that part has a truth."""
        truth = self.truth()
        shown = None if truth is None else truth[: previewed(self.train)]
        return lab.Data(
            self.about, self.train, self.test, self.recipe, truth=shown, licences=self.licences, keep=keep, source=self
        )

    def is_new(self, index: int) -> bool:
        return index >= len(self.train)

    def title(self, index: int) -> str:
        trial = self.trials[index]
        return f"{'New' if self.is_new(index) else 'Fitted'}: {trial.name}"

    def observation(self, trial: Trial) -> str:
        """The recording that a trial is, or is a part of."""
        return f"{self.train.name}" if PART.fullmatch(trial.name) else trial.name

    @property
    def subject(self) -> str:
        """Whom the states are about: the animals of a recording of poses."""
        return ", ".join(self.poses[0].animals) if self.poses else ""

    def pose(self, index: int) -> KeypointTable | None:
        return self.poses[index] if index < len(self.poses) else None

    def truth(self) -> tuple[npt.NDArray[np.float32], ...] | None:
        """Expert labels of the fitted trials as states [T, labels], where every trial has some."""
        words = self.words
        known = [trial.labels for trial in self.train if trial.labels is not None]
        if words is None or len(known) < len(self.train):
            return None
        return tuple(words.hot(labels) for labels in known)


def from_recordings(
    key: str,
    about: str,
    train: KeypointSet,
    test: KeypointSet,
    features: FeatureSet,
    recipe: Recipe,
    *,
    notes: Sequence[str] = (),
    licences: Sequence[str] = (),
    of: str = "",
) -> Data:
    """Poses as features, with what a fit cannot use left out and said so."""
    ours, theirs, kept, dropped = usable(train.to_trials(features), test.to_trials(features))
    if dropped:
        recipe = narrowed(recipe, kept)
    return from_trials(
        key, about, ours, theirs, recipe, notes=(*notes, *dropped), licences=licences,
        poses=(*train.tables, *test.tables), of=of,
    )  # fmt: skip


def from_trials(
    key: str,
    about: str,
    train: Trials,
    test: Trials,
    recipe: Recipe,
    *,
    notes: Sequence[str] = (),
    licences: Sequence[str] = (),
    poses: Sequence[KeypointTable] = (),
    of: str = "",
) -> Data:
    return Data(
        key, about, train, test, suggest(train), principal_components(train), recipe, tuple(poses), tuple(notes),
        tuple(licences), of,
    )  # fmt: skip


def narrowed(recipe: Recipe, kept: Sequence[int]) -> Recipe:
    """The recipe, with the line that leaves out what cannot be fitted."""
    lines = [
        f"kept = {list(kept)}  # the channels that vary",
        "train, test = ([trial.y[:, kept] for trial in trials] for trials in (train, test))",
    ]
    return replace(recipe, lines=[*recipe.lines, *lines])


def usable(train: Trials, test: Trials) -> tuple[Trials, Trials, list[int], list[str]]:
    """Both without channels that the fitted trials never show moving, which were kept, and a sentence on the others."""
    y = [trial.y for trial in train]
    low = np.min([_known(v, np.fmin) for v in y], axis=0)
    high = np.max([_known(v, np.fmax) for v in y], axis=0)
    scale = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):
        moves = np.isfinite(low) & np.isfinite(high) & (high - low > 1e-6 * np.maximum(scale, 1e-12))
    if moves.all():
        return train, test, list(range(train.n_channels)), []
    names = train[0].channels
    lost = [names[i] for i in np.flatnonzero(~moves)]
    if not moves.any():
        raise DataError(
            f"None of the {len(names)} channels of {train.name!r} varies in the trials to be fitted. "
            "Check the file, or choose other columns."
        )
    more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
    said = f"left out, since they never vary in the fitted trials: {', '.join(lost[:4])}{more}"
    return _columns(train, moves), _columns(test, moves), np.flatnonzero(moves).tolist(), [said]


def _known(y: npt.NDArray[Any], reduce: np.ufunc) -> npt.NDArray[Any]:
    """[N] smallest or largest known value; the neutral infinity where there is none."""
    return reduce.reduce(y, axis=0, initial=np.inf if reduce is np.fmin else -np.inf)


def _columns(trials: Trials, kept: npt.NDArray[np.bool_]) -> Trials:
    def some(trial: Trial) -> Trial:
        channels = tuple(np.array(trial.channels, dtype=object)[kept])
        return replace(trial, y=trial.y[:, kept], channels=channels)

    return replace(trials, trials=tuple(some(trial) for trial in trials))


def split_recording(table: KeypointTable, held_out: float = HELD_OUT) -> tuple[KeypointSet, KeypointSet]:
    """The first part of one recording to fit, and the rest to test on."""
    at = cut(table.n_frames, held_out)

    def part(frames: slice, name: str) -> KeypointSet:
        scores = None if table.scores is None else table.scores[frames]
        labels = None if table.labels is None else table.labels[frames]
        began = table.start_seconds + (frames.start or 0) / table.rate_hz
        made = replace(table, xy=table.xy[frames], scores=scores, labels=labels, name=name, start_seconds=began)
        return KeypointSet((made,), table.name)

    first, last = round(100 * (1 - held_out)), round(100 * held_out)
    return part(slice(0, at), f"first {first} %"), part(slice(at, None), f"last {last} %")


def split_trials(trials: Trials, held_out: float = HELD_OUT) -> tuple[Trials, Trials]:
    """The first trials to fit and the last to test on; a single one is cut in time."""
    if len(trials) > 1:
        n = max(1, round(held_out * len(trials)))
        return replace(trials, trials=trials.trials[:-n]), replace(trials, trials=trials.trials[-n:])
    trial = trials[0]
    at = cut(trial.n_samples, held_out)
    first, last = round(100 * (1 - held_out)), round(100 * held_out)
    return (
        replace(trials, trials=(replace(trial.slice(0, at), name=f"first {first} %"),)),
        replace(trials, trials=(replace(trial.slice(at, trial.n_samples), name=f"last {last} %"),)),
    )


def cut(n: int, held_out: float) -> int:
    """Where to cut `n` samples."""
    if n < 40:
        raise DataError(f"There are {n} samples; at least 40 are needed to fit on some and test on the rest.")
    return int((1 - held_out) * n)
