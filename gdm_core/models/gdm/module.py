"""Tensor code of the GDM and its bounds (paper, equation 2.1 and section 3).

Shapes: S samples, R rows (time steps of all trials), K states, N channels, D latent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gdm_core.arrays import Array
from gdm_core.compiled import training
from gdm_core.compiled.batches import Emission
from gdm_core.maths.relaxed import gumbel, gumbel_softmax_kl, log_density, moments, sampled_kl, sticky_kl_bound
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.chain import chain_log_probabilities, make_batch
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.posteriors import POSTERIORS, PosteriorNetwork
from gdm_core.models.gdm.transitions import TRANSITIONS

_LOG_2PI = math.log(2 * math.pi)
_MAX_REACH = 1.0  # of the sticky term in a logit: the exact bound loosens exponentially with it
BOUND_ELEMENTS = 50_000_000
_START_TRUST, _START_STAY = 0.5, 0.98
_LEAST_LOG_NOISE = math.log(1e-4)  # of a standard deviation; noise-free data would make the fit singular


class RowsView(NamedTuple):
    """Quantities of the rows that do not depend on z."""

    x: Tensor  # [R, D] projected observations
    design: Tensor  # [R, D + 2] previous x, 1 if there is one, 1 if there is none
    context: Tensor  # [R, C] input of the transitions from the past
    posterior: Tensor  # [R, K] posterior logits, without terms in z_{t-1}

    def piece(self, begin: int, end: int) -> RowsView:
        return RowsView(*(part[begin:end] for part in self))


class GdmModule(nn.Module):
    """Parameters of a GDM and its posterior."""

    first_log_noise: Tensor
    stay: Tensor

    def __init__(self, n_channels: int, config: GDMConfig, lasting: bool = False) -> None:
        super().__init__()
        self.config = config
        k, d, n = config.n_states, config.n_dimensions, n_channels
        self.projection = nn.Parameter(torch.zeros(d, n))  # F
        # Per state: S_k, b_k, and mu_k for the first row of a trial.
        self.dynamics = nn.Parameter(torch.zeros(k, d + 2, n))
        self.initial = nn.Parameter(torch.zeros(k))  # pi_1
        # Shared, or per state with log sd = sum_k z_k log sd_k.
        self.log_noise = nn.Parameter(torch.zeros(k, n) if lasting else torch.zeros(n))
        # R_1 of a trial's first row stays at the spread of the data (docs/decisions/005). The paper shares R.
        self.own_start_noise = config.preset != "paper"
        self.register_buffer("first_log_noise", torch.zeros(n))
        self.transition = TRANSITIONS[config.transition](config)
        self.posterior: PosteriorNetwork = POSTERIORS[config.effective_posterior](n, config)
        self.informed = lasting
        if self.informed:
            self.log_trust = nn.Parameter(torch.tensor(math.log(_START_TRUST)))
            self.register_buffer("stay", torch.tensor(_START_STAY))

    @property
    def n_states(self) -> int:
        return int(self.initial.shape[0])

    @property
    def has_state_noise(self) -> bool:
        """True if each state has its own noise."""
        return self.log_noise.ndim == 2

    def view(self, rows: Rows, filtered: bool = False) -> RowsView:
        """Return the view of the rows; with `filtered`, posterior logits use no later sample."""
        x = rows.past @ self.projection.T
        design = self.design(rows, x)
        posterior = self.posterior(rows, x)
        if self.informed:
            posterior = posterior + self.log_trust.exp() * self._chain(rows, x, filtered)
        return RowsView(x, design, self.transition.context(rows, x), posterior)

    def design(self, rows: Rows, x: Tensor) -> Tensor:
        """Return the design [R, D + 2] of the dynamics from projections x [R, D]."""
        ready = (rows.age > 0).to(x.dtype)[:, None]
        return torch.cat([shift(x, 1) * ready, ready, 1 - ready], -1)

    @torch.no_grad()
    def _chain(self, rows: Rows, x: Tensor, filtered: bool) -> Tensor:
        """Return log-probabilities [R, K] of the chain of pure states."""
        if rows.chain is not None:
            return rows.chain
        linked = (rows.age > 0).numpy(force=True).astype(np.float32)
        chain, _ = chain_log_probabilities(self.evidence(rows, x), linked, float(self.stay), filtered)
        return torch.as_tensor(chain.T).to(x)

    @torch.no_grad()
    def evidence(self, rows: Rows, x: Tensor) -> Array:
        """Return log p(y_t | z_t = e_k, past) [K, R] for projections x [R, D], up to a constant per row."""
        log_noise = self.log_deviation().reshape(-1, rows.y.shape[1])
        before, *emission = (
            np.ascontiguousarray(part.numpy(force=True), np.float32)
            for part in (shift(x, 1).T, self.dynamics, self.initial, log_noise)
        )
        return training.evidence(make_batch(rows), before, Emission(*emission))

    # ---- prior --------------------------------------------------------------------------------------------------
    def prior_logits(self, context: Tensor, z: Tensor, rows: Rows, before: Tensor | None = None) -> Tensor:
        """Return prior logits [S, R, K] given soft states z [S, R, K]; pi_1 where a trial starts.

        before  [S, 1, K] states before the first row, if the rows continue a trial
        """
        previous = shift(z, 1) if before is None else torch.cat([before, z[:, :-1]], 1)
        logits = self.transition.logits(context.expand(*z.shape[:-1], -1), previous)
        return torch.where((rows.age > 0)[:, None], logits, self.initial)

    # ---- emission -----------------------------------------------------------------------------------------------
    def log_deviation(self, z: Tensor | None = None) -> Tensor:
        """Return log standard deviations of the noise: [N] if shared, [..., N] for soft states [..., K] otherwise."""
        log_noise = self.log_noise.clamp_min(_LEAST_LOG_NOISE)
        return z @ log_noise if z is not None and self.has_state_noise else log_noise

    def mean(self, z: Tensor, design: Tensor) -> Tensor:
        """Return expected observations [S, R, N] for soft states [S, R, K]."""
        weighted = (z[..., :, None] * design[:, None, :]).flatten(-2)  # [S, R, K (D + 2)]
        return weighted @ self.dynamics.flatten(0, 1)

    def row_log_noise(self, rows: Rows, z: Tensor | None = None) -> Tensor:
        """Return log standard deviations [R, N], [N] without first rows, or [S, R, N] for states z with their own noise."""
        log_noise = self.log_deviation(z)
        first = rows.age < 1
        if not self.own_start_noise or not bool(first.any()):
            return log_noise
        return torch.where(first[:, None], self.first_log_noise, log_noise)

    def log_likelihood(self, z: Tensor, design: Tensor, rows: Rows) -> Tensor:
        """Return log p(observed part of y_t | z_t, past) [S, R]."""
        return _log_density(rows.y - self.mean(z, design), rows, self.row_log_noise(rows, z))

    def expected_log_likelihood(self, mean_z: Tensor, covariance: Tensor, view: RowsView, rows: Rows) -> Tensor:
        """Return the exact E_q[log p(y_t | z_t)] [R] from the first two moments of z_t."""
        per_state = torch.einsum("rd,kdn->rkn", view.design, self.dynamics)  # [R, K, N]
        value = self.log_likelihood(mean_z[None], view.design, rows)[0]
        precision = torch.exp(-2 * self.row_log_noise(rows))
        variance = (torch.matmul(covariance, per_state) * per_state).sum(1)  # [R, N] of the mean, over q
        return value - 0.5 * ((variance if rows.known is None else variance * rows.known) * precision).sum(-1)

    # ---- posterior ----------------------------------------------------------------------------------------------
    def sample_posterior(self, view: RowsView, rows: Rows, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return samples of log z and their logits, [S, R, K] each."""
        return self.posterior.sample_log(rows, view.posterior, noise, self.config.temperature)


