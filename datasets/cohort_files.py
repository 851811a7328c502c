"""Files of a study: its sheet, and many recordings at once (poses or tables), or the states that another tool found."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED, Trial

from . import keypoints
from .readers.annotations import annotation_of
from .readers.archives import read_arrays
from .readers.formats import read_frame
from .readers.source import Readable, open_source
from .splits import with_channels

Features = Literal["egocentric", "keypoints"]
Given = Path | IO[bytes]  # an open file has a `name`
MOST_FILES = 1_000
MOST_BYTES = 4 << 30  # that the files of one zip may hold together
_KEYS = ("recording", "observation id")  # columns that say which recording a row is of
_NO_RECORDING = (".zip", ".mp4", ".avi", ".png", ".jpg", ".md", ".json", ".yaml", ".pickle")


def files_in(given: Given) -> list[Given]:
    """The files of a folder or of a zip; any other file is itself.

    given   a path, or an open file with a name
    """
    name = given.name
    if isinstance(given, Path) and given.is_dir():
        found: list[Given] = [p for p in sorted(given.rglob("*")) if p.is_file() and _may_be_one(p.name)]
    elif name.lower().endswith(".zip"):
        found = _unpacked(given)
    else:
        return [given]
    if not found:
        raise DataError(f"{name} holds no file that could be a recording.")
    if len(found) > MOST_FILES:
        raise DataError(f"{name} holds {len(found):,} files; {MOST_FILES:,} may be brought at once.")
    return found


def _may_be_one(name: str) -> bool:
    return not name.startswith(".") and not name.lower().endswith(_NO_RECORDING)


def _unpacked(given: Given) -> list[Given]:
    try:
        archive = zipfile.ZipFile(given)
        inside = [one for one in archive.infolist() if not one.is_dir() and _may_be_one(PurePath(one.filename).name)]
        if sum(one.file_size for one in inside) > MOST_BYTES:
            raise DataError(
                f"{given.name} holds more than {MOST_BYTES >> 30} GB. Bring it as a folder below the data folder."
            )
        return [archive.open(one) for one in inside]  # each is unpacked while it is read, none before
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{given.name} cannot be unpacked ({error}).") from error


def read_sheet(source: Readable, name: str | None = None, page: str | None = None) -> pd.DataFrame:
    """The sheet of a study from CSV, TSV, Parquet or XLSX, as it is written there.

    source   a path, bytes, or an open file
    name     of the file, where bytes are given
    page     of a workbook the one to read
    """
    frame = read_frame(open_source(source, name), sheet=page).frame
    columns: dict[str, Any] = {}
    for column in frame.columns:
        cells = frame[column]
        if isinstance(cells.dtype, pd.CategoricalDtype):
            cells = cells.astype(object)
        elif cells.dtype == np.float32:  # a dose of 0.3 is 0.3 again, not 0.30000001
            cells = cells.astype(str).astype(np.float64)
        columns[str(column)] = cells
    return pd.DataFrame(columns)


def sheet_within(given: Given) -> pd.DataFrame | None:
    """The sheet of a long table that holds several recordings: its columns that never change within one (animal, group, dose),
    a row for each. None where the file is no such table.

    given   a path, or an open file with a name
    """
    found = _long(given)
    if found is None:
        return None
    key, frame = found
    same = frame.groupby(key, sort=False).nunique(dropna=False).max() == 1
    return (
        frame.loc[~frame[key].duplicated(), [key, *same.index[same]]]
        .rename(columns={key: "recording"})
        .reset_index(drop=True)
    )


def _long(given: Given) -> tuple[str, pd.DataFrame] | None:
    """(the column that says which recording a row is of, the table), where a table holds several."""
    name = PurePath(given.name).name
    if not name.lower().endswith((".csv", ".tsv", ".parquet", ".xlsx")):
        return None
    frame = read_sheet(given, name)
    if not isinstance(given, Path):
        given.seek(0)
    key = next((c for c in map(str, frame.columns) if c.strip().casefold() in _KEYS), None)
    several = key is not None and 1 < frame[key].nunique() < len(frame) and frame[key].notna().all()
    return (key, frame) if key is not None and several else None


def read_recordings(
    paths: Iterable[Given],
    rate_hz: float | None = None,
    features: Features = "egocentric",
    notes: list[str] | None = None,
) -> dict[str, Trial]:
    """Recordings by name of their file; of a long table with several, by the value of its column that tells them apart.

    paths      of pose files and tables, or open files
    rate_hz    samples a second, where files do not say
    features   of poses: "egocentric" (shape and motion, wherever the animal is) or "keypoints" (coordinates)
    notes      to which a sentence is added for each file with lost parts that were filled
    """
    found: dict[str, Trial] = {}
    for path in paths:
        for called, trial in read_one(path, rate_hz, features, notes).items():
            _add(found, called, trial, path)
    return with_seen(found)


def read_one(
    given: Given,
    rate_hz: float | None = None,
    features: Features = "egocentric",
    notes: list[str] | None = None,
) -> dict[str, Trial]:
    """The recordings of one file: as for `read_recordings`.

    given      a path, or an open file with a name
    rate_hz    samples a second, where the file does not say
    features   of poses
    notes      as for `read_recordings`
    """
    data = _data(given, rate_hz)
    if notes is not None and isinstance(data, keypoints.KeypointTable) and data.filled is not None:
        notes.append(f"{PurePath(given.name).name}: {keypoints.describe_filled(data.filled)}")
    trials = data.to_trials(features) if isinstance(data, keypoints.KeypointTable) else data.to_trials(rate_hz=rate_hz)
    found: dict[str, Trial] = {}
    for trial in trials:
        _add(found, _called(trial.name, len(trials), given), trial, given)
    return found


def read_poses(given: Given, name: str, rate_hz: float | None = None) -> keypoints.KeypointTable | None:
    """The poses of a recording that `read_one` found in a file; None where the file holds none.

    given     the file
    name      of the recording
    rate_hz   samples a second, where the file does not say
    """
    data = _data(given, rate_hz)
    parts = data.split() if isinstance(data, keypoints.KeypointTable) else ()
    return next((part for part in parts if _called(part.name, len(parts), given) == name), None)


def _data(given: Given, rate_hz: float | None) -> keypoints.KeypointTable | keypoints.Table:
    data = keypoints.read_any(given, PurePath(given.name).name, rate_hz=rate_hz)
    if isinstance(data, keypoints.Table) and keypoints.looks_like_keypoints(data):
        data = keypoints.from_table(data, rate_hz) or data
    if isinstance(data, keypoints.KeypointTable):
        data = keypoints.clean(data, fill_seconds=keypoints.FILL_SECONDS)
    return data


def _called(name: str, of: int, given: Given) -> str:
    """What a recording is called: as its file, unless there are several in it."""
    return PurePath(given.name).name if of == 1 else name.partition(" ")[2] or name


def with_seen(found: Mapping[str, Trial]) -> dict[str, Trial]:
    """Recordings without the features that none of them has.

    found   by name
    """
    # A feature that no recording has (a width of two parts) says nothing, and no model takes it.
    seen = {
        channel
        for one in found.values()
        for channel, y in zip(one.channels, one.y.T, strict=True)
        if not np.isnan(y).all()
    }
    kept = {name: np.isin(one.channels, list(seen)) for name, one in found.items()}
    return {
        name: with_channels(one, kept[name]) if 0 < kept[name].sum() < one.n_channels else one
        for name, one in found.items()
    }


def read_states(paths: Iterable[Given], rate_hz: float) -> tuple[dict[str, npt.NDArray[Any]], dict[int, str]]:
    """States that another tool found, by recording, and their names where files have words.

    An NPZ holds an array for each recording, [T] whole numbers (-1 unlabelled) or soft states [T, K]; any other file is one
    recording, or has a column "recording" (of BORIS: Observation id): BORIS's exports, tables of bouts, a label a row.

    paths     of the files, or open files
    rate_hz   samples a second, for times in seconds
    """
    found: dict[str, npt.NDArray[Any]] = {}
    words: dict[str, npt.NDArray[np.int64]] = {}
    codes: dict[str, int] = {}
    for path in paths:
        name = PurePath(path.name).name
        if name.lower().endswith((".npz", ".npy")):
            for key, array in read_arrays(open_source(path, name)).items():
                _add(found, name if name.lower().endswith(".npy") else key, array, path)
            continue
        if (long := _long(path)) is None:
            read = {name: keypoints.read_annotation(path, rate_hz, name=name)}
        else:
            key, frame = long
            parts = {str(one): rows.drop(columns=key) for one, rows in frame.groupby(key, sort=False)}
            read = {one: annotation_of(rows, rate_hz, open_source(path, name)) for one, rows in parts.items()}
        for called, one in read.items():
            numbers = np.array([codes.setdefault(word, len(codes)) for word in one.label_names] + [UNLABELLED])
            _add(words, called, numbers[one.labels], path)
    if found and words:
        raise DataError("Some files hold states as numbers and some as words; give those of one kind.")
    return (found, {}) if found else ({**words}, {code: word for word, code in codes.items()})


def _add(found: dict[str, Any], name: str, value: Any, path: Given) -> None:
    if name in found:
        raise DataError(f"{path.name}: there is a recording {name!r} already. Each needs a name of its own.")
    found[name] = value
