"""The panel: a file for everything that the page shows. Files are made when they are asked for, not before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.analysis.envelopes import envelope as envelope_from
from gdm_core.analysis.looks import Look
from gdm_core.analysis.planes import plane_map
from gdm_core.analysis.tables import csv
from gdm_core.trials import Trial
from gdm_studio.plot.figures.base import Figure
from pages.lab import figures as drawn
from pages.lab import live
from pages.lab.card import Rows, rows_now
from pages.lab.data import Setting
from pages.lab.tables import File, files_of
from pages.lab.view import Reading, View
from pages.ui import shell
from pages.ui.card import Score
from pages.ui.downloads import download
from pages.ui.exports import install, legend, link, save_picture, slug
from pages.ui.exports.code import Fit, Recipe, notebook, script
from pages.ui.exports.pictures import figure_html, plain_score, report_html
from pages.ui.plot import plot

MODEL = "model.safetensors"
ROUGH = "Of states rounded to 8 bits, as the page draws them until the exact ones are there."
PLANE, PREDICTION = "Which state wins where", "Prediction"


@dataclass(frozen=True)
class Export:
    """What a page hands to the panel.

    page       short name for keys, `stem` the beginning of names of files; title and about for reports
    shown      the live picture; its result is what is exported
    look       the exact soft states of all trials, as `live.states_of` gives them
    figures    figures by name, made when asked for; None while a worker is still at it
    files      (label, make, name of the file) of a trial's data, counted over fitted ones, then new ones
    titles     what the trials are called
    scores     gives the rows of the card, none before they are measured
    trial      which trial the page shows, counted likewise
    shipped    the fit came with the app
    taught     lines of a script that teach the fit words, where what is shown was taught some
    tables     further tables by name, made when asked for
    unanswered whether a figure, or "" for the states, could not be worked out: it says why, and offers to ask again
    """

    page: str
    stem: str
    title: str
    about: str
    shown: live.Shown
    look: Look | None
    recipe: Recipe
    figures: Mapping[str, Callable[[], Figure | None]]
    files: Callable[[int], Sequence[File]] = lambda index: ()
    titles: Sequence[str] = ()
    scores: Callable[[], Sequence[Score]] = tuple
    facts: Sequence[tuple[str, str]] = ()
    link: str = ""
    shipped: bool = False
    taught: Sequence[str] = ()
    tables: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)
    trial: int = 0
    unanswered: Callable[[str], bool] = lambda name: False


def offer(
    view: View,
    reading: Reading,
    rows_of: Rows,
    figures: Callable[[Reading], Mapping[str, Callable[[], Figure | None]]] = lambda reading: {},
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
    """
    asked = view.shown.wanted
    setting: Setting = view.setting if asked is None else asked.where  # of what stands, not of what is asked for now
    view = view.for_files
    if isinstance(exact := view.read(exact=True), Reading) and type(reading) is Reading:
        reading = exact

    def unanswered(name: str) -> bool:
        answer = _questions(view, reading.trial).get(name, live.Answer()) if name else view.exact
        return live.unanswered(view.fit, answer, "This could not be worked out", where="export")

    data, choice, own = setting.data, setting.choice, figures(reading)
    panel(
        Export(
            page=view.page,
            stem=view.stem,
            title=f"{view.frame.title}: {data.about}",
            about=f"{choice.label}; figures show {reading.trial.name}.",
            shown=view.shown,
            shipped=view.came,
            look=view.exact.value,
            recipe=replace(data.recipe, after=[*data.recipe.after, *after]),
            figures=_said_rough({**own, **standard_figures(view, reading), **own}, reading),
            files=lambda index: files_of(view.data, view.at(index).read(exact=True)),
            titles=[view.data.title(i) for i in range(len(view.data.trials))],
            scores=lambda: rows_now(view, rows_of),
            facts=[*data.facts, *choice.facts, *facts],
            link=link(),
            trial=view.index,
            unanswered=unanswered,
            **more,
        )
    )


def _said_rough(
    figures: Mapping[str, Callable[[], Figure | None]], reading: Reading
) -> dict[str, Callable[[], Figure | None]]:
    """The figures, saying so in their captions where they are of rough states, while tables have or wait for the exact ones."""
    if not reading.rough:
        return dict(figures)

    def said(make: Callable[[], Figure | None]) -> Figure | None:
        figure = make()
        return None if figure is None else {**figure, "caption": f"{figure['caption']} {ROUGH}".strip()}

    return {name: partial(said, make) for name, make in figures.items()}


def standard_figures(view: View, reading: Reading) -> dict[str, Callable[[], Figure | None]]:
    """The figures of the tabs that every page can have. Those that a worker is asked for are None until they are there."""
    trial, asked = reading.trial, _questions(view, reading.trial)
    key = {"states": legend.states(len(reading.names), reading.names, reading.used)}
    channel = st.session_state.get("channel")
    index = trial.channels.index(channel) if channel in trial.channels else 0
    found: dict[str, Callable[[], Figure | None]] = {
        "States over time": lambda: drawn.strips(reading, cut=view.data.recorded),
        "Shares of each state": lambda: legend.with_key(drawn.shares(reading), key),
        "Use of each state": lambda: drawn.usage(reading),
        "Stays": lambda: drawn.stays(reading),
        "What follows what": lambda: drawn.graph(reading),
        "What follows what, in numbers": lambda: drawn.matrix(reading),
    }
    if trial.position is not None:
        found[PLANE] = lambda: (
            drawn.plane(asked[PLANE].value, trial.position, view.shown.order) if asked[PLANE].fresh else None
        )
    found[PREDICTION] = lambda: (
        drawn.prediction(
            asked[PREDICTION].value, trial, index, name=view.data.called.get(trial.channels[index], ""), **view.timing
        )
        if asked[PREDICTION].fresh
        else None
    )
    return found