def roles(dynamics: Tensor) -> Tensor:
    """Return the column [K] of fixed noise for each state of dynamics [K, ...], independent of the order of states."""
    key = dynamics.detach().flatten(1).double()
    return torch.argsort(torch.argsort(key.sum(1) + 1e-3 * key[:, 0]))


def _log_density(residual: Tensor, rows: Rows, log_noise: Tensor) -> Tensor:
    """Return the log-density [..., R] of residuals [..., R, N] over each row's observed channels."""
    terms = -0.5 * (residual * torch.exp(-log_noise)).square() - log_noise - 0.5 * _LOG_2PI
    return terms.sum(-1) if rows.known is None else (terms * rows.known).sum(-1)


# ---- bounds -----------------------------------------------------------------------------------------------------
def sampled_elbo(module: GdmModule, rows: Rows, noise: Tensor) -> Tensor:
    """Return an unbiased estimate [R] of the ELBO per row, with one draw of the divergence per sample."""
    view = module.view(rows)
    log_z, posterior = module.sample_posterior(view, rows, noise)
    z = log_z.exp()
    delta = module.prior_logits(view.context, z, rows) - posterior  # [S, R, K]
    fit = module.log_likelihood(z, view.design, rows)
    return (fit - sampled_kl(delta, torch.log_softmax(-noise, -1))).mean(0)


