"""Home's cards lead to pages that show what the cards do."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.f1.layouts import LAYOUTS
from pages.formula1.data import turned
from pages.lab.live import screen
from pages.lab.view import Looked
from pages.ui import navigation
from pages.ui.demo import load_demo
from tests.support.live_engine import QuickEngine

APP = str(navigation.ROOT / "app.py")


@pytest.fixture
def engine(monkeypatch) -> QuickEngine:
    made = QuickEngine(auto=False)  # nothing is fitted or read: what is shown ships with the app
    monkeypatch.setattr(screen, "get_engine", lambda: made)
    return made


def followed(card: str) -> AppTest:
    """The page behind a card of Home, at the address of the card's link."""
    app = AppTest.from_file(APP, default_timeout=60).run().switch_page(str(navigation.info(card).path))
    for name, value in load_demo(card).query.items():
        app.query_params[name] = str(value)
    app.run()
    assert not app.exception, app.exception[0].message
    return app


def test_the_card_of_the_track_opens_that_track_on_the_lap_it_shows(engine):
    demo = load_demo("nascar")
    app = followed("nascar")
    live = app.session_state["live-nascar"]
    assert live.poll().state == "fresh"
    assert engine.waiting("main") == []
    trial, states = live.poll().wanted.test[0], live.records.last(Looked).states(1)
    assert trial.name == "nascar soft, seed 100"
    np.testing.assert_allclose(trial.position, demo.position, atol=1e-4)
    assert np.abs(states - demo.states).mean() < 0.02, "in the same colours"
    assert app.button_group(key="trial").value == "test"


def test_the_card_of_the_race_opens_the_driver_it_shows(engine):
    app = followed("formula1")
    shown = app.session_state["live-formula1"].poll()
    assert shown.state == "fresh"
    assert app.button_group(key="who").value == "test"
    assert engine.waiting("main") == []
    laps = shown.wanted.test[0]
    shown = turned(laps.position, LAYOUTS["shanghai"].rotation)
    assert np.isin(load_demo("formula1").position.round(2), shown.round(2)).all(), "turned as the page turns it"


def test_the_card_of_the_mice_opens_the_trial_it_shows(engine):
    demo = load_demo("behaviour")
    app = followed("behaviour")
    shown = app.session_state["live-behaviour"].poll()
    assert shown.state == "fresh"
    assert engine.waiting("main") == []
    first_new = shown.wanted.test[0]
    np.testing.assert_array_equal(first_new.labels, demo.labels)
    assert "new-" in app.selectbox(key="trial").value


def test_links_of_home_carry_the_address_of_what_they_show():
    app = AppTest.from_file(APP, default_timeout=60).run()
    links = {link.proto.page: link.proto.query_string for link in app.get("page_link")}
    assert any("trial=New+trial" in query for query in links.values())
    assert any("applied" in query for query in links.values())
