"""Pages under forged addresses, control values, component messages and uploads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest
import streamlit as st
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from pages.ui import navigation
from pages.ui.tables import clicked_row
from tests.support.controls import control
from tests.support.page import opened
from tests.support.your_data_page import html, uploaded

Rng = np.random.Generator
T = TypeVar("T")
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
FORMULA = '=HYPERLINK("http://example.org","click")'
LONG = 100_000
WORDS = (
    "", " ", "0", "-1", "1e308", "-1e309", "1e-400", "nan", "NaN", "inf", "-inf", "Infinity", "None", "null", "true", "[]", "{}",
    "0x10", "1_000", "1,5", "1.5.5", "+-3", "²", "½", "٣", "Ⅷ", "１２", "१-३", "1-²", "²-³", "-", "--", "1-2-3", "9-1", "0-0",
    "1-1", "1-99999999999999999999", "a-b", "~", "~~~", "x~1~a", "\x00", "a\x00b", "\ud83d\ude00".encode("utf-16", "surrogatepass")
    .decode("utf-16"), "\u202egnp.exe", "\ufeff3", "a\nb", "%00", "%s%n", "{0}", "${7*7}", "../../etc/passwd", "/etc/passwd",
    "C:\\boot.ini", "file:///etc/passwd", MARKUP, FORMULA, "+1+1", "@SUM(1)", "$x^2$", ":material/home:", "**bold**",
    "[a](javascript:b)", "9" * LONG, "A" * LONG, "1-" * (LONG // 2), "[" * LONG, "9" * 400, "9" * 5000, "1e" + "9" * 400,
)  # fmt: skip


def one_of(rng: Rng, things: Sequence[T]) -> T:
    return things[int(rng.integers(len(things)))]


def forge_text(rng: Rng) -> str:
    """Return text for a query parameter."""
    kind = rng.integers(6)
    if kind < 3:
        return one_of(rng, WORDS)
    if kind == 3:
        return repr(float(rng.normal() * 10.0 ** rng.integers(-320, 308)))
    if kind == 4:
        return str(int(rng.integers(-(2**62), 2**62)))
    return "".join(chr(int(code)) for code in rng.integers(1, 0x2FFF, int(rng.integers(1, 60))))


def forge_value(rng: Rng, depth: int = 2) -> Any:
    """Return a JSON value of any type."""
    kind = int(rng.integers(9 if depth else 7))
    if kind == 7:
        return [forge_value(rng, depth - 1) for _ in range(int(rng.integers(4)))]
    if kind == 8:
        return {forge_text(rng)[:20]: forge_value(rng, depth - 1) for _ in range(int(rng.integers(4)))}
    simple = (None, True, False, 10**400, float("nan"), float("inf"), -1, 0, 2**63, -(2**63), 1e308, -0.0)
    return forge_text(rng) if kind < 3 else one_of(rng, simple)


def forge_message(rng: Rng) -> Any:
    """Return the message of a slider with some fields wrong or missing."""
    if rng.random() < 0.3:
        return forge_value(rng)
    good: dict[str, Any] = {
        "value": float(rng.normal(0, 10)),
        "held": bool(rng.integers(2)),
        "number": int(rng.integers(99)),
    }
    for name in rng.choice(list(good), int(rng.integers(1, 4)), replace=False):
        if rng.random() < 0.2:
            del good[name]
        else:
            good[name] = forge_value(rng)
    return good


PAGES = [entry.folder for entry in navigation.REGISTRY]
QUICK = ("nascar", "your_data")  # the other pages are for `make test-all`
SMALL = {"nascar": {"T": "200", "scenario": "Standard"}, "behaviour": {"frames": "500", "mice": "2"},
         "compare": {"settings": "1", "seeds": "1", "data": "NASCAR, standard", "model-A": "AR-HMM"}}  # fmt: skip
NAMES = (
    "K", "tau", "gamma", "stay", "model", "D", "seed", "sees", "track", "scenario", "about", "view", "moment", "horizon", "trial",
    "file", "path", "source", "year", "event", "session", "train", "test", "laps-of", "laps", "tyres", "names", "colours",
    "settings",
    "K-A", "model-A", "tau-A", "gamma-A", "data", "seeds", "measure", "protocol", "panel", "example", "rate", "circuit", "watch",
    "channels", "drawn", "logit1", "grid-of", "stint", "won-by", "who", "badges", "channel", "features",
)  # fmt: skip


def forge(state: WidgetState, rng: np.random.Generator) -> None:
    """Replace the value that the browser would send for a control."""
    numbers = [-1e300, 1e300, np.nan, 2.5, -1]
    if state.HasField("double_value"):  # without NaN, for which Streamlit's field of whole numbers raises an error
        state.double_value = float(rng.choice([-1e300, 1e300, 2.5, -1]))
    elif state.HasField("int_value"):
        state.int_value = int(rng.choice([-1, 2**60, 0]))
    elif state.HasField("double_array_value"):
        state.double_array_value.data[:] = rng.choice(numbers, int(rng.integers(0, 3))).tolist()
    elif state.HasField("string_value") and state.string_value.startswith("{"):  # a clicked or edited table
        cells = {"selection": {"rows": [10**9, -5], "columns": ["x"], "cells": [[-(10**9), "x"]]}}
        edits = {"edited_rows": {"999999": {"x": 1}}, "added_rows": [{"x": 1}], "deleted_rows": [-7]}
        state.string_value = json.dumps(edits if "edited_rows" in state.string_value else cells)
    elif state.HasField("string_value"):
        state.string_value = forge_text(rng)


@pytest.mark.parametrize(
    "folder", [name if name in QUICK else pytest.param(name, marks=pytest.mark.bulk) for name in PAGES]
)
def test_page_survives_forged_address_values_and_messages(folder: str, engine):
    rng = np.random.default_rng(PAGES.index(folder))
    address: dict[str, str | list[str]] = {name: forge_text(rng) for name in NAMES}
    address |= {str(name): [forge_text(rng), forge_text(rng)] for name in rng.choice(NAMES, 5, replace=False)}
    app = opened(folder, **address | SMALL.get(folder, {}))
    states = app._tree.get_widget_states()
    for element in app.get("bidi_component"):
        messages = [{"event": event, "value": forge_message(rng)} for event in ("moved", "click", "select", "range")]
        trigger = WidgetState(id=_make_trigger_id(element.proto.id, "events"), json_trigger_value=json.dumps(messages))
        states.widgets.extend(
            [trigger, WidgetState(id=element.proto.id, json_value=json.dumps({"moved": forge_value(rng)}))]
        )
    for state in states.widgets:
        forge(state, rng)
    app._run(states)


@pytest.mark.parametrize(
    ("cells", "row"),
    [([], None), ([()], None), ([(0, "a")], 0), ([(2, "a")], 2), ([(3, "a")], None), ([(-1, "a")], None), ([("1", "a")], None),
     ([(True, "a")], None), ([(1.5, "a")], None)],
)  # fmt: skip
def test_clicked_row_is_within_the_table(cells, row):
    assert clicked_row(SimpleNamespace(selection=SimpleNamespace(cells=cells)), 3) == row


@pytest.mark.parametrize("name", ["run.exe", "a\x00.csv"])
def test_unsupported_upload_is_refused_with_a_message(name, engine):
    app = uploaded(name, b"{}")
    assert "Something went wrong" not in html(app)
    assert name[:5].rstrip("\x00") in html(app)
    assert control(app, "file_uploader", "upload")


@pytest.mark.parametrize("value", ["²", "2"])
def test_unknown_choice_falls_back_to_the_default(value):
    def script():
        import streamlit as st

        from pages.ui.controls import one_of

        st.text(one_of("Stint", {"all": "All stints", "1": "First"}, key="stint"))

    app = AppTest.from_function(script).run()
    states = app._tree.get_widget_states()
    states.widgets[0].string_value = value
    app = app._run(states)
    assert app.text[0].value == "all"


def test_uploaded_text_becomes_neither_formula_nor_markup(engine, monkeypatch):
    drawn = []
    plain = st.data_editor
    monkeypatch.setattr(st, "data_editor", lambda frame, **more: drawn.append(frame) or plain(frame, **more))
    head = f"time,=1+1,{MARKUP},label"
    text = (
        head
        + "\n"
        + "".join(f"{i / 10},{np.sin(i):.3f},{np.cos(i):.3f},{'=A1' if i < 40 else MARKUP}\n" for i in range(80))
    )
    app = uploaded("=cmd.csv", text.encode())
    cells = {str(cell) for frame in drawn for cell in [*frame.columns, *frame.to_numpy().ravel()]}
    assert "'=1+1" in cells
    assert not [cell for cell in cells if cell[:1] in ("=", "@", "+")]
    assert "<img" not in html(app)
