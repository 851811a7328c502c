"""Tracked body parts: one recording (KeypointTable) and a set of them (KeypointSet), and how they become Trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import FloatArray, IntArray, Trial, Trials, made_by

from ..features import egocentric_features

Scaling = Literal["auto", "pixels", "image", "standardised"]
FeatureSet = Literal["keypoints", "egocentric"]


@dataclass(frozen=True, eq=False)
class KeypointTable:
    """One recording of A animals with P body parts each, or several of the same animals end to end.

    xy          [T, A, 2, P] pixels, float32; NaN marks a part that was not seen
    scores      [T, A, P] the tracker's confidence, 0 to 1
    filled      [T, A, P] parts whose coordinates `keypoints.clean` estimated; None where there are none
    labels      [T] expert behaviour, -1 where unlabelled, an index into `label_names`
    edges       pairs of parts that a skeleton joins
    image_size  width and height of the image, where known
    simulated   whether the animals were invented, which every figure of them has to say
    notes       what the reader found and did, in sentences
    start_seconds   when the first frame was taken, on the clock of the whole recording
    recipe      what made it, where that is a simulator; as for `Trial`
    animals, parts  names
    unit            what coordinates are in, "" where the file does not say: then they count as pixels
    recordings      (name, frames) of several recordings that lie end to end, () for one; `split` takes them apart
    rate_hz         frames a second
    name            what figures and tables call it
    """

    xy: FloatArray
    animals: tuple[str, ...]
    parts: tuple[str, ...]
    rate_hz: float = 30.0
    scores: FloatArray | None = None
    labels: IntArray | None = None
    label_names: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    image_size: tuple[float, float] | None = None
    name: str = "recording"
    simulated: bool = False
    notes: tuple[str, ...] = ()
    start_seconds: float = 0.0
    unit: str = ""
    recordings: tuple[tuple[str, int], ...] = ()
    filled: npt.NDArray[np.bool_] | None = None
    recipe: str = field(default="", init=False)

    def __post_init__(self) -> None:
        shape = np.shape(self.xy)
        expected = (len(self.animals), 2, len(self.parts))
        if len(shape) != 4 or shape[1:] != expected or shape[0] == 0:
            raise DataError(
                f"Recording {self.name!r}: keypoints have shape {shape}; expected [time, {expected[0]} animals, "
                f"x and y, {expected[2]} parts] with at least one frame."
            )
        if self.scores is not None and np.shape(self.scores) != (shape[0], shape[1], shape[3]):
            raise DataError(
                f"Recording {self.name!r}: scores have shape {np.shape(self.scores)}; "
                f"expected [{shape[0]}, {shape[1]}, {shape[3]}]."
            )
        if self.filled is not None and np.shape(self.filled) != (shape[0], shape[1], shape[3]):
            raise DataError(
                f"Recording {self.name!r}: filled has shape {np.shape(self.filled)}; "
                f"expected [{shape[0]}, {shape[1]}, {shape[3]}]."
            )
        if self.labels is not None and np.shape(self.labels) != (shape[0],):
            raise DataError(
                f"Recording {self.name!r} has {np.shape(self.labels)[0]} labels for {shape[0]} frames; one each is needed."
            )
        if self.recordings and sum(frames for _, frames in self.recordings) != shape[0]:
            raise DataError(f"Recording {self.name!r}: its recordings do not add up to its {shape[0]} frames.")
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0):
            raise DataError(f"Recording {self.name!r}: the rate is {self.rate_hz} Hz; it must be positive.")

    @property
    def n_frames(self) -> int:
        """T, how many frames."""
        return int(self.xy.shape[0])

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the raw channels in the order of the array: animal, then x or y, then part."""
        return tuple(f"{animal} {part} {axis}" for animal in self.animals for axis in "xy" for part in self.parts)

    def split(self) -> tuple[KeypointTable, ...]:
        """Each recording by itself; this one alone where there are not several."""
        if not self.recordings:
            return (self,)
        ends = np.cumsum([frames for _, frames in self.recordings]).tolist()
        parts = zip(self.recordings, ends, strict=True)
        return tuple(self.slice(end - frames, end, name) for (name, frames), end in parts)

    def slice(self, start: int, stop: int, name: str) -> KeypointTable:
        """Frames start to stop (exclusive) as one recording, with the clock of the whole.

        start, stop   frames
        name          what figures and tables call it
        """
        scores = None if self.scores is None else self.scores[start:stop]
        labels = None if self.labels is None else self.labels[start:stop]
        filled = None if self.filled is None else self.filled[start:stop]
        return replace(
            self, xy=self.xy[start:stop], scores=scores, labels=labels, filled=filled, name=name, recordings=()
        )

    def to_trial(self, features: FeatureSet = "keypoints", scaling: Scaling = "auto", min_score: float = 0.0) -> Trial:
        """This recording as a Trial.

        features   "keypoints": every coordinate, as in the paper; "egocentric": shape, speed and relation to the partner
        scaling    of keypoints: "image" divides by width and height, "pixels" leaves them, "auto" is image where known
        min_score  parts with a lower score count as missing
        """
        if self.recordings:
            raise DataError(
                f"{self.name!r} holds {len(self.recordings)} recordings, so it makes several trials: use to_trials."
            )
        xy = self.masked(min_score)
        if features == "egocentric":
            y, channels = egocentric_features(replace(self, xy=xy))
        elif features == "keypoints":
            y, channels = self._scaled(xy, scaling).reshape(self.n_frames, -1), self.channels  # [T, A * 2 * P]
        else:
            raise ConfigError(f"features is {features!r}; choose 'keypoints' or 'egocentric'.")
        trial = Trial(y, self.rate_hz, channels, labels=self.labels, name=self.name, start_seconds=self.start_seconds)
        return made_by(f"{self.recipe}, {features}, {scaling}, {min_score!r}", trial) if self.recipe else trial

    def to_trials(
        self, features: FeatureSet = "keypoints", scaling: Scaling = "auto", min_score: float = 0.0
    ) -> Trials:
        """This recording as a set of one trial, several as one each.

        features, scaling, min_score   as for `to_trial`
        """
        return KeypointSet(self.split(), self.name).to_trials(features, scaling, min_score)

    def masked(self, min_score: float) -> FloatArray:
        """`xy` [T, A, 2, P] with the parts that score below `min_score` missing."""
        if min_score <= 0 or self.scores is None:
            return self.xy
        low = np.asarray(self.scores) < min_score  # [T, A, P]; a missing score condemns nothing
        return np.where(low[:, :, None, :], np.float32(np.nan), self.xy)

    def _scaled(self, xy: FloatArray, scaling: Scaling) -> npt.NDArray[Any]:
        if scaling not in ("auto", "pixels", "image", "standardised"):
            raise ConfigError(f"scaling is {scaling!r}; choose 'auto', 'pixels', 'image' or 'standardised'.")
        if scaling == "pixels" or (scaling != "image" and self.image_size is None):
            return xy
        if self.image_size is None:
            raise DataError(f"Recording {self.name!r} does not say how large its image is; use scaling='pixels'.")
        return xy / np.asarray(self.image_size, dtype=np.float32)[:, None]


