"""Suggested settings: computing, explaining and applying them."""

import base64
import re
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from gdm_core.analysis.suggestions import Probe
from gdm_core.errors import FitError
from pages.lab.suggest import share_colours
from tests.support.drawn import pieces
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
    n_states = setting["n_states"]
    hard = 255 * np.eye(n_states, dtype=np.uint8)[np.arange(trials.n_samples) // 50 % n_states]
    packed = base64.b64encode(hard.tobytes()).decode("ascii")
    return asdict(Probe(model, dict(setting), held_out, REPEATABLE[model] / max(1, n_states - 2), packed=packed))


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


def test_every_number_of_states_has_a_picture(engine, probes):
    app = settled(pressed(opened(view="Suggest settings"), "Suggest settings"))
    (pictures,) = [part for part in pieces(app) if '<div class="gdm-tries' in part]
    assert re.findall(r"K = \d", re.sub(r'alt="[^"]*"', "", pictures)) == [f"K = {k}" for k in range(2, 9)]
    assert re.findall(r"<b>(.*?)</b>", pictures) == ["K = 3, recommended"]


def test_matching_states_of_each_k_share_a_colour():
    labels = np.arange(600) // 20 % 4
    four, two = np.eye(4, dtype=np.uint8)[labels], np.eye(2, dtype=np.uint8)[np.minimum(labels, 1)]
    merged = np.stack([labels == 2, labels != 2], axis=1)

    def made_of(hard):
        packed = base64.b64encode((255 * hard.astype(np.uint8)).tobytes()).decode("ascii")
        return Probe("gdm", {"n_states": hard.shape[1]}, (0.0,), 1.0, packed=packed)

    tried = [made_of(two), made_of(merged), made_of(four[:, [3, 1, 0, 2]])]
    current = four.astype(np.float32)
    shown = [states.argmax(axis=1) for states in share_colours(tried, 4, current)]
    np.testing.assert_array_equal(shown[2], labels)
    np.testing.assert_array_equal(shown[0][labels == 0], 0)
    np.testing.assert_array_equal(shown[1][labels == 2], 2)
