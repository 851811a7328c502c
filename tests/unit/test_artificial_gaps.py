"""Standard deviations in gaps, calibrated on artificial gaps."""

import numpy as np
import pytest

from datasets import nascar
from gdm_core.maths.gaps import gap_factors
from gdm_core.models.registry import build


def walk_with_gap(n: int = 3000, length: int = 40) -> tuple[np.ndarray, np.ndarray]:
    y = np.cumsum(np.random.default_rng(0).normal(size=(n, 2)), axis=0)
    gap = y.copy()
    gap[700 : 700 + length] = np.nan
    return y, gap


def interpolate(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fill gaps on straight lines, with half the standard deviation of a random walk between their edges."""
    at, seen = np.arange(len(y)), np.isfinite(y[:, 0])
    filled = np.stack([np.interp(at, at[seen], one[seen]) for one in y.T], axis=1)
    before = at - np.maximum.accumulate(np.where(seen, at, 0))
    after = np.minimum.accumulate(np.where(seen, at, len(y))[::-1])[::-1] - at
    std = 0.5 * np.sqrt(before * after / np.maximum(before + after, 1))
    return filled, np.where(seen[:, None], 0.0, np.tile(std[:, None], 2))


def test_factors_undo_underestimated_deviations():
    _, gap = walk_with_gap()
    factors = gap_factors(interpolate, gap)
    inside = np.isnan(gap[:, 0])
    np.testing.assert_array_equal(factors[~inside], 1)
    assert factors[inside].mean() == pytest.approx(2, rel=0.15)
    assert (np.diff((factors * interpolate(gap)[1][:, 0])[700:720]) >= 0).all()


def test_short_recording_keeps_its_deviations():
    _, gap = walk_with_gap(60, 20)
    gap[20:40] = np.nan
    np.testing.assert_array_equal(gap_factors(interpolate, gap), 1)


@pytest.mark.parametrize(
    "name", ["arhmm", *(pytest.param(name, marks=pytest.mark.bulk) for name in ("rslds-ro", "gdm"))]
)
def test_intervals_cover_values_in_gaps(name):
    y = np.asarray(nascar.simulate("soft", 1000, seed=91).y, np.float64)
    model, covered = build(name, 4, 2, 0), []
    model.fit(y, calibrate=False)
    for start in range(100, 900, 160):
        gap = y.copy()
        gap[start : start + 60] = np.nan
        values, std = model.impute(gap, return_std=True)
        covered.append((np.abs(values - y) < 1.645 * std)[start : start + 60])
        assert (std[start + 25 : start + 35] > 1.5 * std[start]).all()
        assert (std[start + 25 : start + 35] > 1.5 * std[start + 59]).all()
    assert 0.82 < np.mean(covered) < 0.98, np.mean(covered)
