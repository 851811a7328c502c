"""Qualifying, corners and long runs: hand-made sessions, and FastF1's own numbers where the stored sessions are.

And sessions as rows of a sheet, of which a study can ask.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1.corners import MEASURES, corners_of, differences
from datasets.f1.laps import best_laps, ideal_laps, is_qualifying, no_time
from datasets.f1.season import KINDS, joined, study_rows
from datasets.f1.session import Session
from datasets.f1.time_won import clean_laps, fading, fuel_effect, line, runs, shares_by_lap
from gdm_core import Study
from gdm_core.errors import ConfigError, DataError
from tests.support.formula1 import LAP_S, RADIUS, ring_driver, ring_session


def qualifying() -> Session:
    """AAA is fastest in Q1, BBB in Q2; CCC has no time at all, and one of AAA's laps was deleted."""
    one, two, three = (ring_driver(code, n_laps=4) for code in ("AAA", "BBB", "CCC"))
    part = np.array([1, 1, 2, 2])

    def timed(driver, seconds):
        seconds = np.array(seconds)
        sectors = seconds[:, None] * np.array([0.25, 0.35, 0.4])
        return replace(driver, laps=replace(driver.laps, seconds=seconds, sectors=sectors, part=part))

    fast = timed(one, [40.0, 39.5, np.nan, 39.4])
    other = timed(two, [40.2, 40.1, 39.2, 39.3])
    other.laps.sectors[3, 0] = 9.0  # the best first sector lies on another lap than the best time
    return ring_session(fast, other, timed(three, [np.nan] * 4))


def test_the_best_lap_of_each_part_and_who_has_none():
    session = qualifying()
    assert is_qualifying(session)
    assert not is_qualifying(ring_session())
    found = [(one.code, one.part, one.number, one.seconds) for one in best_laps(session)]
    assert found == [("AAA", "Q1", 2, 39.5), ("BBB", "Q1", 2, 40.1), ("BBB", "Q2", 3, 39.2), ("AAA", "Q2", 4, 39.4)]
    assert no_time(session) == ("CCC",)


def test_the_ideal_lap_puts_the_best_sectors_together():
    (first, second) = ideal_laps(qualifying())
    assert first.code == "BBB"
    assert first.laps == (4, 3, 3)
    assert first.ideal == pytest.approx(9.0 + 39.2 * 0.75)
    assert first.left == pytest.approx(39.2 - first.ideal)
    assert second.left == pytest.approx(0.0), "all of his best sectors are of his best lap"


def test_corners_of_a_steady_ring_are_all_alike():
    session = ring_session(ring_driver("AAA", n_laps=12), ring_driver("BBB", n_laps=12))
    one, other = (corners_of(session, code, range(2, 12)) for code in ("AAA", "BBB"))
    assert one.names == ("T1", "T2", "T3", "T4")
    assert set(one.values) == set(MEASURES)
    for speed in ("entry speed", "minimum speed", "exit speed"):
        np.testing.assert_allclose(one.values[speed], 113.0)
    assert np.isnan(one.values["braking point"]).all(), "no pedal was sent"
    np.testing.assert_allclose(one.values["time"].sum(axis=1), LAP_S, atol=1e-6)
    np.testing.assert_allclose(one.values["time"], LAP_S / 4, atol=0.05)
    assert not differences(one, other, "time").sure().any()
    assert one.kinds() == ("low",) * 4


def test_a_braking_point_is_where_the_braking_for_this_corner_begins():
    driver = ring_driver("AAA", n_laps=6)
    length = 2 * np.pi * RADIUS
    turn = (driver.time - 100) / LAP_S % 1
    brake = ((turn > 0.30) & (turn < 0.36)).astype(np.float32)  # before T2, at 0.375
    braking = replace(driver, channels={**driver.channels, "brake": brake})
    found = corners_of(ring_session(braking), "AAA", range(2, 6))
    metres, _ = found.mean("braking point")
    assert metres[1] == pytest.approx(0.075 * length, abs=length * 0.25 / LAP_S)
    assert np.isnan(metres[[0, 2, 3]]).all()
    holed = ring_driver("AAA", n_laps=6, holes=((LAP_S * 2.30, LAP_S * 2.5),))
    missing = corners_of(ring_session(holed), "AAA", [3]).values["minimum speed"][0]
    assert np.isnan(missing[1]), "a hole says nothing of the corner in it"
    assert np.isfinite(missing[3])


def test_the_slope_of_a_run_is_found_with_fuel_taken_off_and_its_interval_holds():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        driver = ring_driver("AAA", n_laps=24)
        age = driver.laps.tyre_age
        seconds = 40 + 0.05 * age - 0.03 * driver.laps.number + rng.normal(0, 0.1, 24)
        session = ring_session(replace(driver, laps=replace(driver.laps, seconds=seconds)))
        (run,) = runs(session, "AAA", fuel=0.03)
        inside += abs(run.slope - 0.05) < 1.96 * run.error
    assert inside >= 184, f"{inside} of 200 intervals of 95 % hold the slope"
    assert fuel_effect(session)[1].startswith("assumed"), "one driver who never stops cannot tell fuel from tyres"


