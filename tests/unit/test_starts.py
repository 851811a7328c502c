"""Starts of fits, and how they end: converged only where the bound no longer improves."""

from itertools import islice

import numpy as np
import pytest
import torch

from datasets import nascar, regimes
from gdm_core import ARHMM, GDM
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.maths.pca import ComponentScores
from gdm_core.maths.rows import make_rows
from gdm_core.models.em import PATIENCE
from gdm_core.models.gdm.candidates import candidates
from gdm_core.models.gdm.fit import Plan, optimise
from gdm_core.models.progress import Status
from gdm_core.models.scaling import Scaler
from gdm_core.models.starts import candidate_states
from gdm_core.models.switching.arhmm_em import ArhmmEM, find_lasting_states
from gdm_core.trials import as_trials


def test_near_tie_goes_to_states_that_last():
    """Rhythms: phases of a rhythm are states as well, but each lasts a few samples."""
    rng = np.random.default_rng(2)
    rhythm = np.repeat(rng.permutation(np.arange(12) % 3), 125)
    phase = np.cumsum(2 * np.pi / np.array([8, 15, 30])[rhythm])
    waves = np.stack([np.sin(phase), np.sin(2 * phase + 1), np.abs(np.sin(phase))], axis=1)
    y = np.array([1.0, 0.7, 1.2])[rhythm, None] * waves + 0.1 * rng.normal(size=waves.shape)
    by_steps, found = (
        ARHMM(n_states=3, n_latent=3, transitions="sticky", n_restarts=n).fit(y, calibrate=False).predict(y)
        for n in (1, 4)
    )
    assert matched_accuracy(by_steps, rhythm) < 0.8
    assert matched_accuracy(found, rhythm) > 0.95


def walks(rng, first, n_stays=10):
    """Return two walks whose steps are small and large in turn, and which is which."""
    labels = np.repeat(np.arange(n_stays) % 2, 40)
    steps = np.where(labels, 1.0, 0.1)[:, None] * rng.normal(size=(len(labels), 2))
    x = np.concatenate([np.cumsum(steps, axis=0), first + np.cumsum(steps, axis=0)])
    starts = np.zeros(len(x), bool)
    starts[[0, len(labels)]] = True
    return x, starts, np.tile(labels, 2)


def test_windows_stay_within_trials():
    x, starts, labels = walks(np.random.default_rng(0), first=1000)
    windows = candidate_states(x, starts, 2, [1])[0]
    assert matched_accuracy(windows, labels) > 0.95
    as_one = candidate_states(x, np.arange(len(x)) == 0, 2, [1])[0]
    assert matched_accuracy(as_one, labels) < 0.6


def test_windows_ignore_unknown_samples():
    x, starts, labels = walks(np.random.default_rng(1), first=0)
    known = np.ones(len(x), bool)
    for first in range(45, len(x), 80):
        known[first : first + 30] = False
        x[first : first + 30] = x[first - 1]
    seen = candidate_states(x, starts, 2, [1], known=known)[0]
    assert matched_accuracy(seen[known], labels[known]) > 0.95


@pytest.mark.parametrize("pattern", ["gap", "samples"])
def test_missing_samples_do_not_change_the_first_guess(pattern):
    y = np.asarray(nascar.simulate("soft", 1000, seed=703).y)
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    missing = y.copy()
    missing[slice(300, 360) if pattern == "gap" else np.random.default_rng(0).permutation(1000)[:100]] = np.nan
    scores = ComponentScores.fit([y], 2)
    starts = (ArhmmEM.prepare([one], scores, lags=1).first_states(4, [0], seed=0) for one in (y, missing))
    whole, partly = (states[0].argmax(axis=1) for states in starts)
    seen = np.isfinite(missing).all(axis=1)
    assert matched_accuracy(partly[seen], whole[seen]) > 0.95


def test_candidates_follow_their_seed():
    x = np.random.default_rng(2).normal(size=(300, 2))
    first, again, other = (candidate_states(x, np.arange(300) == 0, 3, range(6), seed) for seed in (0, 0, 1))
    assert len(first) == 6
    np.testing.assert_array_equal(first, again)
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("x", [np.zeros((50, 2)), np.arange(6.0).reshape(3, 2)])
def test_candidates_of_degenerate_paths_are_states(x):
    for labels in candidate_states(x, np.arange(len(x)) == 0, 4, range(4)):
        assert labels.shape == (len(x),)
        assert set(labels) <= set(range(4))


def test_short_fit_finds_lasting_states():
    (trial,) = regimes.simulate("variances", 1500, seed=3)
    y = Scaler.from_trials([trial]).apply(trial.y)
    states = find_lasting_states([y[:700], y[700:]], 3, 2, seed=0, noise_floor=None)
    assert matched_accuracy(states.argmax(axis=1), trial.labels) > 0.98
    np.testing.assert_allclose(states.sum(axis=1), 1)


# ---- ends of fits --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def track():
    return nascar.simulate("soft", 500, seed=701).y


def test_fit_that_still_improves_has_not_converged(track):
    assert GDM(4, 2, n_steps=12).fit(track, calibrate=False).status_ is Status.MAX_STEPS
    assert ARHMM(4, 2, n_iter=3).fit(track, calibrate=False).status_ is Status.MAX_STEPS


@pytest.mark.parametrize("options", [{}, {"transition": "network"}])
def test_bounds_during_a_fit_use_common_random_numbers(track, options):
    model = GDM(4, 2, **options)
    rows = make_rows([Scaler.from_trials(as_trials(track)).apply(track)], torch.device("cpu"))
    ascent = candidates(rows, model.config, 0)
    for weighted in (False, True):
        assert ascent.bound(weighted) == ascent.bound(weighted)
    before = ascent.bound(False)
    for _ in islice(optimise(ascent, Plan((30, 30), 0)), 30):
        pass
    assert ascent.bound(False) != before


def test_fit_stops_exploring_when_its_bound_is_flat(track):
    model = GDM(4, 2).fit(track, calibrate=False)
    last = model.history_[-1]
    assert last.step == last.total < 180
    assert model.status_ is Status.CONVERGED


def test_converged_em_fit_gained_nothing_at_last(track):
    model = ARHMM(4, 2, transitions="sticky").fit(track, calibrate=False)
    assert model.status_ is Status.CONVERGED
    objective = np.array([progress.objective for progress in model.history_])
    assert len(objective) > PATIENCE + 2
    assert np.diff(objective)[-PATIENCE:].max() < model.tolerance
    assert np.diff(objective)[:-PATIENCE].max() > model.tolerance
