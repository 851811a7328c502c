"""Files on Your data: columns, animals and parts, sheets, and scripts that load the same trials."""

import io
from dataclasses import replace

import gdm_studio.datasets.splits
import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, mice, splits, tables
from gdm_core.errors import DataError, GdmError
from pages.lab.upload import file as intake
from pages.lab.upload import poses
from pages.lab.upload import table as check
from pages.lab.upload.file import OpenFile, TableOptions
from pages.lab.upload.poses import PoseOptions, from_poses, select
from pages.ui import settings
from tests.support.controls import control
from tests.support.file_corpus import kind
from tests.support.scripts import same_from_script
from tests.support.table_files import npz
from tests.support.your_data_page import REPAIRS, fitted, html, read, upload, uploaded, waves


# ---- files --------------------------------------------------------------------------------------------------------
def test_script_of_a_table_loads_the_same_trials(session):
    file = read("example.csv")
    assert not file.tracked
    roles = {column: str(role) for column, role in file.content.roles.items()}
    options = TableOptions(roles, arguments={"fill_seconds": 0.1})
    data = intake.from_table(file, options)
    assert data.train.label_names == ("left turn", "lower straight", "right turn", "upper straight")
    made = same_from_script(data, {"example.csv": tables.template("example.csv")})
    for ours, theirs in zip((data.train, data.test), made, strict=True):
        assert [trial.rate_hz for trial in ours] == [trial.rate_hz for trial in theirs]


def test_script_of_a_tracking_file_loads_its_labels(session):
    marks = b"behaviour,start,stop\nwalk,0,1\nrest,1,2\n"
    labels = keypoints.read_annotation(marks, rate_hz=30.0, name="bouts.csv")
    options = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))
    data = from_poses(read("deeplabcut.csv"), options, labels, "bouts.csv")
    made = same_from_script(data, {"deeplabcut.csv": tables.template("deeplabcut.csv"), "bouts.csv": marks})
    for ours, theirs in zip((data.train, data.test), made, strict=True):
        assert theirs.label_names == ours.label_names == ("rest", "walk")
        np.testing.assert_array_equal(theirs[0].labels, ours[0].labels)


def test_script_leaves_out_unusable_channels(session):
    rows = "\n".join(f"{t},{np.sin(t):.4f},{5 if t < 70 else t}" for t in range(100))
    content = f"time,a,late\n{rows}\n".encode()
    file = read("late.csv", content)
    data = intake.from_table(file, TableOptions({c: str(r) for c, r in file.content.roles.items()}))
    assert data.train[0].channels == ("a",)
    assert any("late" in note for note in data.notes)
    same_from_script(data, {"late.csv": content})


def test_script_holds_out_the_same_share(session, monkeypatch):
    for module in (splits, gdm_studio.datasets.splits):  # the loaders have two import names
        monkeypatch.setattr(module, "HELD_OUT", 0.25)
    long = waves(200, 20.0)
    poses = read("deeplabcut.csv")
    made = [fitted("waves.csv", long), from_poses(poses, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))]
    files = {"waves.csv": long, "deeplabcut.csv": tables.template("deeplabcut.csv")}
    for data, samples in zip(made, (200, 60), strict=True):
        sizes = [sum(trial.n_samples for trial in side) for side in same_from_script(data, files)]
        assert sizes == [data.train.n_samples, data.test.n_samples] == [0.75 * samples, 0.25 * samples]


@pytest.mark.parametrize(("name", "content"), [("words.csv", b"a,b\nx,y\nz,w\n"), ("no.h5", b"not an hdf5 file")])
def test_invalid_file_raises_and_keeps_the_earlier_one(name, content, session):
    good = read("example.csv")
    with pytest.raises(GdmError) as trouble:
        fitted(name, content)
    assert len(str(trouble.value)) > 15
    assert read("example.csv").content.frame.equals(good.content.frame)


