"""The export panel: a file for everything that the page shows, made on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.envelopes import envelope as envelope_from
from gdm_core.analysis.envelopes import plane_map
from gdm_core.analysis.tables import bouts_table, csv, first_frame, states_table
from gdm_core.trials import Trial
from gdm_studio.plot.figures.base import Figure
from pages.lab import figures as drawn
from pages.lab import live
from pages.lab.card import Rows, rows_now
from pages.lab.dataset import Dataset, rule_words
from pages.lab.decoded import Decoded, TrialView, Undecoded
from pages.lab.naming import StateNames
from pages.lab.spec import PageSpec
from pages.lab.view import View
from pages.ui import legend, settings, shell
from pages.ui.downloads import download
from pages.ui.exports import (
    Fit,
    Recipe,
    figure_html,
    install,
    link,
    notebook,
    plain_score,
    report_html,
    save_picture,
    script,
    slug,
)
from pages.ui.plot import coming, plot

MODEL = "model.safetensors"
ROUGH = "Of states rounded to 8 bits, as the page draws them until the exact ones are there."
PLANE, PREDICTION = "Which state wins where", "Prediction"


@dataclass(frozen=True, kw_only=True, eq=False)
class Export:
    """The content of a view as files.

    view       looking by the states that files of data hold, once there are those
    spec       what the displayed result was made with
    reading    what is shown
    recipe     how a script makes the data, and what it does once it has the states
    figures    by name, made when asked for; None while a worker is still at it
    rows_of    gives the rows of the card
    tables     further tables by name, made when asked for
    """

    view: View
    spec: PageSpec
    reading: Decoded
    recipe: Recipe
    figures: Mapping[str, Callable[[], Figure | None]]
    rows_of: Rows
    facts: Sequence[tuple[str, str]] = ()
    tables: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)

    def files(self, index: int) -> Sequence[File]:
        """Return (label, make, file name) of each file of a trial's data."""
        return files_of(self.view.dataset, self.view.select_trial(index).read_samples(exact=True))

    def unanswered(self, name: str = "") -> bool:
        """Show why a figure or the exact states failed; return whether they did."""
        view = self.view
        answer = _questions(view, self.reading.trial).get(name, live.Query()) if name else view.exact
        return live.show_failure(view.fit, answer, "This could not be worked out", where="export")

    def file(self, label: str, make: Callable[[], bytes], name: str) -> None:
        download(label, make, f"{self.view.stem}-{name}", key=f"{self.view.page}-export-{label}")


def offer(
    view: View,
    reading: Decoded,
    rows_of: Rows,
    figures: Callable[[Decoded], Mapping[str, Callable[[], Figure | None]]] = lambda reading: {},
    *,
    facts: Sequence[tuple[str, str]] = (),
    after: Sequence[str] = (),
    **more: Any,
) -> None:
    """The panel for what a view shows: a page adds its own figures, which come first, and what else it has to say.

    reading   what is shown; once there are the states that files of data hold, figures are of those
    figures   its own; one of the same name stands in place of a usual one
    facts     for the report, besides those of the data and of the model
    after     what the script says once it has the states
    more      `tables` of an Export
    """
    spec = view.state.spec or view.spec
    view = view.for_files
    if isinstance(exact := view.read(exact=True), Decoded) and type(reading) is Decoded:
        reading = exact
    data, own = spec.dataset, figures(reading)
    if data.recorded:
        facts, after = [*_said_of_bouts(view, reading), *facts], [*bouts_code(view, reading.naming), *after]
    export = Export(
        view=view,
        spec=spec,
        reading=reading,
        recipe=replace(data.recipe, after=[*data.recipe.after, *after]),
        figures=_said_rough({**own, **standard_figures(view, reading), **own}, reading),
        rows_of=rows_of,
        facts=[*data.facts, *spec.choice.facts, *facts],
        **more,
    )
    panel(export)


def _said_of_bouts(view: View, reading: Decoded) -> list[tuple[str, str]]:
    """Return further facts for the report of a recording."""
    labels = [] if reading.expert is None else [("expert's labels", ", ".join(view.dataset.every_label))]
    names = ", ".join(reading.names[k] for k in reading.used)
    return [
        ("data", view.dataset.about),
        ("names", names),
        ("bouts", rule_words(view.rule, view.dataset.unit)),
        *labels,
    ]


SCORES = ("macro_f1", "balanced_accuracy", "paper_accuracy")


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
    ]


def _said_rough(
    figures: Mapping[str, Callable[[], Figure | None]], reading: Decoded
) -> dict[str, Callable[[], Figure | None]]:
    """Return the figures; captions say where states are rough."""
    if not reading.rough:
        return dict(figures)

    def said(make: Callable[[], Figure | None]) -> Figure | None:
        figure = make()
        return None if figure is None else {**figure, "caption": f"{figure['caption']} {ROUGH}".strip()}

    return {name: partial(said, make) for name, make in figures.items()}


