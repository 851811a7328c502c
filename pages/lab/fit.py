"""From a page's data and controls to what stands on the screen, and the parts of that which all pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from gdm_core.analysis.looks import known_then
from pages.lab import live, sentences, shipped
from pages.lab.data import Data, Setting
from pages.lab.view import View
from pages.ui import shell
from pages.ui.controls import switch
from pages.ui.model_controls import Choice
from pages.ui.plot import Part

NOT_THEN = "This model cannot say what was known then"
NO_LOOK = "The exact states could not be worked out"
LAST_FIT = "_last-fit"  # session key: page title and model of the visitor's last finished fit


def begin(frame: shell.Frame, data: Data, choice: Choice, *, ships: Sequence[str] = ()) -> View:
    """Ask for the fit that the controls describe, and say so in the header; what there is to show now. Returns at once.

    ships   names of results that ship with the app and may be what is asked for
    """
    setting, page = Setting(data, choice), frame.folder
    wanted = setting.wanted()
    cache = live.screen.engine().cache
    ready = next((found for name in ships if (found := shipped.offer(name, wanted, cache)) is not None), None)
    fit = live.fit(page, wanted)
    shown = fit.poll()
    came = any((found := shipped.load(name)) is not None and found.stands(shown.result) for name in ships)
    if ready is not None and not ready.stands(shown.result):
        ready = None
    asked = live.Answer(ready.look) if ready is not None else live.states_of(fit, shown)
    told: dict[str, Any] = {"shipped": ready, "came": came, "number": wanted.number}
    view = View(frame, setting, fit, shown, asked.value, asked, **told)
    # First of all: what this run is overtaken before it comes to has faded by then.
    facts = [("model", choice.label), *choice.facts]
    frame.header(data.about, facts, wanted=view.number, waits=sentences.what_for(view))
    return view


def as_known_then(view: View) -> View:
    """The view for a picture, behind a switch that is drawn here: with states from all of the recording, or as they could have
    been known at each moment. Tabs, scores and files are of the first."""
    on = switch(
        "As it could have been known then",
        False,
        key="then",
        help="States are read with what came before and after each moment. On: from what came before alone, as an experiment "
        "that runs, or whoever makes the forecast below, would have to read them. They switch a little later and waver more. Tabs, "
        "scores and files keep to the whole recording.",
    )
    if not on:
        return view
    answer = view.ask(f"then-{view.index}", known_then, view.trial)
    if not live.unanswered(view.fit, answer, NOT_THEN) and not answer.fresh:
        shell.quiet("What was known then is being worked out; until then the picture knows the whole recording.")
    return replace(view, then=answer)


def picture(
    view: View, parts_of: Callable[[live.Shown], Mapping[str, Part]], places: Mapping[str, Any] | None = None
) -> None:
    """What went wrong, if anything, and the page's picture, part by part: what moves of it while a fit runs needs no run."""
    with view.frame.picture:
        live.problem(view.fit, view.shown, view.page)
        live.unanswered(view.fit, view.asked, NO_LOOK)
        live.region(view.fit, parts_of, places)


def end(view: View) -> None:
    """The order of colours in the address, the footer. The last line of a page's script."""
    live.share_colours(view.fit, view.shown)
    if view.settled:
        st.session_state[LAST_FIT] = view.frame.title, view.choice
    shell.footer(list(view.data.licences))
    live.watch(view.fit)
