"""Tabs below the picture that pages share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from gdm_core.analysis.envelopes import envelope, plane_map
from gdm_core.analysis.tables import harmless
from gdm_core.text import format_percent, plural
from gdm_studio.plot import figures
from pages.lab import explain, live
from pages.lab import figures as made
from pages.lab.dataset import rule_words
from pages.lab.decoded import Decoded
from pages.lab.export import trial_bouts
from pages.lab.view import View
from pages.ui import shell
from pages.ui.controls import one_of, slide, switch, tabs
from pages.ui.plot import coming, plot
from pages.ui.tables import clicked_row, jump, show_table

MAX_HORIZON = 50
MAX_ROWS = 2_000
FIRST_HORIZON = 20
ANSWER_S = 0.25  # seconds that a run waits for a forecast, which then follows a dragged slider
Tab = Callable[[View, Any], None]  # takes a Decoded; tabs that need no states may get an Undecoded
UNMEASURED = "Scores appear when fitting finishes."
KNOWN = {"expert": "Expert bouts", "true": "True dwell times"}
SIDES = {"new": "Held-out", "fitted": "Training"}


def show_tabs(view: View, named: Mapping[str, Tab], *, early: Collection[str] = ()) -> None:
    """Show the tabs; only the open one is drawn, once there are states, except for `early` ones, which need none."""
    with view.frame.below:
        for name, place in tabs(list(named)):
            if not place.open:
                continue
            with place:
                draw, here = named[name], view.read()
                if name in early:
                    draw(view, here)
                elif isinstance(here, Decoded):
                    with shell.made_for(view.made_for if here.state == "fresh" else ""):
                        draw(view, here)
                else:
                    shell.empty(here.title, here.note)


def show_views(views: Mapping[str, Tab], key: str, view: View, here: Any) -> None:
    """Show the chosen view of a tab; other views are not drawn."""
    name = next(iter(views))
    if len(views) > 1:
        name = one_of("View", list(views), key=key, row=True, label_visibility="collapsed")
    views[name](view, here)


def show_shares(view: View, reading: Decoded, *, in_picture: bool = False) -> None:
    """Show stacked proportions over time and the usage of states, next to the expert's labels.

    in_picture   whether the page's picture has the proportions; channels take their place
    """
    left, right = st.columns([0.7, 0.3], gap="small")
    with left, shell.panel("shares", "Channels and entropy" if in_picture else "State proportions"):
        if in_picture:
            plot(figures.channel_strip(reading.trial.y, **reading.timing), key="channels", still=True)
        else:
            plot(made.shares(reading), key="proportions", state=reading.state)
        plot(made.entropy(reading), key="entropy", state=reading.state)
    with right, shell.panel("usage", "State usage"):
        clicked = partial(explain.choose_bar, reading)
        plot(made.usage(reading), key="usage", state=reading.state, clicked=clicked)
        shell.quiet("Click a bar to explain its state.")
        if (known := reading.reference) is not None and known.who == "expert":
            plot(figures.usage(known.shares, names=known.names, caption="Expert labels."), key="usage-expert")


def show_dwell_times(view: View, reading: Decoded) -> None:
    """Show dwell times, with those of true states or expert labels for comparison."""
    known, is_recording = reading.reference, view.dataset.recorded
    places = st.columns(1 if known is None else 2, gap="small")
    if known is not None:
        with places[0], shell.panel(f"dwell-{known.who}", KNOWN[known.who]):
            plot(made.reference_stays(reading, known), key=f"dwell-{known.who}")
    title = "Inferred bouts" if is_recording else "Dwell times" if known is None else "Inferred dwell times"
    with places[-1], shell.panel("dwell-inferred", title):
        plot(made.stays(reading), key="dwell-inferred", state=reading.state)
    if not is_recording and figures.is_flickering(reading.states if known is None else known.shares):
        shell.quiet("Dwell times look short because mixed states take turns as the strongest.")


def show_transitions(view: View, reading: Decoded) -> None:
    """Show the transition matrix, next to a map of the plane or the matrix of the expert's labels."""
    left, right = st.columns(2, gap="small")
    with left, shell.panel("matrix", "Transition matrix"):
        plot(made.matrix(reading), key="matrix", state=reading.state)
    with right:
        if reading.trial.position is not None:
            _show_map(view, reading)
        elif (known := reading.reference) is not None and known.who == "expert":
            with shell.panel("matrix-expert", "Expert labels"):
                plot(made.reference_matrix(known), key="matrix-expert")


