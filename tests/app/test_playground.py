"""The Playground as a script, and its numbers against known results."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

from gdm_core.maths.relaxed import gumbel_softmax_kl
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from gdm_studio.plot.figures.track import barycentric
from pages.playground import gumbel
from pages.ui import exports, navigation
from tests.support.drawn import record
from tests.support.page import opened
from tests.support.scripts import run_script
from tests.support.sliders import slider, sliders

LOGITS = np.array([1.0, 0.0, -0.5])


@pytest.fixture(scope="module")
def playground() -> AppTest:
    return opened("playground")


def test_unknown_names_leave_the_address():
    app = opened("playground", softness="1", dice="3", logit1="0.5")
    assert "softness, dice" in app.toast[0].value, "links of earlier versions say what they lost"
    assert dict(app.query_params) == {"logit1": "0.5"}
    slider(app, "logit1").set_value(2).run()
    assert dict(app.query_params) == {"logit1": "2"}


def test_every_slider_moves_without_an_error(playground):
    found = sliders(playground)
    keys = {each.key for each in found}
    assert {"logit1", "logit2", "logit3", "tau", "noise", "seed", "other1"} <= keys
    for end in ("min", "max"):
        for each in found:
            slider(playground, each.key).set_value(getattr(each, end))
        playground.run()
        assert [each.value for each in sliders(playground)] == [getattr(each, end) for each in found]


@pytest.mark.bulk
def test_script_draws_the_dots_of_the_page(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(exports, "download_all", lambda name, make, **_: made.append(make()))
    opened("playground", about="Export", logit1="1.5", tau="0.6", seed="3")
    drawn, files = made[-1]
    assert {"triangle", "strip", "strongest-state", "kl-divergence"} == set(drawn)
    printed = run_script(files["playground.py"].decode(), tmp_path)
    states, hollow = (pd.read_csv(tmp_path / f"playground{part}.csv").to_numpy() for part in ("", "-hollow"))
    first, second = np.array([1.5, 0.0, -0.5]), np.array([-0.5, 0.5, 0.5])
    np.testing.assert_allclose(states, gumbel.draws(first, 0.6, gumbel.noise(500, 3, 3)), atol=1e-12)
    np.testing.assert_allclose(hollow, gumbel.draws(second, 0.6, gumbel.noise(150, 3, 5)), atol=1e-12)
    exact = gumbel_softmax_kl(torch.tensor([1.5, 0.0, -0.5]), torch.tensor([-0.5, 0.5, 0.5]))
    assert float(printed.split()[1]) == pytest.approx(float(exact), abs=1e-3)


def test_temperature_does_not_change_the_winner():
    noise = gumbel.noise(50_000, 3, 0)
    expected = softmax(LOGITS)
    error = np.sqrt(expected * (1 - expected) / len(noise))
    counted = gumbel.winners(LOGITS, noise)
    assert (np.abs(counted - expected) < 5 * error).all()
    for softness in (0.05, 0.5, 3.0):
        top = gumbel.draws(LOGITS, softness, noise).argmax(axis=1)
        np.testing.assert_allclose(np.bincount(top) / len(noise), counted)


def test_noise_scales_logits_and_temperature():
    noise = gumbel.noise(1_000, 3, 1)
    scaled = gumbel.draws(LOGITS, 0.6, noise, scale=2.5)
    np.testing.assert_allclose(scaled, gumbel.draws(LOGITS / 2.5, 0.6 / 2.5, noise), atol=1e-12)
    expected = gumbel.probabilities(LOGITS, 2.5)
    counted = gumbel.winners(LOGITS, gumbel.noise(50_000, 3, 2), 2.5)
    assert (np.abs(counted - expected) < 5 * np.sqrt(expected * (1 - expected) / 50_000)).all()


@pytest.mark.parametrize("softness", [0.6, 1.0, 2.0])
def test_density_on_the_simplex_integrates_to_one(softness):
    # A smooth map from the unit square resolves the steep density at the edges.
    u, weight = np.polynomial.legendre.leggauss(400)
    u, weight = (u + 1) / 2, weight / 2
    s = u**3 * (10 - 15 * u + 6 * u**2)  # flat at both ends
    jacobian = 30 * u**2 * (1 - u) ** 2
    a, b = np.meshgrid(s, s, indexing="ij")
    z = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1)
    density = np.exp(gumbel.log_density_on_simplex(z, LOGITS, softness))
    mass = (density * (1 - a) * np.outer(weight * jacobian, weight * jacobian)).sum()
    assert mass == pytest.approx(1, abs=0.01)


def test_density_agrees_with_torch():
    from torch.distributions.relaxed_categorical import ExpRelaxedCategorical

    log_z = gumbel.log_draws(LOGITS, 0.7, gumbel.noise(50, 3, 3))
    known = ExpRelaxedCategorical(torch.tensor(0.7, dtype=torch.float64), logits=torch.from_numpy(LOGITS))
    np.testing.assert_allclose(
        gumbel.log_density(log_z, LOGITS, 0.7), known.log_prob(torch.from_numpy(log_z)).numpy(), rtol=1e-9
    )


@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])
def test_exact_kl_equals_that_of_the_library(scale):
    first, second = LOGITS * scale, np.array([-0.5, 0.5, 3.0])
    wanted = float(gumbel_softmax_kl(torch.from_numpy(first), torch.from_numpy(second)))
    assert gumbel.exact_kl(first, second) == pytest.approx(wanted, rel=1e-7)  # the error of both quadratures


def test_sampled_kl_agrees_with_exact_kl():
    other = np.array([-0.5, 0.5, 0.5])
    exact = float(gumbel_softmax_kl(torch.from_numpy(LOGITS), torch.from_numpy(other)))
    sampled, error = gumbel.sampled_kl(LOGITS, other, np.array([0.1, 0.5, 1.0, 2.0]), 40_000, 0)
    assert (np.abs(sampled - exact) < 5 * error).all()
    assert error.max() < 0.05 * exact


@pytest.mark.parametrize(("logits", "softness", "noise"), [(LOGITS, 0.6, 1), (LOGITS, 3, 0.25), (LOGITS / 3, 0.2, 0.3)])
def test_contour_lines_hold_their_share_of_draws(logits, softness, noise):
    many, fresh = (
        figures.clip_to_interior(gumbel.draws(logits, softness, gumbel.noise(20_000, 3, seed), noise))
        for seed in (1, 2)
    )
    effective = logits / noise, softness / noise
    levels = figures.density_levels(gumbel.log_density_on_simplex(many, *effective))
    x, y, grid = figures.simplex_grid(many)
    density = gumbel.log_density_on_simplex(grid, *effective)
    figure = figures.simplex(fresh[:50], log_density=(x, y, density), levels=levels)
    contour = figure["data"][0]
    banded = untyped(contour["z"])
    assert contour["contours"] == contour["contours"] | {"start": 1, "end": 5, "size": 1}
    between = RegularGridInterpolator((y, x), banded, bounds_error=False, fill_value=0)
    there = between(barycentric(fresh)[:, ::-1])
    for line, share in zip((1, 2, 3, 4), (0.9, 0.7, 0.5, 0.3), strict=True):  # the fifth may shrink into the corner
        assert (there >= line).mean() == pytest.approx(share, abs=0.05)
    shaded = (banded >= 1).sum() / banded.size
    assert 0.1 < shaded < 0.98, "the grid adapts to the spread of the draws"


def test_second_distribution_is_drawn_with_the_divergence(monkeypatch):
    drawn = record(monkeypatch)
    opened("playground")
    assert "divergence" not in drawn
    assert not [t for t in drawn["triangle"][0]["data"] if t.get("marker", {}).get("symbol") == "circle-open"]
    app = opened("playground", about="KL divergence")
    assert "divergence" in drawn
    figure, _ = drawn["triangle"]
    (hollow,) = [t for t in figure["data"] if t.get("marker", {}).get("symbol") == "circle-open"]
    before = untyped(hollow["x"])
    assert len(before) == 150
    slider(app, "other1").set_value(3.0).run()
    moved = next(t for t in drawn["triangle"][0]["data"] if t.get("marker", {}).get("symbol") == "circle-open")
    assert untyped(moved["x"]).mean() < before.mean() - 0.2, "closer to the first corner"


LOADED = """
import sys
from pages.playground import gumbel
from pages.paper import panels
from pages.compare import results, settings
drawn = set(sys.modules)
from pages.formula1 import compare, controls, corners, field, laps, states
from pages.lab import recording
from pages.lab import slider_preview
print(*{"torch"} & sys.modules.keys(), *{"scipy.spatial", "scipy.special", "scipy.ndimage", "sklearn"} & drawn)
"""


def test_pages_do_not_import_torch():
    """Importing torch would double the time of the first visit."""
    said = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=navigation.ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == []
