"""Formula 1 through FastF1: contents of the feed, and reports of its failures."""

import logging

import numpy as np
import pandas as pd
import pytest
import requests
from fastf1 import Cache
from fastf1.events import Event as FeedEvent
from fastf1.exceptions import DataNotLoadedError, RateLimitExceededError

from datasets import formula1, storage
from datasets.f1 import feed
from datasets.f1.feed import car_channels, in_order_of_result, lap_table, raw_samples, remarks_on_result
from datasets.formula1 import Reason
from gdm_core.errors import DataError
from tests.support.formula1 import (
    LAP_S,
    feed_car,
    feed_corners,
    feed_laps,
    feed_schedule,
    feed_session,
    raises,
    ring_driver,
)

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def served(monkeypatch, log):
    """Return a function that loads a session from hand-made tables."""
    answers = {"session": feed_session(), "corners": feed_corners()}
    monkeypatch.setattr(feed, "get_event_schedule", lambda year, include_testing: feed_schedule(year))
    monkeypatch.setattr(feed, "get_circuit_info", lambda year, circuit_key: answers["corners"])
    monkeypatch.setattr(FeedEvent, "get_session", lambda self, name: _pick(self, name, answers["session"]))

    def load(name: str = "Race", event: str = "Ring Grand Prix", year: int = 2024, **changes):
        answers.update(changes)
        return feed.fetch_session(year, event, name, log)

    return load


def _pick(event, name, session):
    if name not in list(event.values):
        raise ValueError(f"Session type '{name}' does not exist for this event")
    session.name = name
    return session


# --- contents of the feed ------------------------------------------------------------------------------------------


def test_session_is_in_metres_lap_by_lap(served):
    session = served()
    assert session.codes == ("AAA", "BBB")
    assert (session.title, session.circuit) == ("Ring Grand Prix 2024 · Race", "Ring")
    assert (session.rotation, session.simulated, session.notes) == (90.0, False, ())
    driver = session.driver("AAA")
    wanted = ring_driver("AAA", 3)
    np.testing.assert_allclose(driver.position, wanted.position, atol=0.051)
    np.testing.assert_array_equal(driver.lap, wanted.lap)
    assert driver.available_channels == ("X", "Y", "speed", "throttle", "brake", "gear", "rpm")
    np.testing.assert_allclose(driver.channel("speed"), driver.time, atol=1e-3)  # the fake car sends its clock
    assert [corner.distance for corner in session.corners] == pytest.approx([157, 471, 785, 1099], abs=3)
    assert session.driver("2").code == "BBB"


def test_sprint_weekends_list_their_sessions(served, log):
    normal, sprint = feed.fetch_schedule(2024, log)
    assert ["Sprint" in [slot.name for slot in event.sessions] for event in (normal, sprint)] == [False, True]
    assert [slot.name for slot in sprint.sessions] == [
        "Practice 1",
        "Sprint Qualifying",
        "Sprint",
        "Qualifying",
        "Race",
    ]
    assert sprint.sessions[2].start_utc == "2024-03-17T02:00:00"
    assert served("Sprint", "Oval Grand Prix").name == "Sprint"
    with raises(Reason.NOT_FOUND, "Ring Grand Prix 2024, Sprint", "Practice 3"):
        served("Sprint")


def test_events_are_found_by_name_or_town(served):
    assert served(event="ringtown").event == "Ring Grand Prix"
    for wrong in ("Ringland", "Rin"):
        with raises(Reason.NOT_FOUND, repr(wrong), "Ring Grand Prix, Oval Grand Prix"):
            served(event=wrong)


def test_future_session_names_its_start(served):
    with raises(Reason.NOT_YET, "2124-03-10T04:00"):
        served(year=2124)


def test_corner_letters_are_kept(served):
    session = served(corners=feed_corners(("", "A", "", "")))
    assert [corner.key for corner in session.corners] == ["1", "1A", "2", "3"]
    assert formula1.segment_names(session.corners) == ("T1-T1A", "T1A-T2", "T2-T3", "T3-T1")
    labels = formula1.to_trials(session, "AAA")[0].labels
    assert np.unique(labels).tolist() == [0, 1, 2, 3]


