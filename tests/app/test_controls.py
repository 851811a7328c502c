"""Controls on the server: range, address, messages and files. Their browser side is in tests/browser/test_slider.py."""

import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.errors import ConfigError
from pages.ui import uploads
from pages.ui.controls import make_scale, parse_move
from tests.support.controls import control
from tests.support.sliders import slider, sliders


def _page() -> None:
    import streamlit as st

    from pages.ui import settings
    from pages.ui.controls import slide

    settings.begin_run("lab")
    st.text(repr(slide("States (K)", 2, 12, 4, key="K", help="How many.", live=True)))
    st.text(repr(slide("Softness (τ)", 0.05, 3.0, 0.2, 0.05, key="tau")))
    if not st.session_state.get("less"):
        slide("Moment", 0, 10, 5, key="moment", disabled=st.session_state.get("off", False))
    settings.finish_run(True)


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(_page)


def _texts(app: AppTest) -> list[str]:
    return [text.value for text in app.text]


def test_slider_starts_at_its_default(app):
    assert _texts(app.run()) == ["4", "0.2"]
    assert app.query_params == {}
    assert [each.label for each in sliders(app)] == ["States (K)", "Softness (τ)", "Moment"]
    assert slider(app, "K").help == "How many."
    assert not app.toast


def test_address_holds_values_other_than_the_default(app):
    app.run()
    slider(app, "K").set_value(7).run()
    slider(app, "tau").set_value(2.35).run()
    assert _texts(app) == ["7", "2.35"]
    assert app.query_params == {"K": "7", "tau": "2.35"}
    slider(app, "K").set_value(4).run()
    assert app.query_params == {"tau": "2.35"}


@pytest.mark.parametrize(
    ("asked", "value", "kept", "said"),
    [
        ("9", "9", {"K": "9"}, ""),
        ("99", "12", {"K": "12"}, "Changed in this link: States (K) `99` to 12."),
        ("-3", "2", {"K": "2"}, "`-3` to 2"),
        ("6.4", "6", {"K": "6"}, ""),
        ("4", "4", {}, ""),
        ("many", "4", {}, "`many` to 4"),
        ("nan", "4", {}, "`nan` to 4"),
        ("inf", "12", {"K": "12"}, "`inf` to 12"),
        ("", "4", {}, "`` to 4"),
    ],
)
def test_address_is_clamped_and_reported(app, asked, value, kept, said):
    app.query_params["K"] = asked
    assert _texts(app.run())[0] == value
    assert app.query_params == kept
    assert [said in toast.value for toast in app.toast] == ([True] if said else [])
    assert not app.run().toast, "reported once"


def test_address_may_lie_between_two_steps(app):
    app.query_params["tau"] = "0.517"
    assert _texts(app.run())[1] == "0.517"


def test_removed_slider_leaves_the_address_and_keeps_its_value(app):
    app.run()
    slider(app, "moment").set_value(8).run()
    assert app.query_params == {"moment": "8"}
    app.session_state["less"] = True
    app.run()
    assert app.query_params == {}
    app.session_state["less"] = False
    app.run()
    assert slider(app, "moment").value == 8


def test_disabled_slider_cannot_be_moved(app):
    app.session_state["off"] = True
    app.run()
    assert slider(app, "moment").disabled
    with pytest.raises(AssertionError, match="cannot be moved"):
        slider(app, "moment").set_value(6)


@pytest.mark.parametrize(
    "message", [None, 7, "x", {"value": "7", "number": 1}, {"value": 1e300, "number": 1}, {"number": 1}]
)
def test_message_that_no_slider_sends_is_ignored(message):
    assert parse_move(message) is None


def test_message_is_parsed():
    assert parse_move({"value": 3, "number": 7, "held": True}) == (3.0, True, 7)
    assert parse_move({"value": 3.5, "number": 7, "held": "yes"}) == (3.5, False, 7)


@pytest.mark.parametrize(
    ("low", "high", "start", "step"),
    [(5, 5, 5, 1), (5, 2, 3, 1), (0, 10, 11, 1), (0.0, 1.0, 0.5, 0.0), (0.0, 1.0, 0.5, -0.1)],
)
def test_invalid_range_raises_config_error(low, high, start, step):
    with pytest.raises(ConfigError, match=r"'Odd'.*give a range that grows"):
        make_scale("Odd", low, high, start, step)


def _number_page() -> None:
    import streamlit as st

    from pages.ui import settings
    from pages.ui.controls import number

    settings.begin_run("lab")
    st.text(repr(number("Latent dimensions (D)", 1, 6, 2, key="D")))
    settings.finish_run(True)


def test_typed_number_outside_its_range_is_clamped_and_reported():
    app = AppTest.from_function(_number_page).run()
    app.number_input(key="D").set_value(40).run()
    assert (app.text[0].value, app.number_input(key="D").value) == ("6", 6)
    assert app.toast[0].value == "Latent dimensions (D) is 1 to 6: 40 was changed to 6."
    assert app.query_params == {"D": "6"}


def test_unknown_names_leave_the_address_and_are_reported():
    app = AppTest.from_function(_number_page)
    app.query_params.update({"corner": "T99", "K-ab12cd": "5", "D": "`9"})
    app.run()
    assert app.toast[0].value == "Changed in this link: Latent dimensions (D) `'9` to 2, `corner` left out."
    assert app.query_params == {"K-ab12cd": "5"}, "a setting of another recording stays"


# ---- uploads -------------------------------------------------------------------------------------------------------
def _upload_page() -> None:
    import streamlit as st

    from pages.ui.uploads import uploader

    kept = st.session_state.setdefault("kept", [])
    uploader("Files", kept.extend, key="files", several=True)
    st.text(" ".join(f"{file.name}={file.getvalue().decode()}" for file in kept))


def _send(app: AppTest, *names: str) -> None:
    files = [(f"{name}.csv", name.encode(), "text/csv") for name in names]
    control(app, "file_uploader", "files").set_value(files).run()


def test_files_are_taken_once():
    app = AppTest.from_function(_upload_page).run()
    _send(app, "a", "b")
    app.run()
    _send(app, "c")
    assert app.text[0].value == "a.csv=a b.csv=b c.csv=c"


def test_control_with_large_files_is_emptied(monkeypatch):
    monkeypatch.setattr(uploads, "LARGE_BYTES", 1)
    app = AppTest.from_function(_upload_page).run()
    _send(app, "a")
    assert [file.name for file in control(app, "file_uploader", "files").value] == ["a.csv"]
    _send(app, "b", "c")
    assert control(app, "file_uploader", "files").value == []
    assert app.text[0].value == "a.csv=a b.csv=b c.csv=c"
