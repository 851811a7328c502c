"""Choice of a time scale: windows for activities, single samples for regimes and tracks."""

import math

import numpy as np
import pytest

from datasets import nascar, regimes
from gdm_core.analysis.time_scale import ScaleProbe, choose_scale, decide
from gdm_core.trials import Trial

SLOW = ("rotations", "variances", "walk")
SPIKES = {"white": 0.0, "spike of 20": 20.0, "spike of 50": 50.0}
HEAVY_TAILS = {"t2": 2, "t3": 3}  # degrees of freedom


def activities(n_samples=2400, bout=400, gaps=True):
    """Return rhythms of four activities that differ in level, size and period, [T, 2] and labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_samples // bout) % 4, bout)
    phase = np.cumsum(2 * np.pi / np.array([15, 25, 15, 25])[labels])
    size, level = np.array([1, 1, 3, 3])[labels], np.array([0, 1, 1, 0])[labels]
    y = np.stack([size * np.sin(phase) + level, size * np.cos(1.3 * phase)], axis=1) + rng.normal(
        0, 0.3, (n_samples, 2)
    )
    if gaps:
        y[::7, 0] = np.nan
        y[1000:1300] = np.nan
    return y, labels


def test_activities_get_windows():
    y, _ = activities()
    found = choose_scale(y)
    assert found.scale is not None
    assert 25 <= found.scale <= 200
    assert found.n_states in (4, 5)
    assert found.sure == "clear"
    assert found.sentences[0].startswith(f"Use windows of {found.scale} samples")


@pytest.mark.parametrize("kind", ["levels", *(pytest.param(k, marks=pytest.mark.bulk) for k in SLOW)])
def test_regimes_keep_samples(kind):
    found = choose_scale(regimes.simulate(kind, 500 if kind == "levels" else 1000, seed=0))
    assert (found.scale, found.n_states) == (None, None)
    assert found.sentences[0].startswith("Use single samples")


def test_units_and_constant_channels_do_not_matter():
    y, _ = activities(800, bout=100, gaps=False)
    other = np.column_stack([y * [1000.0, 0.01] + 5.0, np.full(len(y), 3.0)])
    trials = [y[:400], y[400:]], [Trial(other[:400]), Trial(other[400:])]
    one, two = (choose_scale(each) for each in trials)
    assert (one.scale, one.n_states) == (two.scale, two.n_states)
    assert one.scale is not None


def noise(kind, seed, n_samples=6000):
    """Return noise without states, [T, 3]."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n_samples, 3)) if kind in SPIKES else rng.standard_t(HEAVY_TAILS[kind], (n_samples, 3))
    y[rng.integers(n_samples), rng.integers(3)] += SPIKES.get(kind, 0.0)
    return y


def dead_stretch():
    y = noise("white", seed=0, n_samples=2000)
    y[1000:1080] = 0
    return y


@pytest.mark.parametrize(
    "y",
    [nascar.simulate("standard", T=300, seed=1), noise("spike of 20", seed=0, n_samples=1000), dead_stretch()],
    ids=["track", "spike", "dead stretch"],
)
def test_data_without_activities_keep_samples(y):
    assert choose_scale(y).scale is None


def without_complete_rows():
    y = np.random.default_rng(0).normal(size=(500, 2))
    y[::2, 0] = y[1::2, 1] = np.nan
    return y


@pytest.mark.parametrize(
    "y",
    [np.random.default_rng(0).normal(size=(60, 2)), np.ones((500, 2)), without_complete_rows()],
    ids=["short", "constant", "no complete rows"],
)
def test_unusable_recording_keeps_samples(y):
    found = choose_scale(y)
    assert (found.scale, found.sure) == (None, "open")
    assert "recordings" in found.sentences[1]


@pytest.mark.bulk
@pytest.mark.parametrize("kind", [*SPIKES, *HEAVY_TAILS])
def test_noise_keeps_samples_in_ten_of_ten(kind):
    assert [choose_scale(noise(kind, seed)).scale for seed in range(10)] == [None] * 10


def test_spikes_do_not_hide_activities():
    y, _ = activities(gaps=False)
    spiked = y.copy()
    spiked[[100, 900, 1700], [0, 1, 0]] += 50
    one, two = choose_scale(y), choose_scale(spiked)
    assert one.scale is not None
    assert (one.scale, one.n_states) == (two.scale, two.n_states)


def scale(length, k, silhouette, dwell=math.nan):
    """Return a probe whose blocks all have the same silhouette."""
    return ScaleProbe(length, k, (silhouette,) * 10, dwell)


def test_windows_must_be_better_than_samples():
    samples = [scale(None, 3, 0.5), scale(None, 4, 0.3)]
    assert decide([*samples, scale(51, 3, 0.52, 4.0)]).scale is None
    assert decide([*samples, scale(51, 4, 0.45, 4.0)]).sure == "likely"
    assert decide([*samples, scale(51, 4, 0.28, 4.0)]).sure == "clear"
    found = decide([*samples, scale(51, 3, 0.52, 4.0), scale(71, 4, 0.6, 4.0)])
    assert (found.scale, found.n_states) == (71, 4)


def test_windows_longer_than_states_do_not_count():
    samples = [scale(None, 3, 0.3), scale(None, 4, 0.3)]
    found = decide([*samples, scale(51, 3, 0.6, 2.0), scale(201, 3, 0.8, 0.7), scale(201, 4, 0.8, 0.7)])
    assert (found.scale, found.n_states) == (51, 3)


def test_most_states_of_equal_silhouette_are_chosen():
    samples = [scale(None, k, 0.3) for k in (2, 3, 4)]
    found = decide([*samples, *(scale(51, k, 0.6, 2.0) for k in (2, 3)), scale(51, 4, 0.55, 2.0)])
    assert found.n_states == 3
