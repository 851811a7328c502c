"""Stints, tyre ages, and laps of two drivers on tyres alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from datasets import formula1
from datasets.f1.extract import lap_table
from datasets.f1.session import LapTable
from datasets.f1.stints import Stint, laps_on_like_tyres, stints
from tests.support.formula1 import feed_laps, ring_driver


def _laps(compounds: str, ages: list[float]) -> LapTable:
    """Laps from 1 on, a new stint wherever the age falls."""
    laps = ring_driver(n_laps=len(ages)).laps
    stint = 1 + np.cumsum(np.diff(ages, prepend=0.0) < 0)
    return replace(laps, compound=tuple(compounds), stint=stint, tyre_age=np.array(ages))


def test_what_the_feed_says_of_tyres_is_read_and_what_it_leaves_out_stays_unknown():
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


def test_laps_are_paired_by_compound_and_age_and_each_is_used_once():
    one = _laps("MMMHHH", [1, 2, 3, 1, 2, 3])
    other = _laps("MMHHHH", [2, 3, 1, 2, 3, 4])
    every = range(1, 7)
    assert laps_on_like_tyres(one, other, every, every) == ((2, 1), (3, 2), (4, 3), (5, 4), (6, 5))
    assert laps_on_like_tyres(one, other, [2, 6], [1, 2]) == ((2, 1),)
    twice = _laps("HHHHHH", [1, 2, 3, 1, 2, 3])  # two sets of one compound: the lap nearest in number
    assert laps_on_like_tyres(one, twice, every, every) == ((4, 4), (5, 5), (6, 6))
    unknown = replace(other, tyre_age=np.full(6, np.nan))
    assert laps_on_like_tyres(one, unknown, every, every) == ()
    unnamed = replace(other, compound=("",) * 6)
    assert laps_on_like_tyres(unnamed, unnamed, every, every) == ()


def test_simulated_tyres_grow_older_until_the_stop():
    (driver,) = formula1.simulate_race("shanghai", drivers=1).drivers
    laps, found = driver.laps, stints(driver.laps)
    assert [stint.last for stint in found[:-1]] == laps.number[laps.pit_in].tolist()
    assert [stint.age for stint in found] == [1.0] * len(found)
    assert len({stint.compound for stint in found}) == len(found)
    assert laps.tyre_age[found[0].last - 1] == found[0].last
