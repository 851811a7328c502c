"""Files too long for memory: what is read, what is refused, and in which words."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from datasets import large
from datasets.large import open_large
from gdm_core.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(5000, 3)).astype(np.float32)
FRAME = pd.DataFrame(Y, columns=["a", "b", "c"])


def whole(source) -> np.ndarray:
    return source.read(0, source.n_samples)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i2"])
def test_npy_files_are_read_where_they_lie(tmp_path, dtype):
    values = (100 * Y).astype(dtype)
    np.save(tmp_path / "y.npy", values)
    source = open_large(tmp_path / "y.npy", channels=["p", "q", "r"], rate_hz=30)
    assert (source.n_samples, source.n_channels, source.channels, source.rate_hz) == (5000, 3, ("p", "q", "r"), 30)
    np.testing.assert_array_equal(whole(source), values.astype(np.float32))
    np.testing.assert_array_equal(source.read(123, 140), values[123:140].astype(np.float32))
    np.testing.assert_array_equal(whole(pickle.loads(pickle.dumps(source))), values.astype(np.float32))


def test_reads_go_across_files(tmp_path):
    for i in range(5):
        np.save(tmp_path / f"{i}.npy", Y[1000 * i : 1000 * (i + 1)])
    source = open_large(tmp_path)
    assert [(span.name, span.first, span.n_samples) for span in source][1:3] == [("1", 1000, 1000), ("2", 2000, 1000)]
    np.testing.assert_array_equal(source.read(900, 3100), Y[900:3100])
    np.testing.assert_array_equal(np.concatenate([source.read(b, e) for _, b, e in source.blocks(300)]), Y)
    assert all(span.first <= b < e <= span.first + span.n_samples for span, b, e in source.blocks(300))


def write(frame: pd.DataFrame, path, monkeypatch=None) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=700)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, compression="zstd", chunksize=900)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1100)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow"])
def test_columns_are_unpacked_with_their_gaps_trials_and_clock(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(large, "BLOCK_ROWS", 512)
    frame = FRAME.assign(time=np.arange(5000) / 25.0, trial=np.repeat([3, 1, 2], [1000, 2500, 1500]), n=7)
    frame.loc[40:60, "b"] = np.nan
    frame["n"] = pd.array(np.arange(5000) % 9, dtype="Int64")
    frame.loc[5, "n"] = pd.NA
    path = tmp_path / f"y{suffix}"
    write(frame, path)
    source = open_large(path, scratch=tmp_path)
    assert source.channels == ("a", "b", "c", "n")
    assert source.rate_hz == pytest.approx(25)
    assert [(s.name, s.n_samples) for s in source] == [("trial 3", 1000), ("trial 1", 2500), ("trial 2", 1500)]
    expected = frame[["a", "b", "c", "n"]].to_numpy(np.float32, na_value=np.nan)
    np.testing.assert_array_equal(whole(source), expected)
    assert [p.name for p in tmp_path.iterdir()] == [path.name], "what was unpacked has no name that could stay behind"


def test_named_channels_no_trials_and_progress(tmp_path):
    write(FRAME.assign(trial=np.repeat([0, 1], 2500)), tmp_path / "y.parquet")
    seen = []
    source = open_large(
        tmp_path / "y.parquet",
        ["c", "a"],
        trial=None,
        scratch=tmp_path,
        progress=lambda share, said: seen.append(share),
    )
    assert len(source) == 1
    np.testing.assert_array_equal(whole(source), Y[:, [2, 0]])
    assert seen[-1] == 1


def test_a_trial_may_go_on_in_the_next_file(tmp_path):
    frame = FRAME.assign(trial=np.repeat(["x", "y"], [3000, 2000]))
    write(frame[:2000], tmp_path / "0.parquet")
    write(frame[2000:], tmp_path / "1.parquet")
    source = open_large(tmp_path, scratch=tmp_path)
    assert [(s.name, s.n_samples) for s in source] == [("trial x", 3000), ("trial y", 2000)]


def refusal(message: str, *arguments, kind: type[Exception] = DataError, **options) -> None:
    with pytest.raises(kind, match=message):
        open_large(*arguments, **options)


def test_missing_and_foreign_files(tmp_path):
    refusal("There is no file", tmp_path / "none.npy")
    refusal("holds no file of", tmp_path)
    refusal("list of files is empty", [])
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    refusal("cannot be read in parts.*Convert it", tmp_path / "a.csv")
    for name in ("bad.npy", "bad.parquet", "bad.arrow"):
        (tmp_path / name).write_bytes(b"nothing of the kind" * 10)
        refusal(f"{name}.*may be damaged", tmp_path / name)
    np.save(tmp_path / "y.npy", Y)
    refusal("Files of several kinds", [tmp_path / "y.npy", tmp_path / "bad.parquet"])
    refusal("rate_hz is -1", tmp_path / "y.npy", rate_hz=-1, kind=ConfigError)


def test_arrays_of_another_shape(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, Y[:, 0])
    refusal(r"has shape \(5000,\)", path)
    np.save(path, np.asfortranarray(Y))
    refusal("columns one after the other.*ascontiguousarray", path)
    np.save(path, Y.astype(complex))
    refusal("complex64|complex128", path)
    np.save(path, Y)
    path.write_bytes(path.read_bytes()[:-100])
    refusal("cut short", path)
    np.save(path, Y)
    np.save(tmp_path / "z.npy", Y[:, :2])
    refusal(r"z\.npy has 2 columns but y\.npy has 3", tmp_path)
    refusal("3 columns but 2 channels are named", path, channels=["a", "b"], kind=ConfigError)
    refusal("no columns with names", path, trial="trial", kind=ConfigError)


def test_columns_that_do_not_fit(tmp_path):
    write(FRAME, tmp_path / "0.parquet")
    write(FRAME[["a", "b"]], tmp_path / "1.parquet")
    refusal(r"1\.parquet has no column 'c'", tmp_path, scratch=tmp_path)
    one = tmp_path / "0.parquet"
    refusal("no column 'nope'", one, channels=["nope"], scratch=tmp_path)
    refusal("cannot be a channel and tell trials apart", one, channels=["a"], trial="a", kind=ConfigError)
    write(FRAME.assign(word="x"), one)
    refusal("'word' is not numeric", one, channels=["a", "word"], scratch=tmp_path)
    write(FRAME[:0], one)
    refusal("holds no rows", one, scratch=tmp_path)
    write(FRAME[["a"]].astype(str), one)
    refusal("no column was taken for a channel", one, scratch=tmp_path)


def test_trials_that_come_again_or_have_no_name(tmp_path, monkeypatch):
    path = tmp_path / "y.parquet"
    write(FRAME.assign(trial=np.repeat([1, 2, 1], [1000, 2000, 2000])), path)
    refusal("'trial 1' comes again at row 3,000", path, scratch=tmp_path)
    frame = FRAME.assign(trial=np.repeat([1.0, np.nan], 2500))
    write(frame, path)
    refusal("row 2,500 has no 'trial'", path, scratch=tmp_path)
    monkeypatch.setattr(large, "MOST_TRIALS", 100)
    write(FRAME.assign(trial=np.arange(5000) // 10), path)
    refusal("more than 100 trials", path, scratch=tmp_path)


def test_a_disk_without_room_is_said_before_anything_is_written(tmp_path, monkeypatch):
    write(FRAME, tmp_path / "y.parquet")
    monkeypatch.setattr(large.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000})())
    refusal("Unpacking needs .* GB in .*Name another folder", tmp_path / "y.parquet", scratch=tmp_path)


def test_what_was_unpacked_stays_in_its_process(tmp_path):
    write(FRAME, tmp_path / "y.parquet")
    source = open_large(tmp_path / "y.parquet", scratch=tmp_path)
    with pytest.raises(DataError, match="unpacked for this process alone"):
        pickle.dumps(source)
