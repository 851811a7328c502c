"""The hand-written gradients against autograd, the optimiser's steps, and initial values.

Results are equal to the bit only for the same calls in the same process.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from datasets import formula1, nascar
from gdm_core import GDM
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.compiled import training
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.ascent import DECAY, FIRST_SHARE, Adam, Ascent, NewtonAscent, begin
from gdm_core.models.gdm.chain import make_batch
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import Plan
from gdm_core.models.gdm.module import importance_objective, sampled_elbo
from gdm_core.models.gdm.posteriors import MARGIN, discriminant
from gdm_core.models.gdm.start import whitening_projection
from tests.support.gdm import CPU, TAU, generator, random_module, random_rows
from tests.support.polygons import simulate_polygon

pytestmark = pytest.mark.usefixtures("one_torch_thread")

POSTERIORS = ("window", "linear")


def autograd(module, rows: Rows, noise, importance: bool):
    """Return the objective per time step and its gradient by name."""
    bound = importance_objective if importance else sampled_elbo
    per_row = bound(module, rows, noise)
    scored = per_row if rows.scored is None else per_row * rows.scored
    objective = scored.sum() / rows.n_scored
    module.zero_grad()
    objective.backward()
    gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in module.named_parameters()}
    return objective.item(), gradients


def drawn_noise(k: int, n_draws: int, n_rows: int, seed: int) -> np.ndarray:
    """Return the exponential noise [K, S, R] of a step, which goes through blocks of rows."""
    size = max(training.LEAST_BLOCK, training.BLOCK // n_draws)
    blocks = -(-n_rows // size)
    places = np.arange(blocks * k * n_draws * size).reshape(blocks, n_draws, k, size)
    noise = np.vectorize(lambda place: training.exponential(int(place), np.uint32(seed)), otypes=[np.float32])(places)
    return noise.transpose(2, 1, 0, 3).reshape(k, n_draws, -1)[..., :n_rows]


def compare(config: GDMConfig, rows: Rows, importance: bool, temperature: float = TAU, lasting: bool = False) -> None:
    """Compare the fused pass in float32 with autograd in float64; they differ by rounding."""
    module = random_module(
        config, rows.y.shape[1], seed=3, dtype=torch.float32, lasting=lasting, temperature=temperature
    )
    assert fused.supports(module)
    n_samples = 3
    objective = fused.FusedObjective(module)
    value = objective(make_batch(rows), n_samples, 7, importance)
    found = {name: view.copy() for name, view in objective.g.items()}

    def double(part):
        return part.double() if part is not None and part.dtype == torch.float32 else part

    exact = replace(rows, **{n: double(getattr(rows, n)) for n in ("y", "known", "past", "scored", "chain")})
    gumbels = -np.log(drawn_noise(config.n_states, n_samples, len(rows), 7))
    gumbels = torch.as_tensor(gumbels).permute(1, 2, 0).double()  # [S, R, K]
    expected, gradients = autograd(module.double(), exact, gumbels, importance)
    assert value == pytest.approx(expected, rel=2e-5, abs=2e-5)
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        np.testing.assert_allclose(found[name], gradient, rtol=0, atol=3e-4 * scale + 1e-6, err_msg=name)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize(("posterior", "sticky"), itertools.product(POSTERIORS, ["learn", 0.3]))
def test_value_and_gradient_equal_autograd(posterior, sticky, importance):
    config = GDMConfig(3, 2, posterior=posterior, stickiness=sticky, n_hidden=5)
    compare(config, random_rows(40, 1, 7, 325, dtype=torch.float32), importance)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_missing_values_and_windows(posterior, importance):
    config = GDMConfig(4, 2, posterior=posterior, n_hidden=4)
    rows = random_rows(90, 3, 60, missing=0.2, dtype=torch.float32)
    assert rows.known is not None
    compare(config, rows, importance)
    windows = rows.draw(16, 5, context=3, generator=generator())
    assert windows.scored is not None
    compare(config, windows, importance)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("scale", ["learn", 6.0])
def test_gradients_of_options_equal_autograd(scale, lasting, importance):
    config = GDMConfig(3, 2, stickiness_scale=scale, n_hidden=4)
    rows = random_rows(60, 3, 30, missing=0.2, dtype=torch.float32)
    chain = torch.log_softmax(torch.randn((len(rows), 3), generator=generator(5)), -1)
    compare(config, replace(rows, chain=chain), importance, lasting=lasting)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 5.0])
def test_temperatures_and_state_counts(temperature):
    for k in (1, 2, 7):
        compare(GDMConfig(k, 2, n_hidden=4), random_rows(50, dtype=torch.float32), False, temperature)


def test_noise_at_its_floor_gets_no_gradient():
    config = GDMConfig(2, 2, n_hidden=4)
    module = random_module(config, dtype=torch.float32)
    with torch.no_grad():
        module.log_noise[1] = -20.0
    objective = fused.FusedObjective(module)
    objective(make_batch(random_rows(30, dtype=torch.float32)), 2, 0, False)
    assert objective.g["log_noise"][1] == 0
    assert (objective.g["log_noise"][[0, 2]] != 0).all()


def test_parameters_return_to_the_module():
    config = GDMConfig(3, 2, n_hidden=4)
    module, other = random_module(config, dtype=torch.float32), random_module(config, seed=9, dtype=torch.float32)
    fused.FusedObjective(module).write_to(other)
    for (name, ours), theirs in zip(module.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs), name


def test_adam_equals_torch():
    start, gradients = np.float32([1.0, -2.0, 0.5]), np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    ours, flat = Adam(3), start.copy()
    parameter = torch.nn.Parameter(torch.tensor(start))
    theirs = torch.optim.Adam([parameter], lr=0.02, betas=(0.9, 0.99))
    for gradient in gradients:
        ours.ascend(flat, gradient, 0.02)
        parameter.grad = -torch.as_tensor(gradient)  # ours ascends, theirs descends
        theirs.step()
    np.testing.assert_allclose(flat, parameter.detach(), rtol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        GDMConfig(transition="gru", posterior="window", n_latent=2),
        GDMConfig(posterior="bigru", n_latent=2),
        GDMConfig(posterior="sticky", n_latent=2),
        GDMConfig(posterior="transformer", n_latent=2),
    ],
)
def test_unsupported_options_use_autograd(config):
    assert not fused.supports(random_module(config, dtype=torch.float32).to(CPU))


# ---- Newton's steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_step_moves_towards_least_squares(missing):
    """The best dynamics of one state are a regression of y on the design."""
    config = GDMConfig(1, 2, n_hidden=4)
    module = random_module(config, n_channels=5, seed=3, dtype=torch.float32)
    rows = random_rows(400, n_channels=5, missing=missing, dtype=torch.float32)
    objective, batch = fused.FusedObjective(module), make_batch(rows)
    objective(batch, 1, 0, False)
    before = objective.p["dynamics"][0].copy()
    design = module.view(rows).design.detach().double().numpy()
    NewtonAscent(objective).ascend(0.0, 0.0, batch.known @ batch.share if len(batch.known) else None)
    taken = objective.p["dynamics"][0] - before
    known = np.ones((400, 5)) if rows.known is None else rows.known.double().numpy()
    for n in range(5):
        there = known[:, n, None] * design
        best = np.linalg.lstsq(there, known[:, n] * rows.y[:, n].double().numpy(), rcond=None)[0]
        whole = (best - before[:, n])[:-1]  # the last row of the design is the first sample alone
        # Missing entries make the curvature of all channels an approximation of each channel's own.
        np.testing.assert_allclose(
            taken[:-1, n], FIRST_SHARE * whole, rtol=0, atol=(0.01 if missing == 0 else 0.25) * np.abs(whole).max()
        )


def test_only_window_posteriors_use_newton():
    for config, newton in (
        (GDMConfig(n_latent=2), True),
        (GDMConfig(transition="gru", n_latent=2), False),
        (GDMConfig(posterior="bigru", n_latent=2), False),
        (GDMConfig(posterior="linear", n_latent=2), False),
        (GDMConfig(transition="gru", posterior="transformer", n_latent=2), False),
        (GDMConfig(transition="gru", posterior="linear", n_latent=2), False),
    ):
        ascent = ascent_of(config, 10)
        assert ascent.newton == newton
        assert newton or Plan.for_ascent(ascent).total == config.effective_steps
    assert not ascent_of(GDMConfig(n_latent=2), 4).newton, "their noise cannot be told"
    assert Plan.for_ascent(ascent_of(GDMConfig(n_steps=7, n_latent=2), 4)).total == 7


def ascent_of(config: GDMConfig, n_channels: int) -> Ascent:
    rows = random_rows(60, n_channels=n_channels, dtype=torch.float32)
    return begin(random_module(config, n_channels, dtype=torch.float32), rows, 0)


def test_logit_weights_without_gradient_decay():
    config = GDMConfig(3, 2)
    module = random_module(config, n_channels=10, dtype=torch.float32)
    objective = fused.FusedObjective(module)
    objective(make_batch(random_rows(100, n_channels=10, dtype=torch.float32)), 1, 0, False)
    before = {name: values.copy() for name, values in objective.p.items()}
    objective.g["transition.weight"][...] = 0
    NewtonAscent(objective).ascend(0.5, 0.0, None)
    np.testing.assert_allclose(
        objective.p["transition.weight"],
        (1 - DECAY["transition.weight"] * 0.5) * before["transition.weight"],
        rtol=1e-5,
    )
    assert not np.allclose(objective.p["transition.bias"], before["transition.bias"])


def test_noisy_channel_does_not_rotate_projection():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 2))
    noise = np.where(np.arange(12) < 6, 0.02, 2.0)  # standardised, all channels are equally large
    y = x @ rng.standard_normal((2, 12)) + noise * rng.standard_normal((2000, 12))
    y = torch.as_tensor((y - y.mean(0)) / y.std(0), dtype=torch.float32)

    def left(weighted: bool) -> float:
        found = (y @ whitening_projection(y, 2, weighted).T).double().numpy()
        return float(np.mean((x - found @ np.linalg.lstsq(found, x, rcond=None)[0]) ** 2))

    assert left(True) < 0.001
    assert left(False) > 10 * left(True)


def test_track_with_unlucky_emission_is_found():
    """Plain principal components give an accuracy of 0.73, as some channels hardly see the track."""
    train, test = nascar.train_test("soft", 304)
    assert matched_accuracy(GDM(seed=304).fit(train, calibrate=False).predict(test), test.labels) > 0.85


# ---- initial values -------------------------------------------------------------------------------------------------
def test_initial_logits_are_bounded():
    features = torch.cat([torch.zeros(50, 2), torch.ones(50, 2)]) + 1e-4 * torch.randn(100, 2)
    member = torch.nn.functional.one_hot(torch.arange(100) // 50, 2).float()
    weight, bias = discriminant(features, member)
    logits = features @ weight + bias
    assert torch.equal(logits.argmax(1), member.argmax(1))
    assert float(logits.diff(dim=1).abs().median()) == pytest.approx(MARGIN, rel=1e-3)


@pytest.mark.parametrize("n_sides", [3, pytest.param(5, marks=pytest.mark.bulk)])
def test_states_with_constant_steps_are_found(n_sides):
    """Initial logits thousands of nats apart would stop the fit from learning."""
    trial = simulate_polygon(n_sides)
    model = GDM(n_sides, 2, seed=0).fit(trial, calibrate=False)
    assert matched_accuracy(model.predict(trial), trial.labels) > 0.99
    assert model.elbo_ > GDM(1, 2, seed=0).fit(trial, calibrate=False).elbo_ + 10


def test_rare_switch_gives_no_extreme_logits():
    """A brake that is on in 10% of samples must not give logits hundreds of nats apart."""
    rng = np.random.default_rng(0)
    brake = np.repeat(rng.random(200) < 0.1, 10).astype(float)
    speed = np.cumsum(rng.standard_normal(2000) - 3 * brake + 0.3) * 0.1
    values = torch.as_tensor(
        np.stack([speed - speed.mean(), brake], 1) / [speed.std(), brake.std()], dtype=torch.float32
    )
    labels = torch.as_tensor(np.where(brake > 0, 2, speed > np.median(speed)))
    member = torch.nn.functional.one_hot(labels, 3).float()
    ranges = []
    for every_state in (False, True):
        weight, bias = discriminant(values, member, every_state)
        logits = values @ weight + bias
        ranges.append(float((logits.amax(1) - logits.amin(1))[labels == 2].median()))
    assert ranges[0] > 100
    assert ranges[1] == pytest.approx(2 * MARGIN, rel=0.05)


def test_binary_channels_keep_the_bound():
    """A fit to a car's speed, throttle, brake and gear has a positive bound."""
    session = formula1.simulate_race("shanghai", drivers=1, laps=3)
    car = formula1.to_trials(session, session.codes[0], channels=("speed", "throttle", "brake", "gear"))
    model = GDM(3, 2, posterior="linear", seed=0).fit(car, calibrate=False)
    assert model.elbo_ > 0