def importance_objective(module: GdmModule, rows: Rows, noise: Tensor) -> Tensor:
    """Return the log of the average importance weight [R] of each row over S samples, for training.

    Its gradient is that of reweighted wake-sleep: model and q move towards the weighted draws, which are held constant.
    Without stickiness it bounds log p(y) more tightly than the ELBO. With stickiness each row sees one sampled
    predecessor, so it is never reported.
    """
    view, temperature = module.view(rows), module.config.temperature
    with torch.no_grad():
        log_z, _ = module.sample_posterior(view, rows, noise)
        z = log_z.exp()
    posterior = module.posterior.logits_given(rows, view.posterior, z)
    prior = module.prior_logits(view.context, z, rows)
    log_q = log_density(log_z, posterior, temperature)
    joint = module.log_likelihood(z, view.design, rows) + log_density(log_z, prior, temperature)
    log_weights = (joint - log_q).detach()
    weights = torch.softmax(log_weights, 0)
    moving = (weights * (joint + log_q)).sum(0)
    return torch.logsumexp(log_weights, 0) - math.log(len(weights)) + moving - moving.detach()


def _sampled_bound(module: GdmModule, rows: Rows, view: RowsView, n_samples: int) -> Tensor:
    """Return the ELBO per row [R], averaged over samples of z_{t-1}, in pieces of bounded memory."""
    generator = torch.Generator(device=view.x.device).manual_seed(0)
    k = module.n_states
    if module.posterior.sequential:  # a draw needs the whole history
        pieces = [(0, len(rows))]
    else:
        step = max(1, BOUND_ELEMENTS // (n_samples * (k * view.design.shape[1] + rows.y.shape[1])))
        pieces = [(begin, min(begin + step, len(rows))) for begin in range(0, len(rows), step)]
    parts, before = [], torch.full((n_samples, 1, k), 1 / k, dtype=view.x.dtype, device=view.x.device)
    for begin, end in pieces:
        here, look = rows.piece(begin, end), view.piece(begin, end)
        noise = gumbel((n_samples, end - begin, k), generator, view.x.dtype)[..., roles(module.dynamics)]
        log_z, posterior = module.sample_posterior(look, here, noise)
        z = log_z.exp()
        prior = module.prior_logits(look.context, z, here, before)
        divergence = gumbel_softmax_kl(posterior, prior)
        parts.append((module.log_likelihood(z, look.design, here) - divergence).mean(0))
        before = z[:, -1:]
    return torch.cat(parts)


@torch.no_grad()
def elbo(module: GdmModule, rows: Rows, n_samples: int = 16) -> float:
    """Return the total ELBO of the rows in nats.

    Exact quadrature with a bound on the effect of z_{t-1}, if the transition is affine in z_{t-1} with a small factor,
    states share their noise and q(z_t | y) does not depend on z_{t-1}; otherwise an average over seeded samples.
    """
    view = module.view(rows)
    reach = float(module.transition.gamma * module.transition.scale)
    if (
        module.posterior.sequential
        or module.has_state_noise
        or reach > _MAX_REACH
        or not module.transition.affine_in_state
    ):
        return float(_sampled_bound(module, rows, view, n_samples).double().sum())
    step = max(1, BOUND_ELEMENTS // (4 * module.n_states * rows.y.shape[1]))
    total = 0.0
    for begin in range(0, len(rows), step):  # a piece needs the row before it
        head, end = max(0, begin - 1), min(begin + step, len(rows))
        shares = _exact_bound(module, rows.piece(head, end), view.piece(head, end))[begin - head :]
        total += float(shares.double().sum())
    return total


def _exact_bound(module: GdmModule, rows: Rows, view: RowsView) -> Tensor:
    """Return the ELBO per row [R] from exact moments of q."""
    exact = moments(view.posterior, module.config.temperature, second=True)
    fit = module.expected_log_likelihood(exact.mean, exact.covariance, view, rows)
    delta = module.prior_logits(view.context, exact.mean[None], rows)[0] - view.posterior
    started = (rows.age > 0).to(view.x.dtype)
    covariance = shift(exact.covariance.flatten(1), 1).reshape(exact.covariance.shape) * started[:, None, None]
    divergence = sticky_kl_bound(delta, float(module.transition.gamma * module.transition.scale), covariance)
    return fit - divergence
