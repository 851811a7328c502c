"""Recordings from files and soft states to files, for the command line: CSV, NPZ, NPY and Parquet."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials

# Columns that count samples and measure nothing, unless they are asked for by name.
CLOCKS = frozenset({"time", "t", "timestamp", "seconds", "frame", "index", "unnamed: 0"})
FORMATS = (".csv", ".npz", ".npy", ".parquet")


def read_trials(
    path: Path, columns: list[str] | None = None, trial_column: str | None = None, rate_hz: float = 1.0
) -> Trials:
    """The numeric columns of a table (or the [time, channels] arrays of an NPZ, one a trial) as trials."""
    if not path.is_file():
        raise DataError(f"There is no file at {path}.")
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise DataError(f"{path} is of no known kind ({suffix or 'no suffix'}); expected {', '.join(FORMATS)}.")
    if suffix in (".npz", ".npy"):
        if columns or trial_column:
            raise DataError(f"{path} holds arrays without column names; --columns and --trial-column need a table.")
        return _from_arrays(path, rate_hz)
    return _from_frame(_read_frame(path), path, columns, trial_column, rate_hz)


def _read_frame(path: Path) -> pd.DataFrame:
    try:
        return (
            pd.read_parquet(path)
            if path.suffix.lower() == ".parquet"
            else pd.read_csv(path, float_precision="round_trip")
        )
    except (ValueError, OSError) as error:  # pandas' and pyarrow's own reading errors are ValueErrors
        raise DataError(f"{path} cannot be read as a table: {error}") from error


def _numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """NaN where there is no number. An exponent of five digits ends the process in pandas' own parser."""
    if not pd.api.types.is_numeric_dtype(column.dtype):
        text = column.astype(str)
        column = text.mask(text.str.contains(r"[eE][+-]?\d{5}"), "")
    return pd.to_numeric(column, errors="coerce")


def _from_frame(
    frame: pd.DataFrame, path: Path, columns: list[str] | None, trial_column: str | None, rate_hz: float
) -> Trials:
    frame.columns = frame.columns.map(str)
    for name in [*(columns or []), *([trial_column] if trial_column else [])]:
        if name not in frame.columns:
            raise DataError(f"{path} has no column {name!r}; it has {', '.join(frame.columns)}.")
    if columns:
        chosen = frame[columns].apply(_numbers)
        lost = chosen.columns[chosen.isna().all()]
        if len(lost):
            raise DataError(f"{path}: the column {lost[0]!r} holds no number.")
    else:
        numeric = frame.select_dtypes("number")
        chosen = numeric[[c for c in numeric.columns if c.lower() not in CLOCKS and c != trial_column]]
    if chosen.shape[1] == 0 or len(chosen) == 0:
        raise DataError(f"{path} has no numeric column with values; expected one row a sample, one column a channel.")
    names = tuple(chosen.columns)
    if trial_column is None:
        return Trials((Trial(chosen.to_numpy(np.float64), rate_hz, names, name=path.stem),), name=path.stem)
    groups = chosen.groupby(frame[trial_column].to_numpy(), sort=False)
    return Trials(
        tuple(Trial(part.to_numpy(np.float64), rate_hz, names, name=str(key)) for key, part in groups), name=path.stem
    )


def _from_arrays(path: Path, rate_hz: float) -> Trials:
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = {path.stem: loaded} if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as arrays: {error}") from error
    if "y" in arrays:
        arrays = {"y": arrays["y"]}
    usable = {key: a for key, a in arrays.items() if a.ndim == 2 and np.issubdtype(a.dtype, np.number)}
    if not usable:
        shapes = ", ".join(f"{key} {a.dtype}{list(a.shape)}" for key, a in arrays.items()) or "nothing"
        raise DataError(f"{path} holds no numeric array of shape [time, channels]; it holds {shapes}.")
    return Trials(tuple(Trial(a, rate_hz, name=key) for key, a in usable.items()), name=path.stem)


def states_frame(trials: Trials, states: list[npt.NDArray[Any]]) -> pd.DataFrame:
    """time (s), p_1..p_K, state (1..K, the largest), entropy (nats); a leading `trial` column where there are several."""
    frames = []
    for trial, soft in zip(trials, states, strict=True):
        p = np.asarray(soft, np.float64)  # [T, K]
        entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=1)
        frame = pd.DataFrame({"time": trial.seconds} | {f"p_{k + 1}": p[:, k] for k in range(p.shape[1])})
        frame["state"], frame["entropy"] = p.argmax(axis=1) + 1, entropy
        if len(trials) > 1:
            frame.insert(0, "trial", trial.name)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
