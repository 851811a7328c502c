"""The slider on the server: range, address and held values. Its browser side is in tests/browser/test_slider.py."""

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


def test_slider_starts_at_its_default(app):
    assert _found(app.run()) == ["(4, False)", "(0.2, False)"]
    assert app.query_params == {}
    assert [each.label for each in sliders(app)] == ["States (K)", "Softness (τ)", "Private", "Moment"]
    assert slider(app, "K").help == "How many."


def test_address_holds_values_other_than_the_default(app):
    app.run()
    slider(app, "K").set_value(7).run()
    slider(app, "tau").set_value(2.35).run()
    slider(app, "private").set_value(9).run()
    assert _found(app) == ["(7, False)", "(2.35, False)"]
    assert app.query_params == {"K": "7", "tau": "2.35"}
    slider(app, "K").set_value(4).run()
    assert app.query_params == {"tau": "2.35"}


def test_held_slider_leaves_the_address_alone(app):
    app.run()
    slider(app, "K").hold(9).run()
    assert _found(app)[0] == "(9, True)"
    assert app.query_params == {}
    slider(app, "K").hold(8).run()
    slider(app, "K").set_value(8).run()
    assert _found(app)[0] == "(8, False)"
    assert app.query_params == {"K": "8"}


@pytest.mark.parametrize(
    ("asked", "value", "kept"),
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
def test_address_is_clamped_to_the_range(app, asked, value, kept):
    app.query_params["K"] = asked
    assert _found(app.run())[0] == f"({value}, False)"
    assert app.query_params == kept


def test_address_may_lie_between_two_steps(app):
    app.query_params["tau"] = "0.517"
    assert _found(app.run())[1] == "(0.517, False)"
    assert app.query_params == {"tau": "0.517"}


def test_removed_slider_leaves_the_address(app):
    app.run()
    slider(app, "moment").set_value(8).run()
    assert app.query_params == {"moment": "8"}
    app.session_state["less"] = True
    app.run()
    assert app.query_params == {}
    app.session_state["less"] = False
    app.run()
    assert slider(app, "moment").value == 5


def test_page_can_set_the_value(app, exceptions):
    app.run()
    app.session_state["tau"] = 7.0
    assert _found(app.run())[1] == "(3.0, False)"
    app.session_state["tau"] = "much"
    app.run()
    assert "'tau' was set to 'much'" in app.exception[0].message


def test_disabled_slider_cannot_be_moved(app):
    app.session_state["off"] = True
    app.run()
    assert slider(app, "moment").disabled
    with pytest.raises(AssertionError, match="cannot be moved"):
        slider(app, "moment").set_value(6)


def test_late_message_of_a_left_page_is_ignored(monkeypatch):
    heard = []
    monkeypatch.setattr(slider_module, "renderer", lambda name: lambda **given: heard.append(given["on_moved_change"]))
    state = {"K": 4}
    monkeypatch.setattr(slider_module.st, "session_state", state)
    make_slider("States (K)", 2, 12, 4, key="K", live=True)
    state["slider-K"] = {"moved": {"value": 7, "held": False, "number": 1}}
    heard[0]()
    assert state["K"] == 7
    state.clear()  # as after turning to another page
    heard[0]()
    assert state == {}


@pytest.mark.parametrize(
    ("low", "high", "start", "step"),
    [(5, 5, 5, 1), (5, 2, 3, 1), (0, 10, 11, 1), (0.0, 1.0, 0.5, 0.0), (0.0, 1.0, 0.5, -0.1)],
)
def test_invalid_range_raises_config_error(low, high, start, step):
    with pytest.raises(ConfigError, match=r"'Odd'.*give a range that grows"):
        make_slider("Odd", low, high, start, step, key="odd")


@pytest.mark.parametrize("format", ["", "steps", "%s", "%d%", "%.2x"])
def test_invalid_format_raises_config_error(format):
    with pytest.raises(ConfigError, match="take one such as"):
        make_slider("Odd", 0, 1, 0, key="odd", format=format)
