"""Practice, sprints, flags and qualifying on the Formula 1 page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets.f1.session import Spell
from pages.formula1 import tyres, weekend
from tests.support.formula1 import ring_driver, ring_session
from tests.support.formula1_page import arrange, box, driven_race, one_of, visit, words


# ---- practice, sprints, flags and weather -----------------------------------------------------------------------------
def practice(name="Practice 1"):
    """Return a session in which AAA is half a second faster than BBB, with a red flag and rain."""
    slow = ring_driver("BBB", 6)
    slow = replace(slow, laps=replace(slow.laps, seconds=slow.laps.seconds + 0.5))
    spells = (Spell(130.0, 160.0, "red flag"), Spell(0.0, 50.0, "yellow"), Spell(280.0, 300.0, "rain"))
    session = ring_session(ring_driver("AAA", 6), slow)
    return replace(session, name=name, spells=spells, track=(42.0, 35.0))


def test_flags_and_rain_are_bands_behind_the_lap_times():
    session = practice()
    figure = weekend.improvement(session, ["AAA", "BBB"])
    bands = [(band["x0"], band["x1"]) for band in figure["layout"]["shapes"]]
    assert np.allclose(bands, [(0.5, 1.0), (3.0, 200 / 60)]), "the yellow flag ended before the first lap"
    named = [mark["text"] for mark in figure["layout"]["annotations"]]
    assert {"red flag", "rain"} <= set(named)
    assert "42 to 35 °C" in figure["caption"]
    assert weekend.conditions(ring_session()) == ""


def test_rain_is_shaded_on_its_laps():
    chart, _ = tyres.strategy(practice("Race"))
    assert [layer["mark"]["type"] for layer in chart.to_dict()["layer"]] == ["bar", "text", "rect"]


@pytest.mark.parametrize(
    ("name", "tab"), [("Practice 1", "Best laps"), ("Sprint Shootout", "Best laps"), ("Sprint", None), ("Race", None)]
)
def test_practice_opens_with_best_laps_and_a_sprint_does_not(monkeypatch, tmp_path, name, tab):
    arrange(monkeypatch, tmp_path, lambda: practice(name))
    app = visit(source="real")
    assert (app.tabs[0].label == tab) == bool(tab), [one.label for one in app.tabs]
    assert ("0:40.000" in words(app)) == bool(tab)
    assert "red flag" in words(app)


# ---- telemetry ----------------------------------------------------------------------------------------------------------
def test_link_zooms_the_telemetry(monkeypatch, tmp_path):
    arrange(monkeypatch, tmp_path, driven_race)
    app = visit(source="real", view="Telemetry", zoom="T2")
    for _ in range(3):
        app.run()
    assert box(app, "Zoom").value == "T2"
    assert one_of(app.query_params["zoom"]) == "T2"
    assert [box(app, label).value for label in ("Driver", "Second driver", "Third driver", "Fourth driver")] == [
        "AAA",
        "CCC",
        "nobody",
        "nobody",
    ]
    box(app, "Third driver").set_value("BBB").run()
    assert one_of(app.query_params["driver-c"]) == "BBB"


def test_qualifying_finding_names_winner_and_sector_gaps():
    def timed(code, seconds, sectors):
        driver = ring_driver(code, n_laps=2)
        laps = replace(driver.laps, seconds=np.array([45.0, seconds]), sectors=np.array([[10.0, 15.0, 20.0], sectors]))
        return replace(driver, laps=replace(laps, part=np.array([1, 1])))

    session = ring_session(timed("AAA", 39.5, [10.0, 14.5, 15.0]), timed("BBB", 39.6, [10.2, 14.35, 15.05]))
    finding = weekend.finding(replace(session, name="Qualifying"))
    for part in ("AAA", "0:39.500", "0.100 s", "BBB", "+0.200 s", "-0.150 s", "+0.050 s"):
        assert part in finding
