"""Proposals of clips to label next, by the model's uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.labels.features import window_features
from gdm_core.labels.model import LabelModel
from gdm_core.models.base import StateModel
from gdm_core.models.scaling import Scaler
from gdm_core.models.variants import infer_quickly
from gdm_core.trials import UNLABELLED, Trials, TrialsLike, as_trials

UNFAMILIAR = 0.20  # share of features; training recordings have 0.02


@dataclass(frozen=True)
class Clip:
    """Samples start to stop (exclusive) of a trial; `value` from 0 to 1 is the expected benefit of a label."""

    trial: int
    start: int
    stop: int
    value: float = 1.0


def propose(
    model: LabelModel | StateModel,
    trials: TrialsLike,
    labels: Sequence[npt.ArrayLike] | None = None,
    n: int = 1,
    clip_seconds: float = 2.0,
    exclude: Sequence[Clip] = (),
) -> tuple[Clip, ...]:
    """Return up to `n` clips, the most useful first.

    A label model proposes the most uncertain clips. A state model, for the first labels, proposes those that differ most.

    Parameters
    ----------
    labels : labels so far; labelled clips are not proposed
    exclude : clips that are not proposed, such as earlier proposals
    """
    data = as_trials(trials)
    if n < 1 or not clip_seconds > 0:
        raise ConfigError(
            f"n is {n} and clip_seconds is {clip_seconds}; n must be at least 1 and clip_seconds positive."
        )
    known = [np.full(t.n_samples, UNLABELLED) for t in data] if labels is None else [np.asarray(a) for a in labels]
    if [len(a) for a in known] != [t.n_samples for t in data]:
        raise DataError(
            "Labels and recordings differ in number or length. Pass one label per sample of each recording."
        )
    clips = _candidates(data, clip_seconds)
    used = [a >= 0 for a in known]
    for clip in exclude:
        used[clip.trial][clip.start : clip.stop] = True
    free = np.array([not used[c.trial][c.start : c.stop].any() for c in clips], bool)
    if isinstance(model, LabelModel):
        value = 1 - _means([p.max(axis=1) for p in model.predict_proba(data)], clips)
        order = [i for i in np.argsort(-value, kind="stable") if free[i]][:n]
        return tuple(replace(clips[i], value=float(value[i])) for i in order)
    return _most_different(model, data, clips, free, n)


def _most_different(
    model: StateModel, data: Trials, clips: list[Clip], free: npt.NDArray[np.bool_], n: int
) -> tuple[Clip, ...]:
    """Return clips whose features and states differ from used ones and each other."""
    scaler = Scaler.from_trials(data)
    features = [window_features(scaler.apply(trial.y), trial.rate_hz) for trial in data]
    place = np.concatenate(
        [_means(features, clips), _means([infer_quickly(model, one) for one in data], clips)], axis=1
    )
    width = np.median(np.linalg.norm(place - place.mean(axis=0), axis=1)) + 1e-9
    distance = np.full(len(clips), np.inf)
    for i in np.flatnonzero(~free):
        distance = np.minimum(distance, np.linalg.norm(place - place[i], axis=1))
    chosen: list[Clip] = []
    while len(chosen) < n and free.any():
        value = np.where(free, 1 - np.exp(-0.5 * (distance / width) ** 2), -1.0)
        best = int(value.argmax())
        chosen.append(replace(clips[best], value=float(value[best])))
        free[best] = False
        distance = np.minimum(distance, np.linalg.norm(place - place[best], axis=1))
    return tuple(chosen)


def unfamiliar_message(label_model: LabelModel, trials: TrialsLike) -> tuple[str | None, ...]:
    """Return, for each recording, a warning if it differs from the training recordings, else None."""
    data = as_trials(trials)
    shares = [label_model.unfamiliar_share(trial) for trial in data]
    return tuple(
        f"{trial.name} differs from the labelled recordings: {share:.0%} of its features are outside their range (2% is "
        "usual). Label a few clips of it before relying on its predictions."
        if share > UNFAMILIAR
        else None
        for trial, share in zip(data, shares, strict=True)
    )


def _candidates(data: Trials, seconds: float) -> list[Clip]:
    """Return consecutive clips of full length."""
    clips = []
    for i, trial in enumerate(data):
        length = min(max(2, round(seconds * trial.rate_hz)), trial.n_samples)
        clips += [Clip(i, start, start + length) for start in range(0, trial.n_samples - length + 1, length)]
    return clips


def _means(values: list[npt.NDArray[Any]], clips: list[Clip]) -> npt.NDArray[np.float64]:
    """Return the mean [clips, ...] of per-sample values over each clip."""
    return np.stack([np.asarray(values[c.trial][c.start : c.stop], np.float64).mean(axis=0) for c in clips])
