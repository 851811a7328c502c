"""Time gained between drivers, with tyre and fuel effects, intervals, minisectors, and the clock along a lap."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from datasets import formula1
from datasets.f1 import loader
from datasets.f1 import time_won as module
from datasets.f1.clock import LapClock, clock_variance, lap_clock, sector_lines
from datasets.f1.feed import lap_table
from datasets.f1.laps import Stint, laps_on_like_tyres, pairs_around_stops, pairs_in_stints, stints
from datasets.f1.race import SECTOR_LINES
from datasets.f1.session import Driver, LapTable, Session
from datasets.f1.time_won import Estimate, Minisectors, lap_trend, mean_of_laps, minisectors, time_won, usual_laps
from gdm_core.errors import DataError
from tests.support.formula1 import LAP_S, feed_laps, ring_driver, ring_session

THIRDS = np.linspace(0, 1, 4)
AGE_S, EACH_LAP_S = 0.05, -0.07  # effect of a lap on the tyres and of a lap of fuel


def _racer(code: str, pace: float, stop: int, n_laps: int = 30) -> Driver:
    """Return a driver with one stop, tyre degradation and fuel burn."""
    driver = ring_driver(code, n_laps=n_laps)
    number = driver.laps.number
    age = np.where(number <= stop, number, number - stop).astype(np.float64)
    laps = replace(
        driver.laps,
        seconds=pace + AGE_S * age + EACH_LAP_S * number,
        sectors=np.full((n_laps, 3), np.nan),
        compound=tuple("SOFT" if n <= stop else "HARD" for n in number),
        stint=np.where(number <= stop, 1, 2),
        tyre_age=age,
        accurate=(number > 1) & (number != stop) & (number != stop + 1),
    )
    return replace(driver, laps=laps)


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return a race whose lap clocks run evenly."""
    session = ring_session(_racer("AAA", 40.0, 16), _racer("BBB", 40.3, 12), _racer("CCC", 41.0, 20))

    def even(session: Session, code: str, number: int) -> LapClock:
        laps = session.driver(code).laps
        seconds = float(laps.seconds[laps.number == number][0])
        return LapClock(np.array([0, seconds]), np.linspace(0, seconds, 4), THIRDS, 1e-4)

    monkeypatch.setattr(module, "lap_clock", even)
    return session


def test_lap_trend_recovers_tyre_and_fuel_effects(race):
    trend = lap_trend(race)
    assert trend.age == pytest.approx(AGE_S)
    assert trend.lap == pytest.approx(EACH_LAP_S)
    assert trend.n_laps == sum(driver.laps.undisturbed.sum() for driver in race.drivers)
    alone = ring_session(_racer("AAA", 40.0, 30), _racer("BBB", 40.3, 30))
    assert lap_trend(alone) is None


def test_lap_pairs_recover_the_pace_difference(race):
    by_tyres = time_won(race, ("AAA", "BBB"), THIRDS)
    assert by_tyres.later > 2
    assert by_tyres.taken_off == pytest.approx(-EACH_LAP_S * by_tyres.later)
    assert by_tyres.whole.mean == pytest.approx(0.3, abs=1e-6)
    by_number = time_won(race, ("AAA", "BBB"), THIRDS, by="lap number")
    assert by_number.later == by_number.taken_off == 0
    ages = [race.driver(code).laps.tyre_age for code in ("AAA", "BBB")]
    older = np.mean([ages[0][a - 1] - ages[1][b - 1] for a, b in by_number.pairs])
    assert by_number.whole.mean == pytest.approx(0.3 - AGE_S * older, abs=1e-6)
    back = time_won(race, ("BBB", "AAA"), THIRDS)
    assert back.whole.mean == pytest.approx(-0.3, abs=1e-6)
    assert time_won(race, ("AAA", "AAA"), THIRDS) is None
    assert time_won(race, ("AAA", "BBB"), THIRDS, laps=(range(1, 5), range(1, 31))) is None


