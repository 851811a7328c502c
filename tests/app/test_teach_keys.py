"""Teach by keys: what the timeline in the browser sends becomes marks, answers proposals one after the other, and undoes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from gdm_core.errors import DataError
from pages.recording.teach import lessons, marking, panel
from pages.recording.teach.lessons import Vocabulary, keys_of, with_key, with_word
from pages.recording.teach.marking import clip_name, entries_of
from tests.support.live_engine import QuickEngine
from tests.support.taught import NAMES
from tests.support.teach_page import DATA, control, kept, opened, real_engine, said, trial, word_buttons

pytestmark = pytest.mark.usefixtures("one_torch_thread")


class Timeline:
    """In place of the one in the browser: what the page gave it last, and messages to the page."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}
        self.entries: list[dict[str, Any]] = []
        self.message: Any = None

    def __call__(self, key: str, data: dict[str, Any], on_keyed_change: Any) -> None:
        self.shown = data
        if self.message is not None:
            st.session_state[key] = {"keyed": self.message}
            self.message = None
            on_keyed_change()

    def send(self, app: AppTest, *entries: dict[str, Any], token: str = "a") -> AppTest:
        """As the browser does: everything that the page has not said to have heard, and then what is new."""
        heard = self.shown["heard"]
        done = heard[1] if heard[0] == token else 0
        self.entries = [one for one in self.entries if one["n"] > done]
        first = self.entries[-1]["n"] if self.entries else done
        self.entries += [{"n": first + i + 1, **one} for i, one in enumerate(entries)]
        self.message = {"token": token, "entries": list(self.entries)}
        app.run()
        app.run()
        assert not app.exception, app.exception[0].value
        return app


@pytest.fixture
def engine(monkeypatch, tmp_path) -> QuickEngine:
    return real_engine(monkeypatch, tmp_path)


@pytest.fixture
def timeline(monkeypatch) -> Timeline:
    made = Timeline()
    monkeypatch.setattr(marking, "_timeline", made)
    return made


def stretch(begin: float, end: float, word: str, trial: int = 0) -> dict[str, Any]:
    return {"kind": "mark", "trial": trial, "begin": begin, "end": end, "word": word}


def test_keys_mark_once_each_and_are_taken_back(engine, timeline):
    app = opened()
    timeline.send(app, stretch(1.0, 2.0, "rest"), stretch(3.0, 4.0, "walk"))
    marks = kept(app).own.marks
    assert [(m.recording, m.start, m.stop, m.word) for m in marks] == [
        ("trial 1", 30, 60, "rest"),
        ("trial 1", 90, 120, "walk"),
    ]
    words = [entry["word"] for entry in timeline.shown["words"]]
    assert [(begin, end, words[k]) for begin, end, k in timeline.shown["marks"]] == [
        (pytest.approx(1.0), pytest.approx(2.0), "rest"),
        (pytest.approx(3.0), pytest.approx(4.0), "walk"),
    ]
    timeline.message = {"token": "a", "entries": list(timeline.entries)}  # once more, as after a slow run
    app.run()
    assert kept(app).own.marks == marks
    timeline.send(app, {"kind": "undo"})
    assert kept(app).own.marks == marks[:1]
    timeline.send(app, {"kind": "redo"})
    assert kept(app).own.marks == marks
    timeline.entries = []
    timeline.send(app, stretch(5.0, 6.0, "walk"), token="another window")
    assert len(kept(app).own.marks) == 3


def test_what_cannot_be_marked_is_said_and_the_rest_stays(engine, timeline):
    app = opened()
    timeline.send(app, stretch(1.0, 1.0, "rest"), stretch(3.0, 4.0, "walk"), stretch(3.5, 5.0, "rest"))
    assert [m.word for m in kept(app).own.marks] == ["walk"]
    assert "it has to end after it begins" in said(app)
    assert "are marked as &#x27;walk&#x27; already" in said(app)


