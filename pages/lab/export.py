"""The tab Export: all files of a page as one zip, and single files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.envelopes import envelope, plane_map
from gdm_core.analysis.inference import infer
from gdm_core.analysis.tables import bouts_table, csv, first_frame, states_table
from gdm_core.trials import Trial
from gdm_studio.plot.figures.base import Figure
from pages.lab import figures as drawn
from pages.lab import live
from pages.lab.dataset import Dataset
from pages.lab.decoded import Decoded, TrialView, Undecoded
from pages.lab.naming import StateNames
from pages.lab.view import View
from pages.ui import legend, settings, shell, wheel
from pages.ui.downloads import download
from pages.ui.exports import INSTALL, Files, Fit, Recipe, download_all, link, notebook, save_picture, script, slug
from pages.ui.plot import coming, plot

TAB = "Export"
MODEL = "model.safetensors"
PLANE, PREDICTION = "State map", "Prediction"
SCORES = ("macro_f1", "balanced_accuracy", "paper_accuracy")
SCORES_CODE = (  # of scripts for data without an expert's labels
    "from gdm_core import evaluate",
    "",
    "scores = evaluate(model, train, test)  # print(scores) shows all scores and baselines",
    'if (best := scores.best_baseline("matched_accuracy")) is not None:',
    '    print(f"State accuracy, held-out: {scores.matched_accuracy:.3f} ({best[0]}: {best[1]:.3f})")',
    "if scores.forecast_r2:",
    "    ahead, persistence = scores.forecast_r2[-1], scores.persistence_r2[-1]",
    '    print(f"Forecast R², {len(scores.forecast_r2)} steps ahead: {ahead:.3f} (persistence: {persistence:.3f})")',
)
WAIT_S = 5.0  # seconds that "Download all" waits for each figure that a worker computes
Figures = Mapping[str, Callable[[], Figure | None]]
File = tuple[str, Callable[[], bytes], str]  # label, function that makes it, name


@dataclass(frozen=True, kw_only=True, eq=False)
class Export:
    """The content of a view as files.

    view       with the exact states, once they are known
    reading    trial in view
    recipe     code of the data, and what a script does with the states
    figures    functions by name; they return None while a worker computes
    tables     further tables by name
    sources    files that the script reads
    """

    view: View
    reading: Decoded
    recipe: Recipe
    figures: Figures
    tables: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)
    sources: Files = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.view.frame.title}: {(self.view.state.spec or self.view.spec).dataset.about}"

    @property
    def model_name(self) -> str:
        return f"{self.view.stem}-{MODEL}"

    def documents(self) -> list[File]:
        """Return the model, script and notebook, and the library that they need."""
        model, state = self.view.query_calibrated(), self.view.state
        assert state.spec is not None
        shipped = self.model_name if state.result is not None and state.result.is_precomputed else ""
        fit = Fit(state.spec.family, state.spec.config, state.order, shipped)
        # Made here, because files are made in threads without the session that has the address.
        code, book = (write(self.recipe, fit, self.title, link()).encode() for write in (script, notebook))
        return [
            *([("Model (safetensors)", lambda: model.value, MODEL)] if model.fresh else []),
            ("Python script", lambda: code, "reproduce.py"),
            ("Notebook", lambda: book, "reproduce.ipynb"),
            ("Library (wheel)", wheel.build, wheel.FILE),
        ]

    def trial_files(self, index: int) -> Sequence[File]:
        """Return the files of a trial's data."""
        return files_of(self.view.dataset, self.view.select_trial(index).read_samples())

    def table_files(self) -> list[File]:
        return [
            (f"{label} (CSV)", lambda make=make: csv(make()), f"{slug(label)}.csv")  # type: ignore[misc]
            for label, make in self.tables.items()
        ]

    def everything(self) -> tuple[dict[str, Figure], Files]:
        """Return all figures and files for one zip."""
        computed = standard_figures(self.view, self.reading, WAIT_S)
        found = {name: make() or computed.get(name, make)() for name, make in self.figures.items()}
        figures = {slug(name): figure for name, figure in found.items() if figure is not None}
        data = [file for index in range(len(self.view.dataset.trials)) for file in self.trial_files(index)]
        data += self.table_files()
        files = {f"data/{name}": make() for _, make, name in data}
        files |= {self.model_name if name == MODEL else name: make() for _, make, name in self.documents()}
        return figures, files | dict(self.sources) | {"README.md": self._readme(figures).encode()}

    def _readme(self, figures: Mapping[str, Figure]) -> str:
        lines = [
            f"# {self.title}",
            "",
            f"- `reproduce.py`, `reproduce.ipynb`: data, fit and states of the page. Needs GDM Studio: {INSTALL}.",
            f"- `{self.model_name}`: the fitted model, for `gdm_core.load_model`.",
            "- `data/`: states, bouts, features and state names (key) of each trial.",
            "- `figures/`: each figure as SVG and PNG, 85 mm wide.",
            "",
            *(f"`{stem}`: {figure['caption'] or figure['alt']}  " for stem, figure in figures.items()),
            *(["", f"Page: {link()}"] if link() else []),
        ]
        return "\n".join(lines) + "\n"


