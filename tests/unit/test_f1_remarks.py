"""What is wanting in a session or in a driver's laps is said, a sentence each, and what stands of the rest is kept."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from datasets.f1 import remarks
from datasets.f1.cache import read_session, write_session
from datasets.f1.extract import car_channels, lap_table, spells_of
from datasets.f1.qualifying import best_laps, ideal_laps, no_time
from datasets.f1.session import Spell
from tests.support.formula1 import LAP_S, feed_car, feed_laps, ring_driver, ring_session

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
