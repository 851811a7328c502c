"""p-dLDS: its variational EM against dense conditioning and the evidence."""

import copy
import dataclasses
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import block_diag

from datasets import nascar
from gdm_core import load_model
from gdm_core.analysis.state_scores import paper_accuracy
from gdm_core.errors import FitError
from gdm_core.forecast import coverage
from gdm_core.maths.emission import Emission, Observed
from gdm_core.models.pdlds import em
from gdm_core.models.pdlds.em import Parameters, Prior, positive_shares
from gdm_core.models.pdlds.model import PDLDS, PathBelief, filter_up_to, first_belief, predict, sample_forward, update


@pytest.fixture(scope="module")
def pair():
    return nascar.train_test("standard", 0, T=400)


@pytest.fixture(scope="module")
def fitted(pair):
    return PDLDS(4, 2, seed=0, n_iter=20).fit(pair[0])


def parameters_of(model: PDLDS) -> Parameters:
    """Return the parameters of a fitted model."""
    emission = Emission(*(model.params_[f"emission_{name}"] for name in ("loadings", "offset", "noise")))
    names = [one.name for one in dataclasses.fields(Parameters)[1:]]
    return Parameters(emission, **{name: model.params_[name] for name in names})


def test_fit_climbs_and_coefficients_have_signs(fitted, pair):
    test = pair[1]
    objective = [progress.objective for progress in fitted.history_]
    assert np.diff(objective).min() > -1e-9
    soft, c = fitted.predict_proba(test), fitted.coefficients(test)
    assert soft.shape == c.shape == (400, 4)
    assert c.min() < 0 < c.max()
    assert np.mean((fitted.smooth(test) - test.y) ** 2) < 1e-3 * test.y.var()


def test_coefficients_predict_labels(fitted, pair):
    train, test = pair
    c, c_test = fitted.coefficients(train), fitted.coefficients(test)
    majority = np.bincount(test.labels).max() / len(test.labels)
    assert paper_accuracy(c, train.labels, c_test, test.labels) > majority + 0.3


def test_parallel_filter_equals_sequential_filter(fitted, pair):
    model, (train, _) = fitted, pair
    y = model.scaler_.apply(train.y)
    origins = np.array([130, 200, 255])
    p = parameters_of(model)
    together = filter_up_to(origins, y, p, p.step)
    for i, t in enumerate(origins):
        alone = first_belief(1, p)
        information, linear = p.emission.information(Observed.prepare([y]))
        for step in range(t + 1):
            alone = predict(alone, p, p.step) if step else alone
            alone = update(alone, information[step : step + 1], linear[step : step + 1], p)
        d = p.reach.shape[1]
        gap = np.abs(p.reach @ (together.mean[i, :d] - alone.mean[0, :d]))
        assert gap.max() < 1e-2


def test_bound_of_trials_is_additive(fitted, pair):
    """The bound of two concatenated recordings is the sum of their bounds."""
    p, prior = parameters_of(fitted), Prior(fitted.params_["noise_scale"], 1 / fitted.sparsity)
    ys = [fitted.scaler_.apply(part.y) for part in (pair[1].slice(0, 50), pair[1].slice(200, 290))]
    together = em.infer(Observed.prepare(ys), p, prior, tolerance=1e-10)
    apart = [em.infer(Observed.prepare([y]), p, prior, tolerance=1e-10) for y in ys]
    assert together.elbo == pytest.approx(sum(one.elbo for one in apart), abs=1e-2)
    np.testing.assert_allclose(together.c.mean[50:], apart[1].c.mean, atol=1e-2)


