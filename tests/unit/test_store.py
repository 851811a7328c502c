"""Model files: exact round trips, and a ModelFileError for every file that does not fit."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gdm_core import GDM, load_model
from gdm_core.errors import ModelFileError
from gdm_core.files import write_whole
from gdm_core.models import loading
from gdm_core.store import FORMAT, FORMAT_VERSION, decode, encode

FAMILIES = ("toy",)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deeper" / "model.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "gdm.safetensors"
    y = np.random.default_rng(0).normal(size=(80, 3)).cumsum(0)
    GDM(2, 2, n_steps=5).fit(y).save(path)
    return path


def metadata_of(path) -> dict[str, str]:
    size = int.from_bytes(path.read_bytes()[:8], "little")
    found: dict[str, str] = json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]
    return found


def rewritten(saved, path, tensors=None, header=None, **metadata):
    """Copy a good file with parts replaced."""
    known = metadata_of(saved)
    model = json.loads(known["model"]) | (header or {})
    everything = load_file(saved) | (tensors or {})
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: np.ascontiguousarray(value) for name, value in everything.items() if value is not None}
    save_file(kept, path, metadata=known | {"model": json.dumps(model)} | metadata)
    return path


def test_tensors_and_header_round_trip_exactly(path):
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "b": np.array([1e-300, np.pi]),
        "c": np.zeros((0, 4), np.float32),
    }
    write_whole(path, encode(tensors, {"family": "toy", "note": "naïve"}))
    found, header = decode(path.read_bytes(), path, FAMILIES)
    assert header == {"family": "toy", "note": "naïve"}
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
        assert found[name].flags.writeable
        assert found[name].flags.aligned
    assert os.listdir(path.parent) == [path.name]  # no temporary file is left


def test_missing_file_and_folder_are_refused(tmp_path):
    for where in (tmp_path / "nothing.safetensors", tmp_path):
        with pytest.raises(ModelFileError, match="no model file at"):
            load_model(where)


def test_tensors_of_other_programs_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file({"layer.weight": np.ones((2, 2), np.float32)}, path)
    with pytest.raises(ModelFileError, match="holds tensors but no model description"):
        load_model(path)
    save_file({"layer.weight": np.ones((2, 2), np.float32)}, path, metadata={"format": "pt"})
    with pytest.raises(ModelFileError, match="not written by this library"):
        load_model(path)


def test_other_versions_and_families_are_refused(saved, path):
    with pytest.raises(ModelFileError, match=f"format version 99; this library reads version {FORMAT_VERSION}"):
        load_model(rewritten(saved, path, format_version="99"))
    with pytest.raises(ModelFileError, match="unknown model family; known: gdm"):
        load_model(rewritten(saved, path, header={"family": "oracle"}))
    with pytest.raises(ModelFileError, match="header is damaged"):
        load_model(rewritten(saved, path, model="{"))
    with pytest.raises(ModelFileError, match="unknown model family"):
        load_model(rewritten(saved, path, model="[1, 2]"))
    assert metadata_of(saved)["format"] == FORMAT


def test_non_finite_parameters_are_refused(saved, path):
    with pytest.raises(ModelFileError, match=r"'param\.dynamics' is not finite"):
        load_model(rewritten(saved, path, {"param.dynamics": np.full((2, 4, 3), np.inf, np.float32)}))


@pytest.mark.parametrize(
    ("tensors", "header"),
    [
        ({}, {"config": {"n_states": 7, "n_latent": 2}}),
        ({}, {"config": {"colour": "red"}}),
        ({}, {"status": "excellent"}),
        ({}, {"elbo": "high"}),
        ({"param.dynamics": np.ones((5, 4, 3), np.float32)}, {}),
        ({"param.dynamics": None}, {}),
        ({"scaler.scale": None}, {}),
    ],
)
def test_mismatched_header_and_tensors_are_refused(saved, path, tensors, header):
    with pytest.raises(ModelFileError, match="do not fit each other"):
        load_model(rewritten(saved, path, tensors, header))


@pytest.mark.parametrize("claim", [{"lags": 10**5}, {"n_hidden": 10**6}])
def test_oversized_config_is_refused_before_allocation(saved, path, claim, monkeypatch):

    def never(family):
        raise AssertionError("the model was built")

    monkeypatch.setattr(loading, "import_family", never)
    with pytest.raises(ModelFileError, match="do not fit each other"):
        load_model(rewritten(saved, path, header={"config": {"n_states": 2, "n_latent": 2} | claim}))
