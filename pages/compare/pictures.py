"""Figures of a comparison: states of all models in shared colours, and differences with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis.comparisons import MEASURES, Cell, Verdict
from gdm_core.analysis.matching import share_columns, to_columns
from gdm_core.engine import FitSpec
from gdm_core.engine.compare import Compared
from gdm_core.units import unit_for
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Dict, Figure, axis, figure, points, typed
from gdm_studio.plot.palette import MAX_STATES
from pages.compare.settings import ComparedData, ComparedSetting, labels
from pages.ui import shell, shipped
from pages.ui.exports import slug
from pages.ui.plot import coming, plot

ROW, TALL_ROW = 28, 58  # pixels of a strip, with tracks above it and without; and of an interval
WIDE, MOST = 3, 4  # tracks side by side; and tracks in two columns
TRUTH = "Ground truth"

States = npt.NDArray[np.float32]


def draw(source: ComparedData, chosen: list[ComparedSetting], found: Compared) -> dict[str, Figure]:
    """Draw the states of each model and the true ones as tracks, if there is a position, and as strips; return figures."""
    cells = first_cells(found)
    stride = next(iter(cells.values())).stride if cells else 1
    rows = align(source, found, stride, find_shipped(source, chosen))
    if not rows:
        shell.empty("Waiting for the first fit", "Each model appears when its first fit finishes.")
        return {}
    drawn: dict[str, Figure] = {}
    places = [*rows, *(label for label in found.cells if label not in rows and label not in found.failures)]
    position = source.test[0].position if len(source.test) == 1 else None
    if position is not None:
        look: Dict = {"height": 225, "width": 3.0, "step": timing(source, stride)["step"], "caption": ""}
        n_columns = 2 if len(places) in (2, MOST) else min(len(places), WIDE)
        rows_of_places = range(0, len(places), n_columns)  # phones stack columns
        columns = [column for _ in rows_of_places for column in st.columns(n_columns, gap="small")]
        for label, column in zip(places, columns, strict=False):
            name = f"track-{slug(label)}"
            with column:
                if (states := rows.get(label)) is None:
                    coming(f"compare-{name}", f"{label}: waiting for its first fit", look["height"])
                    continue
                drawn[name] = figures.track(position[::stride][: len(states)], states, title=label, **look)
                plot(drawn[name], key=f"compare-{name}")
    drawn["strips"] = figures.state_strips(
        {"true" if label is TRUTH else label.split(" ")[0]: states for label, states in rows.items()},
        height=60 + (TALL_ROW if position is None else ROW) * len(places),
        caption="Held-out, first seed.",
        **timing(source, stride),
    )
    plot(drawn["strips"], key="compare-strips")
    return drawn


def first_cells(found: Compared) -> dict[str, Cell]:
    """Return label -> fit of the first seed, for models that have one."""
    return {label: next(iter(cells.values())) for label, cells in found.cells.items() if cells}


def find_shipped(source: ComparedData, chosen: list[ComparedSetting]) -> dict[str, States]:
    """Return the held-out states of models whose precomputed fits of seed 0 ship with the app."""
    found = {}
    for label, one in zip(labels(chosen), chosen, strict=True):
        result = shipped.find_result(FitSpec(one.family, {**one.config, "seed": 0}, source.train, test=source.test))
        known = None if result is None else result.states
        if known is not None and known.held_out == source.test.fingerprint:
            found[label] = np.concatenate([known.soft(len(known.train) + i) for i in range(len(known.test))])
    return found


def timing(source: ComparedData, stride: int) -> dict[str, Any]:
    """Return the step and the unit of a time axis on which every `stride`-th sample is shown."""
    rate = source.test[0].rate_hz
    unit = unit_for(source.test.n_samples / rate, source.unit)
    return {"step": unit.convert(stride / rate), "unit": unit.name}


# ---- one colour per state -------------------------------------------------------------------------------------------
def align(source: ComparedData, found: Compared, stride: int, precomputed: Mapping[str, States]) -> dict[str, States]:
    """Return label -> states of the first seed in shared columns, after the true states if all are known.

    precomputed   states of models that have no fit yet
    """
    rows = {label: states[::stride] for label, states in precomputed.items()}
    rows |= {label: cell.states for label, cell in first_cells(found).items()}
    rows = {label: rows[label] for label in found.cells if label in rows}
    if all(trial.states is not None for trial in source.test):
        truth = np.concatenate([np.asarray(trial.states, np.float32) for trial in source.test])
        rows = {TRUTH: truth[::stride]} | rows
    if not rows:
        return {}
    columns = share_columns(list(rows.values()), MAX_STATES)
    n_columns = 1 + max(int(mine.max()) for mine in columns)
    return {label: to_columns(rows[label], mine, n_columns) for label, mine in zip(rows, columns, strict=True)}


# ---- differences ----------------------------------------------------------------------------------------------------
def differences(verdict: Verdict) -> Figure:
    """Draw the difference of each pair with its interval; others are grey."""
    words, digits = MEASURES[verdict.measure]
    pairs = [d for d in verdict.differences if np.isfinite([d.mean, d.half]).all()]
    names = [f"{_short(d.first)} − {_short(d.second)}" for d in pairs]
    traces: list[Dict] = []
    for colour, significant in (("$accent", True), ("$faint", False)):
        shown = [(name, d) for name, d in zip(names, pairs, strict=True) if bool(d.is_significant) is significant]
        if shown:
            bars: Dict = {"type": "data", "array": typed([d.half for _, d in shown]), "color": colour}
            look: Dict = {
                "marker": {"color": colour, "size": 9},
                "error_x": bars | {"thickness": 2, "width": 5},
                "y": [name for name, _ in shown],
            }
            traces.append(points("markers", [d.mean for _, d in shown], (), f"%{{y}}: %{{x:.{digits}f}}") | look)
    rows = axis(type="category", categoryorder="array", categoryarray=names[::-1], showgrid=False)
    axes: Dict = {"xaxis": axis(words, zeroline=True, zerolinecolor="$muted", exponentformat="power"), "yaxis": rows}
    caption = "First minus second with simultaneous 95% intervals. Grey: no significant difference."
    alt = "; ".join(f"{n} {d.text(verdict.measure)}" for n, d in zip(names, pairs, strict=True))
    return figure(traces, caption, alt, 70 + ROW * len(pairs), **axes)


def _short(label: str) -> str:
    """Return a label without the parameters."""
    return label.split(",")[0]
