"""Keypoint files of DeepLabCut, SLEAP and plain tables, and their cleaning."""

import gzip
import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, mice
from datasets.features import add_units
from datasets.readers.pose import KeypointSet, KeypointTable
from datasets.splits import split_recording
from datasets.tables import template
from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import interpolate_gaps
from tests.support import table_files
from tests.support.real import recorded
from tests.support.table_files import hdf, read

PARTS, N = ("nose", "left ear", "tail"), 40


def values(n_animals: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    xy = np.cumsum(rng.normal(0, 1, (N, n_animals, 2, len(PARTS))), axis=0).round(3) + 200
    return xy, rng.uniform(0.5, 1, (N, n_animals, len(PARTS))).round(3)


def dlc_frame(
    animals: tuple[str, ...], levels: tuple[str, ...] = ("scorer", "individuals", "bodyparts", "coords")
) -> Any:
    xy, score = values(len(animals))
    columns, data = [], []
    for a, animal in enumerate(animals):
        for p, part in enumerate(PARTS):
            for axis, column in (("x", xy[:, a, 0, p]), ("y", xy[:, a, 1, p]), ("likelihood", score[:, a, p])):
                names = {"scorer": "DLC_net", "individuals": animal, "animals": animal, "axis": axis}
                names |= dict.fromkeys(("bodyparts", "keypoints"), part) | dict.fromkeys(("coords", "coord"), axis)
                columns.append(tuple(names[level] for level in levels))
                data.append(column)
    return pd.DataFrame(np.column_stack(data), columns=pd.MultiIndex.from_tuples(columns, names=levels))


def check(table: KeypointTable, n_animals: int) -> None:
    xy, score = values(n_animals)
    assert table.parts == PARTS
    np.testing.assert_allclose(table.xy, xy, rtol=1e-6)
    np.testing.assert_allclose(table.scores, score, rtol=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "levels",
    [
        ("scorer", "bodyparts", "coords"),
        ("scorer", "individuals", "bodyparts", "coords"),
        ("scorer", "individuals", "keypoints", "coord"),
        ("bodyparts", "coords"),
    ],
)
def test_deeplabcut_csv_with_any_header_rows(levels: tuple[str, ...]):
    animals = ("one", "two") if "individuals" in levels else ("animal",)
    data = dlc_frame(animals, levels).to_csv().encode()
    table = keypoints.read(data, "a.csv")
    assert table.animals == animals
    check(table, len(animals))
    check(keypoints.read(gzip.compress(data), "a.csv.gz"), len(animals))
    assert any("30 Hz is assumed" in note for note in table.notes)
    assert keypoints.read(data, "a.csv", rate_hz=60).rate_hz == 60


@pytest.mark.parametrize("lines", [1, 2])
def test_deeplabcut_csv_saved_again_by_pandas(lines: int):
    text = dlc_frame(("one", "two")).to_csv()
    if lines == 2:  # without the scorer row
        text = text.split("\n", 1)[1]
    mangled = pd.read_csv(io.StringIO(text), index_col=0).to_csv()
    assert ".1," in mangled.split("\n", 1)[0]
    table = keypoints.read(mangled.encode(), "a.csv")
    assert table.animals == ("one", "two")
    check(table, 2)


def test_deeplabcut_extra_columns_are_dropped():
    frame = dlc_frame(("one", "two"))
    frame[("DLC_net", "single", "corner", "x")] = 1.0
    frame[("DLC_net", "single", "corner", "y")] = 2.0
    frame[("DLC_net", "one", "nose", "z")] = 9.0
    table = keypoints.read(frame.to_csv().encode(), "a.csv")
    assert table.animals == ("one", "two")
    check(table, 2)
    assert any("single" in note for note in table.notes)
    assert any("(z)" in note for note in table.notes)


@pytest.mark.parametrize(
    ("names", "are_keypoints"),
    [
        ("nose_x nose_y tail_x tail_y", True),
        ("nose.x nose.y tail.x tail.y", True),
        ("nose_x nose_y speed", False),
        ("acc_x acc_y acc_z gyro_x gyro_y gyro_z", False),
        ("wrist_acc_x wrist_acc_y ankle_acc_x ankle_acc_y", False),
        ("a b c d", False),
    ],
)
def test_only_image_positions_look_like_keypoints(names: str, are_keypoints: bool):
    columns = names.split()
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, len(columns))), columns=columns)
    table = read(frame)
    assert keypoints.looks_like_keypoints(table) is are_keypoints