def test_edited_roles_select_the_channels(session):
    file = read("example.csv")
    assert check.edited_roles(file)["sensor 2"] == "channel"
    row = list(file.content.roles).index("sensor 2")
    session[f"uploaded-roles-{file.digest}"] = {"edited_rows": {row: {"role": "ignore"}}}
    roles = check.edited_roles(file)
    assert roles["sensor 2"] == "ignore"
    data = intake.from_table(file, TableOptions(roles))
    assert "sensor 2" not in data.train[0].channels


def test_script_repeats_answers_and_units(session):
    content = pd.DataFrame({"time": np.arange(80) * 20, "c": np.sin(np.arange(80))}).to_csv(index=False).encode()
    options = TableOptions({"time": "time", "c": "channel"}, {"unit": "ms"}, {"units": {"c": "mm"}})
    data = intake.from_table(read("ticks.csv", content), options)
    assert (data.train[0].rate_hz, data.train[0].channels) == (50, ("c (mm)",))
    for theirs in same_from_script(data, {"ticks.csv": content}):
        assert (theirs[0].rate_hz, theirs[0].channels) == (50, ("c (mm)",))


def test_script_repeats_swapped_animals_and_parts(session):
    named = kind("poses with named animals")
    swapped = intake.as_poses(read("poses.csv", named.content), {"swap": "yes"})
    assert (swapped.content.animals, swapped.content.parts) == named.names[::-1]
    data = from_poses(swapped, PoseOptions(10.0, "keypoints", tuple(REPAIRS.items())))
    assert same_from_script(data, {"poses.csv": named.content})[0][0].channels == data.train[0].channels


def test_role_animal_gives_one_row_per_time_step(session):
    fish = pd.DataFrame({"time": np.repeat(np.arange(80) / 10, 2), "nr": [7, 8] * 80, "x": np.arange(160.0) % 37,
                         "y": np.arange(160.0) % 23})  # fmt: skip
    content = fish.to_csv(index=False).encode()
    file = read("fish.csv", content)
    assert check.edited_roles(file)["nr"] == "channel"
    session[f"uploaded-roles-{file.digest}"] = {"edited_rows": {1: {"role": "animal"}}}
    posed = intake.as_poses(intake.widen_file(file, check.edited_roles(file)))
    assert (posed.content.animals, posed.content.n_frames) == (("7", "8"), 80)
    np.testing.assert_array_equal(posed.content.xy[:, 1, 0, 0], fish["x"][1::2])
    data = from_poses(posed, PoseOptions(10.0, "keypoints", tuple(REPAIRS.items())))
    assert same_from_script(data, {"fish.csv": content})[0][0].channels == data.train[0].channels


def test_role_ignore_keeps_the_rows_of_a_file(session):
    long = kind("one row per step and sensor")
    file = intake.get_narrow(read("long.csv", long.content))
    same = intake.widen_file(file, check.edited_roles(file) | {"sensor": "ignore"})
    assert same.content.n_rows == 120
    assert same.read_as({}) == "'long.csv', roles={'sensor': 'ignore'}"


def test_recording_too_short_to_split_raises_data_error(session):
    table = mice.simulate_recordings(1, 20, seed=0)[0]
    file = OpenFile("short.npz", "d", replace(table, name="short"))
    with pytest.raises(DataError, match="at least 40"):
        from_poses(file, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))


# ---- poses ----------------------------------------------------------------------------------------------------------
PLAIN = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))


def pair(n: int = 200) -> keypoints.KeypointTable:
    return replace(mice.simulate_recordings(1, n, seed=2)[0], simulated=False)


def flat_csv(n: int = 120) -> bytes:
    """Return a plain table of two mice with three parts each, at 25 Hz."""
    table = pair(n)
    columns = {"time": np.arange(n) / 25}
    for a, animal in enumerate(("mouse1", "mouse2")):
        for p, part in enumerate(("nose", "neck", "tail")):
            for axis, values in zip("xy", np.asarray(table.xy)[:, a, :, 2 * p].T, strict=True):
                columns[f"{animal}_{part}_{axis}"] = values
    return pd.DataFrame(columns).to_csv(index=False).encode()


