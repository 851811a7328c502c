"""The card of a lab: scores with what they have to beat, or those of the earlier result, marked as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.lab import live
from pages.recording import scores
from pages.recording.view import View
from pages.ui import card, settings, shell

KEPT = "card"


@dataclass(frozen=True, eq=False)
class Earlier:
    """The last scores that were complete: they stay while those of another result are worked out."""

    data: str
    rows: list[card.Score]
    who: str


def card_of(
    view: View, answer: live.Answer, lines: live.Answer, own: Mapping[str, Any] | None = None
) -> tuple[Mapping[str, Any] | None, list[card.Score]]:
    """Draw the card; (what was measured of the result that stands, its rows once they are complete).

    Scores and the lines that they have to beat belong together: with the lines of another result, or without any, a
    verdict would be another one than it is in the end.
    """
    measured: Mapping[str, Any] | None = answer.value if answer.fresh else None
    labelled = measured is not None and "macro_f1" in measured
    complete = measured is not None and (not labelled or lines.fresh or bool(lines.message))
    if measured is not None and complete:
        rows = scores.score_rows(measured, lines.value if lines.fresh else None if labelled else {})
        view.fit.kept[KEPT] = Earlier(view.data.key, rows, _who(view))
        rows = scores.with_own(rows, measured, own)
        card.scores(rows, status=view.shown.status)
        _remarks(view, measured, lines.message)
        return measured, rows
    earlier: Earlier | None = view.fit.kept.get(KEPT)
    if earlier is not None and earlier.data == view.data.key:
        card.scores(
            earlier.rows, title="How good the earlier result was", status=f"of the earlier result: {earlier.who}"
        )
        if answer.message:
            shell.quiet(answer.message)
        elif measured is not None or answer.pending:
            shell.quiet("The scores of the new one are being worked out.")
    elif measured is not None:
        card.scores(scores.score_rows(measured, None), status=view.shown.status)
        shell.quiet("A verdict follows once the lines that need no dynamics are worked out.")
    else:
        st.html('<p class="gdm-panel-title">How good is it</p>')
        shell.quiet(
            answer.message or ("Scoring each trial." if answer.pending else "Scores appear when the fit is done.")
        )
    return measured, []


def _who(view: View) -> str:
    """The model behind the picture, in words."""
    wanted = view.shown.wanted
    if wanted is None:
        return "another model"
    choice = wanted.where.choice
    return f"{choice.label}, K {choice.n_states}, seed {choice.config.get('seed', 0)}; bouts {view.rule.words}"


def _as_fitted(of: str) -> None:
    for name in ("smooth", "shortest"):
        st.session_state[settings.key(name, of)] = 0.0


def _remarks(view: View, measured: Mapping[str, Any], why_no_lines: str) -> None:
    """What the scores do not say by themselves."""
    if why_no_lines:
        shell.quiet(f"Without a verdict: the lines to beat could not be worked out. {why_no_lines}")
    if "alone" in measured:
        shell.quiet(
            f"Only one behaviour is labelled in the {measured['alone']} trials: there is nothing to tell apart, so states "
            "cannot be scored against the expert."
        )
    elif "macro_f1" not in measured:
        shell.quiet("These trials have no labels in both parts, so states cannot be scored against an expert.")
    if said := scores.lost_by_smoothing(measured):
        shell.quiet(said)
        st.button(
            "Read bouts as fitted",
            key="bouts-as-fitted",
            on_click=_as_fitted,
            args=(view.data.bouts_of,),
            width="stretch",
        )
