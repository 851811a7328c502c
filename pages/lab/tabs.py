"""Tabs below the picture that pages share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from gdm_core.analysis.envelopes import Envelope, envelope, plane_map
from gdm_core.analysis.tables import harmless
from gdm_core.trials import Trial
from gdm_studio.plot import figures
from pages.lab import figures as made
from pages.lab import live
from pages.lab.dataset import rule_words
from pages.lab.decoded import Decoded, Undecoded
from pages.lab.export import bouts_of
from pages.lab.live.session import State
from pages.lab.scores import Judged
from pages.lab.view import View
from pages.ui import card, shell
from pages.ui.controls import one_of, slide, switch, tabs
from pages.ui.plot import coming, plot
from pages.ui.tables import clicked_row, jump, show_table

MAX_HORIZON = 50
MAX_ROWS = 2_000
NINE_OF_TEN = (90.0, 5.0)  # what a 90 % band should hold, and how far off is near enough, in per cent
FIRST_HORIZON = 20
ANSWER_S = 0.25  # that a run waits for a forecast, so that one follows a slider that is dragged
Tab = Callable[[View, Any], None]  # of a Decoded; tabs that need no states may be given an Undecoded
STAYS_OF = {"expert": "Bouts of the expert", "true": "True stays"}


def show_tabs(
    view: View, named: Mapping[str, Tab], reading: Decoded | Undecoded | None = None, *, early: Collection[str] = ()
) -> None:
    """Show the tabs; only the open one is drawn, once there are states.

    reading   what the tabs are about, where that is more than the one trial that is looked at
    early     tabs that need no states
    """
    with view.frame.below:
        for name, place in tabs(list(named)):
            if place.open:
                with place:
                    draw = named[name]
                    reading = reading or view.read()
                    if name in early:
                        draw(view, reading)
                    elif isinstance(reading, Decoded):
                        with shell.made_for(view.made_for if reading.state == "fresh" else ""):
                            draw(view, reading)
                    elif view.is_new:
                        shell.empty(reading.title, reading.note)
                    else:
                        shell.empty("Nothing fitted yet", "This fills in with the first result.")


def shares(view: View, reading: Decoded) -> None:
    """Show stacked shares over time and the usage of states, next to the expert's labels."""
    left, right = st.columns([0.7, 0.3], gap="small")
    with left, shell.panel("shares", "Shares of each state"):
        plot(made.shares(reading), key="proportions", state=reading.state)
        plot(made.entropy(reading), key="entropy", state=reading.state)
    with right, shell.panel("usage", "Use of each state"):
        plot(made.usage(reading), key="usage", state=reading.state)
        if (known := reading.reference) is not None and known.who == "expert":
            said = "The expert's labels of the same trial."
            figure = figures.usage(known.shares, names=known.names, caption=said)
            plot(made.add_remark(figure, known), key="usage-expert")


def stays(view: View, reading: Decoded) -> None:
    """Show dwell times next to those of true states or expert labels."""
    known, cut = reading.reference, view.dataset.recorded
    places = st.columns(1 if known is None else 2, gap="small")
    if known is not None:
        with places[0], shell.panel(f"dwell-{known.who}", STAYS_OF[known.who]):
            plot(made.add_remark(made.reference_stays(reading, known), known), key=f"dwell-{known.who}")
    title = "Bouts of the model" if cut else "Stays" if known is None else "Inferred stays"
    with places[-1], shell.panel("dwell-inferred", title):
        plot(made.stays(reading), key="dwell-inferred", state=reading.state)
    if not cut and figures.is_flickering(reading.states if known is None else known.shares):
        shell.quiet(
            "Most stays are a sample or two because these states are soft: several have shares at once, chance decides anew at "
            "every sample which of them is strongest, and a stay ends there. Their shares, averaged over some samples, last "
            "much longer (see Shares)."
        )


def transitions(view: View, reading: Decoded) -> None:
    """Show transitions as numbers, and a map of the plane or a graph."""
    left, right = st.columns([0.55, 0.45], gap="small")
    with left:
        if reading.trial.position is None:
            with shell.panel("graph", "What follows what"):
                plot(made.graph(reading), key="graph", state=reading.state)
        else:
            _map(view, reading)
    with right, shell.panel("matrix", "What follows what, in numbers"):
        plot(made.matrix(reading), key="matrix", state=reading.state)
        if (known := reading.reference) is not None and known.who == "expert":
            plot(made.add_remark(made.reference_matrix(known), known), key="matrix-expert")


