"""Practice, sprints, flags and qualifying on the Formula 1 page."""

from dataclasses import replace

import numpy as np
import pytest

from datasets.f1.long_runs import runs
from datasets.f1.session import Session, Spell
from pages.formula1 import laps, sessions, telemetry
from pages.formula1.circuit import open_circuit
from tests.support.drawn import record
from tests.support.formula1 import ring_driver, ring_session
from tests.support.formula1_page import RING, arrange, box, driven_race, one_of, visit, words


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
    figure = laps.improvement(session, ["AAA", "BBB"])
    bands = [(band["x0"], band["x1"]) for band in figure["layout"]["shapes"]]
    assert np.allclose(bands, [(0.5, 1.0), (3.0, 200 / 60)]), "the yellow flag ended before the first lap"
    named = [mark["text"] for mark in figure["layout"]["annotations"]]
    assert {"red flag", "rain"} <= set(named)
    assert "42 to 35 °C" in figure["caption"]
    assert laps.conditions(ring_session()) == ""


def test_rain_is_shaded_on_its_laps():
    figure = laps.strategy(practice("Race"))
    spans = [(one["x0"], one["x1"]) for one in figure["layout"]["shapes"] if one["fillcolor"] == laps.BANDS["rain"]]
    assert [(start % 1, end % 1) for start, end in spans] == [(0.5, 0.5)], "whole laps"


@pytest.mark.parametrize(("name", "race"), [("Practice 1", False), ("Sprint Shootout", False), ("Sprint", True)])
def test_practice_compares_best_laps_and_a_race_does_not(monkeypatch, tmp_path, name, race):
    arrange(monkeypatch, tmp_path, lambda: practice(name))
    field = words(visit(source="real", view="Field"))
    assert ("Best laps" in field) != race
    assert "red flag" in field
    laps = words(visit(source="real", view="Laps"))
    assert ("Race history" in laps) == race
    assert ("Improvement" in laps) != race


def _one_lap() -> Session:
    return replace(ring_session(ring_driver("AAA", 2), ring_driver("BBB", 2)), name="Qualifying")


def _without_corners() -> Session:
    return ring_session(ring_driver("AAA", 8), ring_driver("BBB", 8), corners=())


def _without_a_channel() -> Session:
    one, other, third = driven_race().drivers
    sent = {name: values for name, values in other.channels.items() if name not in ("speed", "brake")}
    return ring_session(one, replace(other, channels=sent), third)


@pytest.mark.bulk
@pytest.mark.parametrize("session", [_one_lap, _without_corners, _without_a_channel])
@pytest.mark.parametrize("second", ["AAA", "BBB"])
def test_every_tab_opens_for_poor_sessions(monkeypatch, tmp_path, session, second):
    arrange(monkeypatch, tmp_path, session)
    for tab in ("Compare", "Differences", "Corners", "Laps", "States", "Field", "Export"):
        assert not visit(source="real", view=tab, train="AAA", test=second).exception, tab


# ---- telemetry ----------------------------------------------------------------------------------------------------------
def test_link_zooms_the_telemetry(monkeypatch, tmp_path):
    drawn = record(monkeypatch)
    arrange(monkeypatch, tmp_path, driven_race)
    app = visit(source="real", zoom="T2", **{"more-channels": "true"})
    assert box(app, "Zoom").value == "T2"
    assert one_of(app.query_params["zoom"]) == "T2"
    figure, state = drawn["telemetry"]
    circuit = open_circuit(sessions.open_session(RING))
    assert figure["layout"]["xaxis"]["range"] == list(telemetry.zooms(circuit)["T2"])
    assert state == "fresh"
    assert [name for name in figure["layout"] if name.startswith("yaxis")] == [
        f"yaxis{n or ''}" for n in ("", 2, 3, 4, 5)
    ]


# ---- long runs ----------------------------------------------------------------------------------------------------------
def test_clicked_lap_is_excluded_and_included_again(monkeypatch):
    values: dict[str, str | None] = {}
    monkeypatch.setattr(laps.settings, "text", values.get)
    monkeypatch.setattr(laps.settings, "change", values.__setitem__)
    found = runs(ring_session(ring_driver("AAA", 12)), "AAA", 0.06)
    for lap in (4, 6):
        laps.toggle_lap(found, {"customdata": ["AAA", lap]})
    assert laps.excluded_laps() == {"AAA": (4, 6)}
    laps.toggle_lap(found, {"customdata": ["AAA", 4.0]})
    laps.toggle_lap(found, {"customdata": ["AAA", 99]})
    laps.toggle_lap(found, {"customdata": "nonsense"})
    laps.toggle_lap(found, None)
    assert laps.excluded_laps() == {"AAA": (4, 6)}
    laps.toggle_lap(found, {"customdata": ["AAA", 4]})
    laps.toggle_lap(found, {"customdata": ["AAA", 6]})
    assert values[laps.EXCLUDED] is None


def test_excluded_laps_are_in_the_link(monkeypatch, tmp_path):
    arrange(monkeypatch, tmp_path, lambda: ring_session(ring_driver("AAA", 12), ring_driver("BBB", 12)))
    app = visit(source="real", view="Laps", **{laps.EXCLUDED: "AAA-5"})
    assert one_of(app.query_params[laps.EXCLUDED]) == "AAA-5"
    (table,) = [frame.value for frame in app.dataframe if "Counted" in frame.value]
    assert table.set_index("Driver")["Counted"].to_dict() == {"AAA": 10, "BBB": 11}
    assert list(table.columns[5:8]) == ["Counted", "Mean, raw (s)", "Mean, fuel-corrected (s)"]