def show_export(
    view: View,
    reading: Decoded,
    figures: Callable[[Decoded], Figures] = lambda reading: {},
    *,
    after: Sequence[str] = (),
    **more: Any,
) -> None:
    """Show the tab.

    figures   returns a page's own figures, which come first and replace standard ones of the same name
    after     script lines that use the states
    more      `tables` and `sources` of an Export
    """
    spec = view.state.spec or view.spec
    view = with_exact_states(view)
    if isinstance(exact := view.read(), Decoded) and type(reading) is Decoded:
        reading = exact
    data, own = spec.dataset, figures(reading)
    after = [*(bouts_code(view, reading.naming) if data.recorded else SCORES_CODE), *after]
    export = Export(
        view=view,
        reading=reading,
        recipe=replace(data.recipe, after=[*data.recipe.after, *after]),
        figures={**own, **standard_figures(view, reading), **own},
        **more,
    )
    show_files(export)


def query_states(view: View) -> live.Query:
    """Return the exact states of all trials, in place of 8-bit ones."""
    return view.query("exact-states", infer, view.dataset.train, view.dataset.test)


def with_exact_states(view: View) -> View:
    """Return the view with the exact states, once known."""
    states = query_states(view)
    return replace(view, precise=states.value) if states.fresh else view


def bouts_code(view: View, naming: StateNames) -> list[str]:
    """Return script lines that name, merge and score states as the page does."""
    rule, data = view.rule, view.dataset
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
        f"rule = BoutRule(smooth_s={rule.smooth_s!r}, shortest_s={rule.shortest_s!r})  # how states become bouts",
        f"titles = {[data.observation(trial) for trial in data.trials]!r}",
        "rows = [",
        f"    bouts_table(soft, trial, names, bouts=rule.labels(soft, trial.rate_hz), observation=title, "
        f"subject={data.subject!r}, unit={data.unit!r})",
        "    for title, soft, trial in zip(titles, [*named, *new_named], [*train, *test])",
        "]",
        'Path("bouts.csv").write_bytes(csv(pd.concat(rows, ignore_index=True)))',
        "scores = bout_scores.scores(model.to_bytes(), train, test, rule.smooth_s, rule.shortest_s, model.config.seed)",
        f"for name in {SCORES!r}:",
        "    if name in scores:",
        '        print(f"{name}: {scores[name]:.3f}")',
    ]


def standard_figures(view: View, reading: Decoded, wait_s: float = 0.0) -> dict[str, Callable[[], Figure | None]]:
    """Return the figures of the shared tabs; those that a worker computes are None until known."""
    trial, order, timing = reading.trial, view.state.order, reading.timing
    key = {"states": legend.states(len(reading.names), reading.names, reading.used)}
    called, channel = [view.dataset.called.get(one, one) for one in trial.channels], settings.text("channel")
    index = called.index(channel) if channel in called else 0
    name = view.dataset.called.get(trial.channels[index], "")
    found: dict[str, Callable[[], Figure | None]] = {
        "States over time": lambda: drawn.strips(reading, cut=view.dataset.recorded),
        "State proportions": lambda: legend.with_key(drawn.shares(reading), key),
        "State usage": lambda: drawn.usage(reading),
        "Dwell times": lambda: drawn.stays(reading),
        "Transition matrix": lambda: drawn.matrix(reading),
    }
    draw: dict[str, Callable[[Any], Figure]] = {
        PLANE: lambda value: drawn.plane(value, trial.position, order, start=timing["start"], step=timing["step"]),
        PREDICTION: lambda value: drawn.prediction(value, trial, index, name=name, **timing),
    }

    def draw_fresh(name: str, query: live.Query) -> Figure | None:
        return draw[name](query.value) if query.fresh else None

    queries = _query_figures(view, trial, wait_s)
    return found | {name: partial(draw_fresh, name, query) for name, query in queries.items()}


