"""Poses of a tracking file as data: what is repaired, which features a fit sees, and the lines of a script that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from datasets import keypoints
from datasets.features import add_units
from datasets.keypoints import FeatureSet, KeypointSet, KeypointTable
from datasets.splits import split_recording
from pages.lab.dataset import Dataset, from_trials
from pages.ui.controls import slide, switch
from pages.ui.exports import Recipe

FEATURES: dict[FeatureSet, str] = {"egocentric": "What they do", "keypoints": "Raw keypoints"}
_FILL_HELP = "Estimates lost parts from the animal's other parts and from time; a lost animal only up to 3 s."
_SCORE_HELP = "Parts that the tracker is less sure of count as missing."


def cleaning(of: str) -> dict[str, Any]:
    """What to repair in the tracked poses of the recording `of`, as `keypoints.clean` takes it."""
    with st.expander("Repairs", icon=":material/healing:"):
        return {
            "min_score": slide("Least score", 0.0, 0.95, 0.3, 0.05, key="score", of=of, help=_SCORE_HELP),
            "fill_seconds": slide(
                "Fill gaps up to (s)",
                0.0,
                keypoints.FILL_SECONDS,
                keypoints.FILL_SECONDS,
                0.5,
                key="fill",
                of=of,
                help=_FILL_HELP,
            ),
            "drop_outliers": switch("Drop jumps", True, key="outliers", of=of, help="Parts that jump and return."),
        }


def from_recordings(
    key: str, about: str, train: KeypointSet, test: KeypointSet, features: FeatureSet, recipe: Recipe, **more: Any
) -> Dataset:
    """Poses as features; `more` is as in `from_trials`."""
    poses, (fitted, new) = (*train.tables, *test.tables), (train.to_trials(features), test.to_trials(features))
    called = add_units(fitted[0].channels, poses[0].unit)
    return from_trials(key, about, fitted, new, recipe, poses=poses, called=called, **more)


def from_tracking(
    key: str,
    file: str,
    table: KeypointTable,
    features: FeatureSet,
    repairs: dict[str, Any],
    *,
    read: str = "",
    edits: Sequence[str] = (),
    labels: str = "",
    notes: Sequence[str] = (),
    **more: Any,
) -> Dataset:
    """The poses of one file, repaired, the last part held out; `more` is as in `from_trials`.

    For the script: `read` is how it reads a plain table that holds the poses, "" for a tracking file; `edits` are lines that
    change the poses before they are repaired; `labels` is the file beside it with what an expert saw, "" for none.

    notes  what else there is to say of the file
    """
    made = keypoints.clean(table, **repairs)
    said = keypoints.report(table, max(repairs["min_score"], 1e-6)).sentences()
    new = [note for note in made.notes if note not in table.notes]
    n, several, rate = len(table.animals), len(table.recordings), table.rate_hz
    about = f"{file}, {table.n_frames:,} frames, {n} {'animal' if n == 1 else 'animals'}"
    marked = [
        f"marks = keypoints.read_annotation({labels!r}, rate_hz={rate!r})",
        "table = keypoints.with_labels(table, marks.labels, marks.label_names)",
    ]
    imports = ["from dataclasses import replace"] if any("replace(" in line for line in edits) else []
    lines = [
        f"table = keypoints.from_table({read}, {rate!r})"
        if read
        else f"table = keypoints.read({file!r}, rate_hz={rate!r})",
        *edits,
        *(marked if labels else []),
        f"table = keypoints.clean(table, {', '.join(f'{name}={value!r}' for name, value in repairs.items())})",
        f"train, test = (part.to_trials({features!r}) for part in splits.split_recording(table))",
    ]
    recipe = Recipe(
        [*imports, f"from gdm_studio.datasets import keypoints, {'tables, ' if read else ''}splits"],
        lines,
        note=f"The files {file} and {labels} have to be there." if labels else f"The file {file} has to be there.",
    )
    return from_recordings(
        key, f"{about}, {several} recordings" if several else about, *split_recording(made), features, recipe,
        notes=[*said, *new, *notes], **more,
    )  # fmt: skip
