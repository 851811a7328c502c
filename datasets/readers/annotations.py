"""Expert labels from files of their own: Bento / Caltech annotation text, BORIS-like bouts, or one label a frame."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.readers.delimited import read_delimited
from datasets.readers.roles import numeric_values
from datasets.readers.source import DEFAULT_LIMITS, Limits, Readable, Source, open_source
from gdm_core.errors import ConfigError, DataError

_BOUT = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\S.*?)\s*$")
_START = re.compile(r"^(start|onset|begin|from)", re.IGNORECASE)
_STOP = re.compile(r"^(stop|end|offset|until|to$)", re.IGNORECASE)
_WHAT = re.compile(r"behaviou?r|label|annotation|class|type|state|action|event", re.IGNORECASE)
_MOST_FRAMES = 20_000_000


@dataclass(frozen=True)
class Annotation:
    """labels [T], an index into `label_names`, -1 where nothing was noted."""

    labels: npt.NDArray[np.int64]
    label_names: tuple[str, ...]


def read_annotation(
    source: Readable, rate_hz: float, name: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Annotation:
    """Labels from a text file: Bento's bouts in frames, a table of bouts (start and stop in seconds, or in frames if
    their columns say so), or a table with one label a row."""
    if not rate_hz > 0:
        raise ConfigError(f"rate_hz is {rate_hz}; it must be a positive number of frames a second.")
    opened = open_source(source, name, limits)
    if opened.suffix not in (".txt", ".annot", ".csv", ".tsv"):
        raise DataError(f"{opened.name} is not an annotation file; readable: .txt, .annot, .csv, .tsv.")
    if b"Annotation" in opened.head(400) and opened.suffix in (".txt", ".annot"):
        return _bento(opened)
    frame, _ = read_delimited(opened)
    columns = [str(column) for column in frame.columns]
    start = next((c for c in columns if _START.search(c)), None)
    stop = next((c for c in columns if _STOP.search(c)), None)
    what = next((c for c in columns if _WHAT.search(c)), None)
    if start and stop and what:
        in_frames = "frame" in start.lower()
        scale = 1.0 if in_frames else rate_hz
        first = np.rint(numeric_values(frame[start]).astype(float) * scale)
        last = np.rint(numeric_values(frame[stop]).astype(float) * scale)
        if in_frames:
            last += 1  # a bout in frames holds its last one
        return _from_bouts(first, last, frame[what].astype(str).tolist(), opened)
    column = what or columns[-1]
    codes, words = pd.factorize(frame[column], sort=True)
    if len(words) == 0 or len(words) > 1000:
        raise DataError(
            f"{opened.name}: the column {column!r} holds {len(words)} different labels; it is no label column."
        )
    return Annotation(codes.astype(np.int64), tuple(str(word) for word in words))


def _bento(source: Source) -> Annotation:
    """The first channel of a Bento file: lines of start, end (both counted from 1, both included) and behaviour."""
    with source.open() as file:
        text = file.read(50_000_000).decode("utf-8", "replace")
    bouts: list[tuple[int, int, str]] = []
    channel = False
    for line in text.splitlines():
        if re.match(r"^\s*(S\d+|Ch\d+[^:]*):", line):
            if channel and bouts:
                break
            channel = True
        elif channel and (found := _BOUT.match(line)) and len(found[1]) < 10 and len(found[2]) < 10:
            bouts.append((int(found[1]), int(found[2]), found[3]))
    if not bouts:
        raise DataError(f"{source.name} looks like a Bento annotation but lists no bout (start, end, behaviour).")
    first, last, what = zip(*bouts, strict=True)
    return _from_bouts(np.array(first, float) - 1, np.array(last, float), list(what), source)


def _from_bouts(
    first: npt.NDArray[np.float64], last: npt.NDArray[np.float64], what: list[str], source: Source
) -> Annotation:
    """first and last [bouts]: each bout holds the frames from first up to, not including, last."""
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        raise DataError(f"{source.name}: a bout has no start or no stop.")
    if (first < 0).any() or (last < first).any() or last.max() > _MOST_FRAMES:
        bad = int(np.flatnonzero((first < 0) | (last < first) | (last > _MOST_FRAMES))[0])
        raise DataError(
            f"{source.name}: bout {bad + 1} goes from frame {first[bad]:.0f} to {last[bad]:.0f}, which is impossible."
        )
    names = tuple(sorted(set(what)))
    labels = np.full(int(last.max()), -1, dtype=np.int64)
    for start, stop, name in zip(first.astype(int), last.astype(int), what, strict=True):
        labels[start:stop] = names.index(name)
    return Annotation(labels, names)
