"""Telemetry along the lap: traces, delta, DRS, line styles, and the corners that matter."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from datasets.formula1 import lap_clock
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import compare, data, state_names, teams, telemetry, time_gained
from pages.formula1.controls import Observation
from pages.formula1.data import DriverReading, Place
from pages.formula1.time_gained import Gap
from pages.ui import theme
from tests.support.recording import reading_of

SHANGHAI = Place(circuit="shanghai")


@pytest.fixture(scope="module")
def race():
    """Return a session, its circuit and the laps of two drivers."""
    session = data.open_session(SHANGHAI)
    laps = [data.laps_of(SHANGHAI, code, Observation("2-6")) for code in session.codes[:2]]
    return session, data.circuit(SHANGHAI), laps


@pytest.fixture(scope="module")
def pair(race):
    _, circuit, laps = race
    found = [telemetry.trace(circuit, one, [4], f"{one.code} lap 4") for one in laps]
    assert None not in found
    return found


def _check(figure):
    """Check the figure with Plotly; return its panels and lines."""
    go.Figure(theme.resolve({"data": figure["data"], "layout": figure["layout"]}), skip_invalid=False)
    return [name for name in figure["layout"] if name.startswith("yaxis")], figure["data"]


def test_trace_follows_the_car_along_the_lap(race, pair):
    _, circuit, laps = race
    one, driven = pair[0], laps[0]
    part = driven.lap == 4
    at = np.abs(one.distance[:, None] - driven.distance[part]).argmin(axis=1)
    np.testing.assert_allclose(one.car["speed"], driven.speed[part][at], atol=25)
    assert set(np.unique(one.car["gear"])) <= set(range(1, 9)), "gears are not averaged"
    assert set(np.unique(one.car["brake"])) <= {0.0, 1.0}
    assert telemetry.trace(circuit, driven, [99], "") is None


def test_trace_of_laps_is_their_mean(race, pair):
    _, circuit, laps = race
    both = telemetry.trace(circuit, laps[0], [4, 5], "")
    other = telemetry.trace(circuit, laps[0], [5], "")
    np.testing.assert_allclose(both.car["speed"], (pair[0].car["speed"] + other.car["speed"]) / 2, rtol=1e-4)


def test_channels_and_delta_have_panels(race, pair):
    session, circuit, _ = race
    clocks = [lap_clock(session, one.code, 4) for one in pair]
    gap = Gap(*clocks)
    delta = telemetry.delta_of_laps(circuit, gap)
    looks = teams.looks(session, [one.code for one in pair])
    panels, lines = _check(telemetry.draw(circuit, pair, looks, delta))
    assert len(panels) == 2, "speed and delta; simulated cars send no DRS"
    np.testing.assert_allclose(untyped(lines[-1]["y"]), gap.behind(pair[0].distance / circuit.length), atol=1e-5)
    figure = telemetry.draw(circuit, pair, looks, delta, tuple(telemetry.PANELS), (100.0, 500.0))
    panels, _ = _check(figure)
    assert len(panels) == 6, "with throttle, brake, gear and rpm"
    assert figure["layout"]["xaxis"]["range"] == [100.0, 500.0]
    edges = [figure["layout"][name]["domain"] for name in panels]
    assert all(low < high for low, high in edges)
    assert all(upper[0] > lower[1] - 1e-9 for upper, lower in itertools.pairwise(edges))
    assert figure["cursor"] == {"kind": "time"}, "hovering moves the cursor on the map"


def test_open_drs_is_marked_per_driver(race, pair):
    session, circuit, _ = race
    at = pair[0].distance
    spans = [(at < 440) | (at > 3880), at > 3880]
    drawn = [replace(one, car=one.car | {"drs": on.astype(np.float32)}) for one, on in zip(pair, spans, strict=True)]
    looks = teams.looks(session, [one.code for one in drawn])
    panels, lines = _check(telemetry.draw(circuit, drawn, looks, None))
    assert len(panels) == 2, "speed and DRS"
    first, second = (untyped(line["x"]) for line in lines[-2:])
    np.testing.assert_allclose(first[[0, 1, 3]], [0, 440, 3890])
    np.testing.assert_allclose(second[0], 3890)
    closed = [replace(one, car=one.car | {"drs": np.zeros_like(at)}) for one in pair]
    assert "DRS closed" in telemetry.draw(circuit, closed, looks, None)["caption"]


def test_missing_channel_has_no_panel(race, pair):
    session, circuit, _ = race
    looks = teams.looks(session, [one.code for one in pair])
    bare = [
        replace(one, car={"speed": one.car["speed"], "gear": np.full_like(one.car["gear"], np.nan)}) for one in pair
    ]
    panels, _ = _check(telemetry.draw(circuit, bare, looks, None, tuple(telemetry.PANELS)))
    assert panels == ["yaxis"], "without lap clocks there is no delta"
    half = [bare[0], replace(bare[1], car={})]
    figure = telemetry.draw(circuit, half, looks, None)
    assert np.isnan(untyped(figure["data"][-1]["y"])).all(), "a car without data has an empty line"


def test_delta_of_pairs_ends_at_the_pace_difference(race):
    session, circuit, _ = race
    found = time_gained.usual(SHANGHAI, (session.codes[0], session.codes[4]), Observation("racing"))
    delta = telemetry.delta_of_pairs(circuit, found.won)
    whole = found.won.whole
    assert delta.behind[-1] == pytest.approx(whole.mean, abs=0.01)
    assert delta.margin[-1] == pytest.approx(whole.margin, rel=0.1)
    assert delta.behind[0] == 0


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
    field = dict(zip(session.codes, teams.team_looks(session, session.codes), strict=True))
    assert [field[code].dash for code in mates] == ["solid", "dash"]
    assert field[mates[0]].colour == field[mates[1]].colour


@pytest.mark.parametrize("colour", ["#ffffff", "#000000", "#b6babd", "#ff8000", "#3671c6", "#e8002d", "#27f4d2", ""])
def test_team_colours_have_contrast_in_both_themes(colour):
    shown = teams.readable(colour)

    def light(colour: str) -> float:
        return float(palette.to_linear(palette.rgb([colour]))[0] @ np.array([0.2126, 0.7152, 0.0722])) + 0.05

    for theme_name in ("light", "dark"):
        pair = sorted([light(shown), light(theme.TOKENS[theme_name]["surface"])])
        assert pair[1] / pair[0] > 2.9, (theme_name, shown)


def test_click_on_the_map_finds_the_nearest_corner(race):
    circuit = race[1]
    for name, x, y, *_ in circuit.corners:
        assert telemetry.corner_at(circuit, {"x": x, "y": y}) == f"T{name}"
    for point in (None, {}, {"x": "a", "y": 1}):  # invalid messages
        assert telemetry.corner_at(circuit, point) == ""
    assert telemetry.corner_at(replace(circuit, corners=(), segments=()), {"x": 0.0, "y": 0.0}) == ""


def test_corners_with_the_largest_differences_come_first(race):
    session = race[0]
    one, other = (compare.measure_corners(SHANGHAI, code, (3, 4, 5, 6)) for code in session.codes[:2])
    slow = {
        **other.values,
        "time": other.values["time"] + np.eye(len(other.names))[5] - 0.5 * np.eye(len(other.names))[2],
    }
    changed = replace(other, values=slow)
    assert compare.corners_that_matter(one, changed)[:2] == [5, 2]
    looks = teams.looks(session, session.codes[:2])
    card = compare.card_html(one, changed, 5, looks)
    assert f"{one.code} faster by" in card
    assert f"{one.values['minimum speed'].mean(axis=0)[5]:.1f}" in card


def test_sentence_names_the_first_corner_and_its_reason(race):
    session = race[0]
    one = compare.measure_corners(SHANGHAI, session.codes[0], (3, 4, 5, 6))
    here = np.eye(len(one.names))[5]
    slow = {"time": one.values["time"] + here, "minimum speed": one.values["minimum speed"] - 30 * here}
    other = replace(one, code="BBB", values=one.values | slow)
    said = compare.largest_difference(one, other)
    assert f"{one.names[5]}, {one.code} faster by 1.000 ± " in said
    assert said.endswith(" s, with a higher minimum speed.")
    assert said == compare.largest_difference(other, one), "the order of drivers does not matter"
    assert compare.largest_difference(one, one) == ""
    assert compare.faster_by(one, one, 5).endswith(", not significant")


def test_earlier_lift_is_found_and_described(race):
    session, circuit, laps = race
    drivers = []
    for one, late in zip(laps, (60.0, 0.0), strict=True):
        on = (np.mod(circuit.edges[13] - one.distance - 100.0 - late, circuit.length) < 1000).astype(np.float32)
        drivers.append(reading_of(one.trials[0], np.column_stack([on, 1 - on]), kind=DriverReading, laps=one))
    lifts = state_names.significant_lifts(circuit, drivers, 0)
    assert lifts[0].corner == "T14"
    assert lifts[0].metres.mean == pytest.approx(60, abs=20)
    said = state_names.describe_lifts(lifts, session.codes[:2], "S1 flat out")
    assert said.startswith(f"{session.codes[0]} lifts ")
    assert "No significant difference" in state_names.describe_lifts([], session.codes[:2], "S1 flat out")
