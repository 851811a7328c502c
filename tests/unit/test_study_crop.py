"""Parts of recordings: first minutes, times from the sheet, equal lengths and wear time."""

import numpy as np
import pandas as pd
import pytest

from datasets import cohort
from gdm_core import Study, Trial
from gdm_core.analysis.suggestions import halves
from gdm_core.errors import ConfigError, DataError
from gdm_core.study import fitting
from gdm_core.study.crop import Crop, crop_recordings, find_still, mark_non_wear
from gdm_core.study.sheet import match_sheet
from tests.support.quick_model import quick_model

LENGTHS = {"a": 1_200, "b": 1_500, "c": 900}  # samples at 5 Hz: 4, 5 and 3 minutes


@pytest.fixture
def recordings() -> dict[str, Trial]:
    return {name: Trial(np.arange(float(n))[:, None] + 1, 5.0, name=name) for name, n in LENGTHS.items()}


def matched(recordings, **columns):
    return match_sheet(pd.DataFrame({"recording": list(recordings), **columns}), recordings)


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
    found, _, sentences = crop_recordings(recordings, sheet, crop)
    for name, (first, after) in parts.items():
        np.testing.assert_array_equal(found[name].y, recordings[name].y[first:after])
        assert found[name].start_seconds == first / 5
    assert words in sentences[0]
    states = {name: np.arange(n) for name, n in LENGTHS.items()}
    labels, starts, _ = crop_recordings(states, sheet, crop, dict.fromkeys(states, 5.0))
    assert {name: (one[0], one[-1] + 1) for name, one in labels.items()} == parts
    assert starts == {name: first / 5 for name, (first, _) in parts.items()}
    still = {name: np.zeros(len(one), int) for name, one in labels.items()}
    bouts = Study.from_states(still, sheet.frame, 5.0, starts=starts).bouts()
    assert dict(zip(bouts["recording"], bouts["start_s"], strict=True)) == starts


def test_no_crop_changes_nothing(recordings):
    found, _, sentences = crop_recordings(recordings, matched(recordings), Crop())
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


def worn(noise: float, off: tuple[float, float], hours: float = 48.0, seed: int = 0):
    """Return acceleration (g, one sample per second), the time when the device was off, and the nights.

    The posture changes about every 40 s by day and every 25 min at night, with a twitch of 0.1 g about every 5 min.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(round(hours * 3600)) / 3600
    night, removed = t % 24 >= 16, (t >= off[0]) & (t < off[1])
    turns = rng.random(len(t)) < np.where(night, 1 / 1500, 1 / 40)
    postures = rng.normal(size=(turns.sum() + 1, 3))
    y = (postures / np.linalg.norm(postures, axis=1)[:, None])[np.cumsum(turns)]
    y += rng.normal(size=y.shape) * np.where(night, 0.003, 0.15)[:, None]
    y += 0.1 * (night & (rng.random(len(t)) < 1 / 300))[:, None]
    y[removed] = [0, 0, 1]
    return y + noise * rng.normal(size=y.shape), removed, night


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.005])
def test_removed_accelerometer_is_found_and_sleep_is_not(noise):
    y, removed, night = worn(noise, (5.0, 9.0))
    found = find_still(y, 90 * 60)
    assert found[removed].all()
    assert not found[night].any()
    assert found[~removed].mean() < 0.001, "the edges"
    y[20_000:20_100] = np.nan  # a short gap
    assert (find_still(y, 90 * 60) == found)[np.isfinite(y[:, 0])].all()


def test_amounts_in_sleep_are_worn_and_zeros_are_not():
    rng = np.random.default_rng(0)
    night = np.arange(5 * 1440) % 1440 >= 960
    counts = np.where(
        night, rng.poisson(10, len(night)) * (rng.random(len(night)) < 0.1), rng.gamma(1.0, 250, len(night))
    )
    removed = slice(2_000, 2_240)
    counts[removed] = 0
    found = find_still(counts.round()[:, None], 90)
    assert found[removed].all()
    assert found.sum() == 240
    speed = counts / 100 + 0.05 * rng.random(len(counts))  # nights are nearly still, but never constant
    assert not find_still(speed[:, None], 90).any()
    assert not find_still(np.stack([counts, rng.normal(size=len(counts))], axis=1), 90).any(), "another channel moves"


def test_stationary_noise_is_no_rest():
    assert not find_still(np.random.default_rng(0).normal(size=(2_000, 2)), 100).any()
    assert not find_still(np.zeros((50, 1)), 100).any(), "too short"
    assert find_still(np.zeros((150, 1)), 100).all()


def test_non_wear_is_left_out_of_rates():
    made = cohort.simulate(3, minutes=6, rate_hz=5, seed=0)
    recordings, sheet = made.recordings(), pd.DataFrame(made.sheet)
    model = Study.fit(recordings, sheet, quick_model(n_states=3)).model
    name = sheet["recording"][0]
    y = np.array(recordings[name].y)
    y[300:900] = 0.0  # two of six minutes
    with_rest = recordings | {name: Trial(y, 5.0, recordings[name].channels, name=name)}
    marked, sentences = mark_non_wear(with_rest, shortest_min=1.5)
    assert sentences == [
        "1 recording has non-wear of at least 90 s (up to 36% of a recording), which was treated as missing."
    ]
    study = Study.fit(marked, sheet, model)
    row = study.sheet.names.index(name)
    assert study.counts.labelled_minutes[row] == pytest.approx((len(y) - 600) / 5 / 60)
    assert (study.recordings[name].labels[300:900] == -1).all()
    rest = Study.fit({**recordings, name: recordings[name].slice(900, len(y))}, sheet, model)
    rate = study.counts.measure("bouts_per_min")[row].sum()
    assert rate == pytest.approx(rest.counts.measure("bouts_per_min")[row].sum(), rel=0.2)
    with pytest.raises(ConfigError, match="shortest_min is 0"):
        mark_non_wear(with_rest, 0)


def test_sample_has_one_piece_per_animal():
    one = cohort.simulate(6, minutes=2, rate_hz=10, n_sessions=2, seed=3)
    study = Study.from_states(one.states, pd.DataFrame(one.sheet), rate_hz=10)
    trials = fitting.sample_animals(one.recordings(), study.sheet.animals, 1_200)
    assert {study.sheet.animals[trial.name] for trial in trials} == set(study.sheet.animals.values())
    assert [trial.n_samples for trial in trials] == [100] * 12
    first, second = halves(trials)
    assert not {trial.name for trial in first} & {trial.name for trial in second}, "whole animals are held out"
