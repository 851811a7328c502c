"""A small table and its bytes in every file format."""

import io
import zipfile
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from datasets import tables

N = 60
NUMBERS = pd.DataFrame(
    {
        "time": np.arange(N) / 25,
        "speed": np.sin(np.arange(N) / 7).round(3),
        "height": np.cos(np.arange(N) / 5).round(3) + 10,
    }
)
PLAIN = NUMBERS.assign(behaviour=["run"] * 30 + ["rest"] * 30)


def check(table: tables.Table, frame: pd.DataFrame = NUMBERS) -> tables.Table:
    """Check channels, rate and values of the table."""
    trial = table.to_trials()[0]
    assert trial.channels == ("speed", "height")
    assert trial.rate_hz == pytest.approx(25)
    np.testing.assert_allclose(trial.y, frame[["speed", "height"]], rtol=1e-6)
    return table


def check_plain(table: tables.Table) -> None:
    """Check channels, rate, values and labels."""
    trials = check(table).to_trials()
    assert trials.label_names == ("rest", "run")
    assert trials[0].labels.tolist() == [1] * 30 + [0] * 30


def csv(frame: pd.DataFrame = PLAIN, **options: Any) -> bytes:
    return frame.to_csv(index=False, **options).encode()


def written(frame: pd.DataFrame, kind: str, **options: Any) -> bytes:
    """Return the bytes that pandas writes."""
    out = io.BytesIO()
    if kind in ("csv", "excel"):
        options.setdefault("index", False)
    getattr(frame, f"to_{kind}")(out, **options)
    return out.getvalue()


def book(**sheets: pd.DataFrame) -> bytes:
    """Return an Excel workbook."""
    out = io.BytesIO()
    with pd.ExcelWriter(out) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zipped(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def hdf(content: dict[str, Any]) -> bytes:
    """Return an HDF5 file; values of None are left out."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name, value in content.items():
            if value is not None:
                file[name] = value
    return out.getvalue()


def read(frame: Any, **options: Any) -> tables.Table:
    """Return a table read from CSV."""
    return tables.read(csv(pd.DataFrame(frame), **options), "a.csv")
