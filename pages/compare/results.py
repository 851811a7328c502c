"""Results of a comparison: states side by side, findings, and tabs with the details."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from html import escape

import pandas as pd
import streamlit as st

from gdm_core.analysis.comparisons import MEASURES, Cell
from gdm_core.analysis.tables import csv
from gdm_core.engine.compare import Compared, Comparison
from gdm_core.engine.job import Bulk
from gdm_core.text import format_mean_sd
from gdm_studio.plot.figures.base import Figure
from pages.compare import grid, pictures
from pages.compare.settings import ComparedData, ComparedSetting
from pages.lab.live.background import show_progress, visitor_jobs
from pages.ui import shell
from pages.ui.controls import one_of, switch, tabs
from pages.ui.exports import download_all
from pages.ui.plot import plot
from pages.ui.shell import Frame
from pages.ui.table_files import table_files

REFUSED = "These models cannot be compared"
AT_ONCE = 60_000  # samples of all fits together; a button starts larger comparisons
IN_WORDS = ("states", "density")  # the first that is known is in words; Differences has the others
FAILED = "failed"
# Score or measure: (name, digits, factor, unit). The first four are shown unless all are requested.
SCORES = {
    "matched_accuracy": ("State accuracy", 3, 1, ""),
    "density": (MEASURES["density"][0], 2, 1, ""),
    "ten": (MEASURES["ten"][0], 3, 1, ""),
    "coverage_90": ("90% coverage", 1, 100, "%"),
    "next": (MEASURES["next"][0], 3, 1, ""),
    "paper_accuracy": ("10-NN accuracy (paper's metric)", 3, 1, ""),
    "macro_f1": ("Macro-F1", 3, 1, ""),
    "ari": ("Adjusted Rand index", 3, 1, ""),
}
SHOWN = tuple(SCORES)[:4]


def current(frame: Frame, comparison: Comparison) -> Bulk[Compared] | None:
    """Return the job of this comparison, started if it is small; None while it waits for a click."""
    about = (comparison.key, tuple(comparison.settings))  # the same fits under other names are another comparison
    known: Bulk[Compared] | None = visitor_jobs().find(("compare", about))
    if known is not None:
        return known
    if comparison.n_fits * comparison.train.n_samples <= AT_ONCE:
        return grid.begin("compare", about, comparison)
    with frame.picture:
        shell.empty(
            f"{comparison.n_fits} fits of {comparison.train.n_samples:,} samples",
            "Fits run in the background, also when you leave the page. Results appear as they finish.",
        )
        start = partial(grid.begin, "compare", about, comparison)
        shell.begin_button("Compare", start, REFUSED, type="primary", key="compare-start")
    return None


def show_results(frame: Frame, source: ComparedData, chosen: list[ComparedSetting], fits: Bulk[Compared]) -> None:
    """Show everything below the controls; while fits run, the progress panel reruns the page."""
    found = fits.read()
    with frame.picture:
        with st.container():  # always present: otherwise the figures below would be drawn again when it empties
            show_progress("compare-progress", fits, found.finished)
        drawn = pictures.draw(source, chosen, found)
    with frame.card:
        _show_findings(found)
    views: dict[str, Callable[[], None]] = {
        "Scores": lambda: _show_scores(found),
        "Differences": lambda: _show_differences(found),
        "Number of states": lambda: grid.tab(source, chosen),
        "Export": lambda: _show_export(found, drawn),
    }
    with frame.below:
        for name, place in tabs(list(views)):
            if place.open:
                with place:
                    if any(found.cells.values()):
                        views[name]()
                    else:
                        shell.empty("No results yet", "Results appear when the first fit finishes.")


def _show_findings(found: Compared) -> None:
    st.html('<p class="gdm-panel-title">Findings</p>')
    if not found.finished:
        shell.quiet(f"Findings follow when all {found.total} fits finish.")
        return
    for label, message in found.failures.items():
        shell.error(f"{label} failed", message)
    verdicts = (found.verdict(name) for name in IN_WORDS)
    if first := next((one for one in verdicts if one is not None and one.sentence), None):
        name = escape(MEASURES[first.measure][0])
        st.html(f'<dl class="gdm-verdicts"><dt>{name}</dt><dd>{escape(first.sentence)}</dd></dl>')


def _show_scores(found: Compared) -> None:
    every = switch("All scores", False, key="all-scores", help="Mean ± SD over seeds; every baseline.")
    st.table(scores_table(found, every).replace("", "–").rename_axis("model"), border="horizontal")


def scores_table(found: Compared, every: bool = True) -> pd.DataFrame:
    """Return a row of formatted scores for each model and baseline; a failed model has its reason only.

    every  whether to include all scores and baselines; otherwise SHOWN, with the best baseline of each
    """
    names = tuple(SCORES) if every else SHOWN
    rows = {}
    for label, by_seed in found.cells.items():
        if label in found.failures:
            rows[label] = {FAILED: found.failures[label]}
        elif cells := list(by_seed.values()):
            rows[label] = _format_scores(cells, names)
            if every:
                seconds = format_mean_sd([cell.seconds for cell in cells], 2)
                rows[label] |= {"Parameters": f"{cells[0].parameters:,}", "Seconds per fit": seconds}
    baselines = found.baselines if every else _best_baselines(found.baselines)
    rows |= {name: _format_scores([cell], names) for name, cell in baselines.items()}
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("")
    return table.loc[:, (table != "").any()]


def _format_scores(cells: list[Cell], names: tuple[str, ...]) -> dict[str, str]:
    texts = {}
    for name in names:
        words, digits, factor, unit = SCORES[name]
        text = format_mean_sd([factor * _score(cell, name) for cell in cells], digits)
        texts[words] = f"{text}{unit}" if text else ""
    return texts


def _score(cell: Cell, name: str) -> float:
    return cell.scores[name] if name in cell.scores else cell.mean(name)


def _best_baselines(baselines: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the best baseline of each score in SHOWN."""
    values = pd.DataFrame({base: {name: _score(cell, name) for name in SHOWN} for base, cell in baselines.items()})
    best = set(values.dropna(how="all").idxmax(axis=1))
    return {name: cell for name, cell in baselines.items() if name in best}