def cohort(n: int = 30, **columns: object) -> pd.DataFrame:
    """Return two recordings of two animals each, at 20 Hz, with a treatment."""
    parts = []
    for recording, animal, group in (("r1", 1, "saline"), ("r1", 2, "drug"), ("r2", 1, "saline"), ("r2", 2, "drug")):
        walk = np.random.default_rng(len(parts)).normal(size=(n, 4)).cumsum(axis=0) + 100
        named = pd.DataFrame(walk, columns=["nose_x", "nose_y", "tail_x", "tail_y"])
        parts.append(named.assign(recording=recording, animal=animal, group=group, time=np.arange(n) / 20))
    return pd.concat(parts, ignore_index=True).assign(**columns)


def poses_of(frame: pd.DataFrame) -> KeypointTable:
    found = keypoints.from_table(read(frame))
    assert found is not None
    return found


def test_table_with_several_recordings_is_split():
    frame = cohort(label=["rest", "walk"] * 60)
    frame.loc[5, "recording"] = None
    made = poses_of(frame)
    assert [name for name, _ in made.recordings] == [f"recording r{r}, animal {a}" for r in (1, 2) for a in (1, 2)]
    assert [frames for _, frames in made.recordings] == [30, 30, 30, 30]
    assert np.flatnonzero(np.isnan(made.xy[:, 0, 0, 0])).tolist() == [5]  # its place in time stays
    assert made.rate_hz == pytest.approx(20)
    assert made.notes[:3] == (
        "'recording' and 'animal' separate 4 recordings; each is a trial",
        "'group' (saline, drug) does not separate recordings and was ignored",
        "1 of 120 rows without a recording were left out",
    )
    assert made.notes[3] == "1 gap of up to 0.1 s became 1 missing row"
    assert not any("assumed" in note for note in made.notes)
    train, test = split_recording(made)
    assert ([part.name for part in train], [part.name for part in test]) == (
        ["recording r1, animal 1", "recording r1, animal 2"],
        ["recording r2, animal 1", "recording r2, animal 2"],
    )
    np.testing.assert_allclose(test[0].xy[:, 0, 0, 0], frame["nose_x"][60:90], rtol=1e-5)
    assert [made.label_names[z] for z in test[0].labels[:2]] == ["rest", "walk"]
    assert len(made.to_trials()) == 4


def test_recordings_are_cleaned_separately():
    """A gap at the end of a recording is not filled from the next one."""
    frame = cohort()
    frame.loc[25:29, ["nose_x", "nose_y"]] = np.nan
    frame.loc[70:72, ["nose_x", "nose_y"]] = np.nan
    made = keypoints.clean(poses_of(frame), fill_seconds=1.0)
    assert np.isnan(made.xy[25:30, 0, 0, 0]).all()
    assert np.isfinite(made.xy[70:73, 0, 0, 0]).all()
    assert made.notes[-1].startswith("recording r2, animal 1: 5% of the coordinates were filled")


def npz(**arrays: object) -> KeypointTable:
    xy = np.random.default_rng(0).normal(size=(60, 1, 2, 3)).cumsum(axis=0) + 50
    return keypoints.read(table_files.npz(keypoints=xy, **arrays), "track.npz")


def test_npz_metadata_is_used():
    made = npz(names=["center", "nose", "tail"], units="cm", time=5 + np.arange(60) / 25)
    assert (made.parts, made.unit, made.start_seconds) == (("center", "nose", "tail"), "cm", 5)
    assert made.rate_hz == pytest.approx(25)
    assert made.notes == ("coordinates are in cm, according to the file",)
    called = add_units([*made.channels[:1], *made.to_trials("egocentric")[0].channels], made.unit)
    assert called["animal 1 center x"] == "animal 1 center x (cm)"
    assert called["animal 1 forward speed"] == "animal 1 forward speed (cm/s)"
    assert "animal 1 turning speed" not in called
    spoken = npz(parts=np.array([b"a", b"b", b"c"]), names=["rest", "walk"], labels=np.arange(60) % 2, fps=50.0)
    assert (spoken.parts, spoken.label_names, spoken.rate_hz) == (("a", "b", "c"), ("rest", "walk"), 50)


def sleap_h5(frames_first: bool = False, **changes: Any) -> bytes:
    xy, score = values(2)
    tracks = xy.transpose(1, 2, 3, 0)  # [A, 2, P, T]
    content = {
        "tracks": tracks.T if frames_first else tracks,
        "point_scores": score.transpose(1, 2, 0).T if frames_first else score.transpose(1, 2, 0),
        "node_names": np.array([part.encode() for part in PARTS]),
        "track_names": np.array([b"one", b"two"]),
        "edge_inds": np.array([[0, 1], [1, 2]]),
    }
    return hdf(content | changes)


