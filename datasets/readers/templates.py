"""Small example files to download, fill in and upload again. Every value in them is made up."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError

_ROWS = 120
_RATE = 30.0


def _example() -> pd.DataFrame:
    """Two trials of two channels that swing fast, then slow, and say so in a label."""
    half = _ROWS // 2
    seconds = np.arange(half) / _RATE
    fast = np.arange(half) < half // 2
    phase = np.cumsum(np.where(fast, 0.8, 0.2))
    noise = np.random.default_rng(0).normal(0, 0.02, (2, half, 2))
    trials = [
        pd.DataFrame(
            {
                "trial": trial + 1,
                "time": seconds.round(4),
                "channel 1": (np.cos(phase + trial) + noise[trial, :, 0]).round(4),
                "channel 2": (np.sin(phase + trial) + noise[trial, :, 1]).round(4),
                "label": np.where(fast, "fast", "slow"),
            }
        )
        for trial in range(2)
    ]
    return pd.concat(trials, ignore_index=True)


def _npz(out: IO[bytes]) -> None:
    table = _example()
    np.savez(
        out,
        y=table[["channel 1", "channel 2"]].to_numpy(np.float32),
        channels=np.array(["channel 1", "channel 2"]),
        trial=table["trial"].to_numpy(),
        time=table["time"].to_numpy(),
        label=table["label"].to_numpy(dtype="U8"),
    )


def _deeplabcut(out: IO[bytes]) -> None:
    parts, animals = ("nose", "neck", "tail_base"), ("mouse1", "mouse2")
    frames = np.arange(60)
    header = [("scorer", "individuals", "bodyparts", "coords")]
    columns = []
    for a, animal in enumerate(animals):
        for p, part in enumerate(parts):
            header += [("example", animal, part, axis) for axis in ("x", "y", "likelihood")]
            columns += [200 + 150 * a + 2 * frames + 40 * np.cos(0.05 * frames) * (1 - p)]
            columns += [300 + 40 * np.sin(0.05 * frames) * (1 - p), np.full(len(frames), 0.99)]
    lines = [",".join(row[level] for row in header) for level in range(4)]
    values = np.column_stack(columns).round(2)
    lines += [",".join([str(t), *map(str, row)]) for t, row in zip(frames, values.tolist(), strict=True)]
    out.write(("\n".join(lines) + "\n").encode())


TEMPLATES: dict[str, Callable[[IO[bytes]], object]] = {
    "table.csv": lambda out: _example().to_csv(out, index=False),
    "table.parquet": lambda out: _example().to_parquet(out, index=False),
    "table.xlsx": lambda out: _example().to_excel(out, index=False, sheet_name="data"),
    "table.npz": _npz,
    "deeplabcut.csv": _deeplabcut,
}


def template(name: str) -> bytes:
    """The bytes of an example file; its name is one of TEMPLATES."""
    if name not in TEMPLATES:
        raise ConfigError(f"There is no template {name!r}; choose one of {', '.join(TEMPLATES)}.")
    out = io.BytesIO()
    TEMPLATES[name](out)
    return out.getvalue()