def test_parts_of_the_lap_add_up(race):
    won = time_won(race, ("AAA", "BBB"), THIRDS)
    thirds = won.sum_parts(np.eye(3))
    assert thirds.mean.sum() == pytest.approx(won.whole.mean)
    whole = won.sum_parts(np.ones((3, 1)))
    assert whole.mean[0] == pytest.approx(won.whole.mean)
    assert whole.error[0] == pytest.approx(won.whole.error, abs=1e-9)
    # A third of a lap: two clocks, each a Brownian bridge.
    seconds = np.mean([race.driver(code).laps.seconds.mean() for code in ("AAA", "BBB")])
    np.testing.assert_allclose(thirds.error, np.sqrt(2 * 1e-4 * seconds * (1 / 3) * (2 / 3)), rtol=0.02)
    halves, mean = won.sum_parts(np.array([[1, 0], [0.5, 0.5], [0, 1]])).mean, thirds.mean
    np.testing.assert_allclose(halves, [mean[0] + mean[1] / 2, mean[2] + mean[1] / 2])


def test_error_of_one_pair_is_that_of_its_clocks(race):
    one = time_won(race, ("AAA", "BBB"), THIRDS, pairs=[(5, 7)])
    laps = [race.driver(code).laps.seconds[number - 1] for code, number in (("AAA", 5), ("BBB", 7))]
    whole, parts = one.whole, one.sum_parts(np.array([[1, 0], [0, 1], [1, 0]]))
    assert (whole.mean, whole.error) == (pytest.approx(laps[1] - laps[0]), pytest.approx(0, abs=1e-9))
    assert parts.mean.sum() == pytest.approx(whole.mean)
    np.testing.assert_allclose(parts.error, np.sqrt(1e-4 * sum(laps) * (1 / 3) * (2 / 3)))
    assert one.laps == ((5,), (7,))
    himself = time_won(race, ("AAA", "AAA"), THIRDS, pairs=pairs_in_stints(race, "AAA"))
    assert himself.pairs[0] == (2, 9)
    assert himself.whole.mean == pytest.approx(np.mean([7 * (AGE_S + EACH_LAP_S)] * 13), abs=0.02)
    laps, stops = race.driver("AAA").laps, np.array(pairs_around_stops(race, "AAA"))
    before, after = (laps.stint[one - 1] for one in stops.T)
    assert (after - before == 1).all()
    assert (np.diff(stops, axis=1) > 0).all()
    assert pairs_around_stops(replace(race, name="Qualifying"), "AAA") == ()


def test_laps_close_behind_another_car_are_left_out():
    """Ten of BBB's laps are half a second behind AAA, and the rest two seconds."""
    leader, chaser = ring_driver("AAA", n_laps=30), ring_driver("BBB", n_laps=30)
    gap = np.where(np.isin(chaser.laps.number, range(20, 30)), 0.5, 2.0)
    laps = replace(chaser.laps, start=chaser.laps.start + gap, end=chaser.laps.end + gap)
    delay = gap[np.clip(chaser.lap, 1, 30) - 1]
    session = ring_session(leader, replace(chaser, time=chaser.time + delay, laps=laps))
    won = time_won(session, ("AAA", "BBB"), THIRDS, by="lap number")
    assert won.free
    assert not {n for n, _ in won.pairs} & set(range(20, 30))
    few = time_won(session, ("AAA", "BBB"), THIRDS, by="lap number", laps=(range(18, 30), range(18, 30)))
    assert not few.free
    assert {n for n, _ in few.pairs} > set(range(20, 30))


# ---- stints and tyres --------------------------------------------------------------------------------
def _laps(compounds: str, ages: list[float]) -> LapTable:
    """Return laps with a new stint wherever the tyre age falls."""
    laps = ring_driver(n_laps=len(ages)).laps
    stint = 1 + np.cumsum(np.diff(ages, prepend=0.0) < 0)
    return replace(laps, compound=tuple(compounds), stint=stint, tyre_age=np.array(ages))


