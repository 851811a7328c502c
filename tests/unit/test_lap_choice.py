"""Laps chosen by stint, compound, tyre age, and the parts of a qualifying session; what is said to be wanting in them.
And what a state is: curvature of the track, pedals, and the name that follows from them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import fastf1.core
import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1 import cache, remarks
from datasets.f1.cache import read_session, write_session
from datasets.f1.driving import ACTIVITIES, activities, curvature, describe, proposed_names
from datasets.f1.extract import car_channels, lap_table, spells_of
from datasets.f1.laps import best_laps, ideal_laps, no_time, parts_of
from datasets.f1.session import Spell
from datasets.formula1 import Reason, lap_distance, simulate_race
from tests.support.formula1 import LAP_S, feed_car, feed_laps, raises, ring_driver, ring_session


@pytest.fixture(scope="module")
def race():
    return formula1.simulate_race("shanghai")


def test_laps_are_found_by_stint_compound_and_age_of_the_tyres(race):
    laps = race.drivers[0].laps
    code = race.codes[0]
    for stint in formula1.stints(laps):
        found = formula1.laps_where(race, code, stint=stint.number)
        assert found == tuple(range(stint.first, stint.last + 1))
        assert set(found) <= set(formula1.laps_where(race, code, compound=stint.compound))
    young = formula1.laps_where(race, code, tyre_age=(2, 4))
    assert len(young) == 3 * len(formula1.stints(laps))
    both = formula1.laps_where(race, code, stint=2, tyre_age=(2, 4))
    assert set(both) < set(young)
    assert len(both) == 3
    trials = formula1.to_trials(race, code, laps=both)
    assert set(np.concatenate([trial.segments for trial in trials])) == set(both)


def test_laps_that_nobody_drove_are_refused_with_what_there_is(race):
    code = race.codes[0]
    with raises(Reason.NO_LAPS, "no lap in stint 9", "stints: 1, 2"):
        formula1.laps_where(race, code, stint=9)
    with raises(Reason.NO_LAPS, "on WET", "compounds:", "MEDIUM"):
        formula1.laps_where(race, code, compound="WET")
    with raises(Reason.NO_LAPS, "on tyres 80 to 90 laps old", "ages: 1 to"):
        formula1.laps_where(race, code, tyre_age=(80, 90))
    with raises(Reason.NO_LAPS, "in Q2", "parts: none known"):
        formula1.laps_where(race, code, part="Q2")


def _qualifying():
    driver = ring_driver("AAA", n_laps=6)
    seconds = np.array([100.0, 80.0, 84.0, 81.0, 100.0, 79.0])
    pits = np.array([True, False, False, False, True, False])
    laps = replace(driver.laps, part=np.array([1, 1, 2, 2, 3, 3]), seconds=seconds, pit_out=pits)
    return ring_session(replace(driver, laps=laps))


def test_fast_laps_of_a_part_of_qualifying_are_found():
    session = _qualifying()
    assert formula1.laps_where(session, "AAA", quick=True) == (2, 3, 4, 6)
    assert formula1.laps_where(session, "AAA", part="Q1", quick=True) == (2,)
    assert formula1.laps_where(session, "AAA", part="Q3") == (5, 6)
    with raises(Reason.NO_LAPS, "in Q9", "parts: Q1, Q2, Q3"):
        formula1.laps_where(session, "AAA", part="Q9")


def test_the_parts_of_qualifying_are_kept(tmp_path):
    session = _qualifying()
    cache.write_session(session, tmp_path / "q.npz")
    np.testing.assert_array_equal(cache.read_session(tmp_path / "q.npz").drivers[0].laps.part, [1, 1, 2, 2, 3, 3])


class _Session:
    """As much of FastF1's session as its own splitting of qualifying reads."""

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


def test_the_feeds_laps_know_their_part_of_qualifying():
    laps = _laps("Qualifying")
    assert parts_of(laps).tolist() == [1, 1, 2, 2, 3, 3]
    assert lap_table(laps.assign(Part=parts_of(laps))).part.tolist() == [1, 1, 2, 2, 3, 3]


def test_laps_of_other_sessions_belong_to_no_part():
    assert parts_of(_laps("Race")).tolist() == [0] * 6
    assert parts_of(feed_laps("1", 3)).tolist() == [0] * 3
    laps = _laps("Qualifying")
    laps.session.session_status = None
    assert parts_of(laps).tolist() == [0] * 6


# ---- what is wanting in laps ----------------------------------------------------------------------------------------
ALL = (1, 2, 3, 4)


def with_laps(code="AAA", **changes):
    driver = ring_driver(code)
    return replace(driver, laps=replace(driver.laps, **changes))


def of(driver, laps=ALL):
    return " ".join(remarks.on_laps(ring_session(driver), driver.code, laps))


def test_laps_in_order_are_passed_over_in_silence_but_for_pedals_that_nobody_sent():
    assert of(ring_driver()) == "The car of AAA sent no throttle and brake: the model sees the rest."
    assert remarks.on_session(ring_session()) == ()


def test_a_driver_who_set_no_time_is_said_to_have_none():
    assert "AAA set no time: states and telemetry are shown" in of(with_laps(seconds=np.full(4, np.nan)))


def test_a_deleted_lap_is_named_and_is_never_the_best():
    fast = with_laps(seconds=np.array([41.0, 38.0, 39.0, 40.0]), deleted=np.array([False, True, False, False]))
    assert "Race control deleted lap 2 of AAA" in of(fast)
    assert "deleted" not in of(fast, (1, 3)), "it is not among these"
    session = ring_session(fast, with_laps("BBB", deleted=np.ones(4, bool)))
    assert [(one.code, one.number) for one in best_laps(session)] == [("AAA", 3)]
    assert [one.code for one in ideal_laps(session)] == ["AAA"]
    assert no_time(session) == ("BBB",)


