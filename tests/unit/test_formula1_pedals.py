"""Full throttle, coasting and speeds by their standard definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets.f1.corners import corners_of, lap_measures, lap_samples, lifts_and_coasts, stretches
from tests.support.formula1 import LAP_S, ring_driver, ring_session


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
    (coast,) = lifts_and_coasts(lap_samples(session, "AAA", [3])[3])
    length = session.reference.length
    assert coast.start == pytest.approx(0.3 * length, abs=10)
    assert coast.end - coast.start == pytest.approx(0.06 * length, abs=10)
    assert coast.seconds == pytest.approx(2.4, abs=0.3)
    by_corner = corners_of(session, "AAA", [3]).values["lift and coast"][0]
    assert by_corner.tolist() == [0, coast.end - coast.start, 0, 0]
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
