"""A tracking file of the visitor's: which animals and parts are kept under which names, and what becomes of them; and what was
understood of it before any fit, with what is wrong part by part over time, and one pose with the names of its parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets import keypoints
from datasets.calms21 import EDGES, PARTS
from datasets.keypoints import FeatureSet, KeypointTable
from datasets.readers.quality import outlier_mask
from gdm_core.analysis.tables import harmless
from gdm_core.errors import DataError, GdmError
from gdm_studio.plot.figures.base import (
    FINE,
    Dict,
    Figure,
    axis,
    figure,
    fixed_plane,
    note,
    plain,
    points,
    rows_axis,
    shape,
    typed,
)
from gdm_studio.plot.figures.states import numbered_colours
from pages.lab import Dataset
from pages.lab.poses.tracking import FEATURES, cleaning, from_tracking
from pages.ui import shell
from pages.ui.controls import number, one_of, switch
from pages.ui.plot import plot
from pages.ui.tables import rows_high
from pages.your_data.check import say_report
from pages.your_data.intake import KEPT, OWN, OpenFile, edited, remembered

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
) -> Dataset:
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


# ---- what was understood --------------------------------------------------------------------------------------------
# Number in the picture: (word, colour). A cell shows the one that most of its frames have.
KINDS: dict[int, tuple[str, str]] = {
    1: ("not tracked", "#8a8fa0"),
    2: ("low score", "#ff874b"),
    3: ("jumps", "#e1000f"),
}
LEVELS = ((0.05, "66"), (0.5, "aa"), (1.0, "ff"))  # up to this share of the frames, this opacity
COLUMNS = 240
ROW_PX = 13


def pose_options(file: OpenFile) -> PoseOptions:
    """The controls of a tracking file, in the sidebar, and what its editor says."""
    table = file.content
    assert isinstance(table, KeypointTable)
    animals, parts = edited_names(file)
    shell.section("Poses")
    start, said = float(np.clip(table.rate_hz, 1.0, 1000.0)), "Most tracking files do not say."
    rate = number("Frames a second", 1.0, 1000.0, start, key="fps", of=file.of, help=said)
    features = one_of(
        "Features",
        FEATURES,
        "egocentric" if len(parts) > 1 else "keypoints",
        row=True,
        key="features",
        of=file.of,
        help="What they do: body shape, speeds and the relation to a partner. Raw keypoints: every coordinate.",
    )
    said = "As columns such as recording and animal tell them apart. Without it, all rows are one recording."
    apart = not table.recordings or switch("Each recording a trial", True, key="apart", of=file.of, help=said)
    return PoseOptions(rate, features, tuple(cleaning(file.of).items()), animals, parts, apart)


def edited_names(file: OpenFile) -> tuple[Picked, Picked]:
    """(animals, parts) as they stand in the editor of this file: those kept, under their names."""
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
    """The editor, the report and a picture of what is wrong. Whether there is something left to fit."""
    table, kept, trouble = file.content, None, ""
    assert isinstance(table, KeypointTable)
    try:
        kept = chosen(table, options) if options.animals and options.parts else None
    except GdmError as error:
        trouble = str(error)
    with shell.panel("poses", "Animals and parts"):
        shell.quiet(f"{table.n_frames:,} frames. Each can be renamed or left out; names say which way a body faces.")
        seen = np.isfinite(np.asarray(table.xy)).all(axis=2)  # [T, A, P]
        drawn, _ = edited(_key(file), _as_found(table))
        shown = pd.DataFrame(
            {
                "what": ["animal"] * len(table.animals) + ["part"] * len(table.parts),
                "name": [row["name"] for row in drawn],
                "use": [row["use"] for row in drawn],
                "tracked": [f"{100 * share:.3g} %" for share in (*seen.mean(axis=(0, 2)), *seen.mean(axis=(0, 1)))],
            }
        )
        left, right = st.columns([0.55, 0.45], gap="small")
        with left:
            st.data_editor(
                shown.map(harmless),
                hide_index=True,
                key=_key(file),
                disabled=["what", "tracked"],
                height=rows_high(len(shown), 300),
                column_config={
                    "use": st.column_config.CheckboxColumn("use", help="Without it, the animal or part is left out."),
                    "tracked": st.column_config.TextColumn("tracked", help="The share of frames that say where it is."),
                },
            )
        with right:
            if kept is not None:
                of = repr((file.digest, options.animals, options.parts))
                at = remembered(of, partial(clearest, kept), "sketch")
                plot(sketch(kept, *at), key="pose-sketch")
    with shell.panel("report", "What was found"):
        if trouble:
            shell.error("These names do not work together", trouble)
        elif kept is None:
            shell.error("Nothing is left", "Keep at least one animal and one part.")
        if kept is None:
            return False
        least = float(dict(options.repairs)["min_score"])
        say_report(keypoints.report(kept, max(least, 1e-6)).sentences())
        named = (file.digest, options.rate_hz, options.animals, options.parts, least)
        codes = remembered(repr(named), lambda: problems_in(kept, least), "problems")
        if codes.any():
            plot(problem_picture(codes, kept), key="problems")
            colours = dict(KINDS.values())
            told = ((colours[word], f"{word} {_share(share)}") for word, share in problem_shares(codes).items())
            st.html(shell.key_html("Problems", told))
    return True


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.0005 else "<0.1%"


# ---- what is wrong, part by part over time ---------------------------------------------------------------------------
def problems_in(table: KeypointTable, min_score: float) -> npt.NDArray[np.uint8]:
    """[T, A, P] the kind of problem of each part at each moment, 0 for none."""
    xy = np.asarray(table.xy, np.float32)  # [T, A, 2, P]
    n, a, _, p = xy.shape
    codes = np.zeros((n, a, p), np.uint8)
    out = outlier_mask(np.array(table.masked(min_score), np.float32).reshape(n, -1)).reshape(xy.shape)
    codes[out.any(axis=2)] = 3
    if table.scores is not None and min_score > 0:
        codes[np.asarray(table.scores) < min_score] = 2
    codes[~np.isfinite(xy).all(axis=2)] = 1
    return codes


def problem_shares(codes: npt.NDArray[np.uint8]) -> Mapping[str, float]:
    """How much of all parts and moments has which problem; those that there are."""
    count = np.bincount(codes.ravel(), minlength=max(KINDS) + 1) / max(codes.size, 1)
    return {word: float(count[kind]) for kind, (word, _) in KINDS.items() if count[kind] > 0}


def problem_picture(codes: npt.NDArray[np.uint8], table: KeypointTable) -> Figure:
    """A row for each part of each animal, time to the right."""
    n, a, p = codes.shape
    flat = codes.reshape(n, a * p)
    width = -(-n // COLUMNS)
    starts = np.arange(0, n, width)
    size = np.diff(np.append(starts, n))[:, None]
    share = np.stack([np.add.reduceat(flat == kind, starts, axis=0) / size for kind in KINDS])  # [kinds, columns, rows]
    worst, most = share.argmax(axis=0), share.max(axis=0)
    level = np.searchsorted([edge for edge, _ in LEVELS], most - 1e-9).clip(0, len(LEVELS) - 1)
    cells = np.where(most > 0, 1 + worst * len(LEVELS) + level, 0).T  # [rows, columns]
    kept = np.rint(100 * (1 - share.sum(axis=0))).T.clip(0, 100)
    colours = ["$grid", *(f"{colour}{alpha}" for _, colour in KINDS.values() for _, alpha in LEVELS)]
    lone = a == 1
    rows = [plain(part if lone else f"{animal} {part}") for animal in table.animals for part in table.parts]
    step = width / table.rate_hz
    shown: Dict = {
        "type": "heatmap", "z": typed(cells, "u1"), "x0": step / 2, "dx": step, "ygap": 1,
        "customdata": typed(kept, "u1"), "text": [[row] * len(starts) for row in rows],
        "hovertemplate": "%{text}, %{x:.4~g} s: %{customdata} % without a problem<extra></extra>",
    }  # fmt: skip
    down = rows_axis(rows, autorange="reversed") | {"tickfont": FINE}
    caption = "Each row is a part. The stronger the colour, the more of the frames have that problem."
    told = ", ".join(f"{word} {share:.1%}" for word, share in problem_shares(codes).items()) or "none"
    alt = f"Problems of {len(rows)} parts over {n / table.rate_hz:.0f} s: {told}."
    across, high = axis("s", showgrid=False), 64 + ROW_PX * len(rows)
    return figure([shown | numbered_colours(colours)], caption, alt, high, xaxis=across, yaxis=down)


# ---- one pose, so that somebody who renames "part 1" sees which one it is ---------------------------------------------
MOST_LOOKED_AT = 400
HEIGHT, AWAY = 260, 16  # pixels: of the figure, and from a part to its name


def clearest(table: KeypointTable) -> tuple[int, int]:
    """(frame, animal) of a pose with as many parts as there ever are, and those as far apart as they come."""
    known = np.isfinite(np.asarray(table.xy)).all(axis=2)  # [T, A, P]
    count = known.sum(axis=2)
    found = np.argwhere(count == count.max())
    found = found[:: -(-len(found) // MOST_LOOKED_AT)]
    xy = np.array([table.xy[t, a] for t, a in found], float)  # [S, 2, P]
    apart = np.hypot(*np.moveaxis(xy[..., :, None] - xy[..., None, :], 1, 0))  # [S, P, P]
    apart[:, np.arange(xy.shape[2]), np.arange(xy.shape[2])] = np.inf
    nearest = np.where(np.isfinite(apart), apart, np.inf).min(axis=(1, 2))
    frame, animal = found[int(np.argmax(np.where(np.isfinite(nearest), nearest, 0)))]
    return int(frame), int(animal)


def sketch(table: KeypointTable, frame: int, animal: int) -> Figure:
    """The parts of one animal in one frame, as the image has them."""
    x, y = np.asarray(table.xy[frame, animal], float)
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    away = np.stack([x - x[known].mean(), y - y[known].mean()]) if len(known) else np.zeros((2, len(x)))
    away /= np.maximum(np.hypot(*away), 1e-9)
    ends = [(v[known].min(), v[known].max()) for v in (x, y)] if len(known) else [(0.0, 1.0)] * 2
    middle = [float(low + high) / 2 for low, high in ends]
    half = max(float(high - low) for low, high in ends) / 2 or 1.0
    edges = table.edges or (EDGES if table.parts == PARTS else ())
    bones: list[Dict] = [
        shape("line", (x[a], x[b]), (y[a], y[b]), line={"color": "$faint", "width": 2})
        for a, b in edges
        if {a, b} <= set(known.tolist())
    ]
    names = [
        note(plain(table.parts[p]), float(x[p]), float(y[p]), xref="x", yref="y")
        | {"xshift": AWAY * away[0, p], "yshift": -AWAY * away[1, p]}
        | {"xanchor": "left" if away[0, p] > 0.3 else "right" if away[0, p] < -0.3 else "center"}
        for p in known
    ]
    shown = [table.parts[p] for p in known]
    dots = points("markers", x[known], y[known], marker={"size": 8, "color": "$accent"})
    caption = f"{table.animals[animal]} in frame {frame:,}, with each part under its name."
    alt = f"A pose of {table.animals[animal]} with {len(shown)} of {len(table.parts)} parts: {', '.join(shown)}."
    # Framed, since Plotly would make room for the names within the axes and leave little for the pose.
    place: Dict = {"margin": {"l": 56, "r": 56, "t": 20, "b": 20}, "shapes": bones, "annotations": names}
    x0, y0 = middle
    return figure([dots], caption, alt, HEIGHT, **place, **fixed_plane((x0 - half, x0 + half), (y0 + half, y0 - half)))