def test_unstable_sample_raises_fit_error(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    wild = load_model(tmp_path / "model.safetensors")
    wild.params_ = fitted.params_ | {"level": np.full(4, 2.0), "operators": np.tile(np.eye(2, 3), (4, 1, 1))}
    assert np.isfinite(wild.sample(10, seed=0)[0]).all()
    with pytest.raises(FitError, match="ran off to infinity after"):
        wild.sample(1000, seed=0)


# ---- posteriors, bound and filter -----------------------------------------------------------------------------------
N, D, K = 4, 2, 3


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


def random_parameters(rng, k=K):
    mix = rng.standard_normal((D, D))
    return Parameters(
        Emission(rng.standard_normal((N, D)), rng.standard_normal(N), rng.uniform(0.1, 0.5, N)),
        0.4 * rng.standard_normal((k, D, D + 1)),
        0.1 * mix @ mix.T + 0.1 * np.eye(D),
        rng.uniform(0.02, 0.1, D),
        rng.uniform(0.3, 0.95, k),
        rng.normal(0, 0.1, k),
        rng.uniform(0.05, 0.2, k),
        rng.uniform(0.05, 0.2, k),
    )


def random_trials(rng, lengths=(5, 3), missing=True):
    ys = [rng.standard_normal((n, N)).astype(np.float32) for n in lengths]
    if missing:
        ys[0][1, 2] = np.nan
        ys[0][3] = np.nan
    return Observed.prepare(ys)


PRIOR = Prior(0.01 * np.eye(D), 4.0)


def numeric_gaussian(log_density, size):
    """Return precision and linear term of a quadratic log density from its values."""
    eye = np.eye(size)
    at = log_density(np.zeros(size))
    one = np.array([log_density(e) for e in eye])
    minus = np.array([log_density(-e) for e in eye])
    precision = np.empty((size, size))
    for i, j in combinations_with_replacement(range(size), 2):
        precision[i, j] = precision[j, i] = -(log_density(eye[i] + eye[j]) - one[i] - one[j] + at)
    return precision, (one - minus) / 2


def log_normal(x, mean=0.0, deviation=1.0):
    """Return the normal log density; scipy.stats is thirty times slower here."""
    return -0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)


def log_joint(observed, p, s, c, variances):
    """Return log p(y, s, c | v), sample by sample."""
    total, step = 0.0, 0
    e = p.emission
    for t in range(len(observed.y)):
        seen = np.ones(N, bool) if observed.mask is None else observed.mask[t] > 0
        place = p.reach @ s[t]
        total += log_normal(observed.y[t], e.loadings @ place + e.offset, np.sqrt(e.noise))[seen].sum()
        if observed.starts[t]:
            total += log_normal(s[t]).sum() + log_normal(c[t]).sum()
            continue
        before = s[t - 1][:D]
        moved = before + sum(
            c[t, k] * (p.operators[k][:, :D] @ before + p.operators[k][:, D]) for k in range(len(p.step))
        )
        off = s[t][:D] - moved
        total -= 0.5 * (off @ np.linalg.solve(p.noise, off) + np.linalg.slogdet(2 * np.pi * p.noise)[1])
        total += log_normal(s[t][D:], s[t - 1][D:], np.sqrt(p.drift)).sum()
        total += log_normal(c[t], p.carry * c[t - 1] + p.level, np.sqrt(variances[step])).sum()
        step += 1
    return total


def test_path_given_coefficients_equals_dense(rng):
    observed, p = random_trials(rng), random_parameters(rng)
    n, size = len(observed.y), p.reach.shape[1]
    c = rng.standard_normal((n, K))
    variances = rng.uniform(0.5, 1.5, (n - 2, K))
    path = em.path_given_coefficients(observed, p, c, c[:, :, None] * c[:, None, :])
    precision, linear = numeric_gaussian(lambda v: log_joint(observed, p, v.reshape(n, size), c, variances), n * size)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(path.mean.ravel(), covariance @ linear, atol=1e-6)
    blocks = covariance.reshape(n, size, n, size)
    variance, cross = path.covariances
    np.testing.assert_allclose(variance, [blocks[t, :, t] for t in range(n)], atol=1e-6)
    np.testing.assert_allclose(cross[1:], [blocks[t, :, t - 1] for t in range(1, n)], atol=1e-6)