def test_missing_corners_are_reported(served):
    for nothing in (None, feed_corners(())):
        session = served(corners=nothing)
        assert session.corners == ()
        assert "No corner data for Ring" in session.notes[-1]
        with raises(Reason.NO_CORNERS, "Ring", "Load the session again"):
            session.require_corners()
        trials = formula1.to_trials(session, "AAA")
        assert trials[0].labels is None
        assert trials.label_names == ()


def test_missing_corners_come_from_a_file(served, tmp_path):
    known = served().corners
    path = storage.cache_dir("formula1") / "corners_ring.csv"
    feed_corners().corners.to_csv(path, index=False)
    session = served(corners=None)
    assert [(c.key, c.distance) for c in session.corners] == [(c.key, c.distance) for c in known]
    assert session.notes == ()
    path.write_text("Number,X\n1,2\n")
    with pytest.raises(DataError, match=r"corners_ring.csv is not a table of corners .* Number, X, Y and Angle"):
        served(corners=None)


def test_driver_without_position_cannot_be_chosen(served):
    source = feed_session()
    del source.pos_data["2"]
    session = served(session=source)
    assert session.codes == ("AAA", "BBB")
    assert [driver.has_position for driver in session.drivers] == [True, False]
    with raises(Reason.NO_POSITION, "BBB", "Choose one of AAA"):
        formula1.to_trials(session, "BBB")
    with pytest.raises(DataError, match=r"no driver 'ZZZ'\. Choose one of AAA"):
        session.driver("ZZZ")


def test_rows_at_the_origin_are_dropped(served):
    source = feed_session()
    source.pos_data["1"].loc[40:49, ["X", "Y"]] = 0.0
    source.pos_data["1"].loc[60, "X"] = 0.0  # one zero coordinate is valid
    session = served(session=source)
    whole, fewer = session.driver("BBB"), session.driver("AAA")
    assert whole.time.size - fewer.time.size == 10
    assert "10 samples at exactly (0, 0)" in session.notes[0]
    assert len(formula1.to_trials(session, "AAA")) == 2  # ten samples are a gap of 2.5 s


def test_implausible_car_values_are_missing():
    table = feed_car(np.arange(0, 60, 0.25))
    table.loc[10:12, "Throttle"] = 104.0
    table = table[(table["Speed"] < 30) | (table["Speed"] > 33)]
    at = np.array([2.6, 29.6, 31.5, 33.4, 70.0])
    channels = car_channels(raw_samples(table), at)
    np.testing.assert_allclose(channels["throttle"], [50, 50, np.nan, 50, np.nan])
    np.testing.assert_allclose(channels["speed"][[0, 1, 3]], at[[0, 1, 3]], atol=0.2)
    assert car_channels(raw_samples(None), at) == {}


def test_missing_lap_times_use_neighbours():
    rows = feed_laps("1", 4)
    rows.loc[1, "LapStartTime"] = pd.NaT
    rows.loc[2, "Time"] = pd.NaT
    rows.loc[0, "TrackStatus"] = "124"
    rows.loc[1, "TrackStatus"] = float("nan")
    rows.loc[3, "TrackStatus"] = "67"
    rows.loc[2, "PitInTime"] = pd.Timedelta(200, unit="s")
    table = lap_table(rows)
    np.testing.assert_allclose(table.start, 100 + LAP_S * np.arange(4))
    np.testing.assert_allclose(table.end, 140 + LAP_S * np.arange(4))
    assert table.neutralised.tolist() == [True, False, False, True]
    assert table.pit_in.tolist() == [False, False, True, False]
    rows.loc[3, "Time"] = pd.NaT  # nothing after it says when it ended
    assert lap_table(rows).number.tolist() == [1, 2, 3]


# --- failures of the feed ------------------------------------------------------------------------------------------


def _source_raising(error):
    """Return a session whose load failed silently: reading the laps raises."""

    def laps(session):
        raise error

    source = feed_session()
    del source.laps
    return type("Unloaded", (type(source),), {"laps": property(laps)})(**vars(source))


def test_missing_laps_are_reported(served):
    with raises(Reason.NO_LAPS, "Ring Grand Prix 2024, Race", "no laps", "Try again later"):
        served(session=_source_raising(KeyError("1")))


