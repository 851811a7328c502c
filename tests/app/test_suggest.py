"""Suggest settings: a button, what is recommended and why, and one click that sets the controls."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest

from gdm_core.analysis.suggestions import Probe
from gdm_core.errors import FitError
from tests.support.controls import control
from tests.support.nascar_page import opened, settled, text
from tests.support.page import opened as opened_at
from tests.support.page import pressed, turned
from tests.support.sliders import slider
from tests.support.your_data_page import html, uploaded, waves

LEVEL = {1: 10.0, 2: 18.0, 3: 25.0}


def made_up(family: str, setting: dict[str, Any], trials: Any, seeds: Any) -> dict[str, Any]:
    """Three states are found; a temperature of 0.3 is better than the page's."""
    mean = LEVEL.get(setting["n_states"], 25.0) + (1.0 if setting["temperature"] == 0.3 else 0.0)
    held_out = tuple(mean + 0.01 * i for i in range(10))
    return asdict(Probe(dict(setting), held_out, 1.0 / max(1, setting["n_states"] - 2), mean, 0, 4.0, 10))


@pytest.fixture
def probes(monkeypatch):
    monkeypatch.setattr("gdm_core.engine.suggest.probe", made_up)


def test_a_suggestion_is_asked_for_explained_and_applied(engine, probes):
    app = opened(view="Suggest settings")
    assert "Which settings do these data speak for?" in text(app)
    assert "2 halves" not in text(app)
    app = settled(pressed(app, "Suggest settings"))
    said = "\n".join(element.value for element in app.markdown)
    assert "Take three states" in said
    assert "Take softness (tau) 0.3 instead of 0.99" in text(app)
    app = settled(pressed(app, "Use these settings"))
    assert app.session_state["K"] == 3
    assert app.session_state["tau"] == pytest.approx(0.3)
    (button,) = [each for each in app.button if each.label == "Suggest settings" or each.label == "Use these settings"]
    assert button.label == "Suggest settings" or button.disabled


def test_a_suggestion_is_found_again_after_another_page(engine, probes):
    app = opened_at("nascar", view="Suggest settings")
    settled(pressed(settled(app), "Suggest settings"))
    settled(turned(turned(app, "home"), "nascar", view="Suggest settings"))
    assert "Take three states" in "\n".join(element.value for element in app.markdown)


def test_a_suggestion_that_fails_says_why(engine, monkeypatch):
    def never(*args):
        raise FitError("Every fit of this setting diverged.")

    monkeypatch.setattr("gdm_core.engine.suggest.probe", never)
    app = settled(pressed(opened(view="Suggest settings"), "Suggest settings"))
    assert "Settings cannot be compared: Every fit of this setting diverged." in text(app)


@pytest.mark.bulk
def test_behaviour_suggests_too_and_sets_the_controls_of_its_recording(engine, probes):
    app = pressed(opened_at("behaviour", view="Suggest settings"), "Suggest settings").run()
    assert "Take three states" in "\n".join(element.value for element in app.markdown)
    app = pressed(app, "Use these settings").run()
    assert slider(app, "K").value == 3
    assert slider(app, "tau").value == pytest.approx(0.3)


def test_one_state_is_recommended_in_one_voice(engine, monkeypatch):
    """Nothing sets two states where one is recommended, and where K starts is no second recommendation."""
    monkeypatch.setitem(LEVEL, 1, 25.01)
    monkeypatch.setattr("gdm_core.engine.suggest.probe", made_up)
    app = uploaded("waves.csv", waves(600, 20.0))
    assert re.search(r"It starts with K \d+ and D 2, from a first look: .*\. Which K the data speak for", html(app))
    app.button(key="fit").click().run()
    app.session_state["view"] = "Suggest settings"
    app = pressed(app.run(), "Suggest settings").run()
    assert "Take one state" in "\n".join(element.value for element in app.markdown)
    assert "Use these settings" not in [each.label for each in app.button]
    assert any("nothing to set here" in each.value for each in app.caption)
    control(app, "slider", "K").set_value(7).run()
    (back,) = [each for each in app.button if each.key == "to-start"]
    assert back.label.startswith("Back to the start: K ")
    assert "suggest" not in html(app).lower().replace("suggest settings", "")
