"""A tracking file of the visitor's: which animals and parts are kept under which names, and what becomes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from datasets import keypoints
from datasets.keypoints import FeatureSet, KeypointTable
from gdm_core.errors import DataError
from pages.lab import Data
from pages.lab.poses.tracking import from_tracking
from pages.your_data.intake import OWN, OpenFile

Picked = tuple[tuple[int, str], ...]  # (which one of the file, its name here)
ASSUMED = "Hz is assumed"


@dataclass(frozen=True)
class PoseOptions:
    """What the visitor decided about a tracking file. `animals` and `parts` are those kept; () keeps all as they are.

    apart   whether the recordings of a table are trials of their own
    """

    rate_hz: float
    features: FeatureSet
    repairs: tuple[tuple[str, Any], ...]
    animals: Picked = ()
    parts: Picked = ()
    apart: bool = True


def chosen(table: KeypointTable, options: PoseOptions) -> KeypointTable:
    """The recording at the rate of the page, with the animals and parts that are kept, under their names."""
    made = replace(table, rate_hz=options.rate_hz)
    if not options.apart:
        made = replace(made, recordings=())
    if options.rate_hz != table.rate_hz:  # said by the visitor: nothing is assumed any more
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
        raise DataError(f"Two {what}s are called {twice!r}. Give one of them another name, or leave it out.")
    return kept


def from_poses(
    file: OpenFile, options: PoseOptions, labels: keypoints.Annotation | None = None, labels_file: str = ""
) -> Data:
    """Features of tracked animals, the last part of the recording held out.

    labels   what an expert saw, read from `labels_file`
    """
    source = file.content
    assert isinstance(source, KeypointTable)
    table = chosen(source, options)
    if labels is not None and table.recordings:
        raise DataError(
            f"{file.name} holds {len(table.recordings)} recordings, and {labels_file} does not say which of them it is of. "
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
        of=file.of,
        name=file.stem,
        keep=False,
    )


def _lines(source: KeypointTable, options: PoseOptions) -> list[str]:
    """What the script has to do to leave out, rename and lay together the same."""
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
