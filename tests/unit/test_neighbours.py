"""Data of other libraries, there and back; each is tested where it is installed. What they cannot mean is refused in words."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import numpy as np
import pytest

from gdm_core import neighbours
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials
from gdm_studio.datasets import keypoints

RNG = np.random.default_rng(0)
POSES = tuple(f"{who} {part} {axis}" for who in ("a", "b") for part in ("nose", "tail base") for axis in "xy")
TRIAL = Trial(RNG.normal(size=(40, 8)), 25.0, POSES, name="walk", start_seconds=2.0)
SHARES = RNG.dirichlet(np.ones(3), size=40).astype(np.float32)
BOUTS = np.repeat([0, 2, -1, 0], [10, 15, 5, 10])


def test_poses_go_to_movements_layout_and_back():
    pytest.importorskip("xarray")
    dataset = Trials((TRIAL,)).to_xarray([SHARES])[0]
    assert dataset["position"].dims == ("time", "space", "keypoints", "individuals")
    place = dataset["position"].sel(individuals="b", keypoints="tail base", space="y")
    np.testing.assert_array_equal(place.values, TRIAL.y[:, POSES.index("b tail base y")])
    np.testing.assert_array_equal(dataset["states"].values, SHARES)
    back = Trials.from_xarray(dataset)[0]
    assert (back.channels, back.name, back.start_seconds) == (POSES, "walk", 2.0)
    assert back.rate_hz == pytest.approx(25.0)
    np.testing.assert_array_equal(back.y, TRIAL.y)


def test_channels_that_are_no_poses_and_time_in_frames():
    xr = pytest.importorskip("xarray")
    plain = Trial(TRIAL.y[:, :2], 10.0, ("speed", "brake"))
    assert neighbours.to_xarray(plain)["channels"].dims == ("time", "channel")
    frames = xr.DataArray(TRIAL.y, dims=("time", "feature"), attrs={"fps": 50}, name="features")
    frames = frames.assign_coords(feature=[f"f{i}" for i in range(8)])
    made = Trials.from_xarray(frames)
    assert (made[0].rate_hz, made[0].channels[:2], made.name) == (50.0, ("f0", "f1"), "features")


def test_what_xarray_cannot_mean_is_refused():
    xr = pytest.importorskip("xarray")
    with pytest.raises(DataError, match="one of them must be 'time'"):
        Trials.from_xarray(xr.DataArray(np.zeros((3, 2)), dims=("t", "x")))
    with pytest.raises(DataError, match="no variable 'position'; it has speed"):
        Trials.from_xarray(xr.Dataset({"speed": ("time", [1.0, 2.0])}))
    uneven = xr.DataArray(np.zeros((4, 1)), dims=("time", "x"), coords={"time": [0, 0.1, 0.5, 0.6]})
    with pytest.raises(DataError, match=r"0\.4 s between samples 1 and 2"):
        Trials.from_xarray(uneven)
    with pytest.raises(DataError, match="states of 2 trials for 1"):
        Trials((TRIAL,)).to_xarray([SHARES, SHARES])


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(DataError, match=r"pip install gdm-studio\[xarray\]"):
        neighbours.to_xarray(TRIAL)


@pytest.mark.filterwarnings("ignore")
def test_pynapple_there_and_back():
    nap = pytest.importorskip("pynapple")
    frame = nap.TsdFrame(t=TRIAL.seconds, d=TRIAL.y, columns=list(POSES))
    back = neighbours.from_pynapple(frame, "walk")
    np.testing.assert_array_equal(back[0].y, TRIAL.y)
    assert back[0].channels == POSES
    support = nap.IntervalSet(start=[2.0, 3.0], end=[2.5, 3.5])
    parts = neighbours.from_pynapple(frame.restrict(support))
    assert [round(part.start_seconds, 6) for part in parts] == [2.0, 3.0]
    soft = neighbours.states_to_pynapple(TRIAL, SHARES)
    assert list(soft.columns) == ["S1", "S2", "S3"]
    bouts = neighbours.bouts_to_pynapple(TRIAL, BOUTS, ["rest", "walk", "rear"])
    assert set(bouts) == {"rest", "rear"}
    np.testing.assert_allclose(bouts["rest"].start, [2.0, 2.0 + 30 / 25])
    np.testing.assert_allclose(bouts["rear"].end, [2.0 + 25 / 25], atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_nwb_poses_in_and_bouts_out(tmp_path):
    pynwb = pytest.importorskip("pynwb")
    ndx_pose = pytest.importorskip("ndx_pose")
    file = pynwb.NWBFile("a test", "one", datetime(2026, 1, 1, tzinfo=UTC))
    sure = np.ones(40)
    sure[3] = 0.1
    series = [
        ndx_pose.PoseEstimationSeries(
            name=part, data=TRIAL.y[:, 2 * i : 2 * i + 2].astype(float), reference_frame="corner", rate=25.0,
            starting_time=2.0, confidence=sure, confidence_definition="likelihood",
        )
        for i, part in enumerate(("nose", "tail"))
    ]  # fmt: skip
    skeleton = ndx_pose.Skeleton(name="skeleton", nodes=["nose", "tail"])
    pose = ndx_pose.PoseEstimation(
        name="mouse", pose_estimation_series=series, skeleton=skeleton, source_software="none"
    )
    behavior = file.create_processing_module("behavior", "poses")
    behavior.add(ndx_pose.Skeletons(skeletons=[skeleton]))
    behavior.add(pose)
    neighbours.add_bouts_to_nwb(file, TRIAL, BOUTS, ["rest", "walk", "rear"])
    with pynwb.NWBHDF5IO(tmp_path / "one.nwb", "w") as io:
        io.write(file)
    with pynwb.NWBHDF5IO(tmp_path / "one.nwb", "r") as io:
        read = io.read()
        trial = neighbours.from_nwb(read, min_confidence=0.5)[0]
        table = read.intervals["bouts"].to_dataframe()
    assert trial.channels == ("mouse nose x", "mouse nose y", "mouse tail x", "mouse tail y")
    assert (trial.rate_hz, trial.start_seconds) == (25.0, 2.0)
    assert np.isnan(trial.y[3]).all()
    np.testing.assert_allclose(trial.y[4], TRIAL.y[4, :4], rtol=1e-6)
    assert table["state"].tolist() == ["rest", "rear", "rest"]
    np.testing.assert_allclose(table["stop_time"], [2.4, 3.0, 3.6])
    with pytest.raises(DataError, match="holds no PoseEstimation"):
        neighbours.from_nwb(pynwb.NWBFile("a test", "none", datetime(2026, 1, 1, tzinfo=UTC)))


def test_bouts_that_do_not_fit_are_refused():
    pytest.importorskip("pynapple")
    with pytest.raises(DataError, match="one state each"):
        neighbours.bouts_to_pynapple(TRIAL, BOUTS[:5])
    with pytest.raises(DataError, match="but 2 names"):
        neighbours.bouts_to_pynapple(TRIAL, BOUTS, ["rest", "walk"])
    with pytest.raises(DataError, match=r"expected \[time, states\]"):
        neighbours.states_to_pynapple(TRIAL, SHARES[:5])


ENSEMBLE = ("x", "y", "likelihood", "x_ens_median", "y_ens_median", "x_ens_var", "y_ens_var", "x_posterior_var")

ANIPOSE = ("x", "y", "z", "score", "error", "ncams")


def rows_of(values: list[str]) -> str:
    return "".join(f"{i},{','.join(values)}\n" for i in range(6))


TRACKERS = {
    "lightning-pose.csv": "scorer" + ",heatmap_tracker" * 6 + "\nbodyparts" + ",nose" * 3 + ",paw" * 3 + "\ncoords"
    + ",x,y,likelihood" * 2 + "\n" + rows_of(["1.5", "2.5", ".9", "3", "4", ".8"]),
    "lightning-pose-ensemble.csv": "scorer" + ",eks" * 16 + "\nbodyparts" + ",nose" * 8 + ",paw" * 8 + "\ncoords,"
    + ",".join(ENSEMBLE * 2) + "\n" + rows_of(["1.5", "2.5", ".9", *["7"] * 5, "3", "4", ".8", *["7"] * 5]),
    "anipose.csv": "fnum," + ",".join(f"{part}_{axis}" for part in ("nose", "paw") for axis in ANIPOSE)
    + "\n" + rows_of(["1.5", "2.5", "9", ".9", "1", "3", "3", "4", "9", ".8", "1", "3"]),
    "deepof.csv": ",nose,nose,paw,paw\n,x,y,x,y\n" + rows_of(["1.5", "2.5", "3", "4"]),
    "deepof-one-header.csv": "," + ",".join(f"\"('{part}', '{axis}')\"" for part in ("nose", "paw") for axis in "xy") + "\n"
    + rows_of(["1.5", "2.5", "3", "4"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRACKERS)
def test_tables_of_trackers_read_like_deeplabcuts(name):
    table = keypoints.read(TRACKERS[name].encode(), name, rate_hz=30)
    assert (table.animals, table.parts) == (("animal",), ("nose", "paw"))
    np.testing.assert_allclose(table.xy[0, 0], [[1.5, 3], [2.5, 4]])
    assert (table.scores is None) == name.startswith("deepof")


def test_a_column_of_no_tracker_is_still_refused():
    text = TRACKERS["lightning-pose.csv"].replace("likelihood", "mood", 1)
    with pytest.raises(DataError, match="'mood' is not a coordinate"):
        keypoints.read(text.encode(), "odd.csv", rate_hz=30)