# ---- leaving out animals and parts --------------------------------------------------------------------------------
def test_editor_selects_animals_and_parts(session):
    table = pair()
    file = OpenFile("pair.npz", "d", table)
    assert poses.read_selection(file) == (tuple(range(len(table.animals))), tuple(range(len(table.parts))))
    session[f"uploaded-parts-{file.digest}"] = {"edited_rows": {1: {"use": False}, 2 + 1: {"use": False}}}
    animals, parts = poses.read_selection(file)
    assert animals == (0,)
    assert parts == tuple(i for i in range(len(table.parts)) if i != 1)


def test_skeleton_keeps_edges_between_selected_parts():
    table = pair()
    made = select(table, replace(PLAIN, animals=(1,), parts=(0, 3, 6)))
    assert (made.animals, made.parts) == (table.animals[1:], tuple(table.parts[i] for i in (0, 3, 6)))
    np.testing.assert_array_equal(made.xy[:, 0, :, 2], np.asarray(table.xy)[:, 1, :, 6])
    np.testing.assert_array_equal(made.scores[:, 0, 1], np.asarray(table.scores)[:, 1, 3])
    old = {(0, 0), (3, 1), (6, 2)}
    kept = {(dict(old)[i], dict(old)[j]) for i, j in table.edges if {i, j} <= {0, 3, 6}}
    assert set(made.edges) == kept
    assert select(table, PLAIN).parts == table.parts


@pytest.mark.parametrize("features", ["egocentric", "keypoints"])
def test_script_selects_the_same_parts(session, features):
    table = pair()
    content = npz(keypoints=table.xy, scores=table.scores, parts=np.array(table.parts))
    file = read("pair.npz", content)
    options = replace(PLAIN, features=features, animals=(0,), parts=(0, 3, 6))
    data = from_poses(file, options)
    assert len(data.poses[0].parts) == 3
    same_from_script(data, {"pair.npz": content})


def test_empty_selection_disables_the_fit(engine, monkeypatch):
    monkeypatch.setattr(poses, "read_selection", lambda file: ((), (0,)))
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert "at least one animal" in html(app)
    assert app.button(key="fit").disabled


# ---- rate, start --------------------------------------------------------------------------------------------------


