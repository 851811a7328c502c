"""Missing observations: posterior, bound on the observed values, and gaps in every model."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import multivariate_normal

from datasets import nascar, regimes
from gdm_core import ARHMM, GDM
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.maths.completion import Steps, missing_entries, steps_needed
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.gaps import gap_factors
from gdm_core.maths.relaxed import log_density
from gdm_core.maths.rows import make_rows
from gdm_core.models.gdm.missing import complete, missing_data_bound
from gdm_core.models.progress import Status
from gdm_core.models.registry import build
from gdm_core.models.scaling import prepare, score_baseline
from gdm_core.trials import as_trials
from tests.support.gdm import fitted_module

CPU = torch.device("cpu")


def random_steps(rng, y, missing):
    rows, (n_channels, d) = steps_needed(missing), (y.shape[1], 2)
    m = len(rows)
    root = rng.normal(size=(m, n_channels, n_channels))
    gain = 0.4 * rng.normal(size=(m, d, n_channels))
    gain[rows == 0] = 0.0
    return Steps(
        rows,
        rng.normal(size=(d, n_channels)),
        gain,
        rng.normal(size=(m, n_channels)),
        root @ root.swapaxes(1, 2) + np.eye(n_channels),
    )


def test_missing_entries_match_dense_gaussian():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(7, 3))
    missing = rng.random(y.shape) < 0.4
    missing[3] = True
    steps = random_steps(rng, y, missing)
    found = missing_entries(y, missing, steps)

    def energy(values):
        residual = steps.residual(found.fill(y, values))
        return 0.5 * np.einsum("mi,mij,mj->", residual, steps.precision, residual)

    n = int(missing.sum())
    units = np.eye(n)
    base = energy(np.zeros(n))
    single = np.array([energy(one) for one in units])
    pairs = np.array([[energy(a + b) for b in units] for a in units])
    precision = pairs - single[:, None] - single + base
    linear = base - single + 0.5 * np.diagonal(precision)
    expected = multivariate_normal(np.linalg.solve(precision, linear), np.linalg.inv(precision))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-8)
    draws, log_density = found.draw(3000, np.random.default_rng(0))
    np.testing.assert_allclose(log_density[:5], expected.logpdf(draws[:5]), atol=1e-6)
    np.testing.assert_allclose(np.cov(draws.T), expected.cov, atol=0.1 * np.abs(expected.cov).max())


def test_growing_dynamics_keep_long_gaps_solvable():
    y, missing = np.ones((60, 2)), np.zeros((60, 2), bool)
    missing[5:55] = True
    rows = steps_needed(missing)
    gain = np.tile(1e3 * np.eye(2), (len(rows), 1, 1))
    precision = np.tile(np.diag([1e8, 1e-6]), (len(rows), 1, 1))
    found = missing_entries(y, missing, Steps(rows, np.eye(2), gain, np.zeros((len(rows), 2)), precision))
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.draw(2, np.random.default_rng(0))[1]).all()


def test_causal_fill_equals_fill_of_the_past():
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=(80, 2)), axis=0) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(80, 5))
    y[rng.random(y.shape) < 0.3] = np.nan
    y[20:30] = np.nan
    factors = FactorModel.fit([y], 2)
    filled, belief = factors.fill_causally(y), factors.filter_start()
    for t in range(len(y)):
        np.testing.assert_allclose(filled[t], factors.fill(y[: t + 1])[t], atol=1e-8)
        *belief, sample = factors.filter(y[t : t + 1], *belief)
        np.testing.assert_allclose(sample[0], filled[t], atol=1e-12)


def test_baseline_is_a_density_of_a_mostly_missing_walk():
    rng = np.random.default_rng(4)
    y = np.cumsum(rng.normal(size=(400, 1)), axis=0)
    y[rng.random(y.shape) < 0.8] = np.nan
    scaler, factors, ys = prepare(as_trials(y), 1)
    seen = y[np.isfinite(y)]
    gaps = np.diff(np.flatnonzero(np.isfinite(y[:, 0])))
    exact = -0.5 * (np.diff(seen) ** 2 / gaps + np.log(2 * np.pi * gaps)).sum() / len(seen)
    assert score_baseline(scaler, factors, ys, None) < exact + 0.1


@torch.no_grad()
def log_evidence(module, y, tau, points=21, reach=10.0):
    """Integrate out K = 2 soft states of a complete recording on a grid."""
    grid = torch.linspace(-reach, reach, points, dtype=torch.float64)
    log_z = torch.stack([torch.nn.functional.logsigmoid(grid), torch.nn.functional.logsigmoid(-grid)], -1)
    states = log_z[torch.cartesian_prod(*[torch.arange(points)] * len(y))]
    rows = make_rows([y], CPU, torch.float64)
    view = module.view(rows)
    prior = module.prior_logits(view.context, states.exp(), rows)
    joint = module.log_likelihood(states.exp(), view.design, rows) + log_density(states, prior, tau)
    return float(torch.logsumexp(joint.sum(-1), 0)) + len(y) * math.log(float(grid[1] - grid[0]))


@pytest.mark.parametrize("where", [(0, 1), pytest.param((1, 0), marks=pytest.mark.bulk)])
def test_bound_with_a_missing_entry_is_below_the_evidence(where):
    y = np.array([[0.2, -0.4], [0.5, 0.1], [0.9, -0.2]])
    model = GDM(2, 1, n_steps=20, stickiness=0.5).fit(np.random.default_rng(0).normal(size=(60, 2)))
    module, seen = fitted_module(model).double(), y.copy()
    seen[where] = np.nan
    values = np.linspace(-8, 8, 33)
    each = []
    for value in values:
        whole = y.copy()
        whole[where] = value
        each.append(log_evidence(module, whole, model.config.temperature))
    exact = np.logaddexp.reduce(each) + np.log(values[1] - values[0])
    bounds = [missing_data_bound(module, seen, np.nan_to_num(seen), seed) for seed in range(8)]
    error = np.std(bounds) / np.sqrt(len(bounds))
    assert exact - 0.5 < np.mean(bounds) < exact + 3 * error + 1e-3


@pytest.fixture(scope="module")
def soft_track():
    trial = nascar.simulate("soft", 600, seed=62)
    y = np.array(trial.y, np.float64)
    gap = y.copy()
    gap[300:360] = np.nan
    return y, gap, np.asarray(trial.labels), GDM(4, 2).fit(gap, calibrate=False)


def test_gap_leaves_states_and_score_intact(soft_track):
    y, gap, labels, model = soft_track
    complete_model = GDM(4, 2).fit(y, calibrate=False)
    seen = np.isfinite(gap).any(axis=1)
    accuracy = matched_accuracy(model.predict(gap)[seen], labels[seen])
    assert accuracy > matched_accuracy(complete_model.predict(y)[seen], labels[seen]) - 0.05
    assert model.score(gap) > complete_model.score(y) - 1


def test_gap_is_bridged_with_intervals_that_widen(soft_track):
    y, gap, _, model = soft_track
    values, std = model.impute(gap, return_std=True)
    scale = y.std(axis=0)
    error = (values - y)[300:360] / scale
    assert np.sqrt((error**2).mean()) < 0.3
    np.testing.assert_array_equal(std[:300], 0.0)
    middle = std[320:340].mean(axis=0)
    assert (middle > 1.5 * std[300]).all()
    assert (middle > 1.5 * std[359]).all()
    np.testing.assert_allclose(values[:300], y[:300], rtol=1e-4, atol=1e-4)


def test_forecast_from_inside_a_gap_starts_before_it(soft_track):
    _, gap, _, model = soft_track
    inside = model.forecast(gap, horizon=3, origins=[304], adaptive=False)
    before = model.forecast(gap, horizon=8, origins=[299], adaptive=False)
    np.testing.assert_allclose(inside.mean[0], before.mean[0, 5:], rtol=1e-5)


def test_long_recordings_are_completed_in_pieces(soft_track, monkeypatch):
    _, gap, _, model = soft_track
    standard = model.scaler_.apply(gap)
    filled = model.factors_.fill(standard)
    module = fitted_module(model)
    whole = complete(module, standard, filled)
    monkeypatch.setattr("gdm_core.models.gdm.missing.PIECE_SAMPLES", 330)
    cut = complete(module, standard, filled)
    assert len(cut.pieces) == 2
    assert np.sqrt(((cut.y - whole.y) ** 2).mean()) < 0.05


def test_states_in_a_gap_approach_the_stationary_ones():
    (trial,) = regimes.simulate("levels", 1500, seed=4)
    gap = np.array(trial.y, np.float64)
    model = ARHMM(3, 3, transitions="sticky", n_iter=20).fit(gap, calibrate=False)
    gap[300:1200] = np.nan
    states = model.predict_proba(gap)
    moves = softmax(model.params_["transition_bias"], axis=1)
    np.testing.assert_allclose(states[750], np.linalg.matrix_power(moves, 5000)[0], atol=0.01)
    for edge, inside in ((299, 301), (1200, 1198)):  # a gap cuts the dynamics and not the chain of states
        assert states[edge].argmax() == states[inside].argmax()
        assert states[inside].max() > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_channels_seen_in_rare_states_keep_a_fit_stable(seed):
    rng = np.random.default_rng(seed)
    x = np.zeros((1500, 3))
    for before, after, step in zip(x, x[1:], 0.3 * rng.normal(size=x.shape), strict=False):
        after[:] = 0.97 * before + step
    complete_y = x @ rng.normal(size=(3, 9)) + 0.2 * rng.normal(size=(len(x), 9))
    y = complete_y.copy()
    y[x[:, 0] < np.quantile(x[:, 0], 0.95), 5:] = np.nan
    y[np.arange(len(y)) // 70 % 2 == 0, 2:5] = np.nan
    y[:100] = np.nan
    assert np.isnan(y).mean() > 0.5
    model = GDM(4, 3).fit(y, calibrate=False)
    assert model.status_ is Status.CONVERGED
    assert model.score(y) > GDM(4, 3).fit(complete_y, calibrate=False).score(y) - 0.5


# ---- standard deviations, calibrated on artificial gaps ------------------------------------------------------------
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
