"""Laps of a session: qualifying, long runs, the car ahead, remarks, and state names."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1.corners import corners_of
from datasets.f1.driving import describe, proposed_names
from datasets.f1.feed import car_channels, drs_open, lap_table, raw_samples, spells_of
from datasets.f1.laps import (
    best_laps,
    ideal_laps,
    is_qualifying,
    no_time,
    parts_of,
    remarks_on_laps,
    remarks_on_session,
)
from datasets.f1.loader import read_session, write_session
from datasets.f1.long_runs import fuel_effect, line, runs
from datasets.f1.session import Driver, Session, Spell
from datasets.f1.traffic import free_laps, gaps_ahead, race_history
from datasets.f1.trials import ACTIVITIES, activities, curvature
from datasets.formula1 import Reason
from tests.support.formula1 import LAP_S, cut_off, feed_car, feed_laps, raises, ring_driver, ring_session


def qualifying() -> Session:
    """Return a session: AAA is fastest in Q1, BBB in Q2; CCC has no time."""
    one, two, three = (ring_driver(code, n_laps=4) for code in ("AAA", "BBB", "CCC"))
    part = np.array([1, 1, 2, 2])

    def timed(driver, seconds):
        seconds = np.array(seconds)
        sectors = seconds[:, None] * np.array([0.25, 0.35, 0.4])
        return replace(driver, laps=replace(driver.laps, seconds=seconds, sectors=sectors, part=part))

    fast = timed(one, [40.0, 39.5, np.nan, 39.4])
    other = timed(two, [40.2, 40.1, 39.2, 39.3])
    other.laps.sectors[3, 0] = 9.0  # the best first sector and the best time are on different laps
    return ring_session(fast, other, timed(three, [np.nan] * 4))


def test_best_lap_of_each_qualifying_part():
    session = qualifying()
    assert is_qualifying(session)
    assert not is_qualifying(ring_session())
    found = [(one.code, one.part, one.number, one.seconds) for one in best_laps(session)]
    assert found == [("AAA", "Q1", 2, 39.5), ("BBB", "Q1", 2, 40.1), ("BBB", "Q2", 3, 39.2), ("AAA", "Q2", 4, 39.4)]
    assert no_time(session) == ("CCC",)


def test_ideal_lap_joins_the_best_sectors():
    (first, second) = ideal_laps(qualifying())
    assert first.code == "BBB"
    assert first.laps == (4, 3, 3)
    assert first.ideal == pytest.approx(9.0 + 39.2 * 0.75)
    assert first.best == pytest.approx(39.2)
    assert second.best == pytest.approx(second.ideal)


def test_ideal_lap_uses_sectors_of_aborted_laps():
    session = qualifying()
    laps = session.drivers[1].laps
    aborted = replace(laps, pit_in=np.array([True, False, False, False]), deleted=np.array([False, True, False, False]))
    aborted.seconds[0] = aborted.sectors[0, 2] = np.nan
    aborted.sectors[0, 1] = 12.0
    aborted.sectors[1] = 1.0  # deleted
    found = {
        one.code: one for one in ideal_laps(replace(session, drivers=(replace(session.drivers[1], laps=aborted),)))
    }
    assert found["BBB"].laps == (4, 1, 3)
    assert found["BBB"].ideal == pytest.approx(9.0 + 12.0 + 39.2 * 0.4)


# ---- against FastF1 ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def feed(downloads):
    """Return a stored session of FastF1 and the same session from our loader."""
    import fastf1

    patch = pytest.MonkeyPatch()
    patch.setenv("GDM_DATA_DIR", str(downloads))
    patch.setattr("sys.stdin", None)
    fastf1.Cache.configure(cache_dir=str(downloads / "fastf1"))
    fastf1.Cache.offline_mode(True)
    source = fastf1.get_session(2025, "Australia", "Q")
    source.load(laps=True, telemetry=True, weather=True, messages=True)
    yield source, formula1.load_session(2025, "Australian Grand Prix", "Qualifying", offline=True)
    patch.undo()


@pytest.mark.bulk
def test_best_laps_and_speeds_equal_fastf1(feed):
    source, session = feed
    best = {one.code: one for one in best_laps(session) if one.part == "Q3"}
    assert min(best.values(), key=lambda one: one.seconds).code == "NOR"
    for code in ("NOR", "PIA", "VER"):
        fastest = source.laps.pick_drivers(code).pick_fastest()
        one = min((lap for lap in best_laps(session) if lap.code == code), key=lambda lap: lap.seconds)
        assert one.number == int(fastest["LapNumber"])
        assert one.seconds == pytest.approx(fastest["LapTime"].total_seconds())
        sectors = [fastest[f"Sector{k}Time"].total_seconds() for k in (1, 2, 3)]
        assert one.sectors == pytest.approx(sectors)
        driver, car = session.driver(code), fastest.get_car_data()
        ours = driver.channels["speed"][driver.lap == one.number]
        assert np.nanmax(ours) == pytest.approx(car["Speed"].max(), abs=4)
        assert np.nanmin(ours) == pytest.approx(car["Speed"].min(), abs=6)
        drs = driver.channels["drs"][driver.lap == one.number]
        assert np.nanmean(drs) == pytest.approx((car["DRS"] >= 10).mean(), abs=0.05)
        theirs_gone = source.laps.pick_drivers(code).query("Deleted")["LapNumber"].astype(int).tolist()
        assert driver.laps.number[driver.laps.deleted].tolist() == theirs_gone
        ideal = next(lap for lap in ideal_laps(session) if lap.code == code)
        theirs = source.laps.pick_drivers(code)
        lowest = [theirs[f"Sector{k}Time"].min().total_seconds() for k in (1, 2, 3)]
        assert ideal.ideal >= sum(lowest) - 1e-6
        assert ideal.ideal <= one.seconds + 1e-6
    parts = [sum(one.part == part for one in best_laps(session)) for part in ("Q1", "Q2", "Q3")]
    assert parts == [19, 15, 10]
    assert no_time(session) == ("BEA",)
    assert sum(int(driver.laps.deleted.sum()) for driver in session.drivers) == int(source.laps["Deleted"].sum()) == 5
    flags = source.track_status["Status"].isin(list("24567")).sum()
    assert sum(spell.what != "rain" for spell in session.spells) == flags
    assert session.track == pytest.approx(tuple(source.weather_data["TrackTemp"].iloc[[0, -1]]))


@pytest.mark.bulk
def test_corner_times_add_up_to_lap_times(china):
    session = china[0]
    laps = session.driver("PIA").laps
    found = corners_of(session, "PIA", laps.number[laps.undisturbed])
    official = laps.seconds[np.isin(laps.number, found.laps)]
    known = np.isfinite(found.values["time"]).all(axis=1)
    assert known.mean() > 0.9
    np.testing.assert_allclose(found.values["time"][known].sum(axis=1), official[known], atol=1e-6)
    slowest = found.mean("minimum speed").mean
    assert np.nanargmin(slowest) == 13


@pytest.fixture(scope="module")
def full_race():
    return formula1.simulate_race("shanghai")


def test_laps_by_stint_compound_and_tyre_age(full_race):
    laps = full_race.drivers[0].laps
    code = full_race.codes[0]
    for stint in formula1.stints(laps):
        found = formula1.laps_where(full_race, code, stint=stint.number)
        assert found == tuple(range(stint.first, stint.last + 1))
        assert set(found) <= set(formula1.laps_where(full_race, code, compound=stint.compound))
    young = formula1.laps_where(full_race, code, tyre_age=(2, 4))
    assert len(young) == 3 * len(formula1.stints(laps))
    both = formula1.laps_where(full_race, code, stint=2, tyre_age=(2, 4))
    assert set(both) < set(young)
    assert len(both) == 3
    trials = formula1.to_trials(full_race, code, laps=both)
    assert set(np.concatenate([trial.segments for trial in trials])) == set(both)


def test_missing_laps_are_refused(full_race):
    code = full_race.codes[0]
    with raises(Reason.NO_LAPS, "no lap in stint 9", "stints: 1, 2"):
        formula1.laps_where(full_race, code, stint=9)
    with raises(Reason.NO_LAPS, "on WET", "compounds:", "MEDIUM"):
        formula1.laps_where(full_race, code, compound="WET")
    with raises(Reason.NO_LAPS, "on 80- to 90-lap-old tyres", "ages: 1 to"):
        formula1.laps_where(full_race, code, tyre_age=(80, 90))
    with raises(Reason.NO_LAPS, "in Q2", "parts: none known"):
        formula1.laps_where(full_race, code, part="Q2")


def _qualifying():
    driver = ring_driver("AAA", n_laps=6)
    seconds = np.array([100.0, 80.0, 84.0, 81.0, 100.0, 79.0])
    pits = np.array([True, False, False, False, True, False])
    laps = replace(driver.laps, part=np.array([1, 1, 2, 2, 3, 3]), seconds=seconds, pit_out=pits)
    return ring_session(replace(driver, laps=laps))


def test_quick_laps_of_a_qualifying_part():
    session = _qualifying()
    assert formula1.laps_where(session, "AAA", quick=True) == (2, 3, 4, 6)
    assert formula1.laps_where(session, "AAA", part="Q1", quick=True) == (2,)
    assert formula1.laps_where(session, "AAA", part="Q3") == (5, 6)
    with raises(Reason.NO_LAPS, "in Q9", "parts: Q1, Q2, Q3"):
        formula1.laps_where(session, "AAA", part="Q9")


class QualifyingLaps(pd.DataFrame):
    """Laps of FastF1 in three parts of two laps."""

    def split_qualifying_sessions(self) -> list[pd.DataFrame]:
        return [self.iloc[first : first + 2] for first in (0, 2, 4)]


def test_feed_laps_have_their_qualifying_part():
    laps = QualifyingLaps(feed_laps("1", 6))
    assert parts_of(laps).tolist() == [1, 1, 2, 2, 3, 3]
    assert lap_table(laps.assign(Part=parts_of(laps))).part.tolist() == [1, 1, 2, 2, 3, 3]


# ---- remarks on laps ----------------------------------------------------------------------------------------
ALL = (1, 2, 3, 4)


def with_laps(code="AAA", **changes):
    driver = ring_driver(code)
    return replace(driver, laps=replace(driver.laps, **changes))


def describe_laps(driver, laps=ALL):
    return " ".join(remarks_on_laps(ring_session(driver), driver.code, laps))


def test_driver_without_time_is_reported():
    assert "AAA set no time: lap times are not compared" in describe_laps(with_laps(seconds=np.full(4, np.nan)))


def test_deleted_lap_is_never_the_best():
    fast = with_laps(seconds=np.array([41.0, 38.0, 39.0, 40.0]), deleted=np.array([False, True, False, False]))
    assert "Race control deleted lap 2 of AAA" in describe_laps(fast)
    assert "deleted" not in describe_laps(fast, (1, 3))
    session = ring_session(fast, with_laps("BBB", deleted=np.ones(4, bool)))
    assert [(one.code, one.number) for one in best_laps(session)] == [("AAA", 3)]
    assert [one.code for one in ideal_laps(session)] == ["AAA"]
    assert no_time(session) == ("BBB",)


def test_red_flag_and_rain_are_reported_with_minute():
    stopped = replace(
        ring_session(),
        spells=(Spell(100 + 120, 400, "red flag"), Spell(100 + 60, 500, "rain"), Spell(10, 20, "red flag")),
    )
    assert [said[:34] for said in remarks_on_session(stopped)] == [
        "The session was stopped under a re",
        "The session had rain; compare laps",
    ]
    assert "(from minute 2)" in remarks_on_session(stopped)[0]


def test_flags_rain_and_deleted_laps_are_stored(tmp_path):
    status = pd.DataFrame({"Time": pd.to_timedelta([0, 50, 60, 90], unit="s"), "Status": ["1", "5", "1", "4"]})
    weather = pd.DataFrame(
        {"Time": pd.to_timedelta([0, 60, 120, 180], unit="s"), "Rainfall": [False, True, True, False]}
    )
    spells = spells_of(status, weather)
    assert spells == (Spell(50.0, 60.0, "red flag"), Spell(60.0, 180.0, "rain"))
    assert spells_of(None, None) == ()
    table = lap_table(feed_laps("1", 3).assign(Deleted=[False, True, None]))
    assert table.deleted.tolist() == [False, True, False]
    kept = replace(ring_session(replace(ring_driver(), laps=table)), spells=spells, track=(42.0, 35.5))
    write_session(kept, tmp_path / "one.npz")
    again = read_session(tmp_path / "one.npz")
    assert (again.spells, again.track) == (spells, (42.0, 35.5))
    assert again.drivers[0].laps.deleted.tolist() == [False, True, False]


def test_drs_is_open_or_closed():
    sent = feed_car(np.arange(0, LAP_S, 1.0))
    sent["DRS"] = np.where(np.arange(len(sent)) < 20, 8, 12)  # 8 means available
    assert drs_open({"1": sent}) == 10
    drs = car_channels(raw_samples(sent), np.array([5.0, 30.0]))["drs"]
    assert drs.tolist() == [0.0, 1.0]
    rebuilt = sent.assign(DRS=(sent["DRS"] == 12).astype(int))
    assert drs_open({"1": rebuilt, "2": rebuilt.assign(DRS=0)}) == 1
    assert drs_open({"1": rebuilt, "2": sent}) == 10
    assert car_channels(raw_samples(rebuilt, 1), np.array([5.0, 30.0]))["drs"].tolist() == [0.0, 1.0]


def test_curvature_of_a_circle_is_one_over_radius():
    turn = np.linspace(0, 2 * np.pi, 400)
    circle = 100 * np.column_stack([np.cos(turn), np.sin(turn)])
    at = np.linspace(0, 600, 50)
    np.testing.assert_allclose(curvature(circle, 2 * np.pi * 100, at), 0.01, rtol=0.05)
    np.testing.assert_allclose(curvature(circle[::-1], 2 * np.pi * 100, at), -0.01, rtol=0.05)
    assert curvature(circle, 2 * np.pi * 100, [-10.0])[0] == pytest.approx(0.01, rel=0.05)


def test_states_are_named_by_speed_and_pedals():
    states = np.repeat(np.eye(6), 10, axis=0)
    repeat_each = lambda *values: np.repeat(values, 10)  # noqa: E731
    channels = {
        "speed": repeat_each(310.0, 90.0, 250.0, 150.0, 230.0, 300.0),
        "throttle": repeat_each(100.0, 20.0, 0.0, 40.0, 60.0, 99.0),
        "brake": repeat_each(0.0, 0.1, 1.0, 0.9, 0.0, 0.0),
        "gear": repeat_each(8.0, 2.0, 7.0, 4.0, 6.0, 8.0),
    }
    turn = repeat_each(0.0, -0.02, 0.0, 0.01, 0.005, 0.001)
    found = describe(states, channels, turn)
    assert proposed_names(found) == [
        "on throttle, 310 km/h",
        "slow right-hander",
        "braking, 250 km/h",
        "braking, 150 km/h",
        "fast left-hander",
        "on throttle, 300 km/h",
    ]
    assert found.speed[1] == pytest.approx(90)
    assert found.gear[1] == pytest.approx(2)
    assert found.left[1] == 0
    assert np.isnan(found.left[0])
    assert found.use[0] == pytest.approx(1 / 6)


def test_activities_follow_pedals_and_curvature():
    pedals = {"throttle": [100.0, 0.0, 100.0, 50.0, np.nan], "brake": [0.0, 1.0, 0.0, 0.0, 0.0]}
    found = activities(pedals, [0.0, 0.0, 0.01, 0.0, 0.0])
    assert [ACTIVITIES[k] for k in found[:4]] == ["full throttle", "braking", "cornering", "part throttle"]
    assert found[4] == -1
    assert activities({"throttle": [1.0]}, [0.0]) is None


def test_run_slope_interval_covers_the_truth():
    rng, inside = np.random.default_rng(0), 0
    driver = ring_driver("AAA", n_laps=24)
    for _ in range(1000):
        age = driver.laps.tyre_age
        seconds = 40 + 0.05 * age - 0.03 * driver.laps.number + rng.normal(0, 0.1, 24)
        session = ring_session(replace(driver, laps=replace(driver.laps, seconds=seconds)))
        (run,) = runs(session, "AAA", fuel=0.03)
        inside += abs(run.slope.mean - 0.05) < run.slope.margin
    assert 925 <= inside <= 970, f"{inside} of 1000 intervals of 95 % hold the slope"
    assert fuel_effect(session)[1].startswith("assumed")
    assert np.isnan(line(np.ones(6), np.arange(6.0))[0].mean)


def _practice(seconds: list[float]) -> Session:
    driver = ring_driver("AAA", n_laps=len(seconds))
    laps = replace(driver.laps, seconds=np.array(seconds), accurate=np.ones(len(seconds), bool))
    return replace(ring_session(replace(driver, laps=laps)), name="Practice 1")


def test_push_and_cool_down_laps_are_no_long_run():
    session = _practice([40, 55, 40.1, 56, 39.9, 54, 40.2, 55, 40.0])
    assert runs(session, "AAA", 0.06) == ()


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


def _behind(code: str, seconds: float, n_laps: int = 8) -> Driver:
    """Return a driver who is behind the first by a constant gap."""
    driver = ring_driver(code, n_laps=n_laps)
    laps = replace(driver.laps, start=driver.laps.start + seconds, end=driver.laps.end + seconds)
    return replace(driver, time=driver.time + seconds, laps=laps)


def test_gap_is_the_time_to_the_car_ahead():
    session = ring_session(_behind("AAA", 0.0), _behind("BBB", 0.6), _behind("CCC", 3.0))
    gaps = gaps_ahead(session)
    np.testing.assert_allclose(gaps["BBB", 4], 0.6, atol=1e-6)
    np.testing.assert_allclose(gaps["CCC", 4], 2.4, atol=1e-6)
    assert free_laps(session, "BBB", range(1, 9)) == ()
    assert free_laps(session, "CCC", [2, 5]) == (2, 5)


def test_first_car_on_the_road_has_no_gap():
    assert np.isinf(list(gaps_ahead(ring_session(_behind("AAA", 0.0))).values())).all()
    lapped = gaps_ahead(ring_session(_behind("AAA", 0.0), _behind("BBB", LAP_S - 0.4)))
    np.testing.assert_allclose([lapped["AAA", lap][:-1] for lap in range(2, 9)], 0.4, atol=1e-6)


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
    gap = gaps_ahead(session)["LEC", 20][-1]
    assert gap == pytest.approx(0.58, abs=0.005)
    ends = [session.driver(code).laps.end[19] for code in ("LEC", "HAM")]
    assert gap == pytest.approx(ends[0] - ends[1], abs=0.005)
    history = race_history(session)
    for code in ("PIA", "LEC", "TSU"):
        official = china_feed.laps.pick_drivers(code)
        row = history.position[history.codes.index(code)]
        np.testing.assert_array_equal(row[official["LapNumber"].astype(int) - 1], official["Position"])
    assert history.stops["HAM"] == (13, 37)
