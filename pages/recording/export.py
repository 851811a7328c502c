"""What to take along: named states, bouts and features beside the panel that all pages share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.bouts import transition_shares
from gdm_core.analysis.tables import bouts_table, csv, first_frame, states_table
from pages import lab
from pages.lab.card import Rows
from pages.lab.export import File
from pages.recording import analysis_figures, state_figures
from pages.recording.data import Data
from pages.recording.naming import Naming
from pages.recording.teach import lessons
from pages.recording.teach.taught_fit import SWITCH, ready
from pages.recording.units import rule_words
from pages.recording.view import Here, View
from pages.ui import exports, figures, palette, shell
from pages.ui.figures.base import Figure


def panel(view: View, rows_of: Rows) -> None:
    """Everything that the page shows, as files."""
    view = view.for_files
    here = view.read()
    assert here.states is not None
    key = {"states": exports.legend.states(len(here.names), here.names, here.used)}
    with_key = exports.legend.with_key
    facts = [
        ("data", view.data.about),
        ("names", ", ".join(here.names[k] for k in here.used)),
        ("bouts", rule_words(view.rule, view.data.unit)),
    ]
    taught: list[str] = []
    if (fit := view.with_words) is not None:
        facts.append(("taught", f"{len(fit.marks.words)} words: {', '.join(fit.marks.words)}"))
        taught = [*lessons.marks_code(fit.marks), lessons.teaching_code("model")]
    elif lessons.marks_of(view.data).marks:
        shell.quiet(
            f"These files are of the fit without your words; {SWITCH}, above, takes those of the one that was taught."
        )
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
        files=lambda index: files(view, index),
        title_of=view.data.title,
        taught=taught,
    )


def files(view: View, index: int) -> list[File]:
    """States, bouts and features of one trial, named and merged as on the page."""
    data, at = view.data, view.at(index).read()
    words = () if at.expert is None else label_words(data, at.expert)
    return [
        ("States (CSV)", lambda: csv(named_states(at, words)), "states.csv"),
        ("States (Parquet)", lambda: exports.parquet(named_states(at, words)), "states.parquet"),
        (
            "Bouts (CSV, as in BORIS)",
            lambda: csv(bouts_of(at, data.observation(at.trial), data.subject)),
            "bouts.csv",
        ),
        ("Key (CSV)", lambda: csv(key_of(at)), "key.csv"),
        ("Features (CSV)", lambda: csv(features_of(at)), "features.csv"),
    ]


def label_words(data: Data, labels: npt.NDArray[np.int64]) -> list[str]:
    """A name for each of the expert's labels, also for those that the data give none."""
    words = list(data.label_names)
    return words + [f"behaviour {k + 1}" for k in range(len(words), int(labels.max(initial=-1)) + 1)]


def named_states(here: Here, words: Sequence[str] = ()) -> pd.DataFrame:
    """time, frame, p_1 .. p_K, state, entropy, the name of the bout at each moment, and what the expert called it.

    words   the expert's names, of which `expert_code` is the place; empty and -1 where nothing was marked. Columns that a
            merger left empty are left out.
    """
    assert here.states is not None
    assert here.bouts is not None
    kept = here.used
    table = _timed(states_table(here.states[:, kept], here.trial), here)
    table["bout"] = [here.names[k] for k in here.bouts]
    if (expert := here.expert) is not None:
        table["expert"] = [words[z] if 0 <= z < len(words) else "" for z in expert]
        table["expert_code"] = expert
    # Numbers are those of the states on the page: after a merger there may be p_1 and p_3 alone.
    numbers = [here.naming.numbers[column] for column in kept]
    table["state"] = np.array(numbers)[table["state"] - 1]
    return table.rename(columns={f"p_{j + 1}": f"p_{number}" for j, number in enumerate(numbers)})


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
    """One row a bout as shown, in the columns of BORIS.

    observation  what is called so in BORIS: the recording, also where the trial is a part of it
    """
    assert here.states is not None
    named = {"observation": observation, "subject": subject, "unit": here.counted}
    return bouts_table(here.states, here.trial, here.names, bouts=here.bouts, **named)


def features_of(here: Here) -> pd.DataFrame:
    """Time, frame, and every channel that the model saw."""
    return _timed(pd.DataFrame(here.trial.y, columns=list(here.trial.channels)), here)


def _timed(table: pd.DataFrame, here: Here) -> pd.DataFrame:
    """The table with frames after its time, which is left out where nobody said how long a frame takes."""
    made = table.drop(columns="time", errors="ignore")
    made.insert(0, "frame", first_frame(here.trial) + np.arange(len(table)))
    if here.counted == "s":
        made.insert(0, "time", here.trial.seconds)
    return made


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


def _words_code(view: View) -> list[str]:
    """How the script names moments: by the fit that it made already, or by one that it teaches besides."""
    if view.with_words is not None:
        return ["", *lessons.words_code("model")]
    return lessons.code(view.data, len(view.shown.order)) if ready(view) else []


SCORES = ("macro_f1", "balanced_accuracy", "paper_accuracy")


def after_fit(view: View, naming: Naming) -> list[str]:
    """How the script names, merges and cuts states into bouts as the page does, and scores them against the labels."""
    rule, data = view.rule, view.data
    return [
        "from pathlib import Path",
        "",
        "import pandas as pd",
        "",
        "from gdm_core.analysis import bout_scores",
        "from gdm_core.analysis.bouts import BoutRule",
        "from gdm_core.analysis.tables import bouts_table, csv",
        "",
        *naming.code(),
        f"rule = BoutRule(smooth_s={rule.smooth_s!r}, shortest_s={rule.shortest_s!r})  # how the page reads bouts",
        f"titles = {[data.observation(trial) for trial in data.trials]!r}",
        "rows = [",
        f"    bouts_table(soft, trial, names, bouts=rule.labels(soft, trial.rate_hz), observation=title, "
        f"subject={data.subject!r}, unit={data.unit!r})",
        "    for title, soft, trial in zip(titles, [*named, *new_named], [*train, *test])",
        "]",
        'Path("bouts.csv").write_bytes(csv(pd.concat(rows, ignore_index=True)))',
        "scores = bout_scores.scores(model.to_bytes(), train, test, rule.smooth_s, rule.shortest_s, model.config.seed)",
        f"for name in {SCORES!r}:",
        "    if name in scores:  # the trials have labels; states stand for what they mostly were in the fitted ones",
        '        print(f"{name}: {scores[name]:.3f}")',
        *_words_code(view),
    ]
