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
from pages.lab.live import Answer
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
# What a picture half-way between two values may be off on a simulated track, as a share on average over its moments.
# Another stickiness is read from the first steps of a fit, which jump at some values; at most it is as near as softness.
OFF = {"temperature": 0.005, "stickiness": 0.02}
MOST = 16_000  # soft shares (samples times states): half a megabyte for all values
NEAR = "held-near"  # in the session: the setting whose slider somebody is about to take


@dataclass(frozen=True, eq=False)
class Sweep:
    """States at all values of a setting, as a slider's first message asked for them: they stay while it is held.

    name    what names the fit, the setting and the trial
    """

    name: str
    order: Order
    data: Mapping[str, Any]


def follow(view: View, figures: Mapping[str, str]) -> None:
    """Let the browser draw `figures` while softness or stickiness is held: (key: the row that moves, "" for a track).

    The browser says once for each fit and slider that somebody comes near: the states are worked out from then on.
    """

    @st.fragment  # a hand that comes near runs nothing but this
    def body() -> None:
        held = next((setting for setting, (key, _) in VALUES.items() if slider.is_held(key)), None)
        near = st.session_state.pop(NEAR, None)
        offers, data = {}, {}
        if held is None and not view.data.moving and not view.fit.running:
            known = {setting: _question(view, setting) for setting in VALUES}
            offers = {VALUES[setting][0]: question.name for setting, question in known.items() if question is not None}
            if near is not None and (question := known[near]) is not None:
                _answer(view, question)
        elif held is not None and not view.data.moving and (question := _question(view, held)) is not None:
            found = _sweep(view, held, question)
            data = {} if found is None else {**found.data, "figures": dict(figures)}
        with st.container(key="held-states"):
            renderer("held")(key="held", data={"offers": offers} | data, on_near_change=_come_near)

    body()


def _come_near() -> None:
    said = (st.session_state.get("held") or {}).get("near")
    for setting, (key, _) in VALUES.items():
        if said == key:  # anybody may send anything
            st.session_state[NEAR] = setting


@dataclass(frozen=True, eq=False)
class _Question:
    """What a worker is asked for: the name of the answer, what it is asked under, and the arguments of `looks.sweep`."""

    name: str
    under: str
    arguments: tuple[Any, ...]


def _question(view: View, setting: str) -> _Question | None:
    """None where the browser cannot draw by itself."""
    fitted = view.fit.beside(setting)
    too_much = not _small(view.trial, len(view.shown.order))
    if view.is_new or fitted is None or too_much or not _readable(view.choice.family, setting):
        return None
    arguments = (view.data.train, view.index, setting, VALUES[setting][1])
    return _Question(
        question_key(fitted.key, looks.sweep, arguments), f"sweep-{setting}", (fitted.model_bytes, *arguments)
    )


def _answer(view: View, question: _Question) -> Answer:
    return view.fit.ask(question.under, question.name, looks.sweep, *question.arguments)


def _sweep(view: View, setting: str, question: _Question) -> Sweep | None:
    fit, order, (key, values) = view.fit, view.shown.order, VALUES[setting]
    kept = fit.records.last(Sweep)
    if kept is not None and (kept.name, kept.order) == (question.name, order):
        return kept
    answer = _answer(view, question)
    if not answer.fresh or answer.value.shape[2] != len(order):
        return None
    states = answer.value[:, :, list(order)]
    data = {
        "slider": key,
        "name": f"{question.name}/{order}",
        "values": values,
        "shape": list(states.shape),
        "states": {"dtype": "u1", "bdata": typed(states.ravel(), "u1")["bdata"]},
        "mixing": palette.mixing(len(order)),
        "step": view.data.step(view.trial),
        "look": {"state": "preview", "badge": BADGES["preview"]},
    }
    return fit.records.keep(Sweep(question.name, order, data))


def _small(trial: Trial, n_states: int) -> bool:
    return n_states > 1 and trial.n_samples * n_states <= MOST and trial.n_samples <= WEBGL_ABOVE


def _readable(family: str, setting: str) -> bool:
    """Whether a fit of this family can be looked at with another value, at once or from the first steps of a fit."""
    known = import_family(family)
    return setting in known.adjustable or setting in (known.warm_changes or ())
