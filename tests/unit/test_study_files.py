"""Studies from files of states, poses and sheets, and the command `gdm study`."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from datasets import cohort, cohort_files
from gdm_core import Study
from gdm_core.errors import DataError
from gdm_core.study.sheet import match_by_suffix
from gdm_studio.cli import main


def test_command_prints_results_and_saves_the_study(tmp_path, capsys):
    one = cohort.simulate(5, minutes=0.5, seed=2)
    np.savez(tmp_path / "states.npz", **one.states)
    pd.DataFrame(one.sheet).to_excel(tmp_path / "sheet.xlsx", index=False)
    asked = ["--between", "group", "--permutations", "99", "--measure", "bouts", "--json"]
    given = [str(tmp_path / "sheet.xlsx"), str(tmp_path / "states.npz"), "--labels", "--rate", "25"]
    kept = tmp_path / "a.study"
    assert main(["study", *given, *asked, "--save", str(kept), "--tables", str(tmp_path / "out")]) == 0
    found = json.loads(capsys.readouterr().out)
    study = Study.from_states(one.states, pd.DataFrame(one.sheet), rate_hz=25)
    table = study.compare("bouts", "group", n_permutations=99)
    assert [row["p"] for row in found["comparison"]] == pytest.approx(table["p"].tolist())
    assert found["flow"]["p"] == pytest.approx(study.flow("group", n_permutations=99).p)
    assert len(pd.read_csv(tmp_path / "out" / "measures.csv")) == 60
    assert len(pd.read_csv(tmp_path / "out" / "values-wide.csv")) == 10
    assert pd.read_csv(tmp_path / "out" / "values-prism.csv").shape == (6, 11)
    assert main(["study", str(kept), *asked]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"] == found["comparison"]
    assert main(["study", str(kept), "--between", "group", "--permutations", "99", "--where", "animal=animal01"]) == 2
    assert "nothing to compare" in capsys.readouterr().err
    assert main(["study", *given, *asked, "--first", "0.2"]) == 0
    cropped = json.loads(capsys.readouterr().out)
    assert "We analysed 10 recordings of 10 animals (12 s each with a state, 25 Hz). " in cropped["methods"]
    assert "Recordings were cropped to the first 12 s." in cropped["methods"]
    assert {row["conclusion"] for row in cropped["equivalence"]} <= {"different", "equivalent", "inconclusive"}
    assert main(["study", *given[:2], "--labels"]) == 2
    assert "set --rate" in capsys.readouterr().err
    for name, codes in one.states.items():
        timed = pd.DataFrame({"time": np.arange(len(codes)) / 5, "state": codes})
        timed.to_csv(tmp_path / f"{name}.csv", index=False)
    own = pd.DataFrame(one.sheet).assign(recording=lambda rows: rows["recording"] + ".csv")
    own.to_csv(tmp_path / "own.csv", index=False)
    files = [str(tmp_path / f"{name}.csv") for name in one.states]
    assert main(["study", str(tmp_path / "own.csv"), *files, "--labels", *asked]) == 0
    assert " each with a state, 5 Hz)" in json.loads(capsys.readouterr().out)["methods"]
    assert main(["study", given[0]]) == 2
    assert "add the files of its recordings" in capsys.readouterr().err


def test_command_fits_poses_and_tables(tmp_path, capsys):
    rng = np.random.default_rng(0)
    folder = tmp_path / "tracks"
    folder.mkdir()
    for i in range(4):
        place = rng.normal(size=(200, 1)).cumsum(axis=0)
        columns = {
            f"{part}_{axis}": (place + rng.normal(size=(200, 1)))[:, 0] for part in ("nose", "tail") for axis in "xy"
        }
        pd.DataFrame(columns).to_csv(folder / f"mouse{i}.csv", index=False)
    pd.DataFrame({"file": [f"mouse{i}" for i in range(4)], "group": ["a", "b"] * 2}).to_csv(
        tmp_path / "sheet.csv", index=False
    )
    options = ["--model", "arhmm", "--states", "3", "--between", "group", "--permutations", "19", "--non-wear", "1"]
    assert main(["study", str(tmp_path / "sheet.csv"), str(folder), *options]) == 0
    printed = capsys.readouterr()
    assert "Flow: distance" in printed.out
    assert "cannot reach p < 0.05" in printed.out
    assert "blind to conditions" in printed.err


def test_named_states_of_other_tools_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("start,stop,behaviour\n0,1,rest\n1,2,dig\n")
    (tmp_path / "b.csv").write_text("start,stop,behaviour\n0,1,dig\n")
    states, words = cohort_files.read_states([tmp_path / "a.csv", tmp_path / "b.csv"], 5)
    code = {word: number for number, word in words.items()}
    assert set(code) == {"rest", "dig"}
    assert states["a.csv"].tolist() == [code["rest"]] * 5 + [code["dig"]] * 5
    assert states["b.csv"].tolist() == [code["dig"]] * 5
    np.savez(tmp_path / "c.npz", r=np.zeros(3, int))
    with pytest.raises(DataError, match="some have named states"):
        cohort_files.read_states([tmp_path / "a.csv", tmp_path / "c.npz"], 5)
    sheet = tmp_path / "s.csv"
    sheet.write_text("file,dose,day\na,0.3,2025-10-03\nb,0.04,2025-10-24\n")
    frame = cohort_files.read_sheet(sheet)
    assert frame["dose"].tolist() == [0.3, 0.04]
    assert frame["day"].tolist() == ["2025-10-03", "2025-10-24"]


def test_long_table_is_split_into_recordings(tmp_path):
    frame = pd.DataFrame(
        {
            "recording": np.repeat(["m1", "m2"], 30),
            "time": np.tile(np.arange(30) / 5, 2),
            "u": np.random.default_rng(0).normal(size=60),
        }
    )
    frame.to_csv(tmp_path / "all.csv", index=False)
    found = cohort_files.read_recordings([tmp_path / "all.csv"])
    assert {name: (trial.n_samples, trial.rate_hz) for name, trial in found.items()} == {
        "m1": (30, pytest.approx(5)),
        "m2": (30, pytest.approx(5)),
    }
    walk = np.random.default_rng(1).normal(size=(60, 4)).cumsum(axis=0)
    poses = pd.DataFrame(walk, columns=["nose_x", "nose_y", "tail_x", "tail_y"]).assign(recording=frame["recording"])
    poses.loc[40:42, ["nose_x", "nose_y"]] = np.nan
    poses.to_csv(tmp_path / "poses.csv", index=False)
    notes: list[str] = []
    tracked = cohort_files.read_recordings([tmp_path / "poses.csv"], notes=notes)
    assert np.isfinite(tracked["m2"].y[1:]).all()
    assert notes == ["poses.csv: 2.5% of the coordinates were filled from other body parts and from time"]
    assert {name: trial.n_samples for name, trial in tracked.items()} == {"m1": 30, "m2": 30}
    with pytest.raises(DataError, match="a recording named 'm1' already exists"):
        cohort_files.read_recordings([tmp_path / "all.csv"] * 2)


def test_long_table_yields_sheet_and_labels(tmp_path, capsys):
    one = cohort.simulate(3, minutes=1, rate_hz=5, seed=2)
    sheet = pd.DataFrame(one.sheet)
    words = np.array(cohort.BEHAVIOURS)
    rows = [
        pd.DataFrame({"label": words[one.states[row.recording]]}).assign(
            recording=row.recording, animal=row.animal, group=row.group
        )
        for row in sheet.itertuples()
    ]
    path = tmp_path / "everything.csv"
    pd.concat(rows).to_csv(path, index=False)
    states, found = cohort_files.read_states([path], 5)
    assert [[found[code] for code in states[name][:9]] for name in states] == [
        words[one.states[name][:9]].tolist() for name in sheet["recording"]
    ]
    within = cohort_files.extract_sheet(path)
    pd.testing.assert_frame_equal(within, sheet[["recording", "animal", "group"]])
    options = ["--labels", "--rate", "5", "--between", "group", "--permutations", "19", "--json"]
    assert main(["study", str(path), str(path), *options]) == 0
    assert json.loads(capsys.readouterr().out)["recordings"] == 6
    sheet.to_csv(tmp_path / "sheet.csv", index=False)
    assert cohort_files.extract_sheet(tmp_path / "sheet.csv") is None


def test_poses_of_a_recording_are_read_by_name(tmp_path):
    walk = np.random.default_rng(1).normal(size=(60, 4)).cumsum(axis=0)
    poses = pd.DataFrame(walk, columns=["nose_x", "nose_y", "tail_x", "tail_y"])
    poses.to_csv(tmp_path / "one.csv", index=False)
    poses.assign(recording=np.repeat(["m1", "m2"], 30)).to_csv(tmp_path / "two.csv", index=False)
    assert cohort_files.read_poses(tmp_path / "one.csv", "one.csv").n_frames == 60
    second = cohort_files.read_poses(tmp_path / "two.csv", "m2")
    np.testing.assert_allclose(second.xy[:, 0, :, 0], walk[30:, :2], rtol=1e-5)
    assert cohort_files.read_poses(tmp_path / "two.csv", "m3") is None
    pd.DataFrame(walk, columns=list("abcd")).to_csv(tmp_path / "table.csv", index=False)
    assert cohort_files.read_poses(tmp_path / "table.csv", "table.csv") is None
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "one.csv", "deep/one.csv")
    (packed,) = cohort_files.list_files(tmp_path / "all.zip")
    assert list(cohort_files.read_recordings([packed])) == ["one.csv"]
    assert cohort_files.read_poses(packed, "one.csv").n_frames == 60, "read again"


def test_names_with_a_suffix_are_matched():
    sheet = pd.DataFrame({"file": ["m1", "m10", "m2.csv", "m3"], "group": list("abab")})
    names = ["m1_behavior.csv", "m10_behavior.csv", "m2_behavior.csv", "m4_behavior.csv"]
    suffix, matched = match_by_suffix(sheet, names)
    assert suffix == "_behavior"
    assert matched["file"].tolist() == [*names[:3], "m3"]
    suffix, matched = match_by_suffix(
        sheet.replace({"m1": "m1_b", "m10": "m10_b", "m2.csv": "m2_b"}), ["m1", "m2", "m10"]
    )
    assert (suffix, matched["file"].tolist()) == ("_b", ["m1", "m10", "m2", "m3"])
    assert match_by_suffix(sheet, ["other", "names"]) is None
    assert match_by_suffix(sheet, ["m1", "m10"]) is None, "every name is known"
