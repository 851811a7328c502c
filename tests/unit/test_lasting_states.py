"""States that last: the chain of pure states, and fits of regimes that differ in level, variance or dynamics."""

import numpy as np
import pytest

from datasets import nascar, regimes
from gdm_core import ARHMM, GDM, load_model
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.compiled import guide
from gdm_core.maths import hmm
from gdm_core.maths.rows import make_rows
from gdm_core.models.gdm.chain import chain_log_probabilities
from tests.support.gdm import CPU

STAY = 0.95


def recordings() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, 2)).astype(np.float32) for n in (150, 1, 60)]


def evidence(n: int) -> np.ndarray:
    """Return log-likelihoods [n, 3] of states that last, some of them uninformative."""
    rng = np.random.default_rng(1)
    states = np.repeat(rng.integers(3, size=n // 20 + 1), 20)[:n]
    table = rng.normal(size=(n, 3)) + 2.0 * np.eye(3)[states]
    table[30:60] = 0.0
    return table.astype(np.float32)


def test_chain_equals_forward_backward():
    rows = make_rows(recordings(), CPU)
    table, starts = evidence(len(rows)), rows.age.numpy() <= 0
    transitions = np.log(np.full((3, 3), (1 - STAY) / 2) + (STAY - (1 - STAY) / 2) * np.eye(3))
    exact = hmm.posterior(table.astype(float), np.full(3, -np.log(3)), transitions, starts)
    found, _ = guide.probabilities(np.ascontiguousarray(table.T), (~starts).astype(np.float32), STAY, True)
    np.testing.assert_allclose(found.T, exact.states, atol=1e-5)
    _, kept = chain_log_probabilities(np.ascontiguousarray(table.T), (~starts).astype(np.float32), STAY)
    assert kept == pytest.approx(np.einsum("tkk->t", exact.pairs)[~starts].mean(), abs=1e-5)


def test_chain_estimates_how_long_states_last():
    rng = np.random.default_rng(2)
    states = np.cumsum(rng.random(4000) < 0.05) % 3
    table = np.where(np.eye(3)[states].T > 0, 0.0, -8.0).astype(np.float32)
    stay = 0.7
    for _ in range(20):
        _, stay = chain_log_probabilities(table, np.ones(4000, np.float32), stay)
    assert stay == pytest.approx(1 - (np.diff(states) != 0).mean(), abs=0.002)


def test_advancing_the_chain_equals_filtering():
    table = np.ascontiguousarray(evidence(150).T)
    exact, _ = guide.probabilities(table, np.ones(150, np.float32), STAY, False)
    now, weight, found = np.full(3, 1 / 3), np.empty(3), []
    for t in range(150):
        before, now = now, np.empty(3)
        guide.advance(before, table[:, t], STAY, now, weight)
        found.append(now)
    np.testing.assert_allclose(np.array(found).T, exact, atol=1e-6)


QUICK = {(GDM, "variances"), (ARHMM, "rotations")}
KINDS = [(family, kind) for family in (GDM, ARHMM) for kind in ("levels", "variances", "autoregressive", "rotations")]
KINDS += [(GDM, "walk"), (ARHMM, "drift")]


@pytest.mark.parametrize(
    ("family", "kind"), [one if one in QUICK else pytest.param(*one, marks=pytest.mark.bulk) for one in KINDS]
)
def test_regimes_are_found(family, kind):
    (trial,) = regimes.simulate(kind, 1500, seed=3 if family is GDM else 4)
    n_latent = 2 if (family, kind) == (GDM, "rotations") else "auto"
    model = family(3, n_latent, **({} if family is GDM else {"transitions": "sticky"})).fit(trial, calibrate=False)
    assert matched_accuracy(model.predict(trial), trial.labels) > (0.95 if family is GDM else 0.98)


@pytest.fixture(scope="module")
def lasting() -> GDM:
    """Return a fit of levels, which chooses a chain and noise per state."""
    model = GDM(3, 3, n_steps=60).fit(regimes.simulate("levels", 600, seed=1))
    assert model.lasting_
    return model


def test_soft_switching_keeps_the_plain_posterior():
    model = GDM(4, 2, n_steps=20)
    for _ in model.fit_iter(nascar.simulate("soft", 500, seed=61), finish=False):
        pass
    assert not model.lasting_


def test_choice_survives_saving(lasting, tmp_path):
    y = regimes.simulate("levels", 200, seed=2)
    lasting.save(tmp_path / "model.gdm")
    loaded = load_model(tmp_path / "model.gdm")
    assert loaded.lasting_
    np.testing.assert_array_equal(loaded.predict_proba(y)[0], lasting.predict_proba(y)[0])


def test_explicit_options_are_kept():
    y = regimes.simulate("levels", 400, seed=1)
    plain = GDM(3, 3, n_steps=10, lasting=False, stickiness_scale=2.0)
    for _ in plain.fit_iter(y, finish=False):
        pass
    assert not plain.lasting_
    assert plain.stickiness_scale_ == pytest.approx(2.0)


def test_filter_follows_states_that_last(lasting):
    trial = regimes.simulate("levels", 300, seed=5)[0]
    filtered = lasting.filter(trial)
    assert matched_accuracy(np.asarray(trial.labels), filtered.argmax(1)) > 0.9
    np.testing.assert_allclose(lasting.filter(trial.slice(0, 200)), filtered[:200], atol=1e-6)


def test_long_recordings_are_chosen_by_an_excerpt():
    trials = regimes.simulate("variances", 5_000, seed=1)
    model = GDM(3, 2, n_steps=60)
    for _ in model.fit_iter(trials, calibrate=False, finish=False):
        pass
    assert model.lasting_
    assert matched_accuracy(np.asarray(trials[0].labels), model.predict(trials)[0]) > 0.95
