"""Marks: labelled stretches of recordings, stored as JSON or read from annotation files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import find_bouts
from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED, Stretch, Trials

from .readers.annotations import read_annotation
from .readers.source import Readable, brief

FIELDS = ("recording", "start", "stop", "label")
MAX_LETTERS, MAX_FRAMES, MAX_TEXT = 300, 1_000_000_000, 20_000_000


@dataclass(frozen=True)
class Mark:
    """A label for samples start to stop (exclusive) of a recording."""

    recording: str
    start: int
    stop: int
    label: str

    def __post_init__(self) -> None:
        if not self.label.strip():
            raise DataError(f"A mark in {self.recording!r} has no label. Add one.")
        for name, text in (("recording", self.recording), ("label", self.label)):
            if len(text) > MAX_LETTERS:
                raise DataError(
                    f"The {name} {text[:40]!r}... of a mark has {len(text):,} characters; the limit is {MAX_LETTERS}."
                )
        if not 0 <= self.start < self.stop <= MAX_FRAMES:
            raise DataError(
                f"A mark of {self.label!r} in {self.recording!r} spans frames {self.start} to {self.stop}; expected "
                f"0 <= start < stop <= {MAX_FRAMES:,}."
            )


@dataclass(frozen=True)
class Marks:
    """Labelled stretches, in order of creation."""

    marks: tuple[Mark, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Distinct labels, in order of first use."""
        return tuple(dict.fromkeys(mark.label for mark in self.marks))

    def stretches(self, trials: Trials) -> tuple[Stretch, ...]:
        """Return (trial, start, stop, number of the label) of each mark."""
        where = {trial.name: i for i, trial in enumerate(trials)}
        numbers = {name: i for i, name in enumerate(self.names)}
        return tuple((where[mark.recording], mark.start, mark.stop, numbers[mark.label]) for mark in self.marks)

    def labels(self, trials: Trials) -> tuple[list[npt.NDArray[np.int64]], tuple[str, ...]]:
        """Return each trial's labels [T], -1 if unlabelled, and their names, for `LabelModel.fit`.

        Raises
        ------
        DataError
            If a mark is outside the trials, or overlaps a mark with a different label.
        """
        names = self.names
        codes = {trial.name: np.full(trial.n_samples, UNLABELLED, np.int64) for trial in trials}
        for mark in self.marks:
            if mark.recording not in codes:
                raise DataError(
                    f"A mark of {mark.label!r} belongs to the recording {mark.recording!r}, which is not among: "
                    f"{', '.join(list(codes)[:5])}."
                )
            n_samples = len(codes[mark.recording])
            if mark.stop > n_samples:
                raise DataError(
                    f"A mark of {mark.label!r} ends at frame {mark.stop - 1} of {mark.recording!r}, whose last frame is "
                    f"{n_samples - 1}. Check that it belongs to this recording."
                )
            part, code = codes[mark.recording][mark.start : mark.stop], names.index(mark.label)
            clash = np.flatnonzero((part != UNLABELLED) & (part != code))
            if len(clash):
                raise DataError(
                    f"Frame {mark.start + clash[0]} of {mark.recording!r} is marked as both {names[part[clash[0]]]!r} and "
                    f"{mark.label!r}. Remove one of the two marks."
                )
            part[:] = code
        return list(codes.values()), names

    def seconds(self, trials: Trials) -> float:
        """Return the labelled time of the trials in seconds."""
        codes, _ = self.labels(trials)
        return float(sum((part >= 0).sum() / trial.rate_hz for part, trial in zip(codes, trials, strict=True)))

    # ---- files --------------------------------------------------------------------------------------------------
    @classmethod
    def from_rows(cls, rows: Iterable[Any]) -> Marks:
        """Make marks from unchecked rows of recording, start, stop and label."""
        try:
            given = [(str(name), int(start), int(stop), str(label)) for name, start, stop, label in rows]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"These are not marks ({brief(error)}); each needs {', '.join(FIELDS)}.") from error
        return cls(tuple(Mark(*row) for row in given))

    def to_json(self) -> str:
        return json.dumps({"marks": [asdict(mark) for mark in self.marks]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Marks:
        """Read what `to_json` wrote."""
        if len(text) > MAX_TEXT:
            raise DataError(f"This list of marks has {len(text):,} characters; the limit is {MAX_TEXT:,}.")
        try:
            rows = [[entry[name] for name in FIELDS] for entry in json.loads(text)["marks"]]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DataError(f"This is not a list of marks ({brief(error)}); each needs {', '.join(FIELDS)}.") from error
        return cls.from_rows(rows)

    @classmethod
    def from_annotation(cls, source: Readable, recording: str, rate_hz: float, name: str | None = None) -> Marks:
        """Read the marks of one recording from an annotation file, such as BORIS's."""
        read = read_annotation(source, rate_hz, name)
        return cls.from_rows(
            (recording, start, stop, read.label_names[read.labels[start]])
            for start, stop in find_bouts(read.labels).tolist()
            if read.labels[start] != UNLABELLED
        )
