"""Tracked body parts: a recording (KeypointTable), a set of recordings (KeypointSet), and conversion to Trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.text import plural
from gdm_core.trials import FloatArray, IntArray, Trial, Trials, with_recipe

from ..features import egocentric_features
from .doubts import Doubt, require_answers

Scaling = Literal["auto", "pixels", "image"]
NOWHERE = (0.0, -1.0, -999.0, -9999.0)  # both coordinates of a part that was not found
FeatureSet = Literal["keypoints", "egocentric"]


@dataclass(frozen=True, eq=False)
class KeypointTable:
    """A recording of A animals with P body parts each, or several concatenated recordings of the same animals.

    xy              [T, A, 2, P] coordinates, float32; NaN for missing parts
    animals, parts  names of the animals and parts
    rate_hz         frames per second
    scores          [T, A, P] confidence of the tracker, 0 to 1
    labels          [T] expert labels, indices into `label_names`, -1 if unlabelled
    edges           pairs of parts that the skeleton connects
    image_size      width and height of the image, if known
    name            name in figures and tables
    simulated       True for simulated animals, which every figure must state
    notes           sentences about what the reader found and did
    start_seconds   time of the first frame on the clock of the whole recording
    unit            unit of the coordinates, pixels if empty
    recordings      (name, frames) of each of several concatenated recordings, for `split`
    filled          [T, A, P] parts that `keypoints.clean` estimated, None if none
    doubts          questions about the file, which must be answered before the conversion to trials
    recipe          identifies simulated data, as in `Trial`
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
    doubts: tuple[Doubt, ...] = ()
    recipe: str = field(default="", init=False)

    def __post_init__(self) -> None:
        shape = np.shape(self.xy)
        expected = (len(self.animals), 2, len(self.parts))
        if len(shape) != 4 or shape[1:] != expected or shape[0] == 0:
            raise DataError(
                f"Recording {self.name!r}: keypoints have shape {shape}; expected [time, {expected[0]} animals, "
                f"x and y, {expected[2]} parts] with at least one frame."
            )
        n, a, _, p = shape
        for key, wanted in (("scores", (n, a, p)), ("filled", (n, a, p)), ("labels", (n,))):
            values = getattr(self, key)
            if values is not None and np.shape(values) != wanted:
                raise DataError(f"Recording {self.name!r}: {key} have the shape {np.shape(values)}; expected {wanted}.")
        if self.recordings and sum(frames for _, frames in self.recordings) != shape[0]:
            raise DataError(f"Recording {self.name!r}: its recordings do not add up to its {shape[0]} frames.")
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0):
            raise DataError(f"Recording {self.name!r}: the rate is {self.rate_hz} Hz; it must be positive.")

    @property
    def n_frames(self) -> int:
        """Number of frames, T."""
        return int(self.xy.shape[0])

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the raw channels in array order: animal, then x or y, then part."""
        return tuple(f"{animal} {part} {axis}" for animal in self.animals for axis in "xy" for part in self.parts)

    def sentence(self) -> str:
        """Describe animals, parts, rate and frames."""
        animals, parts = plural(len(self.animals), "animal"), plural(len(self.parts), "part")
        each = " each" if len(self.animals) > 1 else ""
        return f"{animals} with {parts}{each}, {self.rate_hz:.4g} Hz, {plural(self.n_frames, 'frame')}"

    def split(self) -> tuple[KeypointTable, ...]:
        """Split concatenated recordings; a single recording is returned alone."""
        if not self.recordings:
            return (self,)
        ends = np.cumsum([frames for _, frames in self.recordings]).tolist()
        parts = zip(self.recordings, ends, strict=True)
        return tuple(self.slice(end - frames, end, name) for (name, frames), end in parts)

    def slice(self, start: int, stop: int, name: str) -> KeypointTable:
        """Return frames start to stop (exclusive) as a recording, with the clock of the whole."""
        arrays = {key: getattr(self, key) for key in ("xy", "scores", "labels", "filled")}
        parts: dict[str, Any] = {key: v if v is None else v[start:stop] for key, v in arrays.items()}
        return replace(self, name=name, recordings=(), **parts)

    def to_trials(self, features: FeatureSet = "keypoints", scaling: Scaling = "auto") -> Trials:
        """Convert each recording to a trial; raise DataError in doubt.

        features   "keypoints": all coordinates, as in the paper; "egocentric": shape, speed and relation to the partner
        scaling    for keypoints: "image" divides by width and height, "pixels" does not scale, "auto" is "image" if the
                   size is known
        """
        require_answers(self.name, self.doubts, {})
        made = tuple(part._to_trial(features, scaling) for part in self.split())
        return Trials(made, self.name, self.label_names)

    def _to_trial(self, features: FeatureSet, scaling: Scaling) -> Trial:
        if features == "egocentric":
            y, channels = egocentric_features(np.asarray(self.xy, np.float32), self.animals, self.parts, self.rate_hz)
        elif features == "keypoints":
            y, channels = self._scaled(scaling).reshape(self.n_frames, -1), self.channels  # [T, A * 2 * P]
        else:
            raise ConfigError(f"features is {features!r}; choose 'keypoints' or 'egocentric'.")
        trial = Trial(y, self.rate_hz, channels, labels=self.labels, name=self.name, start_seconds=self.start_seconds)
        # results that ship know the last number
        return with_recipe(f"{self.recipe}, {features}, {scaling}, 0.0", trial) if self.recipe else trial

    def _scaled(self, scaling: Scaling) -> npt.NDArray[Any]:
        if scaling not in ("auto", "pixels", "image"):
            raise ConfigError(f"scaling is {scaling!r}; choose 'auto', 'pixels' or 'image'.")
        if scaling == "pixels" or (scaling != "image" and self.image_size is None):
            return self.xy
        if self.image_size is None:
            raise DataError(f"Recording {self.name!r} has no image size. Use scaling='pixels'.")
        return self.xy / np.asarray(self.image_size, dtype=np.float32)[:, None]


def finish_table(table: KeypointTable, rate_hz: float | None) -> KeypointTable:
    """Mark missing parts as NaN, in place, and set the rate.

    Infinities, single coordinates and points such as (0, 0) count as missing. Without a rate, the default is assumed with a note.
    """
    xy, scores, notes = np.asarray(table.xy), np.asarray(table.scores), table.notes
    xy[~np.isfinite(xy)] = np.nan
    nowhere = (xy[:, :, 0] == xy[:, :, 1]) & np.isin(xy[:, :, 0], NOWHERE)  # [T, A, P]
    half = np.isnan(xy).any(axis=2) & ~np.isnan(xy).all(axis=2)
    if nowhere.any():
        notes = (*notes, f"{int(nowhere.sum()):,} keypoints at (0, 0), (-1, -1) or (-9999, -9999) count as missing")
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
    """Return the recording with expert labels, truncated or padded with -1."""
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise DataError(f"Labels have shape {given.shape} and type {given.dtype}; expected one integer per frame.")
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

    tables   recordings
    name     name in messages and files
    source   description of the origin
    """

    tables: tuple[KeypointTable, ...]
    name: str = "recordings"
    source: str = field(default="")

    def __post_init__(self) -> None:
        if not self.tables:
            raise DataError(f"{self.name!r} has no recording.")
        first = self.tables[0]
        for table in self.tables:
            if (table.animals, table.parts) != (first.animals, first.parts):
                raise DataError(
                    f"{self.name!r}: recordings {first.name!r} and {table.name!r} have different animals or body parts. "
                    "Load only recordings with the same skeleton together."
                )
            if table.label_names != first.label_names:
                raise DataError(
                    f"{self.name!r}: recordings {first.name!r} and {table.name!r} have different label names."
                )

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[KeypointTable]:
        return iter(self.tables)

    def __getitem__(self, index: int) -> KeypointTable:
        return self.tables[index]

    @cached_property
    def n_frames(self) -> int:
        """Number of frames of all recordings."""
        return sum(table.n_frames for table in self.tables)

    def to_trials(self, features: FeatureSet = "keypoints", scaling: Scaling = "auto") -> Trials:
        """Convert all recordings to Trials, with the arguments of `KeypointTable.to_trials`."""
        trials = tuple(trial for table in self.tables for trial in table.to_trials(features, scaling))
        return Trials(trials, self.name, self.tables[0].label_names)
