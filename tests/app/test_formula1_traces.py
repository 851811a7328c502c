"""Telemetry of single laps: traces over states, line styles and player data."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import data, teams, telemetry
from pages.formula1.data import DriverReading, Observation, Place
from pages.ui import theme
from tests.support.recording import reading_of

SHANGHAI = Place(circuit="shanghai")


@pytest.fixture(scope="module")
def race():
    """Return a session, its circuit and two drivers whose two states are slow and fast."""
    session = data.open_session(SHANGHAI)
    circuit = data.circuit(SHANGHAI)
    found = []
    for code in session.codes[:2]:
        laps = data.laps_of(SHANGHAI, code, Observation("2-6"))
        slow = laps.car["speed"] < 180
        states = np.column_stack([slow, ~slow, 0 * slow]).astype(np.float32)
        found.append(reading_of(laps.trials[0], states, kind=DriverReading, laps=laps))
    return session, circuit, found


@pytest.fixture(scope="module")
def pair(race):
    session, circuit, drivers = race
    found = [telemetry.trace(session, circuit, driver, 4) for driver in drivers]
    assert None not in found
    return found


def test_trace_follows_the_car_along_the_lap(race, pair):
    session, circuit, drivers = race
    one, laps = pair[0], drivers[0].laps
    part = laps.lap == 4
    at = np.abs(one.distance[:, None] - laps.distance[part]).argmin(axis=1)
    np.testing.assert_allclose(one.car["speed"], laps.speed[part][at], atol=25)
    assert set(np.unique(one.car["gear"])) <= set(range(1, 9)), "gears are not averaged"
    assert set(np.unique(one.car["brake"])) <= {0.0, 1.0}
    slow = one.car["speed"] < 170
    assert one.states[slow, 0].mean() > 0.9
    assert telemetry.trace(session, circuit, drivers[0], 99) is None


def test_every_channel_and_the_gap_have_a_panel(race, pair):
    session, circuit, _ = race
    figure = telemetry.laid_over(circuit, pair, teams.looks(session, [one.code for one in pair]))
    go.Figure(theme.resolve({"data": figure["data"], "layout": figure["layout"]}), skip_invalid=False)
    panels = [name for name in figure["layout"] if name.startswith("yaxis")]
    assert len(panels) == 6, "speed, throttle, brake, gear, rpm and the gap; simulated cars send no DRS"
    behind = [trace for trace in figure["data"] if trace["type"] == "heatmap"]
    lines = [trace for trace in figure["data"] if trace["type"] == "scatter"]
    assert (len(behind), len(lines)) == (6, 14), "two lines bound the interval of the gap"
    gap = telemetry.gap(*pair)
    assert gap is not None
    np.testing.assert_allclose(untyped(lines[-1]["y"]), gap.behind(pair[0].distance / circuit.length), atol=1e-5)
    assert not untyped(lines[-2]["y"]).any(), "the first lap has no gap to itself"
    colours = palette.rgb(palette.colours(3))
    for trace in behind:
        cells = untyped(trace["z"])
        # Rows of a heat map go upwards, so the first driver is the last row.
        for row, one in zip((1, 0), pair, strict=True):
            shown = palette.rgb([trace["colorscale"][2 * int(i)][1][:7] for i in cells[row]])
            sure = one.states.max(axis=1) > 0.99
            apart = np.abs(shown[sure].astype(int) - colours[one.states[sure].argmax(axis=1)]).max(axis=1)
            assert apart.mean() < 12
    edges = [figure["layout"][name]["domain"] for name in panels]
    assert all(low < high for low, high in edges)
    assert all(upper[0] > lower[1] - 1e-9 for upper, lower in itertools.pairwise(edges))
    assert figure["cursor"] == {"kind": "time"}, "hovering moves the cursor on the map"


def test_missing_channel_has_no_panel(race, pair):
    session, circuit, _ = race
    looks = teams.looks(session, [one.code for one in pair])
    bare = [
        replace(one, car={"speed": one.car["speed"], "gear": np.full_like(one.car["gear"], np.nan)}) for one in pair
    ]
    bare = [replace(one, clock=None) for one in bare]
    figure = telemetry.laid_over(circuit, bare, looks)
    assert [name for name in figure["layout"] if name.startswith("yaxis")] == ["yaxis"], (
        "without lap clocks there is no gap"
    )
    half = [bare[0], replace(bare[1], car={})]
    figure = telemetry.laid_over(circuit, half, looks)
    assert np.isnan(untyped(figure["data"][-1]["y"])).all(), "a car without data has an empty line"


def test_line_styles_tell_drivers_apart(race):
    session = race[0]
    by_team: dict[str, list[str]] = {}
    for driver in session.drivers:
        by_team.setdefault(driver.team, []).append(driver.code)
    mates = next(codes for codes in by_team.values() if len(codes) == 2)
    first, second = teams.looks(session, mates)
    assert (first.dash, second.dash) == ("solid", "dash")
    (one,), (other,) = (palette.to_oklab(palette.rgb([look.colour])) for look in (first, second))
    assert abs(one[0] - other[0]) > 0.1, "lightness"
    rivals = [next(codes for codes in by_team.values() if team in codes)[0] for team in (mates[0], session.codes[-1])]
    looks = teams.looks(session, rivals)
    assert looks[0].dash != looks[1].dash, "colour is not the only cue"


@pytest.mark.parametrize("colour", ["#ffffff", "#000000", "#b6babd", "#ff8000", "#3671c6", "#e8002d", "#27f4d2", ""])
def test_team_colours_have_contrast_in_both_themes(colour):
    shown = teams.readable(colour)

    def light(colour: str) -> float:
        return float(palette.to_linear(palette.rgb([colour]))[0] @ np.array([0.2126, 0.7152, 0.0722])) + 0.05

    for theme_name in ("light", "dark"):
        pair = sorted([light(shown), light(theme.TOKENS[theme_name]["surface"])])
        assert pair[1] / pair[0] > 2.9, (theme_name, shown)


def test_four_laps_overlay_with_a_corner_zoom(race, pair):
    session, circuit, drivers = race
    four = [*pair, *(telemetry.trace(session, circuit, driver, 5) for driver in drivers)]
    span = telemetry.zooms(circuit)["T6"]
    figure = telemetry.laid_over(circuit, four, teams.looks(session, [one.code for one in four]), span)
    go.Figure(theme.resolve({"data": figure["data"], "layout": figure["layout"]}), skip_invalid=False)
    assert figure["layout"]["xaxis"]["range"] == list(span)
    speeds = [one for one in figure["data"] if one["type"] == "scatter" and one["yaxis"] == "y"]
    assert len({(one["line"]["color"], one["line"]["dash"]) for one in speeds}) == 4
    assert untyped(figure["data"][0]["z"]).shape[0] == 4, "one row per lap"


def test_click_on_the_map_zooms_to_the_nearest_corner(race, monkeypatch):
    circuit, found = race[1], []
    monkeypatch.setattr(telemetry, "zoom_to", found.append)
    for name, x, y, *_ in circuit.corners:
        telemetry.clicked(circuit, {"x": x, "y": y})
        assert found.pop() == f"T{name}"
    for point in (None, {}, {"x": "a", "y": 1}):  # invalid messages
        telemetry.clicked(circuit, point)
    bare = replace(circuit, corners=(), segments=())
    telemetry.clicked(bare, {"x": float(circuit.line[0, 0]), "y": float(circuit.line[0, 1])})
    assert found == ["0 m"], "without corners, equal segments"
