"""Paper: its tables and figures, each beside the code released with it and what is measured here, and run anew on request."""

from __future__ import annotations

from functools import partial

import streamlit as st

from gdm_studio import paper
from pages.lab import live
from pages.lab.live.background import show_progress, visitor_jobs
from pages.paper import panels
from pages.ui import shell
from pages.ui.controls import number, one_of

PANELS = {
    "table": ("Table 1: states on two tracks", panels.table),
    "nascar": ("Figure 2: NASCAR, states and ranges", panels.nascar),
    "formula1": ("Figure 3: Formula 1, accuracy against K", panels.formula1),
    "usage": ("Appendix F: use of states", panels.usage),
    "mice": ("Figure 4: CalMS21, two mice", panels.mice),
}

frame = shell.frame("paper", card_share=0.34)
with frame.controls:
    shell.section("From the paper")
    titles = {one: title for one, (title, _) in PANELS.items()}
    name = one_of("Table or figure", titles, tall=True, key="panel", label_visibility="collapsed")
    setting, protocol = "soft", "paper"
    if name in ("table", "nascar"):
        setting = one_of("Track", paper.SETTINGS, "soft", row=True, key="track")
    if name == "table":
        words = {one: f"{one} protocol".capitalize() for one in paper.PROTOCOLS}
        said = "Paper: one simulation, every seed another fit. Fair: every seed another simulation and another fit."
        protocol = one_of("Run it anew under", words, "fair", row=True, key="protocol", help=said)
    experiment = {"formula1": "formula1", "usage": "formula1", "mice": "mice"}.get(name, f"table/{setting}/{protocol}")
    most = paper.N_SEEDS[experiment.split("/")[0]]
    n_seeds = number("Seeds", 1, most, min(2, most), key="seeds", help="Of a run anew.")
    asked = panels.own(experiment, n_seeds) or paper.experiment(experiment, n_seeds)
    running = panels.running(asked.name)
    if running is None:
        label, refused = f"Run it now: {asked.n_fits} fits", "The fits could not be started"
        shell.begin_button(
            label, partial(panels.start, asked), refused, key="paper-run", type="primary", width="stretch"
        )
        shell.quiet(f"That takes {live.estimate_wait(asked.usual_s)}.")
    else:
        st.button("Show what is stored", on_click=visitor_jobs().end, args=("paper",), width="stretch")

stored = paper.load()
frame.header(PANELS[name][0])
with frame.picture:
    first = list(running.poll().values()) if running is not None else []
    going = any(not found.finished for found in first)

    if running is not None:
        with st.container():  # always there, so that the panel below is not drawn anew when it empties
            show_progress("paper-progress", running, not going)
        if not going:
            shell.quiet(f"Measured now: {sum(one.total for one in first)} fits on this machine.")
        for label, message in {k: v for one in first for k, v in one.failures.items()}.items():
            shell.quiet(f"{label} is left out: {message}")
    PANELS[name][1](panels.Material(stored, asked, setting, first))
with frame.card:
    panels.say_why_numbers_differ(name)
shell.footer(
    ["Interpretable time series analysis with Gumbel dynamics. What others' code came to is measured with that code."]
)
