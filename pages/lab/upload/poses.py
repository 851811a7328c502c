"""Check of a tracking file: its animals and parts, and conversion to a Dataset."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets import keypoints
from datasets.keypoints import FeatureSet, KeypointTable
from gdm_core.errors import DataError
from gdm_studio.plot.figures.base import Dict, Figure, axis, figure, points
from gdm_studio.plot.figures.states import plain
from pages.lab.dataset import Dataset
from pages.lab.poses.player import skeleton_edges
from pages.lab.poses.tracking import FEATURES, TrackingFile, choose_rate, choose_repairs, from_tracking
from pages.lab.upload.file import KEPT, OWN, OpenFile, apply_edits, show_editor
from pages.lab.upload.table import report_text
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

ASSUMED = "Hz is assumed"
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "star")  # of the first animals
COLOURS = ("$accent", "$ink", "$muted")


@dataclass(frozen=True)
class PoseOptions:
    """Options of a tracking file. `animals` and `parts` are the indices of those that are kept; () keeps all."""

    rate_hz: float
    features: FeatureSet
    repairs: tuple[tuple[str, Any], ...]
    animals: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()


def select(table: KeypointTable, options: PoseOptions) -> KeypointTable:
    """Return the recording with the chosen rate, animals and parts."""
    made = replace(table, rate_hz=options.rate_hz)
    if options.rate_hz != table.rate_hz:  # the rate is no longer assumed
        made = replace(made, notes=tuple(note for note in table.notes if ASSUMED not in note))
    if (selection := _find_selection(table, options)) is None:
        return made
    a, p = selection
    place = {old: new for new, old in enumerate(p)}
    return replace(
        made,
        xy=np.asarray(table.xy)[:, a][..., p],
        scores=None if table.scores is None else np.asarray(table.scores)[:, a][..., p],
        animals=tuple(table.animals[i] for i in a),
        parts=tuple(table.parts[i] for i in p),
        edges=tuple((place[i], place[j]) for i, j in table.edges if i in place and j in place),
    )


def _find_selection(table: KeypointTable, options: PoseOptions) -> tuple[list[int], list[int]] | None:
    """Return the indices of the animals and parts that are kept; None for all."""
    animals, parts = list(range(len(table.animals))), list(range(len(table.parts)))
    kept = list(options.animals) or animals, list(options.parts) or parts
    return None if kept == (animals, parts) else kept


def from_poses(
    file: OpenFile, options: PoseOptions, labels: keypoints.Annotation | None = None, labels_file: str = ""
) -> Dataset:
    """Convert poses to features and hold out the last part of the recording.

    labels   expert labels, read from `labels_file`
    """
    source = file.as_keypoints
    table, rate = select(source, options), options.rate_hz
    marked, notes = "", list[str]()
    if labels is not None:
        if table.recordings:
            raise DataError(
                f"{file.name} has {len(table.recordings)} recordings, and {labels_file} does not name one of them. "
                "Put the labels into a column of the table."
            )
        table = keypoints.with_labels(table, labels.labels, labels.label_names)
        marked = f"-{hashlib.sha256(labels.labels.tobytes()).hexdigest()[:12]}"
        notes = [f"labels: {note}" for note in labels.notes]
    plain = f"keypoints.from_table({file.table}, {rate!r})"
    read = plain if file.table else f"keypoints.read({file.name!r}, rate_hz={rate!r})"
    return from_tracking(
        f"{file.digest}-{options!r}{marked}",
        TrackingFile(file.name, read, _lines(source, options), labels_file),
        table,
        options.features,
        dict(options.repairs),
        notes=notes,
        licences=(OWN,),
        scope=file.scope,
        name=file.stem,
        keep=False,
    )


def _lines(source: KeypointTable, options: PoseOptions) -> list[str]:
    """Return the code that selects the same animals and parts."""
    if (selection := _find_selection(source, options)) is None:
        return []
    return [
        f"a, p = {selection[0]}, {selection[1]}  # the animals and parts that are kept",
        "scores = None if table.scores is None else table.scores[:, a][..., p]",
        "animals, parts = [table.animals[i] for i in a], [table.parts[i] for i in p]",
        "table = replace(table, xy=table.xy[:, a][..., p], scores=scores, edges=(), animals=animals, parts=parts)",
    ]


def pose_options(file: OpenFile, advanced: Any) -> PoseOptions:
    """Show the controls of a tracking file; repairs go to `advanced`."""
    table = file.as_keypoints
    animals, parts = read_selection(file)
    shell.section("Poses")
    rate = choose_rate(table.rate_hz, settings.key("fps", file.scope))
    text = "Egocentric: body shape, speeds and relation to a partner. Raw: all coordinates."
    start: FeatureSet = "egocentric" if len(parts) > 1 else "keypoints"
    features = one_of("Features", FEATURES, start, row=True, key=settings.key("features", file.scope), help=text)
    with advanced:
        repairs = tuple(choose_repairs(file.scope).items())
    return PoseOptions(rate, features, repairs, animals, parts)


def draw_frame(table: KeypointTable) -> Figure:
    """Draw the frame with the most parts: one symbol per animal, joined by lines."""
    xy = np.asarray(table.xy)
    t = int(np.isfinite(xy).all(axis=2).sum(axis=(1, 2)).argmax())
    bones = [
        points("lines", *xy[t, a][:, pair], showlegend=False, line={"width": 1, "color": COLOURS[a % 3]})
        for a in range(len(table.animals[: len(SYMBOLS)]))
        for pair in map(list, skeleton_edges(table))
    ]
    traces = [
        points(
            "markers+text", xy[t, a, 0], xy[t, a, 1], text=[plain(part) for part in table.parts], name=plain(animal),
            textposition="top center", marker={"size": 8, "symbol": SYMBOLS[a], "color": COLOURS[a % 3]}, showlegend=True,
        )
        for a, animal in enumerate(table.animals[: len(SYMBOLS)])
    ]  # fmt: skip
    caption, alt = f"Frame {t:,}: one symbol for each animal.", f"Body parts of {len(traces)} animals in one frame."
    axes: Dict = {
        "xaxis": axis("", scaleanchor="y", showgrid=False),
        "yaxis": axis("", autorange="reversed", showgrid=False),
    }
    return figure([*bones, *traces], caption, alt, 300, **axes)


def read_selection(file: OpenFile) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the animals and parts that are selected in the editor."""
    used = [row["use"] for row in _edited(file)[1]]
    n = len(file.as_keypoints.animals)
    animals, parts = (tuple(np.flatnonzero(some).tolist()) for some in (used[:n], used[n:]))
    return animals, parts


