"""Your data, files: each is understood or refused with its reason, and its script makes the page's trials.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

from dataclasses import replace

import gdm_studio.datasets.splits
import numpy as np
import pytest
import streamlit as st

from datasets import keypoints, mice, splits, tables
from gdm_core.errors import DataError, GdmError
from pages.your_data import check, intake
from pages.your_data.intake import OpenFile, TableOptions
from pages.your_data.poses import PoseOptions, from_poses
from tests.support.your_data_page import fitted, read, waves

REPAIRS = {"min_score": 0.3, "fill_seconds": 0.2, "drop_outliers": True}
REPAIRS |= {"undo_side_flips": False, "undo_identity_swaps": False}


@pytest.fixture
def session(monkeypatch) -> dict:
    """A session's memory, outside of a server."""
    made: dict = {}
    monkeypatch.setattr(st, "session_state", made)
    return made


# ---- files --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in tables.TEMPLATES if name != "deeplabcut.csv"])
def test_each_template_is_understood_and_its_script_makes_the_same_trials(name, session, tmp_path, monkeypatch):
    file = read(name)
    assert not file.tracked
    options = TableOptions(tuple((column, str(role)) for column, role in file.content.roles.items()), fill_seconds=0.1)
    data = intake.from_table(file, options)
    assert data.label_names == ("fast", "slow")
    (tmp_path / name).write_bytes(tables.template(name))
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    for ours, theirs in ((data.train, space["train"]), (data.test, space["test"])):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.y, b.y)
            assert a.rate_hz == b.rate_hz


def test_a_tracking_file_becomes_features_with_its_labels(session):
    file = read("deeplabcut.csv")
    assert file.tracked
    options = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))
    labels = keypoints.Annotation(np.repeat([0, 1], 30), ("walk", "rest"))
    data = from_poses(file, options, labels)
    assert data.label_names == ("walk", "rest")
    assert data.train.n_samples + data.test.n_samples == 60
    assert len(data.poses) == 2
    assert from_poses(file, options).key != data.key


def test_the_script_of_a_tracking_file_reads_the_labels_beside_it(session, tmp_path, monkeypatch):
    marks = b"behaviour,start,stop\nwalk,0,1\nrest,1,2\n"
    (tmp_path / "deeplabcut.csv").write_bytes(tables.template("deeplabcut.csv"))
    (tmp_path / "bouts.csv").write_bytes(marks)
    monkeypatch.chdir(tmp_path)
    labels = keypoints.read_annotation("bouts.csv", rate_hz=30.0)
    options = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))
    data = from_poses(read("deeplabcut.csv"), options, labels, "bouts.csv")
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    for ours, theirs in ((data.train, space["train"]), (data.test, space["test"])):
        assert theirs.label_names == ours.label_names == ("rest", "walk")
        np.testing.assert_array_equal(theirs[0].labels, ours[0].labels)
        np.testing.assert_array_equal(theirs[0].y, ours[0].y)


def test_channels_that_a_fit_cannot_use_are_left_out_in_the_script_too(session, tmp_path, monkeypatch):
    rows = "\n".join(f"{t},{np.sin(t):.4f},{5 if t < 70 else t}" for t in range(100))
    content = f"time,a,late\n{rows}\n".encode()
    file = read("late.csv", content)
    data = intake.from_table(file, TableOptions(tuple((c, str(r)) for c, r in file.content.roles.items())))
    assert data.train[0].channels == ("a",)
    assert any("late" in note for note in data.notes)
    (tmp_path / "late.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    np.testing.assert_array_equal(space["test"][0].y, data.test[0].y)


def test_a_script_holds_out_what_the_page_does_whatever_share_that_is(session, tmp_path, monkeypatch):
    for module in (splits, gdm_studio.datasets.splits):  # the loaders under both of their names
        monkeypatch.setattr(module, "HELD_OUT", 0.25)
    monkeypatch.chdir(tmp_path)
    long = waves(200, 20.0)
    poses = read("deeplabcut.csv")
    made = [fitted("waves.csv", long), from_poses(poses, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))]
    (tmp_path / "waves.csv").write_bytes(long)
    (tmp_path / "deeplabcut.csv").write_bytes(tables.template("deeplabcut.csv"))
    for data, samples in zip(made, (200, 60), strict=True):
        space: dict = {}
        exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
        sizes = [sum(trial.n_samples for trial in side) for side in (space["train"], space["test"])]
        assert sizes == [data.train.n_samples, data.test.n_samples] == [0.75 * samples, 0.25 * samples]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("words.csv", b"a,b\nx,y\nz,w\n"),
        ("no.h5", b"not an hdf5 file"),
        ("no.npz", b"PK\x03\x04 broken"),
        ("no.parquet", b"PAR1"),
        ("no.xlsx", b"PK\x05\x06" + bytes(18)),
        ("what.exe", b"MZ"),
    ],
)
def test_a_bad_file_says_what_is_wrong_and_the_one_before_stays(name, content, session):
    good = read("table.csv")
    with pytest.raises(GdmError) as trouble:
        fitted(name, content)
    assert len(str(trouble.value)) > 15
    assert read("table.csv").content.frame.equals(good.content.frame)


def test_a_file_is_read_once_and_forgotten_when_it_is_taken_away(session):
    first = read("table.csv")
    assert read("table.csv") is first
    made = intake.remembered("k", lambda: "made")  # type: ignore[arg-type,return-value]
    assert made == "made"
    assert intake.remembered("k", lambda: "again") == "made"  # type: ignore[arg-type,return-value]
    intake.forget()
    assert not session


def test_roles_are_those_of_the_editor(session):
    file = read("table.csv")
    assert check.edited_roles(file)["channel 2"] == "channel"
    row = list(file.content.roles).index("channel 2")
    session[f"your-data-roles-{file.digest}"] = {"edited_rows": {row: {"role": "ignore"}}}
    roles = check.edited_roles(file)
    assert roles["channel 2"] == "ignore"
    data = intake.from_table(file, TableOptions(tuple(roles.items())))
    assert data.train[0].channels == ("channel 1",)


def test_roles_that_contradict_each_other_are_refused_with_their_names(session):
    file = read("table.csv")
    roles = check.edited_roles(file) | {"channel 1": "time"}
    with pytest.raises(GdmError, match="channel 1"):
        intake.from_table(file, TableOptions(tuple(roles.items())))


def test_a_recording_too_short_to_split_is_refused(session):
    table = mice.simulate_recordings(1, 20, seed=0)[0]
    file = OpenFile("short.npz", "d", replace(table, name="short"))
    with pytest.raises(DataError, match="at least 40"):
        from_poses(file, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))


def test_the_first_look_draws_gaps_and_flat_channels():
    y = np.column_stack([np.arange(5000.0), np.full(5000, 2.0), np.full(5000, np.nan)])
    figure = check.lines(y, ["up", "flat", "empty"])
    assert len(figure["data"]) == 2
    assert "up, flat, empty" in figure["alt"]
