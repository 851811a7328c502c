"""The slider on the server: range, address, being held. What it does under a finger is in tests/browser/test_slider.py."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.errors import ConfigError
from pages.ui import slider as slider_module
from pages.ui.slider import slider as make_slider
from tests.support.sliders import slider, sliders


def _page() -> None:
    import streamlit as st

    from pages.ui.slider import finish_run, slider

    k = slider("States (K)", 2, 12, 4, key="K", help="How many.", bind="query-params", live=True)
    tau = slider("Softness (τ)", 0.05, 3.0, 0.2, 0.05, key="tau", bind="query-params", format="%.1f s")
    st.text(repr(tuple(k)))
    st.text(repr(tuple(tau)))
    if not st.session_state.get("less"):
        slider("Private", 0, 10, 5, key="private")
        slider("Moment", 0, 10, 5, key="moment", bind="query-params", disabled=st.session_state.get("off", False))
    finish_run()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(_page)


def _found(app: AppTest) -> list[str]:
    return [text.value for text in app.text]


def test_it_starts_where_it_should_and_leaves_the_address_alone(app):
    assert _found(app.run()) == ["(4, False)", "(0.2, False)"]
    assert app.query_params == {}
    assert [each.label for each in sliders(app)] == ["States (K)", "Softness (τ)", "Private", "Moment"]
    assert slider(app, "K").help == "How many."


def test_where_it_rests_is_in_the_address_until_it_is_back_at_its_start(app):
    app.run()
    slider(app, "K").set_value(7).run()
    slider(app, "tau").set_value(2.35).run()
    slider(app, "private").set_value(9).run()
    assert _found(app) == ["(7, False)", "(2.35, False)"]
    assert app.query_params == {"K": "7", "tau": "2.35"}
    slider(app, "K").set_value(4).run()
    assert app.query_params == {"tau": "2.35"}


def test_the_address_waits_for_the_release(app):
    app.run()
    slider(app, "K").hold(9).run()
    assert _found(app)[0] == "(9, True)"
    assert app.query_params == {}
    slider(app, "K").hold(8).run()
    slider(app, "K").set_value(8).run()
    assert _found(app)[0] == "(8, False)"
    assert app.query_params == {"K": "8"}


@pytest.mark.parametrize(
    ("said", "stands", "kept"),
    [
        ("9", "9", {"K": "9"}),
        ("99", "12", {"K": "12"}),
        ("-3", "2", {"K": "2"}),
        ("6.4", "6", {"K": "6"}),
        ("4", "4", {}),
        ("many", "4", {}),
        ("nan", "4", {}),
        ("", "4", {}),
    ],
)
def test_an_address_is_moved_into_the_range(app, said, stands, kept):
    app.query_params["K"] = said
    assert _found(app.run())[0] == f"({stands}, False)"
    assert app.query_params == kept


def test_an_address_may_say_what_lies_between_two_steps(app):
    app.query_params["tau"] = "0.517"
    assert _found(app.run())[1] == "(0.517, False)"
    assert app.query_params == {"tau": "0.517"}


def test_a_slider_that_is_gone_leaves_the_address_and_comes_back_at_its_start(app):
    app.run()
    slider(app, "moment").set_value(8).run()
    assert app.query_params == {"moment": "8"}
    app.session_state["less"] = True
    app.run()
    assert app.query_params == {}
    app.session_state["less"] = False
    app.run()
    assert slider(app, "moment").value == 5


def test_the_page_can_put_it_somewhere(app, exceptions):
    app.run()
    app.session_state["tau"] = 7.0
    assert _found(app.run())[1] == "(3.0, False)"
    app.session_state["tau"] = "much"
    app.run()
    assert "'tau' was set to 'much'" in app.exception[0].message


def test_a_disabled_slider_shows_its_value(app):
    app.session_state["off"] = True
    app.run()
    assert slider(app, "moment").disabled
    with pytest.raises(AssertionError, match="cannot be moved"):
        slider(app, "moment").set_value(6)


def test_a_thumb_that_moves_after_its_visitor_has_left_the_page_moves_nothing(monkeypatch):
    heard = []
    monkeypatch.setattr(slider_module, "renderer", lambda name: lambda **given: heard.append(given["on_moved_change"]))
    state = {"K": 4}
    monkeypatch.setattr(slider_module.st, "session_state", state)
    make_slider("States (K)", 2, 12, 4, key="K", live=True)
    state["slider-K"] = {"moved": {"value": 7, "held": False, "number": 1}}
    heard[0]()
    assert state["K"] == 7
    state.clear()  # as turning to another page leaves it (pages/ui/navigation.py)
    heard[0]()
    assert state == {}


@pytest.mark.parametrize(
    ("low", "high", "start", "step"),
    [(5, 5, 5, 1), (5, 2, 3, 1), (0, 10, 11, 1), (0.0, 1.0, 0.5, 0.0), (0.0, 1.0, 0.5, -0.1)],
)
def test_a_range_without_sense_is_refused(low, high, start, step):
    with pytest.raises(ConfigError, match=r"'Odd'.*give a range that grows"):
        make_slider("Odd", low, high, start, step, key="odd")


@pytest.mark.parametrize("format", ["", "steps", "%s", "%d%", "%.2x"])
def test_a_format_that_cannot_be_written_is_refused(format):
    with pytest.raises(ConfigError, match="take one such as"):
        make_slider("Odd", 0, 1, 0, key="odd", format=format)
