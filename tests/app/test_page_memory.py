"""Turning from page to page: none meets the settings of another. That each keeps its own needs an address, and so a
browser: tests/browser/test_frame.py."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import navigation
from tests.support.compared import lines, made_up
from tests.support.page import APP, turned
from tests.support.sliders import slider


@pytest.fixture(autouse=True)
def _quick(engine, monkeypatch):
    # Compare fits nine models when it is entered; what it makes of them is in test_compare.py.
    monkeypatch.setattr("gdm_core.engine.compare.fitted_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.lines_to_beat", lines)


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_file(APP).run()


def test_another_page_starts_with_its_own_settings(app):
    turned(app, "nascar")
    slider(app, "K").set_value(9).run()
    app.segmented_control(key="stay").set_value("fix").run()
    for folder, n_states in (("formula1", 3), ("behaviour", 5)):
        turned(app, folder)
        assert slider(app, "K").value == n_states
        assert app.segmented_control(key="stay").value == "learn"


@pytest.mark.bulk
def test_every_page_can_be_entered_from_every_other(app):
    """Also with one key of different meaning on both, which `stay` is on the playground."""
    folders = [entry.folder for entry in navigation.available()]
    turned(app, "nascar")
    app.segmented_control(key="stay").set_value("fix").run()
    turned(app, "playground")
    slider(app, "stay").set_value(0.6).run()
    for k, first in enumerate(folders):
        turned(app, first)
        for second in folders[k + 1 :]:
            turned(app, second)
            turned(app, first)


def test_a_link_brings_its_own_settings_and_not_those_left_before(app):
    turned(app, "nascar")
    slider(app, "K").set_value(9).run()
    turned(app, "home")
    turned(app, "nascar", T="400")
    assert slider(app, "T").value == 400
    assert slider(app, "K").value == 4
