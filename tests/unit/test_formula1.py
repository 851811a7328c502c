"""Formula 1 laps as trials: segments, resampling, gaps, and a real race."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from datasets import formula1
from datasets.f1.corners import braking_zones
from datasets.f1.session import ReferenceLap
from datasets.formula1 import Reason
from gdm_core.errors import ConfigError, DataError
from tests.support.formula1 import LAP_S, RADIUS, cut_off, raises, ring, ring_driver, ring_session
from tests.support.real import recorded

# --- segments ------------------------------------------------------------------------------------------------------


def test_samples_are_labelled_by_track_segment():
    session = ring_session()
    trials = formula1.to_trials(session, "AAA", step_s=None)
    assert trials.label_names == ("T1-T2", "T2-T3", "T3-T4", "T4-T1")
    turn = (ring_driver().time - 100) / LAP_S % 1
    wanted = np.floor((turn - 0.125) * 4).astype(int) % 4  # the last segment wraps over the start line
    np.testing.assert_array_equal(trials[0].labels, wanted)
    assert trials[0].labels[0] == 3
    assert trials[0].labels[-1] == 3


def test_distance_follows_the_fastest_clean_lap():
    driver = ring_driver(n_laps=3)
    seconds = np.array([30.0, 40.0, 39.0])  # the fastest lap is not accurate, the third is
    session = ring_session(replace(driver, laps=replace(driver.laps, seconds=seconds)))
    assert session.reference.length == pytest.approx(2 * np.pi * RADIUS, rel=1e-3)
    along = formula1.lap_distance(session, driver.position, driver.lap)
    np.testing.assert_allclose(along, (driver.time - 100) / LAP_S % 1 * 2 * np.pi * RADIUS, atol=1.0)
    np.testing.assert_allclose(session.reference.position_at(along), driver.position, atol=0.5)


def test_crossing_is_resolved_by_distance():
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

    assert error(lap.distance(xy)) > 1000  # position alone confuses the branches
    assert error(lap.distance(xy, np.floor(laps))) < 25


# --- trials --------------------------------------------------------------------------------------------------------


def test_samples_are_resampled_evenly():
    driver = ring_driver(step=0.37)
    trial = formula1.to_trials(ring_session(driver), "AAA", channels=("X", "Y", "gear"), standardise=False)[0]
    assert trial.rate_hz == pytest.approx(4.0)
    at = driver.time[0] + 0.25 * np.arange(trial.n_samples)
    assert driver.time[-1] - 0.25 < at[-1] <= driver.time[-1]
    np.testing.assert_allclose(trial.position, ring((at - 100) / LAP_S), atol=0.2)
    np.testing.assert_allclose(trial.y[:, :2], trial.position, atol=1e-4)
    np.testing.assert_array_equal(trial.segments, np.floor((at - 100) / LAP_S) + 1)
    assert set(np.unique(trial.y[:, 2])) == {2, 3, 4, 5}  # gears are not interpolated


def test_long_gap_splits_the_trial():
    bridged = formula1.to_trials(ring_session(ring_driver(holes=((50, 51.5),))), "AAA")
    assert len(bridged) == 1
    split = formula1.to_trials(ring_session(ring_driver(holes=((50, 53),))), "AAA")
    assert [trial.name for trial in split] == ["AAA laps 1-2", "AAA laps 2-4"]
    # nothing is interpolated across the gap
    for trial in split:
        assert np.hypot(*np.diff(trial.position, axis=0).T).max() < 2 * np.pi * RADIUS / LAP_S * 0.27
    # short pieces are dropped
    assert len(formula1.to_trials(ring_session(ring_driver(holes=((50, 53), (54, 57)))), "AAA")) == 2


def test_laps_are_dropped_by_kind_and_number():
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
    with raises(Reason.NO_LAPS, "no lap 9", "laps run from 1 to 8"):
        chosen(session, "AAA", laps=[9])
    with raises(Reason.NO_LAPS, "no lap of AAA is left", "lap 1"):
        chosen(session, "AAA", laps=[1], drop=("first",))


def test_drivers_share_scale_and_emission():
    session = ring_session(ring_driver("AAA"), ring_driver("BBB"))
    one, two = (formula1.to_trials(session, code, preset="paper")[0] for code in ("AAA", "BBB"))
    assert one.y.shape == two.y.shape == (one.n_samples, 10)
    # only the noise differs, with standard deviation 0.01
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


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"channels": ()}, "name at least one of X, Y"),
        ({"channels": ("X", "wing")}, "channels names wing; known are X, Y, speed"),
        ({"step_s": float("nan")}, "step_s is nan"),
        ({"drop": ("rain",)}, "drop names rain"),
    ],
)
def test_invalid_options_raise_config_error(wrong, words):
    with pytest.raises(ConfigError, match=words):
        formula1.to_trials(ring_session(), "AAA", **wrong)


def test_missing_channel_raises_data_error():
    with pytest.raises(DataError, match="AAA has no channel 'brake'; there are X, Y, speed, gear"):
        formula1.to_trials(ring_session(), "AAA", channels=("X", "Y", "brake"))


# --- the real race -------------------------------------------------------------------------------------------------


@pytest.fixture
def china_home(china, downloads, monkeypatch):
    cut_off(monkeypatch, downloads)
    return downloads


def test_complete_downloads_are_listed(tmp_path, monkeypatch):
    """Incomplete downloads are not listed."""
    cut_off(monkeypatch, tmp_path)
    for session, files in (("2025-03-23_Race", 3), ("2025-03-22_Qualifying", 1)):
        folder = tmp_path / "fastf1" / "2025" / "2025-03-23_Chinese_Grand_Prix" / session
        folder.mkdir(parents=True)
        for name in ("_extended_timing_data", "car_data", "position_data")[:files]:
            (folder / f"{name}.ff1pkl").touch()
    assert formula1.stored_sessions() == ((2025, "Chinese Grand Prix", "Race"),)


@pytest.mark.bulk
def test_real_race_is_complete(china):
    session, event, heard = china
    assert "Sprint" in [slot.name for slot in event.sessions]
    assert (event.round, event.location) == (2, "Shanghai")
    assert len(session.codes) == 20
    assert session.codes[:3] == ("PIA", "NOR", "RUS")
    assert session.driver("VER").time.size == 20_779
    assert all(driver.has_position for driver in session.drivers)
    assert (session.circuit, session.rotation) == ("Shanghai", 237.0)
    # The recording lacks the official classification.
    assert len(session.notes) == 1
    assert session.notes[0].startswith("Official classification unavailable")
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
def test_time_won_in_the_real_race(china):
    """Pairs by tyre age compare drivers with one and two stops better than pairs by lap number."""
    session = china[0]
    trend = formula1.lap_trend(session)
    assert trend.n_laps > 900
    assert -0.1 < trend.lap < -0.04
    assert 0.02 < trend.age < 0.06
    edges = np.linspace(0, 1, 28)
    won = {
        by: formula1.time_won(session, ("PIA", "HAM"), edges, by=by, keep_close=True)
        for by in ("tyre age", "lap number")
    }
    sure, unsure = (found.whole.error for found in won.values())
    assert 2 * sure < unsure
    assert won["tyre age"].whole.mean > 3 * sure
    numbered = formula1.time_won(session, ("PIA", "VER"), edges, by="lap number")
    official = [session.driver(code).laps.seconds for code in ("PIA", "VER")]
    gaps = [official[1][n - 1] - official[0][n - 1] for n, _ in numbered.pairs]
    assert numbered.whole.mean == pytest.approx(np.mean(gaps), abs=0.002)
    assert numbered.whole.error > 1.5 * np.std(gaps, ddof=1) / np.sqrt(len(gaps))


@pytest.mark.bulk
def test_corners_equal_published_positions(china):
    session = china[0]
    known = pd.read_csv(recorded("f1/corners_shanghai_2025.csv"))
    assert [corner.number for corner in session.corners] == known["Number"].tolist()
    np.testing.assert_allclose([[c.x, c.y] for c in session.corners], known[["X", "Y"]] / 10, atol=0.01)
    np.testing.assert_allclose([c.distance for c in session.corners], known["Distance"], atol=35)


@pytest.mark.bulk
def test_real_lap_is_labelled_as_by_hand(china):
    """Labels of lap 20 of VER change at the points nearest to each corner."""
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
    labels = formula1.segment_of(session.corners, formula1.lap_distance(session, xy, np.full(len(xy), 20)))
    assert labels[0] == labels[-1] == 15  # over the start line
    changed = np.flatnonzero(np.diff(labels)) + 1
    assert len(changed) == 16
    assert np.abs(changed - passed).max() <= 1
    assert (labels == by_hand).mean() > 0.96
    whole = formula1.segment_of(session.corners, formula1.lap_distance(session, driver.position, driver.lap))[ours]
    assert (whole[: len(xy)] == labels[: whole.size]).mean() > 0.99


@pytest.mark.bulk
def test_real_corners_come_from_a_file(downloads, tmp_path, monkeypatch):
    """Melbourne has no stored corners; a user's file gives the published ones."""
    cut_off(monkeypatch, tmp_path)
    (tmp_path / "formula1").mkdir()
    (tmp_path / "fastf1").symlink_to(downloads / "fastf1")
    published = recorded("f1/corners_melbourne_2025_qualifying.csv")
    shutil.copy(published, tmp_path / "formula1" / "corners_melbourne.csv")
    session = formula1.load_session(2025, "Australian Grand Prix", "Qualifying", offline=True)
    known = pd.read_csv(published)
    assert [corner.number for corner in session.corners] == known["Number"].tolist()
    np.testing.assert_allclose([c.distance for c in session.corners], known["Distance"], atol=45)
    zones = braking_zones(session)
    assert {session.corners[zone.corner].number for zone in zones} >= {1, 3, 6, 11, 13}


@pytest.mark.bulk
def test_session_that_is_not_stored_is_refused(china_home):
    wanted = (
        "Japanese Grand Prix 2025, Race is not stored, and the network was not asked: connect and try again, or open"
    )
    with raises(Reason.NO_NETWORK, wanted, "Chinese Grand Prix 2025, Race", "simulated race"):
        formula1.load_session(2025, "Japanese Grand Prix", "Race", offline=True)


@pytest.mark.bulk
def test_damaged_fastf1_file_is_not_used(china, china_home, tmp_path, monkeypatch):
    shutil.copytree(china_home / "fastf1", tmp_path / "fastf1")
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    damaged = next((tmp_path / "fastf1").rglob("*Chinese_Grand_Prix/*_Race/position_data.ff1pkl"))
    damaged.write_bytes(damaged.read_bytes()[:1000])
    others = {path: path.read_bytes() for path in damaged.parent.iterdir() if path != damaged}
    with raises(Reason.NO_NETWORK, "Chinese Grand Prix 2025, Race", "cannot be reached"):
        formula1.load_session(2025, "Chinese Grand Prix", "Race")
    assert {path: path.read_bytes() for path in others} == others