def _query_figures(view: View, trial: Trial, wait_s: float = 0.0) -> dict[str, live.Query]:
    """Return the queries of figures that a worker computes, after the exact states are known."""
    names = [PREDICTION] if trial.position is None else [PLANE, PREDICTION]
    if view.precise is None:
        return {name: live.Query() for name in names}
    shown = f"envelope-{view.index}"
    last = view.fit.queries.latest(shown).value  # of the tab Prediction
    arguments = (trial.n_samples // 2, 20, True) if last is None else (last.origin, len(last.mean), last.adaptive)
    ask = {
        PLANE: lambda: view.query(f"map-{view.index}", plane_map, trial, wait_s=wait_s),
        PREDICTION: lambda: view.query(shown, envelope, trial, *arguments, wait_s=wait_s, calibrated=True),
    }
    return {name: ask[name]() for name in names}


def show_files(export: Export) -> None:
    """Show the buttons, or a sentence without a finished fit."""
    view = export.view
    if view.state.result is None or view.state.spec is None:
        shell.empty("Nothing to export yet", "Files appear when fitting finishes.")
        return
    awaited = {"The exact states": query_states(view), "Prediction intervals": view.query_calibrated()}
    if missing := [what for what, query in awaited.items() if not query.fresh]:
        failed = [
            live.show_failure(view.fit, awaited[what], f"{what} could not be computed", where="export")
            for what in missing
        ]
        if not any(failed):
            shell.quiet(f"Computing {' and '.join(missing).lower()}.")
    else:
        download_all(f"{view.stem}.zip", export.everything, key=f"{view.page}-export-all")
        shell.quiet("Figures (SVG, PNG), states and bouts (CSV), data, model, script, notebook and README.")
    left, right = st.columns([0.34, 0.66], gap="small")
    with left, shell.panel("export-data", "Single files"):
        here = [] if view.precise is None else export.trial_files(view.index)
        files = [*here, *export.table_files(), *export.documents()]
        for label, make, name in files:
            download(label, make, f"{view.stem}-{name}", key=f"{view.page}-export-{label}")
    with right, shell.panel("export-figures", "Figures"):
        _show_figure(export)


def _show_figure(export: Export) -> None:
    """Show one figure with its files."""
    view, page = export.view, export.view.page
    name = st.selectbox("Figure", list(export.figures), key=f"{page}-export-figure")
    name = name if name in export.figures else next(iter(export.figures))
    figure, stem, preview = export.figures[name](), slug(name), f"{page}-export-preview"
    if figure is None:
        query = _query_figures(view, export.reading.trial).get(name, live.Query())
        if not live.show_failure(view.fit, query, "The figure could not be computed", where="figure"):
            coming(preview, "Computing the figure.")
        return
    file = f"{view.stem}-{stem}"
    plot(figure, key=preview, state=view.state.status, revision=name, group="export", filename=file)
    save_picture(preview, file)


def files_of(data: Dataset, here: Decoded | Undecoded) -> list[File]:
    """Return the files of one trial: states, bouts, features and a key of columns."""
    if isinstance(here, Undecoded):
        return []
    words, name = data.every_label if data.recorded else (), slug(here.trial.name)
    observation = data.observation(here.trial)
    return [
        (
            "States (CSV)",
            lambda: csv(named_states(here, words).assign(**data.columns(here.trial))),
            f"{name}-states.csv",
        ),
        ("Bouts (CSV, as in BORIS)", lambda: csv(trial_bouts(here, observation, data.subject)), f"{name}-bouts.csv"),
        ("State names (CSV)", lambda: csv(state_key(here)), f"{name}-key.csv"),
        ("Data (CSV)", lambda: csv(features_table(here)), f"{name}-data.csv"),
    ]


def named_states(here: Decoded, words: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per sample: time, frame, p_1 .. p_K, state, entropy, name of the bout, and expert label.

    words   names of the expert's labels, indexed by `expert_code`; unlabelled samples have "" and -1
    """
    kept = here.used
    table = add_time(states_table(here.states[:, kept], here.trial), here)
    table["bout"] = [here.names[k] for k in here.bouts]
    if (expert := here.expert) is not None:
        table["expert"] = [words[z] if 0 <= z < len(words) else "" for z in expert]
        table["expert_code"] = expert
    # Columns have the numbers of the page, which skip merged states.
    numbers = [here.naming.numbers[column] for column in kept]
    table["state"] = np.array(numbers)[table["state"] - 1]
    return table.rename(columns={f"p_{j + 1}": f"p_{number}" for j, number in enumerate(numbers)})


def state_key(here: Decoded) -> pd.DataFrame:
    """Return a table of columns with names and colours of states."""
    numbers, looks = [here.naming.numbers[column] for column in here.used], here.looks
    columns = [f"p_{number}" for number in numbers]
    return pd.DataFrame({"column": columns, "state": numbers, "name": looks["names"], "colour": looks["colours"]})


def trial_bouts(here: Decoded, observation: str = "", subject: str = "") -> pd.DataFrame:
    """Return one row per bout, in the columns of BORIS; `observation` is the name of the recording there."""
    named = {"observation": observation, "subject": subject, "unit": here.counted}
    return bouts_table(here.states, here.trial, here.names, bouts=here.bouts, **named)


def features_table(here: Decoded) -> pd.DataFrame:
    """Return time, frame and all channels."""
    return add_time(pd.DataFrame(here.trial.y, columns=list(here.trial.channels)), here)


def add_time(table: pd.DataFrame, here: TrialView) -> pd.DataFrame:
    """Return the table with frames, and with times if the frame rate is known."""
    made = table.drop(columns="time", errors="ignore")
    made.insert(0, "frame", first_frame(here.trial) + np.arange(len(table)))
    if here.counted == "s":
        made.insert(0, "time", here.trial.seconds)
    return made
