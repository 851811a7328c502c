"""Reading, checking, cleaning and labelling tracked animals (DeepLabCut, SLEAP, tables, NPZ)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.text import first_of

from .readers.annotations import Annotation, read_annotation
from .readers.archives import open_archive, read_pose_arrays
from .readers.deeplabcut import assemble, looks_like_deeplabcut, read_deeplabcut_csv
from .readers.delimited import sniff
from .readers.doubts import Answers, unanswered
from .readers.filling import fill_parts
from .readers.flat import flat_columns
from .readers.hdf import read_hdf
from .readers.pose import FeatureSet, KeypointSet, KeypointTable, Scaling, with_labels
from .readers.quality import LOW_SCORE, QualityReport, channel_quality, outlier_mask, percent
from .readers.roles import Role, columns_with, find_recording_columns, format_cell, is_numeric, numeric_values
from .readers.source import TEXT, Readable, open_source
from .tables import Table
from .tables import read as read_table

__all__ = [
    "FILL_SECONDS", "READABLE", "Annotation", "FeatureSet", "KeypointSet", "KeypointTable", "Scaling", "clean", "from_table",
    "looks_like_keypoints", "read", "read_annotation", "read_any", "report", "with_labels",
]  # fmt: skip

READABLE = (".csv", ".csv.gz", ".h5", ".hdf5", ".nwb", ".npz", ".parquet", ".xlsx")
_HDF = (".h5", ".hdf5", ".hdf", ".nwb")
FILL_SECONDS = 30.0  # longest gap of a part that pages fill before computing features
MAX_NOTES = 6  # on single recordings
_SENSOR = re.compile(
    r"(^|[ _.\-])(acc(el\w*)?|gyro\w*|mag(net\w*)?|imu\w*|vel\w*|speed|force|torque|field)([ _.\-\d]|$)", re.I
)


def read(
    source: Readable, name: str | None = None, rate_hz: float | None = None, answers: Answers | None = None
) -> KeypointTable:
    """Read a recording from a tracking file or table.

    source    a path, bytes, or an open file
    name      name of the file; needed for bytes
    rate_hz   frames per second; by default from a table's time column, else 30 with a note
    answers   answers to the doubts of a table
    """
    found = read_any(source, name, rate_hz, answers=answers)
    posed = from_table(found, rate_hz) if isinstance(found, Table) else found
    if posed is None:
        raise DataError(
            f"{found.name} has no keypoints: neither a DeepLabCut header (scorer, bodyparts, coords) nor two parts with "
            "columns such as nose_x and nose_y. Open it as a table instead."
        )
    return posed


def looks_like_keypoints(table: Table) -> bool:
    """Return True if a table's columns are tracked body parts, for `from_table`.

    At least two parts need numeric columns named like nose_x and nose_y, or mouse1_nose_x. Sensors with axes (acc_x,
    gyro_y) do not count.
    """
    flat = flat_columns(table.columns, table.answers, table.animals)
    if flat is None:
        return False
    columns, _ = flat
    named = [(j, part) for j, (_, part, axis) in enumerate(columns) if axis in ("x", "y")]
    places = [j for j, part in named if not _SENSOR.search(part) and not _SENSOR.search(table.columns[j])]
    return 2 * len(places) > len(named) and all(is_numeric(table.frame.iloc[:, j]) for j in places)


def from_table(table: Table, rate_hz: float | None = None) -> KeypointTable | None:
    """Make keypoints from columns named by part and coordinate; None below two parts.

    Labels come from the column with the role label. Columns such as recording or animal separate recordings, which
    `KeypointTable.split` returns.

    table    a table; its column with the role group separates recordings
    rate_hz  frames per second; by default from the time column, else 30 with a note
    """
    flat = flat_columns(table.columns, table.answers, table.animals)
    if flat is None:
        return None
    columns, doubts = flat
    trials, notes = _find_recordings(table)
    at = [j for j, column in enumerate(columns) if column[2]]
    no_channels = {table.columns[j] for j in at}
    roles: dict[str, Role] = {
        name: role for name, role in table.roles.items() if role is not Role.GROUP and name not in no_channels
    }
    try:
        known = table.understand_trials(roles, trials)
    except DataError as error:
        known = table.understand_trials({}, trials)
        notes.append(f"the time column was not used ({error})")
    rows = np.concatenate([its for _, its in known.order.trials])
    arrays = [known.order.take(numeric_values(table.frame.iloc[:, j]).astype(np.float32), rows) for j in at]
    rate = rate_hz if rate_hz is not None or known.clock is None else known.clock.rate_hz
    found = assemble([columns[j] for j in at], arrays, rate, table.name)
    several = tuple((name, len(its)) for name, its in known.order.trials) if len(known.order.trials) > 1 else ()
    notes = [*notes, *known.order.notes, *found.notes]
    doubts = unanswered((*doubts, *known.doubts), table.answers)
    found = replace(found, recordings=several, notes=tuple(notes), doubts=doubts)
    if (words := next(iter(columns_with(roles, Role.LABEL)), None)) is None:
        return found
    codes, names = pd.factorize(table.frame[words], sort=True)
    labels = np.where(rows < 0, -1, codes[rows]).astype(np.int64)
    return with_labels(found, labels, [format_cell(name) for name in names])


def _find_recordings(table: Table) -> tuple[list[tuple[str, npt.NDArray[np.int64]]], list[str]]:
    """Return (name, rows) of each recording, and notes."""
    group = next(iter(columns_with(table.roles, Role.GROUP)), None)
    used, others = find_recording_columns(table.frame) if group is not None else ([], [])
    if group is not None and group not in (*used, *others) and table.frame[group].nunique() > 1:
        used, others = [group], []  # the user assigned the role
    values = {
        name: first_of([format_cell(value) for value in table.frame[name].dropna().unique()], 3) for name in others
    }
    notes = [f"{name!r} ({examples}) does not separate recordings and was ignored" for name, examples in values.items()]
    trials = table.group_rows(used)
    if used:
        notes.insert(0, f"{' and '.join(map(repr, used))} separate {len(trials):,} recordings; each is a trial")
    if lost := table.n_rows - sum(len(rows) for _, rows in trials):
        notes.append(f"{lost:,} of {table.n_rows:,} rows without a recording were left out")
    return trials, notes


def read_any(
    source: Readable,
    name: str | None = None,
    rate_hz: float | None = None,
    sheet: str | None = None,
    answers: Answers | None = None,
) -> KeypointTable | Table:
    """Read keypoints from a tracking file, or else a table.

    `from_table` converts a table for which `looks_like_keypoints` is true. Arguments are those of `read` and `tables.read`.
    """
    if rate_hz is not None and not (np.isfinite(rate_hz) and rate_hz > 0):
        raise ConfigError(f"rate_hz is {rate_hz}; it must be positive, in frames per second.")
    opened = open_source(source, name)
    if opened.suffix in _HDF and not opened.packed:
        return read_hdf(opened, rate_hz)
    if opened.suffix in TEXT and looks_like_deeplabcut(sniff(opened)):
        return read_deeplabcut_csv(opened, rate_hz)
    if opened.suffix == ".npz" and not opened.packed:
        with open_archive(opened) as archive:
            posed = "keypoints.npy" in archive.namelist()
        if posed:
            return read_pose_arrays(opened, rate_hz)
    return read_table(source, name, sheet, answers)


def report(table: KeypointTable, min_score: float = LOW_SCORE) -> QualityReport:
    """Count missing keypoints, low scores and jumps.

    min_score   parts with a lower score count as missing
    """
    y = np.asarray(table.xy).reshape(table.n_frames, -1)  # [T, A * 2 * P]
    low = 0 if table.scores is None else int(np.count_nonzero(np.asarray(table.scores) < min_score))
    return QualityReport(table.n_frames, channel_quality(y, table.channels), low_scores=low, notes=table.notes)


def clean(
    table: KeypointTable, min_score: float = 0.0, drop_outliers: bool = False, fill_seconds: float = 0.0
) -> KeypointTable:
    """Remove doubtful keypoints and fill gaps, adding notes.

    min_score       parts with a lower score become missing
    drop_outliers   remove outliers
    fill_seconds    longest gap of a part to estimate from the animal's other parts and from time; at most 3 s for a
                    whole animal
    """
    if not fill_seconds >= 0:
        raise ConfigError(f"fill_seconds is {fill_seconds}; it must be non-negative.")
    if table.recordings:  # gaps never span two recordings
        return _join(table, [clean(part, min_score, drop_outliers, fill_seconds) for part in table.split()])
    notes = list(table.notes)
    xy = np.array(table.xy, dtype=np.float32)
    points = xy.swapaxes(2, 3)  # [T, A, P, 2]
    if min_score > 0 and table.scores is not None:
        points[np.asarray(table.scores) < min_score] = np.nan  # NaN scores are not low
    if drop_outliers:
        out = outlier_mask(xy.reshape(len(xy), -1)).reshape(xy.shape).any(axis=2)  # remove both coordinates of a part
        points[out] = np.nan
        notes.append(f"{int(out.sum()):,} outlying keypoints count as missing")
    xy, filled = fill_parts(xy, table.rate_hz, fill_seconds)
    if filled.any():
        notes.append(describe_filled(filled))
        filled = filled if table.filled is None else filled | table.filled
    return replace(table, xy=xy, filled=filled if filled.any() else table.filled, notes=tuple(notes))


def _join(table: KeypointTable, parts: Sequence[KeypointTable]) -> KeypointTable:
    """Concatenate the cleaned parts of a table."""
    own_notes = [f"{part.name}: {note}" for part in parts for note in part.notes if note not in table.notes]
    scores = [part.scores for part in parts if part.scores is not None]
    filled = [np.zeros_like(part.xy[:, :, 0], bool) if part.filled is None else part.filled for part in parts]
    return replace(
        table,
        xy=np.concatenate([part.xy for part in parts]),
        scores=np.concatenate(scores) if scores else None,
        filled=np.concatenate(filled) if any(part.filled is not None for part in parts) else None,
        notes=(*table.notes, *limit_notes(own_notes)),
    )


def describe_filled(filled: npt.NDArray[np.bool_]) -> str:
    """Return a sentence about the share of filled parts [T, A, P]."""
    return f"{percent(float(filled.mean()))}% of the coordinates were filled from other body parts and from time"


def limit_notes(notes: Sequence[str]) -> list[str]:
    """Return the first few notes on single recordings, and the number of further ones."""
    more = [f"and {len(notes) - MAX_NOTES:,} more notes of this kind"] if len(notes) > MAX_NOTES else []
    return [*notes[:MAX_NOTES], *more]
