"""The three-level mixture: Gaussian paths against dense algebra, bounds against quadrature."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gdm_core.maths.relaxed import gumbel, log_density
from gdm_core.maths.rows import Rows, make_rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.mixture import readout
from gdm_core.models.mixture.model import GDMMixtureConfig, mixture_steps
from gdm_core.models.mixture.module import (
    MixtureModule,
    bound,
    determined_path,
    mixture_elbo,
    precision_blocks,
    solve_path,
)
from gdm_core.models.mixture.readout import filtered
from tests.support.gdm import CPU, generator

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def some_rows(*lengths: int, n_channels: int = 3, gaps: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    ys = [rng.normal(size=(n, n_channels)).cumsum(0) * 0.3 for n in lengths]
    if gaps:
        ys[0][1, 0] = ys[0][2] = np.nan
    return make_rows(ys, CPU, torch.float64)


def some_module(
    k: int = 3,
    d: int = 2,
    n: int = 3,
    deterministic: bool = False,
    gamma: float = 0.3,
    recurrent: bool = True,
    posterior: str = "window",
    tau: float = 0.7,
) -> MixtureModule:
    config = GDMConfig(k, d, tau, gamma, posterior="window", stickiness_scale=1.0, n_hidden=4)
    module = MixtureModule(n, config, deterministic, posterior)
    random = generator(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=random, dtype=torch.float64))
        module.dynamics[:, :d] += 0.5 * torch.eye(d, dtype=torch.float64)
        if not recurrent:
            module.transition.weight.zero_()
    return module


def some_states(*shape: int) -> torch.Tensor:
    return torch.softmax(2 * torch.randn(shape, generator=generator(5), dtype=torch.float64), -1)


def _dense(module: MixtureModule, rows: Rows, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the prior mean [T D] and covariance of the path x of one trial, step by step."""
    d, t_max = module.n_latent, len(rows)
    q = module.step_deviation(z).square()
    mean = torch.zeros(t_max, d, dtype=torch.float64)
    covariance = torch.zeros(t_max * d, t_max * d, dtype=torch.float64)
    for t in range(t_max):
        a, b = (z[t, :, None, None] * module.dynamics[:, :d]).sum(0).T, z[t] @ module.dynamics[:, d]
        here = slice(t * d, (t + 1) * d)
        if t == 0:
            mean[0] = z[0] @ module.dynamics[:, d + 1]
        else:
            before = slice((t - 1) * d, t * d)
            mean[t] = a @ mean[t - 1] + b
            covariance[here, : t * d] = a @ covariance[before, : t * d]
            covariance[: t * d, here] = covariance[here, : t * d].T
            covariance[here, here] = a @ covariance[before, before] @ a.T
        covariance[here, here] += torch.diag(q[t])
    return mean.flatten(), covariance