def finish_table(table: KeypointTable, rate_hz: float | None) -> KeypointTable:
    """A recording as a reader found it, with "not found" as NaN: infinities, one coordinate only, and both exactly zero. Its
    arrays are the reader's own, and are written to. Where nobody knows its rate the usual one is assumed, with a note."""
    xy, scores, notes = np.asarray(table.xy), np.asarray(table.scores), table.notes
    xy[~np.isfinite(xy)] = np.nan
    nowhere = (xy == 0).all(axis=2)  # [T, A, P]
    half = np.isnan(xy).any(axis=2) & ~np.isnan(xy).all(axis=2)
    if nowhere.any():
        notes = (*notes, f"{int(nowhere.sum()):,} keypoints at (0, 0) count as missing")
    if half.any():
        notes = (*notes, f"{int(half.sum()):,} keypoints with one coordinate only count as missing")
    np.moveaxis(xy, 2, 3)[nowhere | half] = np.nan
    scores[~np.isfinite(scores)] = np.nan
    if rate_hz is None:
        notes = (*notes, f"the frame rate is not in the file; {table.rate_hz:g} Hz is assumed")
    return replace(
        table, scores=None if np.isnan(scores).all() else scores, notes=notes, rate_hz=rate_hz or table.rate_hz
    )


def with_labels(table: KeypointTable, labels: Sequence[int] | np.ndarray, label_names: Sequence[str]) -> KeypointTable:
    """The recording with expert labels, one a frame; those past its end are dropped, missing ones are -1.

    table         the recording
    labels        one a frame, -1 where nothing was noted
    label_names   a name for each label
    """
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise DataError(f"Labels have shape {given.shape} and type {given.dtype}; expected one whole number a frame.")
    fitted = np.full(table.n_frames, -1, dtype=np.int64)
    kept = min(len(given), table.n_frames)
    fitted[:kept] = given[:kept]
    fitted[(fitted < 0) | (fitted >= len(label_names))] = -1
    notes = table.notes
    if len(given) > table.n_frames:
        notes = (*notes, f"{len(given) - table.n_frames:,} labels past the last frame were dropped")
    elif len(given) < table.n_frames:
        notes = (*notes, f"the last {table.n_frames - len(given):,} frames have no label")
    return replace(table, labels=fitted, label_names=tuple(label_names), notes=notes)


