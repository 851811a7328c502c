"""`gdm teach`: marks and recordings in, words for every moment out."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from gdm_core import Trials, load_model
from gdm_studio.cli import main
from tests.support.taught import NAMES, labelled, marks

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def recordings(tmp_path):
    """Three recordings as tables; marks in the first two alone."""
    trials = labelled(3)
    for i, trial in enumerate(trials):
        frame = pd.DataFrame(np.asarray(trial.y), columns=list("abcd"))
        frame.insert(0, "time", np.arange(600) / 30)
        frame.to_csv(tmp_path / f"r{i}.csv", index=False)
    rows = []
    for i, part in enumerate(marks(Trials(trials.trials[:2]), n_clips=12)):
        edges = np.flatnonzero(np.diff(part, prepend=-1, append=-1))
        rows += [
            {"recording": f"r{i}.csv", "start": int(a), "stop": int(b), "word": NAMES[part[a]]}
            for a, b in itertools.pairwise(edges)
            if part[a] >= 0
        ]
    (tmp_path / "marks.json").write_text(json.dumps({"marks": rows}))
    pd.DataFrame(rows).to_csv(tmp_path / "marks.csv", index=False)
    return tmp_path, [tmp_path / f"r{i}.csv" for i in range(3)], np.asarray(trials[2].labels)


def test_every_recording_gets_words_also_one_without_marks(recordings, capsys):
    folder, files, truth = recordings
    args = ["teach", folder / "marks.json", *files, "--out", folder / "m.gdm", "--tables", folder / "t", "--json"]
    assert main([str(a) for a in args]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["words"]) == set(NAMES)
    assert (found["marked_recordings"], found["doubt"]) == (2, None)
    assert [row["recording"] for row in found["recordings"]] == ["r0.csv", "r1.csv", "r2.csv"]
    assert found["recordings"][2]["marked_seconds"] == 0
    assert sum(found["recordings"][2]["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert len(found["mark_next"]) == 3
    table = pd.read_csv(folder / "t" / "r2.csv-words.csv")
    assert np.mean(table["word"] == np.array(NAMES)[truth]) > 0.9
    assert set(load_model(folder / "m.gdm").class_names_) == set(NAMES)


def test_a_table_of_marks_teaches_the_same(recordings, capsys):
    folder, files, _ = recordings
    said = []
    for name in ("marks.json", "marks.csv"):
        assert main(["teach", str(folder / name), *map(str, files), "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert main(["teach", str(folder / "marks.csv"), *map(str, files)]) == 0
    assert "3 words, taught by marks in 2 of 3 recordings." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recording,start,stop\nr0.csv,0,9\n", "has no column word"),
        ("recording,start,stop,word\nr0.csv,0,soon,rest\n", "no list of marks"),
        ("recording,start,stop,word\nr9.csv,0,9,rest\nr9.csv,20,29,walk\n", "which is not among: r0.csv"),
        ("recording,start,stop,word\nr0.csv,0,9,rest\n", "Every mark says 'rest'"),
    ],
)
def test_marks_that_teach_nothing_are_refused(recordings, capsys, text, message):
    folder, files, _ = recordings
    (folder / "bad.csv").write_text(text)
    assert main(["teach", str(folder / "bad.csv"), str(files[0])]) == 2
    assert message in capsys.readouterr().err
