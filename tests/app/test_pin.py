"""A pinned result: beside the living one until it is unpinned, in the address, and on every page as the page draws it."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_studio.plot.figures.base import untyped
from pages.lab import live, naming, pin
from pages.lab.naming import Naming, arrange
from pages.ui.model_controls import choice_of
from tests.support import page
from tests.support.controls import control
from tests.support.drawn import record
from tests.support.formula1_page import arrange as arrange_sessions
from tests.support.formula1_page import box, driven_race, one_of, visit, words
from tests.support.nascar_page import live_of, opened, settled, text
from tests.support.sliders import slider
from tests.support.your_data_page import html, upload, uploaded, waves


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


def _rows(figure) -> dict[str, np.ndarray]:
    """By the name of a row of strips, the numbers and shares of the two strongest states at each moment."""
    trace = figure["data"][0]
    return dict(zip(trace["y"], untyped(trace["customdata"]), strict=True))


def _settled(app: AppTest, folder: str) -> AppTest:
    for _ in range(6):
        lives = [
            app.session_state[f"live-{name}"]
            for name in (folder, f"{folder}-pinned")
            if f"live-{name}" in app.session_state
        ]
        if not any(live.busy for live in lives):
            break
        app.run()
    return app.run()


# ---- Formula 1 ----------------------------------------------------------------------------------------------------
@pytest.fixture
def feed(monkeypatch, tmp_path):
    return arrange_sessions(monkeypatch, tmp_path, driven_race)


def test_formula1_draws_the_map_and_the_average_lap_of_what_is_pinned(feed, monkeypatch):
    drawn = record(monkeypatch)
    app = _settled(visit(source="real"), "formula1")
    assert "pinned-map" not in drawn
    app.button(key="formula1-pin").click().run()
    slider(app, "K").set_value(5).run()
    app = _settled(app, "formula1")
    assert one_of(app.query_params["pin"]) == "gdm_3_0.99_learn_linear_2_0"
    assert "of 3 states" in drawn["pinned-map"][0]["alt"]
    assert "of 5 states" in drawn["map"][0]["alt"]
    assert not any(mark.get("name") == "badge" for mark in drawn["pinned-map"][0]["layout"]["annotations"])
    assert list(_rows(drawn["pinned-strips"][0])) == ["pinned", "now"]
    said = words(app)
    assert (
        "Pinned: Gumbel Dynamical Model, states K 3, softness τ 0.99, stay γ learned, seed 0, states of places, D 2"
        in said
    )
    assert '<th scope="row">Says what the car does</th>' in said
    app.button(key="formula1-unpin").click().run()
    assert "pin" not in app.query_params
    assert "live-formula1-pinned" not in app.session_state


@pytest.mark.parametrize(("who", "code"), [("train", "AAA"), ("test", "CCC")])
def test_what_is_pinned_has_the_colours_of_what_stands_whatever_both_fits_call_their_states(
    feed, monkeypatch, who, code
):
    drawn = record(monkeypatch)
    # Another seed numbers the same states otherwise, and the link gives them colours of their own.
    more = {"K": "4", "seed": "1", "colours": "3-1-4-2", "pin": "gdm_4_0.99_learn_window_2_0"}
    _settled(visit(source="real", who=who, **more), "formula1")
    rows = _rows(drawn["pinned-strips"][0])
    np.testing.assert_array_equal(rows["pinned"], rows["now"])
    of_map = [trace["marker"]["color"] for trace in drawn["map"][0]["data"] if "marker" in trace]
    assert of_map == [trace["marker"]["color"] for trace in drawn["pinned-map"][0]["data"] if "marker" in trace]
    assert f"The average lap of {code}." in drawn["pinned-strips"][0]["caption"]


@pytest.mark.bulk
def test_other_laps_have_what_is_pinned_fitted_to_them(feed):
    app = _settled(visit(source="real", pin="arhmm-sticky_3_1.0_learn_window_2_7"), "formula1")
    before = app.session_state["live-formula1-pinned"].poll()
    assert (before.wanted.family, before.n_states) == ("arhmm", 3)
    box(app, "Fit on (train)").set_value("BBB").run()
    app = _settled(app, "formula1")
    shown = {name: app.session_state[f"live-{name}"].poll() for name in ("formula1", "formula1-pinned")}
    fitted = {name: one.wanted.train.fingerprint for name, one in shown.items()}
    assert fitted["formula1"] == fitted["formula1-pinned"] != before.wanted.train.fingerprint
    assert shown["formula1-pinned"].wanted.config["seed"] == 7


# ---- Behaviour ----------------------------------------------------------------------------------------------------
def _behaviour(**query: str) -> AppTest:
    return _settled(page.opened("behaviour", **{"frames": "1000"} | query), "behaviour")


@pytest.mark.bulk
def test_behaviour_draws_what_is_pinned_beside_the_experts_labels(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = _behaviour()
    app.button(key="behaviour-pin").click().run()
    control(app, "slider", "K").set_value(3).run()
    app = _settled(app, "behaviour")
    text = one_of(app.query_params["pin"])
    assert text.startswith("gdm_5_0.99_learn_linear_")
    rows = _rows(drawn["pinned-bouts"][0])
    assert list(rows) == ["expert", "pinned", "now"]
    living, soft = _rows(drawn["strips"][0]), _rows(drawn["pinned-strips"][0])
    for row, same in ((rows["expert"], "expert"), (rows["now"], "bouts"), (soft["now"], "states")):
        np.testing.assert_array_equal(row, living[same])
    assert "the colour of the label" in drawn["pinned-bouts"][0]["caption"]
    assert '<th scope="row">Macro-F1</th>' in html(app)
    assert "pinned states:" in html(app)


@pytest.mark.bulk
def test_a_pinned_fit_of_the_same_settings_looks_like_the_one_that_stands(engine, monkeypatch):
    drawn = record(monkeypatch)
    _behaviour(K="4", seed="1", sees="Places", D="2", pin="gdm_4_0.99_learn_linear_2_0")
    for kind in ("pinned-bouts", "pinned-strips"):
        rows = _rows(drawn[kind][0])
        np.testing.assert_array_equal(rows["pinned"], rows["now"])


def test_both_are_measured_with_the_rule_of_bouts_that_stands(engine):
    app = _behaviour(pin="gdm_4_0.99_learn_linear_2_0")
    control(app, "slider", "smooth").set_value(2.0).run()
    app = _settled(app, "behaviour")
    measured = {
        name: app.session_state[f"live-{name}"].answers.latest("scores").about.where.measure.options
        for name in ("behaviour", "behaviour-pinned")
    }
    assert measured["behaviour"] == measured["behaviour-pinned"]
    assert measured["behaviour"][0] == 2.0


@pytest.mark.bulk
def test_another_recording_has_what_is_pinned_fitted_to_it(engine):
    app = _behaviour(pin="gdm_4_0.99_learn_linear_2_0")
    app.number_input(key="mice").set_value(3).run()
    app = _settled(app, "behaviour")
    shown = [app.session_state[f"live-{name}"].poll() for name in ("behaviour", "behaviour-pinned")]
    assert shown[0].wanted.train.fingerprint == shown[1].wanted.train.fingerprint
    assert shown[1].result is not None


# ---- Your data ----------------------------------------------------------------------------------------------------
def test_a_file_has_what_is_pinned_beside_it_and_so_has_the_next_one(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = uploaded("waves.csv", waves(900, 20.0))
    app.button(key="fit").click().run()
    app = _settled(app, "your_data")
    app.button(key="your_data-pin").click().run()
    control(app, "slider", "K").set_value(5).run()
    app = _settled(app, "your_data")
    pin = one_of(app.query_params["pin"])
    rows = _rows(drawn["pinned-bouts"][0])
    assert list(rows) == ["pinned", "now"], "there are no labels"
    assert "States that match have the same colour" in drawn["pinned-bouts"][0]["caption"]
    assert '<th scope="row">Explains new trials (R²)</th>' in html(app)
    before = app.session_state["live-your_data-pinned"].poll().wanted
    assert not before.keep, "nothing of a file is kept"
    app = upload(app, "others.csv", waves(900, 13.0, seed=1))
    app.button(key="fit").click().run()
    app = _settled(app, "your_data")
    after = app.session_state["live-your_data-pinned"].poll().wanted
    assert one_of(app.query_params["pin"]) == pin
    assert after.config == before.config
    assert after.train.fingerprint == app.session_state["live-your_data"].poll().wanted.train.fingerprint
    assert after.train.fingerprint != before.train.fingerprint


# ---- colours ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("n_states", "by_labels", "stands", "into"),
    [
        (3, (2, 0, 5), Naming.plain(3), (2, 0, 5)),
        (3, (), Naming.plain(3), (0, 1, 2)),
        (5, (), Naming.plain(3), (0, 1, 2, 3, 4)),
        (2, (), Naming.plain(3), (0, 1)),
        (3, (), arrange([""] * 3, range(3), [4, None, None]), (4, 1, 2)),  # recoloured by the visitor
        (4, (), arrange([""] * 3, [0, 0, 2]), (0, 1, 2, 3)),  # two of them merged: one keeps the colour
    ],
)
def test_a_pinned_state_has_the_colour_of_its_label_or_of_the_state_that_stands_there(
    n_states, by_labels, stands, into
):
    assert naming.beside(n_states, by_labels, stands).into == into
