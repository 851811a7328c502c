"""The page of a recording: model, fit, poses, strips, card and tabs. Behaviour and Your data share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from pages.lab.labelling import labels
from pages.lab.labelling import panel as labelling
from pages.lab.naming import colour_key
from pages.lab.poses import clips, player
from pages.lab.time_scale import at_time_scale
from pages.ui import model_controls, navigation, settings, shell
from pages.ui.controls import slide
from pages.ui.plot import Panel, Picture, Text, by_key

MODELS = ("gdm", "gdm-rnn", "gdm-mixture", "rslds-sticky", "rslds-ro", "slds-sticky", "arhmm-sticky", "arhmm", "pdlds")
BY_LABEL = "A state has the colour of the label that it mostly stands for in the fitted trials."
PURPOSE = (
    "A model watches how animals (or anything else) move and cuts time into states by itself; here they stand beside what an "
    "expert called each moment, with scores on trials that it has never seen."
)
EXPORT, LABELLING = "Export & reproduce", "Labelling"


def recording_page(
    page: shell.Frame, data: Dataset, *, defined_by: str = "position", ships: Sequence[str] = ()
) -> None:
    """Show everything below the choice of data. Call at the end of a page's script.

    ships  names of results that ship with the app
    """
    with page.picture:
        shell.quiet(PURPOSE)
    with page.controls:
        data = at_time_scale(data)
        choice = choose_model(page.folder, data, "position" if data.recordings else defined_by)
    base = lab.begin(page, data, choice, ships=ships)
    with page.controls:
        rule = bout_controls(data)
        called, colours = _by_labels(data, base.fit, base.state, choice.n_states)
        named = naming.controls(
            page.folder, choice.n_states, settings.scope(data.key), called, colours, data.every_label
        )
    with page.picture:
        index = pick_trial(data)
    view = _view(base, index, naming=named, rule=rule)
    judged = _judged(view)
    with page.picture:
        shown = lab.choose_filtered(view)
        _poses(shown)
        under_player = st.container()
    lab.picture(shown, lambda now: strips(shown, now, judged))
    lab.preview(shown, _make_preview(view, colours))
    named_tabs: dict[str, lab.tabs.Tab] = {
        "Bouts": tabs.bouts,
        "Shares": lab.shares,
        "Transitions": lab.transitions,
        **({"Labels": lambda view, _: tabs.labels(view, judged)} if data.every_label else {}),
        **({"Clips": clips.clips_tab} if data.poses else {}),
        "Trials": lambda view, _: tabs.trials(view, judged.measured),
        "Prediction": lab.prediction,
        LABELLING: lambda view, _: labelling.panel(view, view.read_samples(), under_player),
        "Features": tabs.features,
        "Suggest settings": lab.suggest,
        EXPORT: lambda view, here: lab.offer(view, here, judged.rows_of),
    }
    lab.show_tabs(view, named_tabs, early=["Features", LABELLING, "Suggest settings"])
    if lab.honest_card(view, judged.rows_of) and judged.measured is not None:
        with page.card:
            _remarks(view, judged.measured)
    if labels.load(labels.key_of(data)).marks.marks:
        navigation.warn_before_unload()
    lab.end(view)


def _make_preview(view: View, colours: Sequence[int]) -> preview_figures.SliderPreview:
    """Return what the browser draws while a slider is dragged: poses, bouts and states.

    colours  that states have of their own here: another number of states has its own, and none that the visitor gave
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

    rows = {"bouts": "bouts", "states": "states"}
    figures = {
        "strips": preview_figures.strips(
            rows, view.unit.convert(1 / trial.rate_hz), waiting=["as labels", "as you say"]
        ),
        **({} if data.pose(view.index) is None else {"player": preview_figures.player("states", "bouts")}),
    }
    own = view.naming_for(len(view.state.order)).into
    plain = tuple(colours) if len(colours) == len(own) else tuple(range(len(own)))
    return preview_figures.SliderPreview(
        (view.index,), parts, figures, (view.index, view.naming, rule), other_k=own == plain
    )


def _view(base: View, index: int, *, rule: BoutRule, **more: Any) -> View:
    """Return the view with this page's trial, rule of bouts and scores."""
    data = base.dataset
    options, words = (rule.smooth_s, rule.shortest_s), f"bouts {rule_words(rule, data.unit)}"
    measure = lab.Measure(bout_scores.score_parts, options, words)
    return replace(base, spec=replace(base.spec, measure=measure), index=index, rule=rule, **more)


