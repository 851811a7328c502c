"""The page of a recording: model, fit, poses, strips, card and tabs. Behaviour and Your data share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule
from gdm_core.units import unit_for
from gdm_studio.plot import figures
from pages import lab
from pages.lab import Dataset, View, live, naming, preview_figures, scores, tabs
from pages.lab import figures as made
from pages.lab.dataset import pick_trial, rule_words
from pages.lab.decoded import Decoded, TrialView, Undecoded
from pages.lab.export import TAB
from pages.lab.labelling import labels
from pages.lab.labelling import panel as labelling
from pages.lab.naming import colour_key
from pages.lab.poses import player
from pages.lab.time_scale import at_time_scale
from pages.ui import model_controls, navigation, settings, shell
from pages.ui.controls import slide
from pages.ui.exports import Files
from pages.ui.plot import Panel, Picture, Text, by_key

MODELS = ("gdm", "gdm-rnn", "gdm-mixture", "rslds-sticky", "rslds-ro", "slds-sticky", "arhmm-sticky", "arhmm", "pdlds")
LABELS, SUGGESTION = "Labels", "Suggest settings"
RELABELLED = "as labels"  # row of strips
BOUT_VIEWS: dict[str, tabs.Tab] = {
    "Durations": tabs.show_bouts,
    "Proportions": lab.show_shares,
    "Transitions": lab.show_transitions,
}


def recording_page(
    page: shell.Frame, data: Dataset, *, defined_by: str = "position", sources: Files | None = None
) -> None:
    """Show everything below the choice of data. Call at the end of a page's script.

    sources  files of the user that the exported script reads
    """
    with page.advanced:
        data = at_time_scale(data)
    with page.controls:
        choice = choose_model(page, data, "position" if data.recordings else defined_by)
    base = lab.begin(page, data, choice)
    with page.advanced:
        rule = bout_controls(data)
    colours = _colours_from_labels(data, base.fit, base.state, choice.n_states)
    with page.picture, st.container(key="recording-head", horizontal=True, vertical_alignment="bottom"):
        index = pick_trial(data)
        switches = st.container(width="content")
        named = naming.controls(page.folder, choice.n_states, settings.scope(data.key), colours)
    options, words = (rule.smooth_s, rule.shortest_s), f"bouts {rule_words(rule, data.unit)}"
    measure = lab.Measure(bout_scores.score_parts, options, words, in_tabs=True)
    view = replace(base, spec=replace(base.spec, measure=measure), index=index, naming=named, rule=rule)
    query = lab.query_scores(view)
    measured = query.value if query.fresh else None
    with switches:
        shown = lab.choose_filtered(view)
    with page.picture:
        _show_poses(shown)
        under_player = st.container()
    lab.picture(shown, lambda now: strips(shown, now, measured))
    lab.preview(shown, _make_preview(view, colours))
    lab.show_explanation(view)
    labelled: dict[str, tabs.Tab] = {}
    if data.every_label:
        labelled["Agreement"] = lambda view, _: tabs.show_labels(view, measured)
    labelled["Labelling"] = lambda view, _: labelling.panel(view, view.read_samples(), under_player)
    named_tabs: dict[str, tabs.Tab] = {
        "Bouts": partial(tabs.show_views, BOUT_VIEWS, "bouts"),
        LABELS: partial(tabs.show_views, labelled, "labels"),
        "Trials": lambda view, _: tabs.show_trials(view, measured),
        "Prediction": lab.show_prediction,
        SUGGESTION: _show_settings,
        TAB: partial(lab.show_export, sources=sources or {}),
    }
    lab.show_tabs(view, named_tabs, early=[LABELS, SUGGESTION])
    lab.show_scorecard(view, partial(scores.bout_rows, unit=view.unit))
    if measured is not None:
        with page.card:
            _show_remarks(view, measured)
    if labels.load(labels.key_of(data)).marks.marks:
        navigation.warn_before_unload()
    lab.show_curves(view)
    lab.end(view)


def _show_settings(view: View, here: Decoded) -> None:
    lab.show_suggestion(view, here)
    tabs.show_features(view)


def _make_preview(view: View, colours: Sequence[int]) -> preview_figures.SliderPreview:
    """Return what the browser draws while a slider is dragged: poses, bouts and states.

    colours   default colours of the states
    """
    data, rule = view.dataset, view.rule
    trial = data.recording(view.index)

    def parts(states: preview_figures.States, fitted: preview_figures.States | None) -> preview_figures.Parts:
        n_states = states[0].shape[1]
        named = view.naming_for(n_states)
        if fitted is not None:
            named = naming.arrange([""] * n_states, range(n_states), start=_label_colours(data, fitted))
        shown = named.apply(data.to_samples(view.index, states[0]))
        return {"states": shown, "bouts": preview_figures.HardStates(rule.labels(shown, trial.rate_hz), shown.shape[1])}

    rows = {"bouts": "bouts", "inferred": "states"}
    figures = {
        "strips": preview_figures.strips(rows, view.unit.convert(1 / trial.rate_hz), waiting=[RELABELLED]),
        **({} if data.pose(view.index) is None else {"player": preview_figures.player("states", "bouts")}),
    }
    own = view.naming_for(len(view.state.order)).into
    plain = tuple(colours) if len(colours) == len(own) else tuple(range(len(own)))
    return preview_figures.SliderPreview(
        (view.index,), parts, figures, (view.index, view.naming, rule), other_k=own == plain
    )


def bout_controls(data: Dataset) -> BoutRule:
    """Show the controls of how soft states become bouts, and return the rule."""
    start, most = data.first_rule, data.longest
    if most * data.train[0].rate_hz < 2:
        return BoutRule()
    shell.section("Bouts")
    unit, step = unit_for(0.0, data.unit), 1.0 if data.unit == "step" else 0.1
    source = " Default: half of the median expert bout." if data.expert_rule is not None else ""
    controls = (
        ("smooth", "Smoothing", start.smooth_s, "Window over which soft states are averaged; 0 for none."),
        ("shortest", "Minimum bout duration", start.shortest_s, "Shorter bouts are merged with their neighbours."),
    )
    smooth, shortest = (
        slide(
            f"{name} ({unit.plural})", 0.0, most, value, step, key=settings.key(key, data.bouts_of), help=help + source
        )
        for key, name, value, help in controls
    )
    return BoutRule(smooth, shortest)


def remove_smoothing(scope: str) -> None:
    """Set the controls of bouts to zero, as the `on_click` of a button."""
    for name in ("smooth", "shortest"):
        settings.change(settings.key(name, scope), "0")


def choose_model(page: shell.Frame, data: Dataset, defined_by: str) -> model_controls.Choice:
    """Show the controls of the model. K and D have defaults for the recording, which keeps the user's values."""
    memory = f"_model-{page.folder}"
    scope = settings.scope(data.scope, data.start) if data.scope else ""
    k, d = data.start
    before = st.session_state.get(memory)
    if before is not None and before[0] == data.scope and settings.text(settings.key("K", scope)) is None:
        k, d = (own if own != old else new for own, old, new in zip(before[2], before[1], (k, d), strict=True))
    choice = model_controls.choose(
        (data.train.n_samples, data.train.n_channels),
        n_states=k,
        n_latent=d,
        defined_by=defined_by,
        models=MODELS,
        scope=scope,
        frame=page,
    )
    st.session_state[memory] = (data.scope, data.start, (choice.n_states, choice.config["n_latent"]))
    return choice


