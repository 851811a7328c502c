"""Soft states and evidence by importance weights."""

import numpy as np
import pytest
import torch

from gdm_core.maths.relaxed import log_density, log_sample, moments
from gdm_core.models.gdm import readout
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, elbo
from gdm_core.models.gdm.readout import log_bound, read_out
from tests.support.gdm import TAU, generator, random_module, random_rows
from tests.support.quadrature import integrate

CONFIG = GDMConfig(3, 2, n_hidden=4)


@pytest.mark.parametrize("gamma", [pytest.param(0.0, marks=pytest.mark.bulk), 0.95])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.bulk)])
def test_expected_evidence_is_between_elbo_and_likelihood(seed, gamma):
    module = random_module(GDMConfig(2, 1, stickiness=gamma, n_hidden=4), 2, seed, scale=0.9)
    rows = random_rows(2, n_channels=2, seed=seed)
    exact = integrate(module, rows, TAU)
    moves = torch.rand((3, 80, 2, 2), generator=generator(5), dtype=torch.float64)
    found = np.array(
        [
            [float(read_out(module, rows, n, move).log_bound.sum()) for move in part]
            for n, part in zip((1, 4, 64), moves, strict=True)
        ]
    )
    (one, four, many), error = found.mean(1), found.std(1) / 80**0.5
    assert abs(one - exact.elbo) < 4 * error[0]
    assert elbo(module, rows) < four + 3 * error[1]
    assert one < four + 3 * error[1]
    assert four < many + 3 * error[1]
    assert many < exact.evidence + 4 * error[2] + 1e-6
    assert many > exact.evidence - 0.3  # and not far below
    # Its exponential estimates p(y) without bias.
    ratio = np.exp(found[2] - exact.evidence)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / 80**0.5 + 1e-3


@pytest.mark.parametrize("gamma", [0.5, 0.95])
def test_evidence_is_at_most_the_stateless_likelihood(gamma):
    """Noise shared between rows would make adjacent states agree, which a sticky prior rewards."""
    module = random_module(GDMConfig(4, 1, stickiness=gamma, posterior="linear"), 2)
    rows = random_rows(100, n_channels=2)
    with torch.no_grad():
        module.dynamics.copy_(module.dynamics[:1].expand_as(module.dynamics))
        for parameter in (module.initial, *module.transition.parameters(), *module.posterior.parameters()):
            parameter.zero_()
        even = torch.full((1, 100, 4), 0.25, dtype=torch.float64)
        exact = float(module.log_likelihood(even, module.view(rows).design, rows).sum())
    found = np.array([float(log_bound(module, rows, 16, seed=i).sum()) for i in range(30)])
    assert found.mean() < exact + 4 * found.std() / 30**0.5 + 1e-9
    assert found.mean() > exact - 0.5


def test_extra_sample_keeps_score_and_shares():
    length = 2_000
    module = random_module(CONFIG, 3, scale=0.9)
    rows = random_rows(length + 1, n_channels=3)
    shares = [log_bound(module, rows.piece(0, n)) for n in (length, length + 1)]
    torch.testing.assert_close(shares[1][:length], shares[0], atol=1e-4, rtol=1e-5)
    found = [read_out(module, rows.piece(0, n)).states[: length - 50] for n in (length, length + 1)]
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=0)


def test_states_equal_posterior_mean():
    for seed in (0, 1, 2):
        module = random_module(GDMConfig(2, 1, stickiness=0.7, n_hidden=4), 2, seed, scale=0.7)
        rows = random_rows(2, n_channels=2, seed=seed)
        exact = integrate(module, rows, TAU)
        found = read_out(module, rows, 1024).states
        torch.testing.assert_close(found, exact.states, atol=0.02, rtol=0)
        amortised = moments(module.view(rows).posterior, TAU).mean
        assert (found - exact.states).abs().max() < (amortised - exact.states).abs().max()


def by_hand(module: GdmModule, n: int) -> torch.Tensor:
    """Return the noise [S, 1, K] of the states."""
    return -torch.as_tensor(readout.even_noise(module, n).logs, dtype=torch.float64).permute(2, 0, 1)


@pytest.mark.parametrize("sharp", [False, True], ids=["blunt", "sharp"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_messages_solve_the_recursions(k, sharp):
    """Compare with sequential recursions in log space; sharp candidates are hundreds of nats apart."""
    module, rows, n = random_module(GDMConfig(k, 2, n_hidden=4)), random_rows(12, 5), 8
    with torch.no_grad():
        if sharp:
            module.log_noise.fill_(-4.0)
            for parameter in module.posterior.parameters():
                parameter.mul_(5)
        view = module.view(rows)
        log_z = log_sample(view.posterior, TAU, by_hand(module, n))  # [S, R, K]
        z = log_z.exp()
        fit = module.log_likelihood(z, view.design, rows) - log_density(log_z, view.posterior, TAU)  # [S, R]
        links, peaks = [], []  # [S_j, S_s] for each row
        for t in range(len(rows)):
            prior = module.prior_logits(view.context, z, rows)[:, t]
            log_link = log_density(log_z[None, :, t], prior[:, None], TAU) + fit[:, t]
            peaks.append(log_link.max())
            links.append((log_link - peaks[-1]).exp() / n)
        forward, evidence = [], []
        for t, (link, peak) in enumerate(zip(links, peaks, strict=True)):
            before = forward[-1] if rows.age[t] > 0 else torch.full((n,), 1 / n, dtype=torch.float64)
            weights = before @ link
            evidence.append(weights.sum().log() + peak)
            forward.append(weights / weights.sum())
        states, future = [None] * len(rows), torch.ones(n, dtype=torch.float64)
        for t in reversed(range(len(rows))):
            smoothed = forward[t] * future
            states[t] = (smoothed / smoothed.sum()) @ z[:, t]
            future = links[t] @ future if rows.age[t] > 0 else torch.ones(n, dtype=torch.float64)
            future = future / future.mean()
        found = read_out(module, rows, n)
        if sharp and k > 1:
            assert float((fit.amax(0) - fit.amin(0)).max()) > 300
    torch.testing.assert_close(found.log_bound, torch.stack(evidence), atol=1e-4, rtol=1e-6)  # float32
    torch.testing.assert_close(found.states, torch.stack(states), atol=1e-4, rtol=0)


def test_pieces_equal_the_whole(monkeypatch):
    module, rows = random_module(CONFIG), random_rows(120, 60, missing=0.1)
    states, evidence = read_out(module, rows, 16).states, log_bound(module, rows, 16)
    monkeypatch.setattr(readout, "PIECE_ELEMENTS", 16 * 16 * 40)
    torch.testing.assert_close(read_out(module, rows, 16).states, states, atol=1e-4, rtol=0)
    torch.testing.assert_close(log_bound(module, rows, 16), evidence, atol=1e-3, rtol=0)