def standard_figures(view: View, reading: Decoded) -> dict[str, Callable[[], Figure | None]]:
    """Return the figures of the shared tabs; those that a worker computes are None until known."""
    trial, asked = reading.trial, _questions(view, reading.trial)
    key = {"states": legend.states(len(reading.names), reading.names, reading.used)}
    called, channel = [view.dataset.called.get(one, one) for one in trial.channels], settings.text("channel")
    index = called.index(channel) if channel in called else 0
    found: dict[str, Callable[[], Figure | None]] = {
        "States over time": lambda: drawn.strips(reading, cut=view.dataset.recorded),
        "Shares of each state": lambda: legend.with_key(drawn.shares(reading), key),
        "Use of each state": lambda: drawn.usage(reading),
        "Stays": lambda: drawn.stays(reading),
        "What follows what": lambda: drawn.graph(reading),
        "What follows what, in numbers": lambda: drawn.matrix(reading),
    }
    if trial.position is not None:
        found[PLANE] = lambda: (
            drawn.plane(asked[PLANE].value, trial.position, view.state.order) if asked[PLANE].fresh else None
        )
    found[PREDICTION] = lambda: (
        drawn.prediction(
            asked[PREDICTION].value,
            trial,
            index,
            name=view.dataset.called.get(trial.channels[index], ""),
            **view.timing,
        )
        if asked[PREDICTION].fresh
        else None
    )
    return found


