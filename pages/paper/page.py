"""Paper page: tables and figures of the paper, the results of its released code, and ours, which can be rerun."""

from __future__ import annotations

from functools import partial

import streamlit as st

from gdm_studio import paper
from pages.lab import live
from pages.lab.live.background import show_progress, visitor_jobs
from pages.paper import panels
from pages.paper.notes import write_note
from pages.ui import shell
from pages.ui.controls import number, one_of
from pages.ui.exports import download_all
from pages.ui.table_files import table_files

PANELS = {
    "table": ("Table 1: states on two tracks", panels.table),
    "nascar": ("Figure 2: NASCAR, states and ranges", panels.nascar),
    "formula1": ("Figure 3: Formula 1, accuracy against K", panels.formula1),
    "usage": ("Appendix F: state usage", panels.usage),
    "mice": ("Figure 4: two mice", panels.mice),
}

PROTOCOLS = {"paper": "Paper's protocol", "fair": "New tracks"}

frame = shell.frame("paper", card_share=0.22)
with frame.controls:
    shell.section("From the paper")
    titles = {one: title for one, (title, _) in PANELS.items()}
    name = one_of("Table or figure", titles, tall=True, key="panel", label_visibility="collapsed")
    setting, protocol = "soft", "paper"
    if name in ("table", "nascar"):
        setting = one_of("Track", paper.SETTINGS, "soft", row=True, key="track")
    if name == "table":
        about = (
            "Paper: one simulation, a new fit for each seed. New tracks: a new simulation and a new fit for each seed."
        )
        protocol = one_of("Rerun with", PROTOCOLS, "fair", row=True, key="protocol", help=about)
    experiment = {"formula1": "formula1", "usage": "formula1", "mice": "mice"}.get(name, f"table/{setting}/{protocol}")
    most = paper.N_SEEDS[experiment.split("/")[0]]
    n_seeds = number("Seeds", 1, most, min(2, most), key="seeds", help="Seeds of a rerun.")
    request = panels.choose_data(experiment, n_seeds) or paper.experiment(experiment, n_seeds)
    run = panels.find_run(request.name)
    if run is None:
        label, refused = f"Run {request.n_fits} fits", "The fits could not be started"
        shell.begin_button(
            label, partial(panels.start, request), refused, key="paper-run", type="primary", width="stretch"
        )
        shell.quiet(f"Takes {live.estimate_wait(request.usual_s)}.")
    else:
        st.button("Show stored results", on_click=visitor_jobs().end, args=("paper",), width="stretch")

stored = paper.load()
frame.header(f"{PANELS[name][0]}, of “Interpretable time series analysis with Gumbel dynamics”")
with frame.picture:
    results = run.read() if run is not None else []
    going = any(not result.finished for result in results)
    if run is not None:
        with st.container():  # keeps the place of the panel below when the progress bar goes
            show_progress("paper-progress", run, not going)
        if not going:
            shell.quiet(f"{sum(result.total for result in results)} fits finished on this machine.")
        for label, message in {k: v for result in results for k, v in result.failures.items()}.items():
            shell.quiet(f"{label} is left out: {message}")
    material = panels.Material(stored, request, setting, results)
    PANELS[name][1](material)
if note := write_note(name, material):
    with frame.card:
        st.html('<p class="gdm-panel-title">Note</p>')
        shell.quiet(note)
with frame.below:
    stem = f"paper-{name}"
    download_all(f"{stem}.zip", lambda: (material.figures, table_files(material.tables)), key=f"{stem}-export")
    shell.quiet("Figures (SVG, PNG) and tables (CSV, LaTeX) of this panel.")
shell.footer(["Baselines use the authors' released code."])