def _show_map(view: View, reading: Decoded) -> None:
    with shell.panel("map", "State map"):
        answer = view.query(f"map-{view.index}", plane_map, reading.trial)
        if answer.value is not None:  # an earlier map stays until the new one is computed
            trial, order = answer.about
            timing = reading.timing
            drawn = view.state.memoize(
                ("plane", view.index),
                lambda: made.plane(answer.value, trial.position, order, start=timing["start"], step=timing["step"]),
                inputs=(answer.value, trial),
                settings=order,
            )
            plot(drawn, key="plane", state=reading.state if answer.fresh else "stale")
        if not live.show_failure(view.fit, answer, "The map could not be computed") and answer.value is None:
            coming("plane", "Computing the map.", 380)


def show_prediction(view: View, reading: Decoded) -> None:
    """Show one prediction with its intervals and their coverage."""
    trial = reading.trial
    left, middle, right, last = st.columns(4, gap="medium", vertical_alignment="bottom")
    with left:
        origin = _choose_origin(view, reading)
    with middle:
        horizon = slide("Horizon (steps)", 1, MAX_HORIZON, FIRST_HORIZON, key="horizon", live=True)
    names = {channel: view.dataset.called.get(channel, channel) for channel in trial.channels}
    channel = one_of("Channel", names, key="channel", place=right)
    help = "Intervals widen after each miss and narrow after each hit, so coverage approaches the target."
    adaptive = switch("Adaptive intervals", True, key="adaptive", help=help, place=last)
    answer = view.query(
        f"envelope-{view.index}", envelope, trial, origin, horizon, adaptive, wait_s=ANSWER_S, calibrated=True
    )
    with shell.panel("envelope"):
        if answer.value is not None:  # an earlier prediction stays
            _show_envelope(view, reading, answer, channel)
        if not live.show_failure(view.fit, answer, "The prediction failed") and answer.value is None:
            coming("envelope", "Computing the prediction.")


