"""Telemetry along the lap: traces, delta, DRS, line styles, and the corners that matter."""

import itertools
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from datasets.formula1 import lap_clock
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import corners, data, pairs, sessions, teams, telemetry
from pages.formula1.circuit import open_circuit
from pages.formula1.selection import Selection
from pages.ui import theme


@pytest.fixture(scope="module")
def race():
    """Return a session, its circuit and the laps of two drivers."""
    session = sessions.simulated("shanghai")
    laps = [data.laps_of(session, code, Selection("2-6")) for code in session.codes[:2]]
    return session, open_circuit(session), laps


@pytest.fixture(scope="module")
def pair(race):
    session, circuit, laps = race
    found = [telemetry.trace(circuit, session, one.code, [4], f"{one.code} lap 4") for one in laps]
    assert None not in found
    return found


def _check(figure):
    """Check the figure with Plotly; return its panels and lines."""
    go.Figure(theme.resolve({"data": figure["data"], "layout": figure["layout"]}), skip_invalid=False)
    return [name for name in figure["layout"] if name.startswith("yaxis")], figure["data"]


def test_trace_follows_the_car_along_the_lap(race, pair):
    session, circuit, laps = race
    one, driven = pair[0], laps[0]
    part = driven.lap == 4
    at = np.abs(one.distance[:, None] - driven.distance[part]).argmin(axis=1)
    np.testing.assert_allclose(one.car["speed"], driven.speed[part][at], atol=25)
    sent, table = session.driver(one.code).raw, session.driver(one.code).laps
    inside = (sent.time >= table.start[3]) & (sent.time < table.end[3])
    np.testing.assert_array_equal(one.car["speed"], sent.channels["speed"][inside], "samples as sent")
    assert set(np.unique(one.car["brake"])) <= {0.0, 1.0}
    assert telemetry.trace(circuit, session, one.code, [99], "") is None


def test_trace_of_laps_is_their_mean(race, pair):
    session, circuit, _ = race
    code = pair[0].code
    both, other = (telemetry.trace(circuit, session, code, numbers, "") for numbers in ([4, 5], [5]))
    one, two = (np.interp(both.distance, each.distance, each.car["speed"]) for each in (pair[0], other))
    inside = slice(5, -5)  # samples beyond the line count as well
    np.testing.assert_allclose(both.car["speed"][inside], ((one + two) / 2)[inside], rtol=1e-3)
    assert set(np.unique(2 * both.car["gear"])) <= set(range(2, 17)), "gears are held, not interpolated"


def test_channels_and_delta_have_panels(race, pair):
    session, circuit, _ = race
    one, other = [lap_clock(session, one.code, 4) for one in pair]
    found = pairs.between(race[0], (pair[0].code, pair[1].code), Selection("2-6"), pairs=((4, 4),))
    delta = telemetry.delta_of_pairs(circuit, found.won)
    looks = teams.line_styles(session, [one.code for one in pair])
    panels, lines = _check(telemetry.draw(circuit, pair, looks, delta))
    assert len(panels) == 4, "speed, pedals and delta; simulated cars send no DRS"
    share = telemetry.grid(circuit) / circuit.length
    np.testing.assert_allclose(untyped(lines[-1]["y"]), (other.seconds_at(share) - one.seconds_at(share)), atol=2e-3)
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
    drawn = [replace(pair[0], car=pair[0].car | {"drs": on.astype(np.float32)}) for on in spans]
    looks = teams.line_styles(session, [one.code for one in drawn])
    panels, lines = _check(telemetry.draw(circuit, drawn, looks, None))
    assert len(panels) == 4, "speed, pedals and DRS"
    first, second = (untyped(line["x"]) for line in lines[-2:])
    after = [at[at >= 440][0], at[at > 3880][0]]
    np.testing.assert_allclose(first[[0, 1, 3]], [at[0], *after])
    np.testing.assert_allclose(second[0], after[1])
    closed = [replace(one, car=one.car | {"drs": np.zeros_like(one.distance)}) for one in pair]
    assert "No DRS on these laps" in telemetry.draw(circuit, closed, looks, None)["caption"]


def test_missing_channel_has_no_panel(race, pair):
    session, circuit, _ = race
    looks = teams.line_styles(session, [one.code for one in pair])
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
    found = pairs.usual(session, (session.codes[0], session.codes[4]), Selection("racing"))
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
    first, second = teams.line_styles(session, mates)
    assert (first.dash, second.dash) == ("solid", "dash")
    (one,), (other,) = (palette.to_oklab(palette.rgb([look.colour])) for look in (first, second))
    assert abs(one[0] - other[0]) > 0.1, "lightness"
    rivals = [next(codes for codes in by_team.values() if team in codes)[0] for team in (mates[0], session.codes[-1])]
    looks = teams.line_styles(session, rivals)
    assert looks[0].dash != looks[1].dash, "colour is not the only cue"
    field = dict(zip(session.codes, teams.field_styles(session, session.codes), strict=True))
    assert [field[code].dash for code in mates] == ["solid", "dash"]
    (one,), (other,) = (palette.to_oklab(palette.rgb([field[code].colour])) for code in mates)
    assert abs(one[0] - other[0]) > 0.1, "lightness on the map of the field"


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


def test_card_and_sentence_name_corner_and_reason(race):
    """The first driver loses 30 km/h in T6 on each pair of laps."""
    session = race[0]
    codes, laps = session.codes[:2], ((3, 3), (4, 4), (5, 5), (6, 6))
    found = pairs.between(race[0], codes, Selection("2-6"), pairs=laps)
    gain, here = found.gains["joint"], found.gains["joint"].names.index("T6")
    mean = np.where(np.arange(len(gain.names)) == here, -1.0, gain.mean)
    found = replace(found, gains={"joint": replace(gain, mean=mean, error=np.full(len(mean), 0.01))})
    one = corners.measure_corners(race[0], codes[0], (3, 4, 5, 6)).joined(found.joint, gain.names)
    rest = np.arange(len(gain.names)) == here
    fast = replace(one, values=one.values | {"minimum speed": one.values["minimum speed"] + 30 * rest})
    assert corners.corners_that_matter(found)[0] == here
    assert corners.reason(found, (one, fast)) == "a higher minimum speed"
    assert corners.reason(found, (one, one)) == ""
    looks = teams.line_styles(session, codes)
    card = corners.card_html(found, (one, fast), here, looks)
    assert f"{codes[1]} 1.000 s" in card
    assert f"{one.values['minimum speed'].mean(axis=0)[here]:.1f}" in card
    assert "−30.0 ± 0.0" in card


def test_corners_in_one_braking_zone_are_one_finding(race):
    found = pairs.between(race[0], race[0].codes[:2], Selection("2-6"), pairs=((4, 4),))
    for (first, last), name, gained in zip(
        found.joint, found.gains["joint"].names, found.gains["joint"].mean, strict=True
    ):
        ends = found.gains["corner"].names[first], found.gains["corner"].names[last]
        assert name == (ends[0] if first == last else "–".join(ends))
        assert gained == pytest.approx(found.gains["corner"].mean[first : last + 1].sum())
    assert found.joint[0][0] == 0
    assert found.joint[-1][1] == len(found.gains["corner"].names) - 1
