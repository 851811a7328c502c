"""Tables from which the browser draws while a slider is held."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from streamlit.testing.v1 import AppTest

from gdm_core.models.loading import model_from_bytes
from gdm_core.models.variants import infer_quickly, with_parameters
from gdm_core.trials import Trials


def offers(app: AppTest) -> dict[str, str]:
    """Return the sliders with tables, each with the name of its fit."""
    (found,) = (each.proto for each in app.get("bidi_component") if each.proto.component_name == "gdm_slider_preview")
    return dict(json.loads(found.json)["offers"])


def tables(app: AppTest, key: str, thumb: float | None = 0.0, *, times: int = 3) -> dict[str, Any]:
    """Return the tables of a slider that is held at a value, or only hovered (None)."""
    ask = app.session_state["_channel"].scene.tables
    for _ in range(times):
        found = ask(key, thumb is not None, thumb or 0.0)
    return {"source": found.source, "tables": list(found.tables.values()), "more": found.more, **found.how}


def shares(part: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return soft states [V, S, K]."""
    return _levels(part, "states").reshape(part["shape"]) / 255


def labels(part: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """Return states [V, S], -1 for none."""
    codes = _levels(part, "labels").astype(np.int64).reshape(part["shape"][:2])
    return np.where(codes == 255, -1, codes)


def _levels(part: Mapping[str, Any], kind: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(base64.b64decode(part[kind]["bdata"]), np.uint8)


def exact_states(model_bytes: bytes, trials: Trials, **changes: Any) -> list[npt.NDArray[np.float32]]:
    """Return soft states of a fitted model with other parameters."""
    model = with_parameters(model_from_bytes(model_bytes), **changes)
    return [infer_quickly(model, trial) for trial in trials]