def test_path_uses_second_moments_of_coefficients(rng):
    """E_q(c)[log p] over many draws of c has the same mean path as the closed form."""
    observed, p = random_trials(rng), random_parameters(rng)
    n = len(observed.y)
    mean, deviation = rng.standard_normal((n, K)), 0.3
    second = mean[:, :, None] * mean[:, None, :] + deviation**2 * np.eye(K)
    exact = em.path_given_coefficients(observed, p, mean, second)
    # Sigma points with the same first and second moments.
    points = [mean + sign * deviation * np.sqrt(K) * axis for axis in np.eye(K) for sign in (1, -1)]
    parts = [em.path_given_coefficients(observed, p, c, c[:, :, None] * c[:, None, :]) for c in points]
    np.testing.assert_allclose(exact.diagonal, np.mean([part.diagonal for part in parts], axis=0), atol=1e-9)
    np.testing.assert_allclose(exact.linear, np.mean([part.linear for part in parts], axis=0), atol=1e-9)


def test_coefficients_given_path_equal_dense(rng):
    observed, p = random_trials(rng), random_parameters(rng)
    n, size = len(observed.y), p.reach.shape[1]
    s = rng.standard_normal((n, size))
    joint = np.concatenate([s[:, :D], np.concatenate([s[:1, :D], s[:-1, :D]]), np.ones((n, 1))], axis=1)
    weights = rng.uniform(0.5, 2.0, (n - 2, K))
    path = em.coefficients_given_path(observed, p, joint[:, :, None] * joint[:, None, :], weights)
    precision, linear = numeric_gaussian(lambda v: log_joint(observed, p, s, v.reshape(n, K), 1 / weights), n * K)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(path.mean.ravel(), covariance @ linear, atol=1e-6)
    blocks = covariance.reshape(n, K, n, K)
    np.testing.assert_allclose(path.covariances[0], [blocks[t, :, t] for t in range(n)], atol=1e-6)


def test_bound_is_evidence_without_operators(rng):
    """The model is linear Gaussian for zero operators and nearly Gaussian steps."""
    observed = random_trials(rng)
    p = dataclasses.replace(random_parameters(rng), operators=np.zeros((K, D, D + 1)))
    prior = dataclasses.replace(PRIOR, freedom=1e6)
    n, size = len(observed.y), p.reach.shape[1]
    constant = log_joint(observed, p, np.zeros((n, size)), np.zeros((n, K)), np.ones((n - 2, K)))
    precision, linear = numeric_gaussian(
        lambda v: log_joint(observed, p, v.reshape(n, size), np.zeros((n, K)), np.ones((n - 2, K))), n * size
    )
    mean = np.linalg.solve(precision, linear)
    evidence = constant + 0.5 * (linear @ mean + n * size * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1])
    # `log_joint` counts the density of c = 0, which is not part of the evidence of y.
    evidence -= 2 * K * stats.norm.logpdf(0) + (n - 2) * stats.norm.logpdf(p.level).sum()
    found = em.infer(observed, p, prior, tolerance=1e-12)
    assert found.elbo == pytest.approx(evidence, abs=1e-3)
    assert found.elbo <= evidence + 1e-6


