"""Formula 1 laps as trials: segments, resampling, holes, and the real Chinese Grand Prix of 2025."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1.track import ReferenceLap
from datasets.formula1 import Reason
from gdm_core.errors import ConfigError, DataError
from tests.support.formula1 import LAP_S, RADIUS, cut_off, raises, ring, ring_driver, ring_session
from tests.support.real import recorded

ROOT = Path(__file__).resolve().parents[2]


# --- segments ------------------------------------------------------------------------------------------------------


def test_each_sample_belongs_to_the_segment_between_two_corners():
    session = ring_session()
    trials = formula1.to_trials(session, "AAA", step_s=None)
    assert trials.label_names == ("T1-T2", "T2-T3", "T3-T4", "T4-T1")
    turn = (ring_driver().time - 100) / LAP_S % 1
    wanted = np.floor((turn - 0.125) * 4).astype(int) % 4  # the last segment wraps over the start line
    np.testing.assert_array_equal(trials[0].labels, wanted)
    assert trials[0].labels[0] == 3
    assert trials[0].labels[-1] == 3


def test_distance_along_the_lap_is_measured_on_the_fastest_clean_lap():
    driver = ring_driver(n_laps=3)
    seconds = np.array([30.0, 40.0, 39.0])  # the fastest lap is not accurate, the third is
    session = ring_session(replace(driver, laps=replace(driver.laps, seconds=seconds)))
    assert session.reference.length == pytest.approx(2 * np.pi * RADIUS, rel=1e-3)
    along = formula1.lap_distance(session, driver.position, driver.lap)
    np.testing.assert_allclose(along, (driver.time - 100) / LAP_S % 1 * 2 * np.pi * RADIUS, atol=1.0)
    np.testing.assert_allclose(session.reference.at(along), driver.position, atol=0.5)


def test_a_crossing_is_told_apart_by_the_distance_travelled():
    turn = np.linspace(0, 1, 400, endpoint=False)
    eight = 500 * np.column_stack([np.sin(2 * np.pi * turn), np.sin(4 * np.pi * turn) / 2])  # crosses itself at 0.5
    lap = ReferenceLap.from_points(eight)
    fine = np.linspace(0, 1, 20001)
    curve = 500 * np.column_stack([np.sin(2 * np.pi * fine), np.sin(4 * np.pi * fine) / 2])
    odometer = np.append(0.0, np.cumsum(np.hypot(*np.diff(curve, axis=0).T)))
    laps = np.arange(0.0, 40.0, 1 / 150.3)  # 150 samples a lap, each lap a little further on
    scatter = np.random.default_rng(0).normal(0, 3, (laps.size, 2))
    xy = 500 * np.column_stack([np.sin(2 * np.pi * laps), np.sin(4 * np.pi * laps) / 2]) + scatter
    truth = np.interp(laps % 1, fine, odometer) * lap.length / odometer[-1]

    def error(along):
        return np.abs((along - truth + lap.length / 2) % lap.length - lap.length / 2).max()

    assert error(lap.distance(xy)) > 1000  # by place alone the two branches are mixed up
    assert error(lap.distance(xy, np.floor(laps))) < 25


def test_a_standing_car_is_no_reference_lap():
    with pytest.raises(DataError, match="that is no lap"):
        ReferenceLap.from_points(np.zeros((50, 2)))
    with pytest.raises(DataError, match="finite"):
        ReferenceLap.from_points(ring(np.linspace(0, 1, 50))).distance([[np.nan, 0.0]])
    driver = ring_driver()
    untimed = replace(driver, laps=replace(driver.laps, seconds=np.full(4, np.nan)))
    with raises(Reason.NO_LAPS, "no driver has a complete timed lap"):
        formula1.to_trials(ring_session(untimed), "AAA")


# --- trials --------------------------------------------------------------------------------------------------------


def test_samples_come_at_even_steps_and_on_the_road():
    driver = ring_driver(step=0.37)
    trial = formula1.to_trials(ring_session(driver), "AAA", channels=("X", "Y", "gear"), standardise=False)[0]
    assert trial.rate_hz == pytest.approx(4.0)
    at = driver.time[0] + 0.25 * np.arange(trial.n_samples)
    assert driver.time[-1] - 0.25 < at[-1] <= driver.time[-1]
    np.testing.assert_allclose(trial.position, ring((at - 100) / LAP_S), atol=0.2)
    np.testing.assert_allclose(trial.y[:, :2], trial.position, atol=1e-4)
    np.testing.assert_array_equal(trial.segments, np.floor((at - 100) / LAP_S) + 1)
    assert set(np.unique(trial.y[:, 2])) == {2, 3, 4, 5}  # a gear is held, never in between


def test_raw_samples_are_the_feeds_own():
    driver = ring_driver(step=0.37)
    trial = formula1.to_trials(ring_session(driver), "AAA", step_s=None)[0]
    np.testing.assert_array_equal(trial.position, driver.position)
    assert trial.rate_hz == pytest.approx(1 / 0.37)


def test_a_hole_of_more_than_two_seconds_ends_a_trial():
    bridged = formula1.to_trials(ring_session(ring_driver(holes=((50, 51.5),))), "AAA")
    assert len(bridged) == 1
    split = formula1.to_trials(ring_session(ring_driver(holes=((50, 53),))), "AAA")
    assert [trial.name for trial in split] == ["AAA laps 1-2", "AAA laps 2-4"]
    # nothing is made up across the hole: two samples are never further apart than a quarter of a second's drive
    for trial in split:
        assert np.hypot(*np.diff(trial.position, axis=0).T).max() < 2 * np.pi * RADIUS / LAP_S * 0.27
    # stretches too short to be of use are left out
    assert len(formula1.to_trials(ring_session(ring_driver(holes=((50, 53), (54, 57)))), "AAA")) == 2


def test_laps_are_dropped_by_kind_and_by_choice():
    driver = ring_driver(n_laps=8)
    laps = replace(
        driver.laps,
        pit_in=driver.laps.number == 3,
        pit_out=driver.laps.number == 4,
        neutralised=np.isin(driver.laps.number, (6,)),
    )
    session = ring_session(replace(driver, laps=laps))
    chosen = formula1.chosen_laps
    assert chosen(session, "AAA") == tuple(range(1, 9))
    assert chosen(session, "AAA", drop=("pit",)) == (1, 2, 5, 6, 7, 8)
    assert chosen(session, "AAA", drop=("first", "pit", "safety_car")) == (2, 5, 7, 8)
    assert chosen(session, "AAA", laps=range(1, 4), drop=("first",)) == (2, 3)
    trials = formula1.to_trials(session, "AAA", drop=formula1.DROPS)
    assert [np.unique(trial.segments).tolist() for trial in trials] == [[2], [5], [7, 8]]
    kinds = [(lap.first, lap.pit, lap.safety_car) for lap in formula1.lap_list(session, "AAA")]
    assert [sum(kind) for kind in zip(*kinds, strict=True)] == [1, 2, 1]
    with raises(Reason.NO_LAPS, "no lap 9", "laps run from 1 to 8"):
        chosen(session, "AAA", laps=[9])
    with raises(Reason.NO_LAPS, "no lap of AAA is left", "lap 1"):
        chosen(session, "AAA", laps=[1], drop=("first",))


def test_two_drivers_share_one_scale_and_one_emission():
    session = ring_session(ring_driver("AAA"), ring_driver("BBB"))
    one, two = (formula1.to_trials(session, code, preset="paper")[0] for code in ("AAA", "BBB"))
    assert one.y.shape == two.y.shape == (one.n_samples, 10)
    # both drove the same: what differs is the noise, of standard deviation 0.01 each
    difference = one.y - two.y
    assert difference.std() == pytest.approx(0.01 * np.sqrt(2), rel=0.05)
    clean = (one.position - 0) / np.array([session.scaling[name][1] for name in "XY"]) @ formula1.paper_emission().T
    centre = (
        np.array([session.scaling[name][0] / session.scaling[name][1] for name in "XY"]) @ formula1.paper_emission().T
    )
    assert (one.y - clean + centre).std() == pytest.approx(0.01, rel=0.05)
    again = formula1.to_trials(session, "AAA", preset="paper")
    assert again[0].fingerprint == one.fingerprint
    assert formula1.to_trials(session, "AAA", preset="paper", emission_seed=1)[0].fingerprint != one.fingerprint
    assert formula1.to_trials(session, "AAA", preset="paper", noise_seed=1)[0].fingerprint != one.fingerprint


def test_the_paper_observes_x_and_y_with_unit_spread():
    session = ring_session(ring_driver(n_laps=9))
    y = formula1.to_trials(session, "AAA", drop=("first",), standardise=True)[0].y
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(y.std(axis=0), 1, atol=0.01)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"preset": "papr"}, "preset is 'papr'"),
        ({"channels": ()}, "name at least one of X, Y"),
        ({"channels": ("X", "X")}, "each once"),
        ({"channels": ("X", "wing")}, "channels names wing; known are X, Y, speed"),
        ({"step_s": 0.0}, "step_s is 0.0"),
        ({"step_s": float("nan")}, "step_s is nan"),
        ({"drop": ("rain",)}, "drop names rain"),
    ],
)
def test_wrong_wishes_are_refused(wrong, words):
    with pytest.raises(ConfigError, match=words):
        formula1.to_trials(ring_session(), "AAA", **wrong)


def test_a_channel_that_was_never_sent_is_refused():
    with pytest.raises(DataError, match="AAA has no channel 'brake'; there are X, Y, speed, gear"):
        formula1.to_trials(ring_session(), "AAA", channels=("X", "Y", "brake"))


def test_loading_formula1_brings_in_neither_torch_nor_fastf1():
    check = "import sys; from datasets import formula1; sys.exit(any(m in sys.modules for m in ('torch', 'fastf1', 'streamlit')))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


# --- the real race -------------------------------------------------------------------------------------------------


@pytest.fixture
def china_home(china, downloads, monkeypatch):
    cut_off(monkeypatch, downloads)
    return downloads


def test_what_was_downloaded_is_stored(tmp_path, monkeypatch):
    """FastF1's own downloads open without a network, whoever made them; half of one does not."""
    cut_off(monkeypatch, tmp_path)
    for session, files in (("2025-03-23_Race", 3), ("2025-03-22_Qualifying", 1)):
        folder = tmp_path / "fastf1" / "2025" / "2025-03-23_Chinese_Grand_Prix" / session
        folder.mkdir(parents=True)
        for name in ("_extended_timing_data", "car_data", "position_data")[:files]:
            (folder / f"{name}.ff1pkl").touch()
    assert formula1.stored_sessions() == ((2025, "Chinese Grand Prix", "Race"),)