@pytest.mark.parametrize("frames_first", [False, True])
def test_sleap_analysis_h5(frames_first: bool, tmp_path: Path):
    table = keypoints.read(sleap_h5(frames_first), "a.analysis.h5")
    assert table.animals == ("one", "two")
    assert table.edges == ((0, 1), (1, 2))
    check(table, 2)
    path = tmp_path / "a.h5"
    path.write_bytes(sleap_h5(track_names=None, edge_inds=None))
    again = keypoints.read(path)
    assert again.animals == ("animal 1", "animal 2")
    check(again, 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tracks": np.zeros((2, 2, 9, 5))}, "does not fit its 3 nodes"),
        ({"tracks": np.array([b"words"])}, "expected numbers"),
        ({"tracks": None}, "not a SLEAP analysis"),
        ({"node_names": h5py.ExternalLink("/etc/passwd", "/x")}, "points outside the file"),
    ],
)
def test_invalid_sleap_files_raise_data_error(changes: dict[str, Any], says: str):
    with pytest.raises(DataError, match=says):
        keypoints.read(sleap_h5(**changes), "a.h5")


def test_zero_points_are_missing():
    frame = dlc_frame(("animal",), ("scorer", "bodyparts", "coords"))
    frame.iloc[3, :2] = 0.0
    frame.iloc[4, 0] = np.nan
    table = keypoints.read(frame.to_csv().encode(), "a.csv")
    assert np.argwhere(np.isnan(table.xy).any(axis=2)).tolist() == [[3, 0, 0], [4, 0, 0]]
    assert np.isnan(table.xy).sum() == 4


def test_other_files_raise_data_error():
    for data, name, says in (
        (b"a,b\n1,2\n4,3\n", "a.csv", "Open it as a table"),
        (b"nonsense", "a.h5", "not an HDF5"),
        (b"\x89HDF\r\n\x1a\nnonsense", "a.h5", "not a readable HDF5"),
        (b"nonsense", "a.mp4", "readable: .csv"),
        (table_files.npz(y=np.zeros((9, 2))), "a.npz", "Open it as a table"),
        (b"scorer,a,a\nbodyparts,nose,nose\ncoords,x,y\n", "a.csv", "no frames"),
        (b"scorer,a,a\nbodyparts,nose,nose\ncoords,x,x\n0,1,2\n", "a.csv", "y"),
        (b"scorer,a,a\nbodyparts,nose,nose\ncoords,x,q\n0,1,2\n", "a.csv", "coord"),
    ):
        with pytest.raises(DataError, match=says):
            keypoints.read(data, name)
    with pytest.raises(ConfigError, match="rate_hz"):
        keypoints.read(b"x", "a.csv", rate_hz=0)


REAL_FILES = [
    ("crim_Tvideo_80_trim.csv", 101, 2, 8),
    ("deepof_madlc.csv", 97, 2, 14),
    ("deepof_single.analysis.h5", 101, 1, 14),
    ("rat_1_maDLC.csv.gz", 14734, 2, 5),
    ("rat_pair_1.npz", 14734, 2, 5),
    ("rat_pair_8.npz", 15249, 2, 5),
]


@pytest.mark.parametrize(("name", "frames", "animals", "parts"), REAL_FILES)
def test_real_files(name: str, frames: int, animals: int, parts: int):
    table = keypoints.read(recorded(f"other/{name}"))
    assert (table.n_frames, len(table.animals), len(table.parts)) == (frames, animals, parts)
    assert np.isfinite(table.xy).mean() > 0.5
    assert keypoints.report(table).n_samples == frames
    assert table.to_trials("egocentric")[0].n_samples == frames


def test_real_files_agree_with_each_other():
    folder = recorded("other")
    csv, npz = keypoints.read(folder / "rat_1_maDLC.csv.gz"), keypoints.read(folder / "rat_pair_1.npz")
    np.testing.assert_allclose(csv.xy, npz.xy, rtol=1e-5)


@pytest.fixture(scope="module")
def clean_mice() -> KeypointTable:
    return mice.simulate_recordings(1, 3000, seed=4)[0]


def changed(table: KeypointTable, xy: np.ndarray, scores: np.ndarray | None = None) -> KeypointTable:
    return KeypointTable(xy, table.animals, table.parts, table.rate_hz, scores, edges=table.edges)


