"""The start and the end of a lab page, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from gdm_core.analysis.inference import filter_states
from pages.lab import live, sentences, shipped
from pages.lab.dataset import Dataset
from pages.lab.spec import PageSpec
from pages.lab.view import View
from pages.ui import navigation, shell
from pages.ui.controls import switch
from pages.ui.model_controls import Choice
from pages.ui.plot import Panel

NO_FILTERED = "Causal states could not be computed"
NO_STATES = "Exact states could not be computed"
LAST_FIT = "_last-fit"  # session key of the page title and model of the last finished fit


def begin(frame: shell.Frame, dataset: Dataset, choice: Choice, *, ships: Sequence[str] = ()) -> View:
    """Request the fit that the controls describe, show it in the header, and return the page's view.

    ships  names of precomputed results that may match
    """
    spec = PageSpec.from_choice(dataset, choice)
    cache = live.panels.engine().cache
    ready = next((found for name in ships if (found := shipped.offer(name, spec, cache)) is not None), None)
    fit = live.open_fit(frame.folder, spec)
    state = fit.poll()
    came = any((found := shipped.load(name)) is not None and found.includes(state.result) for name in ships)
    if ready is not None and not ready.matches(state.result):
        ready = None
    query = live.query_states(fit, state) if ready is None else live.Query(ready.look, fresh=True)
    if ready is not None:
        for near in shipped.find_neighbours(ready, spec):
            fit.keep(*near)
    view = View(frame, spec, fit, state, query, spec.number, shipped=ready, came=came)
    facts = [("model", choice.label), *choice.facts]
    frame.header(dataset.about, facts, wanted=spec.number, waits=sentences.describe_wait(view))
    return view


def choose_filtered(view: View) -> View:
    """Show a switch to filtered states; return the view for the picture. Tabs, scores and files stay smoothed."""
    on = switch(
        "Causal (filtered) states",
        False,
        key="then",
        help="Uses past samples only, as in a running experiment; states switch later and waver more. Tabs, scores and files "
        "stay smoothed.",
    )
    if not on:
        return view
    query = view.query(f"then-{view.index}", filter_states, view.trial)
    if not live.show_failure(view.fit, query, NO_FILTERED) and not query.fresh:
        shell.quiet("Computing causal states; the picture shows smoothed ones meanwhile.")
    return replace(view, filtered=query)


def picture(
    view: View, make: Callable[[live.FitState], Mapping[str, Panel]], places: Mapping[str, Any] | None = None
) -> None:
    """Draw the page's picture, which follows a running fit, below any errors."""
    with view.frame.picture:
        live.show_problem(view.fit, view.state, view.page)
        live.show_failure(view.fit, view.look_query, NO_STATES)
        live.draw_panels(view.fit, make, places)


def end(view: View) -> None:
    """Keep the order of colours in the address and draw the footer. Call at the end of a page's script."""
    live.keep_colours(view.state)
    if view.settled:
        st.session_state[LAST_FIT] = view.frame.title, view.choice
    shell.footer(list(view.dataset.licences))
    live.rerun_when_answered(view.fit)


def open_on(page: str) -> PageSpec | None:
    """Return the fit that this visitor has open on another page, or None and show a link to that page."""
    spec = live.open_specs().get(page)
    title = navigation.info(page).title
    if spec is not None and len(spec.dataset.test):
        return spec
    shell.quiet(f"Nothing is open on {title} in this session." if spec is None else f"{title} has no held-out trials.")
    st.page_link(navigation.page(page), label=f"Open {title} first")
    return None
