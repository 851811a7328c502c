"""Your data, files: each is understood or refused with its reason, and its script makes the page's trials. Of tracked animals,
parts and animals are renamed or left out, and what is wrong is shown before the fit.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import io
from dataclasses import replace
from html import unescape

import gdm_studio.datasets.splits
import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, mice, splits, tables
from gdm_core.errors import DataError, GdmError
from gdm_studio.plot.figures.base import untyped
from pages.your_data import check, intake, poses
from pages.your_data.intake import OpenFile, TableOptions
from pages.your_data.poses import PoseOptions, chosen, from_poses
from tests.support.controls import control
from tests.support.drawn import record
from tests.support.scripts import same_from_script
from tests.support.table_files import npz
from tests.support.your_data_page import REPAIRS, fitted, html, read, uploaded, waves


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


# ---- poses ----------------------------------------------------------------------------------------------------------
PLAIN = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))


def pair(n: int = 200) -> keypoints.KeypointTable:
    return replace(mice.simulate_recordings(1, n, seed=2)[0], simulated=False)


def flat_csv(n: int = 120) -> bytes:
    """Two mice of three parts as a plain table, 25 frames a second."""
    table = pair(n)
    columns = {"time": np.arange(n) / 25}
    for a, animal in enumerate(("mouse1", "mouse2")):
        for p, part in enumerate(("nose", "neck", "tail")):
            for axis, values in zip("xy", np.asarray(table.xy)[:, a, :, 2 * p].T, strict=True):
                columns[f"{animal}_{part}_{axis}"] = values
    return pd.DataFrame(columns).to_csv(index=False).encode()


# ---- leaving out and renaming -------------------------------------------------------------------------------------
def test_the_editor_says_what_is_kept_and_under_which_name(session):
    table = pair()
    file = OpenFile("pair.npz", "d", table)
    everything = poses.edited_names(file)
    assert everything == (tuple(enumerate(table.animals)), tuple(enumerate(table.parts)))
    rows = {0: {"name": " resident "}, 1: {"use": False}, 2: {"name": ""}, 2 + 1: {"use": False}}
    session[f"your-data-parts-{file.digest}"] = {"edited_rows": rows}
    animals, parts = poses.edited_names(file)
    assert animals == ((0, "resident"),)
    assert parts == tuple((i, name) for i, name in enumerate(table.parts) if i != 1)


def test_what_is_left_out_is_gone_and_skeletons_join_what_is_left():
    table = pair()
    options = replace(PLAIN, animals=((1, "guest"),), parts=((0, "tip"), (3, table.parts[3]), (6, "rear")))
    made = chosen(table, options)
    assert (made.animals, made.parts) == (("guest",), ("tip", table.parts[3], "rear"))
    np.testing.assert_array_equal(made.xy[:, 0, :, 2], np.asarray(table.xy)[:, 1, :, 6])
    np.testing.assert_array_equal(made.scores[:, 0, 1], np.asarray(table.scores)[:, 1, 3])
    old = {(0, 0), (3, 1), (6, 2)}
    kept = {(dict(old)[i], dict(old)[j]) for i, j in table.edges if {i, j} <= {0, 3, 6}}
    assert set(made.edges) == kept
    assert chosen(table, PLAIN).parts == table.parts


def test_two_parts_of_one_name_are_refused():
    table = pair()
    with pytest.raises(DataError, match="Two parts are called 'nose'"):
        chosen(table, replace(PLAIN, parts=((0, "nose"), (1, "nose"))))


@pytest.mark.parametrize("features", ["egocentric", "keypoints"])
def test_the_script_leaves_out_and_renames_the_same(session, features):
    table = pair()
    content = npz(keypoints=table.xy, scores=table.scores, parts=np.array(table.parts))
    file = read("pair.npz", content)
    options = replace(PLAIN, features=features, animals=((0, "one"),), parts=((0, "nose"), (3, "neck"), (6, "tail")))
    data = from_poses(file, options)
    assert len(data.poses[0].parts) == 3
    same_from_script(data, {"pair.npz": content})


def test_nothing_left_cannot_be_fitted_and_says_so(engine, monkeypatch):
    monkeypatch.setattr(poses, "edited_names", lambda file: ((), ((0, "nose"),)))
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert "at least one animal" in html(app)
    assert app.button(key="fit").disabled


# ---- what is wrong ------------------------------------------------------------------------------------------------
def test_each_problem_is_found_where_it_is():
    table = pair(400)
    xy, scores = np.array(table.xy), np.array(table.scores)
    xy[50:90, 0, :, 2] = np.nan
    scores[100:150, 1, 4] = 0.1
    xy[200, 1, :, 0] += 400
    codes = poses.problems_in(replace(table, xy=xy, scores=scores), 0.3)
    assert (codes[50:90, 0, 2] == 1).all()
    assert (codes[100:150, 1, 4] == 2).all()
    assert codes[200, 1, 0] == 3
    assert (poses.problems_in(replace(table, xy=xy, scores=scores), 0.0)[100:150, 1, 4] != 2).all()
    figure = poses.problem_picture(codes, table)
    cells = untyped(figure["data"][0]["z"])
    assert cells.shape == (14, 200)
    assert (cells[2, 25:45] == 1 + 0 * 3 + 2).all(), "not tracked at all, in its strongest colour"
    assert (cells[7 + 4, 50:75] == 1 + 1 * 3 + 2).all()
    assert cells[7, 100] in (1 + 2 * 3 + 1, 1 + 2 * 3 + 2)
    assert "not tracked" in figure["alt"]
    assert list(poses.problem_shares(codes)) == [
        word for kind, (word, _) in poses.KINDS.items() if (codes == kind).any()
    ]


def test_problems_are_drawn_before_the_fit_and_flawless_poses_have_no_picture(engine):
    table = pair(120)
    xy = np.array(table.xy)
    xy[40:80, 0, :, 1] = np.nan
    app = uploaded("bad.npz", npz(keypoints=xy))
    assert 'aria-label="Problems"' in html(app)
    still = np.array(table.xy)
    still[:] = still[:1]
    assert 'aria-label="Problems"' not in html(uploaded("good.npz", npz(keypoints=still)))


# ---- rate, start --------------------------------------------------------------------------------------------------
def test_a_rate_that_was_set_is_not_said_to_be_assumed(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert "30 Hz is assumed" in html(app)
    control(app, "number_input", "fps").set_value(25.0).run()
    assert "is assumed" not in html(app)


def test_tracking_files_start_with_places_and_with_what_was_announced(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    said = html(app)
    app.button(key="fit").click().run()
    config = next(job.work.config for job in engine.jobs if job.slot == "main")
    assert config["posterior"] == "linear"
    assert f"K {config['n_states']} and D {config['n_latent']}" in said
    assert html(app).count("What was understood") <= 1


# ---- plain tables of parts ----------------------------------------------------------------------------------------
def test_a_table_of_parts_is_read_as_keypoints_unless_told_otherwise(engine):
    app = uploaded("flat.csv", flat_csv())
    assert control(app, "toggle", "posed").value
    assert control(app, "number_input", "fps").value == pytest.approx(25)
    assert "Animals and parts" in html(app)
    app.button(key="fit").click().run()
    assert "2 animals" in html(app)
    control(app, "toggle", "posed").set_value(False).run()
    assert "What the columns are for" in html(app)


def test_a_table_without_parts_is_not_asked_about(engine):
    app = uploaded("table.csv", tables.template("table.csv"))
    assert not [toggle for toggle in app.toggle if toggle.label in ("Read as keypoints", "Explain positions too")]


@pytest.mark.parametrize("every", [1, 3])
def test_the_script_of_a_table_of_parts_makes_the_same_trials(session, every):
    content = flat_csv(300)
    session[intake.every_key(intake.digest_of(io.BytesIO(content)))] = every
    file = intake.as_poses(read("flat.csv", content))
    data = from_poses(file, replace(PLAIN, rate_hz=25 / every))
    same_from_script(data, {"flat.csv": content})
    assert len(data.train[0].y) == int(0.6 * 300 / every)


def cohort_csv(n: int = 90) -> bytes:
    """The same three times over: three recordings of one animal each, two of them of one group."""
    one = pd.read_csv(io.BytesIO(flat_csv(n)))
    parts = [one.assign(recording=f"r{i}", animal=f"m{i}", group="ab"[i // 2]) for i in range(3)]
    return pd.concat(parts).to_csv(index=False).encode()


@pytest.mark.parametrize("apart", [True, False])
def test_recordings_in_one_table_are_trials_unless_they_are_to_be_one_and_the_script_does_the_same(session, apart):
    file = intake.as_poses(read("cohort.csv", cohort_csv()))
    data = from_poses(file, replace(PLAIN, apart=apart, rate_hz=25.0))
    names = [f"recording r{i}" for i in range(3)] if apart else ["first 60 %", "last 40 %"]
    assert [trial.name for trial in data.trials] == names
    assert ("3 recordings" in data.about) == apart
    same_from_script(data, {"cohort.csv": cohort_csv()})


def test_labels_beside_several_recordings_are_refused(session):
    file = intake.as_poses(read("cohort.csv", cohort_csv()))
    labels = keypoints.Annotation(np.zeros(90, np.int64), ("rest",), ())
    with pytest.raises(DataError, match=r"holds 3 recordings, and marks.csv does not say which"):
        from_poses(file, PLAIN, labels, "marks.csv")


def test_several_recordings_are_announced_and_bouts_without_labels_begin_smoothed(engine):
    app = uploaded("cohort.csv", cohort_csv(200))
    said = unescape(html(app))
    assert "3 recordings were told apart by 'recording': each" in said
    assert "'animal' (m0, m1, m2) tells no more recordings apart" in said
    assert "'group' (a, b) tells no more recordings apart" in said
    assert control(app, "toggle", "apart").value
    app.button(key="fit").click().run()
    assert (control(app, "slider", "smooth").value, control(app, "slider", "shortest").value) == (1.0, 0.5)
    assert "At first they are smoothed over 1 s, none below 0.5 s" in html(app)
    assert [job.work.trials for job in engine.jobs if job.slot == "main"][-1].trials[1].name == "recording r1"


def test_units_of_an_npz_are_those_of_its_channels(session):
    xy = np.asarray(pair(100).xy)[:, :1, :, :3]
    content = npz(keypoints=xy, names=["center", "nose", "tail"], units="cm")
    data = from_poses(read("track.npz", content), replace(PLAIN, features="keypoints"))
    assert data.called["animal 1 center x"] == "animal 1 center x (cm)"
    assert any("30 Hz is assumed" in note for note in data.notes)


def workbook() -> bytes:
    """Remarks, then two sheets with numbers: channels, and parts of a body."""
    out = io.BytesIO()
    with pd.ExcelWriter(out) as book:
        pd.DataFrame({"remarks": ["made up"]}).to_excel(book, sheet_name="read me", index=False)
        turn = np.arange(100) / 9
        pd.DataFrame({"a": np.cos(turn), "b": np.sin(turn)}).to_excel(book, sheet_name="walk", index=False)
        pd.read_csv(io.BytesIO(flat_csv(100))).to_excel(book, sheet_name="poses", index=False)
    return out.getvalue()


def test_another_sheet_of_a_workbook_can_be_read(engine):
    app = uploaded("book.xlsx", workbook())
    chosen_sheet = next(box for box in app.selectbox if box.label == "Sheet")
    assert chosen_sheet.value == "walk"
    assert "What the columns are for" in html(app)
    chosen_sheet.set_value("poses").run()
    assert "Animals and parts" in html(app)
    assert next(box for box in app.selectbox if box.label == "Sheet").value == "poses"
    app.button(key="fit").click().run()
    assert "2 animals" in html(app)


@pytest.mark.parametrize("sheet", ["walk", "poses"])
def test_the_script_reads_the_sheet_that_was_chosen(session, sheet):
    content = workbook()
    session[intake.sheet_key(intake.digest_of(io.BytesIO(content)))] = sheet
    file = read("book.xlsx", content)
    if sheet == "poses":
        data = from_poses(intake.as_poses(file), PLAIN)
    else:
        roles = {name: str(role) for name, role in file.content.roles.items()}
        data = intake.from_table(file, intake.TableOptions(tuple(roles.items())))
    same_from_script(data, {"book.xlsx": content})


# ---- time of tables -----------------------------------------------------------------------------------------------
def test_the_unit_of_time_can_be_set(engine):
    rows = "\n".join(f"{k},{np.sin(k / 7):.4f}" for k in range(100))
    app = uploaded("walk.csv", f"time,a\n{rows}\n".encode())
    assert "counts frames" in html(app)
    control(app, "selectbox", "unit").set_value("ms").run()
    app.button(key="fit").click().run()
    fitted = next(job.work.trials[0] for job in engine.jobs if job.slot == "main")
    assert fitted.rate_hz == pytest.approx(1000)


# ---- which part is which -------------------------------------------------------------------------------------------
def test_a_sketch_names_the_parts_before_one_is_renamed_and_follows_the_new_names(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    figure = drawn["pose-sketch"][0]
    found = {mark["text"] for mark in figure["layout"]["annotations"]}
    file = app.session_state["your-data"][1]
    table, editor = file.content, f"your-data-parts-{file.digest}-drawn"
    assert found == set(table.parts)
    rows = app.session_state[editor]
    first = len(table.animals)
    rows[first] = rows[first] | {"name": "muzzle"}
    app.session_state[editor] = rows
    app.run()
    assert "muzzle" in {mark["text"] for mark in drawn["pose-sketch"][0]["layout"]["annotations"]}


def test_the_sketch_takes_a_pose_with_all_parts_apart():
    xy = np.full((50, 2, 2, 3), np.nan, np.float32)
    xy[:, 0, :, :2] = 1.0
    xy[20, 1] = [[0, 0.1, 0.2], [0, 0, 0]]
    xy[30, 1] = [[0, 5, 10], [0, 5, 0]]
    table = keypoints.KeypointTable(xy, ("a", "b"), ("p", "<i>", "r"))
    assert poses.clearest(table) == (30, 1)
    figure = poses.sketch(table, 30, 1)
    assert "<i>" not in str(figure["layout"])
    assert figure["layout"]["xaxis"]["range"] == [0, 10], "the pose fills the figure"
    low, high = figure["layout"]["yaxis"]["range"]
    assert low > high, "down is up in an image"
    lost = keypoints.KeypointTable(np.full((4, 1, 2, 2), np.nan, np.float32), ("a",), ("p", "q"))
    assert poses.sketch(lost, *poses.clearest(lost))["layout"]["annotations"] == []