def test_bound_is_below_the_evidence(rng):
    """Importance sampling of the coefficients with the path integrated exactly; T = 3, one operator."""
    observed = random_trials(rng, lengths=(3,), missing=False)
    p = random_parameters(rng, k=1)
    p.operators[...] *= 0.5
    draws = 50_000
    generator = np.random.default_rng(1)
    c = np.empty((draws, 3))
    c[:, 0] = generator.standard_normal(draws)
    for t in (1, 2):
        c[:, t] = p.carry * c[:, t - 1] + p.level + np.sqrt(p.step) * generator.standard_t(PRIOR.freedom, draws)
    # y given c is Gaussian: propagate mean and covariance of the path along all draws at once.
    e, size = p.path_emission, 2 * D
    a, constant = np.zeros((size, size)), np.zeros(size)
    a[:D, :D], constant[:D] = p.operators[0, :, :D], p.operators[0, :, D]
    noise = block_diag(p.noise, np.diag(p.drift))
    mean, covariance = np.zeros((draws, size)), np.tile(np.eye(size), (draws, 1, 1))
    total = np.zeros(draws)
    for t in range(3):
        if t:
            f = np.eye(size) + c[:, t, None, None] * a
            mean = (f @ mean[:, :, None])[:, :, 0] + c[:, t, None] * constant
            covariance = f @ covariance @ np.swapaxes(f, 1, 2) + noise
        seen = e.loadings @ covariance @ e.loadings.T + np.diag(e.noise)
        error = observed.y[t] - mean @ e.loadings.T - e.offset
        solved = np.linalg.solve(seen, error[:, :, None])[:, :, 0]
        total -= 0.5 * ((error * solved).sum(axis=1) + np.linalg.slogdet(seen)[1] + N * np.log(2 * np.pi))
        gain = covariance @ e.loadings.T @ np.linalg.inv(seen)
        mean = mean + (gain @ error[:, :, None])[:, :, 0]
        covariance = covariance - gain @ e.loadings @ covariance
    scale = np.exp(total - total.max())
    evidence = total.max() + np.log(scale.mean())
    error = scale.std() / scale.mean() / np.sqrt(draws)
    elbo = em.infer(observed, p, PRIOR, tolerance=1e-9).elbo
    assert elbo < evidence + 4 * error
    assert elbo > evidence - 1.0  # a bound, and not a loose one


def test_objective_never_falls(rng):
    observed, p = random_trials(np.random.default_rng(3), (40, 25)), random_parameters(np.random.default_rng(4))
    prior = Prior(0.01 * np.eye(D), 3.0)
    values = [now.elbo + q.log_prior(prior) for q, now in em.PdldsEM(observed, None, prior).iterate(p, 30)]
    assert np.diff(values).min() > -1e-8 * abs(values[0])
    assert values[-1] > values[0] + 1.0


def test_every_block_raises_the_bound(rng):
    observed, p = random_trials(np.random.default_rng(5), (30, 20)), random_parameters(np.random.default_rng(6))
    now = em.first_posterior(observed, p, PRIOR)
    x = em.path_given_coefficients(observed, p, now.c.mean, now.c.second_moments())
    first = em.bound(observed, p, PRIOR, x, now.c)
    weights = em.step_weights(now.c.squares(p, observed.starts), p.step, PRIOR.freedom)
    c = em.coefficients_given_path(observed, p, x.moments, weights)
    second = em.bound(observed, p, PRIOR, x, c)
    operators, noise = em.fit_operators(p, PRIOR, x, c, observed.starts)
    steps = em.fit_steps(p, PRIOR, c, observed.starts)

    def objective(q):
        return em.bound(observed, q, PRIOR, x, c) + q.log_prior(PRIOR)

    assert now.elbo < first < second
    assert objective(p) < objective(dataclasses.replace(p, operators=operators, noise=noise))
    assert objective(p) < objective(steps)
    # The regression solution is a local optimum of each entry.
    best = dataclasses.replace(p, operators=operators, noise=noise)
    for sign in (1e-3, -1e-3):
        moved = operators.copy()
        moved[1, 0, 1] += sign
        assert objective(dataclasses.replace(best, operators=moved)) < objective(best)


def test_operator_signs_are_a_free_choice(rng):
    observed, p = random_trials(rng, (12, 9)), random_parameters(rng)
    now = em.infer(observed, p, PRIOR, tolerance=1e-10)
    turned = p.orient(-np.sign(now.c.mean.mean(axis=0)) * np.ones((2, K)))
    after = em.infer(observed, turned, PRIOR, tolerance=1e-10)
    assert after.elbo == pytest.approx(now.elbo, abs=1e-5)
    np.testing.assert_allclose(np.abs(after.c.mean), np.abs(now.c.mean), atol=1e-3)


