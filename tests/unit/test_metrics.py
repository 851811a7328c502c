"""Scores against independent definitions, and all scores on simulated tracks."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM as Oracle
from sklearn import metrics as sk
from sklearn.neighbors import KNeighborsClassifier

from datasets import nascar
from gdm_core.analysis import baselines, bout_scores, metrics, predictions, state_scores
from gdm_core.analysis.baselines import GaussianHMM
from gdm_core.errors import DataError, FitError
from gdm_core.trials import Trial, Trials, as_trials
from tests.support.quick_model import narrow_model, quick_model


@pytest.fixture(scope="module")
def soft():
    return nascar.train_test("soft", seed=1)


@pytest.fixture(scope="module")
def track_lines():
    """Return the baselines of one simulation of each setting."""
    pairs = {setting: map(as_trials, nascar.train_test(setting, 0)) for setting in ("soft", "standard")}
    return {setting: state_scores.state_baselines(*pair, 4) for setting, pair in pairs.items()}


@pytest.fixture(scope="module")
def short():
    return nascar.train_test("soft", seed=1, T=200)


@pytest.fixture(scope="module")
def fitted(soft):
    return quick_model().fit(soft[0])


@pytest.fixture(scope="module")
def scores(fitted, soft):
    return metrics.evaluate(fitted, *soft)


# ---- states against labels ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_labels", [2, 3, 4, 5])
def test_matching_is_the_best_permutation(n_labels):
    rng = np.random.default_rng(n_labels)
    states, labels = rng.integers(0, 4, 200), rng.integers(0, n_labels, 200)
    best = max(
        np.mean(np.array(choice)[states] == labels)
        for choice in itertools.permutations([*range(n_labels), *[-9] * max(0, 4 - n_labels)], 4)
    )
    assert state_scores.matched_accuracy(states, labels) == pytest.approx(best)
    mapping = state_scores.match_states(states, labels)
    used = mapping[mapping >= 0]
    assert len(set(used)) == len(used) == min(4, n_labels)


def test_matching_undoes_relabelling():
    labels = np.array([0, 7, 7, 3, 3, 3, -1, -1])
    states = np.array([2, 0, 0, 1, 1, 1, 2, 1])
    assert state_scores.match_states(states, labels).tolist() == [7, 3, 0]
    assert state_scores.matched_accuracy(states, labels) == 1.0


def test_majority_map_lets_each_state_vote():
    states = np.array([0, 0, 0, 1, 1, 3])
    labels = np.array([5, 5, 2, 2, 2, -1])
    # State 2 never occurs and state 3 is never labelled: both take the most frequent label.
    assert state_scores.majority_map(states, labels, n_states=4).tolist() == [5, 2, 2, 2]


def test_paper_accuracy_equals_scikit_learn():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(4), 300), rng.dirichlet(np.ones(4), 200)
    la, lb = a.argmax(axis=1), b.argmax(axis=1)
    la[:20] = lb[:10] = -1
    oracle = KNeighborsClassifier(10).fit(a[20:], la[20:]).score(b[10:], lb[10:])
    assert state_scores.paper_accuracy(a, la, b, lb) == pytest.approx(oracle)
    one_hot_a, one_hot_b = np.eye(4)[a.argmax(axis=1)], np.eye(4)[b.argmax(axis=1)]
    oracle = KNeighborsClassifier(10).fit(one_hot_a[20:], la[20:]).score(one_hot_b[10:], lb[10:])
    assert state_scores.paper_accuracy(one_hot_a, la, one_hot_b, lb) == pytest.approx(oracle)


def test_paper_accuracy_uses_a_seeded_subset(monkeypatch):
    monkeypatch.setattr(state_scores, "MAX_NEIGHBOUR_SAMPLES", 50)
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(3), 2000), rng.dirichlet(np.ones(3), 500)
    first, again, other = (
        state_scores.paper_accuracy(a, a.argmax(axis=1), b, b.argmax(axis=1), seed=s) for s in (0, 0, 1)
    )
    assert first == again
    assert first != other
    assert first > 0.8


def test_accuracy_and_f1_equal_scikit_learn():
    rng = np.random.default_rng(3)
    labels, predicted = rng.integers(0, 4, 300), rng.integers(0, 4, 300)
    found = state_scores.label_scores(predicted, labels)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    assert found["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(labels, predicted))
    assert found["macro_f1"] == pytest.approx(sk.f1_score(labels, predicted, average="macro"))
    # A prediction of -1 or of a label that never occurs costs recall but is not a class.
    predicted[:100], predicted[100:120] = -1, 9
    found = state_scores.label_scores(predicted, 7 * labels)
    expected = sk.f1_score(7 * labels, predicted, average="macro", labels=7 * np.arange(4))
    assert found["macro_f1"] == pytest.approx(expected)
    expected = sk.recall_score(7 * labels, predicted, average="macro", labels=7 * np.arange(4))
    assert found["balanced_accuracy"] == pytest.approx(expected)


def test_matching_is_learned_on_training_trials():
    train_labels, test_labels = np.repeat([0, 1], 20), np.repeat([0, 1], 20)
    states = np.eye(2)[train_labels]
    swapped = states[:, ::-1]
    scores = state_scores.state_scores(states, train_labels, swapped, test_labels)
    assert scores.matching == "one-to-one"
    assert scores.matched_accuracy == 0.0
    assert scores.paper_accuracy == 0.0
    assert scores.matched_on_test == scores.nmi == scores.ari == 1.0


def test_more_states_than_labels_map_many_to_one():
    labels = np.repeat([0, 1], 30)
    states = np.eye(3)[np.repeat([0, 1, 2], 20)]
    scores = state_scores.state_scores(states, labels, states, labels)
    assert scores.matching == "many-to-one"
    assert scores.matched_accuracy == scores.majority_map_accuracy == pytest.approx(50 / 60)


@pytest.mark.parametrize(
    ("states", "labels", "message"),
    [
        ([0, 1], [0, 1, 1], "There are 2 states for labels of shape"),
        ([0, 1], [-1, -1], "No sample has a label"),
        ([0.5, 1.0], [0, 1], "States must be whole numbers"),
        ([-1, 1], [0, 1], "States must be whole numbers"),
        ([[1, 0], [0, 1]], [0, 1], "take the argmax"),
    ],
)
def test_invalid_states_raise_data_error(states, labels, message):
    with pytest.raises(DataError, match=message):
        state_scores.matched_accuracy(np.array(states), np.array(labels))
    with pytest.raises(DataError, match="State 5 occurs but n_states is 3"):
        state_scores.match_states([5], [0], n_states=3)
    with pytest.raises(DataError, match="equal states"):
        state_scores.paper_accuracy(np.eye(2), [0, 1], np.eye(3), [0, 1, 2])


# ---- observations -------------------------------------------------------------------------------------------------
def test_r2_pools_channels_without_missing_values():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((50, 3)) * [1, 5, 0.1] + [0, 100, -3]
    guess = y + rng.standard_normal((50, 3)) * 0.3
    expected = 1 - ((y - guess) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
    assert predictions.r2(y, guess) == pytest.approx(expected)
    assert predictions.r2(y, y) == 1.0
    assert predictions.r2(y, np.broadcast_to(y.mean(axis=0), y.shape)) == pytest.approx(0)
    hidden, garbage = y.copy(), guess.copy()
    hidden[:5], garbage[:5] = np.nan, 1e9
    assert predictions.r2(hidden, garbage) == pytest.approx(predictions.r2(y[5:], guess[5:]))
    assert np.isnan(predictions.r2(np.ones((4, 2)), np.ones((4, 2))))
    with pytest.raises(DataError, match="shape"):
        predictions.r2(y, guess[:, :2])


def test_persistence_carries_the_last_known_value():
    y = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(predictions.persistence(y), [[np.nan, np.nan], [1.0, np.nan], [1.0, 2.0]])


# ---- baselines ----------------------------------------------------------------------------------------------------
def test_the_linear_baseline_recovers_a_linear_system():
    rng = np.random.default_rng(1)
    A = np.array([[0.9, 0.2], [-0.2, 0.9]])
    y = np.zeros((3000, 2))
    for t in range(1, len(y)):
        y[t] = A @ y[t - 1] + [0.1, 0.0] + 0.1 * rng.standard_normal(2)
    y = y * [1, 50]
    trials = as_trials(y)
    linear = baselines.LinearAR.fit(trials)
    D = np.diag([1.0, 50.0])
    expected = y[:1] @ np.linalg.matrix_power(D @ A @ np.linalg.inv(D), 3).T
    bias = sum(np.linalg.matrix_power(A, k) for k in range(3)) @ [0.1, 0.0] * [1, 50]
    np.testing.assert_allclose(linear.predict(y[:1], 3)[0, 2], expected[0] + bias, rtol=0.1, atol=2)
    # Its log-likelihood is that of the true noise, up to sampling error.
    truth = -0.5 * (2 * np.log(2 * np.pi * 0.01) + 2) - np.log(50)
    assert linear.log_likelihood(trials) == pytest.approx(truth, abs=0.1)
    y[5, 0] = np.nan
    assert linear.log_likelihood(as_trials(y)) is None


def test_hmm_equals_hmmlearn():
    rng = np.random.default_rng(2)
    states = np.repeat(np.arange(30) % 3, 15)
    rows = np.array([[0, 0], [2, 1], [-1, 3]])[states] + rng.standard_normal((450, 2)) * 0.8
    starts, guess = np.isin(np.arange(450), (0, 200)), rng.integers(0, 3, 450)
    guess[:225] = states[:225]
    ours = GaussianHMM.fit(rows, starts, guess, 3)
    oracle = Oracle(3, covariance_type="diag")
    oracle.startprob_, oracle.transmat_ = ours.initial, ours.transition
    oracle.means_, oracle.covars_ = ours.mean, ours.variance
    evidence, states_oracle = oracle.score_samples(rows, lengths=[200, 250])
    found = ours.infer(rows, starts)
    assert found.log_likelihood == pytest.approx(evidence, rel=1e-9)
    np.testing.assert_allclose(found.states, states_oracle, atol=1e-8)
    # A fit of hmmlearn from the same start reaches the same optimum.
    free = Oracle(3, covariance_type="diag", n_iter=200, tol=1e-6, init_params="", min_covar=0, covars_prior=0)
    free.startprob_, free.transmat_ = ours.initial, ours.transition
    free.means_, free.covars_ = ours.mean, ours.variance
    free.fit(rows, lengths=[200, 250])
    assert abs(free.score(rows, lengths=[200, 250]) - evidence) < 0.5
    assert state_scores.matched_accuracy(found.states.argmax(axis=1), states) > 0.85


def test_baselines_of_bouts_use_all_test_samples():
    labels = np.repeat(np.arange(320) % 2, 100)
    y = labels[:, None] + 0.3 * np.random.default_rng(0).standard_normal((32_000, 1))
    trials = as_trials(Trial(y, labels=labels))
    found = bout_scores.baselines(trials, trials, 2)
    assert {np.sum(one["counts"]["bouts"]) for one in found.values()} == {32_000}
    assert found["Gaussian HMM on position"]["macro_f1"] > 0.95


@pytest.mark.bulk
@pytest.mark.parametrize(
    ("setting", "line", "score", "low", "high"),
    [
        ("soft", "k-means on steps", "majority_map_accuracy", 0.85, 0.95),
        ("soft", "10-NN on steps", "paper_accuracy", 0.90, 0.98),
        ("soft", "10-NN on position", "paper_accuracy", 0.60, 0.80),
        ("soft", "majority class", "paper_accuracy", 0.30, 0.42),
        ("standard", "10-NN on position", "paper_accuracy", 0.97, 1.01),
        ("standard", "Gaussian HMM on steps", "matched_accuracy", 0.95, 1.01),
    ],
)
def test_baselines_on_tracks_match_published_scores(track_lines, setting, line, score, low, high):
    assert low < getattr(track_lines[setting][line], score) < high


@pytest.mark.bulk
def test_forecast_baselines_match_published_scores(scores):
    assert scores.ar1_r2[9] > 0.985
    assert 0.93 < scores.persistence_r2[9] < 0.98
    model = quick_model()
    train, test = nascar.train_test("standard", 0)
    standard = metrics.Evaluation(model.fit(train), as_trials(train), as_trials(test)).score_predictions()
    assert standard.ar1_r2[9] == pytest.approx(0.963, abs=0.02)
    assert standard.persistence_r2[9] == pytest.approx(0.564, abs=0.03)


# ---- the whole record ---------------------------------------------------------------------------------------------
def test_evaluate_fills_every_field(scores, fitted):
    assert [field.name for field in dataclasses.fields(scores) if getattr(scores, field.name) is None] == ["posterior"]
    assert set(scores.baselines) == {
        "majority class",
        *(f"{kind} on {where}" for kind in ("10-NN", "k-means", "Gaussian HMM") for where in ("position", "steps")),
        "untrained model",
    }
    assert scores.matched_accuracy > 0.6
    assert scores.matching == "one-to-one"
    assert scores.elbo_train == pytest.approx(fitted.elbo_)
    assert len(scores.forecast_r2) == len(scores.coverage_50) == len(scores.coverage_90) == 10
    assert scores.elbo_test > scores.untrained_elbo_test
    assert scores.baselines["untrained model"].matched_accuracy < scores.matched_accuracy
    assert np.abs(np.array(scores.coverage_90) - 0.9).max() < 0.08
    assert np.abs(np.array(scores.adaptive_90) - 0.9).max() < 0.02


def test_forecast_scores_equal_their_definition(fitted, soft, scores):
    _, test = soft
    found = fitted.forecast(test, horizon=10, origins=np.arange(1, 999))
    for h in (1, 10):
        at = np.arange(1, 1000 - h)
        assert scores.forecast_r2[h - 1] == pytest.approx(
            predictions.r2(test.y[at + h], found.mean[: len(at), h - 1]), abs=1e-4
        )
        assert scores.persistence_r2[h - 1] == pytest.approx(predictions.r2(test.y[at + h], test.y[at]), abs=1e-9)


def test_narrow_envelope_fails_coverage(soft, fitted):
    narrow = narrow_model(soft[0])
    found = metrics.Evaluation(narrow, as_trials(soft[0]), as_trials(soft[1])).score_predictions()
    assert found.coverage_90[0] < 0.7
    # Adaptive intervals reach the right width within 0.03 of the steps: log(3.4) / (0.04 * 1000).
    assert np.abs(np.array(found.adaptive_90) - 0.9).max() < 0.04
    assert np.abs(np.array(found.adaptive_50) - 0.5).max() < 0.04
    assert min(found.adaptive_width) > 1.3


def test_record_exports_to_json_and_table(scores):
    plain = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert plain["matched_accuracy"] == scores.matched_accuracy
    assert plain["baselines"]["k-means on steps"]["nmi"] == scores.baselines["k-means on steps"].nmi
    table = scores.table()
    assert str(scores) == table
    assert scores.to_frame().loc["matched_accuracy", scores.model] == scores.matched_accuracy
    name, value = scores.best_baseline("matched_accuracy")
    row = next(line for line in table.splitlines() if line.startswith("state accuracy, matched (one-to-one)"))
    assert f"{scores.matched_accuracy:.3f}" in row
    assert f"{value:.3f}  {name}" in row
    assert f"{scores.forecast_r2[9]:.4f}" in table
    with pytest.raises(dataclasses.FrozenInstanceError):
        scores.elbo_test = 0.0


def test_unlabelled_data_has_no_state_scores(fitted, short):
    train, test = (trial.y for trial in short)
    found = metrics.evaluate(fitted, train, test)
    assert found.matched_accuracy is found.paper_accuracy is found.nmi is found.matching is None
    assert not found.baselines
    assert found.smoothed_r2_test > 0.9
    assert "state accuracy" not in found.table()
    json.dumps(found.to_dict(), allow_nan=False)


def test_partly_labelled_trials_are_scored(fitted, short):
    train, test = short
    bare = dataclasses.replace(train, labels=None)
    found = metrics.evaluate(fitted, bare, test)
    assert found.matched_accuracy is None
    assert found.matched_on_test > 0.6
    mixed = metrics.evaluate(fitted, Trials((train, bare)), Trials((test, dataclasses.replace(test, labels=None))))
    whole = metrics.evaluate(fitted, train, test)
    assert mixed.matched_accuracy == whole.matched_accuracy
    assert mixed.paper_accuracy == whole.paper_accuracy
    assert mixed.n_test == 400


def test_missing_values_and_labels_are_skipped(fitted, short):
    holes = []
    rng = np.random.default_rng(0)
    for trial in short:
        y, labels = trial.y.copy(), trial.labels.copy()
        y[rng.random(y.shape) < 0.1] = np.nan
        y[:3] = np.nan
        labels[rng.random(len(labels)) < 0.3] = -1
        holes.append(Trial(y, labels=labels))
    found = metrics.evaluate(fitted, *holes)
    assert np.isfinite([found.smoothed_r2_test, found.elbo_test, *found.forecast_r2, *found.ar1_r2]).all()
    assert 0.2 < found.matched_accuracy < 1
    assert found.ar1_log_likelihood_test is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_non_finite_states_raise_fit_error(short):
    model = quick_model().fit(short[0])
    model.params_["covariance"] = np.full_like(model.params_["covariance"], np.nan)
    with pytest.raises(FitError, match="not finite"):
        metrics.evaluate(model, *short)
