"""Labelling: what the desk sends is kept, a label model predicts the rest, and all of it can be downloaded."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from datasets.marks import Mark, Marks
from gdm_core.labels import Agreement
from gdm_core.labels.requests import Trust
from pages.lab.labelling import desk as desk_module
from pages.lab.labelling import results
from pages.lab.labelling.labels import MOST_LETTERS, expert_codes
from pages.ui import navigation
from tests.support.labelled import NAMES
from tests.support.labelling_page import Desk, choose, control, html, opened, stored_labels
from tests.support.labelling_page import trial as chosen
from tests.support.offered import file_makers, offered

pytestmark = pytest.mark.usefixtures("one_torch_thread", "real")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()
    monkeypatch.setattr(desk_module, "_desk", made)
    return made


def jobs(engine, slot: str) -> int:
    return [job.name for job in engine.jobs].count(f"ask-{slot}")


# ---- the desk -----------------------------------------------------------------------------------------------------
def test_marks_of_the_desk_are_kept_with_those_of_other_trials(engine, desk):
    app = opened(known=False)
    desk.send(app, [[30, 60, "rest"], [90, 120, "walk"]])
    choose(app, "fit-1")
    assert desk.data["marks"] == []
    desk.send(app, [[0, 30, "turn"]])
    assert stored_labels(app).marks.marks == (
        Mark("trial 1", 30, 60, "rest"),
        Mark("trial 1", 90, 120, "walk"),
        Mark("trial 2", 0, 30, "turn"),
    )
    choose(app, "fit-0")
    desk.send(app, desk.data["marks"][:1])
    assert [mark.label for mark in stored_labels(app).marks.marks] == ["turn", "rest"]
    assert desk.data["names"] == [*NAMES], "colours do not depend on the order of marks"


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([[30, 31, "rest"]], "single frame"),
        ([[30, 60, "rest"], [50, 70, "walk"]], "marked as both"),
        ([[390, 500, "rest"]], "last frame is 399"),
        ([[30, 60, " "]], "has no label"),
        ([[10 * i, 10 * i + 5, f"label {i}"] for i in range(13)], "at most 12"),
        ([7], "not marks"),
        (7, "not iterable"),
    ],
)
def test_invalid_marks_are_refused_and_taken_back(engine, desk, rows, error):
    app = opened()
    desk.send(app, [[200, 230, "turn"]])
    revision = desk.data["revision"]
    desk.send(app, rows)
    assert error in html(app)
    assert desk.data["marks"] == [[200, 230, "turn"]]
    assert desk.data["revision"] == revision + 1, "the desk draws what the page has"


@pytest.mark.parametrize("message", [7, {"marks": []}, {"trial": "trial 1", "revision": "0", "marks": []}])
def test_messages_of_another_form_are_ignored(engine, desk, message):
    app = opened()
    desk.send(app, [[200, 230, "turn"]])
    desk.message = message
    app.run()
    assert len(stored_labels(app).marks.marks) == 1


def test_marks_sent_before_a_change_of_the_page_are_ignored(engine, desk):
    app = opened()
    desk.send(app, [[30, 60, "rest"]])
    control(app, "selectbox", "remove-label").set_value(0).run()
    app.button(key="remove-label-now").click().run()
    assert not stored_labels(app).marks.marks
    desk.send(app, [[30, 60, "rest"], [90, 120, "walk"]], revision=0)
    assert not stored_labels(app).marks.marks


def test_a_label_can_be_added_without_a_mark(engine, desk):
    app = opened(known=False)
    assert desk.data["names"] == []
    for name in ("groom", " rear ", "groom", "", "x" * 99):
        control(app, "text_input", "label-name").set_value(name)
        next(button for button in app.button if button.label == "Add label").click().run()
        if name == "groom" and len(desk.data["names"]) > 1:
            assert "is already a label" in html(app)
    assert desk.data["names"] == ["groom", "rear", "x" * MOST_LETTERS]


# ---- predictions --------------------------------------------------------------------------------------------------
def test_two_labels_predict_the_whole_trial(engine, desk):
    app = opened()
    assert "Label a stretch of one behaviour" in html(app)
    desk.label(app, 1)
    assert "Label at least one clip of another class" in html(app)
    assert jobs(engine, "labels") == 0
    desk.label(app, 2)
    assert jobs(engine, "labels") == 1
    assert desk.data["sure"]
    choose(app, "new-2")
    assert desk.data["sure"], "held-out trials have predictions"
    assert not desk.data["fitted"], "and no marks"


def test_trust_stands_next_to_the_majority_baseline(engine, desk):
    app = desk.label(opened(), 6)
    table = next(one.value for one in app.dataframe if "majority baseline" in one.value)
    assert table["compared with"].tolist() == ["your labels, cross-validated", "expert labels, held-out trials"]
    assert (table["macro-F1"] > table["majority baseline"]).all()


def test_agreement_needs_two_stretches_of_each_label(engine, desk):
    app = desk.label(opened(), 2)
    assert "cannot be measured yet" in html(app)


def test_trust_table_leaves_out_what_is_unknown():
    assert len(results.trust_table(Trust(3.0, None, None))) == 0
    table = results.trust_table(Trust(3.0, None, Agreement(0.5, 0.25, 2)))
    assert table.iloc[0].tolist() == ["expert labels, held-out trials", 2, 0.5, 0.25]


def test_expert_labels_are_found_by_name(engine, desk):
    app = opened()
    data = app.session_state["fit-your_data"].spec.dataset
    assert expert_codes(data, ("Walk ", "groom", "rest")) == (
        data.every_label.index("walk"),
        -1,
        data.every_label.index("rest"),
    )


# ---- proposals ----------------------------------------------------------------------------------------------------
def test_next_clip_goes_to_an_unlabelled_clip_and_never_twice(engine, desk):
    app = opened()
    seen = []
    for _ in range(3):
        app.button(key="next-clip").click().run()
        app.run()
        clip = stored_labels(app).asked[-1]
        assert chosen(app) == f"fit-{clip[0]}"
        assert desk.data["clip"] == {"number": len(stored_labels(app).asked), "start": clip[1], "stop": clip[2]}
        seen.append(clip)
    assert len({*seen}) == 3
    desk.send(app, [[clip[1], clip[2], "rest"]])
    assert desk.data["clip"] is None, "it is labelled now"


def test_a_press_leads_to_a_training_trial(engine, desk):
    app = choose(opened(), "new-2")
    app.button(key="go-to-training").click().run()
    assert chosen(app) == "fit-0"


# ---- files --------------------------------------------------------------------------------------------------------
def test_labels_survive_another_page_and_travel_as_files(engine, desk):
    app = desk.label(opened(), 3)
    before = stored_labels(app).marks
    for folder in ("home", "your_data"):
        app.query_params.clear()  # as the links of the menu do
        app.switch_page(str(navigation.info(folder).path)).run()
    assert stored_labels(app).marks == before
    choose(app, "fit-0")
    assert {"Your labels (JSON)", "Predicted labels (CSV)"} <= offered(app)
    files = {name: make() for name, make in file_makers(app).items() if "label" in name}
    table = pd.read_csv(io.BytesIO(files["your_data-walk-labels.csv"]))
    assert len(table) == 400
    np.testing.assert_allclose(table.filter(like="p ").sum(axis=1), 1, atol=1e-3)
    app = load(opened(), "labels.json", files["your_data-walk-labels.json"])
    assert stored_labels(app).marks == before


def load(app: AppTest, name: str, content: bytes) -> AppTest:
    return control(app, "file_uploader", "labels-file").set_value((name, content, "text/plain")).run()


def test_bouts_of_an_annotation_file_label_the_chosen_trial(engine, desk):
    app = load(opened(), "bouts.csv", b"start,stop,behaviour\n1,2,rest\n3,4,walk\n")
    assert [(m.recording, m.start, m.stop, m.label) for m in stored_labels(app).marks.marks] == [
        ("trial 1", 30, 60, "rest"),
        ("trial 1", 90, 120, "walk"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("labels.json", b"[1, 2]", "This is not a list of marks"),
        ("bouts.csv", b"\x00\x01\x02", "bouts.csv"),
        ("labels.json", Marks((Mark("gone", 0, 9, "x"),)).to_json().encode(), "which is not among"),
        (
            "labels.json",
            json.dumps({"marks": [dict(recording="trial 1", start=35, stop=40, label="x")]}).encode(),
            "both",
        ),
    ],
)
def test_files_without_valid_labels_change_nothing(engine, desk, name, content, error):
    app = desk.send(opened(), [[30, 60, "rest"]])
    load(app, name, content)
    assert error in html(app)
    assert len(stored_labels(app).marks.marks) == 1