@pytest.mark.parametrize(
    "message",
    [
        None,
        7,
        {"token": 3},
        {"token": "a", "entries": "all"},
        {"token": "a", "entries": [7, {"n": "1"}, {"n": True, "kind": "undo"}]},
        {"token": "a", "entries": [{"n": 1, "kind": "mark", "trial": 99, "begin": 0, "end": 1, "word": "rest"}]},
        {"token": "a", "entries": [{"n": 1, "kind": "mark", "trial": 0, "begin": None, "end": [1], "word": {}}]},
        {"token": "a", "entries": [{"n": 1, "kind": "answer", "clip": "0-0-9", "word": "rest"}]},
        {"token": "a", "entries": [{"n": 1, "kind": "launch"}]},
        {"token": "a", "entries": [{"n": 1, "kind": "mark", "trial": 0, "begin": 10**400, "end": 1, "word": "rest"}]},
        {
            "token": "a",
            "entries": [{"n": 1, "kind": "mark", "trial": 10**400, "begin": 0, "end": float("inf"), "word": "rest"}],
        },
    ],
)
def test_a_message_that_says_nothing_marks_nothing(engine, timeline, message):
    app = opened()
    timeline.message = message
    app.run()
    app.run()
    assert not app.exception
    assert not kept(app).own.marks


def test_a_list_from_the_browser_is_bounded():
    token, entries = entries_of({"token": "t" * 99, "entries": [{"n": i, "kind": "undo"} for i in range(5000)]})
    assert len(token) == 40
    assert len(entries) == marking.MOST_ENTRIES


