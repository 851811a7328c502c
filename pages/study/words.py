"""Names of states, given blind to groups; and words: moments that are named in some animals by their clips, and found in all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import harmless
from gdm_core.errors import DataError
from gdm_core.labels.requests import label_model_bytes
from gdm_core.study import Study, fitting
from gdm_core.study.fitting import Mark
from gdm_core.study.sheet import RECORDING
from pages.lab import live
from pages.lab.live import screen
from pages.lab.poses.clips import clip, clip_grid
from pages.study import bring, pictures, work
from pages.study.bring import Brought
from pages.study.pictures import GROUP, with_groups, word
from pages.study.questions import Asked
from pages.study.work import KEPT, Say
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

LONGEST, LONGEST_NAME = 30, 40  # letters of a word, and of the name of a state
_NAMED = "/named "
SAID = {"states": "States", "words": "Words"}


def _typed(editor: str, column: str, drawn: Iterable[Any]) -> list[str]:
    """What an editor holds in a column that it was drawn with, "" where nothing was written. A click is heard before the page runs,
    so its state is asked, and not what the run before was given."""
    edits = st.session_state.get(editor, {}).get("edited_rows", {})
    cells = [edits.get(i, {}).get(column, cell) for i, cell in enumerate(drawn)]
    return [cell.strip() if isinstance(cell, str) else "" for cell in cells]


# ---- names of states ------------------------------------------------------------------------------------------------
def named(brought: Brought) -> Brought:
    """The study with the names that were given on this page, under a key that says so: its answers speak of them."""
    given: dict[int, str] = st.session_state.get(_names_of(brought), {})
    if not given:
        return brought
    return replace(brought, study=brought.study.with_names(given), key=f"{brought.key}{_NAMED}{sorted(given.items())}")


def _names_of(brought: Brought) -> str:
    return f"{KEPT}names-{settings.of(brought.key.partition(_NAMED)[0])}"


def name_states(brought: Brought, asked: Asked | None) -> None:
    """A row a state, to be named; a switch shows the groups."""
    study = brought.study
    shell.quiet(
        "A name is better given before one knows who has more of it: the table speaks of all animals together. Names travel with "
        "the study, its tables and figures."
    )
    table = _like(study)
    if asked is not None and st.toggle(
        "Show which group has how much of it", key=settings.key("unblinded", brought.of)
    ):
        table = table.join(_by_group(study, asked))
    first = table.map(lambda cell: harmless(cell) if isinstance(cell, str) else cell).rename(columns=harmless)
    place = _names_of(brought)
    st.data_editor(
        first, key=f"{place}-editor", hide_index=True, width="stretch",
        disabled=[str(c) for c in first if c != "name"], height="content" if len(first) < 16 else 560,
        column_config={"name": st.column_config.TextColumn("name", help="Click to write", max_chars=LONGEST_NAME)},
    )  # fmt: skip

    def use() -> None:
        names = zip(study.states, _typed(f"{place}-editor", "name", first["name"]), strict=True)
        kept = {state: name for state, name in names if name}
        if len(set(kept.values())) < len(kept):
            raise DataError("Give each a name of its own, or leave it out.")
        st.session_state[place] = kept

    shell.begin_button("Use these names", use, "Two states have one name", type="primary", key="study-use-names")


def _like(study: Study) -> pd.DataFrame:
    """What each state is like, over all recordings."""
    counts = study.counts
    changes = counts.changes.sum(axis=0)
    before, after = changes.argmax(axis=0), changes.argmax(axis=1)
    called = [study.called(state) for state in study.states]
    with np.errstate(invalid="ignore", divide="ignore"):
        usage = np.nanmean(counts.usage, axis=0)
        rate = np.nanmean(counts.of_states("bouts_per_min"), axis=0)
        length = counts.seconds.sum(axis=0) / np.maximum(1, counts.of_states("bouts").sum(axis=0))
    seen = changes.sum(axis=0) + changes.sum(axis=1) > 0
    return pd.DataFrame(
        {
            "state": [str(state) for state in study.states],
            "name": [study.names.get(state, "") for state in study.states],
            "share of the time": [f"{share:.1%}" for share in usage],
            "bouts a minute": [f"{value:.1f}" for value in rate],
            "mean bout (s)": [f"{value:.2f}" for value in length],
            "mostly after": [called[i] if yes else "–" for i, yes in zip(before, seen, strict=True)],
            "mostly before": [called[i] if yes else "–" for i, yes in zip(after, seen, strict=True)],
        }
    )


def _by_group(study: Study, asked: Asked) -> pd.DataFrame:
    """Mean usage of each group, animals counting once."""
    frame = study.conditions
    whole = with_groups(asked, frame.dropna(subset=list(asked.between)))
    unit = study.sheet.animal or RECORDING
    usage = pd.DataFrame(study.counts.usage, index=frame.index).loc[whole.index]
    each = usage.groupby([whole[GROUP], whole[unit]]).mean().groupby(level=0).mean()
    return pd.DataFrame({f"in {group}": [f"{share:.1%}" for share in row] for group, row in each.iterrows()})


# ---- words for moments ----------------------------------------------------------------------------------------------
def marks_of(brought: Brought) -> list[Mark]:
    """What is marked, by the visitor or in the study that was opened."""
    mine: list[Mark] | None = st.session_state.get(_place(brought))
    return _saved_marks(brought) if mine is None else mine


def _saved_marks(brought: Brought) -> list[Mark]:
    return [(str(a), int(b), int(c), str(d)) for a, b, c, d in brought.study.marks]


def unsaved(brought: Brought) -> bool:
    """Return whether this page holds labels or names that the study does not."""
    return marks_of(brought) != _saved_marks(brought) or _names_of(brought) in st.session_state


def _place(brought: Brought) -> str:
    return f"{KEPT}marks-{settings.of(brought.study.sheet.names)}"


def spoken(page: shell.Frame, brought: Brought) -> Brought | None:
    """The study in words, where the visitor wants it; None while the model learns them."""
    marks = marks_of(brought)
    if brought.trials is None or not marks:
        return brought
    with page.controls:
        about = "Words are those that you marked in the tab Clips and words, found in all animals."
        said = one_of("Compared are", SAID, row=True, key="said", help=about)
    if said != "words":
        return brought
    with page.picture:
        key, failed = (brought.key, "words", tuple(marks)), "These words could not be taught"
        study = work.outcome("study-teach", key, _taught(brought, marks), failed, what="the lesson")
    if study is None:
        return None
    code = [*brought.code, f"marks = {marks!r}", "study = study.with_labels(recordings, marks)"]
    about = f"{brought.about.rpartition(', ')[0]}, {len(study.states)} words found in all"
    return replace(brought, study=study, key=f"{brought.key}/words {settings.of(marks)}", about=about, code=code)


def _taught(brought: Brought, marks: list[Mark]) -> Callable[[Say], Study]:
    engine, session = screen.engine(), f"{live.visitor()}/study"  # known to the script's thread alone

    def do(say: Say) -> Study:
        study, notes = brought.study, list[str]()
        assert brought.trials is not None
        trials = brought.trials()
        kept = {name: trials[name] for name in study.sheet.names}
        question = fitting.label_trials(kept, study.sheet.animals, marks, notes)
        base = b"" if study.model is None else study.model.to_bytes()
        job = engine.call(label_model_bytes, base, *question, session=session, deadline_s=bring.FIT_S)
        label_model = bring.result_of(job, "Learning these words", say)
        read = bring.read_all(engine, fitting.read_labels, label_model, kept, session, say)
        part = replace(study.sheet, notes=(*study.sheet.notes, *notes))
        made = Study.of_read(study.model, read, study.flagged, part, question[2])
        return replace(made, marks=marks, questions=study.questions)

    return do


# ---- the tab --------------------------------------------------------------------------------------------------------
def teach(brought: Brought, asked: Asked | None, place: int) -> None:
    """Clips of a state, each of another animal, and a word for each."""
    study, state = brought.study, brought.study.states[place]
    clips = study.clips(state)
    if clips.empty:
        shell.empty("No clips", f"No recording has a bout of {study.called(state)}.")
        return
    open_ = st.toggle("Show whose they are", key=settings.key("whose", brought.of))
    names = [f"clip {i + 1}" for i in range(len(clips))]
    if open_:
        frame = study.conditions.set_index(RECORDING)
        shown = [c for c in (study.sheet.animal, *(asked.between if asked else ())) if c is not None]
        names = [", ".join(word(frame.loc[one, c]) for c in shown) or one for one in clips[RECORDING]]
        names = [f"{i + 1}: {name}" for i, name in enumerate(names)]
    if brought.trials is None:
        shell.quiet("This study holds states and no recordings, so clips are told by their times alone.")
    else:
        _pictures(brought, clips, names, place)
    _words(brought, clips, names, open_, state)


def _pictures(brought: Brought, clips: pd.DataFrame, names: list[str], place: int) -> None:
    """Poses as loops in a grid, or channels side by side."""

    def do(say: Say) -> list[dict[str, Any]]:
        found = []
        for i, (name, first, after) in enumerate(clips[[RECORDING, "first", "after"]].itertuples(index=False)):
            say(f"Looking for clip {i + 1} of {len(clips)}", i / len(clips))
            poses = brought.poses(name)
            if poses is None:
                return []
            near = replace(poses, image_size=None)  # each as large as its place in the grid
            found.append(clip(near, int(first), int(after), name, ""))
        return found

    found = work.outcome("study-clips", (brought.key, "clips", place), do, "These clips cannot be shown")
    if found is None:
        return
    name = f"{brought.name}-clips"
    if not found:
        assert brought.trials is not None
        plot(pictures.clips(brought.study, brought.trials(), clips, names, place), key="study-clips", filename=name)
        return
    what, colour = brought.study.called(brought.study.states[place]), pictures.colour_of(brought.study, place)
    shown = [one | {"said": said} for one, said in zip(found, names, strict=True)]
    with shell.panel("study-clips"):
        clip_grid(shown, colour, name, what, "study-clips-grid")
        shell.quiet(f"{len(clips)} bouts of {what}, each with half a second around it.")


def _words(brought: Brought, clips: pd.DataFrame, names: list[str], open_: bool, state: int) -> None:
    """What each clip is, to be typed; and what follows from it."""
    study, marks = brought.study, marks_of(brought)
    rates = [study.recordings[name].rate_hz for name in clips[RECORDING]]
    known = {mark[:3]: mark[3] for mark in marks}
    keys = [
        (str(a), int(b), int(c)) for a, b, c in clips[[RECORDING, "bout_first", "bout_after"]].itertuples(index=False)
    ]
    table = pd.DataFrame({"clip": names})
    if open_:
        table[RECORDING] = [harmless(name) for name in clips[RECORDING]]
    table["from (s)"] = np.round(clips["bout_first"] / rates, 2)
    table["seconds"] = np.round((clips["bout_after"] - clips["bout_first"]) / rates, 2)
    drawn = [known.get(key, "") for key in keys]
    table["word"] = pd.array(drawn, dtype="string")
    editor = f"{_place(brought)}-{state}-{open_}-{settings.of(marks)}"
    able = brought.trials is not None
    st.data_editor(
        table, key=editor, hide_index=True, width="stretch",
        disabled=True if not able else [str(c) for c in table if c != "word"], height="content",
        column_config={
            "word": st.column_config.TextColumn("word", help="Click to write what it is", max_chars=LONGEST),
            **{name: st.column_config.NumberColumn(format="%.2f") for name in ("from (s)", "seconds")},
        },
    )  # fmt: skip
    if not able:
        shell.quiet("Words can be found where the recordings are here.")
        return

    def keep() -> None:
        said = dict(zip(keys, _typed(editor, "word", drawn), strict=True))
        st.session_state[_place(brought)] = with_words(marks, said)

    left, right = st.columns([0.3, 0.7], gap="medium", vertical_alignment="center")
    left.button("Keep these words", key="study-keep-words", width="stretch", on_click=keep)
    of = {study.sheet.animals[mark[0]] for mark in marks if mark[0] in study.sheet.animals}
    words_of = pd.Series([mark[3] for mark in marks], dtype=str).value_counts()
    count = "".join(f"; {word} {n}" for word, n in words_of.items())
    then = "Name clips of two words at least; other states have other clips."
    if len(words_of) > 1:
        then = "Choose Words under Compared are at the left, and the model finds them in all animals."
    with right:
        animals = "animal" if len(of) == 1 else "animals"
        shell.quiet(f"{len(marks)} moments of {len(of)} {animals} are named{count}. {then}")


def with_words(marks: list[Mark], said: dict[tuple[str, int, int], str]) -> list[Mark]:
    """Marks with new ones; what is said last of a moment counts, and an empty word takes a mark back."""

    def stays(mark: Mark) -> bool:
        return not any(name == mark[0] and first < mark[2] and mark[1] < after for name, first, after in said)

    return [*filter(stays, marks), *((*where, name) for where, name in said.items() if name)]