def test_tracking_file_starts_with_announced_settings(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    said = html(app)
    app.button(key="fit").click().run()
    config = next(job.work.config for job in engine.jobs if job.name == "fit")
    assert config["posterior"] == "linear"
    assert f"K {config['n_states']} (" in said
    assert f"D {config['n_latent']} (" in said


# ---- plain tables of parts ----------------------------------------------------------------------------------------
def test_table_of_parts_is_read_as_keypoints(engine):
    app = uploaded("flat.csv", flat_csv())
    assert control(app, "toggle", "posed").value
    assert control(app, "number_input", "fps").value == pytest.approx(25)
    assert "Animals and body parts" in html(app)
    app.button(key="fit").click().run()
    assert "2 animals" in html(app)
    control(app, "toggle", "posed").set_value(False).run()
    assert ">Columns<" in html(app)


def test_script_of_a_table_of_parts_loads_the_same_trials(session):
    content = flat_csv(300)
    file = intake.as_poses(read("flat.csv", content))
    data = from_poses(file, replace(PLAIN, rate_hz=25))
    same_from_script(data, {"flat.csv": content})
    assert len(data.train[0].y) == int(0.6 * 300)


def cohort_csv(n: int = 90) -> bytes:
    """Return a table of three recordings of one animal each, in two groups."""
    one = pd.read_csv(io.BytesIO(flat_csv(n)))
    parts = [one.assign(recording=f"r{i}", animal=f"m{i}", group="ab"[i // 2]) for i in range(3)]
    return pd.concat(parts).to_csv(index=False).encode()


def test_recordings_in_one_table_are_trials(session):
    file = intake.as_poses(read("cohort.csv", cohort_csv()))
    data = from_poses(file, replace(PLAIN, rate_hz=25.0))
    assert [trial.name for trial in data.trials] == [f"recording r{i}" for i in range(3)]
    assert "3 recordings" in data.about
    same_from_script(data, {"cohort.csv": cohort_csv()})


def test_labels_file_for_several_recordings_raises_data_error(session):
    file = intake.as_poses(read("cohort.csv", cohort_csv()))
    labels = keypoints.Annotation(np.zeros(90, np.int64), ("rest",), ())
    with pytest.raises(DataError, match=r"has 3 recordings, and marks.csv does not name one"):
        from_poses(file, PLAIN, labels, "marks.csv")


def test_unlabelled_recordings_start_with_smoothed_bouts(engine):
    app = uploaded("cohort.csv", cohort_csv(200))
    app.button(key="fit").click().run()
    assert (control(app, "slider", "smooth").value, control(app, "slider", "shortest").value) == (1.0, 0.5)

    assert [job.work.trials for job in engine.jobs if job.name == "fit"][-1].trials[1].name == "recording r1"


def test_units_of_an_npz_are_kept(session):
    xy = np.asarray(pair(100).xy)[:, :1, :, :3]
    content = npz(keypoints=xy, names=["center", "nose", "tail"], units="cm")
    data = from_poses(read("track.npz", content), replace(PLAIN, features="keypoints"))
    assert data.called["animal 1 center x"] == "animal 1 center x (cm)"
    assert any("30 Hz is assumed" in note for note in data.notes)


def workbook() -> bytes:
    """Return a workbook with a sheet of remarks, one of channels and one of parts."""
    out = io.BytesIO()
    with pd.ExcelWriter(out) as book:
        pd.DataFrame({"remarks": ["made up"]}).to_excel(book, sheet_name="read me", index=False)
        turn = np.arange(100) / 9
        pd.DataFrame({"a": np.cos(turn), "b": np.sin(turn)}).to_excel(book, sheet_name="walk", index=False)
        pd.read_csv(io.BytesIO(flat_csv(100))).to_excel(book, sheet_name="poses", index=False)
    return out.getvalue()


def test_another_sheet_of_a_workbook_can_be_chosen(engine):
    app = uploaded("book.xlsx", workbook())
    chosen_sheet = next(box for box in app.selectbox if box.label == "Sheet")
    assert chosen_sheet.value == "walk"
    assert ">Columns<" in html(app)
    chosen_sheet.set_value("poses").run()
    assert "Animals and body parts" in html(app)
    assert next(box for box in app.selectbox if box.label == "Sheet").value == "poses"
    app.button(key="fit").click().run()
    assert "2 animals" in html(app)


@pytest.mark.parametrize("sheet", ["walk", "poses"])
def test_script_reads_the_chosen_sheet(session, sheet):
    content = workbook()
    session[intake.sheet_key(intake.digest_of(io.BytesIO(content)))] = sheet
    file = read("book.xlsx", content)
    if sheet == "poses":
        data = from_poses(intake.as_poses(file), PLAIN)
    else:
        roles = {name: str(role) for name, role in file.content.roles.items()}
        data = intake.from_table(file, intake.TableOptions(roles))
    same_from_script(data, {"book.xlsx": content})


# ---- time of tables -----------------------------------------------------------------------------------------------
def test_edited_unit_of_time_applies_to_the_next_file(engine):
    rows = "\n".join(f"{k},{np.sin(k / 7):.4f}" for k in range(100))
    app = uploaded("walk.csv", f"time,a\n{rows}\n".encode())
    assert "counts frames" in html(app)
    app.session_state[f"columns-{settings.scope(('time', 'a'))}"] = [{"unit": "ms"}, {}]  # as edited for this file
    upload(app, "walk.csv", f"time,a\n{rows}\n100,0\n".encode())
    app.button(key="fit").click().run()
    fitted = next(job.work.trials[0] for job in engine.jobs if job.name == "fit")
    assert fitted.rate_hz == pytest.approx(1000)
