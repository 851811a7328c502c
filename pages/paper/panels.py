"""Panels of the Paper page, drawn from stored results or from a rerun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from gdm_core.analysis import comparisons
from gdm_core.analysis.comparisons import Cell
from gdm_core.analysis.envelopes import SPREADS
from gdm_core.analysis.matching import share_columns, to_columns
from gdm_core.analysis.segments import composition
from gdm_core.analysis.state_scores import majority_map
from gdm_core.engine.compare import Compared
from gdm_core.engine.job import Bulk, BulkView
from gdm_core.text import format_mean_sd
from gdm_core.trials import UNLABELLED, Trials, labels_of
from gdm_studio import paper
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import INK, Dict, Figure, axis, figure, key_above, points, typed
from pages.lab import live
from pages.lab.live import panels, require_open_fit
from pages.lab.live.background import visitor_jobs
from pages.paper import numbers
from pages.ui import navigation, settings, shell
from pages.ui.controls import one_of
from pages.ui.exports import slug
from pages.ui.plot import plot

LAPS_SHOWN = 3
HOLLOW = {"color": "$surface", "line": {"color": "$muted", "width": 2}}
OPEN = {"formula1": "formula1", "mice": "behaviour"}  # experiments that can run on the data of another page
REAL = {"formula1": "Chinese Grand Prix, winner and fifth", "mice": "CalMS21"}
SIMULATED = {"formula1": "Simulated laps", "mice": "Simulated mice"}


def choose_data(name: str, n_seeds: int) -> paper.Experiment | None:
    """Return the experiment on the data of another page if the user chooses so."""
    page = OPEN.get(name)
    if page is None:
        return None
    options = {"shipped": "Bundled", "open": f"Current {navigation.info(page).title} session"}
    chosen = one_of("Data", options, tall=True, key=settings.key("on", name))
    setting = require_open_fit(page) if chosen == "open" else None
    if setting is None:
        return None
    data = setting.dataset
    return paper.with_data(name, data.train, data.test, n_seeds, data.keep)


# ---- reruns ---------------------------------------------------------------------------------------------------------
def find_run(name: str) -> Bulk[list[Compared]] | None:
    """Return the user's rerun of an experiment, if any."""
    run: Bulk[list[Compared]] | None = visitor_jobs().find(("paper", name))
    return run


def start(experiment: paper.Experiment) -> None:
    """Run an experiment, and end the user's previous run."""
    engine, visitor = panels.engine(), f"{live.visitor()}/paper"
    visitor_jobs().end("paper")
    jobs = {name: job for one in experiment.comparisons for name, job in one.start(engine, visitor).jobs.items()}

    def collect(view: BulkView) -> list[Compared]:
        return [one.collect(view) for one in experiment.comparisons]

    visitor_jobs().get(("paper", experiment.name), lambda: Bulk(jobs, collect))


@dataclass(frozen=True, eq=False)
class Material:
    """Stored results, the results of a rerun so far, and what the panel shows of them, for export."""

    stored: paper.StoredResults
    request: paper.Experiment
    setting: str
    rerun: list[Compared]
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    def draw(self, figure: Figure, key: str) -> None:
        """Draw a figure and keep it for export."""
        self.figures[slug(key.removeprefix("paper-"))] = figure
        plot(figure, key=key)

    def show_table(self, table: pd.DataFrame, name: str) -> None:
        """Show a table and keep it for export."""
        self.tables[name] = table
        st.table(table.rename_axis("model"), border="horizontal")

    def _is_rerun(self, experiment: str) -> bool:
        return bool(self.rerun) and self.request.name in (experiment, f"{experiment}/open")

    def cells(self, experiment: str) -> dict[str, list[Cell]]:
        """Return the fits of each setting, of the rerun if there is one."""
        rerun = [one.cells for one in self.rerun] if self._is_rerun(experiment) else None
        found: dict[str, list[Cell]] = {}
        for one in self.stored.cells.get(experiment, []) if rerun is None else rerun:
            for label, by_seed in one.items():
                found.setdefault(label, []).extend(by_seed.values())
        return found

    def baselines(self, experiment: str) -> dict[str, Cell]:
        """Return the baselines on the same data."""
        return self.rerun[0].baselines if self._is_rerun(experiment) else self.stored.lines.get(experiment, {})

    def test(self, experiment: str) -> Trials:
        """Return the held-out trials."""
        request = self.request if self._is_rerun(experiment) else paper.experiment(experiment, 1)
        return request.comparisons[0].test

    def find_fit(self, experiment: str, label: str) -> Cell | None:
        """Return a fit with states to draw."""
        return next((cell for cell in self.cells(experiment).get(label, []) if len(cell.states)), None)

    def data_name(self, experiment: str) -> str:
        """Return a name of the data for captions."""
        kind, *rest = experiment.split("/")
        if self._is_rerun(experiment):
            return str(self.test(experiment).name)
        return REAL[kind] if rest else SIMULATED[kind]


