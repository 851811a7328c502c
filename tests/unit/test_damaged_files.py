"""Damaged and malicious files are read or refused with a GdmError; no reader crashes or follows links."""

import contextlib
import gzip
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import calms21, keypoints, tables
from datasets.f1 import loader
from datasets.readers.annotations import read_annotation
from datasets.readers.delimited import HarmlessText
from gdm_core import ARHMM, GDM
from gdm_core.errors import DataError, GdmError
from gdm_core.models.loading import model_from_bytes
from tests.support.formula1 import ring_driver, ring_session
from tests.support.table_files import PLAIN, book, hdf, npz, written, zipped

SLEAP = {
    "tracks": np.random.default_rng(0).uniform(0, 500, (2, 2, 3, 60)),
    "node_names": np.array([b"nose", b"neck", b"tail"]),
    "track_names": np.array([b"one", b"two"]),
    "point_scores": np.full((2, 3, 60), 0.9),
    "edge_inds": np.array([[0, 1], [1, 2]]),
}
BORIS = b"Observation id,Start (s),Stop (s),Behavior\n" + b"a,0,1,rest\na,1.5,2,walk\n" * 9


def read_data(content: bytes, name: str) -> None:
    found = keypoints.read_any(io.BytesIO(content), name)
    if isinstance(found, tables.Table):
        found.report()
        found.to_trials()