BY_LABELS = "by labels"  # key in the memory of a fit


def _colours_from_labels(data: Dataset, fit: live.FitSession, shown: live.FitState, n_states: int) -> tuple[int, ...]:
    """Return default colours of states; the previous ones until there are new states."""
    key = (data.train.fingerprint, n_states)
    is_complete = len(shown.order) == n_states and len(shown.states) == len(data.train)
    if shown.status != "stale" and is_complete and (colours := _label_colours(data, shown.states)):
        fit.memory[BY_LABELS] = key, colours
    known, colours = fit.memory.get(BY_LABELS, ((), ()))
    return colours if known == key else ()


def _label_colours(data: Dataset, states: preview_figures.States) -> tuple[int, ...]:
    """Return the colour [K] of each state of the first training trials by labels; () without labels."""
    if (words := data.words) is None:
        return ()
    labels = [
        None if trial.labels is None else words.grouped(trial.labels) for trial in data.train.trials[: len(states)]
    ]
    grouped = naming.weights(states, labels, len(words.names))
    return () if grouped is None else naming.label_colours(grouped)


def _show_poses(view: View) -> None:
    """Draw the player, only in script runs: poses are too large to send while a fit reports."""
    if (pose := view.dataset.pose(view.index)) is not None:
        here, found = view.read_samples(), dict[str, Any]()
        if not isinstance(here, Undecoded):
            found = {"states": here.states, "bouts": here.bouts, "names": here.names}
        player.show_poses(pose, f"{view.dataset.key}/{view.index}", words=view.dataset.words, **found)
    lab.show_moment(view)


