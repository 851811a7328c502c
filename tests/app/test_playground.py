"""The Playground: its page as a script, and its numbers against what is known of the distribution."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

from gdm_core.relaxed import gumbel_softmax_kl
from pages.playground import gumbel
from pages.ui import figures, navigation
from tests.support import pace

APP = str(navigation.ROOT / "app.py")
PAGE = str(navigation.info("playground").path)
LOGITS = np.array([1.0, 0.0, -0.5])


@pytest.fixture(scope="module")
def opened() -> AppTest:
    return AppTest.from_file(APP, default_timeout=60).run().switch_page(PAGE).run()


def test_the_page_opens_with_its_sliders(opened):
    assert not opened.exception
    keys = {slider.key for slider in opened.slider}
    assert {"logit1", "logit2", "logit3", "softness", "noise", "stay", "dice", "other1"} <= keys


def test_every_slider_moves_without_an_error(opened):
    for slider in list(opened.slider):
        for value in (slider.min, slider.max):
            opened.slider(key=slider.key).set_value(value)
            opened.run()
            assert not opened.exception, f"{slider.key} = {value}"
        opened.slider(key=slider.key).set_value(slider.value)


def test_draws_lie_on_the_simplex_and_repeat():
    z = gumbel.draws(LOGITS, 0.3, gumbel.noise(500, 3, 7))
    np.testing.assert_allclose(z.sum(axis=1), 1)
    assert (z >= 0).all()
    np.testing.assert_array_equal(z, gumbel.draws(LOGITS, 0.3, gumbel.noise(500, 3, 7)))


def test_softness_never_changes_who_wins():
    noise = gumbel.noise(50_000, 3, 0)
    expected = softmax(LOGITS)
    error = np.sqrt(expected * (1 - expected) / len(noise))
    counted = gumbel.winners(LOGITS, noise)
    assert (np.abs(counted - expected) < 5 * error).all()
    for softness in (0.05, 0.5, 3.0):
        top = gumbel.draws(LOGITS, softness, noise).argmax(axis=1)
        np.testing.assert_allclose(np.bincount(top) / len(noise), counted)


def test_noise_is_evidence_and_softness_under_other_names():
    noise = gumbel.noise(1_000, 3, 1)
    scaled = gumbel.draws(LOGITS, 0.6, noise, scale=2.5)
    np.testing.assert_allclose(scaled, gumbel.draws(LOGITS / 2.5, 0.6 / 2.5, noise), atol=1e-12)
    expected = gumbel.probabilities(LOGITS, 2.5)
    counted = gumbel.winners(LOGITS, gumbel.noise(50_000, 3, 2), 2.5)
    assert (np.abs(counted - expected) < 5 * np.sqrt(expected * (1 - expected) / 50_000)).all()


@pytest.mark.parametrize("softness", [0.6, 1.0, 2.0])
def test_the_density_on_the_triangle_adds_up_to_one(softness):
    # A smooth map from the unit square resolves the edges, where the density may be steep.
    u, weight = np.polynomial.legendre.leggauss(400)
    u, weight = (u + 1) / 2, weight / 2
    s = u**3 * (10 - 15 * u + 6 * u**2)  # flat at both ends
    jacobian = 30 * u**2 * (1 - u) ** 2
    a, b = np.meshgrid(s, s, indexing="ij")
    z = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1)
    density = np.exp(gumbel.log_density_on_simplex(z, LOGITS, softness))
    mass = (density * (1 - a) * np.outer(weight * jacobian, weight * jacobian)).sum()
    assert mass == pytest.approx(1, abs=0.01)


def test_the_density_agrees_with_torch():
    from torch.distributions.relaxed_categorical import ExpRelaxedCategorical

    log_z = gumbel.log_draws(LOGITS, 0.7, gumbel.noise(50, 3, 3))
    known = ExpRelaxedCategorical(torch.tensor(0.7, dtype=torch.float64), logits=torch.from_numpy(LOGITS))
    np.testing.assert_allclose(
        gumbel.log_density(log_z, LOGITS, 0.7), known.log_prob(torch.from_numpy(log_z)).numpy(), rtol=1e-9
    )


def test_the_sampled_divergence_agrees_with_the_exact_one_at_every_softness():
    other = np.array([-0.5, 0.5, 0.5])
    exact = float(gumbel_softmax_kl(torch.from_numpy(LOGITS), torch.from_numpy(other)))
    sampled = gumbel.sampled_kl(LOGITS, other, np.array([0.1, 0.5, 1.0, 2.0]), 40_000, 0)
    assert (np.abs(sampled.mean - exact) < 5 * sampled.error).all()
    assert sampled.error.max() < 0.05 * exact


def test_stays_without_stickiness_last_as_chance_says():
    # The evidence is dealt anew at each step, so the state before repeats in one of three.
    stays = gumbel.simulate_stays(LOGITS, 0.5, 1.0, np.array([0.0, 1.0]), 0, n_chains=200)
    n = len(stays.lengths[0])
    assert stays.mean()[0] == pytest.approx(1.5, abs=5 * 0.87 / np.sqrt(n))
    assert stays.mean()[1] > stays.mean()[0] * 1.1
    share = stays.survival(0, 5)
    assert share[0] == 1
    np.testing.assert_allclose(share[1:4], 3.0 ** -np.arange(1, 4), atol=0.02)


def test_stays_are_cut_right():
    top = np.array([[0, 1], [0, 1], [1, 1], [1, 0], [1, 0], [2, 0], [2, 1], [2, 1]])
    # First stays and those that begin in the second half are left out.
    assert sorted(gumbel._first_half_stays(top).tolist()) == [3, 3]


def test_a_move_is_computed_within_a_tenth_of_a_second():
    def everything() -> None:
        x, y, grid = figures.simplex_grid()
        density = gumbel.log_density_on_simplex(grid, LOGITS, 0.6)
        figures.simplex(gumbel.draws(LOGITS, 0.6, gumbel.noise(500, 3, 0)), log_density=(x, y, density))
        gumbel.winners(LOGITS, gumbel.noise(20_000, 3, 0))
        gumbel.sampled_kl(LOGITS, -LOGITS, np.array([0.1, 0.2, 0.5, 1.0, 2.0]), 8_000, 0)
        gumbel.simulate_stays(LOGITS, 0.6, 1.0, np.linspace(0, 1, 11), 0)

    everything()
    times = []
    for _ in range(5):
        began = time.process_time()
        everything()
        times.append(time.process_time() - began)
    print(f"all numbers of one move: {1000 * min(times):.0f} ms")
    assert min(times) < pace.limit(0.1)
