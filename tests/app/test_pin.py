"""A pinned result: beside the living one until it is unpinned, and in the address, whatever that may hold."""

from __future__ import annotations

import pytest

from pages.lab import live, pin
from pages.ui.model_controls import choice_of
from tests.support.drawn import record
from tests.support.nascar_page import live_of, opened, settled, text
from tests.support.sliders import slider


def _beside(app):
    return app.session_state["live-nascar-pinned"]


def test_a_pinned_result_stays_beside_what_is_tried_next_until_it_is_unpinned(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened(seed="1")
    assert "pin" not in app.query_params
    first = live_of(app).poll().result.key
    app.button(key="nascar-pin").click()
    settled(app.run())
    assert app.query_params["pin"] == "gdm_4_0.99_learn_window_2_1"
    slider(app, "K").set_value(6)
    settled(settled(app.run()))
    assert live_of(app).poll().n_states == 6
    assert _beside(app).poll().result.key == first, "the very fit that was pinned"
    page = text(app)
    assert "Pinned: Gumbel Dynamical Model, states K 4, softness τ 0.99, stay γ learned, seed 1" in page
    assert '<th scope="row">Matches the true states</th>' in page
    assert drawn["pinned-strips"][0]["data"][0]["y"] == ["pinned", "now"]
    assert "of 4 states" in drawn["pinned-track"][0]["alt"]
    app.button(key="nascar-unpin").click()
    app.run()
    assert "pin" not in app.query_params
    assert "Pinned: " not in text(app)
    assert "live-nascar-pinned" not in app.session_state, "nothing is kept of it"


def test_while_another_result_is_fitted_a_click_pins_the_one_that_is_seen(engine):
    app = opened(seed="1")
    engine.auto = False
    slider(app, "K").set_value(6)
    app.run()
    assert live_of(app).running
    app.button(key="nascar-pin").click()
    app.run()
    assert app.query_params["pin"] == "gdm_4_0.99_learn_window_2_1"
    engine.auto = True
    for job in engine.waiting():
        engine.run(job)
    settled(app.run())
    assert app.query_params["pin"] == "gdm_4_0.99_learn_window_2_1"
    assert live_of(app).poll().n_states == 6


def test_a_copied_link_opens_the_same_pair(engine):
    app = settled(opened(K="5", pin="arhmm_3_1.0_learn_window_2_7"))
    assert live_of(app).poll().n_states == 5
    shown = _beside(app).poll()
    assert (shown.wanted.family, shown.n_states, shown.wanted.config["seed"]) == ("arhmm", 3, 7)
    assert app.query_params["pin"] == "arhmm_3_1.0_learn_window_2_7"
    assert "Pinned: AR-HMM, states K 3, seed 7" in text(app)


def test_other_pages_do_not_take_it_for_a_page(engine, monkeypatch):
    app = opened(seed="1", pin="gdm_4_0.99_learn_window_2_1")
    lives = {name: app.session_state[name] for name in ("live-nascar", "live-nascar-pinned")}
    monkeypatch.setattr(live.screen.st, "session_state", lives)
    assert set(live.open_settings()) == {"nascar"}


@pytest.mark.parametrize(
    "text",
    [
        "", "gdm", "gdm_4_0.99_learn_window_2", "gdm_4_0.99_learn_window_2_0_0", "oracle_4_0.99_learn_window_2_0",
        "gdm_99_0.99_learn_window_2_0", "gdm_4_nan_learn_window_2_0", "gdm_4_1e999_learn_window_2_0", "gdm_4_-1_learn_window_2_0",
        "gdm_4_0.99_1.5_window_2_0", "gdm_4_0.99_inf_window_2_0", "gdm_4_0.99_learn_door_2_0", "gdm_4_0.99_learn_window_99_0",
        "gdm_4_0.99_learn_window_2_10000", "gdm_²_0.99_learn_window_2_0", "gdm_4_٣_learn_window_2_0",
        "gdm_4_0.99_learn_window_2_-1",
        "gdm_4_0.9" + "9" * 80 + "_learn_window_2_0", "<script>_4_0.99_learn_window_2_0",
    ],
)  # fmt: skip
def test_an_address_that_names_no_settings_pins_nothing(text):
    assert pin.parse(text) is None


@pytest.mark.parametrize(
    "choice",
    [
        choice_of("gdm", 4, 0.99, "learn", "linear", 2, 0),
        choice_of("gdm", 12, 0.01, 0.35, "window", 6, 9999),
        choice_of("rslds-sticky", 3, 1.0, "learn", "window", 2, 5),
        choice_of("gdm-rnn", 3, 0.5, 0.0, "window", 2, 5),
    ],
)
def test_what_is_written_into_an_address_is_read_back(choice):
    assert pin.parse(pin.text_of(choice)) == choice


def test_a_forged_pin_is_named_and_the_page_stands(engine):
    app = opened(seed="1", pin="<b>gdm</b>_4")
    assert "names no settings" in text(app)
    assert "<b>gdm" not in text(app)
    assert "pin" not in app.query_params
    assert app.button(key="nascar-pin") is not None


def test_a_pin_that_the_data_cannot_hold_says_so(engine):
    app = opened(seed="1", pin="gdm_4_0.99_learn_window_6_0", **{"standard.n_channels": "3"})
    assert "too few samples or channels" in text(app)
    assert "live-nascar-pinned" not in app.session_state
