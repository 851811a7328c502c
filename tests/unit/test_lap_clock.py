"""Time along a lap: integrated speed, pinned to official times, with an honest uncertainty."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from datasets import formula1
from datasets.f1 import cache
from datasets.f1.lap_clock import lap_clock
from datasets.f1.race import SECTOR_LINES
from datasets.f1.session import Session
from tests.support.formula1 import LAP_S, ring_driver, ring_session

SHARED = Path(os.environ.get("GDM_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
REAL = SHARED / "f1" / "fastf1_cache"
TOLERANCE_S = 0.03


@pytest.fixture(scope="module")
def race() -> Session:
    return formula1.simulate_race("shanghai", drivers=4, laps=12)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The race in Shanghai, 2025, from FastF1's own files and without a network."""
    if not REAL.is_dir():
        pytest.skip(f"There is no real race in {REAL}; GDM_TEST_DATA says where else it may be.")
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(REAL, home / "fastf1", copy_function=shutil.copyfile)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDM_DATA_DIR", str(home))
        return formula1.load_session(2025, "Chinese Grand Prix", "Race", offline=True)


def _official(session: Session, code: str, number: int) -> np.ndarray:
    """[3] seconds from the start line to both sector lines and to the end."""
    laps = session.driver(code).laps
    return np.cumsum(laps.sectors[laps.number == number][0])


def _clean(session: Session, code: str) -> list[int]:
    laps = session.driver(code).laps
    return [int(n) for n in laps.number[laps.accurate & np.isfinite(laps.sectors).all(axis=1)]]


def _worst_at_lines(session: Session, codes: tuple[str, ...]) -> tuple[float, int]:
    """(largest error of a gap at a sector line or at the end, laps compared), against the first clean lap."""
    lines = session.sector_lines
    places = np.array([*lines.shares, 1.0])
    first = (codes[0], _clean(session, codes[0])[0])
    one, worst, count = lap_clock(session, *first), 0.0, 0
    for code in codes:
        for number in _clean(session, code):
            other = lap_clock(session, code, number)
            assert other is not None, f"{code} lap {number}"
            gap = other.at(places) - one.at(places)
            worst = max(
                worst, float(np.abs(gap - (_official(session, code, number) - _official(session, *first))).max())
            )
            count += 1
    return worst, count


def _left_out(session: Session, codes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Errors at the sector lines of clocks that were not told the sector times, and their stated deviations."""
    lines = session.sector_lines
    assert lines is not None
    errors, stated = [], []
    for code in codes:
        for number in _clean(session, code):
            clock = lap_clock(session, code, number, pinned=False)
            errors.append(clock.at(lines.shares) - _official(session, code, number)[:2])
            stated.append(np.sqrt(clock.variance(np.zeros(2), lines.shares)))
    return np.array(errors), np.array(stated)


@pytest.mark.bulk
def test_gaps_agree_with_the_sector_times_of_a_real_race(real):
    worst, count = _worst_at_lines(real, ("PIA", "NOR", "RUS", "VER"))
    assert count > 200
    assert worst < TOLERANCE_S
    piastri, leclerc, verstappen = (lap_clock(real, *lap) for lap in (("PIA", 53), ("LEC", 49), ("VER", 56)))
    assert leclerc.at(1) - piastri.at(1) == pytest.approx(0.637, abs=0.002)
    assert verstappen.at(1) - piastri.at(1) == pytest.approx(-0.032, abs=0.002)


@pytest.mark.bulk
def test_the_stated_uncertainty_is_that_of_official_times_left_out_of_a_real_race(real):
    errors, stated = _left_out(real, ("PIA", "NOR", "RUS", "VER"))
    assert 0.88 < (np.abs(errors) < 1.96 * stated).mean() < 0.99
    assert errors.std() < 0.08


def test_gaps_agree_with_the_sector_times_of_a_simulated_race(race):
    worst, count = _worst_at_lines(race, race.codes)
    assert count > 20
    assert worst < TOLERANCE_S


def test_sector_lines_are_found_where_they_are_and_the_error_is_small_without_them(race):
    lines = race.sector_lines
    np.testing.assert_allclose(lines.shares, SECTOR_LINES, atol=0.003)
    errors, stated = _left_out(race, race.codes)
    assert np.median(np.abs(errors)) < 0.03
    assert np.abs(errors).max() < 0.2
    assert 0.8 < (np.abs(errors) < 1.96 * stated).mean() <= 1


def test_a_clock_is_sure_at_official_times_and_least_sure_between_them(race):
    clock = lap_clock(race, race.codes[0], 5)
    at_lines = clock.distance[np.searchsorted(clock.time, clock.pins)]
    np.testing.assert_allclose(clock.variance(np.zeros(4), at_lines), 0, atol=1e-12)
    between = clock.variance(np.zeros(3), (at_lines[1:] + at_lines[:-1]) / 2)
    assert (between > 0.1 * clock.drift * np.diff(clock.pins)).all()
    assert (np.diff(clock.at(np.linspace(0, 1, 500))) > 0).all()


def test_a_steady_lap_takes_the_same_time_everywhere():
    session = ring_session(ring_driver("AAA", n_laps=8))
    lines = session.sector_lines
    np.testing.assert_allclose(lines.shares, (0.25, 0.6), atol=1e-6)
    clock = lap_clock(session, "AAA", 3)
    np.testing.assert_allclose(clock.at([0, 0.1, 0.5, 1]), LAP_S * np.array([0, 0.1, 0.5, 1]), atol=1e-6)


def test_a_lap_without_speed_or_time_has_no_clock():
    driver = ring_driver("AAA", n_laps=8, holes=((2.2 * LAP_S, 2.2 * LAP_S + 2.0),))
    session = ring_session(driver, replace(ring_driver("BBB", n_laps=8), channels={}))
    assert lap_clock(session, "AAA", 3) is None, "two seconds without a word"
    assert lap_clock(session, "AAA", 4) is not None
    assert lap_clock(session, "AAA", 99) is None
    assert lap_clock(session, "BBB", 3) is None
    few = ring_session(ring_driver("AAA", n_laps=3))
    assert few.sector_lines is None
    assert lap_clock(few, "AAA", 2) is None, "two laps do not say where the lines are"


@pytest.mark.parametrize(
    ("version", "lacking"), [(1, ("sectors", "stint", "tyre_age")), (2, ("stint", "tyre_age"))], ids=["first", "second"]
)
def test_a_session_stored_by_an_earlier_version_opens_and_says_what_it_lacks(tmp_path, version, lacking):
    path = tmp_path / "race.npz"
    session = ring_session(ring_driver("AAA", n_laps=8))
    cache.write_session(session, path)
    stored = cache.read_session(path)
    for name in ("sectors", "stint", "tyre_age"):
        kept, given = (getattr(one.drivers[0].laps, name) for one in (stored, session))
        np.testing.assert_array_equal(kept, given)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name.removeprefix("laps_") not in lacking}
    header = json.loads(str(arrays["header"])) | {"format_version": version}
    np.savez(path, **(arrays | {"header": np.array(json.dumps(header))}))
    old = cache.read_session(path)
    assert (old.sector_lines is None) == ("sectors" in lacking)
    assert ("sector times" in old.notes[-1]) == ("sectors" in lacking)
    assert "tyre ages" in old.notes[-1]
    assert formula1.stints(old.drivers[0].laps) == ()
    assert np.isnan(old.drivers[0].laps.tyre_age).all()
