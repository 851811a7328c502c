"""What the Formula 1 page lets go of: every figure of its panel can be made."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.lab.live import screen
from pages.ui import navigation
from tests.support.formula1_page import arrange
from tests.support.live_engine import QuickEngine


@pytest.fixture(autouse=True)
def feed(monkeypatch, tmp_path):
    return arrange(monkeypatch, tmp_path)


def test_every_figure_of_the_panel_can_be_made(monkeypatch):
    engine = QuickEngine()
    monkeypatch.setattr(screen, "engine", lambda: engine)
    app = AppTest.from_file(str(navigation.ROOT / "app.py"), default_timeout=120)
    app.query_params["view"] = "Export & reproduce"
    app.query_params["K"] = "4"  # that of the first visit ships with the app
    app.run().switch_page(str(navigation.info("formula1").path))
    for _ in range(4):
        app.run()
    assert not app.exception
    names = app.selectbox(key="formula1-export-figure").options
    assert {"What follows what", "Prediction", "States along the lap"} < set(names)
    for name in names:
        app.selectbox(key="formula1-export-figure").set_value(name).run()
        assert not app.exception, name
    assert "being worked out" not in " ".join(str(element.value) for element in app.get("html"))