def test_cleaning_drops_outliers_and_fills_gaps(clean_mice: KeypointTable):
    xy = np.array(clean_mice.xy)
    xy[1000, 0, :, 0] += 400
    xy[1500:1503, 1, :, 6] = np.nan
    xy[2000:2100, 1, :, 6] = np.nan
    broken = changed(clean_mice, xy, clean_mice.scores)
    report = keypoints.report(broken)
    low = int((np.asarray(clean_mice.scores) < 0.3).sum())
    assert report.low_scores == low
    assert report.missing_share == pytest.approx(2 * 103 / xy.size)
    assert max(channel.longest_gap for channel in report.channels) == 100
    assert any("outliers: " in sentence for sentence in report.sentences())
    cleaned = keypoints.clean(broken, min_score=0.3, drop_outliers=True, fill_seconds=0.2)
    assert np.abs(cleaned.xy[1000, 0, :, 0] - clean_mice.xy[1000, 0, :, 0]).max() < 30
    assert np.isfinite(cleaned.xy[1500:1503]).all()
    assert np.isnan(cleaned.xy[2010:2090, 1, :, 6]).all()
    assert np.isnan(cleaned.xy).sum() < 250
    assert any("were filled" in note for note in cleaned.notes)
    np.testing.assert_array_equal(keypoints.clean(broken).xy, broken.xy)
    with pytest.raises(ConfigError, match="fill_seconds"):
        keypoints.clean(broken, fill_seconds=-1)


def test_hidden_parts_are_filled_better_than_by_lines(clean_mice: KeypointTable):
    rng, hidden = np.random.default_rng(0), np.zeros((3000, 2, 7), bool)
    for start in rng.integers(30, 2900, 60):
        hidden[start : start + rng.integers(20, 60), rng.integers(2), rng.integers(7)] = True
    xy = np.where(hidden[:, :, None], np.nan, clean_mice.xy)
    cleaned = keypoints.clean(changed(clean_mice, xy), fill_seconds=30)
    lines = interpolate_gaps(xy.reshape(3000, -1)).reshape(xy.shape)

    def error(filled: np.ndarray) -> float:
        return float(np.sqrt(np.square(filled - clean_mice.xy).sum(axis=2)[hidden].mean()))

    assert error(np.asarray(cleaned.xy)) < 0.5 * error(lines)
    np.testing.assert_array_equal(cleaned.filled, hidden)
    np.testing.assert_array_equal(np.asarray(cleaned.xy)[~np.isnan(xy)], xy[~np.isnan(xy)].astype(np.float32))
    assert cleaned.notes[-1].startswith(f"{100 * hidden.mean():.2g}% of the coordinates were filled")
    first, last = split_recording(cleaned)
    np.testing.assert_array_equal(np.concatenate([first[0].filled, last[0].filled]), hidden)


def test_long_absences_stay_missing(clean_mice: KeypointTable):
    xy = np.array(clean_mice.xy)
    xy[100:195, 0] = np.nan  # the whole animal for 3.2 s
    xy[300:380, 0] = np.nan  # and for 2.7 s
    xy[500:2000, 1, :, 0] = np.nan  # one part for 50 s
    xy[-5:, 1, :, 3] = np.nan
    cleaned = keypoints.clean(changed(clean_mice, xy), fill_seconds=30)
    missing = np.isnan(xy[:, :, 0]).copy()
    missing[300:380, 0] = False
    np.testing.assert_array_equal(np.isnan(cleaned.xy).any(axis=2), missing)
    assert keypoints.clean(clean_mice, fill_seconds=30).filled is None
    whole = cleaned.to_trials("egocentric")[0].y
    assert np.isnan(whole[300:380, :4]).sum() == 0


def test_labels_are_fitted_to_the_frames(clean_mice: KeypointTable):
    short = keypoints.with_labels(clean_mice, np.array([0, 1, 7, -3]), ("a", "b"))
    assert short.labels[:5].tolist() == [0, 1, -1, -1, -1]  # type: ignore[index]
    long = keypoints.with_labels(clean_mice, np.zeros(3005, int), ("a",))
    assert any("5 labels past" in note for note in long.notes)
    with pytest.raises(DataError, match="one integer per frame"):
        keypoints.with_labels(clean_mice, np.zeros(3000), ("a",))


def test_different_skeletons_do_not_mix(clean_mice: KeypointTable):
    other = keypoints.read(template("deeplabcut.csv"), "a.csv")
    with pytest.raises(DataError, match="different animals or body parts"):
        KeypointSet((clean_mice, other))
    with pytest.raises(DataError, match="Use scaling='pixels'"):
        other.to_trials(scaling="image")[0]
    with pytest.raises(ConfigError, match="features is"):
        other.to_trials(features="speed")[0]  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"expected .time, 2 animals"):
        KeypointTable(np.zeros((5, 2, 3, 3)), ("a", "b"), ("c", "d", "e"))
