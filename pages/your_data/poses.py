"""Check of a tracking file: animals, parts and their names, and conversion to a Dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets import keypoints
from datasets.keypoints import FeatureSet, KeypointTable
from gdm_core.analysis.tables import harmless
from gdm_core.errors import DataError, GdmError
from pages.lab import Dataset
from pages.lab.poses.tracking import FEATURES, choose_repairs, from_tracking
from pages.ui import shell
from pages.ui.controls import number, one_of, switch
from pages.ui.tables import rows_high
from pages.your_data.check import show_report
from pages.your_data.intake import KEPT, OWN, OpenFile, edited

Picked = tuple[tuple[int, str], ...]  # (index in the file, name)
ASSUMED = "Hz is assumed"


@dataclass(frozen=True)
class PoseOptions:
    """Options of a tracking file.

    animals, parts  those that are kept, with their names; () keeps all
    apart           whether each recording of a table is a trial
    """

    rate_hz: float
    features: FeatureSet
    repairs: tuple[tuple[str, Any], ...]
    animals: Picked = ()
    parts: Picked = ()
    apart: bool = True


def select(table: KeypointTable, options: PoseOptions) -> KeypointTable:
    """Return the recording with the chosen rate, animals, parts and names."""
    made = replace(table, rate_hz=options.rate_hz)
    if not options.apart:
        made = replace(made, recordings=())
    if options.rate_hz != table.rate_hz:  # the rate is no longer assumed
        made = replace(made, notes=tuple(note for note in table.notes if ASSUMED not in note))
    if not _edited(table, options):
        return made
    animals = _picked("animal", options.animals, table.animals)
    parts = _picked("part", options.parts, table.parts)
    a, p = [i for i, _ in animals], [i for i, _ in parts]
    place = {old: new for new, old in enumerate(p)}
    return replace(
        made,
        xy=np.asarray(table.xy)[:, a][..., p],
        scores=None if table.scores is None else np.asarray(table.scores)[:, a][..., p],
        animals=tuple(name for _, name in animals),
        parts=tuple(name for _, name in parts),
        edges=tuple((place[i], place[j]) for i, j in table.edges if i in place and j in place),
    )


def _all(names: Sequence[str]) -> Picked:
    return tuple(enumerate(names))


def _edited(table: KeypointTable, options: PoseOptions) -> bool:
    return options.animals not in ((), _all(table.animals)) or options.parts not in ((), _all(table.parts))


def _picked(what: str, picked: Picked, names: Sequence[str]) -> Picked:
    kept = picked or _all(names)
    shown = [name for _, name in kept]
    if twice := next((name for name in shown if shown.count(name) > 1), None):
        raise DataError(f"Two {what}s are called {twice!r}. Rename or leave out one of them.")
    return kept


def from_poses(
    file: OpenFile, options: PoseOptions, labels: keypoints.Annotation | None = None, labels_file: str = ""
) -> Dataset:
    """Convert poses to features and hold out the last part of the recording.

    labels   expert labels, read from `labels_file`
    """
    source = file.content
    assert isinstance(source, KeypointTable)
    table = select(source, options)
    if labels is not None and table.recordings:
        raise DataError(
            f"{file.name} has {len(table.recordings)} recordings, and {labels_file} does not name one of them. "
            "Put the labels into a column of the table, or fit all rows as one recording."
        )
    if labels is not None:
        table = keypoints.with_labels(table, labels.labels, labels.label_names)
    marked = "" if labels is None else f"-{hashlib.sha256(labels.labels.tobytes()).hexdigest()[:12]}"
    return from_tracking(
        f"{file.digest}-{options!r}{marked}",
        file.name,
        table,
        options.features,
        dict(options.repairs),
        read=file.table,
        edits=_lines(source, options),
        labels=labels_file if labels is not None else "",
        notes=[f"labels: {note}" for note in labels.notes] if labels is not None else [],
        licences=(OWN,),
        of=file.scope,
        name=file.stem,
        keep=False,
    )


def _lines(source: KeypointTable, options: PoseOptions) -> list[str]:
    """Return the code that selects, renames and joins the same parts."""
    as_one = (
        ["table = replace(table, recordings=())  # all rows as one"] if source.recordings and not options.apart else []
    )
    if not _edited(source, options):
        return as_one
    animals, parts = options.animals or _all(source.animals), options.parts or _all(source.parts)
    a, p = [i for i, _ in animals], [i for i, _ in parts]
    return [
        *as_one,
        f"a, p = {a}, {p}  # the animals and parts that are kept",
        "scores = None if table.scores is None else table.scores[:, a][..., p]",
        f"table = replace(table, xy=table.xy[:, a][..., p], scores=scores, edges=(), animals={tuple(n for _, n in animals)!r},",
        f"    parts={tuple(n for _, n in parts)!r})",
    ]


def pose_options(file: OpenFile, advanced: Any) -> PoseOptions:
    """Show the controls of a tracking file; repairs go to `advanced`."""
    table = file.content
    assert isinstance(table, KeypointTable)
    animals, parts = edited_names(file)
    shell.section("Poses")
    start = float(np.clip(table.rate_hz, 1.0, 1000.0))
    rate = number("Frame rate (Hz)", 1.0, 1000.0, start, key="fps", of=file.scope, help="Most tracking files lack it.")
    features = one_of(
        "Features",
        FEATURES,
        "egocentric" if len(parts) > 1 else "keypoints",
        row=True,
        key="features",
        of=file.scope,
        help="Egocentric: body shape, speeds and relation to a partner. Raw: all coordinates.",
    )
    text = "Otherwise all rows are one recording."
    apart = not table.recordings or switch("One trial per recording", True, key="apart", of=file.scope, help=text)
    with advanced:
        repairs = tuple(choose_repairs(file.scope).items())
    return PoseOptions(rate, features, repairs, animals, parts, apart)


def edited_names(file: OpenFile) -> tuple[Picked, Picked]:
    """Return the selected animals and parts in the editor, with their names."""
    table = file.content
    assert isinstance(table, KeypointTable)
    _, now = edited(_key(file), _as_found(table))
    names = [*table.animals, *table.parts]
    rows = [(str(row["name"] or "").strip() or name, bool(row["use"])) for row, name in zip(now, names, strict=True)]
    n = len(table.animals)
    animals = tuple((i, name) for i, (name, use) in enumerate(rows[:n]) if use)
    parts = tuple((i, name) for i, (name, use) in enumerate(rows[n:]) if use)
    return animals, parts


def _as_found(table: KeypointTable) -> list[dict[str, Any]]:
    return [{"name": name, "use": True} for name in (*table.animals, *table.parts)]


def _key(file: OpenFile) -> str:
    return f"{KEPT}-parts-{file.digest}"


def pose_panel(file: OpenFile, options: PoseOptions) -> bool:
    """Show the editor of names and the report; return True if the file can be fitted."""
    table = file.content
    assert isinstance(table, KeypointTable)
    with shell.panel("poses", "Animals and body parts"):
        tracked = np.isfinite(np.asarray(table.xy)).all(axis=2)  # [T, A, P]
        rows, _ = edited(_key(file), _as_found(table))
        shown = pd.DataFrame(
            {
                "type": ["animal"] * len(table.animals) + ["part"] * len(table.parts),
                "name": [row["name"] for row in rows],
                "use": [row["use"] for row in rows],
                "tracked": [
                    f"{100 * share:.3g}%" for share in (*tracked.mean(axis=(0, 2)), *tracked.mean(axis=(0, 1)))
                ],
            }
        )
        st.data_editor(
            shown.map(harmless),
            hide_index=True,
            key=_key(file),
            disabled=["type", "tracked"],
            height=rows_high(len(shown), 300),
            column_config={"tracked": st.column_config.TextColumn("tracked", help="Share of frames with a position.")},
        )
    with shell.panel("report", "Data quality"):
        if not (options.animals and options.parts):
            shell.error("Nothing is selected", "Keep at least one animal and one part.")
            return False
        try:
            kept = select(table, options)
        except GdmError as error:
            shell.error("These names contradict each other", str(error))
            return False
        shell.quiet(f"{table.n_frames:,} frames.")
        show_report(keypoints.report(kept, max(float(dict(options.repairs)["min_score"]), 1e-6)).sentences())
    return True