def test_missing_tyre_data_stays_unknown():
    rows = feed_laps("1", 4)
    table = lap_table(rows)
    assert table.tyre_age.tolist() == [4, 5, 6, 7]
    assert stints(table) == (Stint(1, "HARD", 1, 4, 4.0),)
    rows["Stint"] = pd.Series([1.0, None, 2.0, 2.0], dtype=object)
    rows["TyreLife"] = pd.Series([1.0, None, 1.0, None], dtype=object)
    table = lap_table(rows)
    assert table.stint.tolist() == [1, 0, 2, 2]
    np.testing.assert_array_equal(table.tyre_age, [1, np.nan, 1, np.nan])
    silent = lap_table(rows.drop(columns=["Stint", "TyreLife"]))
    assert stints(silent) == ()
    assert np.isnan(silent.tyre_age).all()


def test_laps_are_paired_by_compound_and_age():
    one = _laps("MMMHHH", [1, 2, 3, 1, 2, 3])
    other = _laps("MMHHHH", [2, 3, 1, 2, 3, 4])
    every = range(1, 7)
    assert laps_on_like_tyres(one, other, every, every) == ((2, 1), (3, 2), (4, 3), (5, 4), (6, 5))
    assert laps_on_like_tyres(one, other, [2, 6], [1, 2]) == ((2, 1),)
    twice = _laps("HHHHHH", [1, 2, 3, 1, 2, 3])  # two sets of one compound
    assert laps_on_like_tyres(one, twice, every, every) == ((4, 4), (5, 5), (6, 6))
    unknown = replace(other, tyre_age=np.full(6, np.nan))
    assert laps_on_like_tyres(one, unknown, every, every) == ()
    unnamed = replace(other, compound=("",) * 6)
    assert laps_on_like_tyres(unnamed, unnamed, every, every) == ()


TOLERANCE_S = 0.03


@pytest.fixture(scope="module")
def simulated() -> Session:
    return formula1.simulate_race("shanghai", drivers=4, laps=12)


def _official(session: Session, code: str, number: int) -> np.ndarray:
    """Return the seconds at both sector lines and at the end, [3]."""
    laps = session.driver(code).laps
    return np.cumsum(laps.sectors[laps.number == number][0])


def _clean(session: Session, code: str) -> list[int]:
    laps = session.driver(code).laps
    return [int(n) for n in laps.number[laps.accurate & np.isfinite(laps.sectors).all(axis=1)]]


def _worst_at_lines(session: Session, codes: tuple[str, ...]) -> tuple[float, int]:
    """Return the largest gap error at official times and the number of laps."""
    lines = sector_lines(session)
    places = np.array([*lines.shares, 1.0])
    first = (codes[0], _clean(session, codes[0])[0])
    one, worst, count = lap_clock(session, *first), 0.0, 0
    for code in codes:
        for number in _clean(session, code):
            other = lap_clock(session, code, number)
            assert other is not None, f"{code} lap {number}"
            gap = other.seconds_at(places) - one.seconds_at(places)
            worst = max(
                worst, float(np.abs(gap - (_official(session, code, number) - _official(session, *first))).max())
            )
            count += 1
    return worst, count


def _variance_until(clock: LapClock, shares: Sequence[float]) -> np.ndarray:
    """Return the variances of the times from the start line to shares of the lap."""
    return clock_variance([clock], [0, *shares], np.triu(np.ones((len(shares), len(shares)))))


