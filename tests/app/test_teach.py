"""Teach: moments are named, the model learns the words, proposes what to name next, and everything can be taken along."""

from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datasets.marks import Mark, Marks
from gdm_core.analysis.teaching import HeldOut, Overview
from gdm_core.errors import DataError
from pages.lab.teach import agreement, lessons
from pages.lab.teach.lessons import Entry, Vocabulary
from pages.ui import navigation
from tests.support.offered import made, offered
from tests.support.taught import NAMES
from tests.support.teach_page import (
    DATA,
    bouts,
    control,
    desk,
    do,
    drawn,
    fitted,
    kept,
    mark,
    name,
    opened,
    said,
    tab,
    taught,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread", "real")


# ---- on the page --------------------------------------------------------------------------------------------------
def test_two_words_are_taught_and_the_whole_trial_is_named(engine):
    app = opened()
    assert "Name a moment of one behaviour" in said(app)
    begin, end, word = bouts()[0]
    mark(app, (round(begin, 2), round(end, 2), word))
    assert f"Every mark says &#x27;{word}&#x27;" in said(app)
    assert not [job for job in engine.jobs if job.slot == "ask-taught"]
    begin, end, word = next(one for one in bouts() if one[2] != word)
    mark(app, (round(begin, 2), round(end, 2), word))
    assert [job.slot for job in engine.jobs].count("ask-taught") == 1
    assert "Its states after the lesson" in drawn(app, "teach-states-now")["caption"]
    assert "In brackets: free" in said(app)
    assert "Too few marks to hold some back" in said(app)


def test_the_words_of_a_new_trial_are_shown_and_nothing_can_be_marked_there(engine):
    app = taught(opened())
    control(app, "selectbox", "trial").set_value("new-2").run()
    assert desk(app)["model"], "what the model calls each moment"
    assert not desk(app)["fitted"]
    do(app, Entry("mark", name(2), 0, 30, "rest"))
    assert "which is not among" in said(app)


def test_agreement_is_a_curve_over_seconds_with_how_it_is_measured(engine):
    app = taught(opened())
    assert "On marks held back: macro-F1" in said(app)
    assert "expect less elsewhere" in said(app)
    assert "On the expert's labels of the new trials" in said(app).replace("&#x27;", "'")
    first = len(drawn(app, "teach-curve")["data"])
    assert first == 2, "marks held back, and the expert"
    before = kept(app).own
    mark(app, (0.0, 0.2, NAMES[DATA[0].labels[0]]))
    assert len(kept(app).own.marks) == len(before.marks) + 1
    assert do(app, Entry("undo"))
    assert kept(app).own.marks == before.marks


def test_what_the_last_lesson_changed_stands_in_a_line(engine):
    *_, (begin, end, word) = bouts()
    app = taught(opened(), len(bouts()) - 1)
    mark(app, (round(begin, 2), round(end, 2), word))
    assert re.search(r"The last lesson, in this trial: .*agreement on held-back marks \d\.\d\d → \d\.\d\d\.", said(app))


def test_bouts_that_came_and_went_are_counted_between_two_lessons():
    kept_: list[Any] = []
    records = SimpleNamespace(
        last=lambda kind: next((one for one in reversed(kept_) if isinstance(one, kind)), None),
        keep=lambda one: kept_.append(one) or one,
    )
    view = SimpleNamespace(fit=SimpleNamespace(records=records), trial=SimpleNamespace(fingerprint="t"))

    def told(found: Any) -> str:
        return agreement.changed(SimpleNamespace(view=view), found)

    def after(*words: int, held_out: float | None = None) -> Any:
        agreed = None if held_out is None else HeldOut(held_out, 0.4, 2)
        return SimpleNamespace(proba=np.eye(2)[list(words)], words=("rest", "walk"), held_out=agreed)

    assert told(after(0, 0, 1, 1, 1)) == ""
    second = after(0, 1, 0, 1, 1)
    assert told(second) == "The last lesson, in this trial: rest: +1 bout, walk: +1 bout."
    assert told(second) == "The last lesson, in this trial: rest: +1 bout, walk: +1 bout.", "the same lesson again"
    assert told(after(1, 1, 1, 1, 1, held_out=0.61)) == "The last lesson, in this trial: rest: -2 bouts, walk: -1 bout."
    agreed = "The last lesson, in this trial: agreement on held-back marks 0.61 → 0.68."
    assert told(after(1, 1, 1, 1, 1, held_out=0.68)) == agreed
    assert told(after(1, 1, 1, 1, 1)) == "The last lesson, in this trial: no bout came or went."
    view.trial = SimpleNamespace(fingerprint="another")
    assert told(None) == "", "another trial has no lesson yet"
    assert told(after(0, 0, 0, 0, 0)) == "", "and none before"


def test_what_cannot_be_marked_is_said_in_a_sentence_and_nothing_is_lost():
    """Which marks are refused: tests/unit/test_marks.py. That the page says it: test_teach_desk.py."""

    def marked(lesson: lessons.Lesson, start: int, stop: int, word: str) -> lessons.Lesson:
        return lessons.after(lesson, Entry("mark", name(0), start, stop, word), fitted())

    lesson = marked(lessons.Lesson(), 30, 60, "rest")
    for start, stop, message in (
        (60, 30, "end after it begins"),
        (150, 151, "holds less than two frames"),
        (45, 90, "are marked as 'rest' already and cannot be 'walk' too"),
    ):
        refused = marked(lesson, start, stop, "walk")
        assert message in refused.said
        assert refused.own == lesson.own
    more = marked(refused, 90, 120, "walk")
    assert more.said == ""
    assert len(more.own.marks) == 2


def test_more_words_than_states_says_so_and_keeps_the_marks(engine):
    app = opened(labels=False)
    control(app, "slider", "K").set_value(2).run()
    for i, word in enumerate(("one", "two", "three")):
        mark(app, (i + 1.0, i + 1.5, word))
    assert "3 words are marked but n_states (K) is 2" in said(app)
    assert len(kept(app).own.marks) == 3
    control(app, "slider", "K").set_value(3).run()
    assert "3 words are marked" not in said(app)
    assert [job.slot for job in engine.jobs].count("ask-taught") >= 1


def test_another_model_says_that_it_cannot_be_taught_and_keeps_the_marks(engine):
    app = taught(opened(), 2)
    app.selectbox(key="model").set_value("slds-sticky").run()
    assert "This model cannot be taught" in said(app)
    assert len(kept(app).own.marks) == 2


def test_proposals_are_answered_or_passed_over_and_never_come_twice(engine):
    app, seen = opened(), []
    app.run()
    for kind in ("skip", "mark"):
        clips = kept(app).shown
        assert len(clips) >= 4
        assert [(one["recording"], one["start"]) for one in desk(app)["clips"]] == [(name(c[0]), c[1]) for c in clips]
        words = [NAMES[int(np.asarray(DATA[trial].labels)[(start + stop) // 2])] for trial, start, stop, _ in clips[:3]]
        do(app, *(Entry(kind, name(clip[0]), clip[1], clip[2], word) for clip, word in zip(clips, words, strict=False)))
        seen += [clip[:2] for clip in clips[:3]]
        app.run()
        assert kept(app).shown[: len(clips) - 3] == clips[3:], "the others stay until they are answered"
    assert len({*seen, *(clip[:2] for clip in kept(app).shown)}) == 6 + len(kept(app).shown)


def test_a_share_of_the_labels_is_taught_outlives_another_tab_and_is_taken_back(engine):
    app = opened()
    control(app, "slider", "teach-share").set_value(10.0).run()
    assert "beside 10.0 s of the expert" in said(app)
    assert [job.slot for job in engine.jobs].count("ask-taught") == 1
    control(app, "toggle", "teach-first").set_value(True).run()
    shown = (kept(app).seconds, kept(app).from_start)
    for other in ("Bouts", "Teach"):
        tab(app, other)
    assert shown == (10.0, True) == (kept(app).seconds, kept(app).from_start)
    assert control(app, "slider", "teach-share").value == 10.0
    assert control(app, "toggle", "teach-first").value is True
    control(app, "slider", "teach-share").set_value(0.0).run()
    assert "0 marks of your own, 0.0 s." in said(app)


def test_marks_survive_a_turn_to_another_page_and_travel_as_files(engine):
    app = taught(opened(), 3)
    before = kept(app).own
    for folder in ("home", "your_data"):
        app.switch_page(str(navigation.info(folder).path)).run()
    assert kept(app).own == before
    assert {"Marks (JSON)", "Marks of this trial (BORIS)", "Words of this trial (CSV)"} <= offered(app)
    files = {name: make() for name, make in made(app).items()}
    assert Marks.from_json(files["your_data-walk-marks.json"].decode()).marks == before.marks
    boris = Marks.from_annotation(
        io.BytesIO(files["your_data-walk-marks.csv"]), before.marks[0].recording, 30.0, "marks.csv"
    )
    assert {(m.start, m.stop, m.word) for m in boris.marks} == {(m.start, m.stop, m.word) for m in before.marks}
    words = pd.read_csv(io.BytesIO(files["your_data-walk-words.csv"]))
    assert len(words) == 400
    np.testing.assert_allclose(words.filter(like="p ").sum(axis=1), 1, atol=1e-3)
    app = opened()
    control(app, "file_uploader", "teach-file").set_value(
        ("marks.json", files["your_data-walk-marks.json"], "application/json")
    ).run()
    assert kept(app).own.marks == before.marks
    assert [job.slot for job in engine.jobs].count("ask-taught") >= 2


def test_what_the_browser_held_over_a_reload_is_read_back_and_nonsense_is_refused():
    own = Marks().add(Mark(DATA[0].name, 0, 30, "rest"))
    text = json.dumps(lessons.to_plain(lessons.Lesson(own, seconds=4.0, from_start=True)))
    none = {"words": (), "keys": (), "with_words": False}
    assert lessons.from_json(text, DATA) == {"own": own, "seconds": 4.0, "from_start": True} | none
    keyed = json.dumps(lessons.to_plain(lessons.Lesson(words=("groom",), keys=((7, "rest"),))))
    assert lessons.from_json(keyed, DATA) | {"words": ("groom",), "keys": ((7, "rest"),)} == lessons.from_json(
        keyed, DATA
    )
    odd = {
        "marks": [],
        "seconds": "many",
        "from_start": None,
        "words": [3, " ", "x" * 99],
        "keys": [1, [0, "a"], ["b", 2]],
    }
    nothing = {
        "own": Marks(),
        "seconds": 0.0,
        "from_start": False,
        "words": ("x" * 30,),
        "keys": (),
        "with_words": False,
    }
    assert lessons.from_json(json.dumps(odd), DATA) == nothing
    for wrong in ("", "[]", '{"marks": [{"recording": "gone", "start": 0, "stop": 9, "word": "x"}]}'):
        with pytest.raises(DataError):
            lessons.from_json(wrong, DATA)


def test_files_that_hold_no_marks_are_refused_and_nothing_is_lost(engine):
    app = mark(opened(), (1.0, 2.0, "rest"))
    for file, content, message in (
        ("marks.json", b"[1, 2]", "This is no list of marks"),
        ("bouts.csv", b"\x00\x01\x02", "bouts.csv"),
    ):
        control(app, "file_uploader", "teach-file").set_value((file, content, "text/plain")).run()
        assert message in said(app)
        assert len(kept(app).own.marks) == 1


def test_one_mark_of_several_is_taken_away(engine):
    app = taught(opened(), 3)
    second = kept(app).own.marks[1]
    control(app, "selectbox", "teach-away").set_value(1).run()
    app.button(key="teach-remove").click().run()
    assert second not in kept(app).own.marks
    assert len(kept(app).own.marks) == 2


def test_every_trial_is_listed_with_its_words_and_strange_ones_are_told(engine):
    app = opened()
    assert "Every trial with the share of each word, once something is taught." in said(app)
    app = taught(app)
    assert "None looks unlike the taught ones." in said(app)
    files = {name: make() for name, make in made(app).items()}
    table = pd.read_csv(io.BytesIO(files["your_data-walk-words-of-all.csv"]))
    assert table["trial"].tolist() == ["Fitted: trial 1", "Fitted: trial 2", "New: trial 3"]
    np.testing.assert_allclose(table.filter(like="p ").sum(axis=1), 1, atol=1e-3)
    assert table["sure"].between(0.3, 1).all()


def test_a_table_of_trials_says_which_look_unlike():
    shares = np.array([0.25, 0.75], np.float32)
    found = [Overview(("trial", "sure"), shares, 0.9, None), Overview(("trial", "sure"), shares, 0.6, "Odd. Mark it.")]
    table = agreement.trials_table(found, ["one", "two"])
    assert list(table.columns) == ["trial", "p trial", "p sure", "sure", "unlike the taught ones"]
    assert table["unlike the taught ones"].tolist() == ["", "yes"]


# ---- parts --------------------------------------------------------------------------------------------------------
def test_all_of_a_file_or_none():
    own = Marks().add(Mark(DATA[0].name, 0, 30, "rest"))
    two = Marks((Mark(DATA[0].name, 40, 60, "walk"), Mark(DATA[0].name, 20, 25, "turn")))
    with pytest.raises(DataError, match="are marked as 'rest' already"):
        lessons.with_all(own, two, DATA)
    assert len(lessons.with_all(own, Marks(two.marks[:1]), DATA).marks) == 2


def test_words_have_the_colours_of_the_labels_and_others_come_after():
    words = Vocabulary(("rest", "walk", "groom"))
    proba = np.array([[0.25, 0.75]], np.float32)
    np.testing.assert_allclose(words.spread(proba, ("groom", "rest")), [[0.75, 0, 0.25]])
    hot = words.hot(np.array([1, -1, 0]), ("groom", "rest"))
    np.testing.assert_array_equal(hot[[0, 2]], [[1, 0, 0], [0, 0, 1]])
    assert np.isnan(hot[1]).all()


def test_what_could_not_be_measured_is_said():
    assert "Too few marks" in agreement.in_words(agreement.Trust(4.0))
    both = agreement.in_words(agreement.Trust(9.0, 0.5, 0.2, 0.4, 0.1))
    assert "macro-F1 0.50" in both
    assert "0.40, always saying one word 0.10" in both
