"""One model for all animals of a study: what it is fitted to, and what is then read with it. Blind to the sheet, but for
which recordings are of one animal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdm_core.analysis.bouts import BoutRule
from gdm_core.errors import ConfigError, DataError
from gdm_core.labels.model import LabelModel
from gdm_core.maths.gaps import gap_lengths
from gdm_core.models.base import StateModel
from gdm_core.models.loading import model_from_bytes
from gdm_core.study.sheet import counted, listed, near
from gdm_core.study.states import Recording
from gdm_core.trials import UNLABELLED, Stretch, Trial, Trials, describe_missing

MOST_SAMPLES = 200_000  # that a model is fitted to; more changes its states little and costs time
PIECES = 4  # of a recording that is fitted in part, spread over it
FEWEST_SEEN = 0.5  # share of samples with anything in them, below which there was no animal to see
LONGEST_UNSEEN_S = 1.0  # a model bridges gaps; what it says in the middle of a longer one is its guess
RATES_ALIKE = 0.02
STEADY = BoutRule(0.2, 0.2)  # trembling trackers differ from day to day: without it two days of the same mice do, too
UNLIKE = 4.0  # robust standard deviations
Mark = tuple[str, int, int, str]  # recording, first sample, the one after the last, label
LOOKED_AT = 3_000  # samples of a recording, spread over it, that say whether it is unlike the rest


def prepared(recordings: Mapping[str, Trial], notes: list[str]) -> tuple[dict[str, Trial], dict[str, str]]:
    """Recordings that one model can be fitted to, and of those without an animal in view why they are set aside."""
    odd = [name for name, one in recordings.items() if not isinstance(one, Trial)]
    if odd:
        raise DataError(f"Study.fit takes recordings as {{name: Trial}}; {listed(odd)} is something else. "
                        "Make one with Trial(y, rate_hz=...). States that are known go to Study.of_states.")  # fmt: skip
    _check_channels(recordings)
    aside: dict[str, str] = {}
    for name, one in recordings.items():
        share = float((~np.isnan(one.y)).any(axis=1).mean())
        if share < FEWEST_SEEN:
            aside[name] = f"nothing was seen in {1 - share:.0%} of its samples"
    kept = {name: one for name, one in recordings.items() if name not in aside}
    if not kept:
        raise DataError("In no recording an animal was seen for half of the time.")
    usual = float(np.median([one.rate_hz for one in kept.values()]))
    if other := [
        f"{name} ({one.rate_hz:g} Hz)" for name, one in kept.items() if abs(one.rate_hz / usual - 1) > RATES_ALIKE
    ]:
        raise DataError(
            f"{counted(len(other), 'recording')} of another rate than {usual:g} Hz: {listed(other)}. A model learns what happens "
            f"from sample to sample: resample them to {usual:g} Hz, or exclude them in the sheet."
        )
    if missing := describe_missing(kept.values()):
        notes.append(missing)
    if aside:
        notes.append(f"{counted(len(aside), 'recording')} set aside, with nothing to see: {listed(list(aside))}.")
    short = sorted(kept, key=lambda name: kept[name].n_samples)
    if 2 * kept[short[0]].n_samples < np.median([one.n_samples for one in kept.values()]):
        notes.append(
            f"The shortest recording, {short[0]}, has {kept[short[0]].n_samples:,} samples, less than half of the median."
        )
    return kept, aside


def _check_channels(recordings: Mapping[str, Trial]) -> None:
    kinds: dict[Sequence[str], list[str]] = {}
    for name, one in recordings.items():
        kinds.setdefault(tuple(one.channels), []).append(name)
    if len(kinds) > 1:
        (most, _), *others = sorted(kinds.items(), key=lambda item: -len(item[1]))
        said = "; ".join(f"{listed(names)}: {listed(list(kind))}" for kind, names in others)
        raise DataError(
            f"Recordings have different channels. Most have {listed(list(most))}; others not: {said}. "
            "Choose the same channels for all."
        )


def balanced(
    recordings: Mapping[str, Trial], animals: Mapping[str, str], notes: list[str], most: int = MOST_SAMPLES
) -> Trials:
    """What a model is fitted to: equally many samples of each animal, in pieces spread over its recordings."""
    of_animal: dict[str, list[Trial]] = {}
    for name, one in recordings.items():
        of_animal.setdefault(animals[name], []).append(one)
    has = {animal: sum(one.n_samples for one in its) for animal, its in of_animal.items()}
    middle = float(np.median(list(has.values())))
    # An animal that was hardly recorded does not set the measure for all: it gives what it has.
    quota = int(min(max(min(has.values()), middle / 4), most / len(has)))
    if lacking := [animal for animal, n in has.items() if n < quota]:
        notes.append(
            f"{counted(len(lacking), 'animal')} recorded so briefly that the model sees less of it: {listed(lacking)}."
        )
    parts: list[Trial] = []
    for its in of_animal.values():
        left = quota
        for place, one in enumerate(sorted(its, key=lambda trial: trial.n_samples)):
            share = min(one.n_samples, left // (len(its) - place))
            parts += _pieces(one, share)
            left -= share
    used = sum(one.n_samples for one in parts)
    notes.append(
        f"The model was fitted to {used:,} samples, at most {quota:,} of each of {len(has)} animals, blind to the sheet."
    )
    return Trials(tuple(parts), "study")


def _pieces(trial: Trial, n_samples: int) -> list[Trial]:
    if n_samples >= trial.n_samples:
        return [trial]
    long = max(1, n_samples // PIECES)
    starts = np.linspace(0, trial.n_samples - long, PIECES).astype(int)
    return [trial.slice(int(start), int(start) + long) for start in starts]


def label_trials(
    recordings: Mapping[str, Trial], animals: Mapping[str, str], marks: Sequence[Mark], notes: list[str]
) -> tuple[Trials, tuple[Stretch, ...], tuple[str, ...]]:
    """Return the recordings with labels, the labelled stretches in them, and the names of the labels."""
    names = tuple(dict.fromkeys(label for *_, label in marks))
    if len(names) < 2:
        raise ConfigError("Mark clips of at least two labels.")
    where = {name: i for i, name in enumerate(dict.fromkeys(name for name, *_ in marks))}
    for name, start, stop, label in marks:
        if name not in recordings:
            raise ConfigError(f"A mark of {label!r} is in {name!r}, which takes no part{near(name, recordings)}.")
        if not 0 <= start < stop <= recordings[name].n_samples:
            raise ConfigError(
                f"A mark of {label!r} goes from {start} to {stop} in {name!r}, of {recordings[name].n_samples:,} samples."
            )
    labelled, everyone = {animals[name] for name in where}, set(animals.values())
    notes.append(f"States are labels, learned from {len(marks)} marks in {len(labelled)} of {len(everyone)} animals.")
    stretches = tuple((where[name], start, stop, names.index(label)) for name, start, stop, label in marks)
    return Trials(tuple(recordings[name] for name in where), "study"), stretches, names


def one_each(recordings: Mapping[str, Trial], animals: Mapping[str, str], most: int) -> Trials:
    """A stretch of each animal, `most` samples in all: what numbers of states are tried on, half of the animals judging what was
    fitted to the others."""
    longest: dict[str, Trial] = {}
    for name, one in recordings.items():
        if animals[name] not in longest or one.n_samples > longest[animals[name]].n_samples:
            longest[animals[name]] = one
    share = max(1, most // len(longest))
    trials = [
        one.slice((one.n_samples - min(share, one.n_samples)) // 2, (one.n_samples + share) // 2)
        for one in longest.values()
    ]
    order = np.random.default_rng(0).permutation(
        len(trials)
    )  # sheets go from group to group, or alternate between them
    return Trials(tuple(trials[i] for i in order), "one stretch of each animal")


def fitted(model: StateModel, trials: Trials) -> StateModel:
    """The model fitted to trials, the one given left as it is."""
    made = type(model).from_config(model.config)
    made.fit(trials)
    made.raise_if_failed()
    return made


def read_states(
    model: StateModel | LabelModel, recordings: Mapping[str, Trial], rule: BoutRule
) -> dict[str, Recording]:
    """Return soft states (or labels) and bouts of every recording; none in the middle of long gaps."""
    found = {}
    for name, trial in recordings.items():
        soft = np.array(model.predict_proba(trial), np.float32)
        gone = np.asarray(np.isnan(trial.y).all(axis=1))
        unseen = gap_lengths(gone) > max(1, round(LONGEST_UNSEEN_S * trial.rate_hz))
        labels = np.where(unseen, UNLABELLED, rule.labels(soft, trial.rate_hz)).astype(np.int32)
        soft[unseen] = np.nan
        found[name] = Recording(labels, trial.rate_hz, soft, trial.start_seconds)
    return found


def read_by(model: bytes, recording: Trials, smooth_s: float, shortest_s: float) -> tuple[Recording, float]:
    """The states of one recording and how well the model explains it, for who has a file of the model and no model at hand:
    a page whose fits run elsewhere.

    model        a model file
    recording    its one trial
    smooth_s, shortest_s   of the rule by which soft states become bouts
    """
    fitted_one, trial = model_from_bytes(model), recording[0]
    read = read_states(fitted_one, {"": trial}, BoutRule(smooth_s, shortest_s))[""]
    return read, _explained(fitted_one, trial)


def read_labels(label_model: bytes, recording: Trials, smooth_s: float, shortest_s: float) -> Recording:
    """Return the labels of one recording as bouts, from the bytes of a label model."""
    rule = BoutRule(smooth_s, shortest_s)
    return read_states(LabelModel.from_bytes(label_model), {"": recording[0]}, rule)[""]


def unlike(model: StateModel, recordings: Mapping[str, Trial]) -> dict[str, str]:
    """Recordings that the model explains far worse than the rest, with a sentence each: another camera, animal or tracking."""
    return far_below({name: _explained(model, trial) for name, trial in recordings.items()})


def _explained(model: StateModel, trial: Trial) -> float:
    return float(model.score(Trials(tuple(_pieces(trial, LOOKED_AT)))))


def far_below(explained: Mapping[str, float]) -> dict[str, str]:
    """The same of what is known already: recording -> nats a sample."""
    scores = np.array(list(explained.values()))
    middle = np.median(scores)
    spread = 1.4826 * np.median(np.abs(scores - middle))
    if len(scores) < 4 or not spread > 0:
        return {}
    below = (middle - scores) / spread
    return {
        name: f"explained far worse than the rest ({score:.2f} nats a sample, the others about {middle:.2f}): look at its tracking"
        for name, score, far in zip(explained, scores, below, strict=True)
        if far > UNLIKE
    }