@pytest.mark.parametrize(
    ("compound", "said"),
    [
        (("HARD", "WET", "INTERMEDIATE", "HARD"), "AAA drove 2 of these 4 laps on wet or intermediate tyres"),
        (("WET",) * 4, ""),
        (("HARD",) * 4, ""),
    ],
)
def test_wet_laps_among_dry_ones_are_counted(compound, said):
    found = of(with_laps(compound=compound))
    assert said in found
    assert ("tyres" in found) == bool(said)


def test_half_a_telemetry_is_measured():
    driver = ring_driver()
    speed = driver.channels["speed"].copy()
    speed[: len(speed) // 2] = np.nan
    half = replace(driver, channels=MappingProxyType(dict(driver.channels) | {"speed": speed}))
    assert "sent no speed for 50% of these laps" in of(half)
    assert "sent no speed" not in of(half, (3, 4)), "of these laps all of it came"


def test_red_flags_and_rain_are_said_with_their_minute():
    stopped = replace(
        ring_session(),
        spells=(Spell(100 + 120, 400, "red flag"), Spell(100 + 60, 500, "rain"), Spell(10, 20, "red flag")),
    )
    assert [said[:34] for said in remarks.on_session(stopped)] == [
        "The session was stopped under a re",
        "The session saw rain; laps before,",
    ]
    assert "(from minute 2)" in remarks.on_session(stopped)[0], "what was before the first lap disturbed nobody"


def test_the_feeds_flags_rain_and_deleted_laps_come_through_and_are_kept(tmp_path):
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


def test_drs_is_open_or_shut():
    sent = feed_car(np.arange(0, LAP_S, 1.0))
    sent["DRS"] = np.where(np.arange(len(sent)) < 20, 8, 12)  # 8: it may be opened
    drs = car_channels(sent, np.array([5.0, 30.0]))["drs"]
    assert drs.tolist() == [0.0, 1.0]


def test_the_curvature_of_a_circle_is_one_by_its_radius_and_its_sign_the_side():
    turn = np.linspace(0, 2 * np.pi, 400)
    circle = 100 * np.column_stack([np.cos(turn), np.sin(turn)])
    at = np.linspace(0, 600, 50)
    np.testing.assert_allclose(curvature(circle, 2 * np.pi * 100, at), 0.01, rtol=0.05)
    np.testing.assert_allclose(curvature(circle[::-1], 2 * np.pi * 100, at), -0.01, rtol=0.05)
    assert curvature(circle, 2 * np.pi * 100, [-10.0])[0] == pytest.approx(0.01, rel=0.05), "over the line"


def test_states_are_named_by_what_is_done_in_them():
    states = np.repeat(np.eye(6), 10, axis=0)
    of = lambda *values: np.repeat(values, 10)  # noqa: E731
    channels = {
        "speed": of(310.0, 90.0, 250.0, 150.0, 230.0, 300.0),
        "throttle": of(100.0, 20.0, 0.0, 40.0, 60.0, 99.0),
        "brake": of(0.0, 0.1, 1.0, 0.9, 0.0, 0.0),
        "gear": of(8.0, 2.0, 7.0, 4.0, 6.0, 8.0),
    }
    turn = of(0.0, -0.02, 0.0, 0.01, 0.005, 0.001)
    found = describe(states, channels, turn)
    assert proposed_names(found) == [
        "flat out, 310 km/h",
        "slow right-hander",
        "braking",
        "braking into medium left-hander",
        "fast left-hander",
        "flat out, 300 km/h",
    ]
    assert found[1].speed == pytest.approx(90)
    assert found[1].gear == pytest.approx(2)
    assert found[1].left == 0
    assert np.isnan(found[0].left), "nothing turns there"
    assert found[0].use == pytest.approx(1 / 6)


def test_soft_shares_weigh_and_what_was_not_sent_says_nothing():
    states = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    (first, second) = describe(states, {"speed": [100.0, 200.0, np.nan]}, [0.0, 0.0, 0.0])
    assert first.speed == pytest.approx(125)
    assert second.speed == pytest.approx(175)
    assert np.isnan(first.throttle)
    assert proposed_names([first, second]) == ["straight, 125 km/h", "straight, 175 km/h"]
    same = describe(np.full((4, 3), 1 / 3), {}, np.zeros(4))
    assert len(set(proposed_names(same))) == 3, "names are told apart in any case"


def test_activities_are_those_of_the_pedals_and_the_track():
    pedals = {"throttle": [100.0, 0.0, 100.0, 50.0, np.nan], "brake": [0.0, 1.0, 0.0, 0.0, 0.0]}
    found = activities(pedals, [0.0, 0.0, 0.01, 0.0, 0.0])
    assert [ACTIVITIES[k] for k in found[:4]] == ["full throttle", "braking", "cornering", "part throttle"]
    assert found[4] == -1
    assert activities({"throttle": [1.0]}, [0.0]) is None


def test_a_simulated_driver_brakes_before_corners_and_is_flat_out_on_straights():
    session = simulate_race("shanghai")
    driver = session.drivers[0]
    reference = session.reference
    line = np.vstack([reference.points, reference.points[:1]])
    part = slice(2000, 6000)
    distance = lap_distance(session, driver.position[part], driver.lap[part])
    turn = curvature(line, reference.length, distance)
    channels = {name: driver.channels[name][part] for name in ("speed", "throttle", "brake", "gear")}
    done = activities(channels, turn)
    assert done is not None
    speed = channels["speed"]
    assert np.mean(speed[done == 2]) > np.mean(speed[done == 1]) + 50
    assert set(np.unique(done)) == {0, 1, 2, 3}