def test_states_fade_by_what_is_put_into_them_and_add_up_to_the_lap():
    driver = ring_driver("AAA", n_laps=20)
    age = driver.laps.tyre_age
    slow, fast = 10 + 0.08 * age, np.full(20, 30.0)
    session = ring_session(replace(driver, laps=replace(driver.laps, seconds=slow + fast)))
    found = runs(session, "AAA", fuel=0.0)
    shares = {int(n): np.array([a, b]) / (a + b) for n, a, b in zip(driver.laps.number, slow, fast, strict=True)}
    whole, states = fading(found, shares)
    assert [slope for slope, _ in states] == pytest.approx([0.08, 0.0], abs=1e-9)
    assert whole[0] == pytest.approx(sum(slope for slope, _ in states))
    assert fading((), shares)[1] == ()
    lap = np.repeat([1, 2, 3], [160, 160, 40])
    soft = np.column_stack([lap == 1, lap != 1]).astype(float)
    assert set(shares_by_lap(soft, lap)) == {1, 2}, "a lap that was sent in part says nothing"
    assert np.isnan(line(np.ones(6), np.arange(6.0))[0]), "tyres of one age have no slope"


# ---- against FastF1's own ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def feed(downloads):
    """FastF1 with a stored session, and the same through our loader."""
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
def test_best_laps_sectors_and_speeds_are_those_of_fastf1(feed):
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
        assert np.nanmax(ours) == pytest.approx(car["Speed"].max(), abs=4), "at the times of positions"
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
def test_corner_times_of_a_real_race_add_up_to_its_lap_times(china):
    session = china[0]
    laps = session.driver("PIA").laps
    found = corners_of(session, "PIA", clean_laps(laps))
    official = laps.seconds[np.isin(laps.number, found.laps)]
    known = np.isfinite(found.values["time"]).all(axis=1)
    assert known.mean() > 0.9
    np.testing.assert_allclose(found.values["time"][known].sum(axis=1), official[known], atol=1e-6)
    slowest, _ = found.mean("minimum speed")
    assert np.nanargmin(slowest) == 13, "T14, the hairpin at the end of the long straight"


# ---- sessions as rows of a sheet ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def race():
    return formula1.simulate_race("shanghai", drivers=4, laps=9)


def test_a_row_a_driver_says_where_the_laps_take_their_time(race):
    rows = study_rows([race])
    sheet = pd.DataFrame(rows.sheet)
    assert list(sheet["subject"]) == list(race.codes)
    assert sheet["team"].tolist() == [driver.team for driver in race.drivers]
    parts = sheet[[f"{name} (s a lap)" for name in KINDS]]
    assert (parts > 0).all().all(), "Shanghai has slow, medium and fast corners"
    np.testing.assert_allclose(parts.sum(axis=1), sheet["mean lap (s)"], atol=1e-3)
    assert (sheet["best lap (s)"] <= sheet["mean lap (s)"]).all()
    assert sheet["braking point (m)"].between(20, 150).all()
    assert set(rows.states) == set(sheet["recording"])
    assert all(((labels >= -1) & (labels < 4)).all() for labels in rows.states.values())


def test_a_row_a_stint_has_one_compound_and_the_laps_of_all_stints_are_the_drivers(race):
    sheet = pd.DataFrame(study_rows([race], by="stint").sheet)
    whole = pd.DataFrame(study_rows([race]).sheet)
    assert (sheet["compound"] != "").all()
    assert sheet.groupby("subject")["laps"].sum().to_dict() == whole.set_index("subject")["laps"].to_dict()


def test_a_study_takes_the_rows_and_finds_the_team_that_brakes_later(race):
    """Teams of made-up sessions of which one brakes later by what was put in."""
    rows = joined([study_rows([race])])
    sheet = pd.DataFrame(rows.sheet).assign(team=["A", "A", "B", "B"])
    many = pd.concat([sheet.assign(session=f"race {k}", recording=sheet["recording"] + f" {k}") for k in range(5)])
    rng = np.random.default_rng(0)
    many["braking point (m)"] = np.where(many["team"] == "A", 80.0, 90.0) + rng.normal(0, 1, len(many))
    states = {name: rows.states[name.rpartition(" ")[0]] for name in many["recording"]}
    study = Study.of_states(states, many, rows.rate_hz, list(rows.names))
    found = study.compare("braking point (m)", between="team", unit="recording", blocks="session")
    assert abs(found["effect"].iloc[0]) == pytest.approx(10, abs=2)
    assert found["p"].iloc[0] < 0.01
    assert len(study.compare("usage", between="team", unit="recording", blocks="session")) == 4


def test_without_corners_or_undisturbed_laps_what_can_be_measured_is(race):
    sheet = pd.DataFrame(study_rows([replace(race, corners=())]).sheet)
    assert sheet["braking point (m)"].isna().all()
    assert sheet[f"{KINDS[1]} (s a lap)"].notna().all(), "slow corners are told by speed alone"
    nobody = ring_driver("AAA")
    nobody = replace(nobody, laps=replace(nobody.laps, seconds=np.full(4, np.nan)))
    with pytest.raises(DataError, match="Nobody drove an undisturbed timed lap"):
        study_rows([ring_session(nobody)])
    with pytest.raises(ConfigError, match="by is 'team'"):
        study_rows([race], by="team")
