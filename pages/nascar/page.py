"""NASCAR lab: simulated tracks and regimes with known states, next to the inferred states."""

from __future__ import annotations

from functools import partial

import streamlit as st

from gdm_core.errors import GdmError
from pages import lab
from pages.nascar import pictures, simulator
from pages.ui import model_controls, shell
from pages.ui.controls import one_of

frame = shell.frame("nascar")
with frame.controls:
    try:
        track = simulator.choose(frame.advanced)
        data = simulator.data_of(track)
    except GdmError as error:
        frame.header("no track")
        with frame.picture:
            shell.error("The track cannot be simulated", str(error))
        shell.end_page()
    choice = model_controls.choose(
        (data.train.n_samples, data.train.n_channels), frame=frame, **simulator.first_model(track)
    )

view = lab.begin(frame, data, choice)
with frame.picture, st.container(key="nascar-head", horizontal=True, vertical_alignment="center"):
    which = one_of(
        "Trial",
        {"train": "Training", "test": "Held-out"},
        row=True,
        key="trial",
        label_visibility="collapsed",
        help="The model is fitted to the training trial only.",
    )
    with shell.made_for(view.made_for):
        shell.state_key(max(pictures.truth_of(view.trial).shape[1], view.state.n_states))
    view = view.select_trial(1 if which == "test" else 0)
    shown = lab.choose_filtered(view)
with frame.picture:
    places = pictures.arrange_tracks(view.trial)
    lab.show_moment(shown)
close = pictures.is_flickering(view.read())
lab.picture(
    shown, lambda now: pictures.make_panels(shown, shown.read(now), now, revision=str(track), close=close), places
)
lab.show_explanation(view)
lab.preview(shown, pictures.make_preview(view))
lab.show_tabs(
    view,
    {
        "Shares": partial(lab.show_shares, in_picture=True),
        "Dwell times": lab.show_dwell_times,
        "Transitions": lab.show_transitions,
        "Prediction": lab.show_prediction,
        "Suggest settings": lab.show_suggestion,
        "Export": partial(lab.show_export, figures=pictures.tracks),
    },
    early=["Suggest settings"],
)
# Last: what the open tab asks is answered before the scores, which take longest.
lab.show_scorecard(view, pictures.score_rows)
lab.show_curves(view)
lab.end(view)