def _left_out(session: Session, codes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return errors and standard deviations of clocks without sector times."""
    lines = sector_lines(session)
    assert lines is not None
    errors, stated = [], []
    for code in codes:
        for number in _clean(session, code):
            clock = lap_clock(session, code, number, pinned=False)
            errors.append(clock.seconds_at(lines.shares) - _official(session, code, number)[:2])
            stated.append(np.sqrt(_variance_until(clock, lines.shares)))
    return np.array(errors), np.array(stated)


@pytest.mark.bulk
def test_gaps_equal_sector_times_of_a_real_race(china):
    worst, count = _worst_at_lines(china[0], ("PIA", "NOR", "RUS", "VER"))
    assert count > 200
    assert worst < TOLERANCE_S
    piastri, leclerc, verstappen = (lap_clock(china[0], *lap) for lap in (("PIA", 53), ("LEC", 49), ("VER", 56)))
    assert leclerc.seconds_at(1) - piastri.seconds_at(1) == pytest.approx(0.637, abs=0.002)
    assert verstappen.seconds_at(1) - piastri.seconds_at(1) == pytest.approx(-0.032, abs=0.002)


@pytest.mark.bulk
def test_uncertainty_covers_left_out_sector_times(china):
    errors, stated = _left_out(china[0], ("PIA", "NOR", "RUS", "VER"))
    assert 0.88 < (np.abs(errors) < 1.96 * stated).mean() < 0.99
    assert errors.std() < 0.08


def test_gaps_equal_sector_times_of_a_simulated_race(simulated):
    worst, count = _worst_at_lines(simulated, simulated.codes)
    assert count > 20
    assert worst < TOLERANCE_S


def test_sector_lines_are_located(simulated):
    lines = sector_lines(simulated)
    np.testing.assert_allclose(lines.shares, SECTOR_LINES, atol=0.003)
    errors, stated = _left_out(simulated, simulated.codes)
    assert np.median(np.abs(errors)) < 0.03
    assert np.abs(errors).max() < 0.2
    assert 0.8 < (np.abs(errors) < 1.96 * stated).mean() <= 1


def test_clock_is_exact_at_official_times(simulated):
    clock = lap_clock(simulated, simulated.codes[0], 5)
    at_lines = clock.distance[np.searchsorted(clock.time, clock.pins)]
    np.testing.assert_allclose(_variance_until(clock, at_lines), 0, atol=1e-12)
    between = _variance_until(clock, (at_lines[1:] + at_lines[:-1]) / 2)
    assert (between > 0.1 * clock.drift * np.diff(clock.pins)).all()
    assert (np.diff(clock.seconds_at(np.linspace(0, 1, 500))) > 0).all()


def test_steady_lap_has_uniform_time():
    session = ring_session(ring_driver("AAA", n_laps=8))
    lines = sector_lines(session)
    np.testing.assert_allclose(lines.shares, (0.25, 0.6), atol=1e-6)
    clock = lap_clock(session, "AAA", 3)
    np.testing.assert_allclose(clock.seconds_at([0, 0.1, 0.5, 1]), LAP_S * np.array([0, 0.1, 0.5, 1]), atol=1e-6)


def test_lap_without_speed_has_no_clock():
    driver = ring_driver("AAA", n_laps=8, holes=((2.2 * LAP_S, 2.2 * LAP_S + 2.0),))
    session = ring_session(driver, replace(ring_driver("BBB", n_laps=8), channels={}))
    assert lap_clock(session, "AAA", 3) is None
    assert lap_clock(session, "AAA", 4) is not None
    assert lap_clock(session, "AAA", 99) is None
    assert lap_clock(session, "BBB", 3) is None
    few = ring_session(ring_driver("AAA", n_laps=3))
    assert sector_lines(few) is None
    assert lap_clock(few, "AAA", 2) is None


def test_stored_session_of_another_version_is_refused(tmp_path):
    path = tmp_path / "race.npz"
    session = ring_session(ring_driver("AAA", n_laps=8))
    loader.write_session(session, path)
    stored = loader.read_session(path)
    for name in ("sectors", "stint", "tyre_age"):
        kept, given = (getattr(one.drivers[0].laps, name) for one in (stored, session))
        np.testing.assert_array_equal(kept, given)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"])) | {"format_version": 5}
    np.savez(path, **(arrays | {"header": np.array(json.dumps(header))}))
    with pytest.raises(DataError, match="format version 5, not 6"):
        loader.read_session(path)


ONE, OTHER = np.array([1.2, 0.9, 1.4, 1.1, 1.3]), np.array([0.4, 1.0, 0.7])


def _estimate(values: np.ndarray) -> Estimate:
    return Estimate(values.mean(), values.std(ddof=1) / np.sqrt(values.size), np.array(values.size - 1.0))


def test_intervals_equal_those_of_scipy():
    found = _estimate(ONE)
    low, high = stats.ttest_1samp(ONE, 0).confidence_interval()
    assert [found.mean - found.margin, found.mean + found.margin] == pytest.approx([low, high])
    apart = _estimate(ONE) - _estimate(OTHER)
    low, high = stats.ttest_ind(ONE, OTHER, equal_var=False).confidence_interval()
    assert [apart.mean - apart.margin, apart.mean + apart.margin] == pytest.approx([low, high])
    assert apart.sure == (low > 0)
    assert not (_estimate(ONE[:2]) - _estimate(OTHER[:2])).sure


@pytest.mark.parametrize("n_laps", [5, 8, 12, 33, 53])
@pytest.mark.parametrize("alike", [0.0, 0.3, 0.5])
def test_intervals_over_laps_cover_their_level(n_laps, alike):
    """Neighbouring laps of the Chinese race have a correlation of about .3 per minisector."""
    noise = np.random.default_rng(n_laps).standard_normal((n_laps, 10_000))
    for lap in range(1, n_laps):
        noise[lap] = alike * noise[lap - 1] + np.sqrt(1 - alike**2) * noise[lap]
    lowest = 0.925 if n_laps >= 12 or alike < 0.5 else 0.88
    assert lowest < 1 - mean_of_laps(noise).sure.mean() < 0.965


def test_mean_of_laps_leaves_missing_laps_out():
    values = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan], [4.0, 3.0], [5.0, 2.0], [3.0, np.nan]])
    found = mean_of_laps(values)
    assert found.mean[0] == pytest.approx(3.0)
    assert np.isfinite(found.margin[0])
    assert np.isnan(found.mean[1]), "missing on most laps"
    assert np.isnan(mean_of_laps(values[:1, :1]).margin[0]), "one lap has no scatter"


def test_known_error_has_a_normal_interval():
    known = Estimate(np.array(0.5), np.array(0.1), np.array(np.inf))
    assert known.margin == pytest.approx(0.196, abs=1e-4)
    exact = Estimate(np.array(0.5), np.array(0.0), np.array(4.0))
    assert (exact - exact).margin == 0
    assert not Estimate(np.array(0.5), np.array(np.nan), np.array(0.0)).sure


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


def test_minisectors_are_corrected_for_fuel_and_tyres(race):
    """AAA and BBB stop at different laps: only their pace of 0.3 s remains."""
    trend = lap_trend(race)
    for driver in race.drivers:
        numbers = driver.laps.number[driver.laps.undisturbed].tolist()
        left = driver.laps.seconds[np.isin(driver.laps.number, numbers)] - trend.effect(driver.laps, numbers)
        assert np.ptp(left) < 1e-6
    found = minisectors(race)
    pace = dict(zip(found.codes, found.times.mean.sum(axis=1), strict=True))
    assert pace["BBB"] - pace["AAA"] == pytest.approx(0.3, abs=1e-6)


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
        corrected = table.seconds[np.isin(table.number, timed)] - lap_trend(race).effect(table, timed)
        official = corrected.mean()
        assert found.times.mean[found.codes.index(code)].sum() == pytest.approx(official, abs=1e-3)
    leclerc = race.driver("LEC").laps
    assert len(laps["LEC"]) < leclerc.undisturbed.sum() - 15, "laps behind HAM are left out"
    best = minisectors(melbourne)
    assert best.codes[:2] == ("NOR", "PIA")
    assert best.times.mean[0].sum() == pytest.approx(75.096, abs=1e-3)
    assert best.times.mean[1].sum() == pytest.approx(75.180, abs=1e-3)
    assert (best.times.mean[:, 3] >= best.times.mean[best.fastest[3], 3]).all()