def format_score(cells: Sequence[Cell], score: str, digits: int = 3) -> str:
    """Return mean ± standard deviation of a score over fits."""
    return format_mean_sd([cell.scores[score] for cell in cells if score in cell.scores], digits)


# ---- Table 1 --------------------------------------------------------------------------------------------------------
def table(material: Material) -> None:
    """Show state accuracy: the paper's, its released code's, and ours."""
    setting = material.setting
    ours = {protocol: material.cells(f"table/{setting}/{protocol}") for protocol in paper.PROTOCOLS}
    rows = {}
    for label in [*paper.TABLE_1, "GDM, untrained"]:
        score = "untrained.paper_accuracy" if label.endswith("untrained") else "paper_accuracy"
        ours_here, new = (ours[protocol].get(label.split(",")[0], []) for protocol in paper.PROTOCOLS)
        rows[label] = {
            "paper": numbers.PAPER[setting].get(label, ""),
            "released code": numbers.RELEASED[setting].get(label, ""),
            "ours": format_score(ours_here, score),
            "ours, new tracks": format_score(new, score),
            "new tracks, matched accuracy": format_score(new, score.replace("paper", "matched")),
        }
    lines = material.stored.lines.get(f"table/{setting}/paper", {})
    for name in ("k-means on steps", "majority class"):
        if name in lines:
            rows[name] = {"ours": format_score([lines[name]], "paper_accuracy")}
    if accuracies := draw_accuracies(ours["fair"]):
        material.draw(accuracies, "paper-accuracies")
    material.show_table(mark_best(_tabulate(rows)), "states")
    shell.quiet("10-NN accuracy (paper's metric), mean ± SD over seeds. The last column matches states to labels.")
    with st.expander("Held-out R² without retraining"):
        _show_reconstructions(material, ours)


def draw_accuracies(fits: Mapping[str, Sequence[Cell]]) -> Figure | None:
    """Draw both accuracies of each model, trained next to untrained; None without fits."""
    names = [name for name in paper.TABLE_1 if fits.get(name)]
    traces: list[Dict] = []
    kinds: dict[str, tuple[str, Dict]] = {"trained": ("", {"color": "$accent"}), "untrained": ("untrained.", HOLLOW)}
    for number, score in enumerate(("paper_accuracy", "matched_accuracy")):
        for words, (prefix, look) in kinds.items():
            full = prefix + score
            known = {name: [c.scores[full] for c in fits[name] if full in c.scores] for name in names}
            rows = [name for name in names if known[name]]
            mean, spread = ([float(f(known[name])) for name in rows] for f in (np.mean, np.std))
            bars: Dict = {"array": typed(spread), "color": "$muted", "thickness": 1.2, "width": 0}
            place: Dict = {"y": rows, "xaxis": f"x{number + 1}" if number else "x", "name": words}
            key: Dict = {"showlegend": number == 0, "marker": {"size": 9, **look}, "error_x": bars}
            hover = f"%{{y}}, {words}: %{{x:.3f}}"
            traces.append(points("markers", mean, (), hover) | place | key)
    if not names:
        return None
    below: Dict = {"range": [0, 1.02], "fixedrange": True, "dtick": 0.5}
    across = axis("10-NN accuracy (paper)", domain=[0, 0.48], **below)
    other = axis("matched accuracy", domain=[0.52, 1], **below)
    down = axis(type="category", categoryorder="array", categoryarray=names[::-1], fixedrange=True, tickfont=INK)
    caption = "New tracks, mean ± SD over fits. An untrained model should score low: matched accuracy tells them apart."
    alt = f"Accuracy of {', '.join(names)}, trained and untrained."
    axes: Dict = {"xaxis": across, "xaxis2": other, "yaxis": down}
    return figure(traces, caption, alt, 84 + 26 * len(names), **key_above(), **axes)


