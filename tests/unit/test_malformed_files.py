"""A thousand broken files: every reader answers with a result or with a DataError that says what is wrong."""

from __future__ import annotations

import gzip
import io
import json
import warnings
from collections.abc import Callable
from functools import cache

import h5py
import numpy as np
import pytest

from datasets import calms21, keypoints, tables
from gdm_core.errors import DataError
from gdm_core.trials import Trials

N_FILES = 1000
ENDINGS = (
    ".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".npz", ".npy", ".xlsx", ".h5", ".slp", ".xls", ".json", "",
)  # fmt: skip


@cache
def sleap_analysis() -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file["tracks"] = np.random.default_rng(0).uniform(0, 500, (2, 2, 3, 60))
        file["node_names"] = np.array([b"nose", b"neck", b"tail"])
        file["track_names"] = np.array([b"one", b"two"])
        file["point_scores"] = np.full((2, 3, 60), 0.9)
        file["edge_inds"] = np.array([[0, 1], [1, 2]])
    return out.getvalue()


@cache
def sleap_project() -> bytes:
    n = 30
    frames = np.zeros(
        n, [(k, "<i8") for k in ("frame_id", "video", "frame_idx", "instance_id_start", "instance_id_end")]
    )
    frames["frame_idx"] = frames["instance_id_start"] = np.arange(n)
    frames["instance_id_end"] = np.arange(n) + 1
    instances = np.zeros(n, [(k, "<i8") for k in ("instance_type", "track", "point_id_start", "point_id_end")])
    instances["instance_type"] = 1
    instances["point_id_start"], instances["point_id_end"] = 2 * np.arange(n), 2 * np.arange(n) + 2
    points = np.zeros(2 * n, [("x", "<f8"), ("y", "<f8"), ("visible", "?"), ("score", "<f8")])
    points["x"], points["y"], points["visible"] = np.arange(2 * n), 5.0, True
    skeleton = {"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}
    about = {"skeletons": [skeleton], "nodes": [{"name": "nose"}, {"name": "tail"}]}
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file["frames"], file["instances"], file["pred_points"] = frames, instances, points
        file["tracks_json"] = np.array([b'[0, "first"]'])
        file.create_group("metadata").attrs["json"] = np.bytes_(json.dumps(about).encode())
    return out.getvalue()


@cache
def keypoint_npz() -> bytes:
    out = io.BytesIO()
    np.savez(
        out, keypoints=np.ones((50, 2, 2, 3), np.float32), labels=np.arange(50) % 3, names=np.array(["a", "b", "c"])
    )
    return out.getvalue()


@cache
def valid() -> list[tuple[str, bytes]]:
    """A good file of every kind."""
    made = [(name, tables.template(name)) for name in tables.TEMPLATES]
    csv = tables.template("table.csv")
    made += [
        ("table.csv.gz", gzip.compress(csv)),
        ("semicolon.csv", csv.replace(b".", b"%").replace(b",", b";").replace(b"%", b",")),
        ("flat.csv", b"frame,nose_x,nose_y,tail_x,tail_y\n" + b"".join(b"%d,1.5,2,3,%d\n" % (i, i) for i in range(40))),
        ("analysis.h5", sleap_analysis()),
        ("project.slp", sleap_project()),
        ("keypoints.npz", keypoint_npz()),
        ("utf16.csv", csv.decode().encode("utf-16")),
    ]
    return made


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(0, len(data)))]


def flip_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(0, len(data), int(rng.integers(1, 40))):
        changed[at] = int(rng.integers(0, 256))
    return bytes(changed)


