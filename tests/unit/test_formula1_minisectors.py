"""Fastest driver in each minisector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets.f1.clock import lap_clock
from datasets.f1.time_won import Estimate, Minisectors, minisectors, usual_laps
from tests.support.formula1 import LAP_S, ring_driver, ring_session


def test_shares_of_official_times_decide():
    """BBB is slower in the last sector only."""
    one, other = ring_driver("AAA", n_laps=12), ring_driver("BBB", n_laps=12)
    sectors = other.laps.sectors + np.array([0.0, 0.0, 0.5])
    laps = replace(other.laps, sectors=sectors, seconds=sectors.sum(axis=1), end=other.laps.start + LAP_S)
    found = minisectors(ring_session(one, replace(other, laps=laps)))
    assert found.codes == ("AAA", "BBB")
    assert found.edges[-1] == pytest.approx(400 * np.pi, rel=1e-3)
    np.testing.assert_allclose(found.times.mean.sum(axis=1), [LAP_S, LAP_S + 0.5], atol=1e-6)
    last = found.edges[:-1] >= 0.6 * found.edges[-1]
    assert (found.fastest[last] == 0).all()
    assert found.lead.mean[last].min() > 0.1
    assert minisectors(ring_session(one)) is None


def test_margin_is_compared_with_its_interval():
    times = Estimate(np.array([[9.0, 8.0], [1.0, 2.0], [1.5, 1.9]]), np.full((3, 2), 0.1), np.full((3, 2), np.inf))
    found = Minisectors(("AAA", "BBB", "CCC"), np.arange(3.0), times)
    assert found.fastest.tolist() == [1, 2]
    np.testing.assert_allclose(found.lead.mean, [0.5, 0.1])
    assert found.lead.sure.tolist() == [True, False]


def test_race_takes_free_laps_and_qualifying_the_best():
    driver = ring_driver("AAA", n_laps=12)
    seconds = LAP_S + 0.01 * np.arange(12)[::-1]
    session = ring_session(replace(driver, laps=replace(driver.laps, seconds=seconds)))
    assert usual_laps(session)["AAA"] == tuple(range(2, 13))
    assert usual_laps(replace(session, name="Qualifying")) == {"AAA": (12,)}


@pytest.mark.bulk
def test_real_minisectors_add_up_to_official_times(china, melbourne):
    race = china[0]
    found, laps = minisectors(race), usual_laps(race)
    assert len(found.codes) > 15
    for code in ("PIA", "LEC"):
        table = race.driver(code).laps
        timed = [n for n in laps[code] if lap_clock(race, code, n) is not None]
        official = table.seconds[np.isin(table.number, timed)].mean()
        assert found.times.mean[found.codes.index(code)].sum() == pytest.approx(official, abs=1e-3)
    leclerc = race.driver("LEC").laps
    assert len(laps["LEC"]) < leclerc.undisturbed.sum() - 15, "laps behind HAM are left out"
    best = minisectors(melbourne)
    assert best.codes[:2] == ("NOR", "PIA")
    assert best.times.mean[0].sum() == pytest.approx(75.096, abs=1e-3)
    assert best.times.mean[1].sum() == pytest.approx(75.180, abs=1e-3)
    assert (best.times.mean[:, 3] >= best.times.mean[best.fastest[3], 3]).all()
