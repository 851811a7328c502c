"""Forged input in bulk, in a process of its own that must live: benchmarks/hostile.py says what counts as a failure.

`python -m benchmarks.hostile --n 10000` makes more of it. And cells on which pandas' parser of numbers writes past its memory.
"""

from __future__ import annotations

import datetime
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, tables
from gdm_core.errors import DataError
from tests.support import forged
from tests.support.attempts import Found, attempt
from tests.support.engine_requests import PATIENCE_S

MEMORY_MB = 700  # the largest of the uploads is a table of five million zeros


@pytest.mark.bulk
def test_forged_input_is_taken_or_refused_in_words():
    n = 4000
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.hostile", "--n", str(n), "--json"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == []
    assert done.returncode == 0
    assert found["n"] >= n - 5
    assert found["memory_mb"] < MEMORY_MB
    for kind in ("uploads", "labels", "models"):
        assert min(found["kinds"][kind][what] for what in ("taken", "refused")) > n // 800, (
            "neither all harmless nor all deadly"
        )


@pytest.mark.parametrize("name", [name for name, _ in forged.good_files()])
def test_every_file_is_good_before_it_is_broken(name):
    assert keypoints.read_any(io.BytesIO(dict(forged.good_files())[name]), name)


def test_every_file_that_means_harm_is_refused_in_words_of_its_own_or_does_none():
    found = []
    for name, content, says in forged.evil_files():
        said = ""
        try:
            read = keypoints.read_any(io.BytesIO(content), name)
            if isinstance(read, tables.Table):
                read.to_trials()
        except DataError as error:
            said = str(error)
        if not (re.search(says, said) if says else said == ""):
            found.append(f"{name}: {said!r} in place of {says!r}")
    assert not found


def test_a_failure_is_named_with_its_input():
    found = Found()

    def refuse(words: str) -> None:
        raise DataError(words)

    attempt(found, "one", lambda: 1 / 0)
    attempt(found, "two", lambda: refuse("no"))
    attempt(found, "three", lambda: refuse("This file is empty: choose another one."))
    attempt(found, "four", lambda: None)
    assert (found.taken, found.refused) == (1, 1)
    assert [failure.split(":")[0] for failure in found.failures] == ["'one'", "'two'"]


@pytest.mark.parametrize(
    "make",
    [forged.text, forged.message, forged.file, forged.model_file, forged.marks, forged.annotation],
)
def test_a_seed_brings_the_same_input_again(make):
    one, other = ([repr(make(rng)) for _ in range(20)] for rng in (np.random.default_rng(1), np.random.default_rng(1)))
    assert one == other
    assert len(set(one)) > 5


def test_forged_spreadsheets_do_not_say_when_they_were_made(monkeypatch):
    today = forged.workbook_parts()

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + datetime.timedelta(days=400)

    later = SimpleNamespace(datetime=Later, timezone=datetime.timezone)
    monkeypatch.setattr("openpyxl.writer.excel.datetime", later)
    monkeypatch.setattr("openpyxl.packaging.core.datetime", later)
    assert forged.workbook_parts() == today


HARMFUL = (
    "1e2147483648",
    "3e123456789012345",
    "4e98765432109",
    "-0.571e99958743731111978",
    "7E+99999999999999",
    "1,5e9876543210",
)
READ = """
import sys
from datasets import keypoints, tables
from gdm_core.errors import DataError
for path in sys.argv[1:]:
    print(path, flush=True)  # the last one printed is the one that killed
    for read in (tables.read, keypoints.read):
        try:
            read(path)
        except DataError as error:
            assert "hold" in str(error) or "DeepLabCut" in str(error), error
    table = keypoints.read_any(path)
    if isinstance(table, tables.Table):
        table.report().sentences()
        trials = table.to_trials(fill_seconds=0.1)
        print([trial.name for trial in trials], trials[0].y[:, 0].tolist())
"""


