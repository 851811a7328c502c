"""Each table and figure, beside the paper's numbers: drawn from the fits that are stored, or from those of a run anew that one
watches, which are kept like all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis import comparisons
from gdm_core.analysis.comparisons import Cell
from gdm_core.analysis.envelopes import SPREADS
from gdm_core.analysis.segments import composition
from gdm_core.engine.compare import Compared, CompareJob
from gdm_core.text import format_mean_sd
from gdm_core.trials import UNLABELLED, Trials, labels_of
from gdm_studio import paper
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure
from pages.lab import live
from pages.lab.fit import open_on
from pages.lab.live import panels
from pages.lab.live.background import Fits, visitor_jobs
from pages.paper import numbers
from pages.ui import navigation, shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

LAPS_SHOWN = 3
OPEN = {"formula1": "formula1", "mice": "behaviour"}  # experiments that can be run on what is open on another page


def own(name: str, n_seeds: int) -> paper.Experiment | None:
    """The experiment on the visitor's own data, if they choose so: what they have open on the page that has such data."""
    page = OPEN.get(name)
    if page is None:
        return None
    offered = {"shipped": "What ships", "open": f"What is open on {navigation.info(page).title}"}
    chosen = one_of("Run it on", offered, tall=True, key="on", of=name)
    setting = open_on(page) if chosen == "open" else None
    if setting is None:
        return None
    data = setting.dataset
    return paper.with_data(name, data.train, data.test, n_seeds, data.keep)


# ---- run anew -------------------------------------------------------------------------------------------------------
def running(name: str) -> Fits | None:
    """Return the run of this experiment that the visitor has started, if any."""
    fits: Fits | None = visitor_jobs().find(("paper", name))
    return fits


def start(experiment: paper.Experiment) -> None:
    """Run an experiment; the visitor's earlier run ends."""
    engine, visitor = panels.engine(), f"{live.visitor()}/paper"
    visitor_jobs().end("paper")
    jobs = {str(i): CompareJob(one, engine, visitor) for i, one in enumerate(experiment.comparisons)}
    visitor_jobs().get(("paper", experiment.name), lambda: Fits(jobs))


# ---- what is drawn --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Material:
    """What a panel is drawn from: what is stored, and of the experiment that is asked for what has come in, if anything."""

    stored: paper.StoredResults
    asked: paper.Experiment
    setting: str
    anew: list[Compared]

    def _is_asked(self, experiment: str) -> bool:
        return bool(self.anew) and self.asked.name in (experiment, f"{experiment}/open")

    def cells(self, experiment: str) -> dict[str, list[Cell]]:
        """Every fit of an experiment by its setting: those made anew, once there are any, else those stored."""
        anew = [one.cells for one in self.anew] if self._is_asked(experiment) else None
        made: dict[str, list[Cell]] = {}
        for one in self.stored.cells.get(experiment, []) if anew is None else anew:
            for label, by_seed in one.items():
                made.setdefault(label, []).extend(by_seed.values())
        return made

    def lines(self, experiment: str) -> dict[str, Cell]:
        """What has to be beaten on the same data."""
        return self.anew[0].baselines if self._is_asked(experiment) else self.stored.lines.get(experiment, {})

    def test(self, experiment: str) -> Trials:
        """The new trials of what is drawn."""
        asked = self.asked if self._is_asked(experiment) else paper.experiment(experiment, 1)
        return asked.comparisons[0].test

    def shown(self, experiment: str, label: str) -> Cell | None:
        """A fit whose states can be drawn."""
        return next((cell for cell in self.cells(experiment).get(label, []) if len(cell.states)), None)


def spread(cells: Sequence[Cell], score: str, digits: int = 3) -> str:
    """Mean and standard deviation over fits, as it is printed."""
    return format_mean_sd([cell.scores[score] for cell in cells if score in cell.scores], digits)


# ---- Table 1 --------------------------------------------------------------------------------------------------------
def table(material: Material) -> None:
    """Inferred state accuracy: the paper's, its released code's, and ours under both protocols."""
    setting = material.setting
    ours = {protocol: material.cells(f"table/{setting}/{protocol}") for protocol in paper.PROTOCOLS}
    rows = {}
    for label in [*paper.TABLE_1, "GDM, untrained"]:
        blank = label.endswith("untrained")
        score = "untrained.paper_accuracy" if blank else "paper_accuracy"
        source = label.split(",")[0]
        rows[label] = {
            "paper": numbers.PAPER[setting].get(label, ""),
            "released code": numbers.RELEASED[setting].get(label, ""),
            "ours, paper's protocol": spread(ours["paper"].get(source, []), score),
            "ours, fair": spread(ours["fair"].get(source, []), score),
            "ours, fair, one to one": spread(ours["fair"].get(source, []), score.replace("paper", "matched")),
        }
    lines = material.stored.lines.get(f"table/{setting}/paper", {})
    for name in ("k-means on steps", "majority class"):
        if name in lines:
            rows[name] = {"ours, paper's protocol": spread([lines[name]], "paper_accuracy")}
    _show_table(with_best(rows))
    shell.quiet(
        "Mean ± standard deviation over seeds; the best of each column in bold, a dash where nothing was measured. The first four "
        "columns are the paper's measure: ten nearest neighbours from states to labels. One to one: each state is one true state, "
        "matched on the fitted trial."
    )


