"""The honest card of a lab: scores of the fit that stands, or those of the earlier one, dimmed and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from gdm_core.analysis import looks
from pages.lab import live
from pages.lab.data import Setting
from pages.lab.view import View
from pages.ui import card, shell
from pages.ui.card import Score

DEADLINE_S = 300.0  # a second of work, on a machine that may have much else to do
Rows = Callable[[Mapping[str, Any]], list[Score]]

# How the settings of a fit are called where two fits are told apart, and the words of their values.
WORDS = {
    "n_states": "K",
    "temperature": "softness τ",
    "stickiness": "stay γ",
    "posterior": "states made of",
    "n_latent": "D",
    "seed": "seed",
}
SHIPPED = (
    "This fit ships with the app. Fitted anew on another kind of machine it may differ in places; the exported script "
    "loads this one."
)
VALUES = {"window": "moves", "linear": "places", "learn": "learned"}


def measured(view: View) -> live.Answer:
    """Everything measured of the fit that stands, beside its baselines; else the last that was measured."""
    answers, wanted = view.fit.answers, view.shown.wanted
    if view.shipped is not None and view.settled:
        answers.learn("scores", view.shipped.more["scores"], wanted)
        return live.Answer(view.shipped.more["scores"], fresh=True, about=wanted)
    if not view.settled or wanted is None:
        return answers.latest("scores")
    seed = int(wanted.config.get("seed", 0))
    return view.ask("scores", looks.scores, wanted.train, wanted.test, seed, deadline_s=DEADLINE_S, about=wanted)


def honest_card(view: View, rows_of: Rows, measure: Callable[[View], live.Answer] = measured) -> list[Score]:
    """Show the card and the progress of the fit; the rows, once they belong to what stands."""
    answer, shown = measure(view), view.shown
    rows = rows_of(answer.value) if answer.value is not None else []
    scored: live.Wanted | None = answer.about
    with view.frame.card:
        if answer.fresh:
            card.scores(rows, status=shown.status)
        elif rows and scored is not None and scored.train.fingerprint == view.data.train.fingerprint:
            card.scores(rows, earlier=earlier(view.setting, scored.where), status=_waiting(view, answer))
        else:  # numbers of other data would mislead
            card.scores(rows, shown=False, status=_waiting(view, answer))
        if answer.message and shell.error(
            "The scores could not be worked out", answer.message, retry=f"{view.page}-rescore"
        ):
            view.fit.answers.again("scores")
            st.rerun()
        if view.came:
            shell.quiet(SHIPPED)
        live.region(view.fit, lambda now: live.progress(now, key="elbo"), patience=2)
    return rows if answer.fresh else []


def rows_now(view: View, rows_of: Rows) -> list[Score]:
    """The rows of what stands, if they are known already: asks nothing."""
    found, wanted = view.fit.answers.latest("scores"), view.shown.wanted
    mine = view.settled and found.about is not None and wanted is not None and _same(found.about, wanted)
    return rows_of(found.value) if mine else []


def _same(one: live.Wanted, other: live.Wanted) -> bool:
    """Whether two fits are one, looked at through the same data."""
    tests = [None if wanted.test is None else wanted.test.fingerprint for wanted in (one, other)]
    return one.key == other.key and tests[0] == tests[1]


def _waiting(view: View, answer: live.Answer) -> str:
    """What has to happen before there are scores of what stands."""
    if answer.message:
        return ""
    if answer.pending:
        return "The fit is being scored against its baselines."
    if view.shown.fitting:
        return "Scores appear when the fit is done."
    return "There is no finished fit of these settings to score."


def earlier(now: Setting, before: Setting) -> str:
    """What the earlier result was fitted with, as far as it is not what the controls ask for now."""
    ours, theirs = now.choice, before.choice
    if ours.label != theirs.label:
        return ", ".join([theirs.label, f"K\u00a0{theirs.n_states}"])
    changed = [name for name, value in theirs.config.items() if ours.config.get(name) != value]
    if not changed:
        return "the finished fit of the same settings"
    return ", ".join(f"{WORDS.get(name, name)}\u00a0{_value(theirs.config[name])}" for name in changed)


def _value(value: Any) -> str:
    return VALUES.get(value, value) if isinstance(value, str) else f"{value:g}"
