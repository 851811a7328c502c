"""Suggested settings: computing, explaining and applying them."""

from dataclasses import asdict
from typing import Any

import pytest

from gdm_core.analysis.suggestions import Probe
from gdm_core.errors import FitError
from tests.support.nascar_page import opened, settled, text
from tests.support.page import pressed
from tests.support.sliders import slider
from tests.support.your_data_page import uploaded, waves

LEVEL = {1: 10.0, 2: 18.0, 3: 25.0}
AHEAD = {"gdm": 0.0, "arhmm-sticky": -9.0}
REPEATABLE = {"gdm": 1.0, "arhmm-sticky": 1.0}


def made_up(model: str, setting: dict[str, Any], trials: Any, seeds: Any) -> dict[str, Any]:
    """Return a probe in which three states are best, or the sticky AR-HMM if it is ahead."""
    mean = LEVEL.get(setting["n_states"], 25.0) + AHEAD[model]
    held_out = tuple(mean + 0.01 * i for i in range(10))
    return asdict(Probe(model, dict(setting), held_out, REPEATABLE[model] / max(1, setting["n_states"] - 2)))


@pytest.fixture
def probes(monkeypatch):
    monkeypatch.setattr("gdm_core.engine.suggest.probe", made_up)


def test_suggestion_is_computed_and_applied(engine, probes):
    app = opened(view="Suggest settings")
    app = settled(pressed(app, "Suggest settings"))
    app = settled(pressed(app, "Apply settings"))
    assert slider(app, "K").value == 3


def test_model_and_states_are_applied_together(engine, probes, monkeypatch):
    monkeypatch.setitem(AHEAD, "arhmm-sticky", 9.0)
    app = settled(pressed(opened(view="Suggest settings"), "Suggest settings"))
    assert app.markdown[0].value.startswith("**Use three states (Sticky AR-HMM)")
    app = settled(pressed(app, "Apply settings"))
    assert app.selectbox(key="model~1").value == "arhmm-sticky"
    assert slider(app, "K").value == 3
    assert app.markdown[0].value.startswith("**Use three states (Sticky AR-HMM)"), "it stays on the page"


def test_model_that_predicts_better_can_be_taken_too(engine, probes, monkeypatch):
    monkeypatch.setitem(AHEAD, "arhmm-sticky", 0.5)
    monkeypatch.setitem(REPEATABLE, "arhmm-sticky", 0.8)
    app = settled(pressed(opened(view="Suggest settings"), "Suggest settings"))
    app = settled(pressed(app, "Use Sticky AR-HMM, K = 3"))
    assert app.selectbox(key="model~1").value == "arhmm-sticky"
    assert "Already in use" in [each.label for each in app.button]


def test_failed_suggestion_has_a_message(engine, monkeypatch):
    def never(*args):
        raise FitError("Every fit of this setting diverged.")

    monkeypatch.setattr("gdm_core.engine.suggest.probe", never)
    app = settled(pressed(opened(view="Suggest settings"), "Suggest settings"))
    assert "Every fit of this setting diverged." in text(app)


def test_single_state_offers_nothing_to_apply(engine, monkeypatch):
    monkeypatch.setitem(LEVEL, 1, 25.01)
    monkeypatch.setattr("gdm_core.engine.suggest.probe", made_up)
    app = uploaded("waves.csv", waves(600, 20.0))
    app.button(key="fit").click().run()
    app.session_state["view"] = "Suggest settings"
    app = pressed(app.run(), "Suggest settings").run()
    assert app.markdown, "the suggestion is explained"
    assert "Apply settings" not in [each.label for each in app.button]