def test_missing_positions_are_reported(served):
    late = feed_session()
    for table in late.pos_data.values():
        table["SessionTime"] += pd.Timedelta(1, unit="h")
    for source in (feed_session(pos_data={}), late):
        with raises(Reason.NO_POSITION, "no car positions during its laps"):
            served(session=source)


def test_network_errors_precede_account_errors(served, log):
    def failing(load_error):
        source = _source_raising(DataNotLoadedError())

        def load(**wanted):
            logger = logging.getLogger("fastf1.test")
            logger.warning("Failed to authenticate with Formula 1 account, continuing without authentication: none")
            if load_error is not None:
                try:
                    raise load_error
                except requests.RequestException:
                    logger.debug("Traceback for failure", exc_info=True)

        source.load = load
        return source

    with raises(Reason.NO_NETWORK, "cannot be reached", "or open a simulated race."):
        served(session=failing(requests.ConnectionError("nobody there")))
    with raises(Reason.ACCOUNT, "Set the environment variables F1_USERNAME and F1_PASSWORD"):
        served(session=failing(None))
    # the results service is another one than the timing service
    elsewhere = requests.Request("GET", "https://api.jolpi.ca/ergast/f1/2024/1/results.json").prepare()
    with raises(Reason.ACCOUNT):
        served(session=failing(requests.ConnectionError("down", request=elsewhere)))


def test_refused_account_hides_the_password(served, log, monkeypatch):
    monkeypatch.setenv("F1_USERNAME", "someone@example.org")
    monkeypatch.setenv("F1_PASSWORD", "a-secret")
    log.sign_in_failed = True
    with raises(Reason.ACCOUNT, "refused the one in F1_USERNAME and F1_PASSWORD") as info:
        served(session=_source_raising(DataNotLoadedError()))
    assert "a-secret" not in str(info.value)
    assert "someone" not in str(info.value)


def test_rate_limit_is_reported(served, monkeypatch, log):
    def limited(*args, **wanted):
        raise RateLimitExceededError("any API: 500 calls/h")

    with raises(Reason.RATE_LIMIT, "500 calls/h", "Wait an hour"):
        served(session=feed_session(load=limited))
    monkeypatch.setattr(feed, "get_event_schedule", limited)
    with raises(Reason.RATE_LIMIT, "2024 calendar"):
        feed.fetch_schedule(2024, log)


def test_system_exit_of_fastf1_is_reported(served):
    def stop(**wanted):
        raise SystemExit

    with raises(Reason.NO_LAPS, "empty answer"):
        served(session=feed_session(load=stop))


def test_stored_downloads_are_tried_first(served, monkeypatch):
    asked = []
    monkeypatch.setattr(Cache, "offline_mode", lambda offline: asked.append(offline))
    served()
    assert set(asked) == {True}
    asked.clear()
    source = feed_session()
    working, source.laps = source.laps, source.laps.iloc[:0]

    def load(**wanted):
        source.laps = source.laps if asked[-1] else working

    source.load = load
    assert served(session=source).driver("AAA").time.size > 0
    assert False in asked


# --- the result ------------------------------------------------------------------------------------------------------
def _results(**columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"Abbreviation": ["PIA", "LEC", "GAS", "NOR"], **columns})


def test_disqualified_drivers_are_last():
    results = _results(ClassifiedPosition=["1", "D", "D", "2"])
    assert in_order_of_result(results)["Abbreviation"].tolist() == ["PIA", "NOR", "LEC", "GAS"]
    assert remarks_on_result(results) == ["Disqualified: LEC, GAS."]


def test_retired_drivers_follow_the_classified():
    results = _results(ClassifiedPosition=["R", "2", "W", "1"])
    assert in_order_of_result(results)["Abbreviation"].tolist() == ["NOR", "LEC", "PIA", "GAS"]
    assert remarks_on_result(results) == []


# --- invalid answers ------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("Expecting value"), ZeroDivisionError("x")])
def test_garbage_from_the_feed_is_reported(served, error):
    def fail(**wanted):
        raise error

    with raises(Reason.NO_LAPS, "makes no sense", type(error).__name__, "Try again later"):
        served(session=feed_session(load=fail))


def test_unknown_compound_is_no_compound():
    rows = feed_laps("1", 4).assign(Compound=["SOFT", "None", "TEST_UNKNOWN", None])
    assert lap_table(rows).compound == ("SOFT", "", "", "")
