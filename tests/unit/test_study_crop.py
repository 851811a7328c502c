"""Parts of recordings: first minutes, times from the sheet, equal lengths and constant stretches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets import cohort
from gdm_core import Study, Trial
from gdm_core.errors import ConfigError, DataError
from gdm_core.study.crop import Crop, crop_recordings, find_constant, mark_constant
from gdm_core.study.sheet import match_sheet
from tests.support.simple_model import SimpleModel

LENGTHS = {"a": 1_200, "b": 1_500, "c": 900}  # samples at 5 Hz: 4, 5 and 3 minutes


@pytest.fixture
def recordings() -> dict[str, Trial]:
    return {name: Trial(np.arange(float(n))[:, None] + 1, 5.0, name=name) for name, n in LENGTHS.items()}


def matched(recordings, **columns):
    return match_sheet(pd.DataFrame({"recording": list(recordings), **columns}), recordings, ())


@pytest.mark.parametrize(
    ("crop", "parts", "words"),
    [
        (Crop(first_min=2), {"a": (0, 600), "b": (0, 600), "c": (0, 600)}, "to the first 2 minutes"),
        (Crop(equal=True), {"a": (0, 900), "b": (0, 900), "c": (0, 900)}, "to 3 minutes, the length of the shortest"),
        (
            Crop(start="from_min", stop="to_s"),
            {"a": (300, 600), "b": (0, 1_500), "c": (0, 150)},
            "from the time in 'from_min'",
        ),
        (Crop(start="from_min", equal=True), {"a": (300, 1_200), "b": (0, 900), "c": (0, 900)}, "of the shortest"),
    ],
)
def test_recordings_are_cropped(recordings, crop, parts, words):
    sheet = matched(recordings, from_min=[1, None, 0], to_s=[120, None, 30])
    found, sentences = crop_recordings(recordings, sheet, crop)
    for name, (first, after) in parts.items():
        np.testing.assert_array_equal(found[name].y, recordings[name].y[first:after])
        assert found[name].start_seconds == first / 5
    assert words in sentences[0]
    states = {name: np.arange(n) for name, n in LENGTHS.items()}
    labels, _ = crop_recordings(states, sheet, crop, dict.fromkeys(states, 5.0))
    assert {name: (one[0], one[-1] + 1) for name, one in labels.items()} == parts


def test_no_crop_changes_nothing(recordings):
    found, sentences = crop_recordings(recordings, matched(recordings), Crop())
    assert {name: one.n_samples for name, one in found.items()} == LENGTHS
    assert sentences == []


def test_impossible_crops_raise(recordings):
    sheet = matched(recordings, start=[9.0, 0, 0], words=["x", "y", "z"])
    with pytest.raises(DataError, match="leaves nothing of a"):
        crop_recordings(recordings, sheet, Crop(start="start"))
    with pytest.raises(DataError, match="'words' must contain times"):
        crop_recordings(recordings, sheet, Crop(stop="words"))
    with pytest.raises(ConfigError, match="crop is 'stop'"):
        crop_recordings(recordings, sheet, Crop(stop="stop"))
    with pytest.raises(ConfigError, match="first_min is 0"):
        crop_recordings(recordings, sheet, Crop(first_min=0))


def test_constant_stretches_are_found():
    y = np.array([1.0, 1, 1, 2, 3, 3, np.nan, np.nan, np.nan, np.nan, 4, 4, 4, 4])[:, None]
    assert find_constant(y, 3).nonzero()[0].tolist() == [0, 1, 2, 10, 11, 12, 13]
    assert find_constant(y, 4).nonzero()[0].tolist() == [10, 11, 12, 13]
    assert not find_constant(np.hstack([y, np.arange(14.0)[:, None]]), 3).any(), "another channel moves"


def test_non_wear_is_left_out_of_rates():
    made = cohort.simulate(3, minutes=6, rate_hz=5, seed=0)
    recordings, sheet = made.recordings(), pd.DataFrame(made.sheet)
    model = Study.fit(recordings, sheet, SimpleModel(n_states=3)).model
    name = sheet["recording"][0]
    y = np.array(recordings[name].y)
    y[300:900] = 0.0  # two of six minutes
    worn = recordings | {name: Trial(y, 5.0, recordings[name].channels, name=name)}
    marked, shares, sentences = mark_constant(worn, shortest_min=1.5)
    assert list(shares) == [name]
    assert shares[name] == pytest.approx(600 / len(y))
    assert sentences == [
        "1 recording has stretches of at least 90 s without any change (up to 36% of a recording), which were treated as missing."
    ]
    study = Study.from_model(model, marked, sheet)
    row = study.sheet.names.index(name)
    assert study.counts.labelled_minutes[row] == pytest.approx((len(y) - 600) / 5 / 60)
    assert (study.recordings[name].labels[300:900] == -1).all()
    rest = Study.from_model(model, {**recordings, name: recordings[name].slice(900, len(y))}, sheet)
    rate = study.counts.measure_states("bouts_per_min")[row].sum()
    assert rate == pytest.approx(rest.counts.measure_states("bouts_per_min")[row].sum(), rel=0.2)
    with pytest.raises(ConfigError, match="shortest_min is 0"):
        mark_constant(worn, 0)