def strips(view: View, now: live.FitState, measured: scores.Scores | None) -> dict[str, Panel]:
    """Return ethograms of expert labels and states over one time axis; with scores, also states as labels."""
    here, words = view.read_samples(now), view.dataset.words
    decoded, more = here if isinstance(here, Decoded) else None, dict[str, Any]()
    mapping = (measured or {}).get("mapping", ())
    has_labels = words is not None and here.expert is not None and len(mapping) == len(now.order)
    if decoded is not None and words is not None and has_labels and here.state == "fresh":
        more[RELABELLED] = words.one_hot(as_labels(view, decoded, now.order, mapping))
    rows = made.rows_of_strips(here, True, more)
    revision = f"{view.dataset.key}/{view.index}"
    if not rows:
        title = here.title if isinstance(here, Undecoded) else ""
        return by_key(Picture(None, "strips", revision=revision, title=title, note=here.note))
    drawn = now.memoize(
        "strips",
        lambda: figures.state_strips(
            rows, caption=caption(here, rows), height=max(120, 52 + 34 * len(rows)), **here.timing
        ),
        inputs=() if decoded is None else (decoded.states, decoded.bouts),
        settings=(here.trial.fingerprint, tuple(rows), view.naming, view.rule),
    )
    state = here.state if decoded is not None else "running"
    return by_key(Picture(drawn, "strips", state, revision), Text(legend(view, here), "strips-legend"))


def as_labels(view: View, here: Decoded, order: Sequence[int], mapping: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the label [T] of each sample's state, exactly as it is scored.

    mapping  [K] label of each state in the model's order; column j of the page is its state order[j]
    """
    cut = view.rule.labels(here.soft, here.trial.rate_hz)
    found: npt.NDArray[np.int64] = np.asarray(mapping, np.int64)[list(order)][cut]
    return found


def caption(here: TrialView, rows: Collection[str]) -> str:
    """Return how to read the strips."""
    parts = [here.note]
    if RELABELLED in rows:
        parts.append("As labels: each state under its most frequent training label.")
    if "inferred" in rows:
        parts.append("Mixed, muted colours: several states share the time step.")
    if here.words is not None:
        parts.append(here.words.remark)
    return " ".join(filter(None, parts))


def legend(view: View, here: Decoded | Undecoded) -> str:
    """Return the colours of states and labels (HTML)."""
    keys = []
    if here.expert is not None and here.words is not None:
        keys.append(colour_key("labels", here.words.names, range(len(here.words.names))))
    if not isinstance(here, Undecoded):
        numbers = [here.naming.numbers[column] for column in here.used]
        keys.append(colour_key("states", here.names, here.used, numbers))
    return shell.marked("".join(keys), view.made_for if here.state == "fresh" else "")


def _show_remarks(view: View, measured: Mapping[str, Any]) -> None:
    """Show why there are no scores against labels, or that smoothing hides states."""
    if "alone" in measured:
        side = {"fitted": "training", "new": "held-out"}[measured["alone"]]
        shell.quiet(f"The {side} trials have one label only, so states cannot be scored against labels.")
    elif "macro_f1" not in measured:
        shell.quiet("States are scored against labels only if training and held-out trials have labels.")
    if warning := scores.describe_oversmoothing(measured):
        shell.quiet(warning)
        scope = view.dataset.bouts_of
        st.button("Remove smoothing", key="bouts-as-fitted", on_click=remove_smoothing, args=(scope,), width="stretch")
