"""Forged input in bulk, in a process of its own that must live: benchmarks/hostile.py says what counts as a failure.

`python -m benchmarks.hostile --n 10000` makes more of it.
"""

from __future__ import annotations

import datetime
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from datasets import keypoints
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
