"""Export & reproduce: the states, the model, the figures and the script behind the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from datasets.formula1 import Session
from pages.formula1 import pictures
from pages.formula1.view import View, lap_average
from pages.ui import exports, figures, live, shell
from pages.ui.card import Score


def tab(view: View, session: Session, scores: Sequence[Score]) -> None:
    """The panel, once the exact states of both drivers are there."""
    shown, where = view.shown, view.where
    if shown.result is None:
        shell.empty("Nothing to export yet", "Files are offered as soon as a fit is done.")
        return
    look, _ = live.states_of(view.fit, shown)
    ours, theirs = view.of(where.train, ""), view.of(where.test, "other")
    line, step = where.circuit, where.circuit.length / where.circuit.n_bins
    both = {h.laps.code: h for h in (ours, theirs) if h.states is not None}
    maps = {
        f"Map of {code}": (
            lambda h=here: pictures.circuit_map(
                line, h.laps.place, h.states, distance=h.laps.distance, lap=h.laps.lap, speed=h.laps.speed,
                segment=h.laps.segment, title=h.laps.code,
            )
        )
        for code, here in both.items()
    }  # fmt: skip
    assert ours.states is not None
    states = ours.states
    which = st.session_state.get("who", "train")
    on_screen = where.pick.test if which == "test" else where.pick.train
    exports.panel(
        exports.Export(
            page="formula1",
            title=session.title,
            about=f"{where.choice.label}, {where.pick.about}; the model sees {where.pick.looked.sees}"
            + (f" and its states are {where.sees}." if where.sees else "."),
            shown=shown,
            look=look,
            recipe=exports.Recipe(
                ["from datasets import formula1"],
                where.pick.calls,
                note="" if session.simulated else "FastF1 fetches the session once and keeps it.",
            ),
            figures={
                **maps,
                "States along the lap": lambda: figures.state_strips(
                    {code: lap_average(line, h) for code, h in both.items()}, start=step / 2, step=step, unit="m",
                    ticks=line.ticks,
                ),
                "Shares along the lap": lambda: figures.proportions(
                    lap_average(line, ours), start=step / 2, step=step, unit="m", ticks=line.ticks
                ),
                "Use of each state": lambda: figures.usage(states),
                "Stays": lambda: figures.dwell(
                    states.argmax(axis=1), states.shape[1], step=1 / ours.laps.trials[0].rate_hz, unit="s"
                ),
            },
            keys={f"Map of {on_screen}": "map", "States along the lap": "strips"},
            scores=scores,
            facts=[
                ("session", session.title), ("fitted on", where.pick.train), ("applied to", where.pick.test),
                ("laps", where.pick.looked.about), ("sees", where.pick.looked.sees), *where.choice.facts,
                ("samples", f"{len(ours.laps.lap):,}"), ("mean speed", _pace(float(np.nanmean(ours.laps.speed)))),
            ],
            link=exports.link(),
        )
    )  # fmt: skip


def _pace(speed: float) -> str:
    return f"{speed:.0f} km/h" if np.isfinite(speed) else "unknown"
