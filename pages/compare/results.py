"""What a comparison has found, of whose fits the latest wish wins: the states side by side, the verdict, and what stands below."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape

import pandas as pd
import streamlit as st

from gdm_core.analysis import comparisons
from gdm_core.analysis.comparisons import MEASURES, Cell
from gdm_core.analysis.tables import csv
from gdm_core.engine.compare import Compared, Comparison
from gdm_core.text import format_mean_sd
from gdm_studio.plot import figures
from pages.compare import grid, pictures
from pages.compare.settings import ComparedData, ComparedSetting
from pages.lab import live
from pages.lab.live.background import Fits, show_progress, visitor_jobs
from pages.ui import shell
from pages.ui.controls import one_of, tabs
from pages.ui.downloads import download
from pages.ui.plot import plot
from pages.ui.shell import Frame

MOST_MOMENTS = 12
REFUSED = "These settings cannot be compared"
AT_ONCE = 60_000  # samples of all fits together: more than some 20 s of work is started by a button
SAID = ("states", "density", "ten")  # in words; the error of the next sample is in its density already
FAILED = "failed"
SCORES = {
    "coverage_90": "90 % band as calibrated holds (ten ahead)",
    "paper_accuracy": "the paper's accuracy",
    "macro_f1": "macro-F1",
    "ari": "adjusted Rand index",
}
DENSITY = (
    "Forecast density is what a forecast, made before the sample, gives to what then came: a Gaussian for every model alike, so "
    "that models with and without soft states compete on equal terms. The log-likelihood per step on a lab's card is another "
    "number: a bound on all that the model itself says of the new trials, with states read from those very samples."
)


def current(frame: Frame, comparison: Comparison) -> Fits | None:
    """The job of these settings, started if it is small or the button was pressed; None while it waits for that."""
    about = (comparison.key, tuple(comparison.settings))  # the same fits under other names are another comparison
    known: Fits | None = visitor_jobs().find(("compare", about))
    if known is not None:
        return known
    if comparison.n_fits * comparison.train.n_samples <= AT_ONCE:
        return grid.begin("compare", about, comparison)
    with frame.picture:
        shell.empty(
            f"{comparison.n_fits} fits of {comparison.train.n_samples:,} samples",
            f"That takes {live.estimate_wait(comparison.usual_s)}. It goes on when you leave the page, and finished fits are kept.",
        )
        start = partial(grid.begin, "compare", about, comparison)
        shell.begin_button("Compare", start, REFUSED, type="primary", key="compare-start")
    return None


def show_results(frame: Frame, source: ComparedData, chosen: list[ComparedSetting], fits: Fits) -> None:
    """Everything below the controls. What comes in while fits run is drawn by the part that looks for it."""
    (found,) = fits.poll().values()
    with frame.picture:
        with st.container():  # always there, so that the pictures below are not drawn anew when it empties
            show_progress("compare-progress", fits, found.finished)
        pictures.draw(source, found)
    with frame.card:
        _verdicts(found)
    drawn: dict[str, Callable[[], None]] = {
        "Scores": lambda: _scores(found),
        "Differences": lambda: _differences(found),
        "Where they disagree": lambda: _disagreement(source, found),
        "Seeds": lambda: _seeds(source, found),
        "Other K": lambda: grid.tab(source, chosen),
        "Export": lambda: _export(found),
    }
    with frame.below:
        for name, place in tabs(list(drawn)):
            if place.open:
                with place:
                    if any(found.cells.values()):
                        drawn[name]()
                    else:
                        shell.empty("Nothing fitted yet", "This fills in with the first result.")


def _verdicts(found: Compared) -> None:
    """In words, a paragraph a measure: what was found, and what cannot be said."""
    st.html('<p class="gdm-panel-title">What can be told</p>')
    if not found.finished:
        shell.quiet("Every fit counts: the verdict stands when all are done.")
        return
    for label, message in found.failures.items():
        shell.error(f"{label} is left out", message)
    verdicts = [one for name in SAID if (one := found.verdict(name)) is not None and one.sentence]
    parts = [f"<dt>{escape(MEASURES[one.measure][0])}</dt><dd>{escape(one.sentence)}</dd>" for one in verdicts]
    st.html(f'<dl class="gdm-verdicts">{"".join(parts)}</dl>')
    if verdicts:
        shell.quiet(f"{verdicts[0].basis}. {DENSITY}")


def _scores(found: Compared) -> None:
    st.table(scores_table(found).replace("", "–"), border="horizontal")
    shell.quiet("Mean ± standard deviation over seeds. Baselines have no seeds.")


def scores_table(found: Compared) -> pd.DataFrame:
    """One row a setting, then one for each line to beat; text, as it is printed. A failed setting has its reason only."""

    def measured(cells: list[Cell]) -> dict[str, str]:
        of_blocks = {words: format_mean_sd([c.mean(m) for c in cells], n) for m, (words, n) in MEASURES.items()}
        given = {words: [c.scores[name] for c in cells if name in c.scores] for name, words in SCORES.items()}
        return of_blocks | {words: format_mean_sd(values, 3) for words, values in given.items()}

    rows = {}
    for label, by_seed in found.cells.items():
        if label in found.failures:
            rows[label] = {FAILED: found.failures[label]}
        elif cells := list(by_seed.values()):
            seconds = format_mean_sd([c.seconds for c in cells], 2)
            rows[label] = measured(cells) | {"parameters": f"{cells[0].parameters:,}", "seconds a fit": seconds}
    rows |= {name: measured([cell]) for name, cell in found.baselines.items()}
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("")
    return table.loc[:, (table != "").any()]


def _differences(found: Compared) -> None:
    measures = {name: words for name, (words, _) in MEASURES.items() if found.verdict(name) is not None}
    verdict = found.verdict(one_of("Measure", measures, row=True, key="measure"))
    if verdict is None or not verdict.differences:
        shell.empty("One setting alone", "Add a second one to compare it with.")
        return
    with shell.panel("differences"):
        plot(pictures.differences(verdict), key="differences")


def _disagreement(source: ComparedData, found: Compared) -> None:
    """The moments that two settings see differently."""
    firsts = pictures.firsts(found)
    if len(firsts) < 2:
        shell.empty("One setting alone", "Add a second one to see where the two differ.")
        return
    labels = list(firsts)
    left, right = st.columns(2, gap="small")
    one = left.selectbox("One", labels, 0, key="disagree-one")
    other = right.selectbox("The other", labels, 1, key="disagree-other")
    a, b = firsts[one if one in firsts else labels[0]], firsts[other if other in firsts else labels[1]]
    apart = comparisons.distance(a.states, b.states)
    like = comparisons.match_columns(b.states, a.states)
    step = pictures.step_of(source, a.stride)
    spans = comparisons.find_disagreements(apart)[:MOST_MOMENTS]
    share = 100 * (1 - float(apart.mean()))
    said = f"They agree on {share:.0f} % of all weight, states matched one to one."
    at = _moment(f"{one}/{other}", len(spans))
    window = None if at is None else pictures.around(spans[at], len(apart))
    if at is None:
        shell.quiet(f"{said} No stretch differs by more than half of its weight." if not spans else said)
    else:
        low, high = spans[at]
        where = f"{low * step:.4g} to {high * step:.4g} {source.unit}"
        differs = f"{100 * apart[low:high].mean():.0f} % of the weight differs"
        shell.quiet(f"{said} Moment {at + 1} of {len(spans)}, from {where}: {differs}.")
    with shell.panel("disagreement"):
        rows = {"one": a.states, "the other": like}
        strips = figures.state_strips(rows, step=step, unit=source.unit, height=130)
        over_time = pictures.apart(apart, step, source.unit)
        for key, figure in (("disagree-strips", strips), ("disagree-apart", over_time)):
            shown = figure if window is None else pictures.zoomed(figure, window[0] * step, window[1] * step)
            plot(shown, key=key, group="disagree", revision=f"{one}/{other}/{at}")
        if window is not None:
            pictures.on_the_map(source, a.stride, window, rows)


def _moment(of: str, count: int) -> int | None:
    """Which moment is looked at: none at first, then one after the other, with a button or its key."""
    kept: dict[str, int] = st.session_state.setdefault("_compare-moment", {})

    def on() -> None:
        kept[of] = (kept.get(of, -1) + 1) % count

    if count:
        said = "The weightiest first; key N."
        st.button("Next moment", shortcut="n", key="disagree-next", help=said, on_click=on)
    at = kept.get(of)
    return at if at is not None and at < count else None


def _seeds(source: ComparedData, found: Compared) -> None:
    """What the seeds of each setting agree on: the states that a careful person reports."""
    many = {label: cells for label, cells in found.cells.items() if len(cells) > 1}
    if not many:
        shell.empty("One seed alone", "With two seeds or more, this shows what they agree on.")
        return
    for label, cells in many.items():
        agreed = comparisons.find_consensus([cell.states for cell in cells.values()])
        step = pictures.step_of(source, next(iter(cells.values())).stride)
        with shell.panel(f"seeds-{label[0]}", f"{label} · {len(cells)} seeds agree on {100 * agreed.share:.1f} %"):
            plot(
                figures.state_strips({"consensus": agreed.states}, step=step, unit=source.unit, height=104),
                key=f"consensus-{label[0]}", group="seeds",
            )  # fmt: skip
            plot(pictures.apart(agreed.apart, step, source.unit), key=f"apart-{label[0]}", group="seeds")


def blocks_table(found: Compared) -> pd.DataFrame:
    """Every number that the verdicts are made from: one row a setting, seed and block."""
    lines = {name: {0: cell} for name, cell in found.baselines.items() if cell.blocks}
    rows = [
        {"setting": label, "seed": seed, "block": i, **{name: values[i] for name, values in cell.blocks.items()}}
        for label, cells in {**found.cells, **lines}.items()
        for seed, cell in cells.items()
        for i in range(max((len(values) for values in cell.blocks.values()), default=0))
    ]
    return pd.DataFrame(rows)


def _export(found: Compared) -> None:
    files: list[tuple[str, Callable[[], bytes], str]] = [
        ("Scores (CSV)", lambda: csv(scores_table(found).reset_index(names="setting")), "compare-scores.csv"),
        ("Every block (CSV)", lambda: csv(blocks_table(found)), "compare-blocks.csv"),
        ("Every block (Parquet)", lambda: blocks_table(found).to_parquet(index=False), "compare-blocks.parquet"),
    ]
    for place, (label, make, name) in zip(st.columns(3, gap="small"), files, strict=True):
        with place:
            download(label, make, name, key=name)