def _judged(view: View) -> scores.Judged:
    """Return the scores of the displayed result, and those of the user's names and mergers."""
    answer, own = lab.measured(view), None
    named = view.naming_for(len(view.state.order))
    if answer.fresh and "table" in answer.value and named.judged:
        rule, sides = view.rule, (view.dataset.train, view.dataset.test)
        stands = named.in_model_order(view.state.order)
        asked = view.query("named", bout_scores.score_named_states, *sides, rule.smooth_s, rule.shortest_s, *stands)
        with view.frame.card:
            live.show_failure(view.fit, asked, "Your own names could not be scored")
        own = asked.value if asked.fresh else None
    return scores.Judged(answer.value if answer.fresh else None, own, view.unit)


def bout_controls(data: Dataset) -> BoutRule:
    """Show the controls of how bouts are read from soft states, and return the rule."""
    start, labelled, most = data.first_rule, data.expert_rule is not None, data.longest
    shell.section("Bouts")
    if most * data.train[0].rate_hz < 2:
        shell.quiet("As fitted: with so long from one sample to the next, there is nothing to smooth within seconds.")
        return BoutRule()
    unit, step = unit_for(0.0, data.unit), 1.0 if data.unit == "step" else 0.1
    why = " Starts at half of the median bout in the expert's labels." if labelled else ""
    if not labelled and not start.plain:
        said = rule_words(start, data.unit)
        shell.quiet(f"No labels say how long bouts are. At first they are {said}; 0 reads them as fitted.")
    averaged = "Soft states are averaged over so long before the strongest counts. 0: as fitted."
    offered = (
        ("smooth", "Smooth over", start.smooth_s, averaged),
        ("shortest", "Shortest bout", start.shortest_s, "Bouts below it go to their neighbours."),
    )
    smooth, shortest = (
        slide(f"{what} ({unit.plural})", 0.0, most, at, step, key=key, of=data.bouts_of, help=said + why)
        for key, what, at, said in offered
    )
    return BoutRule(smooth, shortest)


def read_as_fitted(of: str) -> None:
    """Set the controls so that bouts are those of the fit, as the `on_click` of a button."""
    for name in ("smooth", "shortest"):
        settings.change(settings.key(name, of), "0")


def choose_model(folder: str, data: Dataset, defined_by: str) -> model_controls.Choice:
    """Show the model's controls. K and D start at a guess; the user's values stay with the recording."""
    memory = f"_model-{folder}"
    of = settings.scope(data.of, data.start) if data.of else ""
    k, d = data.start
    before = st.session_state.get(memory)
    if before is not None and before[0] == data.of and settings.text(settings.key("K", of)) is None:
        k, d = (own if own != old else new for own, old, new in zip(before[2], before[1], (k, d), strict=True))
    choice = model_controls.choose(
        n_channels=data.train.n_channels,
        n_samples=data.train.n_samples,
        n_states=k,
        n_latent=d,
        defined_by=defined_by,
        models=MODELS,
        of=of,
    )
    st.session_state[memory] = (data.of, data.start, (choice.n_states, choice.config["n_latent"]))
    back_to_start(data, choice)
    return choice


def back_to_start(data: Dataset, choice: model_controls.Choice) -> None:
    """Show a button that resets K and D to their defaults, with the reasons."""
    k, d = data.start
    if (choice.n_states, choice.config["n_latent"]) != (k, d):
        st.button(
            f"Back to the start: K {k}, D {d}",
            key="to-start",
            on_click=model_controls.apply,
            args=(choice, {"n_states": k, "n_latent": d}),
            width="stretch",
            help=f"D: {data.why_latent}. K: {data.suggestion.why_states}. Which K the data speak for, Suggest settings says.",
        )


BY_LABELS = "by labels"  # in the fit's memory


@dataclass(frozen=True)
class ByLabels:
    """The last result of `_by_labels` for (fingerprint, states): names and colours."""

    where: tuple[str, int]
    names: tuple[str, ...]
    colours: tuple[int, ...]