@pytest.mark.bulk
def test_the_real_race_is_whole(china):
    session, event, heard = china
    assert "Sprint" in [slot.name for slot in event.sessions]
    assert (event.round, event.location) == (2, "Shanghai")
    assert len(session.codes) == 20
    assert session.codes[:3] == ("PIA", "NOR", "RUS")
    assert session.driver("VER").time.size == 20_779
    assert all(driver.has_position for driver in session.drivers)
    assert (session.circuit, session.circuit_key, session.rotation) == ("Shanghai", "49", 237.0)
    # What was recorded of this race holds everything but the classification.
    assert len(session.notes) == 1
    assert session.notes[0].startswith("The official classification could not be fetched")
    assert session.driver("VER").laps.number[session.driver("VER").laps.pit_in].tolist() == [13]
    assert session.driver("ALO").laps.number[-1] == 4  # retired
    first, second = formula1.stints(session.driver("VER").laps)
    assert (first.compound, first.first, first.last, first.age) == ("MEDIUM", 1, 13, 1.0)
    assert (second.compound, second.first, second.last, second.age) == ("HARD", 14, 56, 1.0)
    assert session.driver("VER").available_channels == formula1.CHANNELS
    shares = [share for share, _ in heard]
    assert shares == sorted(shares)
    assert (shares[-1], heard[-1][1]) == (1.0, "ready")
    assert "reading positions" in [text for _, text in heard]