def _map(view: View, reading: Decoded) -> None:
    with shell.panel("map", "Which state wins where"):
        answer = view.query(f"map-{view.index}", plane_map, reading.trial)
        if answer.value is not None:  # the last one stays until there is another
            trial, order = answer.about
            state = reading.state if answer.fresh else "stale"
            drawn = view.state.memoize(
                ("plane", view.index),
                lambda: made.plane(answer.value, trial.position, order),
                of=(answer.value, trial),
                settings=order,
            )
            plot(drawn, key="plane", state=state)
        if not live.show_failure(view.fit, answer, "The map could not be worked out") and answer.value is None:
            coming("plane", "The map is being worked out.", 380)


def prediction(view: View, reading: Decoded) -> None:
    """Show one prediction with its intervals and their coverage."""
    trial = reading.trial
    left, middle, right = st.columns(3, gap="medium")
    with left:
        moment = _moment(view, trial)
    with middle:
        horizon = slide("Horizon (steps)", 1, MAX_HORIZON, FIRST_HORIZON, key="horizon", live=True)
    names = {channel: view.dataset.called.get(channel, channel) for channel in trial.channels}
    channel = one_of("Channel", names, key="channel", at=right)
    adaptive = switch(
        "Bands learn on the way",
        True,
        key="adaptive",
        help="Once the outcome of an earlier prediction is known, the bands grow a little if they missed it and shrink if they "
        "held it. In the long run they hold their share whatever the data do, at the price of width. Off: the bands stay as "
        "they were calibrated on the fitted data.",
    )
    answer = view.query(f"envelope-{view.index}", envelope, trial, moment, horizon, adaptive, wait_s=ANSWER_S)
    with shell.panel("envelope"):
        if (
            answer.value is not None
        ):  # the last one stays until there is another, beside the observations of its own trial
            _envelope(view, answer.value, answer.about[0], channel, reading.state if answer.fresh else "stale")
        if not live.show_failure(view.fit, answer, "The prediction could not be worked out") and answer.value is None:
            coming("envelope", "The prediction is being worked out.")


