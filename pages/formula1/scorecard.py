"""The honest card: how well states say where on the lap a car is, and how well the model knows the next second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis import looks
from pages.formula1 import opening
from pages.formula1.view import View
from pages.lab import live
from pages.ui import card, shell
from pages.ui.card import Score

AHEAD = 9  # ten steps
SCORES_DEADLINE_S = 240.0

PAPER = "The paper's state accuracy"
_CAUTION = (
    "The paper's measure reads soft shares, which can pass on where the car is: even an untrained model scores high. "
    "One segment a state is the stricter test."
)
_SHIPPED = (
    "This first fit ships with the app. Fitted anew on another kind of machine it may differ in places; the exported "
    "script loads this one."
)
_PAPER_HELP = (
    "The paper's measure: from the states of a moment alone, its ten nearest neighbours in the fitted driver's laps say "
    "between which corners the car is. Measured on the other driver. It reads soft shares, so blends carry information."
)
_VOTE_HELP = (
    "Each state stands for the segment where the fitted driver has it most; share of the other driver's samples."
)
_BAND_HELP = "Share of what the other driver really did, ten steps ahead, that falls inside the predicted band."


def score_card(view: View, wanted: live.Wanted) -> list[Score]:
    """Show the card; the rows, once they belong to the fit that is shown."""
    shown = view.shown
    answer = live.Answer()
    if shown.result is not None and shown.state == "fresh":
        bundled = opening.scores(shown)
        answer = (
            live.Answer(bundled, fresh=True)
            if bundled is not None
            else view.ask(
                "scores", looks.scores, wanted.train, wanted.test, wanted.config["seed"], deadline_s=SCORES_DEADLINE_S
            )
        )
    rows = score_rows(answer.value, _rslds(view)) if answer.value is not None else []
    if rows:
        sees = view.where.sees
        scored: live.Wanted = view.fit.kept.setdefault("scored", wanted)
        if answer.fresh:
            view.fit.kept["scored"] = wanted
            card.scores(
                rows, status=" · ".join(part for part in (shown.status, f"states as {sees}" if sees else "") if part)
            )
        elif scored.train.fingerprint == wanted.train.fingerprint:
            model = scored.where.choice
            card.scores(rows, earlier=f"{model.label}, K\u00a0{model.n_states}")
        else:  # numbers of another race would mislead
            card.scores(rows, shown=False, status="Scores appear when the fit is done.")
        if any(row.name == PAPER for row in rows):
            shell.quiet(_CAUTION)
        if opening.stands(shown):
            shell.quiet(_SHIPPED)
    else:
        st.html('<p class="gdm-panel-title">How good is it</p>')
        shell.quiet(answer.message or "Scores appear when the fit is done.")
    if answer.pending and answer.value is None:
        shell.quiet("Scoring against baselines.")
    return rows if answer.fresh else []


def _rslds(view: View) -> Sequence[float]:
    """Accuracies of recurrent SLDS fits at the same K, where the tab has computed them."""
    found: Mapping[int, list[float]] = view.fit.kept.get("rslds-accuracy", {})
    return found.get(view.shown.n_states, [])


def score_rows(scores: Mapping[str, Any], rslds: Sequence[float] = ()) -> list[Score]:
    """Each score beside what it has to beat."""
    rows = []
    if scores.get("paper_accuracy") is not None:
        rows.append(_accuracy(scores, "majority_map_accuracy", "One segment a state", _VOTE_HELP))
        rows.append(_accuracy(scores, "paper_accuracy", PAPER, _PAPER_HELP, rslds))
    ahead = _at(scores["forecast_r2"])
    if ahead is not None:
        lines = {"stands still": _at(scores["persistence_r2"]), "linear AR(1)": _at(scores["ar1_r2"])}
        known = {name: value for name, value in lines.items() if value is not None}
        best = max(known, key=lambda name: known[name]) if known else ""
        rows.append(
            Score(
                "Ten steps ahead (R²)",
                ahead,
                known.get(best),
                best,
                others=[(name, value) for name, value in known.items() if name != best],
                help="Of the other driver, 1 is perfect. A step is a quarter of a second unless chosen otherwise.",
            )
        )
    held = _at(scores["coverage_90"])
    if held is not None:
        rows.append(
            Score("90 % band holds", 100 * held, digits=1, unit=" %", span=(0, 100), others=[("should hold", 90.0)],
                  help=_BAND_HELP)
        )  # fmt: skip
    return rows


def _accuracy(scores: Mapping[str, Any], field: str, name: str, help: str, rslds: Sequence[float] = ()) -> Score:
    baselines = scores["baselines"]
    # Neighbours of the raw place know where the car is by definition: only what also has to find states is a line.
    lines = {
        base: values[field]
        for base, values in baselines.items()
        if values.get(field) is not None and not base.startswith("10-NN")
    }
    best = max(lines, key=lambda base: lines[base]) if lines else ""
    others = [(base, lines[base]) for base in ("untrained model", "majority class") if base in lines and base != best]
    if rslds:
        others.append((f"rSLDS, {len(rslds)} seeds", float(np.mean(rslds))))
    return Score(name, scores[field], lines.get(best), best.replace("model", "").strip(), others=others, help=help)


def _at(values: Any) -> float | None:
    """The value ten steps ahead, where it was measured."""
    known = len(values) > AHEAD and values[AHEAD] is not None and bool(np.isfinite(values[AHEAD]))
    return float(values[AHEAD]) if known else None
