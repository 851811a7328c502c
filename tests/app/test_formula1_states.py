"""States on the Formula 1 page: their statistics, proposed names and names of the user."""

import io
import json
from html import escape

import pandas as pd
import pytest

from gdm_studio.plot.figures.base import plain
from pages import lab
from tests.support.formula1_page import one_of, visit, visit_states, words

pytestmark = pytest.mark.usefixtures("feed")
FEW = {"laps-of": "range", "laps": "2-9"}  # fits take a second


def test_states_are_named_by_what_the_car_does(feed):
    app = visit_states(detail="Names")
    (table,) = [frame.value for frame in app.dataframe]
    assert list(table["State"]) == ["S1", "S2", "S3"]
    assert table["Usage"].sum() == pytest.approx(100)
    assert table["Speed"].between(50, 340).all()
    fast, slow = table.loc[table["Speed"].idxmax()], table.loc[table["Speed"].idxmin()]
    assert fast["Name"].startswith("on throttle")
    assert slow["Cornering"] > 50 > fast["Cornering"]
    text = words(app)
    for state, name in zip(table["State"], table["Name"], strict=True):
        assert f"{state} {name}" in text, "the legend has the names"


@pytest.mark.parametrize(("train", "n_states"), [("FLT", "3"), ("RGL", "4")])
def test_colours_follow_what_states_do(feed, train, n_states):
    """The first colour is full throttle and the third braking, for any driver and K."""
    (table,) = [frame.value for frame in visit_states(detail="Names", train=train, K=n_states, **FEW).dataframe]
    assert table["Throttle"].idxmax() == 0
    assert table["Braking"].idxmax() == 2


def test_states_file_has_driver_lap_and_distance(feed, monkeypatch):
    handed: list[lab.export.Export] = []
    monkeypatch.setattr(lab.export, "show_files", handed.append)
    visit(view="Export")
    files = {label: make for label, make, _ in handed[-1].trial_files(0)}
    table = pd.read_csv(io.BytesIO(files["States (CSV)"]()))
    assert set(table["driver"]) == {"FLT"}
    assert table["lap"].is_monotonic_increasing
    assert table["distance_m"].between(0, 5500).all()
    assert "simulated" in handed[-1].view.stem


HOSTILE = "<b>%{x}</b> $ink ~ & co"


def test_name_of_the_user_is_escaped_and_in_the_link(feed, monkeypatch):
    app = visit_states(detail="Names", **FEW)
    (box,) = [field for field in app.text_input if field.label == "S1"]
    box.set_value(f"  {HOSTILE}\x07  ").run()
    assert f"S1 {escape(HOSTILE)}</button>" in words(app)
    (key,) = [name for name in app.query_params if name.startswith("name")]
    linked = FEW | {key: one_of(app.query_params[key])}
    handed: list[lab.export.Export] = []
    monkeypatch.setattr(lab.export, "show_files", handed.append)
    other = visit(view="Export", **linked)
    assert one_of(other.query_params[key]) == linked[key], "hidden controls keep their names"
    written = dict((label, make) for label, make, _ in handed[-1].trial_files(0))["State names (CSV)"]()
    assert pd.read_csv(io.BytesIO(written))["name"][0] == f"S1 {HOSTILE}"
    drawn = handed[-1].figures["State usage"]()
    figure = json.dumps([drawn["data"], drawn["layout"]], ensure_ascii=False)
    assert plain(f"S1 {HOSTILE}") in figure
    assert HOSTILE not in figure
    assert escape(HOSTILE) not in words(visit_states(K="4", **linked)), "names belong to their fit"