def _choose_origin(view: View, reading: Decoded) -> int:
    """Return the sample to predict from, chosen in the unit of the data."""
    trial, timing = reading.trial, reading.timing
    last, step = max(trial.n_samples - 2, 1), float(timing["step"])
    help = "The model sees no later samples."
    if view.dataset.unit == "step":
        return slide("From step", 0, last, trial.n_samples // 2, key="moment", help=help, live=True)
    begin = float(timing["start"])
    end = begin + last * step
    start = min(round(begin + trial.n_samples // 2 * step, 2), end)
    label = f"From ({view.unit.plural})"
    seconds = slide(label, begin, end, start, step, key="moment", digits=2, help=help, live=True)
    return min(max(round((seconds - begin) / step), 0), last)


def _show_envelope(view: View, reading: Decoded, answer: live.Query, channel: str) -> None:
    """Draw a prediction, which may be of an earlier trial, and describe its coverage."""
    found, trial = answer.value, answer.about[0]
    index = trial.channels.index(channel) if channel in trial.channels else 0
    name = view.dataset.called.get(channel, "")
    drawn = view.state.memoize(
        ("envelope", view.index),
        lambda: made.prediction(found, trial, index, name=name, **reading.timing),
        inputs=(found, trial),
        settings=index,
    )
    plot(drawn, key="envelope", state=reading.state if answer.fresh else "stale")
    half, nine_tenths = (format_percent(float(share[-1]), 1) for share in (found.half, found.nine_tenths))
    shell.quiet(
        f"Coverage {plural(len(found.mean), 'step')} ahead, all channels of {trial.name}: {nine_tenths} for the 90% interval, "
        f"{half} for the 50% interval."
    )


# ---- of recordings ------------------------------------------------------------------------------------------------
def show_bouts(view: View, here: Decoded) -> None:
    """Show dwell times next to the expert's, and a table of bouts."""
    show_dwell_times(view, here)
    table = trial_bouts(here)
    with shell.panel("bout-table", "Bouts of this trial"):
        shell.quiet(
            f"{plural(len(table), 'bout')}, {rule_words(view.rule, view.dataset.unit)}. Click a row to go there."
        )
        counted, unit = here.counted, here.unit
        units = {"Start": unit, "Stop": unit, "Duration": here.dwell_unit(here.bouts)}
        times = {f"{what} ({counted})": f"{what} ({its.plural})" for what, its in units.items()}
        shown = table[["Behavior", *times, "Mean share"]].head(MAX_ROWS).copy()
        shown[list(times)] = shown[list(times)] / [its.seconds for its in units.values()]
        named = shown.round(2).rename(columns={"Behavior": "State", **times})
        broken = [name for name in named if name != "State" and (named[name] % 1).any()]
        chosen = show_table(
            named, 260, f"bout-rows-{view.index}", on_select="rerun", selection_mode="single-cell",
            column_config=dict.fromkeys(broken, st.column_config.NumberColumn(format="%.2f")),
        )  # fmt: skip
        if (row := clicked_row(chosen, len(shown))) is not None:
            jump(float(shown[f"Start ({counted})"].iloc[row]), f"{view.dataset.key}/{view.index}")
        if len(table) > MAX_ROWS:
            shell.quiet(f"First {MAX_ROWS:,} bouts; the export has all.")


def show_labels(view: View, measured: Mapping[str, Any] | None) -> None:
    """Show states against expert labels, both ways, as shares of frames per row."""
    if measured is None or "table" not in measured:
        shell.empty("Not measured yet", UNMEASURED)
        return
    side = one_of("Trials", SIDES, row=True, key="counted", label_visibility="collapsed")
    counts, names, assigned = label_counts(view, measured, side)
    if not counts.sum():
        shell.empty("No labels in these trials", "Choose the other trials.")
        return
    with shell.panel("labels-of-states", "Labels in each state"):
        share_table(
            names, counts, view.dataset.every_label, "state", "labels-of-states-rows", {"assigned label": assigned}
        )
    with shell.panel("states-of-labels", "States in each label"):
        share_table(view.dataset.every_label, counts.T, names, "label", "states-of-labels-rows", {})


def label_counts(
    view: View, measured: Mapping[str, Any], side: str
) -> tuple[npt.NDArray[np.int64], list[str], list[str]]:
    """Return frames [states, labels], names of states and their assigned labels."""
    naming, words, order = view.naming_for(len(view.state.order)), view.dataset.every_label, list(view.state.order)
    names = [naming.names[column] or f"S{k + 1}" for k, column in enumerate(naming.into)]
    counts = np.asarray(measured["table"][side], np.int64)[order][:, : len(words)]
    mapping = measured.get("mapping")
    assigned = ["–" if mapping is None or mapping[k] >= len(words) else words[mapping[k]] for k in order]
    return counts, names, assigned


def share_table(
    rows: Sequence[str],
    counts: npt.NDArray[np.int64],
    columns: Sequence[str],
    what: str,
    key: str,
    more: Mapping[str, Sequence[str]],
) -> None:
    """Show the shares of each row's frames as bars with numbers."""
    total = counts.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(total[:, None] > 0, counts / total[:, None], np.nan)
    table = pd.DataFrame({what: list(rows), **{name: list(values) for name, values in more.items()}, "frames": total})
    shown: dict[str, Any] = {}
    for j, name in enumerate(columns):
        title = harmless(name if name not in table else f"{name} ")
        table[title] = 100 * share[:, j]
        shown[title] = st.column_config.ProgressColumn(title, min_value=0, max_value=100, format="%.0f%%")
    show_table(table, 300, key, column_config=shown)


def show_trials(view: View, measured: Mapping[str, Any] | None) -> None:
    """Show scores by trial, as in the paper's figure."""
    if measured is None:
        shell.empty("Not measured yet", UNMEASURED)
        return
    with shell.panel("trial-scores", "Scores by trial"):
        plot(made.trial_scores(measured), key="trial-scores")


def show_features(view: View) -> None:
    """Show the reasons for the default K and D, the channels, and notes on the recording."""
    data, (k, d) = view.dataset, view.dataset.start
    with shell.panel("channels", "Channels"):
        shell.quiet(", ".join(data.train[0].channels))
        shell.quiet(f"Default D = {d}: {data.why_latent}. K = {k}: {data.suggestion.why_states}.")
        for line in data.notes:
            shell.quiet(f"{line[:1].upper()}{line[1:].rstrip('.')}.")
