"""The states of a study: their names, chosen without seeing groups, and clips of different animals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import harmless
from gdm_core.errors import DataError
from gdm_core.study import Question, Study
from gdm_core.study.sheet import RECORDING
from gdm_core.study.tables import choose_clips, describe_states
from pages.lab.poses.clips import clip, clip_grid
from pages.study import pictures, work
from pages.study.sources import OpenStudy
from pages.study.work import KEPT, Say
from pages.ui import settings, shell
from pages.ui.plot import plot
from pages.ui.tables import show_table

MOST_LETTERS = 40
_NAMED = "/named "


def with_names(opened: OpenStudy) -> OpenStudy:
    """Return the study with names from this page and a key that includes them."""
    given: dict[int, str] = st.session_state.get(_names_of(opened), {})
    if not given:
        return opened
    return replace(opened, study=opened.study.with_names(given), key=f"{opened.key}{_NAMED}{sorted(given.items())}")


def _names_of(opened: OpenStudy) -> str:
    return f"{KEPT}names-{settings.scope(opened.key.partition(_NAMED)[0])}"


def name_states(opened: OpenStudy) -> None:
    """Show a table to name states."""
    study = opened.study
    shell.quiet("Name states before looking at group differences. Names appear in all tables and figures.")
    first = _like(study).map(harmless)
    if opened.trials is not None:
        first["channels"] = _describe_channels(opened.key, opened)
    place = _names_of(opened)
    st.data_editor(
        first, key=f"{place}-editor", hide_index=True, width="stretch",
        disabled=[str(c) for c in first if c != "name"], height="content" if len(first) < 16 else 560,
        column_config={"name": st.column_config.TextColumn("name", help="Click to type", max_chars=MOST_LETTERS)},
    )  # fmt: skip

    def use() -> None:
        edits = st.session_state.get(f"{place}-editor", {}).get("edited_rows", {})
        cells = [edits.get(i, {}).get("name", cell) or "" for i, cell in enumerate(first["name"])]
        kept = {state: cell.strip() for state, cell in zip(study.states, cells, strict=True) if cell.strip()}
        if len(set(kept.values())) < len(kept):
            raise DataError("Give each state a different name, or leave it empty.")
        st.session_state[place] = kept

    shell.begin_button("Apply names", use, "Two states have the same name", type="primary", key="study-use-names")


def _like(study: Study) -> pd.DataFrame:
    """Return a description of each state over all recordings."""
    counts = study.counts
    changes = counts.changes.sum(axis=0)
    before, after = changes.argmax(axis=0), changes.argmax(axis=1)
    called = [study.state_name(state) for state in study.states]
    with np.errstate(invalid="ignore", divide="ignore"):
        usage = np.nanmean(counts.usage, axis=0)
        rate = np.nanmean(counts.measure("bouts_per_min"), axis=0)
        length = counts.seconds.sum(axis=0) / np.maximum(1, counts.measure("bouts").sum(axis=0))
    seen = changes.sum(axis=0) + changes.sum(axis=1) > 0
    return pd.DataFrame(
        {
            "state": [replace(study, names={}).state_name(state) for state in study.states],
            "name": [study.names.get(state, "") for state in study.states],
            "usage": [f"{share:.1%}" for share in usage],
            "bouts per minute": [f"{value:.1f}" for value in rate],
            "mean bout (s)": [f"{value:.2f}" for value in length],
            "usually follows": [called[i] if yes else "–" for i, yes in zip(before, seen, strict=True)],
            "usually precedes": [called[i] if yes else "–" for i, yes in zip(after, seen, strict=True)],
        }
    )


@st.cache_data(max_entries=8, show_spinner="Describing states")
def _describe_channels(key: str, _opened: OpenStudy) -> list[str]:
    assert _opened.trials is not None
    return describe_states(_opened.study, _opened.trials())


def have_changed(opened: OpenStudy) -> bool:
    """Return whether states were named on this page."""
    return _names_of(opened) in st.session_state


def show_clips(opened: OpenStudy, question: Question | None, place: int) -> None:
    """Show clips of a state, as animated poses or as channels side by side, and list them."""
    study, state = opened.study, opened.study.states[place]
    clips = choose_clips(study, state)
    if clips.empty:
        shell.empty("No clips", f"No recording has a bout of {study.state_name(state)}.")
        return
    is_open = st.toggle(f"Show {study.sheet.subjects} and groups", key=settings.key("whose", opened.scope))
    names = [f"clip {i + 1}" for i in range(len(clips))]
    if is_open:
        frame = study.conditions.set_index(RECORDING)
        shown = [c for c in (study.sheet.animal, *(question.between if question else ())) if c is not None]
        words = [", ".join(pictures.word(frame.loc[one, c]) for c in shown) or one for one in clips[RECORDING]]
        names = [f"{i + 1}: {name}" for i, name in enumerate(words)]
    if opened.trials is None:
        shell.quiet("The study contains no recordings, so clips are listed by time only.")
    else:
        _draw(opened, clips, names, place)
    rates = [study.recordings[name].rate_hz for name in clips[RECORDING]]
    table = pd.DataFrame({"clip": names})
    if is_open:
        table[RECORDING] = [harmless(name) for name in clips[RECORDING]]
    table["from (s)"] = np.round(clips["bout_first"] / rates, 2)
    table["seconds"] = np.round((clips["bout_after"] - clips["bout_first"]) / rates, 2)
    show_table(table, 320, "study-clips-table")


def _draw(opened: OpenStudy, clips: pd.DataFrame, names: list[str], place: int) -> None:
    def do(say: Say) -> list[dict[str, Any]]:
        found = []
        for i, (name, first, after) in enumerate(clips[[RECORDING, "first", "after"]].itertuples(index=False)):
            say(f"Loading clip {i + 1} of {len(clips)}", i / len(clips))
            poses = opened.poses(name)
            if poses is None:
                return []
            near = replace(poses, image_size=None)  # scale each clip to its grid cell
            frames = poses.rate_hz / opened.study.recordings[name].rate_hz  # more than one for windows
            cut = round(opened.starts.get(name, 0.0) * poses.rate_hz)
            found.append(clip(near, cut + round(first * frames), cut + round(after * frames), name, ""))
        return found

    found = work.outcome("study-clips", (opened.key, "clips", place), do, "These clips cannot be shown")
    if found is None:
        return
    if not found:
        assert opened.trials is not None
        drawn = pictures.clips(opened.study, opened.trials(), clips, names, place)
        plot(drawn, key="study-clips", filename=f"{opened.name}-clips")
        return
    state, colour = opened.study.state_name(opened.study.states[place]), pictures.colour_of(opened.study, place)
    with shell.panel("study-clips"):
        clip_grid(
            [one | {"caption": name} for one, name in zip(found, names, strict=True)], colour, state, "study-clips-grid"
        )
        shell.quiet(f"{len(clips)} bouts of {state}, with 0.5 s before and after.")