@pytest.mark.bulk
def test_where_time_is_won_in_the_real_race(china):
    """By tyres, a driver of one stop and one of two can be compared: by number, the tyres hide who is faster."""
    session = china[0]
    trend = formula1.lap_trend(session)
    assert trend.n_laps > 900
    assert -0.1 < trend.lap < -0.04, "fuel and track make every lap faster"
    assert 0.02 < trend.age < 0.06, "tyres make it slower"
    edges = np.linspace(0, 1, 28)
    won = {by: formula1.time_won(session, ("PIA", "HAM"), edges, by=by) for by in ("tyre age", "lap number")}
    sure, unsure = (found.whole[1] for found in won.values())
    assert 2 * sure < unsure
    mean, error = won["tyre age"].whole
    assert mean > 3 * error
    numbered = formula1.time_won(session, ("PIA", "VER"), edges, by="lap number")
    official = [session.driver(code).laps.seconds for code in ("PIA", "VER")]
    gaps = [official[1][n - 1] - official[0][n - 1] for n, _ in numbered.pairs]
    assert numbered.whole[0] == pytest.approx(np.mean(gaps), abs=0.002)
    assert numbered.whole[1] > 1.5 * np.std(gaps, ddof=1) / np.sqrt(len(gaps)), "neighbouring laps are alike"


