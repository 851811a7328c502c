"""Study: a first visit, other questions, files and a sheet, and what is wrong with them."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.study import work
from pages.ui import navigation
from tests.support.drawn import record, words
from tests.support.nascar_page import APP

PAGE = str(navigation.info("study").path)


@pytest.fixture(autouse=True)
def _no_hurry(engine, monkeypatch):
    monkeypatch.setattr(work, "AT_ONCE_S", 60.0)


def opened(**address: str) -> AppTest:
    app = AppTest.from_file(APP).run().switch_page(PAGE)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception[0].message
    return app


def test_a_first_visit_finds_an_answer_its_dots_and_all_recordings(monkeypatch):
    drawn = record(monkeypatch)
    said = words(opened())
    assert "As a whole, behaviour differs between control and treated." in said
    assert "groom, share of the labelled time: treated minus control" in said
    assert "What this design cannot say" in said
    figure, _ = drawn["study-dots"]
    assert "treated" in figure["alt"]
    assert "5 of 6" in said
    assert len(drawn["study-strips"][0]["data"][0]["y"]) == 40


def test_another_question_gives_another_answer():
    said = words(opened(between="session"))
    assert "no difference between 1 and 2 can be told from chance" in said
    assert "No single one differs" in said
