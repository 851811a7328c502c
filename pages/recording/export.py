"""What to take along: named states, bouts and features beside the panel that all pages share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.bouts import transition_shares
from gdm_core.trials import Trial
from pages import lab
from pages.lab.card import Rows
from pages.lab.export import File
from pages.recording import analysis_figures, state_figures
from pages.recording.data import Data
from pages.recording.naming import Naming
from pages.recording.view import Here, View
from pages.ui import exports, figures, palette
from pages.ui.figures.base import Figure

NO_SUBJECT = "No focal subject"  # as BORIS calls it


def panel(view: View, here: Here, rows_of: Rows) -> None:
    """Everything that the page shows, as files."""
    assert here.states is not None
    key = {"states": exports.legend.states(len(here.names), here.names, here.used)}
    with_key = exports.legend.with_key
    facts = [
        ("data", view.data.about),
        ("names", ", ".join(here.names[k] for k in here.used)),
        ("bouts", view.rule.words),
    ]
    if here.expert is not None:
        facts.append(("expert's labels", ", ".join(label_words(view.data, here.expert))))
    lab.offer(
        view,
        here,
        rows_of,
        {
            "States over time": lambda: strips(view, here),
            "Shares of each state": lambda: with_key(state_figures.proportions(here), key),
            "Use of each state": lambda: state_figures.usage(here),
            "Stays": lambda: state_figures.dwell(here),
            **transitions(here, here.used),
        },
        facts=facts,
        after=after_fit(view, here.naming),
        names=here.names,
        files=lambda index: files(replace(view, look=view.exact_look), index),
        title_of=view.data.title,
    )


def files(view: View, index: int) -> list[File]:
    """States, bouts and features of one trial, named and merged as on the page."""
    data, at = view.data, view.at(index).read()
    words = () if at.expert is None else label_words(data, at.expert)
    return [
        ("States (CSV)", lambda: exports.csv(named_states(at, words)), "states.csv"),
        ("States (Parquet)", lambda: exports.parquet(named_states(at, words)), "states.parquet"),
        (
            "Bouts (CSV, as in BORIS)",
            lambda: exports.csv(bouts_of(at, data.observation(at.trial), data.subject)),
            "bouts.csv",
        ),
        ("Key (CSV)", lambda: exports.csv(key_of(at)), "key.csv"),
        ("Features (CSV)", lambda: exports.csv(features_of(at.trial)), "features.csv"),
    ]


def label_words(data: Data, labels: npt.NDArray[np.int64]) -> list[str]:
    """A name for each of the expert's labels, also for those that the data give none."""
    words = list(data.label_names)
    return words + [f"behaviour {k + 1}" for k in range(len(words), int(labels.max(initial=-1)) + 1)]


def named_states(here: Here, words: Sequence[str] = ()) -> pd.DataFrame:
    """time, p_1 .. p_K, state, entropy, the name of the bout at each moment, and what the expert called it.

    words   the expert's names, of which `expert_code` is the place; empty and -1 where nothing was marked. Columns that a
            merger left empty are left out.
    """
    assert here.states is not None
    assert here.bouts is not None
    kept = here.used
    table = exports.states_table(here.states[:, kept], here.trial)
    table.insert(1, "frame", first_frame(here.trial) + np.arange(len(table)))
    table["bout"] = [here.names[k] for k in here.bouts]
    if (expert := here.expert) is not None:
        table["expert"] = [words[z] if 0 <= z < len(words) else "" for z in expert]
        table["expert_code"] = expert
    # Numbers are those of the states on the page: after a merger there may be p_1 and p_3 alone.
    numbers = [here.naming.numbers[column] for column in kept]
    table["state"] = np.array(numbers)[table["state"] - 1]
    return table.rename(columns={f"p_{j + 1}": f"p_{number}" for j, number in enumerate(numbers)})


def first_frame(trial: Trial) -> int:
    """Which frame of the recording a trial begins with, counted from 0."""
    return round(trial.start_seconds * trial.rate_hz)


def key_of(here: Here) -> pd.DataFrame:
    """Which column of the states is which state, under which name and in which colour."""
    colours = palette.colours(len(here.names))
    rows = [
        {
            "column": f"p_{here.naming.numbers[c]}",
            "state": here.naming.numbers[c],
            "name": here.names[c],
            "colour": colours[c],
        }
        for c in here.used
    ]
    return pd.DataFrame(rows)