def _show_reconstructions(material: Material, ours: Mapping[str, Mapping[str, Sequence[Cell]]]) -> None:
    """Show the held-out R² of reconstructions without retraining."""
    columns = {"states of the held-out trial": "smoothed_r2_test", "states of the training trial": "smoothed_r2_kept"}
    protocols = {"paper": "paper's protocol", "fair": "new tracks"}
    rows = {
        label: {
            f"R², {states}, {words}": format_score(ours[protocol].get(label, []), score, 3)
            for protocol, words in protocols.items()
            for states, score in columns.items()
        }
        for label in paper.TABLE_1
    }
    material.show_table(_tabulate(rows), "reconstruction")
    shell.quiet("The paper reports 0.8 for the models it compares with, and near 1 for the GDM.")


def mark_best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the best values of each column in bold."""
    values = table.apply(lambda column: pd.to_numeric(column.str.split(" ").str[0], errors="coerce"))
    return table.mask(values == values.max(), "**" + table + "**")


def _tabulate(rows: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(dict(rows), orient="index").fillna("").replace("", "–")


# ---- Figure 2 -------------------------------------------------------------------------------------------------------
def nascar(material: Material) -> None:
    """Draw true and inferred states, and prediction intervals of the next sample."""
    experiment = f"table/{material.setting}/paper"
    trial = material.test(experiment)[0]
    assert trial.states is not None
    assert trial.position is not None
    truth = np.asarray(trial.states, np.float32)
    rows = {"true": truth}
    for label in ("GDM", "p-dLDS"):
        cell = material.find_fit(experiment, label)
        if cell is not None:
            n_states = cell.states.shape[1]
            rows[label] = to_columns(cell.states, share_columns([truth, cell.states], n_states)[1], n_states)
    for place, (label, states) in zip(st.columns(len(rows), gap="small"), rows.items(), strict=True):
        with place:
            title = "Ground truth" if states is truth else label
            drawn = figures.track(trial.position, states, title=title, height=210, width=3.0, caption="")
            material.draw(drawn, f"paper-{label}")
    material.draw(figures.state_strips(rows, height=50 + 40 * len(rows)), "paper-strips")
    found = material.stored.ranges.get(material.setting)
    if found is not None:
        material.draw(_draw_ranges(found), "paper-ranges")


def _draw_ranges(found: Mapping[str, Any]) -> Figure:
    mean, sd, observed = (np.asarray(found[name], np.float32) for name in ("mean", "spread", "observed"))
    time, band = np.arange(len(mean)) + found["from"], (mean - SPREADS * sd, mean + SPREADS * sd)
    caption = f"Forecast of the next sample ± 3 SD; covers {100 * found['held']:.1f}% (99.7% for a Gaussian)."
    look: Dict = {"channel": "first channel", "height": 240, "caption": caption}
    return figures.envelope(time, mean, band90=band, observed=(time, observed), **look)


# ---- Figure 3 -------------------------------------------------------------------------------------------------------
def formula1(material: Material) -> None:
    """Draw accuracy against K for GDM and rSLDS, trained and untrained, and their states at K = 8."""
    if not _draw_against_k(material, "formula1"):
        shell.empty("The first fits are running", "The curves appear once every model has a fit.")
        return
    _draw_against_k(material, "formula1/real")
    shell.quiet(f"Released code, one real race: {numbers.RELEASED_F1}.")
    test = material.test("formula1")
    if any(trial.position is None for trial in test):
        return
    position = np.concatenate([np.asarray(trial.position) for trial in test])
    shown = {}
    for place, model in zip(st.columns(2, gap="small"), ("GDM", "rSLDS (RO)"), strict=True):
        title = f"{model}, K = {paper.SHOWN_STATES}"
        if (cell := material.find_fit("formula1", title)) is not None:
            shown[model] = cell
            drawn = figures.track(position[:: cell.stride], cell.states, title=title, height=260, caption="")
            with place:
                material.draw(drawn, f"paper-f1-{model}")
    _show_segments(material, test, shown)


def _draw_against_k(material: Material, experiment: str) -> bool:
    """Draw accuracy against K if every model has a fit, and return whether they have."""
    cells, k = material.cells(experiment), np.array(paper.STATES)
    curves = {}
    for model in ("GDM", "rSLDS (RO)"):
        fits = [cells.get(f"{model}, K = {n_states}", []) for n_states in paper.STATES]
        for name, score in ((model, "paper_accuracy"), (f"{model}, untrained", "untrained.paper_accuracy")):
            known = pd.DataFrame([[cell.scores.get(score, np.nan) for cell in row] for row in fits])
            curves[name] = known.to_numpy(np.float32)  # rows of fewer seeds end with NaN
    there = np.any([np.isfinite(v).any(axis=1) for v in curves.values()], axis=0)
    curves = {name: v[there] for name, v in curves.items() if np.isfinite(v[there]).any(axis=1).all()}
    if not curves:
        return False
    lines = {
        name: float(cell.scores["paper_accuracy"])
        for name, cell in material.baselines(experiment).items()
        if name in ("majority class", "10-NN on position")
    }
    caption = f"{material.data_name(experiment)}. Mean over seeds ± SD; each dot is one fit."
    drawn = figures.sweep(k[there], curves, lines=lines, score_name="10-NN accuracy", height=320, caption=caption)
    material.draw(drawn, f"paper-against-k-{experiment}")
    return True


def _show_segments(material: Material, test: Trials, cells: Mapping[str, Cell]) -> None:
    """List the states of each segment by the paper's rule: over 1% of the weight in over 20% of the samples."""
    labels = np.concatenate(labels_of(test))
    columns = {}
    for model, cell in cells.items():
        segment = labels[:: cell.stride]
        if (there := segment != UNLABELLED).any():
            parts = composition(cell.states[there], segment[there], int(segment.max()) + 1)
            columns[model] = [" ".join(f"S{part.state + 1}" for part in found if part.main) for found in parts]
    if columns:
        with st.expander("States by segment, most frequent first"):
            names = [f"segment {number + 1}" for number in range(len(next(iter(columns.values()))))]
            material.show_table(pd.DataFrame(columns, index=names), "segments")