def _by_labels(
    data: Dataset, fit: live.FitSession, shown: live.FitState, n_states: int
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """(what the labels call each state, the colour that it has of its own). Colours of the fit before stay until there are
    states to go by."""
    if data.words is None:
        return (), ()
    where = (data.train.fingerprint, n_states)
    if (
        shown.status != "stale"
        and shown.states
        and len(shown.order) == n_states
        and len(shown.states) == len(data.train)
    ):
        of_all = naming.weights(shown.states, [trial.labels for trial in data.train], len(data.every_label))
        if of_all is not None and (colours := _label_colours(data, shown.states)):
            fit.memory[BY_LABELS] = ByLabels(where, naming.name_by_labels(of_all, data.every_label), colours)
    known: ByLabels | None = fit.memory.get(BY_LABELS)
    return (known.names, known.colours) if known is not None and known.where == where else ((), ())


def _label_colours(data: Dataset, states: preview_figures.States) -> tuple[int, ...]:
    """[K] the colour of each of these states of the first fitted trials, by the labels; () where they say nothing."""
    if (words := data.words) is None:
        return ()
    labels = [
        None if trial.labels is None else words.grouped(trial.labels) for trial in data.train.trials[: len(states)]
    ]
    grouped = naming.weights(states, labels, len(words.names))
    return () if grouped is None else naming.label_colours(grouped)


def _poses(view: View) -> None:
    """The player, drawn once a run of the page: poses are too large to send while a fit reports."""
    pose = view.dataset.pose(view.index)
    if pose is None:
        return
    here = view.read_samples()
    if pose.simulated:
        shell.quiet("Simulated mice: no frame of this is a recording, and how an attack looks is invented.")
    found: dict[str, Any] = {}
    if not isinstance(here, Undecoded):
        found = {"states": here.states, "bouts": here.bouts, "names": here.names}
    found |= {"words": view.dataset.words, "video": player.choose_video(view.dataset, view.index)}
    player.show_poses(pose, f"{view.dataset.key}/{view.index}", **found)


def strips(view: View, now: live.FitState, judged: scores.Judged) -> dict[str, Panel]:
    """Expert and inferred ethograms over one time axis. With scores, also what the states say in the expert's words: by the
    fitted trials, and in the visitor's own judgement."""
    here, words = view.read_samples(now), view.dataset.words
    found, said = None if isinstance(here, Undecoded) else here, dict[str, Any]()
    if found is not None and words is not None and here.expert is not None and here.state == "fresh":
        if (mapping := (judged.measured or {}).get("mapping")) is not None and len(mapping) == len(now.order):
            said["as labels"] = words.one_hot(as_labels(view, found, now.order, mapping))
        if (mine := (judged.own or {}).get("mapping")) is not None:
            said["as you say"] = words.one_hot(as_named(found, mine))
    rows = made.rows_of_strips(here, True, said)
    revision = f"{view.dataset.key}/{view.index}"
    if not rows:
        title = here.title if isinstance(here, Undecoded) else ""
        return by_key(Picture(None, "strips", revision=revision, title=title, note=here.note))
    text = caption(here, rows, view.dataset.pose(view.index) is not None)
    drawn = now.memoize(
        "strips",
        lambda: figures.state_strips(rows, caption=text, height=max(120, 52 + 34 * len(rows)), **here.timing),
        of=() if found is None else (found.states, found.bouts),
        settings=(here.trial.fingerprint, tuple(rows), view.naming, view.rule),
    )
    state = here.state if found is not None else "running"
    return by_key(Picture(drawn, "strips", state, revision), Text(legend(view, here), "strips-legend"))


def as_labels(view: View, here: Decoded, order: Sequence[int], mapping: Sequence[int]) -> npt.NDArray[np.int64]:
    """[T] the label that each moment's state stands for, exactly as it is scored.

    mapping [K] is in the model's own order of states; column j of the page is its state order[j].
    """
    cut = view.rule.labels(here.soft, here.trial.rate_hz)
    found: npt.NDArray[np.int64] = np.asarray(mapping, np.int64)[list(order)][cut]
    return found


def as_named(here: Decoded, mapping: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the label [T] of each sample's state as the user named it, from `score_named_states`."""
    label = np.full(len(here.names), -1, np.int64)
    label[here.used] = np.asarray(mapping, np.int64)
    found: npt.NDArray[np.int64] = label[here.bouts]
    return found


def caption(here: TrialView, rows: Collection[str], poses: bool) -> str:
    """Return how to read the strips."""
    said = [here.note] if here.note else []
    if here.expert is not None:
        said.append("Expert: the labels.")
    if "as labels" in rows:
        said.append("As labels: each state under its most frequent label in the fitted trials.")
    if "as you say" in rows:
        said.append("As you say: with your names and mergers.")
    if "states" in rows:
        said.append("Bouts: the strongest state, smoothed as set.")
        said.append("States: as fitted, in mixed colours; faint means undecided.")
    if here.expert is not None and "states" in rows:
        said.append(BY_LABEL)
    if here.words is not None and here.words.remark:
        said.append(here.words.remark)
    if poses:
        said.append("Point at a moment to see the animals then.")
    return " ".join(said)


def legend(view: View, here: Decoded | Undecoded) -> str:
    """Show the colours of states and labels."""
    keys = []
    if here.expert is not None and here.words is not None:
        keys.append(colour_key("labels", here.words.names, range(len(here.words.names))))
    if not isinstance(here, Undecoded):
        keys.append(colour_key("states", here.names, here.used))
    return shell.marked("".join(keys), view.made_for if here.state == "fresh" else "")


def _remarks(view: View, measured: Mapping[str, Any]) -> None:
    """Show remarks on the scores."""
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
            on_click=read_as_fitted,
            args=(view.dataset.bouts_of,),
            width="stretch",
        )
