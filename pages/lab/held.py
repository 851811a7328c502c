"""What the browser draws tracks and strips from while the thumb of a slider is held: states at some values of its setting.

The server's own pictures of a held slider take it 57 ms of processor time each, and the browser as much to take them in; from
these states the browser draws without asking. Between two values it goes in straight lines, which is near the server's picture
on average (OFF), while a single moment may be another where the fit hardly knows. Let go, the picture is the server's again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis import looks
from gdm_core.analysis.matching import Order
from gdm_core.models.registry import import_family
from gdm_core.trials import Trial
from pages.lab.view import View, question_key
from pages.ui import palette, slider
from pages.ui.browser import renderer
from pages.ui.figures.base import typed
from pages.ui.figures.track import WEBGL_ABOVE
from pages.ui.model_controls import GAMMA_RANGE, TAU_RANGE
from pages.ui.plot import BADGES

VALUES = {
    "temperature": ("tau", np.geomspace(*TAU_RANGE, 32).round(4).tolist()),
    "stickiness": ("gamma", np.linspace(*GAMMA_RANGE, 24).round(4).tolist()),
}
OFF = 0.005  # of a share, on average over moments, is what a picture between two values may be off on a simulated track
MOST = 16_000  # soft shares (samples times states): half a megabyte for all values
NAME = "sweep"


@dataclass(frozen=True, eq=False)
class Sweep:
    """States at all values of a setting, as a slider's first message asked for them: they stay while it is held.

    name    what names the fit, the setting and the trial
    """

    name: str
    order: Order
    data: Mapping[str, Any]


def follow(view: View, figures: Mapping[str, str]) -> None:
    """Let the browser draw `figures` while softness or stickiness is held: (key: the row that moves, "" for a track)."""
    setting = next((name for name, (key, _) in VALUES.items() if slider.is_held(key)), None)
    found = None if setting is None or view.is_new or view.data.moving else _sweep(view, setting)
    with st.container(key="held-states"):
        renderer("held")(key="held", data={} if found is None else {**found.data, "figures": dict(figures)})


def _sweep(view: View, setting: str) -> Sweep | None:
    trial, fit, order = view.trial, view.fit, view.shown.order
    fitted = fit.beside(setting)
    key, values = VALUES[setting]
    if fitted is None or not _small(trial, len(order)) or not _readable(view.choice.family, setting):
        return None
    question = (view.data.train, view.index, setting, values)
    name = question_key(fitted.key, looks.sweep, question)
    kept = fit.records.last(Sweep)
    if kept is not None and (kept.name, kept.order) == (name, order):
        return kept
    answer = fit.ask(NAME, name, looks.sweep, fitted.model_bytes, *question)
    if not answer.fresh or answer.value.shape[2] != len(order):
        return None
    states = answer.value[:, :, list(order)]
    data = {
        "slider": key,
        "name": f"{name}/{order}",
        "values": values,
        "shape": list(states.shape),
        "states": {"dtype": "u1", "bdata": typed(states.ravel(), "u1")["bdata"]},
        "mixing": palette.mixing(len(order)),
        "step": view.data.step(trial),
        "look": {"state": "preview", "badge": BADGES["preview"]},
    }
    return fit.records.keep(Sweep(name, order, data))


def _small(trial: Trial, n_states: int) -> bool:
    return n_states > 1 and trial.n_samples * n_states <= MOST and trial.n_samples <= WEBGL_ABOVE


def _readable(family: str, setting: str) -> bool:
    """Whether a fit of this family can be looked at with another value, at once or from the first steps of a fit."""
    known = import_family(family)
    return setting in known.adjustable or setting in (known.warm_changes or ())