def read_session(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(content)
        loader.read_session(Path(folder) / name)


def read_calms21(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDM_DATA_DIR", folder)
        (Path(folder) / name).write_bytes(content)
        calms21.load(Path(folder) / name)


@lru_cache(1)
def good_files() -> dict[str, tuple[bytes, Callable[[bytes, str], object]]]:
    """Return a valid file of every kind and its reader."""
    y = np.random.default_rng(0).normal(size=(60, 3)).cumsum(0)
    trial = {
        "keypoints": np.ones((30, 2, 2, 7)).tolist(),
        "scores": np.ones((30, 2, 7)).tolist(),
        "annotations": [0] * 30,
        "metadata": {"vocab": {"attack": 0}},
    }
    with tempfile.TemporaryDirectory() as folder:
        loader.write_session(ring_session(ring_driver("AAA")), Path(folder) / "session.npz")
        session = (Path(folder) / "session.npz").read_bytes()
    official = json.dumps({"annotator-id_0": {"task1/train/a": trial}}).encode()
    poses = npz(keypoints=np.ones((50, 2, 2, 3)), labels=np.arange(50) % 3, names=["a", "b", "c"])
    return {
        "table.csv": (written(PLAIN, "csv"), read_data),
        "deeplabcut.csv": (tables.template("deeplabcut.csv"), read_data),
        "table.xlsx": (written(PLAIN, "excel"), read_data),
        "table.parquet": (written(PLAIN, "parquet"), read_data),
        "table.npz": (npz(y=y, time=np.arange(60.0)), read_data),
        "table.csv.gz": (gzip.compress(written(PLAIN, "csv")), read_data),
        "analysis.h5": (hdf(SLEAP), read_data),
        "keypoints.npz": (poses, read_data),
        "boris.csv": (BORIS, lambda content, name: read_annotation(content, 30.0, name)),
        "calms21_task1_train.json": (official, read_calms21),
        "session.npz": (session, read_session),
        "gdm.safetensors": (GDM(2, n_steps=2).fit(y).to_bytes(), model_from_bytes),
        "arhmm.safetensors": (ARHMM(2, n_iter=1).fit(y).to_bytes(), model_from_bytes),
    }


NAMES = [
    "table.csv", "deeplabcut.csv", "table.xlsx", "table.parquet", "table.npz", "table.csv.gz", "analysis.h5", "keypoints.npz",
    "boris.csv", "calms21_task1_train.json",
    "session.npz", "gdm.safetensors", "arhmm.safetensors",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Replace, repeat or remove a part of a file."""
    start = draw(st.integers(0, len(content) - 1))
    length = draw(st.integers(0, 50) | st.integers(0, len(content)))
    part = content[start : start + length]
    flipped = bytes([part[0] ^ 1]) + part[1:] if part else b""
    words = st.sampled_from(
        [b"", b"nan", b"1e400", b"-1", b"9" * 400, b"\xff\xfe", b'"', b"[" * 2000, part * 3, flipped]
    )
    return content[:start] + draw(words | st.binary(max_size=300)) + content[start + length :]


@pytest.mark.parametrize("name", NAMES)
def test_damaged_file_is_read_or_refused(name):
    content, read = good_files()[name]
    read(content, name)

    @settings(max_examples=20)
    @given(damaged(content))
    def check(changed: bytes) -> None:
        with contextlib.suppress(GdmError):
            read(changed, name)

    check()


# ---- malicious files ------------------------------------------------------------------------------------------------
def npy(shape: str, content: bytes = b"") -> bytes:
    """Return a NumPy file that declares any shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def workbook(change: Callable[[bytes], bytes]) -> bytes:
    """Return a workbook whose sheet was changed."""
    with zipfile.ZipFile(io.BytesIO(book(One=pd.DataFrame({"a": range(12), "b": 1.5})))) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    sheet = "xl/worksheets/sheet1.xml"
    return zipped(parts | {sheet: change(parts[sheet])})


LAUGHS = b"".join(b"<!ENTITY l%d '%s'>" % (i + 1, b"&l%d;" % i * 10) for i in range(9))
BOMB = (
    b"<!DOCTYPE l [<!ENTITY l0 'l'>"
    + LAUGHS
    + b"]><worksheet><sheetData><row><c t='str'><v>&l9;</v></c></row></sheetData></worksheet>"
)
FINE = npy("(20, 3)", np.ones(60, np.float32).tobytes())
MALICIOUS = {
    "declared size": ("a.npz", lambda: zipped({"y.npy": npy("(10000000, 3)")}), "cut short"),
    "huge shape": ("a.npz", lambda: zipped({"y.npy": npy(f"({10**18}, {10**18})")}), "limit"),
    "zip bomb": ("a.npz", lambda: zipped({"y.npy": npy("(5000000,)", bytes(20_000_000))}), "bytes unpacked"),
    "many parts": ("a.npz", lambda: zipped({f"{i}.npy": FINE[:8] for i in range(2100)}), "parts"),
    "many laughs": ("a.xlsx", lambda: workbook(lambda _: BOMB), "workbook"),
    "sheet of zeros": ("a.xlsx", lambda: workbook(lambda _: bytes(15_000_000)), "workbook"),
    "external link": ("a.h5", lambda: hdf(SLEAP | {"tracks": h5py.ExternalLink("/etc/passwd", "/x")}), "outside the file"),
    "wide row": ("a.csv", lambda: b"a,b\n" + b"1,2," * 20_000 + b"\n", "columns"),
    "gzip of zeros": ("a.csv.gz", lambda: gzip.compress(bytes(3_000_000)), "not text"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALICIOUS)
def test_malicious_file_is_refused(name):
    file, make, reason = MALICIOUS[name]
    with pytest.raises(DataError, match=reason):
        read_data(make(), file)


# ---- numbers on which the parser of pandas writes past its memory ---------------------------------------------------
READ = """
import sys
from datasets import keypoints, tables
for path in sys.argv[1:]:
    print(path, flush=True)  # the last printed path crashed
    table = keypoints.read_any(path)
    if isinstance(table, tables.Table):
        print(table.to_trials()[0].y[:, 0].tolist())
"""


def test_long_exponents_do_not_crash_the_reader(tmp_path):
    paths = []
    for i, cell in enumerate(("1e2147483648", "-0.571e99958743731111978", '"3"e"12345"6789012345')):
        frame = pd.DataFrame({"a": np.sin(np.arange(40)).round(3).astype(str), "b": np.cos(np.arange(40)).round(3)})
        frame.loc[9, "a"] = cell
        paths += [tmp_path / f"{i}.{kind}" for kind in ("csv", "utf16.csv", "xlsx", "deeplabcut.csv")]
        frame.to_csv(paths[-4], index=False, quoting=3)
        frame.to_csv(paths[-3], index=False, quoting=3, encoding="utf-16")
        frame.to_excel(paths[-2], index=False)
        lines = tables.template("deeplabcut.csv").decode().splitlines()
        lines[9] = f"5,{cell}," + lines[9].split(",", 2)[2]
        paths[-1].write_text("\n".join(lines))
    command = [sys.executable, "-W", "ignore", "-c", READ, *map(str, paths)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-1000:]
    assert done.stdout.count("nan") >= 9  # the cell is missing, in each table


@pytest.mark.parametrize("size", [1, 3, -1])
def test_only_long_exponents_are_changed(size):
    text = 'time,e\n1e5,2.5e-05\nE"1"2345,hello\n-1E+0001,4e98765432109\ne-123\n1e1234,eee12345e'
    reader = HarmlessText(io.StringIO(text))
    made = "".join(iter(lambda: reader.read(size), ""))
    assert made.replace("\ue000", "") == text
    assert [made[:at].count("\n") for at, letter in enumerate(made) if letter == "\ue000"] == [2, 3, 3, 5]