def usage(material: Material) -> None:
    """Draw all states over the first three laps, and their usage."""
    cell = material.find_fit("formula1", f"GDM, K = {paper.SHOWN_STATES}")
    if cell is None:
        shell.empty("Not fitted yet", f"State usage appears once the GDM with K = {paper.SHOWN_STATES} is fitted.")
        return
    test = material.test("formula1")
    laps = np.concatenate([np.zeros(t.n_samples) if t.segments is None else np.asarray(t.segments) for t in test])
    first = np.isin(laps, np.unique(laps)[:LAPS_SHOWN])[:: cell.stride]
    step = cell.stride / test[0].rate_hz
    material.draw(figures.proportions(cell.states[first], step=step, unit="s"), "paper-usage-time")
    material.draw(figures.usage(cell.states), "paper-usage")


# ---- Figure 4 -------------------------------------------------------------------------------------------------------
def mice(material: Material) -> None:
    """Show R² and accuracy of the released code on CalMS21, and ours on simulated and real mice."""
    rows = {
        name: {"R², training": r_train, "R², held-out": r_test, "10-NN accuracy": accuracy, "data": "CalMS21, all 89 trials"}
        for name, (r_train, r_test, accuracy) in numbers.CALMS21.items()
    }  # fmt: skip
    for experiment in ("mice", "mice/real"):
        name = material.data_name(experiment)
        fits = dict(material.cells(experiment))
        if fits and "majority class" in (lines := material.baselines(experiment)):
            fits["majority class"] = [lines["majority class"]]
        for label, found in fits.items():
            rows[f"{label}, ours" if experiment == "mice" else f"{label}, ours on real mice"] = {
                "R², training": format_score(found, "smoothed_r2_train", 2),
                "R², held-out": format_score(found, "smoothed_r2_test", 2),
                "10-NN accuracy": format_score(found, "paper_accuracy"),
                "data": name,
            }
    material.show_table(_tabulate(rows), "mice")
    cells = material.cells("mice")
    _draw_by_trial(material, cells)
    shown = {label: cell for label in cells if (cell := material.find_fit("mice", label)) is not None}
    _draw_expert_strips(material, shown)
    shell.quiet(
        "CalMS21 does not ship with the app. Put task1_classic_classification.zip into the data folder and open it on Behaviour, "
        "or run gdm reproduce mice."
    )


