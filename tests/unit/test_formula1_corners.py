"""Braking zones, pedals and measurements in corners, also against raw car data."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from datasets.f1.corners import (
    GRID_M,
    MEASURES,
    PHASES,
    braking_zones,
    corners_of,
    lap_measures,
    lap_samples,
    lifts_and_coasts,
    phases,
    stretches,
)
from datasets.f1.loader import corners_from
from datasets.f1.session import CarSamples, Driver
from datasets.f1.trials import find_corners
from datasets.formula1 import simulate_race
from tests.support.formula1 import LAP_S, RADIUS, ring_driver, ring_session
from tests.support.real import recorded

LENGTH = 2 * np.pi * RADIUS
SAMPLE_M = LENGTH * 0.25 / LAP_S


def _replace_channels(driver: Driver, **channels: np.ndarray) -> Driver:
    return replace(driver, channels={**driver.channels, **channels})


def _turn(driver: Driver) -> np.ndarray:
    """Return the share of the lap at each sample."""
    return (driver.time - 100) / LAP_S % 1


def test_corners_of_a_steady_ring_are_equal():
    session = ring_session(ring_driver("AAA", n_laps=12), ring_driver("BBB", n_laps=12))
    one, other = (corners_of(session, code, range(2, 12)) for code in ("AAA", "BBB"))
    assert one.names == ("T1", "T2", "T3", "T4")
    assert set(one.values) == set(MEASURES)
    for speed in ("entry speed", "minimum speed", "exit speed"):
        np.testing.assert_allclose(one.values[speed], 113.0)
    assert np.isnan(one.values["braking point"]).all()
    np.testing.assert_allclose(one.values["time"].sum(axis=1), LAP_S, atol=1e-6)
    np.testing.assert_allclose(one.values["time"], LAP_S / 4, atol=0.05)
    assert not (one.mean("time") - other.mean("time")).sure.any()
    assert one.kinds() == ("low",) * 4
    holed = ring_driver("AAA", n_laps=6, holes=((LAP_S * 2.30, LAP_S * 2.5),))
    missing = corners_of(ring_session(holed), "AAA", [3]).values["minimum speed"][0]
    assert np.isnan(missing[1])
    assert np.isfinite(missing[3])


def test_braking_zone_serves_the_next_corner():
    """Braking that goes on past T2 counts for T2 only."""
    driver = ring_driver("AAA", n_laps=8)
    turn = _turn(driver)
    brake = ((turn > 0.30) & (turn < 0.66)).astype(np.float32)  # T2 is at 0.375, T3 at 0.625
    throttle = np.where((turn > 0.25) & (turn < 0.7), 0.0, 100.0).astype(np.float32)
    session = ring_session(_replace_channels(driver, brake=brake, throttle=throttle))
    (zone,) = braking_zones(session)
    assert zone.corner == 1
    assert zone.start == pytest.approx(0.3 * LENGTH, abs=SAMPLE_M + GRID_M)
    found = corners_of(session, "AAA", range(2, 6))
    metres = found.mean("braking point").mean
    assert metres[1] == pytest.approx(0.075 * LENGTH, abs=SAMPLE_M)
    assert np.isnan(metres[[0, 2, 3]]).all()
    on = found.mean("throttle-on point").mean
    assert on[2] == pytest.approx(0.075 * LENGTH, abs=SAMPLE_M)
    assert np.isnan(on[[0, 1, 3]]).all(), "never off, never on again, and already on"


def test_minimum_speed_is_a_raw_sample():
    driver = ring_driver("AAA", n_laps=6)
    time = 100.0 + np.arange(0, 6 * LAP_S, 0.2)
    speed = np.full(time.size, 113.0)
    speed[np.isclose((time - 100) / LAP_S % 1, 0.375)] = 60.0
    raw = replace(driver, car=CarSamples(time, {"speed": speed}))
    found = corners_of(ring_session(raw), "AAA", range(2, 6)).values["minimum speed"]
    assert (found[:, 1] == 60).all()
    assert (found[:, [0, 2, 3]] == 113).all()


def test_corners_are_found_from_the_shape_of_the_track():
    race = simulate_race("suzuka", drivers=["FLT"], laps=3)
    found, length = find_corners(race), race.reference.length
    assert [corner.number for corner in found] == list(range(1, len(found) + 1))
    assert len(found) >= len(race.corners) / 2, "bends of one direction are one corner"
    for corner in found:
        apart = [abs((corner.distance - known.distance + length / 2) % length - length / 2) for known in race.corners]
        assert min(apart) < 120
        near = race.corners[int(np.argmin(apart))]
        assert np.cos(np.deg2rad(corner.angle - near.angle)) > 0, "its number is on the outside"
    assert find_corners(ring_session(corners=())) == (), "one bend is no corner"


@pytest.mark.bulk
def test_real_corners_of_melbourne_are_found(melbourne):
    official = recorded("f1/corners_melbourne_2025_qualifying.csv")
    known = corners_from(pd.read_csv(official).assign(Letter=""), melbourne.reference)
    apart = np.abs(np.subtract.outer([one.distance for one in melbourne.corners], [one.distance for one in known]))
    assert 12 <= len(melbourne.corners) <= 16
    assert np.sum(apart.min(axis=0) < 60) >= 12, "of 14"


def test_kinds_of_road_cover_the_lap():
    """Braking from .30 to .40 of a ring whose bend is slow and one corner wide everywhere."""
    driver = ring_driver("AAA", n_laps=8)
    turn = _turn(driver)
    session = ring_session(_replace_channels(driver, brake=((turn > 0.30) & (turn < 0.40)).astype(np.float32)))
    found = phases(session, np.array([0.1, 0.35, 0.9]) * LENGTH)
    assert [PHASES[kind] for kind in found] == ["Slow corners", "Braking", "Slow corners"]


@pytest.mark.bulk
def test_real_minimum_speeds_are_raw_samples(china, china_feed):
    """Minimum speeds equal the lowest raw speeds between the same two moments."""
    session = china[0]
    _, _, edges = stretches(session)
    found = corners_of(session, "PIA", range(20, 30))
    samples = lap_samples(session, "PIA", range(20, 30))
    for row, number in enumerate(range(20, 30)):
        lap = china_feed.laps.pick_drivers("PIA").pick_laps(number)
        car = lap.get_car_data(pad=60, pad_side="both")
        since = (car["SessionTime"] - lap["LapStartTime"].iloc[0]).dt.total_seconds().to_numpy()
        passed = np.interp(edges, samples[number].distance, samples[number].seconds)
        for c, (start, end) in enumerate(pairwise(passed)):
            lowest = car["Speed"][(since >= start - 1e-3) & (since < end)].min()
            assert found.values["minimum speed"][row, c] == lowest


@pytest.mark.bulk
def test_real_braking_zones_of_shanghai(china):
    session = china[0]
    names, apex, _ = stretches(session)
    zones = braking_zones(session)
    assert [names[zone.corner] for zone in zones] == ["T1", "T3", "T6", "T8", "T9", "T11", "T14", "T16"]
    assert zones[0].end > apex[1] - 20, "one zone from before T1 to T2"
    laps = session.driver("PIA").laps
    found = corners_of(session, "PIA", laps.number[laps.undisturbed].tolist())
    point = found.mean("braking point")
    assert np.isnan(point.mean[1])
    for corner, metres in ((0, 94), (5, 120), (13, 130)):
        assert point.mean[corner] == pytest.approx(metres, abs=6)
        assert point.error[corner] < 3, "neighbouring laps are alike"


@pytest.mark.bulk
def test_real_drs_opens_behind_the_car_ahead(china):
    """LEC used DRS on lap 20, 0.6 s behind HAM, and PIA never in the lead."""
    session = china[0]
    lap = lap_samples(session, "LEC", [20])[20]
    there = lap.inside & (lap.channels["drs"] == 1)
    metres, length = lap.distance[there], session.reference.length
    assert metres[metres < 2000].min() < 20
    assert metres[metres < 2000].max() == pytest.approx(444, abs=20)
    assert metres[metres > 2000].min() == pytest.approx(3885, abs=40)
    assert metres.max() < length
    assert session.driver("LEC").channels["drs"].max() == 1


def _session(braking_from: float = 0.36):
    """Return a lap of 40 s: full throttle, from 30% of the lap off, then on the brake up to 40%."""
    driver = ring_driver("AAA", n_laps=6)
    turn = (driver.time - 100) / LAP_S % 1
    throttle = np.where(turn < 0.3, 99.0, np.where(turn < 0.4, 0.0, 60.0)).astype(np.float32)
    brake = ((turn >= braking_from) & (turn < 0.4)).astype(np.float32)
    laps = replace(driver.laps, speed_trap=np.full(6, 311.0))
    return ring_session(replace(driver, channels={**driver.channels, "throttle": throttle, "brake": brake}, laps=laps))


def test_shares_of_a_lap_are_known():
    found = lap_measures(_session(), "AAA", range(2, 6))
    wanted = {"full throttle": 30, "full throttle, distance": 30, "braking": 4, "coasting": 6, "top speed": 113}
    for measure, value in wanted.items():
        assert found.mean(measure).mean == pytest.approx(value, abs=0.7), measure
    assert found.mean("speed trap").mean == 311
    assert np.isnan(lap_measures(_session(), "AAA", [99]).values["coasting"]).all()


def test_coasting_before_braking_is_lift_and_coast():
    session = _session()
    ((start, end),) = lifts_and_coasts(lap_samples(session, "AAA", [3])[3])
    length = session.reference.length
    assert start == pytest.approx(0.3 * length, abs=10)
    assert end - start == pytest.approx(0.06 * length, abs=10)
    by_corner = corners_of(session, "AAA", [3]).values["lift and coast"][0]
    assert by_corner.tolist() == [0, end - start, 0, 0]
    quick = lap_samples(_session(braking_from=0.308), "AAA", [3])[3]
    assert lifts_and_coasts(quick) == (), "the foot only moves from one pedal to the other"


@pytest.mark.bulk
def test_real_pedals_equal_raw_car_data(china, china_feed):
    session = china[0]
    piastri = lap_measures(session, "PIA", session.driver("PIA").laps.number.tolist())
    assert piastri.mean("full throttle").mean == pytest.approx(44.7, abs=0.1)
    assert piastri.mean("full throttle, distance").mean == pytest.approx(58.3, abs=0.2)
    for number in (20, 40):
        lap = china_feed.laps.pick_drivers("PIA").pick_laps(number)
        row = piastri.laps.index(number)
        assert piastri.values["top speed"][row] == lap.get_car_data()["Speed"].max()
        assert piastri.values["speed trap"][row] == lap["SpeedST"].iloc[0]


@pytest.mark.bulk
def test_norris_lifts_and_coasts_into_turn_14(china):
    """Lap 53: 111 m off both pedals before braking for T14; lap 30 has no such stretch."""
    session = china[0]
    names, _, _ = stretches(session)
    metres = corners_of(session, "NOR", [30, 53]).values["lift and coast"][:, names.index("T14")]
    assert metres[0] == 0
    assert metres[1] == pytest.approx(111, abs=15)
