"""Poses of a tracking file as a dataset: repairs, features, and the script lines that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasets import keypoints
from datasets.features import add_units
from datasets.keypoints import FeatureSet, KeypointSet, KeypointTable
from datasets.splits import split_recording
from gdm_core.text import plural
from pages.lab.dataset import Dataset, from_trials
from pages.ui import settings, shell
from pages.ui.controls import number, slide, switch
from pages.ui.exports import Recipe

FEATURES: dict[FeatureSet, str] = {"egocentric": "Egocentric features", "keypoints": "Raw keypoints"}
_FILL_HELP = "Estimates missing keypoints from other parts and from time; a missing animal for up to 3 s."
_SCORE_HELP = "Keypoints with a lower tracker score count as missing."


def choose_rate(known: float, key: str) -> float:
    """Show the frame rate, which is `known` unless the user changes it."""
    start = min(max(float(known), 1.0), 1000.0)
    return number("Frame rate (Hz)", 1.0, 1000.0, start, key=key, help="Most tracking files lack it.")


def choose_repairs(scope: str) -> dict[str, Any]:
    """Show the controls of repairs, and return the arguments of `keypoints.clean`."""
    most = keypoints.FILL_SECONDS
    shell.section("Repairs")
    return {
        "min_score": slide("Minimum score", 0.0, 0.95, 0.3, 0.05, key=settings.key("score", scope), help=_SCORE_HELP),
        "fill_seconds": slide(
            "Fill gaps up to (s)", 0.0, most, most, 0.5, key=settings.key("fill", scope), help=_FILL_HELP
        ),
        "drop_outliers": switch(
            "Remove jumps", True, key=settings.key("outliers", scope), help="Keypoints that jump away and return."
        ),
    }


def from_recordings(
    key: str, about: str, train: KeypointSet, test: KeypointSet, features: FeatureSet, recipe: Recipe, **more: Any
) -> Dataset:
    """Return a dataset of features of poses; `more` is as in `from_trials`."""
    poses, (fitted, new) = (*train.tables, *test.tables), (train.to_trials(features), test.to_trials(features))
    called = add_units(fitted[0].channels, poses[0].unit)
    return from_trials(key, about, fitted, new, recipe, poses=poses, called=called, **more)


@dataclass(frozen=True)
class TrackingFile:
    """A file of poses, as a script reads it.

    read    code that reads the poses
    edits   script lines that change the poses before repairs
    labels  name of the file of expert labels; "" without one
    """

    name: str
    read: str
    edits: Sequence[str] = ()
    labels: str = ""


def from_tracking(
    key: str,
    file: TrackingFile,
    table: KeypointTable,
    features: FeatureSet,
    repairs: dict[str, Any],
    *,
    notes: Sequence[str] = (),
    **more: Any,
) -> Dataset:
    """Return the dataset of one file, repaired, the last part held out; `notes` and `more` are as in `from_trials`."""
    made = keypoints.clean(table, **repairs)
    repaired = keypoints.report(table, max(repairs["min_score"], 1e-6)).sentences()
    new = [note for note in made.notes if note not in table.notes]
    about = f"{file.name}, {plural(table.n_frames, 'frame')}, {plural(len(table.animals), 'animal')}"
    if table.recordings:
        about += f", {plural(len(table.recordings), 'recording')}"
    edits, needed = [*file.edits], file.name
    if file.labels:
        edits += [
            f"marks = keypoints.read_annotation({file.labels!r}, rate_hz={table.rate_hz!r})",
            "table = keypoints.with_labels(table, marks.labels, marks.label_names)",
        ]
        needed += f" and {file.labels}"
    imports = ["from dataclasses import replace"] if any("replace(" in line for line in file.edits) else []
    lines = [
        f"table = {file.read}",
        *edits,
        f"table = keypoints.clean(table, {', '.join(f'{name}={value!r}' for name, value in repairs.items())})",
        f"train, test = (part.to_trials({features!r}) for part in splits.split_recording(table))",
    ]
    recipe = Recipe(
        [*imports, f"from gdm_studio.datasets import keypoints, {'tables, ' if 'tables.' in file.read else ''}splits"],
        lines,
        note=f"It reads {needed} in its folder.",
    )
    return from_recordings(
        key, about, *split_recording(made), features, recipe, notes=[*repaired, *new, *notes], **more
    )