def _draw_by_trial(material: Material, cells: Mapping[str, Sequence[Cell]]) -> None:
    """Draw the accuracy of each held-out trial."""
    test = material.test("mice")
    owner = np.repeat(np.arange(len(test)), [trial.n_samples for trial in test])
    trial_of_block = np.array([owner[block[0]] for block in comparisons.split_blocks(test)])
    curves = {}
    for label, found in cells.items():
        values = np.array([cell.blocks["states"] for cell in found if "states" in cell.blocks])  # [seeds, blocks]
        if len(values):
            curves[label] = np.stack([np.nanmean(values[:, trial_of_block == i], axis=1) for i in range(len(test))])
    if curves and len(test) > 1:
        names: Dict = {"setting_name": "held-out trial", "score_name": "state accuracy"}
        caption = "Mean over fits ± SD; each small dot is one fit."
        trials = np.arange(1, len(test) + 1)
        drawn = figures.sweep(trials, curves, **names, height=220, joined=False, caption=caption)
        material.draw(drawn, "paper-by-trial")


def _draw_expert_strips(material: Material, cells: Mapping[str, Cell]) -> None:
    """Draw the expert's labels above the states of each model, in the colours of the labels."""
    if not cells:
        return
    test = material.test("mice")
    stride = next(iter(cells.values())).stride
    labels = np.concatenate(labels_of(test))[::stride]
    names = test.label_names or tuple(f"label {k + 1}" for k in range(int(labels.max()) + 1))
    rows = {"expert": figures.one_hot(labels, len(names))}
    for label, cell in cells.items():
        rows[label.replace(" with a GRU", ", GRU")] = group_by_label(cell.states, labels, len(names))
    look: Dict = {"step": stride / test[0].rate_hz, "unit": "s", "height": 50 + 44 * len(rows), "names": names}
    caption = "A state has the colour of the behaviour that the expert labelled most often during it."
    material.draw(figures.state_strips(rows, **look, caption=caption), "paper-mice-strips")


def group_by_label(
    states: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], n_labels: int
) -> npt.NDArray[np.float32]:
    """Return states [T, K] summed over those with the same most frequent label [T, L]."""
    mapping = majority_map(states.argmax(axis=1), labels, states.shape[1])
    return states @ np.eye(n_labels, dtype=np.float32)[mapping]
