"""The picture of the lab: the true track beside the inferred one, and both over time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st

from pages.lab import Reading, View, live
from pages.ui import exports, figures, shell
from pages.ui.figures.base import Figure
from pages.ui.plot import BADGES, plot

SIDE_BY_SIDE, STACKED = (310, 190), (195, 110)  # heights of a track and of the strips
WHAT_WAS_FOUND = "What the model found, in the colours of the true states that it matches."


def draw(view: View, reading: Reading, now: live.Shown, revision: str) -> None:
    """The two tracks and the strips. A track that is long and low has one above the other, as wide as the panel."""
    trial, which = reading.trial, view.index
    assert trial.states is not None
    assert trial.position is not None
    position, truth, states = trial.position, trial.states, reading.states
    span = np.ptp(np.asarray(position), axis=0)
    height, low = STACKED if span[0] > 2 * span[1] else SIDE_BY_SIDE
    upper, lower = (st.container(), st.container()) if height == STACKED[0] else st.columns(2, gap="small")
    with upper:
        made = now.once(
            ("true", which),
            lambda: figures.track(position, truth, title="true states", height=height, caption="What the car did."),
            of=(trial,),
        )
        plot(made, key="true-track", revision=revision)
    with lower:
        if states is None:
            shell.empty(reading.title, reading.note)
        else:
            made = now.once(
                ("inferred", which),
                lambda: figures.track(
                    position, states, title="inferred states", height=height, caption=reading.note or WHAT_WAS_FOUND
                ),
                of=(states,),
                settings=reading.note,
            )
            plot(made, key="inferred-track", state=reading.state, revision=revision)
    rows = {"true": truth} | ({} if states is None else {"inferred": states})
    word = BADGES[reading.state]
    # What is true stands whatever becomes of the fit, so that only the other strip fades.
    marks = {"inferred": (word, 0.5 if reading.state == "stale" else 0.86)} if word else {}
    made = now.once(
        ("strips", which),
        lambda: figures.state_strips(rows, height=low, marks=marks),
        of=(trial, states),
        settings=reading.state,
    )
    plot(made, key="strips", revision=revision)
    seen = now.once(("channels", which), lambda: figures.channel_strip(trial.y, height=90), of=(trial,))
    plot(seen, key="channels", revision=revision)


def tracks(reading: Reading) -> dict[str, Callable[[], Figure | None]]:
    """The two tracks, for files: with a legend, since a picture in a paper has no page around it."""
    trial, states = reading.trial, reading.states
    assert trial.position is not None
    assert trial.states is not None
    assert states is not None
    position, truth = trial.position, np.asarray(trial.states)
    key = {"states": exports.legend.states(max(truth.shape[1], states.shape[1]))}
    return {
        "Inferred states": lambda: exports.legend.with_key(
            figures.track(position, states, title="inferred states"), key
        ),
        "True states": lambda: exports.legend.with_key(figures.track(position, truth, title="true states"), key),
    }
