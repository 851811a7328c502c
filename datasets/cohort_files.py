"""Files of a study: its sheet, recordings (poses or tables), and states from other tools."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError, GdmError
from gdm_core.maths.angles import find_angles
from gdm_core.trials import UNLABELLED, Trial

from . import keypoints
from .readers.annotations import parse_annotation, read_table_of_labels
from .readers.archives import read_arrays
from .readers.doubts import Answers, UnansweredError, require_answers
from .readers.formats import read_frame
from .readers.source import Readable, open_source
from .readers.transforms import take_cosines
from .splits import select_channels

PathOrFile = Path | IO[bytes]  # an open file has a `name`
MAX_FILES = 1_000
MAX_BYTES = 4 << 30  # unpacked, of all files in one zip
_KEYS = ("recording", "observation id")  # columns that identify a row's recording
_NO_RECORDING = (".zip", ".mp4", ".avi", ".png", ".jpg", ".md", ".json", ".yaml", ".pickle")


def list_files(given: PathOrFile) -> list[PathOrFile]:
    """List the files of a folder or zip; any other file is returned alone."""
    name = given.name
    if isinstance(given, Path) and given.is_dir():
        found: list[PathOrFile] = [p for p in sorted(given.rglob("*")) if p.is_file() and _may_be_recording(p.name)]
    elif name.lower().endswith(".zip"):
        found = _open_zip(given)
    else:
        return [given]
    if not found:
        raise DataError(f"{name} contains no file that could be a recording.")
    if len(found) > MAX_FILES:
        raise DataError(f"{name} contains {len(found):,} files; the limit is {MAX_FILES:,}.")
    return found


def _may_be_recording(name: str) -> bool:
    return not name.startswith(".") and not name.lower().endswith(_NO_RECORDING)


def _open_zip(given: PathOrFile) -> list[PathOrFile]:
    try:
        archive = zipfile.ZipFile(given)
        inside = [
            one for one in archive.infolist() if not one.is_dir() and _may_be_recording(PurePath(one.filename).name)
        ]
        if sum(one.file_size for one in inside) > MAX_BYTES:
            raise DataError(
                f"{given.name} unpacks to more than {MAX_BYTES >> 30} GB. Put it into the data folder, unpacked."
            )
        return [archive.open(one) for one in inside]  # unpacked while reading
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{given.name} cannot be unpacked ({error}).") from error


def read_sheet(source: Readable, name: str | None = None, page: str | None = None) -> pd.DataFrame:
    """Read the sheet of a study from CSV, TSV, Parquet or XLSX.

    source   a path, bytes, or an open file
    name     name of the file; needed for bytes
    page     sheet of a workbook
    """
    frame = read_frame(open_source(source, name), sheet=page).frame
    columns: dict[str, Any] = {}
    for column in frame.columns:
        cells = frame[column]
        if isinstance(cells.dtype, pd.CategoricalDtype):
            cells = cells.astype(object)
        elif cells.dtype == np.float32:  # 0.3 must not become 0.30000001
            cells = cells.astype(str).astype(np.float64)
        columns[str(column)] = cells
    return pd.DataFrame(columns)


def extract_sheet(given: PathOrFile) -> pd.DataFrame | None:
    """Return the sheet within a long table of several recordings, or None for other files.

    Its columns are those that are constant within each recording, such as animal, group and dose.
    """
    found = _read_long_table(given)
    if found is None:
        return None
    key, frame = found
    same = frame.groupby(key, sort=False).nunique(dropna=False).max() == 1
    return (
        frame.loc[~frame[key].duplicated(), [key, *same.index[same]]]
        .rename(columns={key: "recording"})
        .reset_index(drop=True)
    )


def _read_long_table(given: PathOrFile) -> tuple[str, pd.DataFrame] | None:
    """Return (recording column, table) of a table with several recordings, or None."""
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
    paths: Iterable[PathOrFile],
    rate_hz: float | None = None,
    features: keypoints.FeatureSet = "egocentric",
    notes: list[str] | None = None,
    answers: Answers | None = None,
) -> dict[str, Trial]:
    """Read recordings, named by their file, or by the recording column of a long table.

    paths      paths of pose files and tables, or open files
    rate_hz    samples per second, for files without a rate
    features   for poses, "egocentric" (shape and motion) or "keypoints" (coordinates)
    notes      list that receives a sentence for each file with filled gaps
    answers    answers to doubts about the files, such as {"unit": "ms"}
    """
    found: dict[str, Trial] = {}
    for path in paths:
        for name, trial in read_file(path, rate_hz, features, notes, answers).items():
            _add(found, name, trial, path)
    return align_features(found)


def read_file(
    given: PathOrFile,
    rate_hz: float | None = None,
    features: keypoints.FeatureSet = "egocentric",
    notes: list[str] | None = None,
    answers: Answers | None = None,
) -> dict[str, Trial]:
    """Read the recordings of one file, as `read_recordings` does."""
    data = _read_data(given, rate_hz, answers)
    if notes is not None and isinstance(data, keypoints.KeypointTable) and data.filled is not None:
        notes.append(f"{PurePath(given.name).name}: {keypoints.describe_filled(data.filled)}")
    trials = (
        data.to_trials(features)
        if isinstance(data, keypoints.KeypointTable)
        else data.to_trials(rate_hz=rate_hz, angles={})
    )
    found: dict[str, Trial] = {}
    for trial in trials:
        _add(found, _recording_name(trial.name, len(trials), given), trial, given)
    return found


def try_file(
    name: str, content: bytes, rate_hz: float | None, features: keypoints.FeatureSet, answers: Answers
) -> tuple[dict[str, Trial] | UnansweredError | str, list[str]]:
    """Return the recordings of a file, its open questions or the reason why it cannot be read, and notes."""
    file, notes = io.BytesIO(content), list[str]()
    file.name = name
    try:
        return read_file(file, rate_hz, features, notes, answers), notes
    except UnansweredError as error:
        return error, []
    except GdmError as error:
        return str(error), []


def read_poses(
    given: PathOrFile, name: str, rate_hz: float | None = None, answers: Answers | None = None
) -> keypoints.KeypointTable | None:
    """Return the poses of a recording in a file, or None without poses.

    given     a path, or an open file with a name
    name      name of the recording
    rate_hz   frames per second, for a file without a rate
    answers   answers to doubts about the file
    """
    data = _read_data(given, rate_hz, answers)
    parts = data.split() if isinstance(data, keypoints.KeypointTable) else ()
    return next((part for part in parts if _recording_name(part.name, len(parts), given) == name), None)


def _read_data(
    given: PathOrFile, rate_hz: float | None, answers: Answers | None = None
) -> keypoints.KeypointTable | keypoints.Table:
    data = keypoints.read_any(given, PurePath(given.name).name, rate_hz=rate_hz, answers=answers)
    if isinstance(data, keypoints.Table):
        columns, posed = data.columns, keypoints.looks_like_keypoints(data)
        data = (keypoints.from_table(data, rate_hz) if posed else None) or data
        doubts = data.understand().doubts if isinstance(data, keypoints.Table) else data.doubts
        require_answers(data.name, doubts, answers or {}, columns)
    if isinstance(data, keypoints.KeypointTable):
        data = keypoints.clean(data, fill_seconds=keypoints.FILL_SECONDS)
    return data


def _recording_name(name: str, n_recordings: int, given: PathOrFile) -> str:
    """Return the name of the file, or of the recording if the file has several."""
    file = PurePath(given.name).name
    return file if n_recordings == 1 else name if name.startswith(file) else name.partition(" ")[2] or name


def align_features(found: Mapping[str, Trial]) -> dict[str, Trial]:
    """Drop features that are missing in every recording, such as the width of two parts.

    Angles that jump by a full turn in any recording become cosines and sines in all.
    """
    seen = {
        channel
        for one in found.values()
        for channel, y in zip(one.channels, one.y.T, strict=True)
        if not np.isnan(y).all()
    }
    kept = {name: np.isin(one.channels, list(seen)) for name, one in found.items()}
    aligned = {
        name: select_channels(one, kept[name]) if 0 < kept[name].sum() < one.n_channels else one
        for name, one in found.items()
    }
    turns: dict[str, float] = {}
    for channels in {one.channels for one in aligned.values()}:
        turns |= find_angles([one.y for one in aligned.values() if one.channels == channels], channels)
    for name, one in aligned.items():
        if turns.keys() & set(one.channels):
            y, channels = take_cosines(one.y, one.channels, turns)
            aligned[name] = replace(one, y=y, channels=channels)
    return aligned


def read_states(
    paths: Iterable[PathOrFile], rate_hz: float | None, rates: dict[str, float] | None = None
) -> tuple[dict[str, npt.NDArray[Any]], dict[int, str]]:
    """Read recording -> states of another tool, and number -> name of named states.

    An NPZ has an array for each recording: integer states [T] (-1 unlabelled) or soft states [T, K]. Other files are BORIS
    exports, tables of bouts, or tables with a label per row; a column "recording" or "Observation id" separates recordings.

    paths     paths, or open files
    rate_hz   samples per second, for times in seconds; None keeps that of a time column
    rates     receives the rate of each recording; those with a time column keep theirs
    """
    found: dict[str, npt.NDArray[Any]] = {}
    words: dict[str, npt.NDArray[np.int64]] = {}
    codes: dict[str, int] = {}
    for path in paths:
        name = PurePath(path.name).name
        if name.lower().endswith((".npz", ".npy")):
            for key, array in read_arrays(open_source(path, name)).items():
                key = name if name.lower().endswith(".npy") else key
                _add(found, key, array, path)
                if rates is not None:
                    rates[key] = _require_rate(rate_hz, key)
            continue
        if (long := _read_long_table(path)) is None:
            parts = {name: read_table_of_labels(open_source(path, name))}
        else:
            key, frame = long
            parts = {str(one): rows.drop(columns=key) for one, rows in frame.groupby(key, sort=False)}
        for recording, rows in parts.items():
            one = parse_annotation(rows, rate_hz, open_source(path, name), keep_rate=rates is not None)
            if rates is not None:
                rates[recording] = one.rate_hz or _require_rate(rate_hz, recording)
            numbers = np.array([codes.setdefault(word, len(codes)) for word in one.label_names] + [UNLABELLED])
            _add(words, recording, numbers[one.labels], path)
    if found and words:
        raise DataError("Some files have numbered states and some have named states. Use one kind.")
    return (found, {}) if found else ({**words}, {code: word for word, code in codes.items()})


def _require_rate(rate_hz: float | None, name: str) -> float:
    if rate_hz is None:
        raise DataError(f"{name}: states without a time column have no sampling rate; set --rate.")
    return rate_hz


def _add(found: dict[str, Any], name: str, value: Any, path: PathOrFile) -> None:
    if name in found:
        raise DataError(f"{path.name}: a recording named {name!r} already exists. Give each a different name.")
    found[name] = value
