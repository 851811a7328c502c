"""The command line: results on stdout, errors on stderr, and exit codes."""

import io
import itertools
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from datasets import nascar
from gdm_core import LabelModel, load_model
from gdm_core.trials import Trials
from gdm_studio.cli import build_parser, main, studio
from gdm_studio.cli.label import read_marks
from gdm_studio.cli.shared import read_trials
from tests.support.labelled import NAMES, draw_clips, simulate
from tests.support.quick_model import quick_model

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(autouse=True)
def _own_folder_and_path(monkeypatch, tmp_path):
    """Keep finished fits in a temporary folder and restore the import path."""
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(scope="module")
def track():
    return nascar.simulate("soft", T=300, seed=1, n_channels=4)


@pytest.fixture
def csv(tmp_path, track):
    frame = pd.DataFrame(track.y, columns=["a", "b", "c", "d"])
    frame.insert(0, "time", np.arange(300) / 5)
    frame["driver"] = np.where(np.arange(300) < 150, "VER", "PIA")
    path = tmp_path / "track.csv"
    frame.to_csv(path, index=False)
    return path


def run_json(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


# ---- fit, predict, info -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", ["wide", "0", "-1"])
def test_unusable_scale_is_refused(capsys, csv, scale):
    assert main(["fit", str(csv), f"--scale={scale}"]) == 2
    assert "--scale" in capsys.readouterr().err


def test_open_question_about_a_file_needs_an_answer(capsys, csv):
    frame = pd.read_csv(csv)
    frame["time"] = np.arange(300) * 20
    frame.to_csv(csv, index=False)
    command = ("fit", csv, "--model", "arhmm", "--states", 2, "--out", csv.with_suffix(".safetensors"))
    assert main([*map(str, command)]) == 2
    assert '--answer unit="ms"' in capsys.readouterr().err
    _, fitted = run_json(capsys, *command, "--answer", "unit=ms")
    assert fitted["samples"] == 300


def test_windows_are_fitted_and_states_return_to_samples(capsys, csv, tmp_path):
    file = tmp_path / "model.safetensors"
    options = ("--scale", 4, "--trial-column", "none")
    _, fitted = run_json(capsys, "fit", csv, "--model", "arhmm", "--states", 2, "--out", file, *options)
    assert fitted["samples"] == 150  # windows of 21 samples at 5 Hz, 2 apart
    assert fitted["channels"][:3] == ["a mean", "a SD", "a RMS step"]
    _, predicted = run_json(capsys, "predict", file, csv, *options)
    np.testing.assert_allclose(predicted["table"]["time"], np.arange(300) / 5)
    states = np.array([predicted["table"]["p_1"], predicted["table"]["p_2"]])
    np.testing.assert_allclose(states.sum(axis=0), 1, atol=1e-5)


def test_automatic_scale_suits_fit_and_is_suggested(capsys, csv, tmp_path, monkeypatch):
    found = SimpleNamespace(scale=21, n_states=4, sentences=("Use windows of 4.2 s.", "That is clear."))
    monkeypatch.setattr("gdm_studio.cli.shared.choose_scale", lambda trials: found)
    _, fitted = run_json(capsys, "fit", csv, "--trial-column", "none", "--scale", "auto", "--out", tmp_path / "model")
    assert fitted["model"] == "gdm-linear"
    assert fitted["samples"] == 150
    _, suggested = run_json(capsys, "suggest", csv)
    assert suggested["settings"] == {"n_states": 4, "n_latent": 6}
    assert suggested["scale"] == "4.2"
    assert suggested["sentences"] == list(found.sentences)


def test_predict_refuses_automatic_scale(capsys, csv, tmp_path):
    file = tmp_path / "model.safetensors"
    assert main(["fit", str(csv), "--model", "arhmm", "--states", "2", "--out", str(file)]) == 0
    assert main(["predict", str(file), str(csv), "--scale", "auto"]) == 2
    assert "the scale that `fit` printed" in capsys.readouterr().err


def test_fit_then_predict_equals_the_model(capsys, csv, tmp_path, track):
    file, out = tmp_path / "deep" / "model.safetensors", tmp_path / "states.csv"
    code, found = run_json(capsys, "fit", csv, "--model", "arhmm", "--states", 3, "--seed", 5, "--out", file)
    assert code == 0
    assert found["channels"] == ["a", "b", "c", "d"]  # neither the time nor the text column
    assert found["status"] == "converged"
    assert found["samples"] == 300
    model = load_model(file)
    assert model.config.seed == 5
    assert model.elbo_ == pytest.approx(found["elbo_per_step"])
    assert main(["predict", str(file), str(csv), "--out", str(out), "--trial-column", "none"]) == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["time", "p_1", "p_2", "p_3", "state", "entropy"]
    expected = model.predict_proba(np.float32(track.y))
    np.testing.assert_allclose(frame[["p_1", "p_2", "p_3"]], expected, atol=1e-5)
    np.testing.assert_array_equal(frame["state"], expected.argmax(axis=1) + 1)
    np.testing.assert_allclose(frame["time"], np.arange(300) / 5, atol=1e-9)
    entropy = -(expected * np.log(expected + 1e-30)).sum(axis=1) / np.log(3)
    np.testing.assert_allclose(frame["entropy"], entropy, atol=1e-4)


def test_failed_fit_is_neither_saved_nor_applied(capsys, csv, tmp_path, track, monkeypatch):
    monkeypatch.setattr("gdm_core.models.base.score_baseline", lambda *_: 1e6)
    file, out = tmp_path / "m.safetensors", tmp_path / "states.csv"
    assert main(["fit", str(csv), "--model", "arhmm", "--out", str(file)]) == 1
    assert "is below that of a single autoregression (1e+06). Try another seed" in capsys.readouterr().err
    assert not file.exists()
    quick_model().fit(np.float32(track.y)).save(file)
    assert main(["predict", str(file), str(csv), "--out", str(out)]) == 1
    assert "is below that of a single autoregression" in capsys.readouterr().err
    assert not out.exists()


def test_predicting_outside_the_fit_says_so(capsys, csv, tmp_path):
    file, far = tmp_path / "m.safetensors", tmp_path / "far.csv"
    assert main(["fit", str(csv), "--model", "arhmm", "--out", str(file)]) == 0
    frame = pd.read_csv(csv)
    frame.assign(b=frame["b"] + 1e3).to_csv(far, index=False)
    for data, is_far in ((csv, False), (far, True)):
        capsys.readouterr()
        _, found = run_json(capsys, "predict", file, data)
        assert ("fitted mean of b" in found["extrapolation"]) == is_far


def test_trial_column_splits_trials(capsys, csv, tmp_path):
    file = tmp_path / "m.safetensors"
    code, found = run_json(capsys, "fit", csv, "--model", "arhmm", "--trial-column", "driver", "--out", file)
    assert (code, found["trials"]) == (0, 2)
    assert main(["predict", str(file), str(csv), "--trial-column", "driver"]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert frame["trial"].tolist() == ["driver VER"] * 150 + ["driver PIA"] * 150
    assert frame["time"].max() == pytest.approx(59.8)


def test_info_describes_the_library_and_a_model(capsys, csv, tmp_path):
    code, found = run_json(capsys, "info")
    assert code == 0
    assert "arhmm" in found["models"]
    file = tmp_path / "m.safetensors"
    main(["fit", str(csv), "--model", "arhmm", "--states", "3", "--out", str(file)])
    capsys.readouterr()
    code, found = run_json(capsys, "info", file)
    assert (code, found["family"], found["config"]["n_states"], found["channels"]) == (0, "arhmm", 3, 4)
    assert main(["info", str(file)]) == 0
    assert "n_states: 3" in capsys.readouterr().out


# ---- files --------------------------------------------------------------------------------------------------------
def read(path, *options):
    return read_trials(build_parser().parse_args(["fit", str(path), *options]))


def test_columns_keep_the_order_of_the_file(csv):
    assert read(csv, "--columns", "c,a", "--trial-column", "none")[0].channels == ("a", "c")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.csv", None, [], "There is no file at"),
        (
            "x.csv",
            b"a,b\nred,blue\nblue,red\n",
            [],
            "no column looks like a channel: a (label), b (ignore). Name channels with --columns",
        ),
        ("x.csv", b"a\n1\n4\n", ["--columns", "z"], "has no column 'z'; it has a"),
        ("x.csv", b"a\n1\n4\n", ["--trial-column", "who"], "has no column 'who'"),
        (
            "x.csv",
            b"a,b\n1,2\n4,3\n",
            ["--columns", "a", "--trial-column", "a"],
            "cannot be a channel and identify trials",
        ),
        ("x.csv", b"a,b\n1,2\n2,1\n4,3\n", ["--rate", "-1"], "rate_hz is -1.0"),
        ("x.csv", b"a\n1\n", ["--sheet", "one"], "is not a workbook"),
    ],
)
def test_unusable_files_exit_with_2(tmp_path, capsys, name, content, options, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["fit", str(path), "--model", "arhmm", *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.out == ""


def test_one_channel_file_is_fitted(capsys, csv, tmp_path):
    one = ("--columns", "b", "--model", "arhmm")
    code, found = run_json(capsys, "fit", csv, *one, "--out", tmp_path / "m.safetensors")
    assert (code, found["channels"]) == (0, ["b"])
    code, found = run_json(capsys, "suggest", csv, "--columns", "b", "--models", "arhmm", "--states", "1-2")
    assert (code, found["settings"]["n_latent"]) == (0, 1)


# ---- exit codes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{csv}", "--model", "oracle"], "There is no model 'oracle'; choose one of"),
        (["fit", "{csv}", "--model", "arhmm", "--temperature", "0.5"], "has no parameter temperature"),
        (["fit", "{csv}", "--model", "arhmm", "--latent", "9"], "--latent is 9; .* which is 4 in track.csv"),
        (["suggest", "{csv}", "--models", "arhmm", "--latent", "5"], "--latent is 5; .* which is 4 in track.csv"),
        (["predict", "{csv}", "{csv}"], "not a readable model file"),
        (["predict", "absent.safetensors", "{csv}"], "There is no model file at"),
        (["suggest", "{csv}", "--models", "arhmm", "--seeds", "0"], "seeds is 0"),
        (["suggest", "{csv}", "--models", "arhmm", "--jobs", "0", "--scale", "samples"], "jobs is 0"),
        (["reproduce", "oracle"], "There is no experiment 'oracle'; choose one of"),
        (["reproduce", "mice", "--seeds", "0"], "seeds is 0"),
    ],
)
def test_invalid_requests_exit_with_2(capsys, csv, arguments, message):
    assert main([a.replace("{csv}", str(csv)) for a in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(message, captured.err)


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["fit"], ["fit", "x.csv", "--states", "many"], ["suggest", "x.csv", "--states", ","]]
)
def test_bad_usage_exits_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_unwritable_result_exits_with_1(csv, tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["fit", str(csv), "--model", "arhmm", "--out", str(blocked / "m.safetensors")]) == 1
    assert "error: " in capsys.readouterr().err