def _edited(file: OpenFile) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of animals, then parts, to draw the editor with, and the edited ones."""
    table = file.as_keypoints
    return apply_edits(_key(file), f"{_key(file)}-changed", [{"use": True}] * (len(table.animals) + len(table.parts)))


def _key(file: OpenFile) -> str:
    return f"{KEPT}-parts-{file.digest}"


def pose_panel(file: OpenFile, options: PoseOptions) -> bool:
    """Show the choice of animals and parts, and the report; return True if the file can be fitted."""
    table = file.as_keypoints
    with shell.panel("poses", "Animals and body parts"):
        tracked = np.isfinite(np.asarray(table.xy)).all(axis=2)  # [T, A, P]
        shares = (*tracked.mean(axis=(0, 2)), *tracked.mean(axis=(0, 1)))
        kinds = ["animal"] * len(table.animals) + ["part"] * len(table.parts)
        use = [row["use"] for row in _edited(file)[0]]
        shown = pd.DataFrame({"type": kinds, "name": [*table.animals, *table.parts], "use": use})
        shown["tracked frames"] = [f"{100 * share:.3g}%" for share in shares]
        show_editor(_key(file), shown, 300, use=st.column_config.CheckboxColumn("use"))
        plot(draw_frame(table), key="one-frame")
    with shell.panel("report", "Data quality"):
        if not (options.animals and options.parts):
            shell.error("Nothing is selected", "Keep at least one animal and one part.")
            return False
        shell.quiet(f"{table.sentence()}.")
        least = max(float(dict(options.repairs)["min_score"]), 1e-6)
        shell.quiet(report_text(keypoints.report(select(table, options), least)))
    return not table.doubts
