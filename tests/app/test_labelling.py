"""Labelling: what the desk sends is kept, a label model predicts the rest, and all of it can be downloaded."""

import io
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from datasets.marks import Mark, Marks
from gdm_core.labels import Agreement
from gdm_core.labels.requests import Trust
from pages.lab.labelling import desk as desk_module
from pages.lab.labelling import labels, panel, results
from pages.lab.labelling.labels import MOST_LETTERS, expert_codes
from pages.ui import navigation
from pages.ui.uploads import Upload
from tests.support.labelled import NAMES
from tests.support.labelling_page import DATA, Desk, choose, control, html, opened, stored_labels
from tests.support.labelling_page import trial as chosen
from tests.support.offered import file_makers, offered

OF = "a recording"


# ---- marks and labels without a page ------------------------------------------------------------------------------
@pytest.fixture
def labelling(session: dict[str, Any]) -> Any:
    """Return the labelling of a recording with one mark, in view of its first trial."""
    dataset = SimpleNamespace(fitted_recordings=DATA)
    view = SimpleNamespace(dataset=dataset, is_new=False)
    made = SimpleNamespace(scope=OF, view=view, here=SimpleNamespace(trial=DATA[0]))
    send(made, session, [[200, 230, "turn"]])
    return made


def send(labelling: Any, session: dict[str, Any], marks: Any, **fields: Any) -> None:
    """Receive the marks of the trial in view, as from the browser."""
    message = {"trial": DATA[0].name, "revision": labels.load(OF).revision, "marks": marks, **fields}
    session[desk_module.KEY] = {"marks": message}
    desk_module.receive_marks(labelling)


def stored_marks() -> list[tuple[int, int, str]]:
    return [(mark.start, mark.stop, mark.label) for mark in labels.load(OF).marks.marks]


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
def test_invalid_marks_are_refused_and_taken_back(labelling, session, rows, error):
    revision = labels.load(OF).revision
    send(labelling, session, rows)
    assert error in labels.load(OF).error
    assert stored_marks() == [(200, 230, "turn")]
    assert labels.load(OF).revision == revision + 1, "the desk draws what the page has"


def test_messages_of_another_form_or_revision_are_ignored(labelling, session):
    for message in (7, {"marks": []}, {"trial": DATA[0].name, "revision": 9, "marks": []}):
        session[desk_module.KEY] = {"marks": message}
        desk_module.receive_marks(labelling)
    assert stored_marks() == [(200, 230, "turn")]


def test_a_label_can_be_added_without_a_mark(session):
    for name in ("groom", " rear ", "groom", "", "x" * 99):
        labels.add_name(OF, name, labels.load(OF).names)
        assert bool(labels.load(OF).error) == (name in ("groom", "") and len(labels.load(OF).names) > 1)
    assert labels.load(OF).names == ("groom", "rear", "x" * MOST_LETTERS)


def test_expert_labels_are_found_by_name():
    data: Any = SimpleNamespace(every_label=("rest", "walk"))
    assert expert_codes(data, ("Walk ", "groom", "rest")) == (1, -1, 0)


def load(labelling: Any, name: str, content: bytes) -> None:
    panel.load_file(labelling, [Upload(name, content)])


def test_bouts_of_an_annotation_file_label_the_chosen_trial(labelling):
    load(labelling, "bouts.csv", b"start,stop,behaviour\n1,2,rest\n3,4,walk\n")
    assert set(stored_marks()) == {(30, 60, "rest"), (90, 120, "walk"), (200, 230, "turn")}


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("labels.json", b"[1, 2]", "This is not a list of marks"),
        ("bouts.csv", b"\x00\x01\x02", "bouts.csv"),
        ("labels.json", Marks((Mark("gone", 0, 9, "x"),)).to_json().encode(), "which is not among"),
        (
            "labels.json",
            json.dumps({"marks": [dict(recording=DATA[0].name, start=205, stop=210, label="x")]}).encode(),
            "both",
        ),
    ],
)
def test_files_without_valid_labels_change_nothing(labelling, name, content, error):
    load(labelling, name, content)
    assert error in labels.load(OF).error
    assert stored_marks() == [(200, 230, "turn")]


def test_trust_table_leaves_out_what_is_unknown():
    assert len(results.trust_table(Trust(3.0, None, None))) == 0
    table = results.trust_table(Trust(3.0, None, Agreement(0.5, 0.25, 2)))
    assert table.iloc[0].tolist() == ["expert labels, held-out trials", 2, 0.5, 0.25]


# ---- the page -----------------------------------------------------------------------------------------------------
@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()
    monkeypatch.setattr(desk_module, "desk_component", made)
    return made


@pytest.fixture
def fitted(desk: Desk, one_torch_thread: None, real: Any) -> Desk:
    """Return the desk of a page that fits the requested models, on which label models build."""
    return desk


def jobs(engine, slot: str) -> int:
    return [job.name for job in engine.jobs].count(f"ask-{slot}")


def test_marks_are_kept_with_those_of_other_trials(engine, desk):
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
    control(app, "selectbox", "remove-label").set_value(0).run()
    app.button(key="remove-label-now").click().run()
    assert [mark.label for mark in stored_labels(app).marks.marks] == ["rest"]


def test_two_labels_predict_the_whole_trial(engine, fitted):
    app = opened()
    assert "Label a stretch of one behaviour" in html(app)
    fitted.label(app, 1)
    assert "Label at least one clip of another class" in html(app)
    assert jobs(engine, "labels") == 0
    fitted.label(app, 2)
    assert jobs(engine, "labels") == 1
    assert fitted.data["sure"]
    assert "cannot be measured yet" in html(app), "agreement needs two stretches of each label"
    fitted.label(app, 6)
    table = next(one.value for one in app.dataframe if "majority baseline" in one.value)
    assert table["compared with"].tolist() == ["your labels, cross-validated", "expert labels, held-out trials"]
    assert (table["macro-F1"] > table["majority baseline"]).all()
    choose(app, "new-2")
    assert fitted.data["sure"], "held-out trials have predictions"
    assert not fitted.data["fitted"], "and no marks"
    app.button(key="go-to-training").click().run()
    assert chosen(app) == "fit-0"


def test_next_clip_goes_to_an_unlabelled_clip_and_never_twice(engine, fitted):
    app = opened()
    seen = []
    for _ in range(3):
        app.button(key="next-clip").click().run()
        app.run()
        clip = stored_labels(app).asked[-1]
        assert chosen(app) == f"fit-{clip[0]}"
        assert fitted.data["clip"] == {"number": len(stored_labels(app).asked), "start": clip[1], "stop": clip[2]}
        seen.append(clip)
    assert len({*seen}) == 3
    fitted.send(app, [[clip[1], clip[2], "rest"]])
    assert fitted.data["clip"] is None, "it is labelled now"


def test_labels_survive_another_page_and_travel_as_files(engine, fitted):
    app = fitted.label(opened(), 3)
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
    app = upload(opened(), "labels.json", files["your_data-walk-labels.json"])
    assert stored_labels(app).marks == before


def upload(app: AppTest, name: str, content: bytes) -> AppTest:
    return control(app, "file_uploader", "labels-file").set_value((name, content, "text/plain")).run()
