"""Fitting one model to all animals of a study, and finding the states of its recordings.

Of the sheet, only the animal of each recording is used; the model is blind to conditions.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gdm_core.analysis.bouts import BoutRule
from gdm_core.errors import DataError, FitWarning
from gdm_core.maths.gaps import gap_lengths
from gdm_core.models.base import StateModel
from gdm_core.models.extrapolation import find_extrapolation
from gdm_core.models.loading import model_from_bytes
from gdm_core.study.sheet import Sheet
from gdm_core.study.states import Recording
from gdm_core.study.text import format_items, format_list
from gdm_core.text import plural
from gdm_core.trials import UNLABELLED, Trial, Trials

MOST_SAMPLES = 200_000  # to fit to; more cost time and hardly change the states
PIECES = 4  # evenly spaced pieces of a recording that is fitted in part
FEWEST_SEEN = 0.5  # least share of samples with data
LONGEST_UNSEEN_S = 1.0  # states inside longer gaps are guesses, so they are left unlabelled
RATES_ALIKE = 0.02
STEADY = BoutRule(0.2, 0.2)  # suppresses tracking jitter, which differs between days
OUTLIER_SDS, FEWEST_SCORES = 4.0, 4  # robust standard deviations, from so many recordings on
SCORED_SAMPLES = 3_000  # evenly spaced samples of a recording, to find outliers


def prepare(recordings: Mapping[str, Trial], sheet: Sheet) -> tuple[Sheet, dict[str, Trial]]:
    """Return the sheet, with recordings that lack data set aside, and the recordings to fit."""
    recordings = {name: recordings[name] for name in sheet.names}
    if odd := [name for name, one in recordings.items() if not isinstance(one, Trial)]:
        raise DataError(
            f"Study.fit needs {{name: Trial}}, but {format_list(odd)} is not a Trial. Use Trial(y, rate_hz=...), or "
            "Study.from_states for known states."
        )
    _check_channels(recordings)
    kept = {name: one for name, one in recordings.items() if (~np.isnan(one.y)).any(axis=1).mean() >= FEWEST_SEEN}
    lacking, reason = [name for name in recordings if name not in kept], f"{1 - FEWEST_SEEN:.0%} of samples missing"
    if not kept:
        raise DataError("Every recording lacks data in more than half of its samples.")
    usual = float(np.median([one.rate_hz for one in kept.values()]))
    if other := [
        f"{name} ({one.rate_hz:g} Hz)" for name, one in kept.items() if abs(one.rate_hz / usual - 1) > RATES_ALIKE
    ]:
        raise DataError(
            f"{format_items(other, 'recording', f'not at {usual:g} Hz')} Resample to {usual:g} Hz, or exclude them in the sheet."
        )
    notes = [*Trials(tuple(kept.values())).notes]
    if lacking:
        notes.append(format_items(lacking, "recording", f"excluded, with more than {reason}"))
    short, n = min(((name, one.n_samples) for name, one in kept.items()), key=lambda item: item[1])
    if 2 * n < np.median([one.n_samples for one in kept.values()]):
        notes.append(f"The shortest recording, {short}, has {n:,} samples, less than half of the median.")
    aside = {**sheet.set_aside, **dict.fromkeys(lacking, f"more than {reason}")}
    return replace(sheet, set_aside=aside).noting(*notes), kept


def _check_channels(recordings: Mapping[str, Trial]) -> None:
    kinds: dict[Sequence[str], list[str]] = {}
    for name, one in recordings.items():
        kinds.setdefault(tuple(one.channels), []).append(name)
    if len(kinds) > 1:
        (most, _), *others = sorted(kinds.items(), key=lambda item: -len(item[1]))
        rest = "; ".join(f"{format_list(names)}: {format_list(list(kind))}" for kind, names in others)
        raise DataError(
            f"Recordings have different channels. Most have {format_list(list(most))}; others differ: {rest}. "
            "Choose the same channels for all."
        )


def balance(recordings: Mapping[str, Trial], sheet: Sheet, most: int = MOST_SAMPLES) -> tuple[Trials, Sheet]:
    """Return training data with equally many samples of each animal, in spread pieces; the sheet notes how many."""
    of_animal: dict[str, list[Trial]] = {}
    for name, one in recordings.items():
        of_animal.setdefault(sheet.animals[name], []).append(one)
    has = {animal: sum(one.n_samples for one in its) for animal, its in of_animal.items()}
    middle = float(np.median(list(has.values())))
    # An animal with very little data contributes all of it, and does not limit the others.
    quota = int(min(max(min(has.values()), middle / 4), most / len(has)))
    if lacking := [animal for animal, n in has.items() if n < quota]:
        sheet = sheet.noting(format_items(lacking, sheet.subject, "underrepresented, with little data"))
    parts: list[Trial] = []
    for its in of_animal.values():
        left = quota
        for place, one in enumerate(sorted(its, key=lambda trial: trial.n_samples)):
            share = min(one.n_samples, left // (len(its) - place))
            parts += _pieces(one, share)
            left -= share
    used, each = sum(one.n_samples for one in parts), f"{quota:,} from each of {plural(len(has), sheet.subject)}"
    note = f"The model was fitted to {used:,} samples, at most {each}, blind to conditions."
    return Trials(tuple(parts), "study"), sheet.noting(note)


def _pieces(trial: Trial, n_samples: int) -> list[Trial]:
    if n_samples >= trial.n_samples:
        return [trial]
    long = max(1, n_samples // PIECES)
    starts = np.linspace(0, trial.n_samples - long, PIECES).astype(int)
    return [trial.slice(int(start), int(start) + long) for start in starts]


def sample_animals(recordings: Mapping[str, Trial], animals: Mapping[str, str], most: int) -> Trials:
    """Return one piece per animal in random order, for choosing the number of states."""
    longest: dict[str, Trial] = {}
    for name, one in recordings.items():
        if animals[name] not in longest or one.n_samples > longest[animals[name]].n_samples:
            longest[animals[name]] = one
    share = max(1, most // len(longest))
    trials = [
        one.slice((one.n_samples - min(share, one.n_samples)) // 2, (one.n_samples + share) // 2)
        for one in longest.values()
    ]
    order = np.random.default_rng(0).permutation(len(trials))  # the order of a sheet often follows groups
    return Trials(tuple(trials[i] for i in order), "one stretch each")


def fit_copy(model: StateModel, trials: Trials) -> StateModel:
    """Fit a copy of the model."""
    copy = type(model)._from_config(model.config)
    copy.fit(trials)
    copy.raise_if_failed()
    return copy


class Decoding(NamedTuple):
    """States of a recording, its score in nats per sample, and how far it is outside the range of the fit, if it is."""

    states: Recording
    score: float
    outside: str


def decode_and_score(model: StateModel, trial: Trial, rule: BoutRule) -> Decoding:
    """Find states and bouts of a recording, except inside long gaps, and score evenly spread pieces of it."""
    assert model.scaler_ is not None
    outside = find_extrapolation(model.scaler_.center, model.scaler_.scale, Trials((trial,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the study notes it by the name of the recording
        score = float(model.score(Trials(tuple(_pieces(trial, SCORED_SAMPLES)))))
    soft = np.array(model.predict_proba(trial), np.float32)
    gone = np.asarray(np.isnan(trial.y).all(axis=1))
    unseen = gap_lengths(gone) > max(1, round(LONGEST_UNSEEN_S * trial.rate_hz))
    labels = np.where(unseen, UNLABELLED, rule.labels(soft, trial.rate_hz)).astype(np.int32)
    soft[unseen] = np.nan
    return Decoding(Recording(labels, trial.rate_hz, soft, trial.start_seconds), score, outside)


def decode_recording(model: bytes, recording: Trials, smooth_s: float, shortest_s: float) -> Decoding:
    """Do the same with the bytes of a model file.

    recording              exactly one trial
    smooth_s, shortest_s   of the BoutRule
    """
    return decode_and_score(model_from_bytes(model), recording[0], BoutRule(smooth_s, shortest_s))


def flag(decoded: Mapping[str, Decoding]) -> dict[str, str]:
    """Return recording -> reason for recordings outside the range of the fit and for low outliers."""
    scores = np.array([one.score for one in decoded.values()])
    middle = np.median(scores)
    spread = 1.4826 * np.median(np.abs(scores - middle))
    found = {}
    for name, one in decoded.items():
        if one.outside:
            found[name] = f"outside the range of the fit, {one.outside}; its states and score are extrapolations"
        elif len(scores) >= FEWEST_SCORES and spread > 0 and middle - one.score > OUTLIER_SDS * spread:
            low = f"{one.score:.2f} nats per sample, median {middle:.2f}"
            found[name] = f"a possible outlier: low log-likelihood ({low}); check its tracking"
    return found
