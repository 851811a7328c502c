"""Long runs: which laps count, and tyre degradation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets import formula1
from datasets.f1.long_runs import explain_no_runs, fuel_effect, line, runs
from datasets.f1.session import Session
from tests.support.formula1 import cut_off, ring_driver, ring_session


def test_run_slope_interval_covers_the_truth():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        driver = ring_driver("AAA", n_laps=24)
        age = driver.laps.tyre_age
        seconds = 40 + 0.05 * age - 0.03 * driver.laps.number + rng.normal(0, 0.1, 24)
        session = ring_session(replace(driver, laps=replace(driver.laps, seconds=seconds)))
        (run,) = runs(session, "AAA", fuel=0.03)
        inside += abs(run.slope.mean - 0.05) < run.slope.margin
    assert inside >= 184, f"{inside} of 200 intervals of 95 % hold the slope"
    assert fuel_effect(session)[1].startswith("assumed")
    assert np.isnan(line(np.ones(6), np.arange(6.0))[0].mean)


def _practice(seconds: list[float]) -> Session:
    driver = ring_driver("AAA", n_laps=len(seconds))
    laps = replace(driver.laps, seconds=np.array(seconds), accurate=np.ones(len(seconds), bool))
    return replace(ring_session(replace(driver, laps=laps)), name="Practice 1")


def test_push_and_cool_down_laps_are_no_long_run():
    session = _practice([40, 55, 40.1, 56, 39.9, 54, 40.2, 55, 40.0])
    assert runs(session, "AAA", 0.06) == ()
    assert "The longest sequence has 1 (AAA)" in explain_no_runs(session)


def test_outliers_and_excluded_laps_do_not_count():
    seconds = [42.0, 42.1, 42.1, 43.9, 42.3, 42.3, 42.4, 42.5]
    (run,) = runs(_practice(seconds), "AAA", 0.0)
    assert run.laps[run.outlier].tolist() == [4]
    assert run.raw_mean == pytest.approx(np.mean([*seconds[:3], *seconds[4:]]))
    assert run.slope.mean == pytest.approx(0.07, abs=0.01)
    (fewer,) = runs(_practice(seconds), "AAA", 0.06, excluded=[8])
    assert fewer.laps[fewer.excluded].tolist() == [8]
    assert fewer.raw_mean == pytest.approx(np.mean([*seconds[:3], *seconds[4:7]]))
    assert fewer.corrected_mean - fewer.raw_mean == pytest.approx(0.06 * np.mean([0, 1, 2, 4, 5, 6]))
    assert runs(_practice(seconds), "AAA", 0.06, excluded=[1, 2, 3]) == ()


def test_neutralised_lap_ends_a_run():
    session = _practice([42.0] * 12)
    (driver,) = session.drivers
    slow = replace(driver.laps, neutralised=driver.laps.number == 6)
    found = runs(replace(session, drivers=(replace(driver, laps=slow),)), "AAA", 0.0)
    assert [(run.laps[0], run.laps[-1]) for run in found] == [(1, 5), (7, 12)]


@pytest.mark.bulk
def test_real_long_runs(china, downloads, monkeypatch):
    """Means of PIA's second stint in Shanghai, and the long runs of Practice 1 in Melbourne."""
    race = china[0]
    (_, hard) = runs(race, "PIA", fuel_effect(race)[0])
    assert (hard.laps[0], hard.laps[-1]) == (16, 56)
    assert hard.seconds.mean() == pytest.approx(96.619, abs=1e-3)
    assert hard.adjusted.mean() == pytest.approx(98.06, abs=0.01)
    assert hard.raw_mean == pytest.approx(96.62, abs=0.05)
    cut_off(monkeypatch, downloads)
    practice = formula1.load_session(2025, "Australian Grand Prix", "Practice 1", offline=True)
    found = [run for code in practice.codes for run in runs(practice, code, 0.06)]
    assert {(run.code, int(run.laps[0]), int(run.laps[-1])) for run in found} == {
        ("SAI", 17, 23), ("VER", 14, 19), ("RUS", 18, 23), ("ANT", 17, 23), ("GAS", 15, 21),
    }  # fmt: skip
    assert {run.compound for run in found} == {"MEDIUM"}
