"""Suggest settings: which K, and which tau, gamma and D, the data speak for; how sure that is; and one click to use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import streamlit as st

from gdm_core.analysis.suggestions import Probe
from gdm_core.engine.suggest import Suggestion, SuggestJob, SuggestQuestion, SuggestView
from gdm_studio.plot import figures
from pages.lab import live
from pages.lab.live import background
from pages.lab.view import Reading, View
from pages.ui import model_controls, shell
from pages.ui.plot import plot

MOST_KEPT = 4  # suggestions of a page that a visitor finds again
NONE_FOUND = "No settings could be suggested"
ONE_STATE = "One state needs no model of switching: pages draw two or more, so there is nothing to set here."
APART = ("n_states", "n_latent", "seed")  # of a configuration: asked for by name, or what results are averaged over


@dataclass(frozen=True)
class Suggestions:
    """Those that a visitor has asked for on a page, by the question."""

    jobs: dict[str, SuggestJob] = field(default_factory=dict)


def suggest(view: View, reading: Reading) -> None:
    """A button; then how far it is, what is recommended, and the curves that say so. Goes on when the page is left."""
    config = view.choice.config
    fixed = {name: value for name, value in config.items() if name not in APART}
    question = SuggestQuestion(view.choice.name, view.data.train, int(config["n_latent"]), fixed)
    kept = (view.fit.records.last(Suggestions) or view.fit.records.keep(Suggestions())).jobs
    job = kept.get(question.key)
    if job is None:
        _offer(view, question, kept)
        return
    found = job.poll()
    left, right = st.columns([0.75, 0.25], gap="medium")
    if not found.finished:

        def stop() -> None:
            job.cancel()
            kept.pop(question.key, None)

        right.button("Stop", key=f"suggest-stop-{view.page}", width="stretch", on_click=stop)
    if found.suggestion is not None and found.suggestion.settings["n_states"] < model_controls.K_RANGE[0]:
        right.caption(ONE_STATE)
    elif found.suggestion is not None:
        right.button(
            "Use these settings",
            type="primary",
            key=f"suggest-apply-{view.page}",
            width="stretch",
            on_click=model_controls.apply,
            args=(view.choice, found.suggestion.settings),
            disabled=model_controls.are_set(view.choice, found.suggestion.settings),
        )
    with left:
        _watch(job, found)
    if found.message:
        forget = partial(kept.pop, question.key, None)
        shell.error(NONE_FOUND, found.message, retry=f"suggest-again-{view.page}", again=forget)


def _offer(view: View, question: SuggestQuestion, kept: dict[str, SuggestJob]) -> None:
    text = (
        f"Fits {view.choice.label} with 1 to {max(question.states)} states, then other values of what else can be set, each on two "
        f"halves of the data that take turns in time, and judges every fit by the half that it has not seen. Up to "
        f"{question.n_fits()} fits, {live.beforehand(question.usual_s)}, in the background: you can leave the page meanwhile, "
        f"and finished fits are kept. {question.note}"
    )
    shell.empty("Which settings do these data speak for?", text)

    def begin() -> None:
        kept[question.key] = SuggestJob(question, live.screen.engine(), f"suggest-{view.page}")
        while len(kept) > MOST_KEPT:
            kept.pop(next(iter(kept))).cancel()

    shell.begin_button("Suggest settings", begin, NONE_FOUND, type="primary", key=f"suggest-{view.page}")


def _watch(job: SuggestJob, first: SuggestView) -> None:
    def progress() -> tuple[str, float]:
        now = job.poll()
        return job.estimate.words(now.done, now.total), now.done / max(1, now.total)

    def come_in() -> tuple[bool, bool]:
        now = job.poll()
        return now.finished, now.suggestion is None

    background.follow("suggest-progress", progress, come_in, first.finished)
    if first.suggestion is not None:
        verdicts(first.suggestion)


def verdicts(suggestion: Suggestion) -> None:
    first, *others = suggestion.verdicts
    st.markdown(f"**{first.sentences[0]}** {first.sentences[1]} {first.sentences[2]}")
    tried = [probe for probe in first.probes if len(probe.held_out)]
    counts = [int(probe.setting["n_states"]) for probe in tried]
    left, right = st.columns(2, gap="small")
    with left, shell.panel("suggest-held-out", "Predicts the other half"):
        plot(
            figures.sweep(
                counts,
                {"other half": _column(tried, "mean"), "fitted half": _column(tried, "elbo")},
                score_name="log-likelihood a sample (nats)",
                caption="More is better. States that are not there raise the fitted half alone.",
            ),
            key="suggest-held-out",
        )
    with right, shell.panel("suggest-agreement", "The same states are found again"):
        plot(
            figures.sweep(
                counts,
                {"halves": _column(tried, "agreement")}
                | ({"seeds": seeds} if np.isfinite(seeds := _column(tried, "seeds")).all() else {}),
                score_name="share of moments",
                caption="Share of moments that two models put into the same state, matched one to one: of the two halves, and of "
                "one half from two seeds.",
            ),
            key="suggest-agreement",
        )
    for said in (*(" ".join(verdict.sentences) for verdict in others), *suggestion.left_out, suggestion.note):
        if said:
            shell.quiet(said)


def _column(tried: list[Probe], field: str) -> np.ndarray:
    return np.array([[getattr(probe, field)] for probe in tried], np.float32)
