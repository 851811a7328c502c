"""Angles that jump by a full turn: found, and fitted as cosine and sine."""

import numpy as np
import pandas as pd
import pytest

from datasets import cohort_files, tables
from datasets.readers.transforms import find_turns, take_cosines
from gdm_core import ARHMM, GDM
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.errors import FitWarning
from gdm_core.maths.angles import find_angles


def turning(seed, n=2000):
    """Return headings in degrees, speeds and the state of each sample: turning left, or right and faster."""
    random = np.random.default_rng(seed)
    states = np.cumsum(random.random(n) < 0.01) % 2
    heading = np.cumsum(np.where(states, -6.0, 4.0) + random.normal(0, 1, n))
    return heading, np.where(states, 1.3, 1.0) + random.normal(0, 0.3, n), states


def write(path, heading, speed):
    pd.DataFrame({"heading": heading, "speed": speed}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("turn", "low"), [(360, 0), (360, -180), (2 * np.pi, 0), (2 * np.pi, -np.pi)], ids=["360", "180", "2pi", "pi"]
)
def test_angles_that_jump_are_found(turn, low):
    heading, speed, _ = turning(0)
    values = (np.deg2rad(heading) / (2 * np.pi) * turn - low) % turn + low
    values[::50] = np.nan
    assert find_angles([np.column_stack([values, speed])], "ab") == {"a": pytest.approx(turn)}


def test_other_channels_are_no_angles():
    random = np.random.default_rng(0)
    heading, _, states = turning(0)
    columns = {
        "continuous heading": heading,
        "noise": random.uniform(0, 360, 2000),
        "switch": np.where(states, -180.0, 180.0),
        "triangle": 360 * np.abs((np.arange(2000) / 100) % 2 - 1),
        "throttle": 100 * (heading % 360) / 360,
        "missing": np.full(2000, np.nan),
    }
    assert not find_angles([np.column_stack(list(columns.values()))], list(columns))


def test_one_jump_is_enough_for_a_named_angle():
    values = (np.linspace(0, 500, 400) % 360)[:, None]
    assert find_angles([values], ["yaw"])
    assert not find_angles([values], ["a"])


def test_a_table_fits_cosine_and_sine_of_an_angle(tmp_path):
    heading, speed, _ = turning(0)
    table = tables.read(write(tmp_path / "walk.csv", heading % 360, speed))
    assert table.report().angles == ("heading",)
    trial = table.to_trials()[0]
    assert trial.channels == ("cos heading°", "sin heading°", "speed")
    np.testing.assert_allclose(trial.y[:, 0], np.cos(np.deg2rad(heading)), atol=1e-4)
    assert table.to_trials(angles={})[0].channels == ("heading", "speed")


def test_names_of_cosines_tell_the_full_turn():
    turns = {"heading": 360.0, "yaw": 2 * np.pi}
    assert find_turns(take_cosines(np.zeros((2, 3)), ("heading", "speed", "yaw"), turns)[1]) == turns


def test_recordings_of_a_study_have_the_same_angles(tmp_path):
    heading, speed, _ = turning(0)
    write(tmp_path / "a.csv", heading % 360, speed)
    write(tmp_path / "b.csv", 90 + 20 * np.sin(heading / 50), speed)  # never jumps
    found = cohort_files.read_recordings(sorted(tmp_path.glob("*.csv")))
    assert {one.channels for one in found.values()} == {("cos heading°", "sin heading°", "speed")}


@pytest.mark.parametrize("family", [GDM, ARHMM])
def test_states_are_found_by_cosine_and_sine_only(family, tmp_path):
    heading, speed, states = turning(1)
    table = tables.read(write(tmp_path / "walk.csv", heading % 360, speed))
    model = family(n_states=2).fit(table.to_trials(), calibrate=False)
    assert matched_accuracy(model.predict(table.to_trials())[0], states) > 0.95
    with pytest.warns(FitWarning, match="full turn"):
        family(n_states=2).fit(table.to_trials(angles={}), calibrate=False)
