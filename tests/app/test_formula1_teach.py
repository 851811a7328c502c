"""Teach on the Formula 1 page: stretches of laps are named by metres, and the words of both drivers appear."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.marks import Mark, Marks
from gdm_core import Trial, Trials
from gdm_core.analysis.teaching import Overview
from gdm_core.errors import DataError
from gdm_studio.datasets import formula1 as installed
from pages.formula1 import teach
from pages.formula1.data import Laps
from pages.formula1.teach import LapAxis
from tests.support.formula1 import LAP_S, RADIUS, ring_driver
from tests.support.formula1_page import driven_by, ring_race, visit, words
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
    """Which stretches are refused: test_what_cannot_be_marked_is_refused_in_a_sentence."""
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
    driven_by(monkeypatch, ring_driver("AAA", holes=holes), ring_driver("BBB"))
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


# ---- stretches of laps in metres are the right samples, over the line too -------------------------------------------
A_LAP, STEP = 1_000.0, 10.0


def driven(*parts: tuple[float, float], late: int = 0) -> LapAxis:
    """Laps at a sample every 10 m, from 5 m on, of each (first, last metre since the start of lap 1).

    late   samples by which the number of the lap comes after the line
    """
    ways = [np.arange(first + 5, last, STEP) for first, last in parts]
    laps = [(np.maximum(np.floor((way - late * STEP) / A_LAP), 0) + 1).astype(np.int64) for way in ways]
    names = [f"AAA {i}" for i in range(len(ways))]
    trials = Trials(tuple(Trial(way[:, None], 4.0, name=name) for way, name in zip(ways, names, strict=True)))
    all_of = np.concatenate(ways)
    found = Laps("AAA", "", trials, np.zeros((len(all_of), 2), np.float32), (all_of % A_LAP).astype(np.float32),
                 np.concatenate(laps), {}, None, np.arange(len(all_of)) / 4)  # fmt: skip
    return LapAxis(found, A_LAP)


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize(
    ("lap", "begin", "end", "first", "stop"),
    [
        (2, 200, 450, 120, 145),
        (1, 0, 20, 0, 2),
        (2, 0, 1_000, 100, 200),
        (2, 950, 1_050, 195, 205),  # over the line
        (2, 204.9, 225.0, 120, 122),  # up to the sample at 225 m, without it
        (3, 980, 1_000, 298, 300),  # up to the last metre
    ],
)
def test_metres_of_a_lap_are_its_samples(late, lap, begin, end, first, stop):
    axis = driven((0, 3_000), late=late)
    assert axis.frames(lap, begin, end) == (0, first, stop)
    again = axis.metres(0, first, stop)
    assert axis.frames(*again) == (0, first, stop), "and back"


def test_a_lap_over_two_stretches_is_found_in_the_one_that_holds_it():
    axis = driven((0, 1_400), (1_700, 3_000))
    assert axis.frames(2, 100, 300) == (0, 110, 130)
    assert axis.frames(2, 800, 900) == (1, 10, 20)
    assert axis.trials_of(2) == [0, 1]
    values = np.ones((axis.along[0].size, 1), np.float32)
    shown = axis.on_grid(2, 0, values, 100)
    assert np.isfinite(shown[:40]).all()
    assert np.isnan(shown[50:]).all(), "nothing was sent there, and nothing is drawn"


@pytest.mark.parametrize(
    ("lap", "begin", "end", "said"),
    [
        (2, 300, 200, "lap 2 has to end after it begins. If it goes on over the start line"),
        (2, 300, None, "From and To are needed"),
        (2, float("nan"), 200, "From and To are needed"),
        (2, 1_000, 1_100, "lies outside of it: a lap has 1,000 m"),
        (2, 500, 2_001, "lies outside of it"),
        (2, 100, 104, "is not all among the laps that are fitted: nothing of it is"),
        (2, 100, 106, "holds less than two samples, .* one every 10 m"),
        (2, 300, 800, "has a hole in what AAA has sent, between 395 and 705 m"),
        (2, 420, 480, "is not all among the laps that are fitted: nothing of it is"),
        (2, 500, 720, r"is not all among the laps that are fitted: of it positions are known from 705 to 715 m"),
        (3, 900, 1_100, "positions are known from 905 to 995 m"),  # there is no lap 4
    ],
)
def test_what_cannot_be_marked_is_refused_in_a_sentence(lap, begin, end, said):
    with pytest.raises(DataError, match=said):
        driven((0, 1_400), (1_700, 3_000)).frames(lap, begin, end)


def test_samples_that_go_back_stay_where_they_were_and_standing_still_is_no_step():
    axis = driven((0, 2_000))
    axis.laps.distance[120:124] = [205, 203, 204, 205]  # the car stands, and its place is sent with noise
    assert (np.diff(axis.along[0]) >= 0).all()
    assert axis.step == 10
    assert axis.frames(2, 150, 204) == (0, 115, 120)


def test_stretches_in_words():
    axis = driven((0, 3_000))
    assert axis.in_words(0, 120, 145) == "lap 2, 205-455 m"
    assert axis.in_words(0, 195, 205) == "lap 2, 955 m to lap 3, 55 m"
    assert axis.in_words(0, 290, 300) == "lap 3, 905-1,000 m", "there is no lap 4"
