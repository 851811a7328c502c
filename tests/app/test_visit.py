"""A reload of Your data: the session that follows finds file, settings, fit and marks by the token that the tab holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from datasets.marks import Mark, Marks
from pages.lab.live import session_cleanup
from pages.lab.teach import lessons
from pages.your_data import intake, visit
from tests.support.your_data_page import html, opened, upload, uploaded, waves


class Tabs:
    """Browser tabs with a session each: what the tab says when it is asked, and what it was told to hold."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.says, self.told = "first", None, {}
        monkeypatch.setattr(visit.live, "visitor", lambda: self.session)
        monkeypatch.setattr(visit, "_kept", self._component)
        monkeypatch.setattr(visit, "LEAVES_WITHIN_S", 0.2)
        monkeypatch.setattr(session_cleanup, "_visits", {})

    def _component(self, *, data: dict[str, Any], **_: Any) -> SimpleNamespace:
        self.told = data
        return SimpleNamespace(kept=None if data["token"] is not None or data["over"] else self.says)

    def reloaded(self, *, connected: bool = False, token: str | None = None) -> AppTest:
        """The page in a new session of the same tab."""
        if not connected:
            for one in session_cleanup._visits.values():
                one.left = True
        self.session, self.says = f"after {self.session}", token or self.told["token"]
        return opened()


@pytest.fixture
def tabs(monkeypatch) -> Tabs:
    return Tabs(monkeypatch)


def test_a_reload_finds_file_settings_fit_and_marks(engine, tabs):
    app = uploaded("walk.csv", waves(600, 20.0))
    app.button(key="fit").click().run()
    fit = app.session_state["live-your_data"]
    of = lessons.key_of(app.session_state[f"{intake.KEPT}-made"][1])
    marks = Marks((Mark("first 60 %", 0, 50, "walk"),))
    app.session_state[lessons._place(of)] = lessons.Lesson(own=marks, touched=True)
    app.run()
    jobs = len(engine.jobs)
    token = tabs.told["token"]
    again = tabs.reloaded()
    assert "walk.csv" in html(again)
    assert again.session_state["live-your_data"] is fit
    assert again.session_state[lessons._place(of)].own == marks
    assert len(engine.jobs) == jobs, "nothing is fitted anew"
    assert tabs.told["token"] not in (None, token), "each session has a token of its own"


def test_what_was_edited_and_chosen_for_the_file_is_found_too(engine, tabs):
    app = uploaded("walk.csv", waves(600, 20.0))
    digest = app.session_state[intake.KEPT][1].source
    app.number_input(key=intake.every_key(digest)).set_value(2).run()
    editor = next(str(key).removesuffix("-drawn") for key in app.session_state if str(key).endswith("-drawn"))
    rows = [dict(row) for row in app.session_state[f"{editor}-drawn"]]
    rows[1]["role"] = "ignore"
    app.session_state[f"{editor}-drawn"] = rows  # as the visitor's edits leave it
    app.run()
    again = tabs.reloaded()
    assert again.number_input(key=intake.every_key(digest)).value == 2
    assert again.session_state[f"{editor}-changed"][1]["role"] == "ignore"


def test_a_token_that_opens_nothing_says_so_and_a_file_that_is_taken_away_is_not_kept(engine, tabs):
    app = tabs.reloaded(token="of somebody else")
    assert visit.GONE in html(app)
    assert tabs.told == {"token": None, "over": True}
    upload(app, "walk.csv", waves(600, 20.0))
    assert visit.GONE not in html(app)
    app.button(key="leave").click().run()
    assert tabs.told == {"token": None, "over": True}
    assert session_cleanup._visits == {}


def test_a_copied_tab_leaves_the_file_where_it_is_open(engine, tabs):
    uploaded("walk.csv", waves(600, 20.0))
    copy = tabs.reloaded(connected=True)
    assert visit.OPEN in html(copy)
    assert "walk.csv" not in html(copy)
    assert len(session_cleanup._visits) == 1