def test_positive_shares(rng):
    mean = np.array([[1.0, 3.0, -5.0], [-1.0, -2.0, -3.0]])
    np.testing.assert_allclose(
        positive_shares(mean, np.zeros_like(mean)), [[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-9
    )
    deviation = np.array([[0.5, 0.2, 4.0]])
    draws = np.maximum(rng.normal(mean[:1], deviation, (400_000, 3)), 0).mean(axis=0)
    np.testing.assert_allclose(positive_shares(mean[:1], deviation)[0], draws / draws.sum(), atol=3e-3)


# ---- the filter ---------------------------------------------------------------------------------------------------
def test_filter_is_exact_without_operators(rng):
    p = dataclasses.replace(random_parameters(rng), operators=np.zeros((K, D, D + 1)))
    y = rng.standard_normal((30, N)).astype(np.float32)
    y[7:9] = np.nan
    y[4, 1] = np.nan
    for t in (0, 5, 29):
        belief = filter_up_to(np.array([t]), y, p, p.step)
        observed = Observed.prepare([y[: t + 1]])
        path = em.path_given_coefficients(observed, p, np.zeros((t + 1, K)), np.zeros((t + 1, K, K)))
        size = p.reach.shape[1]
        np.testing.assert_allclose(belief.mean[0, :size], path.mean[-1], atol=1e-8)
        np.testing.assert_allclose(belief.covariance[0, :size, :size], path.covariances[0][-1], atol=1e-8)


def test_prediction_has_the_moments_of_a_product_of_gaussians(rng):
    p = dataclasses.replace(random_parameters(rng), noise=0.01 * np.eye(D))
    size = p.reach.shape[1] + K
    root = 0.7 * rng.standard_normal((size, size))
    belief = PathBelief(rng.standard_normal((1, size)), (root @ root.T)[None])
    found = predict(belief, p, np.full(K, 0.3))
    n = 400_000
    state = rng.multivariate_normal(belief.mean[0], belief.covariance[0], n)
    s, c = state[:, :-K], state[:, -K:]
    c = p.carry * c + p.level + np.sqrt(0.3) * rng.standard_normal((n, K))
    operator = p.mix_operators(c)
    s[:, :D] += (operator[..., :D] @ s[:, :D, None])[..., 0] + operator[..., D] + 0.1 * rng.standard_normal((n, D))
    drawn = np.concatenate([s, c], axis=1)
    scale = np.sqrt(np.diagonal(found.covariance[0]))
    np.testing.assert_allclose(drawn.mean(axis=0) / scale, found.mean[0] / scale, atol=0.01)
    np.testing.assert_allclose(np.cov(drawn[:, :D].T), found.covariance[0, :D, :D], rtol=0.05, atol=0.02)


def test_forecasts_cover_samples_of_the_model(fitted):
    y, _, _ = fitted.sample(700, seed=1)
    uncalibrated = copy.copy(fitted)
    uncalibrated.calibration_ = None
    covered = coverage(uncalibrated.forecast(y, 10, origins=np.arange(100, 690), adaptive=False), y)
    assert (np.abs(covered[[0, 4, 9]] - 0.9) < 0.05).all(), covered


def test_noise_free_forecasts_are_matrix_powers():
    p = dataclasses.replace(
        random_parameters(np.random.default_rng(1)),
        noise=1e-24 * np.eye(D),
        drift=np.full(D, 1e-24),
        step=np.full(K, 1e-24),
        carry=np.ones(K),
        level=np.zeros(K),
    )
    start = np.array([0.3, -0.4, 0.1, 0.2, 0.5, -0.2, 0.7])
    paths, c = sample_forward(p, 3.0, start, 6, np.random.default_rng(0))
    whole = p.mix_operators(start[2 * D :])
    step = np.block([[np.eye(D) + whole[:, :D], whole[:, D:]], [np.zeros((1, D)), np.ones((1, 1))]])
    for h in range(6):
        wanted = np.linalg.matrix_power(step, h + 1) @ np.append(start[:D], 1.0)
        np.testing.assert_allclose(paths[h, :D], wanted[:D], atol=1e-9)
    np.testing.assert_allclose(c, np.tile(start[2 * D :], (6, 1)), atol=1e-9)