def _show_differences(found: Compared) -> None:
    measures = {name: words for name, (words, _) in MEASURES.items() if found.verdict(name) is not None}
    verdict = found.verdict(one_of("Measure", measures, row=True, key="measure"))
    if verdict is None or not verdict.differences:
        shell.empty("One model", "Add a second model to compare.")
        return
    with shell.panel("differences"):
        plot(pictures.differences(verdict), key="differences")
        shell.quiet(f"{verdict.sentence} {verdict.basis}.".strip())


def blocks_table(found: Compared) -> pd.DataFrame:
    """Return the measures behind the findings: one row per model, seed and block."""
    lines = {name: {0: cell} for name, cell in found.baselines.items() if cell.blocks}
    rows = [
        {"model": label, "seed": seed, "block": i, **{name: values[i] for name, values in cell.blocks.items()}}
        for label, cells in {**found.cells, **lines}.items()
        for seed, cell in cells.items()
        for i in range(max((len(values) for values in cell.blocks.values()), default=0))
    ]
    return pd.DataFrame(rows)


def _show_export(found: Compared, drawn: Mapping[str, Figure]) -> None:
    download_all("compare.zip", partial(make_files, found, drawn), key="compare-export")
    shell.quiet("Figures (SVG, PNG), scores (CSV, LaTeX) and scores by block (CSV, Parquet).")


def make_files(found: Compared, drawn: Mapping[str, Figure]) -> tuple[dict[str, Figure], dict[str, bytes]]:
    """Return all figures, and the tables of scores as files."""
    verdicts = {name: found.verdict(name) for name in MEASURES}
    made = {
        f"differences-{name}": pictures.differences(one) for name, one in verdicts.items() if one and one.differences
    }
    blocks = blocks_table(found)
    files = table_files({"scores": scores_table(found)})
    files |= {"blocks.csv": csv(blocks), "blocks.parquet": blocks.to_parquet(index=False)}
    return {**drawn, **made}, files
