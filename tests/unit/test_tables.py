"""Tables of your own: every way of writing the same data is understood alike, and what is wrong is said before a fit."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, tables
from datasets.readers import formats
from datasets.tables import Limits, Role
from gdm_core.errors import ConfigError, DataError
from tests.support.feather_reader import ENDING, read_feather

REAL = Path(os.environ.get("GDM_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
PLAIN = pd.DataFrame(
    {
        "time": np.arange(60) / 25,
        "speed": np.sin(np.arange(60) / 7).round(3),
        "height": np.cos(np.arange(60) / 5).round(3) + 10,
        "behaviour": ["run"] * 30 + ["rest"] * 30,
    }
)


def csv(frame: pd.DataFrame = PLAIN, **options: Any) -> bytes:
    return frame.to_csv(index=False, **options).encode()


def check_plain(table: tables.Table) -> None:
    trial = table.to_trials()[0]
    assert trial.channels == ("speed", "height")
    assert trial.rate_hz == pytest.approx(25)
    np.testing.assert_allclose(trial.y, PLAIN[["speed", "height"]], rtol=1e-6)
    assert table.to_trials().label_names == ("rest", "run")
    assert trial.labels is not None
    assert trial.labels.tolist() == [1] * 30 + [0] * 30


@pytest.mark.parametrize(
    "data",
    [
        csv(),
        csv(sep=";"),
        csv(sep="\t"),
        csv(sep="|"),
        csv(sep=";", decimal=","),
        csv(quoting=1),
        csv(quoting=1, decimal=","),
        b"\xef\xbb\xbf" + csv(),
        csv().decode().encode("utf-16"),
        csv().replace(b"\n", b"\r\n"),
        b"# recorded on Monday\n# by me\n" + csv(),
        csv().replace(b"\n", b",\n").replace(b"behaviour,\n", b"behaviour\n", 1),
        csv() + b"\n\n\n",
    ],
    ids=["comma", "semicolon", "tab", "bar", "decimal comma", "quoted", "quoted decimal comma", "bom", "utf-16", "crlf",
         "comments", "trailing delimiter", "blank lines"],
)  # fmt: skip
def test_the_same_table_however_it_is_written(data: bytes):
    check_plain(tables.read(data, "mine.csv"))


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "npz", "csv.gz", "path", "file"])
def test_the_same_table_in_every_format(kind: str, tmp_path: Path):
    out = io.BytesIO()
    if kind == "parquet":
        PLAIN.to_parquet(out, index=False)
    elif kind == "xlsx":
        PLAIN.to_excel(out, index=False)
    elif kind == "npz":
        np.savez(
            out,
            y=PLAIN[["speed", "height"]].to_numpy(),
            channels=np.array(["speed", "height"]),
            time=PLAIN["time"].to_numpy(),
            behaviour=PLAIN["behaviour"].to_numpy(dtype="U5"),
        )
    elif kind == "csv.gz":
        out.write(gzip.compress(csv()))
    elif kind == "path":
        path = tmp_path / "mine.csv"
        path.write_bytes(csv())
        check_plain(tables.read(path))
        return
    else:
        check_plain(tables.read(io.BytesIO(csv()), "mine.csv"))
        return
    check_plain(tables.read(out.getvalue(), f"mine.{kind}"))


def test_latin_letters_in_an_old_encoding():
    table = tables.read("Höhe,Geschwindigkeit\n1,2\n3,4\n".encode("cp1252"), "alt.csv")
    assert table.columns == ("Höhe", "Geschwindigkeit")


def test_a_table_without_header_gets_numbered_columns():
    table = tables.read(b"1,2\n3,4\n5,6\n", "bare.csv")
    np.testing.assert_array_equal(table.to_trials()[0].y, [[1, 2], [3, 4], [5, 6]])
    assert any("no header" in note for note in table.notes)


def test_repeated_and_blank_column_names():
    table = tables.read(b"a,a,,a\n1,2,3,4\n5,6,7,9\n", "twice.csv")
    assert table.columns == ("a", "a (2)", "column 3", "a (3)")
    assert table.to_trials()[0].n_channels == 4
    assert any("more than once" in note for note in table.notes)


def test_missing_values_words_among_numbers_and_infinities():
    rows = [b"%d,%d" % (i, i * i % 7) for i in range(40)]
    rows[3] = b"3,NA"
    rows[4] = b"4,-"
    rows[5] = b"5,broken"
    rows[6] = b"6,inf"
    rows[7] = b"7,1e300"
    table = tables.read(b"a,b\n" + b"\n".join(rows), "mixed.csv")
    y = table.to_trials({"a": "channel", "b": "channel"})[0].y
    assert np.flatnonzero(np.isnan(y[:, 1])).tolist() == [3, 4, 5, 6, 7]
    report = table.report({"a": "channel", "b": "channel"})
    assert report.channels[1].missing == 5
    assert report.channels[1].longest_gap == 5
    assert any("1 cells of 'b' are not numbers" in note for note in report.notes)


@pytest.mark.parametrize(
    ("data", "name", "says"),
    [
        (b"", "a.csv", "empty"),
        (b"\n\n\n", "a.csv", "no rows"),
        (b"a,b,c\n", "a.csv", "header but no rows"),
        (b"a,b\n1,2\n3,4,5\n6,7\n", "a.csv", "line 3 has 3 fields where 2 are expected"),
        (b"a,b\n1,2,3,4\n1,2,3,4\n", "a.csv", "more fields than the 2 columns"),
        (b"\x00\x01\x02PK", "a.csv", "not text"),
        (b"PK\x03\x04nonsense", "a.xlsx", "not a readable .xlsx"),
        (b"PAR1nonsensePAR1", "a.parquet", "not a readable Parquet"),
        (b"hello", "a.npz", "not a readable .npz"),
        (b"hello", "a.npy", "no readable header"),
        (b"\x1f\x8bnonsense", "a.csv.gz", "cannot be read"),
        (gzip.compress(csv())[:-9], "a.csv.gz", "cannot be read"),
        (b"hello", "a.xls", "Save the sheet as .xlsx"),
        (b"hello", "a.docx", "readable: .csv"),
        (b"hello", "a", "readable: .csv"),
        (b"scorer,a,a\nbodyparts,nose,nose\ncoords,x,y\n0,1,2\n", "a.csv", "DeepLabCut file"),
        (b"a\nx\ny\nz\n" * 30, "a.csv", "no column is a channel"),
    ],
)
def test_bad_files_say_what_is_wrong(data: bytes, name: str, says: str):
    with pytest.raises(DataError, match=says):
        tables.read(data, name).to_trials()


def test_the_name_is_needed_and_paths_must_exist(tmp_path: Path):
    with pytest.raises(DataError, match="no name"):
        tables.read(csv())
    with pytest.raises(DataError, match="no file at"):
        tables.read(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="every is 0"):
        tables.read(csv(), "a.csv", every=0)


def test_paths_may_not_leave_the_data_folder(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.csv").write_bytes(csv())
    (tmp_path / "data" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "data" / "mine.csv").write_bytes(csv())
    assert tables.path_within(tmp_path / "data", "mine.csv").name == "mine.csv"
    for wanted in ("../secret.csv", str(tmp_path / "secret.csv"), "link.csv", "/etc/passwd"):
        with pytest.raises(DataError, match="outside the data folder"):
            tables.path_within(tmp_path / "data", wanted)


@pytest.mark.bulk
def test_ten_million_rows_are_refused_or_thinned_by_choice(tmp_path: Path):
    path = tmp_path / "long.csv"
    block = b"".join(b"%d,%d\n" % (i, i % 7) for i in range(100_000))
    with path.open("wb") as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(block)
    with pytest.raises(DataError, match=r"more than 5,000,000 rows.*every=n"):
        tables.read(path)
    table = tables.read(path, every=100)
    assert table.n_rows == 100_000
    np.testing.assert_array_equal(table.frame["a"].to_numpy()[:3], [0, 100, 200])


@pytest.mark.parametrize("chunk", [7, 10, 100_000])
def test_thinning_keeps_each_nth_row_across_pieces(chunk: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.readers.delimited._CHUNK_ROWS", chunk)
    table = tables.read(b"a,b\n" + b"".join(b"%d,1\n" % i for i in range(50)), "a.csv", every=3)
    assert table.frame["a"].tolist() == list(range(0, 50, 3))


def test_a_column_whose_kind_changes_between_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.readers.delimited._CHUNK_ROWS", 10)
    rows = [b"%d,%d" % (i, i % 5) for i in range(40)]
    rows[25] = b"25,oops"
    y = tables.read(b"a,b\n" + b"\n".join(rows), "a.csv").to_trials({"a": "channel", "b": "channel"})[0].y
    expected = np.arange(40.0) % 5
    expected[25] = np.nan
    np.testing.assert_array_equal(y[:, 1], expected)


def test_files_over_the_limits_are_refused_with_the_limit():
    with pytest.raises(DataError, match="the limit is 100"):
        tables.read(csv(), "a.csv", limits=Limits(file_bytes=100))
    with pytest.raises(DataError, match="limit is 3"):
        tables.read(csv(), "a.csv", limits=Limits(columns=3))
    with pytest.raises(DataError, match="limit of 1,000 bytes"):
        tables.read(gzip.compress(csv() * 5), "a.csv.gz", limits=Limits(unpacked_bytes=1000))
    out = io.BytesIO()
    PLAIN.to_parquet(out)
    with pytest.raises(DataError, match="59 rows"):
        tables.read(out.getvalue(), "a.parquet", limits=Limits(rows=59))


def zip_bytes(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("ending", ["npz", "xlsx"])
def test_zip_bombs_and_path_tricks_are_refused(ending: str):
    bomb = zip_bytes({"y.npy": b"\0" * 60_000_000})
    with pytest.raises(DataError, match=r"zip bomb|limit"):
        tables.read(bomb, f"a.{ending}")
    for name in ("../../etc/y.npy", "/etc/y.npy", "C:/y.npy", "..\\y.npy"):
        with pytest.raises(DataError, match="points out of it"):
            tables.read(zip_bytes({name: b"1"}), f"a.{ending}")
    with pytest.raises(DataError, match="parts; the limit"):
        tables.read(zip_bytes({f"{i}.npy": b"" for i in range(2001)}), f"a.{ending}")


def test_a_zip_that_lies_about_its_size_is_refused():
    data = bytearray(zip_bytes({"y.npy": b"\0" * 5_000_000}))
    honest = (5_000_000).to_bytes(4, "little")
    lie = (1000).to_bytes(4, "little")
    for name in ("a.npz", "a.xlsx"):
        with pytest.raises(DataError, match=r"damaged|declares"):
            tables.read(bytes(data).replace(honest, lie), name)


def test_pickles_are_refused_and_never_opened(tmp_path: Path):
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    out = io.BytesIO()
    np.savez(out, y=np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match="pickled"):
        tables.read(out.getvalue(), "a.npz")
    plain = io.BytesIO()
    np.save(plain, np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match="pickled"):
        tables.read(plain.getvalue(), "a.npy")
    with pytest.raises(DataError, match="header"):
        tables.read(pickle.dumps(Trap()), "a.npy")
    assert not (tmp_path / "sprung").exists()


def test_a_header_of_numpy_that_never_ends_is_called_damaged():
    out = io.BytesIO()
    np.save(out, np.arange(20.0))
    for old, new in ((b"}", b"("), (b"(20,)", b"((20,"), (b"(20,), }", b"(20,)\0{")):
        data = out.getvalue().replace(old, new, 1)
        with pytest.raises(DataError, match="no readable header"):
            tables.read(data, "a.npy")


def test_an_array_that_declares_more_than_it_holds_sets_no_memory_aside():
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": (10_000_000, 10)})
    with pytest.raises(DataError, match="declares 800,000,000 bytes"):
        tables.read(out.getvalue() + b"\0" * 80, "a.npy")
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with pytest.raises(DataError, match="the limit is"):
        tables.read(huge.getvalue(), "a.npy")


def test_npz_of_several_trials():
    out = io.BytesIO()
    np.savez(out, y=np.arange(24.0).reshape(3, 4, 2), other=np.zeros(5))
    table = tables.read(out.getvalue(), "a.npz")
    trials = table.to_trials()
    assert [trial.y.shape for trial in trials] == [(4, 2)] * 3
    assert trials[2].y[0].tolist() == [16, 17]
    assert any("other" in note for note in table.notes)


def test_progress_rises_to_one():
    seen: list[float] = []
    tables.read(csv(pd.concat([PLAIN] * 20)), "a.csv", progress=lambda share, _: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) > 1


@pytest.mark.parametrize("name", sorted(tables.TEMPLATES))
def test_templates_are_read_back(name: str):
    data = tables.template(name)
    if name.startswith("deeplabcut"):
        recording = keypoints.read(data, name)
        assert recording.animals == ("mouse1", "mouse2")
        assert recording.parts == ("nose", "neck", "tail_base")
        return
    trials = tables.read(data, name).to_trials()
    assert len(trials) == 2
    assert trials.label_names == ("fast", "slow")
    assert trials[0].rate_hz == pytest.approx(30, rel=1e-3)
    with pytest.raises(ConfigError, match="no template"):
        tables.template("nothing.csv")


@pytest.mark.bulk
def test_ten_megabytes_take_little_more_memory_than_their_numbers():
    import tracemalloc

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50_000, 20)).round(6), columns=[f"c{i}" for i in range(20)])
    data = csv(frame)
    tracemalloc.start()
    table = tables.read(data, "a.csv")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.n_rows == 50_000
    assert peak < 2 * len(data)  # on top of the upload itself


def test_the_real_tables_are_understood():
    path = REAL / "f1" / "pos_shanghai_2025_race.parquet"
    if not path.is_file():
        pytest.skip(f"the real position samples are not at {path}")
    table = tables.read(path)
    roles = table.roles
    assert (roles["driver"], roles["t"], roles["x"], roles["y"]) == (
        Role.GROUP,
        Role.TIME,
        Role.POSITION,
        Role.POSITION,
    )
    trials = table.to_trials(resample_to_fixed_step=True, rate_hz=4.0)
    assert len(trials) == 20
    assert np.isnan(trials[0].y).mean() < 0.05  # its clock stops for up to 1.4 s


def test_an_npz_names_its_channels_and_says_what_they_are_in():
    y = np.random.default_rng(0).normal(size=(50, 2))

    def read(**more: object) -> tables.Table:
        out = io.BytesIO()
        np.savez(out, y=y, **more)
        return tables.read(out.getvalue(), "a.npz")

    table = read(names=np.array([b"depth", b"pitch"]), units="cm")
    assert table.columns == ("depth", "pitch")
    assert table.report().notes[0] == "values are in cm, as the file says"
    each = read(names=["depth", "pitch"], units=["cm", "deg"])
    assert each.report().notes[0] == "as the file says, depth in cm, pitch in deg"
    assert read(units=["cm", ""]).report().notes[0] == "as the file says, y1 in cm, y2 without a unit"
    assert (
        read(units=["cm", "s", "V"]).report().notes[0]
        == "'units' does not give 2 channels a unit each and was not used"
    )
    sung = read(unit=np.array(["a", "b"] * 25))
    assert sung.columns == ("y1", "y2", "unit"), "a word for each sample is a column"
    words = read(names=np.array(["walk", "rest"] * 25))
    assert words.columns == ("y1", "y2", "names"), "a word for each sample is a column"
    assert read(channels=["one"]).report().notes[0] == "'channels' does not name 2 channels and was not used"


def test_a_reader_of_another_kind_of_file_is_one_function_and_one_line(monkeypatch):
    """tests/support/feather_reader.py, the worked example of docs/change.md."""
    with pytest.raises(DataError, match="of a kind that is not read here"):
        tables.read(b"ARROW1", f"mine{ENDING}")
    monkeypatch.setitem(formats.READERS, ENDING, read_feather)
    out = io.BytesIO()
    PLAIN.to_feather(out)
    check_plain(tables.read(out.getvalue(), f"mine{ENDING}"))
    with_lists = PLAIN.assign(notes=[["a", "b"]] * len(PLAIN))
    with_lists.to_feather(out := io.BytesIO())
    found = tables.read(out.getvalue(), f"mine{ENDING}")
    check_plain(found)
    assert any("notes" in said for said in found.notes)
    with pytest.raises(DataError, match=r"mine\.feather is not a readable Feather file .* Save it again as"):
        tables.read(b"no feather at all", f"mine{ENDING}")
    PLAIN[:0].to_feather(out := io.BytesIO())
    with pytest.raises(DataError, match="holds no rows"):
        tables.read(out.getvalue(), f"mine{ENDING}")
