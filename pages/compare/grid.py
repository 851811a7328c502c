"""Heat map of one model over the number of states and a second parameter, with a link to each fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis.comparisons import MEASURES
from gdm_core.engine.compare import Compared, Comparison
from gdm_core.engine.job import Bulk
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure, note
from pages.compare.settings import ComparedData, ComparedSetting
from pages.lab import live
from pages.lab.live import panels
from pages.lab.live.background import show_progress, visitor_jobs
from pages.ui import navigation, shell
from pages.ui.controls import one_of, pick
from pages.ui.model_controls import STICKINESS
from pages.ui.plot import plot

STATES = (2, 3, 4, 5, 6, 8)
GRIDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "temperature": ("temperature (τ)", (0.3, 0.6, 0.99, 1.5)),
    "stickiness": ("stickiness (γ)", ("learn", 0.0, 0.3, 0.5, 0.7, 0.9)),
}


def tab(source: ComparedData, chosen: list[ComparedSetting]) -> None:
    """Show the choice of model and parameter, a button that starts the fits, and the map."""
    left, middle, right = st.columns(3, gap="medium", vertical_alignment="bottom")
    letters = {one.letter: one for one in chosen}
    one = letters[one_of("Model", list(letters), key="grid-of", place=left)]
    offered = {name: words for name, (words, _) in GRIDS.items() if name in one.config}
    against = (
        pick("Second parameter", offered, next(iter(offered)), place=middle, key="grid-against") if offered else None
    )
    comparison = Comparison(settings_of(one, against), (0,), source.train, source.test, keep=source.keep)
    fits: Bulk[Compared] | None = visitor_jobs().find(("compare-grid", comparison.key))
    if fits is None:
        label, start = f"Fit {comparison.n_fits} models", partial(begin, "compare-grid", comparison.key, comparison)
        refused = "The fits could not start"
        shell.begin_button(label, start, refused, place=right, type="primary", width="stretch", key="grid-start")
        shell.empty(
            f"Scores of {one.letter} by number of states",
            f"{comparison.n_fits} fits of one seed each, in the background. Compare promising ones with several seeds.",
        )
        return
    name = pick(
        "Measure", {name: words for name, (words, _) in MEASURES.items()}, "density", row=True, key="grid-measure"
    )
    found = fits.read()
    show_progress("grid-progress", fits, found.finished)
    with shell.panel("grid"):
        clicked = plot(heat(found, against, name), key="grid", clicked=lambda _: None).click
        if found.failures:
            shell.quiet(f"Failed fits: {len(found.failures)}. {next(iter(found.failures.values()))}")
        _link(source, one, against, clicked)


def begin(name: str, about: Hashable, comparison: Comparison) -> Bulk[Compared]:
    """Start the fits of this visitor; cancel earlier ones of that name."""
    engine, session = panels.engine(), f"{live.visitor()}/{name}"
    visitor_jobs().end(name)
    fits: Bulk[Compared] = visitor_jobs().get((name, about), lambda: comparison.start(engine, session))
    return fits


def cells_of(one: ComparedSetting, against: str | None) -> dict[tuple[str, str], ComparedSetting]:
    """Return the model of each cell by the words of its column and row."""
    values = GRIDS[against][1] if against else (None,)
    return {
        (str(k), _text(value)): replace(
            one, config=one.config | {"n_states": k} | ({against: value} if against else {})
        )
        for k in STATES
        for value in values
    }


def settings_of(one: ComparedSetting, against: str | None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the model of each cell by name."""
    return {"/".join(place): (cell.family, cell.config) for place, cell in cells_of(one, against).items()}


def _link(source: ComparedData, one: ComparedSetting, against: str | None, clicked: Mapping[str, Any] | None) -> None:
    """Show a link from the clicked cell to its fit on the page of these data."""
    if not source.page:
        shell.quiet("No other page shows these data.")
        return
    cell = cell_at(one, against, clicked)
    if cell is None:
        shell.quiet("Click a cell to open its fit.")
        return
    value = f", {GRIDS[against][0]} {_text(cell.config[against])}" if against else ""
    label = f"Open K {cell.config['n_states']}{value} on {navigation.info(source.page).title}"
    st.page_link(navigation.page(source.page), label=label, query_params=source.query(cell))


def cell_at(one: ComparedSetting, against: str | None, clicked: Mapping[str, Any] | None) -> ComparedSetting | None:
    """Return the model of a clicked cell, None if there is no such cell."""
    place = clicked if isinstance(clicked, Mapping) else {}
    return cells_of(one, against).get((str(place.get("x")), str(place.get("y", ""))))


def heat(found: Compared, against: str | None, measure: str) -> Figure:
    """Draw the measure for each K and value; failed fits are marked, missing ones blank."""
    words, values = GRIDS[against] if against else ("", (None,))
    rows, columns = [_text(value) for value in values], [str(k) for k in STATES]
    cells = {name: next(iter(by_seed.values())) for name, by_seed in found.cells.items() if by_seed}
    table = [[cells[name].mean(measure) if (name := f"{x}/{y}") in cells else np.nan for x in columns] for y in rows]
    title, digits = MEASURES[measure]
    caption = f"{title}; stronger is better. × marks failed fits."
    made = figures.heat(table, columns, rows, x_name="states (K)", y_name=words, digits=digits, caption=caption)
    failed = [name.split("/") for name in found.failures]
    made["layout"]["annotations"] = [note("×", x, y, xref="x", yref="y") for x, y in failed]  # type: ignore[arg-type]
    return made


def _text(value: Any) -> str:
    return "" if value is None else STICKINESS["learn"] if value == "learn" else f"{value:g}"
