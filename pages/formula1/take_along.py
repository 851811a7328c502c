"""Export & reproduce: the states, the model, the figures and the script behind the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from gdm_core.analysis import envelopes
from pages.formula1 import data, opening, pictures
from pages.formula1.view import Here, Together, View, lap_average
from pages.lab import export, live
from pages.ui import exports, figures, shell
from pages.ui.card import Score
from pages.ui.figures.base import Figure


def tab(view: View, scores: Sequence[Score]) -> None:
    """The panel, once the exact states of both drivers are there."""
    shown, where = view.shown, view.where
    session = data.open_session(where.pick.place)
    if shown.result is None:
        shell.empty("Nothing to export yet", "Files are offered as soon as a fit is done.")
        return
    look, _ = live.states_of(view.fit, shown)
    ours, theirs = view.of(where.train, ""), view.of(where.test, "other")
    line, step = where.circuit, where.circuit.length / where.circuit.n_bins
    together = Together.those_of(ours, theirs)
    assert together is not None
    both = {h.laps.code: h for h in together.drivers}
    states = together.states[0]
    key = {"states": exports.legend.states(states.shape[1])}
    with_key = exports.legend.with_key
    maps = {
        f"Map of {code}": (
            lambda h=here: with_key(
                pictures.circuit_map(
                    line, h.laps.place, h.states, distance=h.laps.distance, lap=h.laps.lap, speed=h.laps.speed,
                    segment=h.laps.segment, title=h.laps.code,
                ),
                key,
            )
        )
        for code, here in both.items()
    }  # fmt: skip
    seen = together.drivers[-1] if st.session_state.get("who") == "test" else ours
    predicted = _predicted(view, seen, look is not None)
    export.panel(
        export.Export(
            page="formula1",
            title=session.title,
            about=f"{where.choice.label}, {where.pick.about}; the model sees {where.pick.looked.sees}"
            + (f" and its states are {where.sees}." if where.sees else "."),
            shown=shown,
            shipped=opening.stands(shown),
            look=look,
            recipe=exports.Recipe(
                ["from gdm_studio.datasets import formula1"],
                where.pick.calls,
                note="" if session.simulated else "FastF1 fetches the session once and keeps it.",
            ),
            figures={
                **maps,
                "States along the lap": lambda: with_key(
                    figures.state_strips(
                        {code: lap_average(line, h) for code, h in both.items()}, start=step / 2, step=step, unit="m",
                        ticks=line.ticks,
                    ),
                    key,
                ),
                "Shares along the lap": lambda: with_key(
                    figures.proportions(
                        lap_average(line, ours), start=step / 2, step=step, unit="m", ticks=line.ticks
                    ),
                    key,
                ),
                "Use of each state": lambda: figures.usage(states),
                "Stays": lambda: figures.dwell(
                    states.argmax(axis=1), states.shape[1], step=1 / ours.laps.trials[0].rate_hz, unit="s"
                ),
                "What follows what": lambda: pictures.what_follows(states.argmax(axis=1), states.shape[1]),
                "Prediction": predicted,
            },
            scores=lambda: scores,
            facts=[
                ("session", session.title), ("fitted on", where.pick.train), ("applied to", where.pick.test),
                ("laps", where.pick.looked.about), ("sees", where.pick.looked.sees), *where.choice.facts,
                ("samples", f"{len(ours.laps.lap):,}"), ("mean speed", _pace(float(np.nanmean(ours.laps.speed)))),
            ],
            link=exports.link(),
            trial=len(where.train.trials) if st.session_state.get("who") == "test" else 0,
        )
    )  # fmt: skip


def _predicted(view: View, here: Here, ready: bool) -> Callable[[], Figure | None]:
    """The prediction last looked at, else one from the middle of the longest stretch; None until it is there.

    ready   whether the states are there, which come first
    """
    trial = max(here.laps.trials, key=lambda trial: trial.n_samples)
    answer = live.Answer()
    if ready:
        last: envelopes.Envelope | None = view.fit.answers.latest("envelope").value
        origin, horizon = (trial.n_samples // 2, 20) if last is None else (last.origin, len(last.mean))
        answer = view.predict(trial, min(origin, trial.n_samples - 2), horizon)
    channel = st.session_state.get("f1-channel")
    index = trial.channels.index(channel) if channel in trial.channels else 0
    return lambda: pictures.envelope(answer.value, trial, index) if answer.fresh else None


def _pace(speed: float) -> str:
    return f"{speed:.0f} km/h" if np.isfinite(speed) else "unknown"
