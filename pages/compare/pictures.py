"""Figures of a comparison: states side by side in one palette, intervals of differences, and how far two readings are apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis import comparisons
from gdm_core.analysis.comparisons import MEASURES, Cell, Verdict
from gdm_core.engine.compare import Compared
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import TIME_MARGIN, Dict, Figure, axis, figure, points, time_cursor, typed
from gdm_studio.plot.figures.states import averaged
from pages.compare.settings import ComparedData
from pages.ui import shell
from pages.ui.plot import plot

ROW, TALL_ROW = 34, 58  # pixels of a strip, with tracks above it and without; and of an interval
TRACKS = 4  # side by side
ROOM = 30  # samples shown before and after a moment, at least


def draw(source: ComparedData, found: Compared) -> None:
    """The true states, where they are known, and one row of states for every setting; tracks above, where there is one."""
    rows = states_side_by_side(source, found)
    if not rows:
        shell.empty("The first fits are under way", "Each setting shows here as soon as one of its fits is done.")
        return
    stride = next(iter(firsts(found).values())).stride
    trial = source.test[0]
    position = trial.position if len(source.test) == 1 else None
    if position is not None:
        columns = st.columns(len(rows) if len(rows) <= TRACKS else TRACKS - 1, gap="small")
        for i, (label, states) in enumerate(rows.items()):
            with columns[i % len(columns)]:
                made = figures.track(
                    position[::stride][: len(states)], states, title=label, height=170, width=3.0, caption=""
                )
                plot(made, key=f"compare-track-{i}")
    made = figures.state_strips(
        {label.split(" ")[0]: states for label, states in rows.items()},
        step=step_of(source, stride), unit=source.unit, height=60 + (TALL_ROW if position is None else ROW) * len(rows),
        caption="New trials in the states of the first seed, matched across settings: one colour means one thing.",
    )  # fmt: skip
    plot(made, key="compare-strips")


def firsts(found: Compared) -> dict[str, Cell]:
    """The fit of the first seed of each setting that has one."""
    return {label: next(iter(cells.values())) for label, cells in found.cells.items() if cells}


def step_of(source: ComparedData, stride: int) -> float:
    """From one shown sample to the next, in the unit of the source."""
    return stride / source.test[0].rate_hz


def states_side_by_side(source: ComparedData, found: Compared) -> dict[str, npt.NDArray[np.float32]]:
    """Label -> [T', K] states of the first seed, in the columns of the true states or of the first setting."""
    cells = firsts(found)
    if not cells:
        return {}
    reference, truth = next(iter(cells.values())), None
    if all(trial.states is not None for trial in source.test):
        truth = np.concatenate([np.asarray(trial.states, np.float32) for trial in source.test])[:: reference.stride]
    columns = reference.states if truth is None else truth
    rows = {label: comparisons.match_columns(cell.states, columns) for label, cell in cells.items()}
    return rows if truth is None else {"true": truth, **rows}


def differences(verdict: Verdict) -> Figure:
    """Each pair's difference with its interval; those that leave out zero are dark."""
    words, digits = MEASURES[verdict.measure]
    pairs = [d for d in verdict.differences if np.isfinite([d.mean, d.half]).all()]
    names = [f"{_short(d.first)} − {_short(d.second)}" for d in pairs]
    traces: list[Dict] = []
    for colour, told in (("$accent", True), ("$faint", False)):
        shown = [(name, d) for name, d in zip(names, pairs, strict=True) if bool(d.is_significant) is told]
        if shown:
            either: Dict = {
                "type": "data",
                "array": typed([d.half for _, d in shown]),
                "color": colour,
                "thickness": 2,
                "width": 5,
            }
            look: Dict = {"marker": {"color": colour, "size": 9}, "error_x": either, "y": [name for name, _ in shown]}
            traces.append(points("markers", [d.mean for _, d in shown], (), f"%{{y}}: %{{x:.{digits}f}}") | look)
    rows = axis(type="category", categoryorder="array", categoryarray=names[::-1], showgrid=False)
    axes: Dict = {"xaxis": axis(words, zeroline=True, zerolinecolor="$muted"), "yaxis": rows}
    caption = (
        "Each dot is the first minus the second; the line holds the true difference with 95 % for all pairs at "
        "once. Faint ones cross zero: nothing can be said of them."
    )
    alt = "; ".join(f"{n} {d.text(verdict.measure)}" for n, d in zip(names, pairs, strict=True))
    return figure(traces, caption, alt, 70 + ROW * len(pairs), **axes)


def _short(label: str) -> str:
    """A setting without what tells it from others of its model, a line to beat by its name."""
    return label.split(",")[0]


def apart(values: npt.NDArray[np.float32], step: float, unit: str) -> Figure:
    """How much of the weight is in different states, over time."""
    shown, width = averaged(values, 1_200)
    time = np.arange(len(shown), dtype=np.float32) * step * width
    look: Dict = {"fill": "tozeroy", "fillcolor": "$band", "line": {"color": "$accent", "width": 1.2}}
    curve = points("lines", time, 100 * shown, f"{unit} %{{x:.4~g}} · %{{y:.0f}} % differ", **look)
    alt = f"Disagreement over time, {100 * float(np.mean(values)):.0f} percent on average."
    axes: Dict = {"xaxis": axis(unit, showgrid=False), "yaxis": axis("% apart", range=[0, 100], nticks=3)}
    said = "Part of the weight that is in different states."
    return figure([curve], said, alt, 110, cursor=time_cursor(), margin=TIME_MARGIN, **axes)


def around(span: tuple[int, int], length: int) -> tuple[int, int]:
    """The samples to look at for a moment: as much before and after it as it lasts, and never next to nothing."""
    room = max(ROOM, span[1] - span[0])
    return max(0, span[0] - room), min(length, span[1] + room)


def zoomed(figure: Figure, low: float, high: float) -> Figure:
    """The same over a part of its time."""
    wide = figure["layout"] | {"xaxis": figure["layout"]["xaxis"] | {"range": [low, high], "autorange": False}}
    return figure | {"layout": wide}


def on_the_map(
    source: ComparedData, stride: int, window: tuple[int, int], rows: Mapping[str, npt.NDArray[np.float32]]
) -> None:
    """Both readings of the moment where it happened, over the whole path in grey, where there is one."""
    if len(source.test) > 1 or source.test[0].position is None:
        return
    path, (low, high) = np.asarray(source.test[0].position)[::stride], window
    for place, (name, states) in zip(st.columns(len(rows), gap="small"), rows.items(), strict=True):
        with place:
            made = figures.track(
                path[low:high], states[low:high], title=name, ghost=path, height=190, width=4.0, caption=""
            )
            plot(made, key=f"disagree-map-{name}")
