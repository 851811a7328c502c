"""Study files: an Arrow table with a row for each recording, and JSON in its header; never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import ModelFileError
from gdm_core.study.sheet import RECORDING
from gdm_core.study.states import Recording

FORMAT = "gdm-studio-study"
FORMAT_VERSION = 1
_OWN = ("states", "soft", "rate_hz", "start_seconds")
_SHEET = "sheet."


def encode_study(
    frame: pd.DataFrame, recordings: Mapping[str, Recording], header: Mapping[str, Any], model: bytes | None
) -> bytes:
    """Return the content of a study file."""
    import pyarrow as pa
    from pyarrow import feather

    ones = [recordings.get(name) for name in frame[RECORDING]]  # None: an excluded recording
    try:
        sheet = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:  # columns of mixed types become text
        mixed = {
            str(c): frame[c].map(lambda v: None if pd.isna(v) else str(v)) for c in frame if frame[c].dtype == object
        }
        sheet = pa.Table.from_pandas(frame.assign(**mixed), preserve_index=False)
    columns = {f"{_SHEET}{name}": sheet.column(name) for name in sheet.column_names} | {
        "states": pa.array([one and one.labels for one in ones], pa.list_(pa.int32())),
        "soft": pa.array(
            [None if not one or one.soft is None else one.soft.tobytes() for one in ones], pa.large_binary()
        ),
        "rate_hz": pa.array([one and one.rate_hz for one in ones], pa.float64()),
        "start_seconds": pa.array([one and one.start_seconds for one in ones], pa.float64()),
    }
    described = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, **header}).encode()
    table = pa.table(columns).replace_schema_metadata({b"study": described, b"model": model or b""})
    buffer = BytesIO()
    feather.write_feather(table, buffer, compression="zstd")
    return buffer.getvalue()


def decode_study(content: bytes, path: str) -> tuple[pd.DataFrame, dict[str, Recording], dict[str, Any], bytes | None]:
    """Return (sheet, recordings, header, model) of a study file, or raise ModelFileError."""
    import pyarrow as pa
    from pyarrow import feather

    try:
        table = feather.read_table(BytesIO(content), memory_map=False)
        table.validate(full=True)
        metadata = table.schema.metadata or {}
        header = json.loads(metadata.get(b"study", b"null"))
    except (pa.ArrowException, OSError, ValueError, RecursionError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is not a readable study ({str(error)[:160]}). It may be damaged or a different kind of file."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is an Arrow file, but not a study.")
    if header.get("format_version") != FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {str(header.get('format_version'))[:40]}; this library reads version {FORMAT_VERSION}."
        )
    try:
        frame = table.drop(list(_OWN)).to_pandas()
        frame = frame.astype({c: object for c in frame if frame[c].dtype == object}).fillna(value=np.nan)
        frame.columns = [str(name).removeprefix(_SHEET) for name in frame.columns]
        names = [str(name) for name in frame[RECORDING]]
        found = {name: _recording(table, i) for i, name in enumerate(names) if table["states"][i].is_valid}
    except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise ModelFileError(f"{path}: parts of the study are missing or damaged ({str(error)[:160]}).") from error
    return frame, found, header, metadata.get(b"model") or None


def _recording(table: Any, row: int) -> Recording:
    labels = np.array(table["states"][row].values.to_numpy(), np.int32)
    packed = table["soft"][row].as_py()
    soft = None if packed is None else np.frombuffer(packed, np.float32).reshape(len(labels), -1)
    rate = float(table["rate_hz"][row].as_py())
    if not len(labels) or labels.min() < -1 or not rate > 0:
        raise ValueError(f"recording {row} has no states or no rate")
    return Recording(labels, rate, soft, float(table["start_seconds"][row].as_py()))
