"""Tracking mistakes are found, counted and undone; labels fit; recordings that do not match are refused."""

from __future__ import annotations

import numpy as np
import pytest

from datasets import keypoints, mice
from datasets.readers.pose import KeypointSet, KeypointTable
from datasets.tables import template
from gdm_core.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def clean_mice() -> KeypointTable:
    return mice.simulate_recordings(1, 3000, seed=4)[0]


def changed(table: KeypointTable, xy: np.ndarray, scores: np.ndarray | None = None) -> KeypointTable:
    return KeypointTable(xy, table.animals, table.parts, table.rate_hz, scores, edges=table.edges)


def test_flips_of_left_and_right_are_counted_and_undone(clean_mice: KeypointTable):
    before = keypoints.report(clean_mice).side_flips
    xy = np.array(clean_mice.xy)
    mirrored = [0, 2, 1, 3, 5, 4, 6]
    xy[500:520, 0] = xy[500:520, 0][..., mirrored]
    xy[900:903, 1] = xy[900:903, 1][..., mirrored]
    broken = changed(clean_mice, xy)
    assert keypoints.report(broken).side_flips == before + 2
    repaired = keypoints.clean(broken, undo_side_flips=True)
    np.testing.assert_array_equal(repaired.xy[480:540], clean_mice.xy[480:540])
    np.testing.assert_array_equal(repaired.xy[890:910, 1], clean_mice.xy[890:910, 1])


def test_swapped_animals_are_counted_and_undone(clean_mice: KeypointTable):
    xy = np.array(clean_mice.xy)
    apart = np.linalg.norm(xy.mean(axis=-1)[:, 0] - xy.mean(axis=-1)[:, 1], axis=1)
    start = int(np.flatnonzero(np.convolve(apart > 250, np.ones(60), "valid") == 60)[0])  # well apart for two seconds
    xy[start + 10 : start + 50] = xy[start + 10 : start + 50, ::-1]
    broken = changed(clean_mice, xy, np.array(clean_mice.scores)[..., :])
    assert keypoints.report(clean_mice).identity_swaps == 0
    assert keypoints.report(broken).identity_swaps == 2
    repaired = keypoints.clean(broken, undo_identity_swaps=True)
    np.testing.assert_array_equal(repaired.xy, clean_mice.xy)


def test_cleaning_marks_low_scores_and_jumps_and_fills_short_gaps(clean_mice: KeypointTable):
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
    assert any("jump out of line" in sentence for sentence in report.sentences())
    cleaned = keypoints.clean(broken, min_score=0.3, drop_outliers=True, fill_seconds=0.2)
    assert np.abs(cleaned.xy[1000, 0, :, 0] - clean_mice.xy[1000, 0, :, 0]).max() < 30
    assert np.isfinite(cleaned.xy[1500:1503]).all()
    assert np.isnan(cleaned.xy[2010:2090, 1, :, 6]).all()
    assert np.isnan(cleaned.xy).sum() < 250
    assert any("interpolated" in note for note in cleaned.notes)
    np.testing.assert_array_equal(keypoints.clean(broken).xy, broken.xy)
    with pytest.raises(ConfigError, match="fill_seconds"):
        keypoints.clean(broken, fill_seconds=-1)


def test_labels_of_other_lengths_and_codes(clean_mice: KeypointTable):
    short = keypoints.with_labels(clean_mice, np.array([0, 1, 7, -3]), ("a", "b"))
    assert short.labels[:5].tolist() == [0, 1, -1, -1, -1]  # type: ignore[index]
    long = keypoints.with_labels(clean_mice, np.zeros(3005, int), ("a",))
    assert any("5 labels past" in note for note in long.notes)
    with pytest.raises(DataError, match="one whole number a frame"):
        keypoints.with_labels(clean_mice, np.zeros(3000), ("a",))


def test_recordings_with_other_skeletons_do_not_mix(clean_mice: KeypointTable):
    other = keypoints.read(template("deeplabcut.csv"), "a.csv")
    with pytest.raises(DataError, match="other animals or body parts"):
        KeypointSet((clean_mice, other))
    with pytest.raises(DataError, match="use scaling='pixels'"):
        other.to_trial(scaling="image")
    with pytest.raises(ConfigError, match="features is"):
        other.to_trial(features="speed")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"expected .time, 2 animals"):
        KeypointTable(np.zeros((5, 2, 3, 3)), ("a", "b"), ("c", "d", "e"))
