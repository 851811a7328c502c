"""Gaps to the car ahead, the closest pair, and the order of a race."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets.f1.session import Driver, Spell
from datasets.f1.traffic import cars_ahead, free_laps, race_history, racing_pair
from tests.support.formula1 import LAP_S, ring_driver, ring_session


def _behind(code: str, seconds: float, n_laps: int = 8) -> Driver:
    """Return a driver who is behind the first by a constant gap."""
    driver = ring_driver(code, n_laps=n_laps)
    laps = replace(driver.laps, start=driver.laps.start + seconds, end=driver.laps.end + seconds)
    return replace(driver, time=driver.time + seconds, laps=laps)


def test_gap_is_the_time_to_the_car_ahead():
    session = ring_session(_behind("AAA", 0.0), _behind("BBB", 0.6), _behind("CCC", 3.0))
    second, third = (cars_ahead(session)[code] for code in ("BBB", "CCC"))
    np.testing.assert_allclose(second.seconds[second.laps == 4], 0.6, atol=1e-6)
    np.testing.assert_allclose(third.seconds[third.laps == 4], 2.4, atol=1e-6)
    assert second.close.all()
    assert not third.close.any()
    assert free_laps(session, "BBB", range(1, 9)) == ()
    assert free_laps(session, "CCC", [2, 5]) == (2, 5)


def test_first_car_on_the_road_has_no_gap():
    alone = cars_ahead(ring_session(_behind("AAA", 0.0)))["AAA"]
    assert np.isinf(alone.seconds).all()
    lapped = cars_ahead(ring_session(_behind("AAA", 0.0), _behind("BBB", LAP_S - 0.4)))["AAA"]
    np.testing.assert_allclose(lapped.seconds[1:, :-1], 0.4, atol=1e-6)


def test_racing_pair_has_the_smallest_median_gap():
    session = ring_session(_behind("AAA", 0.0), _behind("BBB", 5.0), _behind("CCC", 7.0), _behind("DDD", 7.5, n_laps=3))
    assert racing_pair(session) == ("BBB", "CCC")
    assert racing_pair(replace(session, name="Qualifying")) == ("AAA", "BBB")
    assert racing_pair(ring_session(_behind("AAA", 0.0))) is None


def test_history_counts_retirements_and_stops():
    stopped = _behind("BBB", 2.0, n_laps=3)
    stopped = replace(stopped, laps=replace(stopped.laps, pit_in=np.array([False, True, False])))
    session = ring_session(_behind("AAA", 5.0), stopped)
    session = replace(session, spells=(Spell(100 + 1.2 * LAP_S, 100 + 1.5 * LAP_S, "safety car"),))
    history = race_history(session)
    assert history.position[:, 2].tolist() == [2, 1]
    assert history.gap[:, 2].tolist() == [3, 0]
    assert history.position[0, 3] == 1
    assert np.isnan(history.gap[1, 3])
    assert history.stops == {"AAA": (), "BBB": (2,)}
    assert history.flags == ((2, 2, "safety car"),)


@pytest.mark.bulk
def test_real_gaps_and_positions(china, china_feed):
    """LEC was 0.58 s behind HAM at the end of lap 20; positions equal those of FastF1."""
    session = china[0]
    ahead = cars_ahead(session)["LEC"]
    here = ahead.seconds[ahead.laps == 20]
    assert here[0, -1] == pytest.approx(0.58, abs=0.005)
    ends = [session.driver(code).laps.end[19] for code in ("LEC", "HAM")]
    assert here[0, -1] == pytest.approx(ends[0] - ends[1], abs=0.005)
    assert len(free_laps(session, "LEC", ahead.laps.tolist())) == len(ahead.laps) - ahead.close.sum()
    assert racing_pair(session) == ("OCO", "TSU")
    history = race_history(session)
    for code in ("PIA", "LEC", "TSU"):
        official = china_feed.laps.pick_drivers(code)
        row = history.position[history.codes.index(code)]
        np.testing.assert_array_equal(row[official["LapNumber"].astype(int) - 1], official["Position"])
    assert history.stops["HAM"] == (13, 37)