def _questions(view: View, trial: Trial) -> dict[str, live.Query]:
    """Return the queries by figure, after the exact states are known."""
    names = [PREDICTION, *([] if trial.position is None else [PLANE])]
    if view.exact.value is None:
        return {name: live.Query() for name in names}
    last = view.fit.queries.latest(f"envelope-{view.index}").value  # the moment last looked at, if any
    moment, horizon, adaptive = (
        (trial.n_samples // 2, 20, True) if last is None else (last.origin, len(last.mean), last.adaptive)
    )
    asked = {PREDICTION: view.query(f"envelope-{view.index}", envelope_from, trial, moment, horizon, adaptive)}
    if trial.position is not None:
        asked[PLANE] = view.query(f"map-{view.index}", plane_map, trial)
    return asked


def panel(export: Export) -> None:
    """Show the buttons, or a sentence without a finished fit."""
    view, shown = export.view, export.view.state
    result = shown.result
    if result is None or shown.spec is None:
        shell.empty("Nothing to export yet", "Files are offered as soon as a fit is done.")
        return
    title, about = f"{view.frame.title}: {export.spec.dataset.about}", export.spec.choice.label
    model = f"{view.stem}-{MODEL}"
    fit = Fit(shown.spec.family, shown.spec.config, shown.order, model if view.came else "")
    address = link()
    said = (export.recipe, fit, title, address, install())
    code = script(*said)
    left, right = st.columns([0.34, 0.66], gap="small")
    with left, shell.panel("export-data", "Data"):
        if view.exact.value is not None:
            _data(export)
        elif not export.unanswered():
            shell.quiet("The exact states are on their way.")
        for label, make in export.tables.items():
            export.file(f"{label} (CSV)", lambda make=make: csv(make()), f"{slug(label)}.csv")  # type: ignore[misc]
        export.file("Model (safetensors)", lambda: result.model_bytes, MODEL)
        shell.quiet(
            f'Load it with gdm_core.load_model("{model}"). States have the colours\' order; the model file has its own, which '
            "the script says."
        )
    with right, shell.panel("export-figures", "Figures"):
        _figures(export)
    with left, shell.panel("export-whole", "All of it"):
        columns = ", ".join(f"S{j + 1} is the model's {k + 1}" for j, k in enumerate(fit.order))

        missing = [("missing values", view.dataset.missing)] if view.dataset.missing else []

        def report() -> bytes:
            return report_html(
                title,
                f"{about}; figures show {export.reading.trial.name}.",
                [*export.facts, ("model", fit.call), ("states", columns), *missing],
                [plain_score(score) for score in rows_now(view, export.rows_of)],
                {name: made for name, make in export.figures.items() if (made := make()) is not None},
                code,
                address,
            )

        export.file("Report (HTML)", report, "report.html")
        export.file("Python script", lambda: code.encode(), "reproduce.py")
        export.file("Notebook", lambda: notebook(*said).encode(), "reproduce.ipynb")
        shell.quiet("The script fits the same model to the same data; its states equal those on the page.")
    with st.expander("The script", icon=":material/code:"):
        st.code(code, language="python")


def _figures(export: Export) -> None:
    """Show one figure with its files; the browser draws SVG and PNG."""
    page = export.view.page
    name = st.selectbox("Figure", list(export.figures), key=f"{page}-export-figure")
    name = name if name in export.figures else next(iter(export.figures))
    figure, stem, preview = export.figures[name](), slug(name), f"{page}-export-preview"
    if figure is None:
        if not export.unanswered(name):
            coming(preview, "This figure is being worked out.")
        return
    file = f"{export.view.stem}-{stem}"
    plot(figure, key=preview, state=export.view.state.status, revision=name, group="export", filename=file)
    first, second = st.columns(2, gap="small")
    with first:
        export.file("HTML, interactive", lambda: figure_html(figure, name), f"{stem}.html")
    with second:
        save_picture(preview, file, figure)
    shell.quiet("SVG and PNG are saved as the figure stands here, zoom and theme included.")


def _data(export: Export) -> None:
    """Return states and bouts of one trial as files."""
    view = export.view
    index, titles = view.index, [view.dataset.title(i) for i in range(len(view.dataset.trials))]
    if len(titles) > 1:
        key = f"{view.page}-export-trial-{index}"  # another trial on the page is the first choice here, too
        chosen = st.selectbox("Trial", range(len(titles)), index, format_func=lambda i: titles[i], key=key)
        index = chosen if chosen is not None and chosen < len(titles) else index
    for label, make, file in export.files(index):
        export.file(label, make, file)


File = tuple[str, Callable[[], bytes], str]  # label, what makes it, name


def files_of(data: Dataset, here: Decoded | Undecoded) -> list[File]:
    """Return the files of one trial: states, bouts, features and a key of columns."""
    if isinstance(here, Undecoded):
        return []
    words, name = data.every_label if data.recorded else (), slug(here.trial.name)
    return [
        ("States (CSV)", lambda: csv(named_states(here, words)), f"{name}-states.csv"),
        ("States (Parquet)", lambda: named_states(here, words).to_parquet(index=False), f"{name}-states.parquet"),
        (
            "Bouts (CSV, as in BORIS)",
            lambda: csv(bouts_of(here, data.observation(here.trial), data.subject)),
            f"{name}-bouts.csv",
        ),
        ("Key (CSV)", lambda: csv(key_of(here)), f"{name}-key.csv"),
        ("Features (CSV)", lambda: csv(features_of(here)), f"{name}-features.csv"),
    ]


def named_states(here: Decoded, words: Sequence[str] = ()) -> pd.DataFrame:
    """time, frame, p_1 .. p_K, state, entropy, the name of the bout at each moment, and what the expert called it.

    words   the expert's names, of which `expert_code` is the place; empty and -1 where nothing was marked. Columns that a
            merger left empty are left out.
    """
    kept = here.used
    table = timed(states_table(here.states[:, kept], here.trial), here)
    table["bout"] = [here.names[k] for k in here.bouts]
    if (expert := here.expert) is not None:
        table["expert"] = [words[z] if 0 <= z < len(words) else "" for z in expert]
        table["expert_code"] = expert
    # Numbers are those of the states on the page: after a merger there may be p_1 and p_3 alone.
    numbers = [here.naming.numbers[column] for column in kept]
    table["state"] = np.array(numbers)[table["state"] - 1]
    return table.rename(columns={f"p_{j + 1}": f"p_{number}" for j, number in enumerate(numbers)})


def key_of(here: Decoded) -> pd.DataFrame:
    """Return a table of columns with names and colours of states."""
    numbers, looks = [here.naming.numbers[column] for column in here.used], here.looks
    columns = [f"p_{number}" for number in numbers]
    return pd.DataFrame({"column": columns, "state": numbers, "name": looks["names"], "colour": looks["colours"]})


def bouts_of(here: Decoded, observation: str = "", subject: str = "") -> pd.DataFrame:
    """Return one row per bout, in the columns of BORIS.

    observation  what is called so in BORIS: the recording, also where the trial is a part of it
    """
    named = {"observation": observation, "subject": subject, "unit": here.counted}
    return bouts_table(here.states, here.trial, here.names, bouts=here.bouts, **named)


def features_of(here: Decoded) -> pd.DataFrame:
    """Return time, frame and all channels."""
    return timed(pd.DataFrame(here.trial.y, columns=list(here.trial.channels)), here)


def timed(table: pd.DataFrame, here: TrialView) -> pd.DataFrame:
    """Return the table with frames; without time if the frame rate is unknown."""
    made = table.drop(columns="time", errors="ignore")
    made.insert(0, "frame", first_frame(here.trial) + np.arange(len(table)))
    if here.counted == "s":
        made.insert(0, "time", here.trial.seconds)
    return made
