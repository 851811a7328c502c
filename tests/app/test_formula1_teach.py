"""Teach on the Formula 1 page: stretches of laps are named by metres, and the words of both drivers appear."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets import formula1
from datasets.marks import Mark, Marks
from gdm_core.analysis.teaching import Overview
from gdm_studio.datasets import formula1 as installed
from pages.formula1 import teach
from tests.support.formula1 import LAP_S, RADIUS, ring_driver, ring_session
from tests.support.formula1_page import ring_race, visit, words
from tests.support.live_engine import QuickEngine
from tests.support.offered import offered
from tests.support.teach_page import control, drawn, kept, place, word_buttons

pytestmark = pytest.mark.usefixtures("one_torch_thread")
LENGTH = 2 * np.pi * RADIUS
PER_LAP = int(LAP_S / 0.25)  # samples
TRIAL = "AAA laps 1-4"


@pytest.fixture
def engine(feed) -> QuickEngine:
    feed.real = True
    return feed


def opened() -> AppTest:
    race = {"source": "real", "year": "2024", "session": "Race", "laps-of": "all"}
    return visit(view="Teach", train="AAA", test="BBB", watch="paper", **race)


def mark(app: AppTest, lap: int, begin: float | None, end: float | None, word: str) -> AppTest:
    control(app, "selectbox", "teach-lap").set_value(lap).run()
    control(app, "number_input", "teach-from").set_value(begin)
    control(app, "number_input", "teach-to").set_value(end)
    if known := word_buttons(app, word):
        known[0].click().run()
    else:
        control(app, "text_input", "teach-word").set_value(word).run()
        app.button(key="teach-name").click().run()
    return app


def taught(app: AppTest) -> AppTest:
    """Left and right halves of the ring in laps 2 and 3, as the page keeps them once they are marked: one lesson."""
    own = Marks()
    for lap, (begin, end, word) in product((2, 3), ((100, 500, "out"), (750, 1_150, "back"))):
        start, stop = ((lap - 1) * PER_LAP + round(metres / LENGTH * PER_LAP) for metres in (begin, end))
        own = own.add(Mark(TRIAL, start, stop, word))
    app.session_state[place(app)] = replace(kept(app), own=own)
    app.run()
    return app


def said(app: AppTest) -> str:
    return words(app).replace("&#x27;", "'")


def test_a_stretch_of_a_lap_is_marked_by_metres_and_its_samples_are_right(engine):
    app = opened()
    assert "Name a moment of one behaviour" in said(app)
    assert control(app, "selectbox", "teach-lap").value == 2, "lap 1 begins on the grid"
    mark(app, 3, 0, LENGTH / 4, "out")
    assert kept(app).own.marks == (Mark(TRIAL, 2 * PER_LAP, 2 * PER_LAP + PER_LAP // 4, "out"),)
    mark(app, 2, 0.9 * LENGTH, LENGTH, "end")
    assert kept(app).own.marks[1] == Mark(TRIAL, 2 * PER_LAP - PER_LAP // 10, 2 * PER_LAP, "end")
    mark(app, 3, 0.9 * LENGTH, 1.1 * LENGTH, "line")
    assert kept(app).own.marks[2] == Mark(TRIAL, 3 * PER_LAP - PER_LAP // 10, 3 * PER_LAP + PER_LAP // 10, "line")
    table = app.dataframe[0].value
    assert list(table.columns) == ["word", "lap", "from (m)", "to (m)"]
    assert table["lap"].tolist() == [3, 2, 3]
    assert table["to (m)"].iloc[2] == pytest.approx(1.1 * LENGTH, abs=8), "one sample every 8 m"
    assert "lap 3, 1,135 m to lap 4, 130 m" in str(control(app, "selectbox", "teach-away").options)
    app.button(key="teach-undo").click().run()
    assert [one.word for one in kept(app).own.marks] == ["out", "end"]
    app.button(key="teach-redo").click().run()
    assert [one.word for one in kept(app).own.marks] == ["out", "end", "line"]


def test_words_of_both_drivers_appear_with_their_shares(engine):
    app = taught(opened())
    strips = drawn(app, "teach-strips")
    assert strips["data"][0]["y"] == ["marks", "AAA words", "BBB words"]
    assert "Lap 2 of both drivers" in strips["caption"]
    shares = next(one.value for one in app.dataframe if "driver" in one.value.columns)
    assert shares["driver"].tolist() == ["AAA", "BBB"]
    halves = shares[["p out", "p back"]].to_numpy()
    np.testing.assert_allclose(halves.sum(axis=1), 1, atol=1e-3)
    assert ((halves > 0.35) & (halves < 0.65)).all(), "each is driven for about half of a lap"
    assert "On marks held back: macro-F1" in said(app)
    assert "In brackets: free" in said(app)
    assert {"Marks (JSON)", "Words of each driver (CSV)"} <= offered(app)
    control(app, "selectbox", "teach-lap").set_value(4).run()
    assert "Lap 4 of both drivers" in drawn(app, "teach-strips")["caption"]


def test_words_of_a_driver_that_cannot_be_worked_out_are_not_said_to_be_on_their_way(engine):
    engine.unable |= {f"ask-taught-{index}": "It was given up after 600 s." for index in range(12)}
    app = taught(opened())
    assert f"The words of {TRIAL} could not be worked out" in said(app)
    assert "The model is learning these words." not in said(app)
    engine.unable.clear()
    again = [button for button in app.button if "-again-taught-" in str(button.key)]
    assert again
    for button in again:
        button.click().run()
    assert "could not be worked out" not in said(app.run())


def test_what_cannot_be_marked_is_said_and_nothing_is_lost(engine):
    """Which stretches are refused: tests/unit/test_lap_axis.py."""
    app = mark(opened(), 2, 100, 500, "out")
    for begin, end, message in [
        (500, 200, "has to end after it begins. If it goes on over the start line, To is beyond"),
        (300, 600, "are marked as 'out' already and cannot be 'back' too"),
    ]:
        mark(app, 2, begin, end, "back")
        assert message in said(app)
        assert len(kept(app).own.marks) == 1
    mark(app, 2, 700, 900, "back")
    assert "Not marked" not in said(app)
    assert len(kept(app).own.marks) == 2


@pytest.mark.bulk
def test_laps_with_so_many_holes_that_a_mark_could_not_name_its_part_say_so(engine, monkeypatch):
    holes = ((45.0, 48.0), (54.0, 57.0), (63.0, 66.0))  # in lap 2
    race = ring_session(ring_driver("AAA", holes=holes), ring_driver("BBB"))
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: race)
    app = opened()
    assert "What AAA sent has several holes in one lap" in said(app)
    assert not [one for one in app.number_input if str(one.key).startswith("teach-")]


def test_marks_go_to_json_and_come_back_and_others_are_refused(engine):
    app = taught(opened())
    text = kept(app).own.to_json()
    again = opened()
    control(again, "file_uploader", "teach-file").upload("marks.json", text.encode()).run()
    assert kept(again).own.marks == kept(app).own.marks
    assert {"AAA words", "BBB words"} <= set(drawn(again, "teach-strips")["data"][0]["y"])
    other = Marks((Mark("HAM laps 1-4", 0, 20, "out"),)).to_json()
    control(again, "file_uploader", "teach-file").upload("other.json", other.encode()).run()
    assert "belongs to the recording 'HAM laps 1-4', which is not among: AAA laps 1-4" in said(again)
    assert kept(again).own.marks == kept(app).own.marks
    assert json.loads(text)["marks"][0] == {"recording": TRIAL, "start": 173, "stop": 224, "word": "out"}


def test_a_proposed_stretch_sets_lap_from_and_to_and_is_its_very_samples(engine):
    app = taught(opened())
    shown = kept(app).shown
    assert len(shown) >= 2, "how many differ enough depends on the fit"
    clip = app.button(key="teach-clip-1")
    assert clip.label.startswith("lap ")
    clip.click().run()
    lap, begin, _ = kept(app).stretch
    assert control(app, "selectbox", "teach-lap").value == lap
    assert control(app, "number_input", "teach-from").value == begin
    word_buttons(app, "out")[0].click().run()
    newest = kept(app).own.marks[-1]
    assert (newest.start, newest.stop) == shown[1][1:3]
    assert shown[1] not in kept(app).shown
    assert kept(app).asking == kept(app).shown[0], "and the next one is asked for"


@pytest.mark.bulk
def test_the_script_teaches_what_is_marked(engine, monkeypatch, tmp_path):
    app = taught(opened())
    app.query_params["view"] = "Export & reproduce"
    app.run()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed, "load_session", lambda *where, **more: ring_race())
    left: dict = {}
    exec(compile(app.code[0].value, "reproduce.py", "exec"), left)
    assert left["words"] == ("out", "back")
    assert (left["labels"][0][173:224] == 0).all()
    assert [part.shape for part in left["new_word_proba"]] == [(4 * PER_LAP, 2)]
    assert left["taught"].class_names_ == ("out", "back")


def test_shares_of_a_driver_weigh_his_stretches_by_their_length():
    from gdm_core import Trial, Trials

    def trials(*lengths: int) -> Trials:
        return Trials(tuple(Trial(np.zeros((n, 1)), 4.0, name=f"{n}") for n in lengths))

    def entry(share: float, unlike: str | None) -> Overview:
        return Overview(("out", "back"), np.array([share, 1 - share], np.float32), max(share, 1 - share), unlike)

    found = (entry(1.0, None), entry(0.0, "strange"), entry(0.5, None))
    table = teach.shares_table(found, {"AAA": trials(30, 10), "BBB": trials(20)})
    assert table["p out"].tolist() == [0.75, 0.5]
    assert table["sure"].tolist() == [1.0, 0.5]
    assert table["unlike the taught ones"].tolist() == ["25%", ""]