def flip_head(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(0, min(len(data), 400), int(rng.integers(1, 12))):
        changed[at] = int(rng.integers(0, 256))
    return bytes(changed)


def flip_tail(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(max(0, len(data) - 600), len(data), int(rng.integers(1, 12))):
        changed[at] = int(rng.integers(0, 256))
    return bytes(changed)


def shuffle_lines(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(lines[i] for i in rng.permutation(len(lines)))


def drop_piece(data: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(0, len(data)))
    return data[:start] + data[start + int(rng.integers(1, 200)) :]


def repeat_piece(data: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(0, len(data)))
    return data[:start] + data[start : start + 300] * 3 + data[start:]


def other_header(data: bytes, rng: np.random.Generator) -> bytes:
    other = valid()[int(rng.integers(len(valid())))][1]
    keep = int(rng.integers(1, 300))
    return other[:keep] + data[keep:]


def noise(data: bytes, rng: np.random.Generator) -> bytes:
    return rng.integers(0, 256, int(rng.integers(0, 3000)), dtype=np.uint8).tobytes()


def noise_text(data: bytes, rng: np.random.Generator) -> bytes:
    letters = np.frombuffer(b"0123456789.,;\t\n\n\"' -+eENaxy|#\r", dtype=np.uint8)
    return rng.choice(letters, int(rng.integers(1, 2000))).tobytes()


def text_cells(data: bytes, rng: np.random.Generator) -> bytes:
    cells = data.split(b",")
    for at in rng.integers(0, len(cells), 5):
        cells[at] = [b"", b"text", b"inf", b"1e400", b'"', b"1,5", b"\xff\xfe", b"0x1", b"9" * 400][
            int(rng.integers(9))
        ]
    return b",".join(cells)


MUTATIONS: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    cut, flip_bytes, flip_head, flip_tail, shuffle_lines, drop_piece, repeat_piece, other_header, noise, noise_text, text_cells,
)  # fmt: skip


def read_everything(name: str, data: bytes) -> int:
    """Give a file to both readers and use what they return; the number of valid results."""
    good = 0
    try:
        table = tables.read(data, name)
        table.report()
        assert isinstance(table.to_trials(fill_seconds=0.1, drop_outliers=True), Trials)
        good += 1
    except DataError as error:
        check_message(error, name)
    try:
        recording = keypoints.read(data, name)
        keypoints.report(recording)
        cleaned = keypoints.clean(recording, 0.3, True, 0.1, True, True)
        assert cleaned.to_trial().n_samples == recording.n_frames
        good += 1
    except DataError as error:
        check_message(error, name)
    return good


def check_message(error: DataError, name: str) -> None:
    message = str(error)
    assert 15 < len(message) < 2000, message
    assert "Traceback" not in message
    assert "\n\n" not in message


def test_a_thousand_malformed_files_give_a_message_or_a_result():
    rng = np.random.default_rng(20)
    files = valid()
    good = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)  # openpyxl's remarks on odd workbooks
        for i in range(N_FILES):
            name, data = files[i % len(files)]
            broken = MUTATIONS[int(rng.integers(len(MUTATIONS)))](data, rng)
            if rng.random() < 0.2:
                name = f"file{ENDINGS[int(rng.integers(len(ENDINGS)))]}"
            try:
                good += read_everything(name, broken)
            except Exception as error:
                error.add_note(f"file {i}: {name}, {len(broken)} bytes, starts with {broken[:60]!r}")
                raise
    assert 50 < good < 1900  # the mutations are neither all harmless nor all deadly


@pytest.mark.parametrize("name", [name for name, _ in valid()])
def test_every_seed_file_is_good_before_it_is_broken(name: str):
    assert read_everything(name, dict(valid())[name]) >= 1


def test_malformed_calms21_files_give_a_message_or_a_result(tmp_path):
    rng = np.random.default_rng(21)
    record = {
        "keypoints": rng.uniform(0, 500, (30, 2, 2, 7)).round(1).tolist(),
        "scores": np.full((30, 2, 7), 0.5).tolist(),
        "annotations": [3] * 30,
        "metadata": {"vocab": {"attack": 0, "investigation": 1, "mount": 2, "other": 3}},
    }
    data = json.dumps({"annotator-id_0": {"task1/train/a": record, "task1/train/b": record}}).encode()
    good = 0
    for i in range(150):
        ending = "json" if i % 3 else "json.gz"
        broken = MUTATIONS[int(rng.integers(len(MUTATIONS)))](data if i % 3 else gzip.compress(data), rng)
        path = tmp_path / f"calms21_task1_train_{i}.{ending}"
        path.write_bytes(broken)
        try:
            good += len(calms21.load(path, cache_folder=tmp_path / "cache")) > 0
        except DataError as error:
            check_message(error, path.name)
    assert 0 < good < 150
