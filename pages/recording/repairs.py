"""What is repaired in tracked poses: the controls, and the lines of a script that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from pages.ui.controls import slide, switch
from pages.ui.exports import Recipe


def cleaning(of: str) -> dict[str, Any]:
    """What to repair in the tracked poses of the recording `of`."""
    with st.expander("Repairs", icon=":material/healing:"):
        return {
            "min_score": slide("Least score", 0.0, 0.95, 0.3, 0.05, key="score", of=of, help=_SCORE_HELP).value,
            "fill_seconds": slide("Fill gaps up to (s)", 0.0, 2.0, 0.2, 0.1, key="fill", of=of, help=_FILL_HELP).value,
            "drop_outliers": switch("Drop jumps", True, key="outliers", of=of, help="Parts that jump and return."),
            "undo_side_flips": switch("Undo left-right flips", False, key="flips", of=of),
            "undo_identity_swaps": switch("Undo swapped animals", False, key="swaps", of=of),
        }


_FILL_HELP = "Straight lines across short gaps; longer ones stay missing, and models skip them."
_SCORE_HELP = "Parts that the tracker is less sure of count as missing."
REPAIRS = ("min_score", "fill_seconds", "drop_outliers", "undo_side_flips", "undo_identity_swaps")


def pose_recipe(
    file: str,
    rate: float,
    repairs: dict[str, Any],
    features: str,
    table: str = "",
    edits: Sequence[str] = (),
    labels: str = "",
) -> Recipe:
    """The lines that read, repair and cut one recording as the page does.

    table  how the plain table is read that holds the poses, "" for a tracking file; edits: lines that change the poses
           before they are repaired; labels: the file beside it with what an expert saw, "" for none
    """
    marked = [
        f"marks = keypoints.read_annotation({labels!r}, rate_hz={rate!r})",
        "table = keypoints.with_labels(table, marks.labels, marks.label_names)",
    ]
    changed = ", ".join(f"{name}={value!r}" for name, value in repairs.items())
    read = f"keypoints.read({file!r}, rate_hz={rate!r})"
    made = f"keypoints.from_table({table}, {rate!r})"
    return Recipe(
        [
            *(["from dataclasses import replace"] if any("replace(" in line for line in edits) else []),
            f"from gdm_studio.datasets import keypoints, {'tables, ' if table else ''}splits",
        ],
        [
            f"table = {made if table else read}",
            *edits,
            *(marked if labels else []),
            f"table = keypoints.clean(table, {changed})",
            f"train, test = (part.to_trials({features!r}) for part in splits.split_recording(table))",
        ],
        note=f"The files {file} and {labels} have to be there." if labels else f"The file {file} has to be there.",
    )
