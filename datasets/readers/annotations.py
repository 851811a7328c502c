"""Files of expert labels: BORIS exports, other tables of bouts, and tables with one label per frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError

from .delimited import read_delimited
from .header import is_number
from .roles import format_cell, numeric_values
from .source import TEXT, Readable, Source, open_source
from .timing import read_clock

_START = re.compile(r"^(start|onset|begin|from)", re.IGNORECASE)
_STOP = re.compile(r"^(stop|end|offset|until|to$)", re.IGNORECASE)
# names of the behaviour column, best first; BORIS also has an observation type and a behavioural category
_WHAT = (
    r"^behaviou?rs?$",
    r"^(label|annotation|action|event|class|state)s?$",
    r"behaviou?r(?!(al)?[ _](type|categor))",
    r"label|annotation|class|action|event|state",
    r"type",
)
_WHEN = re.compile(
    r"^(time|t|timestamp|seconds?|frames?|frame[ _]?(no|number|index|idx|id)|unnamed: ?0|column 1|row|index)\b", re.I
)
_EVENT_TIMES = (r"time( ?\(s\)|_s)?$", r"time(?! offset)", r"frame|image index")
_SIGNS = {"START": 1, "STATE START": 1, "STOP": -1, "STATE STOP": -1, "POINT": 0}
_DECIMALS = re.compile(r"[.,]\d*[1-9]")
_MAX_FRAMES = 20_000_000
MAX_LABELS = 500


@dataclass(frozen=True)
class Annotation:
    """Labels [T] (indices into `label_names`, -1 for unlabelled) with notes on omissions, and the rate of a time column."""

    labels: npt.NDArray[np.int64]
    label_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    rate_hz: float | None = None


def read_annotation(source: Readable, rate_hz: float, name: str | None = None) -> Annotation:
    """Read labels from a table of bouts, events, or one label per row.

    Bouts are in seconds, or in frames if their columns are named so. Rows without a behaviour are unlabelled. Rows with a
    clock of a different rate than `rate_hz` apply until the next row.

    source    a path, bytes, or an open file
    rate_hz   frames per second of the recording
    name      name of the file; needed for bytes
    """
    if not rate_hz > 0:
        raise ConfigError(f"rate_hz is {rate_hz}; it must be positive, in frames per second.")
    opened = open_source(source, name)
    return parse_annotation(read_table_of_labels(opened), rate_hz, opened)


def read_table_of_labels(opened: Source) -> pd.DataFrame:
    """Read the table of a file of labels."""
    if opened.suffix not in TEXT:
        raise DataError(
            f"{opened.name} is not a table of labels (.csv, .tsv, .txt). Export it from BORIS, or save columns start, stop "
            "and behaviour."
        )
    return read_delimited(opened).frame


def parse_annotation(frame: pd.DataFrame, rate_hz: float | None, opened: Source, keep_rate: bool = False) -> Annotation:
    """Return the labels of a table.

    opened     provides its name
    keep_rate  leave rows at the rate of their time column
    """
    columns = [str(column) for column in frame.columns]
    one = next((c for c in columns if c.strip().lower() == "observation id"), None)
    if one and frame[one].nunique() > 1:
        raise DataError(f"{opened.name} has {frame[one].nunique()} observations. Export each to a separate file.")
    start = next((c for c in columns if _START.search(c)), None)
    stop = next((c for c in columns if _STOP.search(c)), None)
    what = next((c for pattern in _WHAT for c in columns if re.search(pattern, c.strip(), re.IGNORECASE)), None)
    if start and what and not stop:
        raise DataError(f"{opened.name}: the column {start!r} has the start of bouts, but no column has their end.")
    sign = next((c for c in columns if c != what and _is_sign(frame[c])), None) if what else None
    if not (what and (sign or (start and stop))):
        return _read_row_labels(frame, what, None if keep_rate else rate_hz, opened)
    if rate_hz is None:
        raise DataError(f"{opened.name} has bouts, which need the sampling rate of the recording; set --rate.")
    if start and stop:
        return _read_bouts(frame, start, stop, what, rate_hz, opened)
    return _read_events(frame, str(sign), what, rate_hz, opened)


def _read_bouts(frame: pd.DataFrame, start: str, stop: str, what: str, rate_hz: float, source: Source) -> Annotation:
    """Read a table with a row per bout."""
    in_frames = "frame" in start.lower()
    scale = 1.0 if in_frames else rate_hz
    first = np.rint(numeric_values(frame[start]).astype(float) * scale)
    last = np.rint(numeric_values(frame[stop]).astype(float) * scale)
    if in_frames:
        last += 1  # bouts in frames include the last one
    return _label_frames(first, last, _names(frame[what]), source)


def _names(column: pd.Series[Any]) -> list[str]:
    """Return behaviours as text, empty if missing."""
    return ["" if missing else format_cell(value).strip() for value, missing in zip(column, column.isna(), strict=True)]


def _is_sign(column: pd.Series[Any]) -> bool:
    """Return True if a column has START and STOP for the rows."""
    values = {str(value).strip().upper() for value in column.dropna().unique()}
    return {1, -1} <= {_SIGNS.get(value, 9) for value in values} <= set(_SIGNS.values())


def _read_events(frame: pd.DataFrame, sign: str, what: str, rate_hz: float, source: Source) -> Annotation:
    """Read a table of start and stop events, as BORIS exports them."""
    columns = [str(column) for column in frame.columns]
    when = next((c for pattern in _EVENT_TIMES for c in columns if re.match(pattern, c.strip(), re.IGNORECASE)), None)
    if when is None:
        raise DataError(f"{source.name}: no column has the times of events. Name one 'time', in seconds.")
    at = numeric_values(frame[when]).astype(float) * (1.0 if re.search("frame|image", when, re.I) else rate_hz)
    subject = next((c for c in columns if re.match("subject", c, re.I)), None)
    subjects = _names(frame[subject]) if subject else [""] * len(frame)
    running: dict[tuple[str, str], float] = {}
    bouts: list[tuple[float, float, str]] = []
    points = 0
    signs, names = _names(frame[sign]), _names(frame[what])
    for i in np.argsort(at, kind="stable"):
        time, name = float(at[i]), names[i]
        step, key = _SIGNS.get(signs[i].upper()), (subjects[i], name)
        if not step:
            points += step == 0
        elif (step == 1) == (key in running):
            wrong = "starts again before it stops" if step == 1 else "stops before it starts"
            raise DataError(
                f"{source.name}: event {i + 1}, {name!r}, {wrong}. Correct the events and export them again."
            )
        elif step == 1:
            running[key] = time
        else:
            bouts.append((running.pop(key), time, name))
    if running:
        raise DataError(
            f"{source.name}: {next(iter(running))[1]!r} starts but never stops. Correct the events and export them again."
        )
    bouts.sort(key=lambda bout: bout[0])
    first, last, done = zip(*bouts, strict=True)
    found = _label_frames(np.rint(np.array(first)), np.rint(np.array(last)), list(done), source)
    left_out = (f"{points:,} point events without duration were left out",) if points else ()
    return replace(found, notes=found.notes + left_out)


def _read_row_labels(frame: pd.DataFrame, what: str | None, rate_hz: float | None, source: Source) -> Annotation:
    """Return the labels of a table with one row per frame."""
    others = [str(c) for c in frame.columns if not _WHEN.search(str(c).strip()) and frame[c].notna().any()]
    column = what or (others[0] if len(others) == 1 else None)
    if column is None:
        raise DataError(
            f"{source.name}: no column is named behaviour or label; the columns are {', '.join(map(str, frame.columns[:10]))}. "
            "Rename the column of labels."
        )
    codes, found = pd.factorize(frame[column], sort=True)
    words = tuple(format_cell(value) for value in found)
    if (
        not 0 < len(words) <= MAX_LABELS
        or sum(is_number(word) and bool(_DECIMALS.search(word)) for word in words) > len(words) / 2
    ):
        values = f"{len(words):,} different values" + (f", such as {words[0]!r}" if words else "")
        raise DataError(
            f"{source.name}: the column {column!r} has {values}. Choose a file of bouts, or of one label per frame."
        )
    return _spread_over_frames(frame, Annotation(codes.astype(np.int64), words), rate_hz)


def _spread_over_frames(frame: pd.DataFrame, rows: Annotation, rate_hz: float | None) -> Annotation:
    """Convert labels of rows to frames if a time column has another rate."""
    when = next((str(c) for c in frame.columns if re.match(r"(time|timestamp|seconds?)\b", str(c), re.I)), None)
    if when is None or len(frame) < 2:
        return rows
    try:
        clock = read_clock(frame[when], when)
    except DataError:  # no valid times, so each row is a frame
        return rows
    seconds = clock.seconds
    if clock.rate_hz is None or not np.isfinite(seconds).all() or clock.backwards:
        return rows
    if rate_hz is None or abs(clock.rate_hz / rate_hz - 1) < 0.01:
        return replace(rows, rate_hz=clock.rate_hz)
    n = (seconds[-1] + 1 / clock.rate_hz) * rate_hz
    if n > _MAX_FRAMES:
        raise DataError(f"The time column {when!r} would make {n:,.0f} frames; the limit is {_MAX_FRAMES:,}.")
    at = np.searchsorted(seconds, (np.arange(round(n)) + 1e-6) / rate_hz, side="right") - 1
    note = f"rows at {clock.rate_hz:.4g} Hz were converted to frames at {rate_hz:.4g} Hz"
    return replace(rows, labels=rows.labels[at], notes=(*rows.notes, note))


def _label_frames(
    first: npt.NDArray[np.float64], last: npt.NDArray[np.float64], what: list[str], source: Source
) -> Annotation:
    """Return the labels of bouts, each with the frames first to last (exclusive)."""
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        raise DataError(f"{source.name}: a bout has no start or no stop.")
    if (first < 0).any() or (last < first).any() or last.max() > _MAX_FRAMES:
        bad = int(np.flatnonzero((first < 0) | (last < first) | (last > _MAX_FRAMES))[0])
        raise DataError(
            f"{source.name}: bout {bad + 1} spans frames {first[bad]:.0f} to {last[bad]:.0f}, which is invalid."
        )
    named, long = np.array([name != "" for name in what]), last > first
    notes = []
    if not named.all():
        notes.append(f"{int((~named).sum()):,} bouts without a behaviour were left out")
    if (named & ~long).any():
        notes.append(f"{int((named & ~long).sum()):,} bouts shorter than a frame were left out")
    kept = np.flatnonzero(named & long)
    if len(kept) == 0:
        raise DataError(f"{source.name} has no bout with a behaviour and a duration.")
    names = tuple(sorted({what[i] for i in kept}))
    labels = np.full(int(last.max()), -1, dtype=np.int64)
    overlaps = 0
    for i in kept:
        piece = labels[int(first[i]) : int(last[i])]
        overlaps += bool((piece >= 0).any())
        piece[:] = names.index(what[i])
    if overlaps:
        notes.append(f"{overlaps:,} bouts overlap; the later one in the file counts")
    return Annotation(labels, names, tuple(notes))