def bouts_of(here: Here, observation: str = "", subject: str = "") -> pd.DataFrame:
    """One row a bout, in the columns of BORIS: bouts as shown, with the mean share of their state, and in frames.

    observation  what is called so in BORIS: the recording, also where the trial is a part of it
    """
    assert here.states is not None
    assert here.bouts is not None
    hot = np.asarray(figures.one_hot(here.bouts, len(here.names)), np.float32)
    table = exports.bouts_table(hot, here.trial, here.names)
    starts = np.flatnonzero(np.diff(here.bouts, prepend=-1))
    stops = np.append(starts[1:], len(here.bouts))
    state = here.bouts[starts]
    total = np.concatenate([np.zeros((1, hot.shape[1])), np.cumsum(here.states, axis=0, dtype=np.float64)])
    table["Mean share"] = ((total[stops, state] - total[starts, state]) / (stops - starts)).round(4)
    table["Observation id"], table["Subject"] = observation or here.trial.name, subject or NO_SUBJECT
    table["FPS"] = here.trial.rate_hz
    table["Image index start"] = first_frame(here.trial) + starts
    table["Image index stop"] = first_frame(here.trial) + stops
    return table


def features_of(trial: Trial) -> pd.DataFrame:
    """time and every channel that the model saw."""
    table = pd.DataFrame(trial.y, columns=list(trial.channels))
    table.insert(0, "time", trial.seconds)
    return table


def strips(view: View, here: Here) -> Figure:
    """The expert's labels, bouts and states over the recording's clock, with the names of all colours."""
    assert here.states is not None
    assert here.bouts is not None
    rows: dict[str, npt.NDArray[np.float32]] = {}
    key = {}
    if (expert := here.expert) is not None and (words := view.data.words) is not None:
        rows["expert"] = words.hot(expert)
        key["expert"] = exports.legend.states(len(words.names), words.names)
    rows |= {"bouts": figures.one_hot(here.bouts, len(here.names)), "states": here.states}
    key["states"] = exports.legend.states(len(here.names), here.names, here.used)
    figure = figures.state_strips(rows, start=here.start, step=here.step, unit=here.unit.name)
    return exports.legend.with_key(figure, key)


def transitions(here: Here, used: Sequence[int]) -> dict[str, Callable[[], Figure]]:
    """What follows what, as a graph and in numbers."""
    states, bouts = here.states, here.bouts
    assert states is not None
    assert bouts is not None
    visited = [k for k in used if (bouts == k).any()]
    matrix = transition_shares(bouts, len(here.names))
    return {
        "What follows what": lambda: analysis_figures.transition_graph(
            matrix, np.nanmean(states, axis=0), here.names, visited
        ),
        "What follows what, in numbers": lambda: figures.transition_matrix(
            matrix[np.ix_(visited, visited)],
            names=[here.names[k] for k in visited],
            caption="Among the bouts of the row that end, the share that goes to each column. Rows add up to 100 %.",
        ),
    }


def after_fit(view: View, naming: Naming) -> list[str]:
    """How the script names, merges and cuts states into bouts as the page does, those of all trials written down."""
    rule, data = view.rule, view.data
    starts = [trial.start_seconds for trial in data.trials]
    return [
        "import pandas as pd",
        "",
        "from gdm_core.analysis.bouts import BoutRule",
        "",
        *naming.code(),
        f"rule = BoutRule(smooth_s={rule.smooth_s!r}, shortest_s={rule.shortest_s!r})  # how the page reads bouts",
        f"rate_hz = {data.train[0].rate_hz!r}",
        f"titles = {[data.observation(trial) for trial in data.trials]!r}",
        f"subject = {data.subject or NO_SUBJECT!r}",
        f"starts = {starts!r}  # in seconds, on the recording's clock"
        if any(starts)
        else "starts = [0.0] * len(titles)",
        "rows = []",
        "for title, start, soft in zip(titles, starts, [*named, *new_named]):",
        "    bouts = rule.labels(soft, rate_hz)  # a column of `named` at each moment",
        "    edges = [*np.flatnonzero(np.diff(bouts, prepend=-1)), len(bouts)]",
        "    frame = round(start * rate_hz)",
        "    for first, stop in zip(edges, edges[1:]):",
        "        k = bouts[first]",
        "        rows.append({",
        '            "Observation id": title, "Subject": subject, "Behavior": names[k],',
        '            "Behavioral category": "soft state", "Behavior type": "STATE",',
        '            "Start (s)": start + first / rate_hz, "Stop (s)": start + stop / rate_hz,',
        '            "Duration (s)": (stop - first) / rate_hz, "Mean share": round(float(soft[first:stop, k].mean()), 4),',
        '            "Comment start": "", "Comment stop": "", "FPS": rate_hz,',
        '            "Image index start": frame + first, "Image index stop": frame + stop,',
        "        })",
        'pd.DataFrame(rows).to_csv("bouts.csv", index=False)',
    ]
