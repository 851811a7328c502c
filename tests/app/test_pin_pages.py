"""A pinned result on Formula 1, Behaviour and Your data: drawn and coloured as the page does it, on the page's own data."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_studio.plot.figures.base import untyped
from pages.lab import naming
from pages.lab.naming import Naming, arrange
from pages.ui import navigation
from tests.support.controls import control
from tests.support.drawn import record
from tests.support.formula1_page import arrange as arrange_sessions
from tests.support.formula1_page import box, driven_race, one_of, visit, words
from tests.support.sliders import slider
from tests.support.your_data_page import html, upload, uploaded, waves


def _rows(figure) -> dict[str, np.ndarray]:
    """By the name of a row of strips, the numbers and shares of the two strongest states at each moment."""
    trace = figure["data"][0]
    return dict(zip(trace["y"], untyped(trace["customdata"]), strict=True))


def _settled(app: AppTest, page: str) -> AppTest:
    for _ in range(6):
        assert not app.exception, app.exception[0].value
        lives = [
            app.session_state[f"live-{name}"]
            for name in (page, f"{page}-pinned")
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
    app = AppTest.from_file(str(navigation.ROOT / "app.py")).run()
    app = app.switch_page(str(navigation.info("behaviour").path))
    for name, value in ({"frames": "1000"} | query).items():
        app.query_params[name] = value
    return _settled(app.run(), "behaviour")


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
