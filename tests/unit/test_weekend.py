"""Qualifying laps, corners, long runs, remarks on laps, and state names."""

from __future__ import annotations

from dataclasses import replace

import fastf1.core
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
from datasets.f1.session import Session, Spell
from datasets.f1.time_won import clean_laps
from datasets.f1.trials import ACTIVITIES, activities, curvature
from datasets.formula1 import Reason
from tests.support.formula1 import LAP_S, feed_car, feed_laps, raises, ring_driver, ring_session


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
    assert first.left == pytest.approx(39.2 - first.ideal)
    assert second.left == pytest.approx(0.0)


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
    found = corners_of(session, "PIA", clean_laps(laps))
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


class _Session:
    """The parts of a FastF1 session that split qualifying needs."""

    _QUALI_LIKE_SESSIONS = ("Qualifying", "Sprint Shootout", "Sprint Qualifying")  # of an instance in FastF1 3.9

    def __init__(self, name: str, splits: list[float]) -> None:
        self.name = name
        self._session_split_times = [pd.Timedelta(seconds=s) for s in splits]
        self.session_status = pd.DataFrame({"Time": [pd.Timedelta(seconds=1e6)], "Status": ["Finalised"]})


def _laps(name: str) -> fastf1.core.Laps:
    rows = feed_laps("1", 6)
    starts = rows["LapStartTime"].dt.total_seconds()
    splits = [starts[0] - 1, starts[2] - 1, starts[4] - 1]
    return fastf1.core.Laps(rows, session=_Session(name, splits))


def test_feed_laps_have_their_qualifying_part():
    laps = _laps("Qualifying")
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
        "braking",
        "braking into medium left-hander",
        "fast left-hander",
        "on throttle, 300 km/h",
    ]
    assert found[1].speed == pytest.approx(90)
    assert found[1].gear == pytest.approx(2)
    assert found[1].left == 0
    assert np.isnan(found[0].left)
    assert found[0].use == pytest.approx(1 / 6)


def test_activities_follow_pedals_and_curvature():
    pedals = {"throttle": [100.0, 0.0, 100.0, 50.0, np.nan], "brake": [0.0, 1.0, 0.0, 0.0, 0.0]}
    found = activities(pedals, [0.0, 0.0, 0.01, 0.0, 0.0])
    assert [ACTIVITIES[k] for k in found[:4]] == ["full throttle", "braking", "cornering", "part throttle"]
    assert found[4] == -1
    assert activities({"throttle": [1.0]}, [0.0]) is None
