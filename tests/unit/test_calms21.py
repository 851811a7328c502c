"""CalMS21: the official layout, its irregular trials and damaged files."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets import calms21
from datasets.storage import cache_dir
from gdm_core.errors import DataError
from tests.support.real import recorded

VOCABULARY = {"attack": 0, "investigation": 1, "mount": 2, "other": 3}


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))


def record(n_frames: int = 96, seed: int = 0, **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {
        "keypoints": rng.uniform(10, 500, (n_frames, 2, 2, 7)).round(3).tolist(),
        "scores": rng.uniform(0, 1, (n_frames, 2, 7)).round(3).tolist(),
        "annotations": rng.integers(0, 4, n_frames).tolist(),
        "metadata": {"vocab": VOCABULARY, "annotator-id": 0},
    }
    return made | changes


def write(path: Path, records: dict[str, Any] | str) -> Path:
    text = (
        records
        if isinstance(records, str)
        else json.dumps({"annotator-id_0": {f"task1/train/{name}": value for name, value in records.items()}})
    )
    path.write_text(text)
    return path


def load_one(tmp_path: Path, value: Any) -> Any:
    source = write(tmp_path / "calms21_task1_train.json", {"mouse001_task1_annotator1": value})
    return calms21.load_recordings(source)[0]


def test_trials_keep_values_names_and_order(tmp_path: Path):
    first, second = record(96, 0), record(200, 1)
    source = write(tmp_path / "calms21_task1_train.json", {"mouse001_task1_annotator1": first, "mouse002_x": second})
    trials = calms21.load(source, scaling="pixels")
    assert [trial.name for trial in trials] == ["task1/train/mouse001_task1_annotator1", "task1/train/mouse002_x"]
    assert [trial.n_samples for trial in trials] == [96, 200]
    assert trials.label_names == ("attack", "investigation", "mount", "other")
    assert trials[0].rate_hz == 30.0
    assert trials[0].n_channels == 28
    keypoints = np.asarray(first["keypoints"], dtype=np.float32)
    # resident first, x before y, nose to tail base
    np.testing.assert_array_equal(trials[0].y[:, trials[0].channels.index("resident nose x")], keypoints[:, 0, 0, 0])
    np.testing.assert_array_equal(
        trials[0].y[:, trials[0].channels.index("intruder tail base y")], keypoints[:, 1, 1, 6]
    )
    np.testing.assert_array_equal(trials[1].labels, second["annotations"])


def test_image_scaling_divides_by_width_and_height(tmp_path: Path):
    source = write(tmp_path / "calms21_task1_train.json", {"a": record(500, 0), "b": record(96, 1)})
    recordings = calms21.load_recordings(source)
    image = recordings.to_trials(scaling="image")
    np.testing.assert_allclose(image[0].y[:, :7], np.asarray(recordings[0].xy[:, 0, 0]) / 1024, rtol=1e-6)
    np.testing.assert_allclose(image[0].y[:, 7:14], np.asarray(recordings[0].xy[:, 0, 1]) / 570, rtol=1e-6)


@pytest.mark.parametrize("kind", ["json", "gz", "zip"])
def test_json_gzip_and_zip_read_alike(tmp_path: Path, kind: str):
    plain = write(tmp_path / "calms21_task1_train.json", {"a": record(300)})
    source = plain
    if kind == "gz":
        source = tmp_path / "calms21_task1_train.json.gz"
        source.write_bytes(gzip.compress(plain.read_bytes()))
    if kind == "zip":
        source = tmp_path / "task1_classic_classification.zip"
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("task1/__MACOSX/._calms21_task1_train.json", b"\x00\x05")
            archive.write(plain, "task1_classic_classification/calms21_task1_train.json")
            archive.writestr("task1_classic_classification/calms21_task1_test.json", "{}")
    got = calms21.load(source)
    assert got.fingerprint == calms21.load(plain).fingerprint


def test_conversion_is_cached(tmp_path: Path):
    source = write(tmp_path / "calms21_task1_train.json", {"a": record(), "b": record()})
    seen: list[float] = []
    folder = calms21.convert(source, "train", lambda share, _: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    seen.clear()
    assert calms21.convert(source, "train", lambda share, _: seen.append(share)) == folder
    assert seen == []
    assert sorted(p.name for p in cache_dir("calms21").iterdir()) == [folder.name]


def test_zero_zero_is_missing(tmp_path: Path):
    keypoints = np.asarray(record()["keypoints"])
    keypoints[5, 0, :, 3] = 0.0
    keypoints[6, 0, 0, 3] = 0.0
    table = load_one(tmp_path, record(keypoints=keypoints.tolist()))
    assert np.isnan(table.xy[5, 0, :, 3]).all()
    assert table.xy[6, 0, 0, 3] == 0.0
    assert np.isnan(table.xy).sum() == 2
    assert any("(0, 0)" in note for note in table.notes)


def test_nan_null_and_empty_start_are_missing(tmp_path: Path):
    keypoints = np.asarray(record(120)["keypoints"])
    keypoints[:30] = np.nan
    keypoints[50, 1, 0, 2] = np.nan
    text = json.dumps({"annotator-id_0": {"task1/train/a": record(120, keypoints=keypoints.tolist())}})
    assert "NaN" in text
    for i, written in enumerate((text, text.replace("NaN", "null"))):
        source = write(tmp_path / f"calms21_task1_train{i}.json", written)
        table = calms21.load_recordings(source)[0]
        assert np.isnan(table.xy).sum() == 30 * 28 + 2
        assert any("first 30 frames" in note for note in table.notes)


def test_labels_are_fitted_to_the_frames(tmp_path: Path):
    longer = load_one(tmp_path, record(100, annotations=[1] * 103))
    assert longer.labels.tolist() == [1] * 100
    assert any("3 labels past the last frame" in note for note in longer.notes)
    shorter = load_one(tmp_path, record(100, annotations=[2] * 90))
    assert shorter.labels.tolist() == [2] * 90 + [-1] * 10


def test_labels_follow_the_vocabulary(tmp_path: Path):
    metadata = {"vocab": {"other": 0, "mount": 1, "grooming": 2}}
    table = load_one(tmp_path, record(99, annotations=[0, 1, 2] * 33, metadata=metadata))
    assert table.labels.tolist() == [3, 2, -1] * 33
    assert table.label_names == calms21.LABEL_NAMES


@pytest.mark.parametrize(
    "change",
    [
        {"keypoints": np.zeros((9, 2, 2, 6)).tolist()},
        {"keypoints": [[[["a"] * 7] * 2] * 2]},
        {"annotations": [[1]] * 96},
        {"metadata": {"vocab": {"attack": "zero"}}},
    ],
)
def test_damaged_trial_is_named_and_not_cached(tmp_path: Path, change: dict[str, Any]):
    with pytest.raises(DataError, match="mouse001"):
        load_one(tmp_path, record(**change))
    assert list(cache_dir("calms21").iterdir()) == []


def test_truncated_file_is_refused(tmp_path: Path):
    source = write(tmp_path / "calms21_task1_train.json", {"a": record(), "b": record()})
    content = source.read_bytes()
    source.write_bytes(content[: len(content) * 3 // 4])
    with pytest.raises(DataError, match="cut short"):
        calms21.load(source)


def test_oversized_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calms21, "_MAX_JSON_BYTES", 100_000)
    bomb = tmp_path / "task1_classic_classification.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("calms21_task1_train.json", '{"annotator-id_0": {' + " " * 1_000_000)
    with pytest.raises(DataError, match="declares 1,000,020 bytes"):
        calms21.load(bomb)
    packed = tmp_path / "calms21_task1_train.json.gz"
    packed.write_bytes(gzip.compress(b'{"annotator-id_0": {' + b" " * 1_000_000))
    with pytest.raises(DataError, match="more than 100,000 bytes"):
        calms21.load(packed)


def test_missing_file_names_the_source(tmp_path: Path):
    for source in (tmp_path / "absent.zip", tmp_path):
        with pytest.raises(DataError, match=r"s0vdx-0k302.*licence"):
            calms21.load(source)
    other = tmp_path / "task1.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match=r"readme.txt"):
        calms21.load(other)
    other.write_bytes(b"not a zip")
    with pytest.raises(DataError, match="zip"):
        calms21.load(other)


def test_only_requested_split_is_read(tmp_path: Path):
    both = {"annotator-id_0": {"task1/train/a": record(96), "task1/test/b": record(97)}}
    source = write(tmp_path / "calms21_task1.json", json.dumps(both))
    assert calms21.load(source, "train").n_samples == 96
    assert calms21.load(source, "test").n_samples == 97


def test_real_trial_in_official_layout(tmp_path: Path):
    source = recorded("calms21/mouse083_official_layout.json.gz")
    trial = calms21.load(source, "test", scaling="pixels")[0]
    with np.load(source.with_name("mouse083_test.npz"), allow_pickle=False) as real:
        np.testing.assert_allclose(trial.y.reshape(-1, 2, 2, 7), real["keypoints"], rtol=1e-6)
        np.testing.assert_array_equal(trial.labels, real["annotations"])
    assert trial.n_samples == 4881
    recording = calms21.load_recordings(source, "test")[0]
    length = np.linalg.norm(recording.xy[..., 0] - recording.xy[..., 6], axis=2)
    np.testing.assert_allclose(np.median(length, axis=0), [210, 186], atol=1)  # the resident is the larger one