# ---- starting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["gdm_core", "gdm_studio"])
def test_modules_run_as_a_command(module):
    done = subprocess.run([sys.executable, "-m", module, "info", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["version"]
    assert done.stderr == ""


@pytest.fixture
def recordings(tmp_path):
    """Three recordings as tables; marks in the first two alone."""
    trials = simulate(3)
    for i, trial in enumerate(trials):
        frame = pd.DataFrame(np.asarray(trial.y), columns=list("abcd"))
        frame.insert(0, "time", np.arange(600) / 30)
        frame.to_csv(tmp_path / f"r{i}.csv", index=False)
    rows = []
    for i, part in enumerate(draw_clips(Trials(trials.trials[:2]), n_clips=12)):
        edges = np.flatnonzero(np.diff(part, prepend=-1, append=-1))
        rows += [
            {"recording": f"r{i}.csv", "start": int(a), "stop": int(b), "label": NAMES[part[a]]}
            for a, b in itertools.pairwise(edges)
            if part[a] >= 0
        ]
    (tmp_path / "marks.json").write_text(json.dumps({"marks": rows}))
    pd.DataFrame(rows).to_csv(tmp_path / "marks.csv", index=False)
    return tmp_path, [tmp_path / f"r{i}.csv" for i in range(3)], np.asarray(trials[2].labels)


def test_label_predicts_every_recording(recordings, capsys):
    folder, files, truth = recordings
    args = ["label", folder / "marks.json", *files, "--out", folder / "m.gdm", "--tables", folder / "t", "--json"]
    assert main([str(a) for a in args]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["labels"]) == set(NAMES)
    assert (found["labelled_recordings"], found["calibrated_on"]) == (2, "recordings")
    assert found["held_out"]["macro_f1"] > found["held_out"]["majority"]
    assert [row["recording"] for row in found["recordings"]] == ["r0.csv", "r1.csv", "r2.csv"]
    assert found["recordings"][2]["labelled_seconds"] == 0
    assert sum(found["recordings"][2]["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert len(found["label_next"]) == 3
    table = pd.read_csv(folder / "t" / "r2.csv-labels.csv")
    assert np.mean(table["label"] == np.array(NAMES)[truth]) > 0.9
    assert set(LabelModel.load(folder / "m.gdm").class_names_) == set(NAMES)


def test_label_leaves_out_states_of_failed_fit(recordings, capsys, monkeypatch):
    folder, files, _ = recordings
    monkeypatch.setattr("gdm_core.models.base.score_baseline", lambda *_: 1e6)
    file = folder / "m.gdm"
    assert main(["label", str(folder / "marks.json"), *map(str, files), "--out", str(file), "--json"]) == 0
    printed = capsys.readouterr()
    assert "is below that of a single autoregression (1e+06). Try another seed" in printed.err
    assert "Labels are predicted without its states." in printed.err
    assert "is below that of a single autoregression" in json.loads(printed.out)["failure"]
    assert LabelModel.load(file).model is None


def test_label_reads_tables_and_json_alike(recordings, capsys):
    folder, files, _ = recordings
    assert read_marks(folder / "marks.json") == read_marks(folder / "marks.csv")
    assert main(["label", str(folder / "marks.csv"), *map(str, files)]) == 0
    assert "3 labels, learned from clips in 2 of 3 recordings." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recording,start,stop\nr0.csv,0,9\n", "has no column label"),
        ("recording,start,stop,label\nr0.csv,0,soon,rest\n", "not marks"),
        ("recording,start,stop,label\nr9.csv,0,9,rest\nr9.csv,20,29,walk\n", "which is not among: r0.csv"),
        ("recording,start,stop,label\nr0.csv,0,9,rest\n", "Every label is 'rest'"),
    ],
)
def test_label_refuses_unusable_marks(recordings, capsys, text, message):
    folder, files, _ = recordings
    (folder / "bad.csv").write_text(text)
    assert main(["label", str(folder / "bad.csv"), str(files[0])]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["somewhere"], "tcp://HOST:PORT"),
        (["tcp://10.0.0.5:8786", "--workers", "0"], "at least 1"),
        (["tcp://10.0.0.5:8786", "--memory", "much"], "2 GiB"),
    ],
)
def test_invalid_worker_options_are_refused(capsys, arguments, words):
    assert main(["workers", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_studio_prepares_a_version_once(capsys, monkeypatch):
    monkeypatch.setattr("gdm_core.models.warm.compile_loops", lambda names: iter([0.5, 1.0]))
    studio.prepare()
    assert "Preparing, once: 100%" in capsys.readouterr().err
    studio.prepare()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("platform.node", lambda: "another computer")
    studio.prepare()
    assert "Preparing" in capsys.readouterr().err
