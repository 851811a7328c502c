"""The desk: what the browser sends becomes marks, words and answers, each once, and comes back as the lesson stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from datasets.marks import Mark, Marks
from gdm_core.errors import DataError
from pages.lab import data as lab_data
from pages.lab.teach import desk, lessons
from pages.lab.teach.desk import entries_of
from pages.lab.teach.lessons import keys_of, with_key, with_word
from tests.support.teach_page import DATA, control, kept, opened, said, trial

pytestmark = pytest.mark.usefixtures("one_torch_thread", "real")


class Desk:
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
        return app


@pytest.fixture
def table(monkeypatch) -> Desk:
    made = Desk()
    monkeypatch.setattr(desk, "_desk", made)
    return made


def stretch(start: int, stop: int, word: str, recording: str = "trial 1") -> dict[str, Any]:
    return {"kind": "mark", "recording": recording, "start": start, "stop": stop, "word": word}


def test_keys_mark_once_each_and_are_taken_back(engine, table):
    app = opened()
    table.send(app, stretch(30, 60, "rest"), stretch(90, 120, "walk"))
    marks = kept(app).own.marks
    assert [(m.recording, m.start, m.stop, m.word) for m in marks] == [
        ("trial 1", 30, 60, "rest"),
        ("trial 1", 90, 120, "walk"),
    ]
    assert table.shown["lesson"]["marks"] == [["trial 1", 30, 60, "rest"], ["trial 1", 90, 120, "walk"]]
    table.message = {"token": "a", "entries": list(table.entries)}  # once more, as after a slow run
    app.run()
    assert kept(app).own.marks == marks
    table.send(app, {"kind": "undo"})
    assert kept(app).own.marks == marks[:1]
    assert table.shown["undone"] == [["trial 1", 90, 120, "walk"]]
    table.send(app, {"kind": "redo"})
    assert kept(app).own.marks == marks
    table.send(app, {**stretch(30, 60, "rest"), "kind": "away"})
    assert kept(app).own.marks == marks[1:]
    table.entries = []
    table.send(app, stretch(150, 180, "walk"), token="another window")
    assert len(kept(app).own.marks) == 2


def test_what_cannot_be_marked_is_said_and_the_rest_stays(engine, table):
    app = opened()
    table.send(app, stretch(30, 30, "rest"), stretch(90, 120, "walk"), stretch(110, 150, "rest"))
    assert [m.word for m in kept(app).own.marks] == ["walk"]
    assert "it must begin at 0 or later and end after it begins" in said(app)
    assert "are marked as &#x27;walk&#x27; already" in said(app)


@pytest.mark.parametrize(
    "message",
    [
        None,
        7,
        {"token": 3},
        {"token": "a", "entries": "all"},
        {"token": "a", "entries": [7, {"n": "1"}, {"n": True, "kind": "undo"}]},
        {"token": "a", "entries": [{"n": 1, **stretch(0, 30, "rest", "trial 99")}]},
        {"token": "a", "entries": [{"n": 1, **stretch(0, 30, "rest"), "start": None, "stop": [1], "word": {}}]},
        {"token": "a", "entries": [{"n": 1, "kind": "look", "recording": "trial 99"}]},
        {"token": "a", "entries": [{"n": 1, "kind": "launch"}]},
        {"token": "a", "entries": [{"n": 1, "kind": "whole", "text": "{"}]},
        {"token": "a", "entries": [{"n": 1, **stretch(0, 10**400, "rest")}]},
    ],
)
def test_a_message_that_says_nothing_marks_nothing(engine, table, message):
    app = opened()
    table.message = message
    app.run()
    app.run()
    assert not kept(app).own.marks


def test_a_list_from_the_browser_is_bounded():
    token, entries = entries_of({"token": "t" * 99, "entries": [{"n": i, "kind": "undo"} for i in range(5000)]})
    assert len(token) == 40
    assert len(entries) == desk.MOST_ENTRIES


def test_a_session_that_knows_nothing_is_given_what_the_browser_kept(engine, table):
    app = opened()
    assert not table.shown["touched"]
    own = Marks().add(Mark("trial 1", 0, 30, "rest")).add(Mark("trial 2", 60, 90, "walk"))
    text = json.dumps(lessons.to_plain(lessons.Lesson(own, words=("groom",))))
    table.send(app, {"kind": "whole", "text": text}, stretch(200, 230, "groom"))
    assert kept(app).own.marks == (*own.marks, Mark("trial 1", 200, 230, "groom"))
    assert table.shown["touched"]
    table.send(app, {"kind": "whole", "text": text.replace("trial 2", "trial 7")})
    assert "The marks that this browser kept cannot be used" in said(app)
    assert len(kept(app).own.marks) == 3


def test_something_is_asked_while_the_model_has_no_answer_yet_and_never_twice(engine, table):
    app = opened()
    engine.auto = False
    seen = []
    for _ in range(2):
        clips = list(table.shown["clips"])
        seen += [(one["recording"], one["start"]) for one in clips]
        answers = [{"kind": "skip", **{name: one[name] for name in ("recording", "start", "stop")}} for one in clips]
        table.send(app, *answers)
    assert len({*seen}) == len(seen) > 6


def test_a_browser_that_still_sends_the_trial_before_does_not_lead_away_from_where_the_page_went(
    engine, table, monkeypatch
):
    monkeypatch.setattr(lab_data, "DRAWN_S", 600.0)
    app = opened()
    assert trial(app) == 0, "it opens where marking is allowed"
    table.send(app, {"kind": "look", "recording": "trial 2"})
    assert trial(app) == 1
    for _ in range(2):
        control(app, "selectbox", "trial").set_value("fit-0").run()
        assert trial(app) == 1
    control(app, "selectbox", "trial").set_value("new-2").run()
    assert trial(app) == 2


def test_a_press_that_leads_to_a_fitted_trial_holds_nobody_there(engine):
    app = opened(in_fitted=False)
    app.button(key="teach-go-fitted").click().run()
    assert trial(app) == 0
    control(app, "selectbox", "trial").set_value("new-2").run()
    assert trial(app) == 2


def test_a_word_is_added_without_a_mark_and_gets_a_key_that_can_be_another(engine, table):
    app = opened(labels=False)
    assert table.shown["words"] == []
    table.send(app, {"kind": "word", "word": "groom"}, {"kind": "word", "word": "rear"})
    assert table.shown["keys"] == {"groom": 1, "rear": 2}
    control(app, "selectbox", "teach-key-word").set_value("rear")
    control(app, "selectbox", "teach-key-number").set_value(1).run()
    app.button(key="teach-give-key").click().run()
    assert table.shown["keys"] == {"groom": 2, "rear": 1}
    text = json.dumps(lessons.to_plain(kept(app)))
    assert lessons.from_json(text, DATA)["keys"] == ((1, "rear"), (2, "groom"))
    table.send(app, {"kind": "word", "word": "rear"})
    assert "is there already" in said(app)
    table.send(app, stretch(0, 30, "rear"))
    assert table.shown["words"] == ["groom", "rear"], "a mark changes no word's colour"


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
    assert with_word(words, ("w11",), "last") == ("w11", "last")
    with pytest.raises(DataError, match="12 words"):
        with_word((*words, "w12"), (), "more")
