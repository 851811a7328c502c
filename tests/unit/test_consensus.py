"""What several fits agree on, whatever numbers they gave their states."""

from __future__ import annotations

import numpy as np
import pytest

from gdm_core.analysis.consensus import consensus, distance, like, moments
from gdm_core.errors import DataError


def soft(length=200, n_states=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_states, 0.2), length).astype(np.float32)


def test_fits_that_differ_by_numbering_alone_agree_wholly():
    one = soft()
    fits = [one, one[:, [2, 0, 1]], one[:, [1, 2, 0]]]
    found = consensus(fits)
    assert found.share == pytest.approx(1, abs=1e-6)
    assert any(np.allclose(found.states, fit) for fit in fits)


def test_more_states_come_after_those_with_a_like():
    one = soft(n_states=2)
    more = np.column_stack([one[:, 1], np.zeros(len(one)), one[:, 0]]).astype(np.float32)
    moved = like(more, one)
    assert moved.shape == (200, 3)
    assert np.allclose(moved[:, :2], one)
    fewer = like(one, more)
    assert fewer.shape == (200, 3)


def test_the_distance_is_the_weight_that_differs():
    one = np.eye(2, dtype=np.float32)[np.r_[np.zeros(50, int), np.ones(50, int)]]
    other = one.copy()
    other[40:50] = [0, 1]
    apart = distance(one, other)
    assert apart.mean() == pytest.approx(0.1)
    assert moments(apart) == [(40, 50)]


def test_moments_come_weightiest_first_and_blips_are_left_out():
    apart = np.zeros(100, np.float32)
    apart[10:12], apart[20:25], apart[60:80] = 1, 1, 0.9
    assert moments(apart) == [(60, 80), (20, 25)]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="same trial"):
        distance(soft(100), soft(200))
    with pytest.raises(DataError, match="same number of states"):
        consensus([soft(n_states=2), soft(n_states=3)])
    with pytest.raises(DataError, match="no fit"):
        consensus([])
