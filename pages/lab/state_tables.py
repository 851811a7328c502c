"""Tables for the browser: 8-bit states at some values of a slider."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_studio.plot.figures.base import typed

Array = npt.NDArray[np.float32]
Levels = npt.NDArray[np.uint8]
States = tuple[Array, ...]
MAX_SHARES = 40_000  # samples times states of one part at one value; longer parts are thinned


@dataclass(frozen=True, eq=False)
class HardStates:
    """State of each sample [S], -1 for none, instead of soft states of `n_states`."""

    codes: npt.NDArray[np.integer[Any]]
    n_states: int


Parts = Mapping[str, Array | HardStates]


def encode(values: Sequence[float], parts: Sequence[Parts]) -> dict[str, Any]:
    """Return the parts at each value as bytes: shares in steps of 1/255, labels with 255 for none."""
    found = {}
    for name, first in parts[0].items():
        length, n_states = (len(first.codes), first.n_states) if isinstance(first, HardStates) else first.shape
        stride = max(1, -(-length * n_states // MAX_SHARES))
        kind, every = "states", []
        for part in (each[name] for each in parts):
            if isinstance(part, HardStates):
                kind, codes = "labels", part.codes[::stride]
                every.append(np.where(codes < 0, 255, codes).astype(np.uint8))
            else:
                every.append(np.rint(255 * np.nan_to_num(part[::stride])).astype(np.uint8))
        shape = [len(values), len(every[0]), n_states]
        packed = {"dtype": "u1", "bdata": typed(np.stack(every).ravel(), "u1")["bdata"]}
        found[name] = {"shape": shape, kind: packed, "stride": stride}
    return {"values": list(values), "parts": found}


def digest(*parts: Any) -> str:
    """Return a short name of plain values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
