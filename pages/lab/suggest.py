"""Suggested settings: those that predict held-out data best, and a button to apply them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis.suggestions import Probe, held_out_scores
from gdm_core.engine.job import Bulk
from gdm_core.engine.suggest import MODELS, Suggestion, SuggestQuestion, SuggestView
from gdm_core.models.registry import TITLES
from gdm_core.text import plural
from gdm_core.trials import Trials
from gdm_studio.plot import figures
from pages.lab import live
from pages.lab.decoded import Decoded
from pages.lab.live.background import show_progress
from pages.lab.time_scale import recommend
from pages.lab.view import View
from pages.ui import model_controls, shell
from pages.ui.plot import plot

MOST_KEPT = 4  # suggestions per page
NONE_FOUND = "No settings could be suggested"
ONE_STATE = "One state fits best, so there is nothing to apply."
Search = tuple[SuggestQuestion, Bulk[SuggestView]]
VARIED = ("n_states", "n_latent", "seed")  # settings that are compared or set separately


def question_of(choice: model_controls.Choice, trials: Trials) -> SuggestQuestion:
    """Return the question that compares the chosen model with the usual ones."""
    fixed = {name: value for name, value in choice.config.items() if name not in VARIED}
    return SuggestQuestion(models_of(choice), trials, int(choice.config["n_latent"]), fixed)


def models_of(choice: model_controls.Choice) -> tuple[str, ...]:
    return tuple(dict.fromkeys((choice.name, *MODELS)))


def show_suggestion(view: View, reading: Decoded) -> None:
    """Offer a search, then show its progress, the recommendation and its scores. The search continues on other pages."""
    if view.dataset.recordings:
        _suggest_for_windows(view)
        return
    question = question_of(view.choice, view.dataset.train)
    kept: dict[str, Search] = view.fit.memory.setdefault("suggestions", {})
    applied = (search for search in kept.values() if _is_applied(search, view))
    search = kept.get(question.key) or next(applied, None)
    if search is None:
        _offer(view, question, kept)
        return
    question, job = search
    found, forget = job.read(), partial(kept.pop, question.key, None)
    if view.dataset.recorded:
        recommend(view.dataset.train, view.dataset.unit, "suggest-time-scale")
    show_progress("suggest-progress", job, found.suggestion is not None or bool(found.message))
    if not job.ended:

        def stop() -> None:
            job.cancel()
            forget()

        st.button("Stop", key=f"suggest-stop-{view.page}", on_click=stop)
    if found.suggestion is not None:
        offers = list_offers(found.suggestion)
        with show_verdict(found.suggestion):
            for key, (model, setting) in zip(("apply", "other"), offers, strict=False):
                if setting["n_states"] >= model_controls.K_RANGE[0]:
                    label = f"Use {TITLES[model]}, K = {setting['n_states']}" if offers[1:] else "Apply settings"
                    apply_button(view.choice, model, setting, f"suggest-{key}-{view.page}", label)
                elif key == "apply":
                    st.caption(ONE_STATE)
    elif len({probe.n_states for probe in found.probes}) > 1:
        _show_probes(found.probes, held_out_scores(found.probes))
    if found.message:
        shell.error(NONE_FOUND, found.message, retry=f"suggest-again-{view.page}", again=forget)


def _suggest_for_windows(view: View) -> None:
    """Offer the K that windows tell apart best: held-out scores of windows, which overlap, favour one state."""
    found = recommend(view.dataset.fitted_recordings, view.dataset.unit, "suggest-time-scale")
    if found is not None and found.n_states is not None:
        st.markdown(f"**{found.sentences[0]}**")
        settings = {"n_states": found.n_states, "n_latent": view.dataset.start[1]}
        apply_button(view.choice, view.choice.name, settings, f"suggest-apply-{view.page}")


def _is_applied(search: Search, view: View) -> bool:
    """Return whether the controls are set to what this search suggested for the same data."""
    question, job = search
    suggestion = job.read().suggestion
    if suggestion is None or question.trials.fingerprint != view.dataset.train.fingerprint:
        return False
    return any(model_controls.are_set(view.choice, *offer) for offer in list_offers(suggestion))


def list_offers(suggestion: Suggestion) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the recommended model and settings, and those of another model that predicts better, if any."""
    other = suggestion.verdict.alternative
    return [(suggestion.model, suggestion.settings), *([] if other is None else [(other.model, other.setting)])]


def apply_button(
    choice: model_controls.Choice, model: str, settings: Mapping[str, Any], key: str, label: str = "Apply settings"
) -> None:
    """Show a button that sets the controls to the suggested model and settings."""
    in_use = model_controls.are_set(choice, model, settings)
    st.button(
        "Already in use" if in_use else label,
        type="primary",
        key=key,
        on_click=model_controls.apply,
        args=(choice, model, settings),
        disabled=in_use,
    )


def _offer(view: View, question: SuggestQuestion, kept: dict[str, Search]) -> None:
    names = " and ".join(TITLES[name] for name in question.models)
    text = (
        f"Compares {names} with 1 to {plural(max(question.states), 'state')} on held-out halves of the data. "
        f"{plural(question.n_fits, 'fit')}: {live.estimate_wait(question.usual_s)}. {question.note}"
    )
    shell.empty("Recommended settings", text)

    def begin() -> None:
        kept[question.key] = question, question.start(live.panels.engine(), f"{live.visitor()}/{view.page}/suggest")
        while len(kept) > MOST_KEPT:
            kept.pop(next(iter(kept)))[1].cancel()

    shell.begin_button("Suggest settings", begin, NONE_FOUND, type="primary", key=f"suggest-{view.page}")


def show_verdict(suggestion: Suggestion) -> Any:
    """Show the recommendation and its scores; return the container between them, for buttons."""
    recommended, certainty = suggestion.sentences
    st.markdown(f"**{recommended}** {certainty}")
    buttons = st.container(horizontal=True)
    _show_probes(suggestion.verdict.probes, suggestion.verdict.scores)
    for sentence in (*suggestion.left_out, suggestion.note):
        if sentence:
            shell.quiet(sentence)
    return buttons


def _show_probes(probes: Sequence[Probe], scores: Sequence[float]) -> None:
    """Show held-out scores and the agreement of halves against the number of states."""
    figures_shown = (
        ("held-out", "Held-out score", scores, "ELBO per sample (nats)", "Higher: better prediction of unseen data."),
        (
            "agreement",
            "Agreement between halves",
            [probe.agreement for probe in probes],
            "share of time steps",
            "Share of time steps that the models of both halves assign to the same state.",
        ),
    )
    counts = sorted({probe.n_states for probe in probes})
    for place, (key, title, values, name, caption) in zip(st.columns(2, gap="small"), figures_shown, strict=True):
        columns: dict[str, np.ndarray] = {}
        for probe, value in zip(probes, values, strict=True):
            column = columns.setdefault(TITLES[probe.model], np.full((len(counts), 1), np.nan, np.float32))
            column[counts.index(probe.n_states)] = value
        with place, shell.panel(f"suggest-{key}", title):
            plot(figures.sweep(counts, columns, score_name=name, caption=caption), key=f"suggest-{key}")
