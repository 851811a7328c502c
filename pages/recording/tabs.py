"""What lies below the picture: bouts, shares, transitions, trials, features, and what to take along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import harmless
from pages import lab
from pages.lab import analysis_figures
from pages.lab.bout_rule import rule_words
from pages.lab.tables import bouts_of
from pages.lab.view import Reading, Unread, View
from pages.recording import clips, export
from pages.recording.scores import Judged
from pages.recording.tables import clicked_row, jump, show_table
from pages.recording.teach import panel as teach
from pages.recording.teach.taught_fit import WithWords
from pages.ui import shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

MAX_ROWS = 2_000
EXPORT = "Export & reproduce"
TEACH = "Teach"


def show(view: View, shown: Judged, untaught: View, with_words: WithWords | None, beside_player: Any) -> None:
    """The tabs; only the open one is worked out. What Teach asks stands `beside_player`, where moments are watched.

    untaught     the same of the fit without words, which is what is taught
    with_words   the fit that was taught words, where the page shows that
    """
    named: dict[str, lab.tabs.Tab] = {
        "Bouts": bouts,
        "Shares": lab.shares,
        "Transitions": lab.transitions,
        **({"Labels": lambda view, _: labels(view, shown)} if view.data.every_label else {}),
        **({"Clips": clips.tab} if view.data.poses else {}),
        "Trials": lambda view, _: trials(view, shown.measured),
        "Prediction": lab.prediction,
        TEACH: lambda _, here: teach.panel(untaught, here, beside_player),
        "Features": features,
        "Suggest settings": lab.suggest,
        EXPORT: lambda view, here: export.panel(view, here, shown.rows_of, with_words),
    }
    lab.show_tabs(view, named, early=["Features", TEACH, "Suggest settings"])


def teaches() -> bool:
    """Whether the tab Teach is open."""
    return bool(st.session_state.get("view", st.query_params.get("view")) == TEACH)  # at first only the address says so


def bouts(view: View, here: Reading) -> None:
    """How long states last, the expert's beside ours, and every bout in a table."""
    lab.stays(view, here)
    table = bouts_of(here)
    with shell.panel("bout-table", "Every bout of this trial"):
        number = f"{len(table):,} {'bout' if len(table) == 1 else 'bouts'}"
        read_as = rule_words(view.rule, view.data.unit)
        shell.quiet(f"{number}, {read_as}. A click on a row shows its moment above.")
        counted, unit = here.counted, here.unit
        units = {"Start": unit, "Stop": unit, "Duration": here.unit_of_stays(here.bouts)}
        times = {f"{what} ({counted})": f"{what} ({its.plural})" for what, its in units.items()}
        shown = table[["Behavior", *times, "Mean share"]].head(MAX_ROWS).copy()
        shown[list(times)] = shown[list(times)] / [its.seconds for its in units.values()]
        chosen = show_table(
            shown.round(2).rename(columns=times), 260, f"bout-rows-{view.index}", on_select="rerun",
            selection_mode="single-cell",
        )  # fmt: skip
        if (row := clicked_row(chosen, len(shown))) is not None:
            jump(float(shown[f"Start ({counted})"].iloc[row]), f"{view.data.key}/{view.index}")
        if len(table) > MAX_ROWS:
            shell.quiet(f"The first {MAX_ROWS:,} are shown; the export has all.")


def labels(view: View, shown: Judged) -> None:
    """States against the expert's labels, both ways."""
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
        share_table(names, counts, view.data.every_label, "state", "labels-of-states-rows", {"stands for": says})
        shell.quiet("Of the frames in each state's bouts, the share that the expert gave each label.")
    with right, shell.panel("states-of-labels", "Where each behaviour went"):
        share_table(view.data.every_label, counts.T, names, "behaviour", "states-of-labels-rows", {})
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
    naming, words = view.naming_for(len(view.shown.order)), view.data.every_label
    if own is not None:
        found, mapping = own, own.get("mapping")
        names = [naming.names[column] for column in naming.used]
        order = list(range(len(names)))
        mine = [naming.stands[column] >= 0 for column in naming.used]
    else:
        found, mapping = measured, measured.get("mapping")
        names = [naming.names[column] if naming.names[column] else f"S{k + 1}" for k, column in enumerate(naming.into)]
        order = list(view.shown.order)
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
    """Shares of each row's frames, as bars with numbers."""
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
    """Trial by trial, as in the paper's figure."""
    if measured is None:
        shell.empty("Not measured yet", "Scores of each trial appear when the fit is done.")
        return
    left, right = st.columns([0.58, 0.42], gap="small")
    with left, shell.panel("trial-scores", "Trial by trial"):
        plot(analysis_figures.trial_scores(measured), key="trial-scores")
    with right, shell.panel("trial-table", "In numbers"):
        table = trial_table(measured)
        show_table(table, 300, "trial-rows")
        if "mapping" in measured:
            words = view.data.label_names
            order = view.shown.order
            said = ", ".join(
                f"S{j + 1} {words[measured['mapping'][k]] if 0 <= measured['mapping'][k] < len(words) else 'unlabelled'}"
                for j, k in enumerate(order)
            )
            shell.quiet(f"Each state stands for its most frequent label in the fitted trials: {said}.")


def trial_table(measured: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each trial, new ones first. What was not measured of a trial is a dash, and of none is left out."""
    both = [*measured["test"], *measured["train"]]
    sides = ["new"] * len(measured["test"]) + ["fitted"] * len(measured["train"])
    names = shortened([row["name"] for row in both])
    numbers = pd.DataFrame([_numbers(row) for row in both]).dropna(axis=1, how="all")
    words = numbers.map(lambda value: "–" if pd.isna(value) else f"{value:.3f}")
    words.insert(0, "trial", names)
    words.insert(1, "side", sides)
    return words


def shortened(names: Sequence[str]) -> list[str]:
    """Names without the path that all begin with and the ending that all share, cut between words alone."""
    if len(set(names)) < 2:
        return list(names)
    parts = [[piece for piece in re.split(r"(?<=[/_ .-])|(?=[/_ .-])", name) if piece] for name in names]
    start = end = 0
    least = min(len(part) for part in parts) - 1  # something has to be left of each
    while start < least and len({part[start] for part in parts}) == 1:
        start += 1
    while end < least - start and len({part[-1 - end] for part in parts}) == 1:
        end += 1
    if sum(len(piece) for piece in parts[0][:start]) + sum(len(piece) for piece in parts[0][len(parts[0]) - end :]) < 8:
        return list(names)  # too little to be in the way
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


def features(view: View, here: Reading | Unread) -> None:
    """What the model sees: components, what they suggest, and what was found in the recording."""
    data = view.data
    start = data.start[1]
    dims = view.shown.wanted.config["n_latent"] if view.shown.wanted is not None else start
    left, right = st.columns(2, gap="small")
    with left, shell.panel("variance", "Components of the features"):
        plot(
            analysis_figures.variance_held(data.components.variance_held, int(dims), start),
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
            states = None if isinstance(here, Unread) else here.states
            plot(analysis_figures.scatter(scaled, states), key="components", state=here.state)
        else:
            shell.quiet("One channel has one component.")
    with shell.panel("channels", "Channels"):
        shell.quiet(", ".join(here.trial.channels))
        for line in data.notes:
            shell.quiet(f"{line[:1].upper()}{line[1:]}.".replace("..", "."))
