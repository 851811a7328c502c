"""What a state of Formula 1 is, on the page: its numbers, its name, and the visitor's own names."""

from __future__ import annotations

import io
import json
from html import escape
from types import SimpleNamespace

import pandas as pd
import pytest

from gdm_studio.plot.figures.base import plain
from pages import lab
from pages.formula1 import state_names
from tests.support.formula1_page import one_of, visit, words

pytestmark = pytest.mark.usefixtures("feed")


def test_states_are_named_by_what_the_car_does_in_them(feed):
    app = visit(view="What a state is")
    table, agreed = [frame.value for frame in app.dataframe]
    assert list(table["State"]) == ["S1", "S2", "S3"]
    assert table["Of the time"].sum() == pytest.approx(100)
    assert table["Speed"].between(50, 340).all()
    fast, slow = table.loc[table["Speed"].idxmax()], table.loc[table["Speed"].idxmin()]
    assert fast["Name"].startswith("flat out")
    assert slow["In corners"] > 50 > fast["In corners"]
    text = words(app)
    for state, name in zip(table["State"], table["Name"], strict=True):
        assert f"{state} {name}" in text, "the legend"
    assert agreed[""].tolist() == ["The states", "3 equal stretches of the lap", "One answer always"]
    states, place, one_answer = agreed["Told rightly"].round()
    assert one_answer <= place < states - 20, "states say more of what a driver does than the place"
    assert (agreed["Cornering"] > agreed["Part throttle"]).all()
    share = one_answer / 100
    assert agreed["Cornering"].iloc[2] == pytest.approx(2 * share / (1 + share), abs=0.01), "one answer: cornering"


WITHOUT_STATES = {
    "Prediction",
    "Which state wins where",
    "Time won on the map",
    "Time won by segment",
    "Time won by sector",
    "Time won by minisector",
}
HOSTILE = "<b>%{x}</b> $ink ~ & co"


def test_a_name_of_ones_own_stands_everywhere_as_text_and_in_the_link(feed, monkeypatch):
    app = visit(view="What a state is")
    proposed = app.dataframe[0].value["Name"][0]
    fit, own = next(iter(app.session_state[state_names._NAMES].items()))
    order = app.session_state["live-formula1"].poll().order
    assert own == {}
    assert "names" not in app.query_params
    state: dict[str, object] = {
        "editor": {"edited_rows": {0: {"Name": f"  {HOSTILE}\x07  "}}},
        state_names._NAMES: {fit: own},
    }
    with monkeypatch.context() as patched:
        patched.setattr(state_names, "st", SimpleNamespace(session_state=state))
        state_names.keep_names("editor", fit, order)
    named = HOSTILE
    assert own == {order[0]: named}
    app.run()
    assert f"S1 {escape(named)}</span>" in words(app), "the legend"
    assert f"S1 {proposed}<" not in words(app)
    link = {"view": "Export & reproduce", "names": one_of(app.query_params["names"])}
    assert link["names"] == f"{fit}~{order[0] + 1}~{named.replace('%', '%25').replace('~', '%7E')}"

    handed: list[lab.export.Export] = []
    monkeypatch.setattr(lab.export, "panel", handed.append)
    other = visit(**link)
    assert f"S1 {escape(named)}</span>" in words(other), "another visitor"
    export = handed[-1]
    written = dict((label, make) for label, make, _ in export.files(0))["Key (CSV)"]()
    assert pd.read_csv(io.BytesIO(written))["name"][0] == f"S1 {named}"
    shown = plain(f"S1 {named}")
    assert "<b>" not in shown
    assert "%{" not in shown
    for name, make in export.figures.items():
        figure = make()
        if figure is None or name in WITHOUT_STATES:
            continue
        assert shown in json.dumps(figure, ensure_ascii=False), name
        assert named not in json.dumps(figure["data"], ensure_ascii=False), name
    assert {"Time won on the map", "Time won by sector", "Time won by minisector", "Time won by state"} <= set(
        export.figures
    )
    assert "FLT brakes" in dict(reversed(export.facts))["finding"]
    assert dict(export.facts)[f"S1 {named}"].endswith("in 10 m")
    assert f"names = ['{named}'" in export.recipe.after[-1]
    table = export.tables["What the states are"]()
    assert table["Name"][0] == named
    assert table["Turning"].between(0, 90).all()

    state["editor"] = {"edited_rows": {0: {"Name": None}}}
    with monkeypatch.context() as patched:
        patched.setattr(state_names, "st", SimpleNamespace(session_state=state))
        state_names.keep_names("editor", fit, order)
    app.run()
    assert own == {}
    assert f"S1 {proposed}<" in words(app), "an emptied name is the proposed one again"
    assert "names" not in app.query_params


@pytest.mark.bulk
def test_names_of_a_link_belong_to_the_fit_they_were_given_to(feed):
    app = visit()
    (fit,) = app.session_state[state_names._NAMES]
    linked = visit(names=f"{fit}~1~mine", K="4")
    for _ in range(3):
        linked.run()
    assert "mine" not in words(linked)
    assert "names" not in linked.query_params


@pytest.mark.parametrize("text", ["", "~", "other~1~a", "{fit}~x~a~0~b~99~c~²~d", "{fit}~1", "{fit}~1~ ~2~~"])
def test_what_a_link_says_in_vain_names_nothing(text):
    assert state_names.from_address(text.format(fit="abc123"), "abc123") == {}


def test_names_go_into_the_address_and_come_back():
    own = {0: "flat out", 5: "into T14 & out", 7: "~ 50 %25, Bremsen <b>A&B"}
    assert state_names.from_address(state_names.to_address("abc123", own), "abc123") == own
    assert state_names.from_address("abc123~1~" + 90 * "a", "abc123") == {0: 40 * "a"}
