"""Laps chosen by stint, compound, tyre age, and the parts of a qualifying session."""

from __future__ import annotations

from dataclasses import replace

import fastf1.core
import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1 import cache
from datasets.f1.extract import lap_table
from datasets.f1.lap_choice import parts_of
from datasets.formula1 import Reason
from tests.support.formula1 import feed_laps, raises, ring_driver, ring_session


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
