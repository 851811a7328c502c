"""Files of a study: its sheet, and many recordings at once (poses or tables), or the states that another tool found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED, Trial

from . import keypoints
from .readers.arrays import read_arrays
from .readers.formats import read_frame
from .readers.source import Readable, open_source

Features = Literal["egocentric", "keypoints"]


def read_sheet(source: Readable, name: str | None = None, page: str | None = None) -> pd.DataFrame:
    """The sheet of a study from CSV, TSV, Parquet or XLSX, as it is written there.

    source   a path, bytes, or an open file
    name     of the file, where bytes are given
    page     of a workbook the one to read
    """
    frame = read_frame(open_source(source, name), 1, None, page).frame
    columns: dict[str, Any] = {}
    for column in frame.columns:
        cells = frame[column]
        if isinstance(cells.dtype, pd.CategoricalDtype):
            cells = cells.astype(object)
        elif cells.dtype == np.float32:  # a dose of 0.3 is 0.3 again, not 0.30000001
            cells = cells.astype(str).astype(np.float64)
        columns[str(column)] = cells
    return pd.DataFrame(columns)


def read_recordings(
    paths: Iterable[Path], rate_hz: float | None = None, features: Features = "egocentric"
) -> dict[str, Trial]:
    """Recordings by name of their file; of a long table with several, by the value of its column that tells them apart.

    paths      of pose files and tables
    rate_hz    samples a second, where files do not say
    features   of poses: "egocentric" (shape and motion, wherever the animal is) or "keypoints" (coordinates)
    """
    found: dict[str, Trial] = {}
    for path in paths:
        data = keypoints.read_any(path, rate_hz=rate_hz)
        if isinstance(data, keypoints.Table) and keypoints.looks_like_keypoints(data):
            data = keypoints.from_table(data, rate_hz) or data
        trials = (
            data.to_trials(features) if isinstance(data, keypoints.KeypointTable) else data.to_trials(rate_hz=rate_hz)
        )
        for trial in trials:
            called = path.name if len(trials) == 1 else trial.name.partition(" ")[2] or trial.name
            _add(found, called, trial, path)
    # A feature that no recording has (a width of two parts) says nothing, and no model takes it.
    seen = {
        channel
        for one in found.values()
        for channel, y in zip(one.channels, one.y.T, strict=True)
        if not np.isnan(y).all()
    }
    return {name: _with_channels(one, seen) for name, one in found.items()}


def _with_channels(trial: Trial, seen: set[str]) -> Trial:
    kept = [j for j, channel in enumerate(trial.channels) if channel in seen]
    if len(kept) in (0, trial.n_channels):
        return trial
    return replace(trial, y=trial.y[:, kept], channels=tuple(trial.channels[j] for j in kept))


def read_states(paths: Iterable[Path], rate_hz: float) -> tuple[dict[str, npt.NDArray[Any]], dict[int, str]]:
    """States that another tool found, by recording, and their names where files have words.

    An NPZ holds an array for each recording, [T] whole numbers (-1 unlabelled) or soft states [T, K]; any other file is one
    recording: BORIS's exports, tables of bouts, a label a row.

    paths     of the files
    rate_hz   samples a second, for times in seconds
    """
    found: dict[str, npt.NDArray[Any]] = {}
    words: dict[str, npt.NDArray[np.int64]] = {}
    codes: dict[str, int] = {}
    for path in paths:
        if path.suffix.lower() in (".npz", ".npy"):
            for key, array in read_arrays(open_source(path)).items():
                _add(found, path.name if path.suffix == ".npy" else key, array, path)
            continue
        read = keypoints.read_annotation(path, rate_hz)
        numbers = np.array([codes.setdefault(word, len(codes)) for word in read.label_names] + [UNLABELLED])
        _add(words, path.name, numbers[read.labels], path)
    if found and words:
        raise DataError("Some files hold states as numbers and some as words; give those of one kind.")
    return (found, {}) if found else ({**words}, {code: word for word, code in codes.items()})


def _add(found: dict[str, Any], name: str, value: Any, path: Path) -> None:
    if name in found:
        raise DataError(f"{path}: there is a recording {name!r} already. Each needs a name of its own.")
    found[name] = value
