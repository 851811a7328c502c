"""What a page gives the browser for drawing by itself while a thumb is held."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from streamlit.testing.v1 import AppTest


def browser_draws(app: AppTest) -> dict[str, Any]:
    """All of it."""
    (found,) = (each.proto for each in app.get("bidi_component") if each.proto.component_name == "gdm.held")
    return dict(json.loads(found.json))


def shares(part: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """[V, S, K] soft states."""
    return _levels(part, "states").reshape(part["shape"]) / 255


def labels(part: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """[V, S] states, -1 for none."""
    codes = _levels(part, "labels").astype(np.int64).reshape(part["shape"][:2])
    return np.where(codes == 255, -1, codes)


def _levels(part: Mapping[str, Any], kind: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(base64.b64decode(part[kind]["bdata"]), np.uint8)