def _questions(view: View, trial: Trial) -> dict[str, live.Answer]:
    """What a worker is asked for, by the name of the figure: not before there are the exact states, which come first."""
    names = [PREDICTION, *([] if trial.position is None else [PLANE])]
    if view.exact.value is None:
        return {name: live.Answer() for name in names}
    last = view.fit.answers.latest(f"envelope-{view.index}").value  # the moment last looked at, if any
    moment, horizon, adaptive = (
        (trial.n_samples // 2, 20, True) if last is None else (last.origin, len(last.mean), last.adaptive)
    )
    asked = {PREDICTION: view.ask(f"envelope-{view.index}", envelope_from, trial, moment, horizon, adaptive)}
    if trial.position is not None:
        asked[PLANE] = view.ask(f"map-{view.index}", plane_map, trial)
    return asked


def panel(export: Export) -> None:
    """Buttons for everything; a sentence instead while there is no finished fit."""
    shown, look = export.shown, export.look
    if shown.result is None or shown.wanted is None or shown.state == "preview":
        shell.empty("Nothing to export yet", "Files are offered as soon as a fit is done.")
        return
    file = f"{export.stem}-{MODEL}" if export.shipped or export.taught else ""
    fit = Fit(shown.wanted.family, shown.wanted.config, shown.order, file, export.taught)
    code = script(export.recipe, fit, export.title, export.link, install())
    left, right = st.columns([0.34, 0.66], gap="small")
    with left, shell.panel("export-data", "Data"):
        if look is not None:
            _data(export)
        elif not export.unanswered(""):
            shell.quiet("The exact states are on their way.")
        for label, make in export.tables.items():
            _file(f"{label} (CSV)", lambda make=make: csv(make()), f"{slug(label)}.csv", export)  # type: ignore[misc]
        _file("Model (safetensors)", lambda: shown.result.model_bytes, MODEL, export)  # type: ignore[union-attr]
        shell.quiet(
            f'Load it with gdm_core.load_model("{export.stem}-{MODEL}"). States have the colours\' order; the model file has its '
            "own, which the script says."
        )
    with right, shell.panel("export-figures", "Figures"):
        _figures(export)
    with left, shell.panel("export-whole", "All of it"):
        facts = [
            *export.facts,
            ("model", fit.call),
            ("states", ", ".join(f"S{j + 1} is the model's {k + 1}" for j, k in enumerate(fit.order))),
        ]
        _file(
            "Report (HTML)",
            lambda: report_html(
                export.title,
                export.about,
                facts,
                [plain_score(score) for score in export.scores()],
                {name: made for name, make in export.figures.items() if (made := make()) is not None},
                code,
                export.link,
            ),
            "report.html",
            export,
        )
        _file("Python script", lambda: code.encode(), "reproduce.py", export)
        _file(
            "Notebook",
            lambda: notebook(export.recipe, fit, export.title, export.link, install()).encode(),
            "reproduce.ipynb",
            export,
        )
        shell.quiet("The script fits the same model to the same data; its states equal those on the page.")
    with st.expander("The script", icon=":material/code:"):
        st.code(code, language="python")


def _figures(export: Export) -> None:
    """One figure at a time: as it will look, and as files. SVG and PNG are drawn by the browser from what stands here."""
    name = st.selectbox("Figure", list(export.figures), key=f"{export.page}-export-figure")
    name = name if name in export.figures else next(iter(export.figures))
    figure, stem = export.figures[name](), slug(name)
    if figure is None:
        if not export.unanswered(name):
            shell.quiet("This figure is being worked out.")
        return
    preview = f"{export.page}-export-preview"
    plot(figure, key=preview, state=export.shown.state, revision=name, group="export", filename=f"{export.stem}-{stem}")
    first, second = st.columns(2, gap="small")
    with first:
        _file("HTML, interactive", lambda: figure_html(figure, name), f"{stem}.html", export)
    with second:
        save_picture(preview, f"{export.stem}-{stem}", figure)
    shell.quiet("SVG and PNG are saved as the figure stands here, zoom and theme included.")


def _data(export: Export) -> None:
    """States and bouts of one trial."""
    index, titles = export.trial, export.titles
    if len(titles) > 1:
        key = f"{export.page}-export-trial-{index}"  # another trial on the page is the first choice here, too
        chosen = st.selectbox("Trial", range(len(titles)), index, format_func=lambda i: titles[i], key=key)
        index = chosen if chosen is not None and chosen < len(titles) else index
    for label, make, file in export.files(index):
        _file(label, make, file, export)


def _file(label: str, make: Callable[[], bytes], name: str, export: Export) -> None:
    download(label, make, f"{export.stem}-{name}", key=f"{export.page}-export-{label}")
