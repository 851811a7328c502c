"""What was understood of a tracking file, before any fit: animals, parts, rate, and what is wrong where."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets import keypoints
from datasets.keypoints import KeypointTable
from gdm_core.analysis.tables import harmless
from gdm_core.errors import GdmError
from pages.lab.poses.tracking import FEATURES, cleaning
from pages.ui import shell
from pages.ui.controls import number, one_of, switch
from pages.ui.plot import plot
from pages.ui.tables import rows_high
from pages.your_data import pose_pictures
from pages.your_data.check import say_report
from pages.your_data.intake import KEPT, OpenFile, edited, remembered
from pages.your_data.poses import Picked, PoseOptions, chosen


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
    return PoseOptions(
        rate,
        features,
        tuple(cleaning(file.of).items()),
        animals,
        parts,
        apart,
    )


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
                at = remembered(of, partial(pose_pictures.clearest, kept), "sketch")
                plot(pose_pictures.sketch(kept, *at), key="pose-sketch")
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
        codes = remembered(repr(named), lambda: pose_pictures.problems_in(kept, least), "problems")
        if codes.any():
            plot(pose_pictures.problem_picture(codes, kept), key="problems")
            present, colours = (
                pose_pictures.problem_shares(codes),
                {word: colour for word, colour in pose_pictures.KINDS.values()},
            )
            st.html(
                shell.key_html(
                    "Problems", ((colours[word], f"{word} {_share(share)}") for word, share in present.items())
                )
            )
    return True


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.0005 else "<0.1%"
