"""Envelopes: quantiles, calibration, and what they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from gdm_core.errors import ConfigError
from gdm_core.forecast import LEVELS, Calibration, Forecast, coverage, outcomes, summarise


def gaussian(origins: int = 6, horizon: int = 3, channels: int = 2, spread: float = 2.0) -> Forecast:
    mean = np.arange(origins * horizon * channels, dtype=np.float32).reshape(origins, horizon, channels)
    reach = (spread * ndtri((1 + LEVELS) / 2)).astype(np.float32)[:, None, None, None]
    return Forecast(np.arange(origins), mean, mean - reach, mean + reach, mean, np.full_like(mean, spread))


def test_outcomes_are_what_followed():
    y = np.arange(10.0).reshape(5, 2)
    found = outcomes(y, np.array([0, 3]), 2)
    np.testing.assert_array_equal(found[0], y[1:3])
    np.testing.assert_array_equal(found[1, 0], y[4])
    assert np.isnan(found[1, 1]).all()


@pytest.mark.parametrize("q", [0.005, 0.03, 0.1, 0.5, 0.77, 0.95, 0.995])
def test_quantiles_of_a_gaussian_are_exact(q):
    found = gaussian()
    np.testing.assert_allclose(found.quantile(q), found.mean + 2 * ndtri(q), atol=1e-4)


@pytest.mark.parametrize("q", [0.0, 0.004, 1.0, float("nan")])
def test_quantiles_outside_the_calibrated_range_are_refused(q):
    with pytest.raises(ConfigError, match="quantile q is"):
        gaussian().quantile(q)


def test_intervals_nest():
    found = gaussian()
    for narrow, wide in ((0.5, 0.8), (0.8, 0.9), (0.9, 0.99)):
        assert (found.interval(narrow)[0] > found.interval(wide)[0]).all()
        assert (found.interval(narrow)[1] < found.interval(wide)[1]).all()


def test_coverage_counts_what_is_known():
    found = gaussian(origins=4, horizon=1, channels=1, spread=1.0)
    y = np.array([[9.0], [0.0], [50.0], [2.0], [np.nan]])  # means are 0, 1, 2, 3 for samples 1 to 4
    assert coverage(found, y, 0.9)[0] == pytest.approx(2 / 3)


def test_summary_is_of_the_paths():
    paths = np.random.default_rng(0).normal(size=(4000, 2, 3, 2)).astype(np.float32)
    found = summarise(paths)
    np.testing.assert_allclose(found.mean, paths.mean(0), atol=1e-6)
    for i, level in enumerate(LEVELS):
        np.testing.assert_allclose(found.lower[i], np.quantile(paths, (1 - level) / 2, axis=0), atol=1e-3)
        np.testing.assert_allclose(found.upper[i], np.quantile(paths, (1 + level) / 2, axis=0), atol=1e-3)
    np.testing.assert_allclose(found.median, np.median(paths, axis=0), atol=1e-6)


def test_factors_interpolate_levels_and_hold_past_the_horizon():
    scale = np.tile(np.arange(1.0, 6.0, dtype=np.float32), (2, 3, 1))  # [H, N, levels]
    scale[1] *= 10
    found = Calibration(scale).factor(4, np.array([0.5, 0.85, 0.99]))
    assert found.shape == (3, 4, 3)
    np.testing.assert_allclose(found[:, 0, 0], [1, 2.5, 5])
    np.testing.assert_allclose(found[:, 1:, 0], np.array([10, 25, 50])[:, None].repeat(3, 1))
