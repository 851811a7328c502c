"""What a page gives the browser for drawing by itself while a thumb is held."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from streamlit.testing.v1 import AppTest


def offers(app: AppTest) -> dict[str, str]:
    """Which sliders the browser can draw for by itself, by name of the fit."""
    (found,) = (each.proto for each in app.get("bidi_component") if each.proto.component_name == "gdm.held")
    return dict(json.loads(found.json)["offers"])


def tables(app: AppTest, key: str, thumb: float | None = 0.0, *, times: int = 3) -> dict[str, Any]:
    """What the live channel brings to the browser while a hand holds a slider (or is near: None), looked at a few times."""
    ask = app.session_state["_channel"]._scene.tables
    for _ in range(times):
        found = ask(key, thumb is not None, thumb or 0.0)
    return {"of": found.of, "tables": list(found.tables.values()), "more": found.more, **found.how}


def shares(part: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """[V, S, K] soft states."""
    return _levels(part, "states").reshape(part["shape"]) / 255


def labels(part: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """[V, S] states, -1 for none."""
    codes = _levels(part, "labels").astype(np.int64).reshape(part["shape"][:2])
    return np.where(codes == 255, -1, codes)


def _levels(part: Mapping[str, Any], kind: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(base64.b64decode(part[kind]["bdata"]), np.uint8)
