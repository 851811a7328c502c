"""Means with 95% intervals: equal to SciPy's, also for very few laps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from datasets.f1.corners import corners_of
from datasets.f1.time_won import Estimate
from tests.support.formula1 import ring_driver, ring_session

ONE, OTHER = np.array([1.2, 0.9, 1.4, 1.1, 1.3]), np.array([0.4, 1.0, 0.7])


def _estimate(values: np.ndarray) -> Estimate:
    return Estimate(values.mean(), values.std(ddof=1) / np.sqrt(values.size), np.array(values.size - 1.0))


def test_intervals_equal_those_of_scipy():
    found = _estimate(ONE)
    low, high = stats.ttest_1samp(ONE, 0).confidence_interval()
    assert [found.mean - found.margin, found.mean + found.margin] == pytest.approx([low, high])
    apart = _estimate(ONE) - _estimate(OTHER)
    low, high = stats.ttest_ind(ONE, OTHER, equal_var=False).confidence_interval()
    assert [apart.mean - apart.margin, apart.mean + apart.margin] == pytest.approx([low, high])
    assert apart.sure == (low > 0)
    assert not (_estimate(ONE[:2]) - _estimate(OTHER[:2])).sure


def test_known_error_has_a_normal_interval():
    known = Estimate(np.array(0.5), np.array(0.1), np.array(np.inf))
    assert known.margin == pytest.approx(0.196, abs=1e-4)
    exact = Estimate(np.array(0.5), np.array(0.0), np.array(4.0))
    assert (exact - exact).margin == 0
    assert not Estimate(np.array(0.5), np.array(np.nan), np.array(0.0)).sure


def test_corner_means_have_student_intervals():
    """Five laps: 2.776 standard errors instead of 1.96."""
    session = ring_session(ring_driver("AAA", n_laps=7))
    found = corners_of(session, "AAA", range(2, 7))
    found.values["time"][:] = ONE[:, None]
    assert found.mean("time").margin[0] == pytest.approx(stats.t.ppf(0.975, 4) * stats.sem(ONE))
