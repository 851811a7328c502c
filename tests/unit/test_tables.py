"""Table files: formats, dialects, limits, invalid files and workbooks."""

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, tables
from datasets.readers import annotations
from datasets.readers.source import Limits, Source
from datasets.tables import Role
from gdm_core.errors import ConfigError, DataError
from tests.support.real import recorded
from tests.support.table_files import NUMBERS, PLAIN, book, check, check_plain, csv, npy, npz, written


def test_paths_and_open_files_read_alike(tmp_path: Path):
    path = tmp_path / "mine.csv"
    path.write_bytes(csv())
    for source, name in ((csv(), "mine.csv"), (io.BytesIO(csv()), "mine.csv"), (path, None)):
        check_plain(tables.read(source, name))


def test_repeated_and_blank_columns_are_renamed():
    table = tables.read(b"a,a,,a\n1,2,3,4\n5,6,7,9\n", "twice.csv")
    assert table.columns == ("a", "a (2)", "column 3", "a (3)")
    assert table.to_trials()[0].n_channels == 4
    assert any("more than once" in note for note in table.notes)


@pytest.mark.parametrize(
    ("data", "name", "says"),
    [
        (b"", "a.csv", "empty"),
        (b"\n\n\n", "a.csv", "no rows"),
        (b"a,b,c\n", "a.csv", "header but no rows"),
        (b"a,b\n1,2\n3,4,5\n6,7\n", "a.csv", "line 3 has 3 fields where 2 are expected"),
        (b"\x00\x01\x02PK", "a.csv", "not text"),
        (b"PK\x03\x04nonsense", "a.xlsx", "not a readable .xlsx"),
        (b"PAR1nonsensePAR1", "a.parquet", "not a readable Parquet"),
        (b"\x1f\x8bnonsense", "a.csv.gz", "cannot be read"),
        (b"hello", "a.xls", "Convert it with pandas"),
        (b"scorer,a,a\nbodyparts,nose,nose\ncoords,x,y\n0,1,2\n", "a.csv", "DeepLabCut file"),
        (b"a\nx\ny\nz\n" * 30, "a.csv", "no column is a channel"),
    ],
)
def test_invalid_files_raise_data_error(data: bytes, name: str, says: str):
    with pytest.raises(DataError, match=says):
        tables.read(data, name).to_trials()


def test_missing_name_or_path_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="without a file name"):
        tables.read(csv())
    with pytest.raises(DataError, match="no file at"):
        tables.read(tmp_path / "absent.csv")