@pytest.mark.bulk
def test_the_corners_lie_where_others_measured_them(china):
    session = china[0]
    known = pd.read_csv(recorded("f1/corners_shanghai_2025.csv"))
    assert [corner.number for corner in session.corners] == known["Number"].tolist()
    np.testing.assert_allclose([[c.x, c.y] for c in session.corners], known[["X", "Y"]] / 10, atol=0.01)
    np.testing.assert_allclose([c.distance for c in session.corners], known["Distance"], atol=35)


@pytest.mark.bulk
def test_one_lap_is_labelled_as_by_hand(china):
    """Lap 20 of VER: the label must change where the car is nearest to each corner, found here corner by corner."""
    session = china[0]
    raw = pd.read_parquet(recorded("f1/pos_shanghai_2025_race.parquet"))
    raw = raw[(raw["driver"] == "VER") & (raw["lap"] == 20)]
    xy = raw[["x", "y"]].to_numpy() / 10
    driver = session.driver("VER")
    ours = driver.lap == 20
    assert abs(int(ours.sum()) - len(xy)) <= 1  # the sample at the line may belong to either lap
    corners = pd.read_csv(recorded("f1/corners_shanghai_2025.csv"))
    passed = [int(np.hypot(*(xy - place / 10).T).argmin()) for place in corners[["X", "Y"]].to_numpy()]
    assert passed == sorted(passed)
    by_hand = (np.searchsorted(passed, np.arange(len(xy)), side="right") - 1) % 16
    labels = formula1.segment_labels(session, xy, np.full(len(xy), 20))
    assert labels[0] == labels[-1] == 15  # over the start line
    changed = np.flatnonzero(np.diff(labels)) + 1
    assert len(changed) == 16
    assert np.abs(changed - passed).max() <= 1
    assert (labels == by_hand).mean() > 0.96
    whole = formula1.segment_labels(session, driver.position, driver.lap)[ours]
    assert (whole[: len(xy)] == labels[: whole.size]).mean() > 0.99


@pytest.mark.bulk
def test_every_driver_passes_every_segment_in_order(china):
    session = china[0]
    for code in ("VER", "PIA", "HUL"):
        labels = formula1.to_trials(session, code, drop=formula1.DROPS, preset="paper")[0].labels
        steps = np.diff(labels) % 16
        assert np.isin(steps, (0, 1)).mean() > 0.999
        assert np.unique(labels).size == 16


@pytest.mark.bulk
def test_a_race_that_was_opened_before_stays_small(china, china_home):
    """Reloaded arrays, the trials of a driver, and what both cost a server that is already running."""
    script = """
from datasets import formula1
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
idle = resident()
session = formula1.load_session(2025, "Chinese Grand Prix", "Race")
formula1.to_trials(session, "VER", preset="paper")
print(resident() - idle, session.driver("VER").time.size)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not tell a process its own memory in /proc")
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    megabytes, samples = answer.stdout.split()
    assert int(samples) == 20_779
    assert float(megabytes) < 150


@pytest.mark.bulk
def test_a_damaged_copy_of_the_race_is_fetched_again(china, china_home):
    path = next((china_home / "formula1").glob("2025_chinese-*.npz"))
    others = {p: p.stat().st_mtime_ns for p in (china_home / "fastf1").rglob("*.ff1pkl")}
    sound = path.read_bytes()
    path.write_bytes(sound[: len(sound) // 2])
    session = formula1.load_session(2025, "Chinese Grand Prix", "Race")
    assert session.driver("VER").time.size == 20_779
    assert "damaged and has been moved to 2025_chinese-grand-prix_race.npz.damaged" in session.notes[0]
    assert path.with_name(path.name + ".damaged").stat().st_size == len(sound) // 2
    assert {p: p.stat().st_mtime_ns for p in (china_home / "fastf1").rglob("*.ff1pkl")} == others


@pytest.mark.bulk
def test_a_damaged_fastf1_file_is_moved_aside_and_nothing_else_is_lost(china, china_home, tmp_path, monkeypatch):
    shutil.copytree(china_home / "fastf1", tmp_path / "fastf1")
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    damaged = next((tmp_path / "fastf1").rglob("*Chinese_Grand_Prix/*_Race/position_data.ff1pkl"))
    damaged.write_bytes(damaged.read_bytes()[:1000])
    others = {path: path.read_bytes() for path in damaged.parent.iterdir() if path != damaged}
    with raises(Reason.NO_NETWORK, "Chinese Grand Prix 2025, Race", "cannot be reached"):
        formula1.load_session(2025, "Chinese Grand Prix", "Race")
    assert damaged.with_name("position_data.ff1pkl.damaged").stat().st_size == 1000
    assert {path: path.read_bytes() for path in others} == others