def test_three_proposals_are_answered_by_keys_alone_and_the_next_ones_come_by_themselves(engine, timeline):
    app = opened()
    app.button(key="teach-clip-0").click().run()
    seen = []
    for n in range(4):
        asking = kept(app).asking
        assert asking is not None
        assert trial(app) == asking[0], "the page is at the clip"
        assert timeline.shown["clip"]["id"] == clip_name(asking)
        assert control(app, "number_input", f"teach-from-{asking[0]}").value == pytest.approx(asking[1] / 30, abs=1e-3)
        seen.append(asking)
        word = NAMES[int(np.asarray(DATA[asking[0]].labels)[(asking[1] + asking[2]) // 2])]
        answer = {"kind": "answer", "clip": clip_name(asking), "word": word}
        timeline.send(app, answer, answer)  # pressed twice: the second is about a clip that is answered
        assert len(kept(app).own.marks) == n + 1
        assert kept(app).own.marks[-1].start == asking[1]
    assert len({clip[:2] for clip in seen}) == 4
    asking = kept(app).asking
    timeline.send(app, {"kind": "skip", "clip": clip_name(asking)})
    assert kept(app).asking not in (None, asking)
    assert len(kept(app).own.marks) == 4
    timeline.send(app, {"kind": "stop"})
    assert kept(app).asking is None
    assert timeline.shown["clip"] is None
    timeline.send(app, stretch(0.0, 0.2, "rest", trial=0))
    assert kept(app).asking is None, "nobody is asked who has stopped it"


def test_a_proposal_takes_no_place_of_what_is_in_hand(engine, timeline, monkeypatch):
    app = opened()
    app.button(key="teach-clip-0").click().run()
    engine.auto = False
    while (asking := kept(app).asking) is not None:  # the last one is answered, and new ones are worked out
        timeline.send(app, {"kind": "answer", "clip": clip_name(asking), "word": "rest"})
    assert not kept(app).shown
    place = trial(app)
    control(app, "number_input", f"teach-from-{place}").set_value(8.0).run()
    control(app, "number_input", f"teach-to-{place}").set_value(9.0).run()
    app.text_input(key=next(one.key for one in app.text_input if "teach-word" in one.key)).set_value("walk").run()
    engine.auto = True
    engine.run_all()
    app.run()
    app.run()
    assert kept(app).shown, "they are there"
    assert kept(app).asking is None
    assert trial(app) == place
    assert control(app, "number_input", f"teach-from-{place}").value == 8.0
    app.button(key="teach-name").click().run()
    assert not app.exception
    mark = kept(app).own.marks[-1]
    assert (mark.word, mark.start, mark.stop) == ("walk", 240, 270)
    assert kept(app).asking in kept(app).shown, "and the lesson goes on"


def test_a_drag_is_taken_in_the_trial_that_it_was_drawn_over(engine, timeline, monkeypatch):
    takes = []
    monkeypatch.setattr(panel, "plot", lambda *figure, on_select=None, **more: takes.append(on_select))
    app = opened()
    take = next(one for one in reversed(takes) if one is not None)
    app.button(key="teach-clip-0").click().run()
    asking = kept(app).asking
    dragged = 1 - asking[0]
    with monkeypatch.context() as session:
        session.setattr(st, "session_state", app.session_state)
        take({"x": [2.0, 1.0], "revision": f"any/{dragged}"})
        take({"x": [2.0, 1.0], "revision": "any/900"})
        take(None)
    assert (kept(app).stretch, kept(app).in_hand, kept(app).asking) == ((dragged, 1.0, 2.0), True, None)
    app.run()
    assert trial(app) == dragged, "the page goes back to where the hand is"


def test_a_mark_elsewhere_leaves_the_question_and_a_clip_of_another_trial_is_not_played(engine, timeline):
    app = opened()
    app.button(key="teach-clip-0").click().run()
    asking = kept(app).asking
    control(app, "selectbox", "trial").set_value("new-2").run()
    assert trial(app) == 2
    timeline.send(app, stretch(0.0, 0.3, "rest", trial=1 - asking[0]))
    assert kept(app).asking == asking


def test_a_browser_that_still_sends_the_trial_before_does_not_lead_away_from_the_question(engine, timeline):
    app = opened()
    before = trial(app)
    clip = next(j for j, clip in enumerate(kept(app).shown) if clip[0] != before)
    app.button(key=f"teach-clip-{clip}").click().run()
    asking = kept(app).asking
    assert trial(app) == asking[0] != before
    for _ in range(2):
        control(app, "selectbox", "trial").set_value(f"fit-{before}").run()
        assert trial(app) == asking[0]
        assert timeline.shown["clip"]["id"] == clip_name(asking)
    timeline.send(app, {"kind": "stop"})
    control(app, "selectbox", "trial").set_value(f"fit-{before}").run()
    assert trial(app) == before, "the choice is the visitor's again"


def test_a_press_that_leads_to_a_fitted_trial_holds_nobody_there(engine):
    app = opened(fitted=False)
    app.button(key="teach-go-fitted").click().run()
    assert trial(app) == 0
    control(app, "selectbox", "trial").set_value("new-2").run()
    assert trial(app) == 2


def test_a_word_is_added_without_a_mark_and_gets_a_key_that_can_be_another(engine, timeline):
    app = opened(labels=False)
    assert timeline.shown["words"] == []
    for word in ("groom", "rear"):
        control(app, "text_input", "teach-word").set_value(word).run()
        app.button(key="teach-add").click().run()
        assert not app.exception
    assert [(w["word"], w["key"]) for w in timeline.shown["words"]] == [("groom", 1), ("rear", 2)]
    assert word_buttons(app, "rear")[0].label == "rear (2)"
    control(app, "selectbox", "teach-key-word").set_value("rear")
    control(app, "selectbox", "teach-key-number").set_value(1).run()
    app.button(key="teach-give-key").click().run()
    assert [(w["word"], w["key"]) for w in timeline.shown["words"]] == [("groom", 2), ("rear", 1)]
    assert lessons.from_json(lessons.to_json(kept(app)), DATA)["keys"] == ((1, "rear"), (2, "groom"))
    control(app, "text_input", "teach-word").set_value("rear").run()
    app.button(key="teach-add").click().run()
    assert "is there already" in said(app)


def test_keys_go_to_the_first_nine_words_and_to_any_other_on_request():
    words = [f"w{i}" for i in range(1, 12)]
    assert keys_of(words, ()) == {f"w{i}": i for i in range(1, 10)}
    chosen = with_key(words, (), "w11", 3)
    found = keys_of(words, chosen)
    assert found["w11"] == 3
    assert "w3" not in found
    assert sorted(found.values()) == list(range(1, 10))
    assert keys_of(words, with_key(words, (), "w1", 2)) | {"w1": 2, "w2": 1} == keys_of(
        words, with_key(words, (), "w1", 2)
    )
    assert keys_of(["new"], ((4, "gone"),)) == {"new": 1}
    full = Vocabulary(tuple(words), tuple(range(11)))
    assert with_word(full, ("w11",), " last ") == ("w11", "last")
    with pytest.raises(DataError, match="12 words"):
        with_word(Vocabulary((*words, "w12"), tuple(range(12))), (), "more")