def _observation(module: MixtureModule, rows: Rows) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the observed y, the map from the path to y, and the noise variances."""
    known = torch.ones_like(rows.y) if rows.known is None else rows.known
    big = torch.block_diag(*[module.emission] * len(rows))
    keep = known.flatten() > 0
    y = (rows.y - module.offset).flatten()[keep]
    return y, big[keep], (1 / module.noise_precision()).repeat(len(rows))[keep]


def _evidence(module: MixtureModule, rows: Rows, z: torch.Tensor) -> torch.Tensor:
    """Return log p(y | z) of states [R, K]."""
    drive, known = module.drive(z[None], rows), module.information(rows)
    return module.log_likelihood(drive, known, module.path(drive, known, generator()))


def _dense_evidence(module: MixtureModule, rows: Rows, z: torch.Tensor) -> torch.Tensor:
    """Return log p(y | z) of one trial as a dense Gaussian density."""
    mean, prior = _dense(module, rows, z)
    y, seen, noise = _observation(module, rows)
    return torch.distributions.MultivariateNormal(seen @ mean, seen @ prior @ seen.T + torch.diag(noise)).log_prob(y)


def _covariance(module: MixtureModule, rows: Rows, z: torch.Tensor) -> torch.Tensor:
    """Return the covariance [R D, R D] of the path given states, from precision blocks."""
    diagonal, below, _ = precision_blocks(module.drive(z[None], rows), module.information(rows))
    dense = torch.block_diag(*diagonal)
    for t in range(1, len(rows)):
        dense[2 * t : 2 * t + 2, 2 * t - 2 : 2 * t] = below[t]
        dense[2 * t - 2 : 2 * t, 2 * t : 2 * t + 2] = below[t].T
    return torch.linalg.inv(dense)


# ---- paths ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gaps", [False, True])
def test_path_given_states_equals_dense_conditioning(gaps):
    module, rows = some_module(), some_rows(5, gaps=gaps)
    z = some_states(5, 3)
    with torch.no_grad():
        prior_mean, prior = _dense(module, rows, z)
        y, seen, noise = _observation(module, rows)
        total = seen @ prior @ seen.T + torch.diag(noise)
        gain = prior @ seen.T @ torch.linalg.inv(total)
        expected = prior_mean + gain @ (y - seen @ prior_mean)
        path = module.path(module.drive(z[None], rows), module.information(rows), generator())
        torch.testing.assert_close(path.mean.flatten(), expected)
        torch.testing.assert_close(_evidence(module, rows, z), _dense_evidence(module, rows, z))
        torch.testing.assert_close(_covariance(module, rows, z), prior - gain @ seen @ prior)


def test_draws_have_the_moments_of_the_path():
    module, rows = some_module(), some_rows(3)
    n = 5_000
    z = some_states(3, 3)
    with torch.no_grad():
        one = module.path(module.drive(z[None], rows), module.information(rows), generator())
        many = module.path(module.drive(z.expand(n, -1, -1), rows), module.information(rows), generator(1))
        draws = many.draw.reshape(n, 6)
        covariance = _covariance(module, rows, z)
    scale = covariance.diagonal().sqrt()
    assert ((draws.mean(0) - one.mean.flatten()).abs() < 6 * scale / n**0.5).all()
    found = torch.cov(draws.T)
    error = ((covariance.square() + torch.outer(covariance.diagonal(), covariance.diagonal())) / n).sqrt()
    assert ((found - covariance).abs() < 6 * error).all()


def test_gradient_of_a_path():
    n, d = 4, 2
    random = generator(2)
    a = 0.4 * torch.randn(n, d, d, generator=random, dtype=torch.float64)
    a[0] = 0
    linear, noise = torch.randn(2, n, d, generator=random, dtype=torch.float64)

    def run(matrix, linear, noise):
        # Blocks of a precision that is positive definite for any matrix.
        own = torch.eye(d, dtype=torch.float64).expand(n, d, d)
        ahead = torch.cat([matrix[1:].transpose(1, 2) @ matrix[1:], torch.zeros(1, d, d, dtype=torch.float64)])
        inside = torch.cat([torch.zeros(1, d, d, dtype=torch.float64), -matrix[1:]])
        return solve_path(own + ahead, inside, linear, noise)

    inputs = tuple(part.clone().requires_grad_() for part in (a, linear, noise))
    assert torch.autograd.gradcheck(run, inputs)


def test_composed_maps_equal_the_recursion():
    module, rows = some_module(deterministic=True), some_rows(11, 6)
    z = some_states(17, 3)
    with torch.no_grad():
        path = determined_path(module.drive(z[None], rows))
        x = torch.zeros(2, dtype=torch.float64)
        for t in range(17):
            mixed = (z[t, :, None, None] * module.dynamics).sum(0)
            x = mixed[3] if t in (0, 11) else x @ mixed[:2] + mixed[2]
            torch.testing.assert_close(path[t], x)


def test_filter_equals_path_of_past_data():
    module, rows = some_module(), some_rows(150)
    z = some_states(2, 150, 3)
    origins = np.array([0, 3, 70, 149])
    with torch.no_grad():
        mean, covariance = filtered(module, rows, z, origins)
        for s in range(2):
            for place, origin in enumerate(origins):
                known = rows.piece(0, int(origin) + 1)
                drive = module.drive(z[s : s + 1, : origin + 1], known)
                found = module.path(drive, module.information(known), generator())
                # Later parts start with a run-up instead of the whole past.
                torch.testing.assert_close(mean[s, place], found.mean[-1], atol=1e-6, rtol=1e-5)
    assert (torch.linalg.eigvalsh(covariance) > 0).all()


def test_weights_of_draws_equal_dense_evidence():
    """Replacing the states of one row changes log p(y | z) as the cavity predicts."""
    module, rows = some_module(), some_rows(6)
    z = some_states(6, 3)
    others = some_states(4, 3).flip(0)
    with torch.no_grad():
        belief = readout.Belief(z, torch.zeros(6, 2, dtype=torch.float64))
        cavity = readout.cavities(rows, readout.smoothed(module, rows, belief))
        for t in (1, 3, 5):
            candidates = z.expand(4, -1, -1).clone()
            candidates[:, t] = others
            exact = [_evidence(module, rows, candidate) for candidate in candidates]
            carried = readout.log_carry(cavity, module.drive(candidates, rows), 4)[:, t]
            torch.testing.assert_close(carried - carried[0], torch.stack(exact) - exact[0], atol=1e-6, rtol=1e-6)


# ---- bounds ---------------------------------------------------------------------------------------------------------
def _by_quadrature(module: MixtureModule, rows: Rows, tau: float) -> tuple[float, torch.Tensor]:
    """Return log p(y) and E[z | y] for K = 2, T = 2 and transitions without x, by quadrature."""
    grid = torch.linspace(-16, 16, 161, dtype=torch.float64)  # of log(z_1 / z_2)
    log_z = torch.stack([torch.nn.functional.logsigmoid(grid), torch.nn.functional.logsigmoid(-grid)], -1)
    n = len(grid)
    pair = torch.stack([log_z[:, None].expand(-1, n, -1).reshape(-1, 2), log_z.expand(n, -1, -1).reshape(-1, 2)], 1)
    z = pair.exp()
    x = torch.zeros(len(z), 2, module.n_latent, dtype=torch.float64)
    weight = log_density(pair, module.prior_logits(x, z, rows), tau).sum(-1)
    values = []
    for part in z.split(4096):
        drive, known = module.drive(part, rows), module.information(rows)
        total = []
        if module.deterministic:
            path = determined_path(drive).reshape(len(part), 2, -1)
            missed = rows.y - path @ module.emission.T - module.offset
            precision = module.noise_precision()
            total = (-0.5 * missed.square() * precision + 0.5 * precision.log() - 0.5 * math.log(2 * math.pi)).sum(
                (1, 2)
            )
        else:
            y = (rows.y - module.offset).flatten()
            seen = torch.block_diag(module.emission, module.emission)
            q = module.step_deviation(part).square()
            mixed = (part @ module.dynamics.flatten(1)).reshape(len(part), 2, -1, module.n_latent)
            d = module.n_latent
            a = mixed[:, 1, :d].transpose(1, 2)
            first = torch.diag_embed(q[:, 0])
            second = a @ first @ a.transpose(1, 2) + torch.diag_embed(q[:, 1])
            cross = a @ first
            covariance = torch.cat([torch.cat([first, cross.transpose(1, 2)], 2), torch.cat([cross, second], 2)], 1)
            mean_0 = mixed[:, 0, d + 1]
            mean = torch.cat([mean_0, (a @ mean_0[..., None])[..., 0] + mixed[:, 1, d]], 1)
            noise = torch.diag((1 / module.noise_precision()).repeat(2))
            spread = seen @ covariance @ seen.T + noise
            total = torch.distributions.MultivariateNormal(mean @ seen.T, spread).log_prob(y)
        values.append(total)
        assert known.information.shape[0] == 2
    area = 2 * math.log(float(grid[1] - grid[0]))
    assert float(torch.logsumexp(weight, 0)) + area == pytest.approx(0, abs=1e-3)  # the quadrature itself
    joint = weight + torch.cat(values)
    return float(torch.logsumexp(joint, 0)) + area, torch.einsum("n,ntk->tk", torch.softmax(joint, 0), z)


@pytest.mark.parametrize(("deterministic", "posterior"), [(False, "previous"), (True, "window")])
def test_bound_is_below_the_likelihood(deterministic, posterior):
    module = some_module(k=2, d=1, n=2, deterministic=deterministic, recurrent=False, posterior=posterior, tau=0.8)
    rows = some_rows(2, n_channels=2)
    with torch.no_grad():
        evidence, _ = _by_quadrature(module, rows, 0.8)
        reached = bound(module, rows, n_samples=200)
    assert reached < evidence
    assert reached > evidence - 10


@pytest.mark.parametrize(("y", "log_step"), [(-0.5, 0.5), (0.5, -0.5), (1.5, 0.5)])
def test_states_equal_the_posterior_mean(log_step, y):
    module = some_module(k=2, d=1, n=2, recurrent=False, gamma=0.0, tau=0.8)
    rows = make_rows([np.array([[0.3, 0.15], [y, y / 2]])], CPU, torch.float64)
    with torch.no_grad():
        for parameter in (*module.posterior.parameters(), module.offset):
            parameter.zero_()
        module.dynamics.copy_(torch.tensor([[[0.9], [1.0], [0.8]], [[0.7], [-1.0], [-0.6]]]))
        module.emission.copy_(torch.tensor([[1.0], [0.5]]))
        module.log_noise.fill_(-1.5)
        module.log_step.fill_(log_step)
        _, exact = _by_quadrature(module, rows, 0.8)
    torch.testing.assert_close(readout.weighed_states(module, rows), exact, atol=0.02, rtol=0)


@pytest.mark.parametrize("posterior", ["window", "previous"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_every_parameter_receives_a_gradient(deterministic, posterior):
    module, rows = some_module(deterministic=deterministic, posterior=posterior), some_rows(5, 4, gaps=True)
    noise = gumbel((2, 9, 3), generator(4), torch.float64)
    mixture_elbo(module, rows, noise, generator(6), exact=False).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_previous_posterior_starts_as_the_prior():
    module, rows = some_module(posterior="previous"), some_rows(5, 4)
    noise = gumbel((2, 9, 3), generator(4), torch.float64)
    with torch.no_grad():
        module.posterior.start_from(module.transition, module.initial)
        z, logits = module.sample_posterior(rows, noise)
        prior = module.prior_logits(module.projected(rows).expand(2, -1, -1), z, rows)
    torch.testing.assert_close(logits, prior, atol=1e-3, rtol=0)


def test_previous_posterior_ignores_the_present():
    module, rows = some_module(posterior="previous"), some_rows(9)
    noise = gumbel((2, 9, 3), generator(4), torch.float64)
    moved = replace(rows, past=rows.past + (torch.arange(9) == 5)[:, None])
    with torch.no_grad():
        before, after = (module.sample_posterior(each, noise)[0] for each in (rows, moved))
    change = (before - after).abs().amax((0, 2))
    assert (change[:6] == 0).all()
    assert (change[6:8] > 1e-3).all()


def test_cheap_and_exact_divergences_agree_on_average():
    module, rows = some_module(), some_rows(6)
    with torch.no_grad():
        values = []
        for exact in (True, False):
            noise = gumbel((2000, 6, 3), generator(4), torch.float64)
            values.append(float(mixture_elbo(module, rows, noise, generator(6), exact=exact)))
    assert values[0] == pytest.approx(values[1], abs=0.3)


def test_vanishing_latent_noise_equals_two_levels():
    noisy, exact = some_module(), some_module(deterministic=True)
    rows = some_rows(6)
    with torch.no_grad():
        state = noisy.state_dict()
        exact.load_state_dict({name: state[name] for name in exact.state_dict()})
        noisy.log_step.fill_(-30.0)  # clipped to its floor
        values = []
        for module in (noisy, exact):
            noise = gumbel((1, 6, 3), generator(4), torch.float64)
            values.append(float(mixture_elbo(module, rows, noise, generator(6), exact=True)))
    assert values[0] == pytest.approx(values[1], abs=1e-2)


# ---- equivalence and nesting ----------------------------------------------------------------------------------------


def test_one_state_equals_a_kalman_filter():
    """The bound equals the likelihood for K = 1."""
    module, rows = some_module(k=1), some_rows(7)
    with torch.no_grad():
        exact = float(_dense_evidence(module, rows, torch.ones(7, 1, dtype=torch.float64)))
        assert bound(module, rows, n_samples=2) == pytest.approx(exact, abs=1e-8)


def test_windows_of_a_trial_estimate_its_bound():
    """Rows that start within a trial have no predecessor, but a window's values keep their scale."""
    module = some_module(tau=0.9)
    y = np.random.default_rng(1).normal(size=(1200, 3))
    rows = make_rows([y], CPU, torch.float64)
    steps = list(mixture_steps(module, rows, GDMMixtureConfig(temperature=0.9, n_steps=2, batch_size=1100)))
    assert len(steps) == 2
    assert all(step.finite for step in steps)
    whole = bound(some_module(tau=0.9), rows, n_samples=4) / 1200
    assert steps[0].elbo == pytest.approx(whole, abs=0.1 * abs(whole))