def test_paths_outside_the_data_folder_are_refused(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.csv").write_bytes(csv())
    (tmp_path / "data" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "data" / "mine.csv").write_bytes(csv())
    assert tables.path_within(tmp_path / "data", "mine.csv").name == "mine.csv"
    for wanted in ("../secret.csv", str(tmp_path / "secret.csv"), "link.csv", "/etc/passwd"):
        with pytest.raises(DataError, match="outside the data folder"):
            tables.path_within(tmp_path / "data", wanted)


@pytest.mark.bulk
def test_too_many_rows_are_refused(tmp_path: Path):
    path = tmp_path / "long.csv"
    block = b"".join(b"%d,%d\n" % (i, i % 7) for i in range(100_000))
    with path.open("wb") as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(block)
    with pytest.raises(DataError, match="limit is 5,000,000"):
        tables.read(path)


def test_long_table_is_read_in_chunks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.readers.delimited.CHUNK_ROWS", 7)
    table = tables.read(b"a,b\n" + b"".join(b"%d,1\n" % i for i in range(50)), "a.csv")
    assert table.frame["a"].tolist() == list(range(50))


def test_files_over_the_limits_are_refused(monkeypatch):
    for limits, content, name, says in (
        (Limits(file_bytes=100), csv(), "a.csv", "the limit is 100"),
        (Limits(columns=3), csv(), "a.csv", "limit is 3"),
        (Limits(unpacked_bytes=1000), gzip.compress(csv() * 5), "a.csv.gz", "limit of 1,000 bytes"),
        (Limits(rows=59), written(PLAIN, "parquet"), "a.parquet", "limit is 59"),
    ):
        monkeypatch.setattr(Source, "limits", limits)
        with pytest.raises(DataError, match=says):
            tables.read(content, name)


def test_pickles_are_never_opened(tmp_path: Path):
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    traps = np.array([Trap()], dtype=object)
    for data, name, says in (
        (npz(y=traps), "a.npz", "pickled"), (npy(traps), "a.npy", "pickled"), (pickle.dumps(Trap()), "a.npy", "header"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=says):
            tables.read(data, name)
    assert not (tmp_path / "sprung").exists()


def test_real_table_is_read():
    table = tables.read(recorded("f1/pos_shanghai_2025_race.parquet"))
    wanted = {"driver": Role.GROUP, "t": Role.TIME, "x": Role.POSITION, "y": Role.POSITION}
    assert {name: table.roles[name] for name in wanted} == wanted
    trials = table.to_trials(resample_to_fixed_step=True, rate_hz=4.0)
    assert len(trials) == 20
    assert np.isnan(trials[0].y).mean() < 0.05  # gaps of up to 1.4 s


def test_npz_names_channels():
    y = np.random.default_rng(0).normal(size=(50, 2))

    def read(**more: object) -> tables.Table:
        return tables.read(npz(y=y, **more), "a.npz")

    assert read(names=np.array([b"depth", b"pitch"])).columns == ("depth", "pitch")
    words = read(names=np.array(["walk", "rest"] * 25))
    assert words.columns == ("y1", "y2", "names")
    assert read(channels=["one"]).report().notes[0] == "'channels' does not name 2 channels and was not used"


# ---- workbooks ------------------------------------------------------------------------------------------------------
REMARKS = pd.DataFrame({"info": ["read me", "by me", "in spring"]})


def test_first_sheet_with_numbers_is_read():
    table = tables.read(book(Empty=pd.DataFrame(), Info=REMARKS, First=NUMBERS, Second=NUMBERS * 2), "a.xlsx")
    check(table)
    assert table.sheets == ("Empty", "Info", "First", "Second")
    assert table.sheet == "First"
    assert table.notes[0] == "only the sheet 'First' was read; other sheets: Empty, Info, Second"
    assert tables.read(book(Only=NUMBERS), "a.xlsx").notes == ()
    words = tables.read(book(Empty=pd.DataFrame(), Info=REMARKS), "a.xlsx")  # no sheet has numbers
    assert words.sheet == "Info"


def test_sheet_can_be_chosen():
    slow = NUMBERS.assign(speed=NUMBERS["speed"] * 3)
    data = book(Info=REMARKS, First=NUMBERS, Second=slow)
    for read in (tables.read, keypoints.read_any):
        table = read(data, "a.xlsx", sheet="Second")
        assert isinstance(table, tables.Table)
        assert table.sheet == "Second"
        check(table, slow)
    assert tables.read(data, "a.xlsx", sheet="Info").columns == ("info",)
    with pytest.raises(ConfigError, match="no sheet 'Third'; it has Info, First, Second"):
        tables.read(data, "a.xlsx", sheet="Third")
    with pytest.raises(ConfigError, match="is not a workbook"):
        tables.read(csv(NUMBERS), "a.csv", sheet="First")
    with pytest.raises(DataError, match=r"The sheet 'Empty' of a\.xlsx has no row"):
        tables.read(book(Empty=pd.DataFrame(), First=NUMBERS), "a.xlsx", sheet="Empty")
    with pytest.raises(DataError, match=r"Each sheet of a\.xlsx has no row"):
        tables.read(book(One=pd.DataFrame(), Two=pd.DataFrame({"a": []})), "a.xlsx")


def test_too_many_trials_or_frames_raise_data_error():
    text = "trial,y\n" + "".join(f"t{i},{i % 7}.5\n" for i in range(tables.MAX_TRIALS + 1))
    table = tables.read(text.encode(), "a.csv")
    with pytest.raises(DataError, match=r"into 10,001 trials; the limit is 10,000"):
        table.to_trials({"trial": "group", "y": "channel"})
    with pytest.raises(DataError, match="which is invalid"):
        annotations.read_annotation(b"start,stop,behaviour\n0,1e6,rest\n", 30.0, "a.csv")
