"""The simulated mice behave like the figures of the CalMS21 training set that they are tuned to.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from datasets import mice
from datasets.readers.pose import KeypointSet
from gdm_core.errors import ConfigError
from tests.support.individuals import simulate_individuals

ATTACK, INVESTIGATION, MOUNT, OTHER = range(4)


@pytest.fixture(scope="module")
def recordings() -> KeypointSet:
    return mice.simulate_recordings(n_trials=20, n_frames=10_000, seed=3)


@pytest.fixture(scope="module")
def keypoints(recordings: KeypointSet) -> npt.NDArray[np.float64]:
    return np.stack([table.xy for table in recordings]).astype(float)  # [20, T, mouse, 2, part]


@pytest.fixture(scope="module")
def labels(recordings: KeypointSet) -> npt.NDArray[np.int64]:
    return np.stack([table.labels for table in recordings if table.labels is not None]).astype(int)


@pytest.fixture(scope="module")
def bouts() -> list[tuple[list[int], list[int]]]:
    """States and lengths of the bouts of 150 long trials, the last one of each left out since it is cut."""
    made = []
    for seed in range(150):
        label = mice.behaviours(20_000, np.random.default_rng(seed)).astype(int)
        starts = np.r_[0, np.flatnonzero(np.diff(label)) + 1]
        made.append((label[starts].tolist()[:-1], np.diff(starts).tolist()))
    return made


def test_bout_lengths(bouts: list[tuple[list[int], list[int]]]):
    state = np.concatenate([b[0] for b in bouts])
    length = np.concatenate([b[1] for b in bouts])
    for k, (median, mean) in enumerate([(46, 72), (34, 81), (61, 102), (100, 185)]):
        assert np.median(length[state == k]) == pytest.approx(median, rel=0.1)
        assert length[state == k].mean() == pytest.approx(mean, rel=0.12)


def test_jumps(bouts: list[tuple[list[int], list[int]]]):
    jumps = np.zeros((4, 4))
    for state, _ in bouts:
        np.add.at(jumps, (state[:-1], state[1:]), 1)
    jumps /= jumps.sum(axis=1, keepdims=True)
    assert jumps[OTHER, INVESTIGATION] == pytest.approx(0.963, abs=0.02)
    assert jumps[INVESTIGATION, [OTHER, MOUNT, ATTACK]] == pytest.approx([0.774, 0.147, 0.079], abs=0.02)
    assert jumps[ATTACK, [OTHER, INVESTIGATION]] == pytest.approx([0.695, 0.289], abs=0.05)
    assert jumps[MOUNT, [INVESTIGATION, OTHER]] == pytest.approx([0.542, 0.444], abs=0.05)
    assert np.diag(jumps).max() == 0
    assert all(state[0] == OTHER for state, _ in bouts)


@pytest.mark.parametrize(
    ("behaviour", "quantiles"), [(INVESTIGATION, (75, 135, 214)), (MOUNT, (29, 60, 96)), (OTHER, (121, 356, 615))]
)
def test_distance_between_the_mice(
    keypoints: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], behaviour: int, quantiles: tuple[float, ...]
):
    centre = keypoints.mean(axis=-1)
    distance = np.linalg.norm(centre[:, :, 0] - centre[:, :, 1], axis=-1)[labels == behaviour]
    assert np.quantile(distance, [0.1, 0.5, 0.9]) == pytest.approx(quantiles, rel=0.15)


def test_speed(keypoints: npt.NDArray[np.float64]):
    speed = np.linalg.norm(np.diff(keypoints.mean(axis=-1), axis=1), axis=-1)  # [20, T-1, mouse], px a frame
    assert np.median(speed, axis=(0, 1)) == pytest.approx([4.1, 2.9], rel=0.2)
    assert np.quantile(speed, 0.95, axis=(0, 1)) == pytest.approx([18, 17], rel=0.2)
    assert np.quantile(speed, 0.999) < 100


def test_body_length_and_tracking_noise(keypoints: npt.NDArray[np.float64]):
    length = np.linalg.norm(keypoints[..., 0] - keypoints[..., 6], axis=-1)
    assert np.median(length, axis=(0, 1)) == pytest.approx([210, 186], rel=0.04)
    # the second difference of a smooth path is small, that of white noise is sqrt(6) times the noise
    jitter = 1.4826 * np.median(np.abs(np.diff(keypoints, n=2, axis=1)), axis=(0, 1, 3)) / np.sqrt(6)  # [mouse, part]
    assert jitter.min() > 1.5
    assert jitter.max() < 2.3


def test_four_principal_components_hold_most_of_the_variance(keypoints: npt.NDArray[np.float64]):
    y = keypoints.reshape(-1, 28)
    share = np.linalg.eigvalsh(np.corrcoef(y.T))[::-1].cumsum() / 28
    assert share[3] == pytest.approx(0.92, abs=0.02)


def test_the_resident_looks_at_the_intruder_and_mounts_from_behind(
    keypoints: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
):
    nose = keypoints[:, :, 0, :, 0]
    centre = keypoints.mean(axis=-1)
    away = np.linalg.norm(nose - centre[:, :, 1], axis=-1) - np.linalg.norm(centre[:, :, 0] - centre[:, :, 1], axis=-1)
    assert np.mean(away[labels == INVESTIGATION] < 0) > 0.9  # its nose is closer than its middle
    assert 0.3 < np.mean(away[labels == OTHER] < 0) < 0.7
    tail_to_neck = keypoints[..., 3] - keypoints[..., 6]
    facing = tail_to_neck / np.linalg.norm(tail_to_neck, axis=-1, keepdims=True)
    alike = (facing[:, :, 0] * facing[:, :, 1]).sum(axis=-1)
    assert np.median(alike[labels == MOUNT]) > 0.8


def test_the_mice_stay_in_the_picture(keypoints: npt.NDArray[np.float64]):
    x, y = keypoints[..., 0, :], keypoints[..., 1, :]
    inside = (x > 0) & (x < 1024) & (y > 0) & (y < 570)
    assert inside.mean() > 0.999
    assert x.min() > -60
    assert y.max() < 630


def test_scores_and_what_it_says_of_itself(recordings: KeypointSet):
    scores = np.stack([table.scores for table in recordings if table.scores is not None])
    assert np.mean(scores < 0.3) == pytest.approx(0.015, abs=0.002)
    assert (scores >= 0).all()
    assert (scores <= 1).all()
    assert all(table.simulated for table in recordings)
    assert "simulated" in recordings.name
    assert all("simulated" in table.name for table in recordings)
    assert any("attack pose is invented" in note for note in recordings[0].notes)


def test_trials_are_reproducible_and_seeds_differ():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that it stays untouched is the point)
    first = mice.simulate(3, [96, 400, 250], seed=5)
    for one, again, other in zip(first, *(mice.simulate(3, [96, 400, 250], seed=seed) for seed in (5, 6)), strict=True):
        np.testing.assert_array_equal(one.y, again.y)
        assert np.abs(one.y - other.y).max() > 0.01
    assert [trial.n_samples for trial in first] == [96, 400, 250]
    assert first.n_channels == 28
    assert first.label_names == ("attack", "investigation", "mount", "other")
    assert first[0].y.max() < 1.2  # image scaling
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.bulk
def test_a_set_of_the_real_size():
    trials = mice.training_set_sized(seed=1)
    assert (len(trials), trials.n_samples, trials.n_channels) == (70, 507_738, 28)
    assert min(trial.n_samples for trial in trials) >= 96


@pytest.mark.parametrize(("n_trials", "n_frames"), [(0, 100), (2, [100]), (1, 1), (1, 3_000_000)])
def test_impossible_sizes_are_refused(n_trials: int, n_frames: int | list[int]):
    with pytest.raises(ConfigError, match=r"n_trials|n_frames"):
        mice.simulate(n_trials, n_frames)
    with pytest.raises(ConfigError, match="at least 96"):
        mice.training_set_sized(n_frames=100)


def test_individuals_differ_in_size_and_lack_parts_of_their_own():
    pairs = simulate_individuals(4, 600, seed=3)
    again = simulate_individuals(4, 600, seed=3)
    np.testing.assert_array_equal(pairs[2].xy, again[2].xy)
    lengths = [np.nanmedian(np.linalg.norm(t.xy[:, 0, :, 0] - t.xy[:, 0, :, 6], axis=1)) for t in pairs]
    assert max(lengths) > 1.15 * min(lengths)
    hidden = [float(np.isnan(t.xy).mean()) for t in pairs]
    assert 0.03 < min(hidden) < max(hidden) < 0.4
    assert all(t.n_frames == 600 == len(t.labels) for t in pairs)
    assert all(t.simulated for t in pairs)
