"""Sessions as rows of a sheet, of which a study can ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1.season import KINDS, joined, study_rows
from gdm_core import Study
from gdm_core.errors import ConfigError, DataError
from tests.support.formula1 import ring_driver, ring_session


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
