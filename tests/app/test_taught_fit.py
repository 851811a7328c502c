"""The page follows the fit that was taught: strips, card, exports and the model file, and back again."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.analysis import teaching
from gdm_core.models.loading import model_from_bytes
from pages.lab.teach import lessons
from pages.lab.teach.lessons import Entry
from pages.lab.teach.taught_fit import WithWords
from tests.support.offered import made
from tests.support.taught import NAMES
from tests.support.teach_page import (
    DATA,
    bouts,
    control,
    do,
    drawn,
    files_of_the_script,
    kept,
    mark,
    opened,
    said,
    tab,
    taught,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread", "real")
WITHOUT = "are of the fit without words"


def switched(app: AppTest, on: bool) -> AppTest:
    control(app, "toggle", "teach-with-words").set_value(on).run()
    app.run()
    return app


def shown(app: AppTest) -> tuple[bytes, str]:
    """(the model file that is offered, the script)."""
    files = made(tab(app, "Export & reproduce"))
    return files["your_data-walk-model.safetensors"](), files["your_data-walk-reproduce.py"]().decode()


def test_the_whole_page_follows_the_taught_fit_and_goes_back(engine):
    app = opened()
    assert not app.toggle or not [one for one in app.toggle if "with-words" in str(one.key)], "nothing is marked yet"
    taught(app, 4)
    assert WITHOUT in said(app)
    plain = drawn(app, "strips")["data"][0]["z"]
    switched(app, True)
    assert "are of the fit that was taught" in said(app)
    assert "Your words on new trials (macro-F1)" in said(app)
    assert drawn(app, "strips")["data"][0]["z"] != plain
    model, script = shown(app)
    read = model_from_bytes(model)
    assert set(read.class_names_) == {word for *_, word in bouts()[:4]}
    assert "model = model.warm_start().fit(train, labels=labels, class_names=words)" in script
    assert "without your words" not in said(app)
    switched(tab(app, "Teach"), False)
    assert WITHOUT in said(app)
    assert "Your words on new trials" not in said(app)
    assert drawn(app, "strips")["data"][0]["z"] == plain
    model, script = shown(app)
    assert not model_from_bytes(model).class_names_
    assert "These files are of the fit without your words" in said(app)
    assert "taught = model.warm_start()" in script


@pytest.mark.bulk
def test_a_further_mark_is_followed_and_one_word_alone_says_what_is_missing(engine):
    app = switched(taught(opened(), 4), True)
    first = shown(app)[0]
    tab(app, "Teach")
    begin, end, word = bouts()[4]
    mark(app, (round(begin, 2), round(end, 2), word))
    app.run()
    assert "by 5 marks" in said(app)
    assert shown(app)[0] != first
    tab(app, "Teach")
    while len(kept(app).own.words) > 1:
        do(app, Entry("undo"))
    app.run()
    assert "Every mark says" in said(app)
    assert not model_from_bytes(shown(app)[0]).class_names_


@pytest.mark.bulk
def test_the_script_of_a_taught_fit_gives_its_states_and_words(engine, tmp_path, monkeypatch):
    app = switched(taught(opened(), 4), True)
    space = files_of_the_script(app, tmp_path, monkeypatch)
    states = next(make for name, make in made(app).items() if name.endswith("-states.csv"))()
    again = model_from_bytes(shown(app)[0])
    np.testing.assert_allclose(
        space["model"].predict_label_proba(DATA[0]), again.predict_label_proba(DATA[0]), atol=1e-4
    )
    page = pd.read_csv(io.BytesIO(states)).filter(regex=r"^p_\d+$").to_numpy()
    np.testing.assert_allclose(space["named"][0], page, atol=2e-3)
    assert pd.read_csv("words.csv").filter(items=list(NAMES)).notna().any(axis=None)


@pytest.mark.bulk
def test_what_is_measured_of_a_taught_fit(engine):
    app = switched(taught(opened(), 6), True)
    fit = app.session_state["live-your_data"].records.last(WithWords)
    train, words = app.session_state["live-your_data"].setting.data.train, fit.marks.words
    expert = tuple(NAMES.index(word) for word in words)
    model = model_from_bytes(fit.fit.model_bytes)
    found = teaching.by_expert(model, DATA, expert)
    assert found is not None
    assert found["macro_f1"] > found["majority"]
    assert 0 <= found["calibration_error"] <= 1
    assert teaching.by_expert(model, DATA, (-1,) * len(words)) is None
    assert lessons.from_json(json.dumps(lessons.to_plain(kept(app))), train)["with_words"]
    assert len(fit.marks.stretches(train)) == 6
