"""Pages under forged addresses, control values, component messages and uploads."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from pages.ui import navigation
from pages.ui.tables import clicked_row
from tests.support import forged
from tests.support.controls import control
from tests.support.page import opened
from tests.support.your_data_page import html, uploaded

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
        state.string_value = forged.text(rng)


@pytest.mark.parametrize(
    "folder", [name if name in QUICK else pytest.param(name, marks=pytest.mark.bulk) for name in PAGES]
)
def test_page_survives_forged_address_values_and_messages(folder: str, engine):
    rng = np.random.default_rng(PAGES.index(folder))
    address: dict[str, str | list[str]] = {name: forged.text(rng) for name in NAMES}
    address |= {str(name): [forged.text(rng), forged.text(rng)] for name in rng.choice(NAMES, 5, replace=False)}
    app = opened(folder, **address | SMALL.get(folder, {}))
    states = app._tree.get_widget_states()
    for element in app.get("bidi_component"):
        messages = [{"event": event, "value": forged.message(rng)} for event in ("moved", "click", "select", "range")]
        trigger = WidgetState(id=_make_trigger_id(element.proto.id, "events"), json_trigger_value=json.dumps(messages))
        states.widgets.extend(
            [trigger, WidgetState(id=element.proto.id, json_value=json.dumps({"moved": forged.value(rng)}))]
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
    head = f"time,=1+1,{forged.MARKUP},label"
    text = (
        head
        + "\n"
        + "".join(f"{i / 10},{np.sin(i):.3f},{np.cos(i):.3f},{'=A1' if i < 40 else forged.MARKUP}\n" for i in range(80))
    )
    app = uploaded("=cmd.csv", text.encode())
    cells = {str(cell) for frame in drawn for cell in [*frame.columns, *frame.to_numpy().ravel()]}
    assert "'=1+1" in cells
    assert not [cell for cell in cells if cell[:1] in ("=", "@", "+")]
    assert "<img" not in html(app)