@dataclass(frozen=True, eq=False)
class KeypointSet:
    """Several recordings with the same animals and parts.

    tables   one recording each
    name     what messages and files call the set
    source   where it is from, in words
    """

    tables: tuple[KeypointTable, ...]
    name: str = "recordings"
    source: str = field(default="")

    def __post_init__(self) -> None:
        if not self.tables:
            raise DataError(f"{self.name!r} holds no recording.")
        first = self.tables[0]
        for table in self.tables:
            if (table.animals, table.parts) != (first.animals, first.parts):
                raise DataError(
                    f"{self.name!r}: recording {table.name!r} has other animals or body parts than {first.name!r}. "
                    "Load recordings with the same skeleton together."
                )
            if table.label_names != first.label_names:
                raise DataError(f"{self.name!r}: recording {table.name!r} uses other label names than {first.name!r}.")

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[KeypointTable]:
        return iter(self.tables)

    def __getitem__(self, index: int) -> KeypointTable:
        return self.tables[index]

    @cached_property
    def n_frames(self) -> int:
        """Frames of all recordings."""
        return sum(table.n_frames for table in self.tables)

    def to_trials(
        self,
        features: FeatureSet = "keypoints",
        scaling: Scaling = "auto",
        min_score: float = 0.0,
        reference: Trials | None = None,
    ) -> Trials:
        """All recordings as Trials; with scaling "standardised" each channel is centred and scaled as `reference`
        (the training set, itself if none is given), after the image scaling.

        features    "keypoints" or "egocentric"
        min_score   parts with a lower score count as missing
        """
        trials = Trials(
            tuple(table.to_trial(features, scaling, min_score) for table in self.tables),
            self.name,
            self.tables[0].label_names,
        )
        if scaling != "standardised":
            return trials
        plain = reference if reference is not None else trials
        return standardise(trials, plain)


def standardise(trials: Trials, reference: Trials) -> Trials:
    """Each channel minus its mean, over its standard deviation, both of the observed values in `reference`.

    trials   to be centred and scaled
    """
    if trials.n_channels != reference.n_channels:
        raise DataError(
            f"{trials.name!r} has {trials.n_channels} channels, the reference {reference.name!r} {reference.n_channels}."
        )
    y = np.concatenate([trial.y for trial in reference])  # [sum T, N]
    seen = np.isfinite(y).any(axis=0)
    if not seen.all():
        bad = ", ".join(np.array(reference[0].channels)[~seen])
        raise DataError(f"Channel {bad} has no observed value in {reference.name!r}. Drop it before standardising.")
    center = np.nanmean(y, axis=0, dtype=np.float64)
    scale = np.nanstd(y, axis=0, dtype=np.float64)
    scale[scale == 0] = 1.0  # a constant channel stays at zero
    return replace(
        trials, trials=tuple(replace(trial, y=((trial.y - center) / scale).astype(np.float32)) for trial in trials)
    )