def survives(paths: list[Path]) -> str:
    """What a process prints that reads the files in every way, once it is known to have lived to its end."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, *map(str, paths)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode} at {done.stdout[-300:]}\n{done.stderr[-1000:]}"
    return done.stdout


def rows(cell: str, n: int = 40) -> pd.DataFrame:
    frame = pd.DataFrame({"a": np.sin(np.arange(n)).round(3).astype(str), "b": np.cos(np.arange(n)).round(3)})
    frame.loc[9, "a"] = cell
    return frame


def test_exponents_without_end_do_not_end_the_server(tmp_path: Path):
    kinds = ("csv", "utf16.csv", "semicolon.csv", "parquet", "xlsx", "deeplabcut.csv")
    paths = [(tmp_path / f"{i}.{kind}", kind, cell) for kind in kinds for i, cell in enumerate(HARMFUL)]
    for path, kind, cell in paths:
        frame = rows(cell)
        if kind == "parquet":
            frame.to_parquet(path)
        elif kind == "xlsx":
            frame.to_excel(path, index=False)
        elif kind == "deeplabcut.csv":
            text = tables.template(kind).decode().splitlines()
            text[9] = f"5,{cell.replace(',', '.')}," + text[9].split(",", 2)[2]
            path.write_text("\n".join(text))
        elif kind == "semicolon.csv":
            frame.to_csv(path, index=False, sep=";", decimal=",")
        else:
            frame.to_csv(path, index=False, encoding="utf-16" if kind == "utf16.csv" else "utf-8")
    said = survives([path for path, _, _ in paths])
    tables_read = (len(kinds) - 1) * len(HARMFUL)  # poses are told in their number of animals
    assert said.count("nan") == tables_read, "the cell is missing"
    assert said.count(", 0.98") >= tables_read, "its neighbours are read"


def test_quotes_do_not_hide_a_harmful_cell(tmp_path: Path):
    paths = [tmp_path / f"{i}.csv" for i in range(4)]
    for path, cell in zip(
        paths, ('"1e"2147483648', 'x""1e2147483648', '"3"e"12345"6789012345', '"1e21""47483648"'), strict=True
    ):
        path.write_text("a,b\n" + "".join(f"{i % 5},{i % 7}\n" for i in range(30)) + f"{cell},5\n")
    survives(paths)


def test_a_harmful_cell_that_lies_across_two_blocks_of_the_file_is_seen(tmp_path: Path):
    cell, block = b"1e2147483648,5\n", 1 << 18
    paths = [tmp_path / f"{shift}.csv" for shift in range(0, 14, 2)]
    for shift, path in zip(range(0, 14, 2), paths, strict=True):
        head = b"a,b\n" + b"0.5,0.25\n" * ((block - 100) // 9)
        path.write_bytes(head + b" " * (block - shift - len(head)) + cell + b"1,2\n" * 20)
        assert path.read_bytes()[block - shift :].startswith(cell)
    survives(paths)


def test_long_words_in_text_stay_as_they_are(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b\n" + "".join(f"{i // 20}e98765432109,{i % 7},{i % 5}\n" for i in range(60)))
    assert "['id 0e98765432109', 'id 1e98765432109', 'id 2e98765432109']" in survives([path])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, -1])
def test_text_is_only_changed_where_an_exponent_may_be_long(size: int):
    from datasets.readers.delimited import HarmlessText

    text = 'time,e\n1e5,2.5e-05\nE"1"2345,hello\n-1E+0001,4e98765432109\ne-123\n1e1234,eee12345e'
    reader = HarmlessText(io.StringIO(text))
    pieces = []
    while piece := reader.read(size):
        pieces.append(piece)
    made = "".join(pieces)
    assert made.replace("\ue000", "") == text
    assert [made[: at.start()].count("\n") for at in re.finditer("\ue000", made)] == [2, 3, 3, 5]
    assert "1e5,2.5e-05" in made


def test_a_whole_number_in_a_workbook_too_long_for_a_computer_is_missing():
    made, out = io.BytesIO(), io.BytesIO()
    pd.DataFrame({"a": [*range(30), 12345], "b": 1.5}).to_excel(made, index=False)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info).replace(b">12345<", b">1" + b"0" * 400 + b"<"))
    table = tables.read(out.getvalue(), "a.xlsx")
    y = table.to_trials({"a": "channel"})[0].y
    assert np.isnan(y[:, 0]).tolist() == [False] * 30 + [True]
