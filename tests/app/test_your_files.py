"""Your data, files: each is understood or refused with its reason, and its script makes the page's trials.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

from dataclasses import replace

import gdm_studio.datasets.splits
import numpy as np
import pytest

from datasets import keypoints, mice, splits, tables
from gdm_core.errors import DataError, GdmError
from pages.your_data import check, intake
from pages.your_data.intake import OpenFile, TableOptions
from pages.your_data.poses import PoseOptions, from_poses
from tests.support.scripts import same_from_script
from tests.support.your_data_page import REPAIRS, fitted, read, waves


# ---- files --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in tables.TEMPLATES if name != "deeplabcut.csv"])
def test_each_template_is_understood_and_its_script_makes_the_same_trials(name, session):
    file = read(name)
    assert not file.tracked
    options = TableOptions(tuple((column, str(role)) for column, role in file.content.roles.items()), fill_seconds=0.1)
    data = intake.from_table(file, options)
    assert data.label_names == ("fast", "slow")
    made = same_from_script(data, {name: tables.template(name)})
    for ours, theirs in zip((data.train, data.test), made, strict=True):
        assert [trial.rate_hz for trial in ours] == [trial.rate_hz for trial in theirs]


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


def test_the_script_of_a_tracking_file_reads_the_labels_beside_it(session):
    marks = b"behaviour,start,stop\nwalk,0,1\nrest,1,2\n"
    labels = keypoints.read_annotation(marks, rate_hz=30.0, name="bouts.csv")
    options = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))
    data = from_poses(read("deeplabcut.csv"), options, labels, "bouts.csv")
    made = same_from_script(data, {"deeplabcut.csv": tables.template("deeplabcut.csv"), "bouts.csv": marks})
    for ours, theirs in zip((data.train, data.test), made, strict=True):
        assert theirs.label_names == ours.label_names == ("rest", "walk")
        np.testing.assert_array_equal(theirs[0].labels, ours[0].labels)


def test_channels_that_a_fit_cannot_use_are_left_out_in_the_script_too(session):
    rows = "\n".join(f"{t},{np.sin(t):.4f},{5 if t < 70 else t}" for t in range(100))
    content = f"time,a,late\n{rows}\n".encode()
    file = read("late.csv", content)
    data = intake.from_table(file, TableOptions(tuple((c, str(r)) for c, r in file.content.roles.items())))
    assert data.train[0].channels == ("a",)
    assert any("late" in note for note in data.notes)
    same_from_script(data, {"late.csv": content})


def test_a_script_holds_out_what_the_page_does_whatever_share_that_is(session, monkeypatch):
    for module in (splits, gdm_studio.datasets.splits):  # the loaders under both of their names
        monkeypatch.setattr(module, "HELD_OUT", 0.25)
    long = waves(200, 20.0)
    poses = read("deeplabcut.csv")
    made = [fitted("waves.csv", long), from_poses(poses, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))]
    files = {"waves.csv": long, "deeplabcut.csv": tables.template("deeplabcut.csv")}
    for data, samples in zip(made, (200, 60), strict=True):
        sizes = [sum(trial.n_samples for trial in side) for side in same_from_script(data, files)]
        assert sizes == [data.train.n_samples, data.test.n_samples] == [0.75 * samples, 0.25 * samples]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("words.csv", b"a,b\nx,y\nz,w\n"),
        ("no.h5", b"not an hdf5 file"),
    ],
)
def test_a_bad_file_says_what_is_wrong_and_the_one_before_stays(name, content, session):
    """Which files are refused: tests/unit/test_tables.py and test_keypoints.py."""
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
