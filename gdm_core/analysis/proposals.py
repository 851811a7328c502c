"""Which moment to ask about next: the clip whose word would teach a model most, and none that was asked about before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trials, TrialsLike, as_trials

if TYPE_CHECKING:
    from gdm_core.models.gdm.model import GDM  # loads torch, which first visits do not need

_UNFAMILIAR_SHARE = 0.20  # ten times what the taught recordings themselves have


@dataclass(frozen=True)
class Clip:
    """Samples start to stop (exclusive) of a trial, and how much its word would teach: 0 to 1, 1 the most."""

    trial: int
    start: int
    stop: int
    value: float = 1.0


class Clips(tuple[Clip, ...]):
    """What `propose` gives: clips, the best first. They print themselves in seconds, and are a table by `to_frame()`."""

    data: Trials

    @classmethod
    def of(cls, clips: Sequence[Clip], data: Trials) -> Clips:
        """`clips` of `data`, which says what its recordings are called and how fast they are."""
        made = cls(clips)
        made.data = data
        return made

    def to_frame(self) -> pd.DataFrame:
        """A row for each clip: number and name of its recording, seconds and samples from where to where, and its value."""
        rows = [
            (
                clip.trial,
                self.data[clip.trial].name,
                *(at / self.data[clip.trial].rate_hz for at in (clip.start, clip.stop)),
                clip.start,
                clip.stop,
                clip.value,
            )
            for clip in self
        ]
        return pd.DataFrame(rows, columns=["trial", "recording", "from_s", "to_s", "start", "stop", "value"])

    def __str__(self) -> str:
        if not self:
            return "no clip is left to ask about"
        return "\n".join(
            f"{row.recording}: {row.from_s:.2f} to {row.to_s:.2f} s, value {row.value:.2f}"
            for row in self.to_frame().itertuples()
        )


def propose(
    model: GDM,
    trials: TrialsLike,
    labels: Sequence[npt.ArrayLike] | None = None,
    n: int = 1,
    clip_seconds: float = 2.0,
    asked: Sequence[Clip] = (),
) -> Clips:
    """Up to `n` clips, the best first; fewer where the recordings are used up.

    trials  the recordings that clips are taken of, each `clip_seconds` long
    labels  what is marked so far; clips that touch it are left out, and so are those that were `asked` before
    Those come first of whose word the model is least sure (docs/teach.md has what else was tried). One that was taught no words
    yet proposes clips that differ most from each other.
    """
    data = as_trials(trials)
    if n < 1 or not clip_seconds > 0:
        raise ConfigError(f"n is {n} and clip_seconds {clip_seconds}; ask for at least one clip of more than 0 s.")
    known = (
        [np.full(trial.n_samples, -1) for trial in data] if labels is None else [np.asarray(part) for part in labels]
    )
    if [len(part) for part in known] != [trial.n_samples for trial in data]:
        raise DataError("Labels and recordings differ in number or length; give one label a sample for each recording.")
    clips = _candidates(data, clip_seconds)
    taken = [part >= 0 for part in known]
    used = [part.copy() for part in taken]
    for clip in asked:
        used[clip.trial][clip.start : clip.stop] = True
    free = np.array([not used[clip.trial][clip.start : clip.stop].any() for clip in clips], bool)
    place = _places(model, data, clips)
    near = np.array([taken[clip.trial][clip.start : clip.stop].any() for clip in clips], bool)
    for clip in asked:
        near |= np.array([c.trial == clip.trial and c.start < clip.stop and clip.start < c.stop for c in clips], bool)
    value = _values(model, data, clips)
    width = np.median(np.linalg.norm(place - place.mean(axis=0), axis=1)) + 1e-9
    distance = np.full(len(clips), np.inf)
    for at in np.flatnonzero(near):
        distance = np.minimum(distance, np.linalg.norm(place - place[at], axis=1))
    chosen: list[Clip] = []
    while len(chosen) < n and free.any():
        apart = 1 - np.exp(-0.5 * (distance / width) ** 2) + 1e-9 if model.word_model_ is None else 1.0
        gain = np.where(free, value * apart, -1.0)
        best = int(gain.argmax())
        clip = clips[best]
        chosen.append(Clip(clip.trial, clip.start, clip.stop, float(np.clip(gain[best], 0, 1))))
        free[best] = False
        distance = np.minimum(distance, np.linalg.norm(place - place[best], axis=1))
    return Clips.of(chosen, data)


def unlike_taught(model: GDM, trials: TrialsLike) -> tuple[str | None, ...]:
    """For each recording None, or a sentence that says how unlike the taught ones it looks."""
    data = as_trials(trials)
    return tuple(
        f"{trial.name} looks unlike the recordings that were taught: {share:.0%} of its features lie outside of what those "
        "hold (2 % would be usual). Mark a few moments in it before you rely on its words."
        if share > _UNFAMILIAR_SHARE
        else None
        for trial, share in zip(data, model.unfamiliar_share(data), strict=True)
    )


def _candidates(data: Trials, seconds: float) -> list[Clip]:
    """Clips end to end; what is left at the end of a recording is no clip."""
    clips = []
    for i, trial in enumerate(data):
        length = min(max(2, round(seconds * trial.rate_hz)), trial.n_samples)
        clips += [Clip(i, start, start + length) for start in range(0, trial.n_samples - length + 1, length)]
    return clips


def _means(values: list[npt.NDArray[Any]], clips: list[Clip]) -> npt.NDArray[np.float64]:
    """[clips, ...] mean of per-sample values over each clip."""
    return np.stack([np.asarray(values[c.trial][c.start : c.stop], np.float64).mean(axis=0) for c in clips])


def _places(model: GDM, data: Trials, clips: list[Clip]) -> npt.NDArray[np.float64]:
    """[clips, D + K] where clips lie: latent path and soft states."""
    states = model.predict_proba(data)
    return np.concatenate([_means(model.latent(data), clips), _means(states, clips)], axis=1)


def _values(model: GDM, data: Trials, clips: list[Clip]) -> npt.NDArray[np.float64]:
    """[clips] from 0 to 1: how unsure the model is of the likeliest word."""
    if model.word_model_ is None:
        return np.ones(len(clips))
    return np.asarray(1 - _means([p.max(axis=1) for p in model.predict_label_proba(data)], clips))