def _moment(view: View, trial: Trial) -> int:
    """Return the sample to predict from, chosen in the unit of the data."""
    last, step = max(trial.n_samples - 2, 1), float(view.timing["step"])
    help = "The model sees nothing after it."
    if view.dataset.unit == "step":
        return slide("From step", 0, last, trial.n_samples // 2, key="moment", help=help, live=True)
    label, end = f"From ({view.unit.plural})", last * step
    start = min(round(trial.n_samples // 2 * step, 2), end)
    seconds = slide(label, 0.0, end, start, step, key="moment", digits=2, help=help, live=True)
    return min(max(round(seconds / step), 0), last)


def _envelope(view: View, found: Envelope, trial: Trial, channel: str, state: State) -> None:
    index = trial.channels.index(channel) if channel in trial.channels else 0
    timing, name = view.timing, view.dataset.called.get(channel, "")
    drawn = view.state.memoize(
        ("envelope", view.index),
        lambda: made.prediction(found, trial, index, name=name, **timing),
        of=(found, trial),
        settings=index,
    )
    plot(drawn, key="envelope", state=state)
    kinds = {True: ("that learn on the way", found.learning), False: ("as calibrated", found.fixed)}
    (words, ours), (other, theirs) = kinds[found.adaptive], kinds[not found.adaptive]
    held = 100 * float(ours.nine_tenths[-1])
    said = card.judge_coverage(held, *NINE_OF_TEN)
    shell.quiet(
        f"Measured over {found.n_origins} moments of {trial.name} and all channels, {len(found.mean)} steps ahead, with bands "
        f"{words}: the 50 % band holds {100 * ours.half[-1]:.1f} % of outcomes, the 90 % band {held:.1f} %, {said}. "
        f"{card.COVERAGE[said]} 90 % bands {other} hold {100 * float(theirs.nine_tenths[-1]):.1f} %; those that learn are "
        f"{found.wider:.2f} times as wide."
    )


# ---- of recordings ------------------------------------------------------------------------------------------------
def bouts(view: View, here: Decoded) -> None:
    """Show dwell times next to the expert's, and a table of bouts."""
    stays(view, here)
    table = bouts_of(here)
    with shell.panel("bout-table", "Every bout of this trial"):
        number = f"{len(table):,} {'bout' if len(table) == 1 else 'bouts'}"
        read_as = rule_words(view.rule, view.dataset.unit)
        shell.quiet(f"{number}, {read_as}. A click on a row shows its moment above.")
        counted, unit = here.counted, here.unit
        units = {"Start": unit, "Stop": unit, "Duration": here.dwell_unit(here.bouts)}
        times = {f"{what} ({counted})": f"{what} ({its.plural})" for what, its in units.items()}
        shown = table[["Behavior", *times, "Mean share"]].head(MAX_ROWS).copy()
        shown[list(times)] = shown[list(times)] / [its.seconds for its in units.values()]
        chosen = show_table(
            shown.round(2).rename(columns=times), 260, f"bout-rows-{view.index}", on_select="rerun",
            selection_mode="single-cell",
        )  # fmt: skip
        if (row := clicked_row(chosen, len(shown))) is not None:
            jump(float(shown[f"Start ({counted})"].iloc[row]), f"{view.dataset.key}/{view.index}")
        if len(table) > MAX_ROWS:
            shell.quiet(f"The first {MAX_ROWS:,} are shown; the export has all.")


def labels(view: View, shown: Judged) -> None:
    """Show states against expert labels, both ways."""
    measured = shown.measured
    if measured is None or "table" not in measured:
        shell.empty("Not measured yet", "States are held against the labels when the fit is done.")
        return
    side = one_of(
        "Counted in", SIDES, row=True, key="counted",
        help="What states stand for by themselves is learned in the fitted trials; whether it holds shows in the new ones.",
    )  # fmt: skip
    counts, names, says = label_counts(view, measured, shown.own, side)
    if not counts.sum():
        shell.empty("Nothing is labelled here", "Look at the other trials.")
        return
    left, right = st.columns(2, gap="small")
    with left, shell.panel("labels-of-states", "What each state is made of"):
        share_table(names, counts, view.dataset.every_label, "state", "labels-of-states-rows", {"stands for": says})
        shell.quiet("Of the frames in each state's bouts, the share that the expert gave each label.")
    with right, shell.panel("states-of-labels", "Where each behaviour went"):
        share_table(view.dataset.every_label, counts.T, names, "behaviour", "states-of-labels-rows", {})
        shell.quiet("Of the frames that the expert gave each label, the share in the bouts of each state.")
    shell.quiet(
        "If a state is another behaviour than it stands for, say so under Name, merge, recolour: call it like the label, or "
        "choose what it is. The card then has scores of your naming beside the automatic one."
    )


SIDES = {"new": "new trials", "fitted": "fitted trials"}


def label_counts(
    view: View, measured: Mapping[str, Any], own: Mapping[str, Any] | None, side: str
) -> tuple[npt.NDArray[np.int64], list[str], list[str]]:
    """([states, labels] frames, the names of the states, what each stands for); merged where the visitor's are measured."""
    naming, words = view.naming_for(len(view.state.order)), view.dataset.every_label
    if own is not None:
        found, mapping = own, own.get("mapping")
        names = [naming.names[column] for column in naming.used]
        order = list(range(len(names)))
        mine = [naming.labels[column] >= 0 for column in naming.used]
    else:
        found, mapping = measured, measured.get("mapping")
        names = [naming.names[column] if naming.names[column] else f"S{k + 1}" for k, column in enumerate(naming.into)]
        order = list(view.state.order)
        mine = [False] * len(names)
    counts = np.asarray(found["table"][side], np.int64)[order][:, : len(words)]
    stands = [-1] * len(names) if mapping is None else [mapping[k] for k in order]
    says = [
        (words[label] + (" (yours)" if yours else "")) if 0 <= label < len(words) else "–"
        for label, yours in zip(stands, mine, strict=True)
    ]
    return counts, names, says


def share_table(
    rows: Sequence[str],
    counts: npt.NDArray[np.int64],
    columns: Sequence[str],
    what: str,
    key: str,
    more: Mapping[str, Sequence[str]],
) -> None:
    """Return shares of each row's frames for bars with numbers."""
    total = counts.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(total[:, None] > 0, counts / total[:, None], np.nan)
    table = pd.DataFrame({what: list(rows), **{name: list(values) for name, values in more.items()}, "frames": total})
    shown: dict[str, Any] = {}
    for j, name in enumerate(columns):
        title = harmless(name if name not in table else f"{name} ")
        table[title] = share[:, j]
        shown[title] = st.column_config.ProgressColumn(title, min_value=0.0, max_value=1.0, format="percent")
    show_table(table, 300, key, column_config=shown)


def trials(view: View, measured: Mapping[str, Any] | None) -> None:
    """Show scores by trial, as in the paper's figure."""
    if measured is None:
        shell.empty("Not measured yet", "Scores of each trial appear when the fit is done.")
        return
    left, right = st.columns([0.58, 0.42], gap="small")
    with left, shell.panel("trial-scores", "Trial by trial"):
        plot(made.trial_scores(measured), key="trial-scores")
    with right, shell.panel("trial-table", "In numbers"):
        table = trial_table(measured)
        show_table(table, 300, "trial-rows")
        if "mapping" in measured:
            words = view.dataset.label_names
            order = view.state.order
            said = ", ".join(
                f"S{j + 1} {words[measured['mapping'][k]] if 0 <= measured['mapping'][k] < len(words) else 'unlabelled'}"
                for j, k in enumerate(order)
            )
            shell.quiet(f"Each state stands for its most frequent label in the fitted trials: {said}.")


def trial_table(measured: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per trial, held-out trials first; unmeasured cells are dashes."""
    both = [*measured["test"], *measured["train"]]
    sides = ["new"] * len(measured["test"]) + ["fitted"] * len(measured["train"])
    names = shortened([row["name"] for row in both])
    numbers = pd.DataFrame([_numbers(row) for row in both]).dropna(axis=1, how="all")
    words = numbers.map(lambda value: "–" if pd.isna(value) else f"{value:.3f}")
    words.insert(0, "trial", names)
    words.insert(1, "side", sides)
    return words


def shortened(names: Sequence[str], least_gain: int = 8) -> list[str]:
    """Names without the path that all begin with and the ending that all share, cut between words alone: where that takes so
    many letters away; fewer are not in the way."""
    if len(set(names)) < 2:
        return list(names)
    parts = [[piece for piece in re.split(r"(?<=[/_ .-])|(?=[/_ .-])", name) if piece] for name in names]
    start = end = 0
    least = min(len(part) for part in parts) - 1  # something has to be left of each
    while start < least and len({part[start] for part in parts}) == 1:
        start += 1
    while end < least - start and len({part[-1 - end] for part in parts}) == 1:
        end += 1
    shared = [*parts[0][:start], *parts[0][len(parts[0]) - end :]]
    if sum(map(len, shared)) < least_gain:
        return list(names)
    return ["".join(part[start : len(part) - end]) for part in parts]


def _numbers(row: Mapping[str, Any]) -> dict[str, float | None]:
    words = {
        "r2": "R²",
        "persistence": "R², sample before",
        "paper_accuracy": "paper's accuracy",
        "majority": "majority class",
        "balanced_accuracy": "balanced accuracy",
        "macro_f1": "macro-F1",
    }
    return {text: None if row.get(name) is None else round(row[name], 3) for name, text in words.items()}


def features(view: View, here: Decoded | Undecoded) -> None:
    """Show principal components, what they suggest, and notes on the recording."""
    data = view.dataset
    start = data.start[1]
    dims = view.state.spec.config["n_latent"] if view.state.spec is not None else start
    left, right = st.columns(2, gap="small")
    with left, shell.panel("variance", "Components of the features"):
        plot(
            made.variance_explained(data.components.variance_explained, int(dims), start),
            key="variance",
        )
        shell.quiet(
            f"D starts at {start}: {data.why_latent}. K starts at {data.suggestion.n_states}: {data.suggestion.why_states}. "
            "Which of them to take, Suggest settings says."
        )
    with right, shell.panel("components", "This trial on two of them"):
        pca = data.components
        scaled = np.nan_to_num((here.trial.y - pca.center) / pca.scale) @ pca.components[:2].T
        if scaled.shape[1] > 1:
            states = None if isinstance(here, Undecoded) else here.states
            plot(made.scatter(scaled, states), key="components", state=here.state)
        else:
            shell.quiet("One channel has one component.")
    with shell.panel("channels", "Channels"):
        shell.quiet(", ".join(here.trial.channels))
        for line in filter(None, (*data.notes, data.missing)):
            shell.quiet(f"{line[:1].upper()}{line[1:]}.".replace("..", "."))
