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
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis import looks
from gdm_core.analysis.matching import Order
from gdm_core.models.registry import import_family
from gdm_core.trials import Trial
from pages.lab.live import Answer, Wanted
from pages.lab.view import View, question_key
from pages.ui import palette, settings, slider
from pages.ui.browser import renderer
from pages.ui.figures.base import typed
from pages.ui.figures.track import WEBGL_ABOVE
from pages.ui.model_controls import GAMMA_RANGE, K_RANGE, TAU_RANGE

VALUES = {
    "temperature": ("tau", np.geomspace(*TAU_RANGE, 32).round(4).tolist()),
    "stickiness": ("gamma", np.linspace(*GAMMA_RANGE, 24).round(4).tolist()),
}
# What a picture half-way between two values may be off on a simulated track, as a share on average over its moments.
# Another stickiness is read from the first steps of a fit, which jump at some values; at most it is as near as softness.
OFF = {"temperature": 0.005, "stickiness": 0.02}
SETTINGS = {key: setting for setting, (key, _) in VALUES.items()}
MOST = 16_000  # soft shares (samples times states): half a megabyte for all values
BESIDE = 4  # other numbers of states that are fitted when a hand comes near; once it holds the thumb, all of them
NEAR = "held-near"  # in the session: the slider that somebody is about to take


@dataclass(frozen=True, eq=False)
class Sweep:
    """States at all values of a setting, as a slider's first message asked for them: they stay while it is held.

    name    what names the fit, the setting and the trial
    """

    name: str
    order: Order
    data: Mapping[str, Any]


def follow(view: View, figures: Mapping[str, str]) -> None:
    """Let the browser draw `figures` while softness, stickiness or K is held: (key: the row that moves, "" for a track).

    The browser says once for each fit and slider that somebody comes near: the states are worked out from then on.
    """
    states = settings.key("K", view.choice.of)

    @st.fragment  # a hand that comes near runs nothing but this
    def body() -> None:
        held = next((key for key in (*SETTINGS, states) if slider.is_held(key)), None)
        near = st.session_state.pop(NEAR, None)
        data: dict[str, Any] = {}
        if view.data.moving or view.is_new:
            pass
        elif held is None and not view.fit.running:
            known = {key: question for key in SETTINGS if (question := _question(view, SETTINGS[key])) is not None}
            data["offers"] = {key: question.name for key, question in known.items()}
            if ahead := _fits_beside(view, view.choice.n_states):
                data["offers"][states] = ahead[0].key
            if near in known:
                _answer(view, known[near])
            elif near == states and view.fit.look_ahead(ahead[: 1 + BESIDE]):
                data["pending"] = states
        elif held == states:
            data = _fits(view, states)
        elif held is not None and (question := _question(view, SETTINGS[held])) is not None:
            found = _sweep(view, SETTINGS[held], question)
            data = {} if found is None else dict(found.data)
        with st.container(key="held-states"):
            if "slider" in data:
                data["figures"] = dict(figures)
            renderer("held")(key="held", data={"offers": {}} | data, on_near_change=_come_near)

    body()


def _come_near() -> None:
    said = (st.session_state.get("held") or {}).get("near")
    if isinstance(said, str):  # anybody may send anything
        st.session_state[NEAR] = said


def _fits_beside(view: View, n_states: int) -> list[Wanted]:
    """The fits of other numbers of states that are small enough, nearest first; the one of `n_states` is the first of them."""
    low, high = K_RANGE
    numbers = sorted(range(low, high + 1), key=lambda k: (abs(k - n_states), k))
    data, choice = view.data, view.choice
    return [
        Wanted(choice.family, {**choice.config, "n_states": k}, data.train, data.test, truth=data.truth, keep=data.keep)
        for k in numbers
        if _small(view.trial, k)
    ]


def _fits(view: View, key: str) -> dict[str, Any]:
    """What the browser draws from while K is held: the states of the fits that are there, more of them each time."""
    if not (beside := _fits_beside(view, view.choice.n_states)):
        return {}
    pending = view.fit.look_ahead(beside)
    known = {one.config["n_states"]: states for one in beside if (states := view.fit.known(one)) is not None}
    return {
        "slider": key,
        "name": f"{view.data.train.fingerprint}/{sorted(known)}",
        "known": {str(k): _bytes(states[view.index]) for k, states in known.items()},
        "pending": key if pending else "",
        "mixing": palette.mixing(palette.MAX_STATES),
        "step": view.data.step(view.trial),
    }


def _bytes(states: npt.NDArray[Any]) -> dict[str, str]:
    """Shares of states in steps of 1/255, for the browser."""
    levels = np.rint(255 * np.nan_to_num(states)).astype(np.uint8)
    return {"dtype": "u1", "bdata": typed(levels.ravel(), "u1")["bdata"]}


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
    }
    return fit.records.keep(Sweep(question.name, order, data))


def _small(trial: Trial, n_states: int) -> bool:
    return n_states > 1 and trial.n_samples * n_states <= MOST and trial.n_samples <= WEBGL_ABOVE


def _readable(family: str, setting: str) -> bool:
    """Whether a fit of this family can be looked at with another value, at once or from the first steps of a fit."""
    known = import_family(family)
    return setting in known.adjustable or setting in (known.warm_changes or ())