def with_best(rows: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The same with the best number of each column in bold, all of them where several are printed alike."""
    found = {column: [values[column].split(" ")[0] for values in rows.values() if values.get(column)]
             for values in rows.values() for column in values}  # fmt: skip
    best = {column: max(numbers, key=float) for column, numbers in found.items() if numbers}
    return {
        label: {
            column: f"**{text}**" if text and text.split(" ")[0] == best[column] else text
            for column, text in values.items()
        }
        for label, values in rows.items()
    }


def _show_table(rows: Mapping[str, Mapping[str, str]]) -> None:
    """A dash stands where there is no number."""
    table = pd.DataFrame.from_dict(dict(rows), orient="index").fillna("").replace("", "–")
    st.table(table, border="horizontal")


# ---- Figure 2 -------------------------------------------------------------------------------------------------------
def nascar(material: Material) -> None:
    """True states, those of GDM and p-dLDS, and ranges one step ahead."""
    experiment = f"table/{material.setting}/paper"
    test = material.test(experiment)
    trial = test[0]
    assert trial.states is not None
    assert trial.position is not None
    truth = np.asarray(trial.states, np.float32)
    rows = {"true": truth}
    for label in ("GDM", "p-dLDS"):
        cell = material.shown(experiment, label)
        if cell is not None:
            rows[label] = comparisons.match_columns(cell.states, truth)
    for place, (label, states) in zip(st.columns(len(rows), gap="small"), rows.items(), strict=True):
        with place:
            plot(
                figures.track(trial.position, states, title=label, height=210, width=3.0, caption=""),
                key=f"paper-{label}",
            )
    plot(figures.state_strips(rows, height=50 + 40 * len(rows)), key="paper-strips")
    found = material.stored.ranges.get(material.setting)
    if found is not None:
        plot(_ranges(found), key="paper-ranges")


def _ranges(found: Mapping[str, Any]) -> Figure:
    mean, wide = (np.asarray(found[name], np.float32) for name in ("mean", "spread"))
    time = np.arange(len(mean)) + found["from"]
    held = 100 * found["held"]
    seen = np.array(found["observed"], np.float32)  # NaN where there is none
    return figures.envelope(
        time,
        mean,
        band90=(mean - SPREADS * wide, mean + SPREADS * wide),
        observed=(time, seen),
        channel="first channel",
        height=240,
        caption=f"One step ahead in the first channel, three standard deviations to either side: {held:.1f} % of outcomes lie "
        "inside (a Gaussian would hold 99.7 %).",
    )


# ---- Figure 3 -------------------------------------------------------------------------------------------------------
def formula1(material: Material) -> None:
    """Accuracy against K for GDM and rSLDS, with untrained ones, and what both find at K = 8."""
    cells, k = material.cells("formula1"), np.array(paper.STATES)
    n_seeds = max((len(found) for found in cells.values()), default=1)
    curves = {}
    for model in ("GDM", "rSLDS (RO)"):
        for name, score in ((model, "paper_accuracy"), (f"{model}, untrained", "untrained.paper_accuracy")):
            values = np.full((len(k), n_seeds), np.nan, np.float32)
            for i, states in enumerate(paper.STATES):
                known = [cell.scores[score] for cell in cells.get(f"{model}, K = {states}", []) if score in cell.scores]
                values[i, : len(known)] = known
            curves[name] = values
    there = np.any([np.isfinite(v).any(axis=1) for v in curves.values()], axis=0)
    curves = {name: v[there] for name, v in curves.items() if np.isfinite(v[there]).any(axis=1).all()}
    if not curves:
        shell.empty("The first fits are under way", "The curves begin once every model has a fit of some K.")
        return
    lines = {
        name: float(cell.scores["paper_accuracy"])
        for name, cell in material.lines("formula1").items()
        if name in ("majority class", "10-NN on position")
    }
    plot(
        figures.sweep(k[there], curves, lines=lines, score_name="inferred state accuracy", height=320),
        key="paper-against-k",
    )
    shell.quiet(f"The released code's notebooks, on a real race: {numbers.RELEASED_F1}.")
    test = material.test("formula1")
    if any(trial.position is None for trial in test):
        return
    position = np.concatenate([np.asarray(trial.position) for trial in test])
    shown = {
        model: cell
        for model in ("GDM", "rSLDS (RO)")
        if (cell := material.shown("formula1", f"{model}, K = {paper.SHOWN_STATES}")) is not None
    }
    for place, (model, cell) in zip(st.columns(2, gap="small"), shown.items(), strict=False):
        with place:
            title = f"{model}, K = {paper.SHOWN_STATES}"
            made = figures.track(position[:: cell.stride], cell.states, title=title, height=260, caption="")
            plot(made, key=f"paper-f1-{model}")
    _by_segment(test, shown)


def _by_segment(test: Trials, cells: Mapping[str, Cell]) -> None:
    """Which states each segment is made of, by the paper's rule: more than 1 % of the weight in more than 20 % of its samples."""
    labels = np.concatenate(labels_of(test))
    columns = {}
    for model, cell in cells.items():
        segment = labels[:: cell.stride]
        there = segment != UNLABELLED
        if there.any():
            parts = composition(cell.states[there], segment[there], int(segment.max()) + 1)
            columns[model] = [" ".join(f"S{part.state + 1}" for part in found if part.main) for found in parts]
    if columns:
        with st.expander("States of each segment, the most present first"):
            names = [f"segment {number + 1}" for number in range(len(next(iter(columns.values()))))]
            st.table(pd.DataFrame(columns, index=names), border="horizontal")


def usage(material: Material) -> None:
    """All states over the first three laps, and how much each is used."""
    cell = material.shown("formula1", f"GDM, K = {paper.SHOWN_STATES}")
    if cell is None:
        shell.empty("Not fitted yet", f"This shows the GDM with K = {paper.SHOWN_STATES} once it is there.")
        return
    test = material.test("formula1")
    laps = np.concatenate([np.zeros(t.n_samples) if t.segments is None else np.asarray(t.segments) for t in test])
    first = np.isin(laps, np.unique(laps)[:LAPS_SHOWN])[:: cell.stride]
    step = cell.stride / test[0].rate_hz
    plot(figures.proportions(cell.states[first], step=step, unit="s"), key="paper-usage-time")
    plot(figures.usage(cell.states), key="paper-usage")


# ---- Figure 4 -------------------------------------------------------------------------------------------------------
def mice(material: Material) -> None:
    """Smoothed R2 and accuracy: the authors' on CalMS21, ours on simulated mice, and how to get the recordings."""
    theirs = {
        name: {"R², fitted trials": r_train, "R², new trials": r_test, "state accuracy": accuracy, "on": "CalMS21"}
        for name, (r_train, r_test, accuracy) in numbers.CALMS21.items()
    }
    cells = material.cells("mice")
    where = material.test("mice").name if material.anew else "simulated mice"
    ours = {
        f"{label}, ours": {
            "R², fitted trials": spread(found, "smoothed_r2_train", 2),
            "R², new trials": spread(found, "smoothed_r2_test", 2),
            "state accuracy": spread(found, "paper_accuracy"),
            "on": where,
        }
        for label, found in cells.items()
    }
    lines = material.lines("mice")
    if "majority class" in lines:
        ours["majority class, ours"] = {
            "state accuracy": spread([lines["majority class"]], "paper_accuracy"),
            "on": where,
        }
    _show_table(theirs | ours)
    _by_trial(material.test("mice"), cells)
    shown = {label: cell for label in cells if (cell := material.shown("mice", label)) is not None}
    _beside_the_expert(material.test("mice"), shown)
    shell.quiet(
        "The CalMS21 recordings cannot ship with the app. Put task1_classic_classification.zip, from the dataset's own page, into "
        "the data folder, open it on Behaviour, and run this on what is open there."
    )


def _by_trial(test: Trials, cells: Mapping[str, Sequence[Cell]]) -> None:
    """How far the states of each new trial agree with its labels, every fit a dot; a state stands for one behaviour."""
    owner = np.repeat(np.arange(len(test)), [trial.n_samples for trial in test])
    of_block = np.array([owner[block[0]] for block in comparisons.split_blocks(test)])
    curves = {}
    for label, found in cells.items():
        values = np.array([cell.blocks["states"] for cell in found if "states" in cell.blocks])  # [seeds, blocks]
        if len(values):
            curves[label] = np.stack([np.nanmean(values[:, of_block == i], axis=1) for i in range(len(test))])
    if curves and len(test) > 1:
        plot(
            figures.sweep(
                np.arange(1, len(test) + 1),
                curves,
                setting_name="new trial",
                score_name="agrees with the labels",
                height=220,
                joined=False,
                caption="Each small dot is one fit, the large one their mean, its line one standard deviation.",
            ),
            key="paper-by-trial",
        )


def _beside_the_expert(test: Trials, cells: dict[str, Cell]) -> None:
    """States of the new trials below what a simulated expert says of them."""
    if not cells:
        return
    stride = next(iter(cells.values())).stride
    said = np.concatenate(labels_of(test))[::stride]
    truth = figures.one_hot(said, int(said.max()) + 1)
    rows = {"expert": truth} | {
        label: comparisons.match_columns(cell.states, np.nan_to_num(truth)) for label, cell in cells.items()
    }
    made = figures.state_strips(rows, step=stride / test[0].rate_hz, unit="s", height=50 + 44 * len(rows))
    plot(made, key="paper-mice-strips")


# ---- what to make of it ---------------------------------------------------------------------------------------------
def say_why_numbers_differ(name: str) -> None:
    """Why the numbers differ, in a few sentences."""
    st.html('<p class="gdm-panel-title">What to make of it</p>')
    for text in numbers.SENTENCES[name]:
        st.html(f"<p>{text}</p>")
