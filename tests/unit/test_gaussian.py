"""Block-tridiagonal Gaussians against dense algebra."""

import numpy as np
import pytest

from gdm_core.errors import FitError
from gdm_core.maths.gaussian import GaussianPath, products


def random_path(rng, n_samples, n_latent, seam=None):
    """Return a random GaussianPath and its dense precision."""
    d = n_latent
    diagonal, below = np.zeros((n_samples, d, d)), np.zeros((n_samples, d, d))
    for t in range(n_samples):
        a = rng.normal(size=(2 * d, 2 * d))
        a = a @ a.T
        diagonal[t] += a[:d, :d] + 0.1 * np.eye(d)
        if t and t != seam:
            diagonal[t - 1] += a[d:, d:]
            below[t] = a[:d, d:]
    dense = np.zeros((n_samples, d, n_samples, d))
    for t in range(n_samples):
        dense[t, :, t] = diagonal[t]
        if t:
            dense[t, :, t - 1], dense[t - 1, :, t] = below[t], below[t].T
    path = GaussianPath(diagonal, below, rng.normal(size=(n_samples, d)))
    return path, dense.reshape(n_samples * d, n_samples * d)


@pytest.mark.parametrize(("n_samples", "n_latent"), [(1, 1), (1, 3), (2, 2), (5, 1), (8, 2), (17, 3), (32, 4)])
def test_moments_and_entropy_equal_dense_algebra(n_samples, n_latent):
    path, precision = random_path(np.random.default_rng(n_samples), n_samples, n_latent)
    covariance = np.linalg.inv(precision)
    mean = covariance @ path.linear.ravel()
    np.testing.assert_allclose(path.mean.ravel(), mean, atol=1e-9)
    size = n_samples * n_latent
    logdet = np.linalg.slogdet(precision)[1]
    assert path.log_determinant == pytest.approx(logdet, abs=1e-9)
    assert path.entropy == pytest.approx(0.5 * (size * (1 + np.log(2 * np.pi)) - logdet), abs=1e-9)
    dense = covariance.reshape(n_samples, n_latent, n_samples, n_latent)
    variance, cross = path.covariances
    for t in range(n_samples):
        np.testing.assert_allclose(variance[t], dense[t, :, t], atol=1e-9)
        np.testing.assert_allclose(cross[t], dense[t, :, t - 1] if t else 0.0, atol=1e-9)
    x = np.random.default_rng(0).normal(size=(n_samples, n_latent))
    np.testing.assert_allclose(path.times(x).ravel(), precision @ x.ravel(), atol=1e-9)


def test_zero_block_separates_trials():
    path, _ = random_path(np.random.default_rng(3), 9, 2, seam=4)
    left = GaussianPath(path.diagonal[:4], path.below[:4], path.linear[:4])
    right = GaussianPath(path.diagonal[4:], path.below[4:], path.linear[4:])
    np.testing.assert_allclose(path.mean, np.concatenate([left.mean, right.mean]), atol=1e-12)
    np.testing.assert_allclose(
        path.covariances[0], np.concatenate([left.covariances[0], right.covariances[0]]), atol=1e-12
    )
    assert path.entropy == pytest.approx(left.entropy + right.entropy)


def test_towards_interpolates_natural_parameters():
    rng = np.random.default_rng(5)
    first, precision = random_path(rng, 5, 2)
    second, other = random_path(rng, 5, 2)
    between = first.move_towards(second, 0.25)
    dense = 0.75 * precision + 0.25 * other
    linear = 0.75 * first.linear.ravel() + 0.25 * second.linear.ravel()
    np.testing.assert_allclose(between.mean.ravel(), np.linalg.solve(dense, linear), atol=1e-9)


def test_indefinite_precision_raises_fit_error():
    path = GaussianPath(-np.ones((3, 1, 1)), np.zeros((3, 1, 1)), np.zeros((3, 1)))
    with pytest.raises(FitError, match="positive"):
        _ = path.mean


@pytest.mark.parametrize("n", [1, 2, 9, 100])
def test_products_equal_numpy(n):
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(n, 2, 3)), rng.normal(size=(n, 3, 4))
    found = products(left.transpose(1, 2, 0), right.transpose(1, 2, 0))
    np.testing.assert_allclose(found.transpose(2, 0, 1), left @ right, atol=1e-12)


@pytest.mark.parametrize("factored", [False, True])
def test_centred_keeps_the_precision(factored):
    path, _ = random_path(np.random.default_rng(5), 30, 2)
    if factored:
        assert path.entropy
    mean = np.random.default_rng(6).normal(size=(30, 2))
    moved = path.recentre(mean)
    fresh = GaussianPath(moved.diagonal, moved.below, moved.linear)
    np.testing.assert_allclose(moved.mean, fresh.mean, atol=1e-9)
    np.testing.assert_allclose(moved.covariances[0], fresh.covariances[0], atol=1e-12)
    assert moved.entropy == pytest.approx(path.entropy)
