"""The generative half of the GDM and its bounds, as pure tensor code (paper, equations 2.1 and section 3).

Shapes: S samples, R rows (time steps of all trials), K states, N channels, D latent, L lags.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gdm_core.maths.relaxed import gumbel, gumbel_softmax_kl, log_density, moments, sampled_kl, sticky_kl_bound
from gdm_core.maths.rows import Rows, row_products, shift
from gdm_core.models.gdm.chain import chain_log_probabilities
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.posteriors import POSTERIORS, PosteriorNetwork
from gdm_core.models.gdm.transitions import GruTransition, LinearTransition

_LOG_2PI = math.log(2 * math.pi)
_MAX_REACH = 1.0  # of the sticky term in a logit: the exact bound loosens exponentially with it
_EVIDENCE_ROWS = 16_384  # whose densities under each state are computed at a time
_PATTERN_ROWS = 8_192  # whose whitening matrices are held at a time
_BOUND_ELEMENTS = 50_000_000
_START_TRUST, _START_STAY = 0.5, 0.98
_LEAST_LOG_NOISE = math.log(1e-4)  # of a channel's standard deviation; keeps noise-free data from a singular fit


class RowsView(NamedTuple):
    """What one pass over the rows needs again and again."""

    x: Tensor  # [R, D] projected observations
    design: Tensor  # [R, L D + 2] lagged x, 1 once there are enough lags, 1 before that
    context: Tensor  # [R, C] what transitions take from the past
    posterior: Tensor  # [R, K] posterior logits (before any memory term)

    def piece(self, begin: int, end: int) -> RowsView:
        return RowsView(*(part[begin:end] for part in self))


class GdmModule(nn.Module):
    """All parameters of one GDM with its posterior."""

    first_log_noise: Tensor
    stay: Tensor

    def __init__(self, n_channels: int, config: GDMConfig) -> None:
        super().__init__()
        k, d, n = config.n_states, config.n_latent, n_channels
        self.lags = config.lags
        self.projection = nn.Parameter(torch.zeros(d, n), requires_grad=config.train_projection)  # F
        # Per state: S_k for each lag, b_k, and mu_k for the first rows of a trial.
        self.dynamics = nn.Parameter(torch.zeros(k, config.lags * d + 2, n))
        self.initial = nn.Parameter(torch.zeros(k))  # pi_1
        # Shared by all states, or per state and mixed in the logarithm: log sd = sum_k z_k log sd_k.
        self.log_noise = nn.Parameter(torch.zeros(k, n) if config.state_noise else torch.zeros(n))
        # R_1 of a trial's first rows. One trial says nothing about where others start, so it stays at the spread of
        # the data; the paper's recipe shares R, and a trial that starts elsewhere then costs thousands of nats.
        self.own_start_noise = config.preset != "paper"
        self.register_buffer("first_log_noise", torch.zeros(n))
        # Strictly lower part of R's Cholesky factor, a row in units of its standard deviation.
        self.noise_coupling = nn.Parameter(torch.zeros(n, n)) if config.covariance == "full" else None
        self.transition = (
            LinearTransition(k, d, config.stickiness, config.scale_of_stickiness)
            if config.transition == "linear"
            else GruTransition(k, d, config.stickiness, config.n_hidden)
        )
        self.posterior: PosteriorNetwork = POSTERIORS[config.reads](n, config)
        self.informed = bool(config.informed)
        if self.informed:
            self.log_trust = nn.Parameter(torch.tensor(math.log(_START_TRUST)))
            self.register_buffer("stay", torch.tensor(_START_STAY))

    @property
    def n_states(self) -> int:
        return int(self.initial.shape[0])

    @property
    def has_state_noise(self) -> bool:
        """Whether each state has noise of its own."""
        return self.log_noise.ndim == 2

    def view(self, rows: Rows, filtered: bool = False) -> RowsView:
        """Return what the rows imply; posterior logits use no later sample where `filtered`."""
        x = rows.past @ self.projection.T
        design = self.design(rows, x)
        posterior = self.posterior(rows, x)
        if self.informed:
            posterior = posterior + self.log_trust.exp() * self._chain(rows, design, filtered)
        return RowsView(x, design, self.transition.context(rows, x), posterior)

    def design(self, rows: Rows, x: Tensor) -> Tensor:
        """[R, L D + 2] what the dynamics see of projections x [R, D]."""
        ready = (rows.age >= self.lags).to(x.dtype)[:, None]
        lagged = [shift(x, lag) for lag in range(1, self.lags + 1)]
        return torch.cat([*(part * ready for part in lagged), ready, 1 - ready], -1)

    @torch.no_grad()
    def _chain(self, rows: Rows, design: Tensor, filtered: bool) -> Tensor:
        """[R, K] log-probabilities of the chain of pure states."""
        if rows.chain is not None:
            return rows.chain
        return chain_log_probabilities(self.evidence(rows, design), rows, float(self.stay), filtered)

    @torch.no_grad()
    def evidence(self, rows: Rows, design: Tensor) -> Tensor:
        """Return log p(y_t | z_t = e_k, past) [R, K]."""
        pure = torch.eye(self.n_states, dtype=design.dtype, device=design.device)[:, None]
        parts = []
        for begin in range(0, len(rows), _EVIDENCE_ROWS):
            end = min(begin + _EVIDENCE_ROWS, len(rows))
            draws = pure.expand(-1, end - begin, -1)
            parts.append(self.log_likelihood_of_draws(draws, design[begin:end], rows.piece(begin, end)).T)
        return torch.cat(parts)

    # ---- prior --------------------------------------------------------------------------------------------------
    def prior_logits(self, context: Tensor, z: Tensor, rows: Rows, before: Tensor | None = None) -> Tensor:
        """[S, R, K] logits of each row given the sampled z of the row before it; pi_1 where a trial starts.

        `before` [S, 1, K] is what preceded the first row when the rows continue a trial.
        """
        previous = shift(z, 1) if before is None else torch.cat([before, z[:, :-1]], 1)
        logits = self.transition.logits(context.expand(*z.shape[:-1], -1), previous)
        return torch.where((rows.age > 0)[:, None], logits, self.initial)

    # ---- emission -----------------------------------------------------------------------------------------------
    def noise_factor(self) -> Tensor:
        """[N, N] Cholesky factor of R, where states share it."""
        sd = self.log_noise.clamp_min(_LEAST_LOG_NOISE).exp()
        if self.noise_coupling is None:
            return torch.diag(sd)
        return sd[:, None] * (torch.eye(len(sd), dtype=sd.dtype, device=sd.device) + self.noise_coupling.tril(-1))

    def log_deviation(self, z: Tensor) -> Tensor:
        """Log standard deviations of the noise: [..., N] for soft states [..., K], or [N] where states share them."""
        log_noise = self.log_noise.clamp_min(_LEAST_LOG_NOISE)
        return z @ log_noise if self.has_state_noise else log_noise

    def mean(self, z: Tensor, design: Tensor) -> Tensor:
        """[S, R, N] expected observation for given soft states."""
        weighted = (z[..., :, None] * design[:, None, :]).flatten(-2)  # [S, R, K (L D + 2)]
        return weighted @ self.dynamics.flatten(0, 1)

    def row_log_noise(self, rows: Rows, z: Tensor | None = None) -> Tensor:
        """Log standard deviations [R, N], or [N] where no row is a trial's first; [S, R, N] of states z with their own noise."""
        log_noise = self.log_noise.clamp_min(_LEAST_LOG_NOISE) if z is None else self.log_deviation(z)
        first = rows.age < self.lags
        if not self.own_start_noise or not bool(first.any()):
            return log_noise
        return torch.where(first[:, None], self.first_log_noise, log_noise)

    def log_likelihood(self, z: Tensor, design: Tensor, rows: Rows) -> Tensor:
        """[S, R] log p(observed part of y_t | z_t, past)."""
        return self._log_density(rows.y - self.mean(z, design), rows, self.row_log_noise(rows, z))

    def log_likelihood_of_draws(self, z: Tensor, design: Tensor, rows: Rows) -> Tensor:
        """[S, R] the same for many draws a row: quadratic in z, so a row's N channels are visited once, not S times.

        Everything is taken relative to the average state, which keeps the squares small enough for float32. For use
        without gradients.
        """
        if self.noise_coupling is not None or self.has_state_noise:
            return self.log_likelihood(z, design, rows)
        log_noise = self.row_log_noise(rows)
        precision = torch.exp(-2 * log_noise).expand_as(rows.y)
        if rows.known is not None:
            precision = precision * rows.known
        flat = self.dynamics.transpose(0, 1).flatten(1)  # [L D + 2, K N]
        per_state = (design @ flat).unflatten(1, (self.n_states, -1))  # [R, K, N]
        center = per_state.mean(1)
        spread = per_state - center[:, None]
        scaled = spread * precision[:, None]
        gram = row_products(scaled, spread.transpose(1, 2))  # [R, K, K]
        pull = row_products(scaled, (rows.y - center)[..., None])  # [R, K, 1]
        at_center = self._log_density((rows.y - center)[None], rows, log_noise)[0]
        by_row = z.permute(1, 2, 0)  # [R, K, S]
        slope = row_products(gram, by_row).mul_(-0.5).add_(pull)
        return (at_center[:, None] + slope.mul_(by_row).sum(1)).T

    def _log_density(self, residual: Tensor, rows: Rows, log_noise: Tensor | None = None) -> Tensor:
        """[..., R] log-density of residuals [..., R, N] over each row's observed channels; `log_noise` where it is known."""
        log_noise = self.row_log_noise(rows) if log_noise is None else log_noise
        if self.noise_coupling is None or log_noise.ndim > 1:
            terms = -0.5 * (residual * torch.exp(-log_noise)).square() - log_noise - 0.5 * _LOG_2PI
            value = terms.sum(-1) if rows.known is None else (terms * rows.known).sum(-1)
            if self.noise_coupling is None:
                return value
            return torch.where(rows.age < self.lags, value, _gaussian(residual, self.noise_factor(), rows))
        return _gaussian(residual, self.noise_factor(), rows)

    def expected_log_likelihood(self, mean_z: Tensor, covariance: Tensor, view: RowsView, rows: Rows) -> Tensor:
        """[R] exact E_q[log p(y_t | z_t)] from the first two moments of z_t."""
        per_state = torch.einsum("rd,kdn->rkn", view.design, self.dynamics)  # [R, K, N]
        value = self.log_likelihood(mean_z[None], view.design, rows)[0]
        if self.noise_coupling is None:
            precision = torch.exp(-2 * self.row_log_noise(rows))
            variance = (torch.matmul(covariance, per_state) * per_state).sum(1)  # [R, N] of the mean, over q
            return value - 0.5 * ((variance if rows.known is None else variance * rows.known) * precision).sum(-1)
        eigenvalues, vectors = torch.linalg.eigh(covariance)
        spread = vectors * eigenvalues.clamp_min(0).sqrt()[:, None, :]  # [R, K, K] columns: one sd of z each
        directions = torch.einsum("rkj,rkn->jrn", spread, per_state)
        at_zero = self._log_density(torch.zeros_like(rows.y), rows)
        return value + (self._log_density(directions, rows) - at_zero).sum(0)

    # ---- posterior ----------------------------------------------------------------------------------------------
    def sample_posterior(self, view: RowsView, rows: Rows, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """(log z, posterior logits), each [S, R, K]."""
        return self.posterior.sample_log(rows, view.posterior, noise, temperature)


def roles(dynamics: Tensor) -> Tensor:
    """[K] which column of fixed noise each state of some dynamics [K, ...] gets: by what it does and not by its number, so that
    renaming states is harmless."""
    key = dynamics.detach().flatten(1).double()
    return torch.argsort(torch.argsort(key.sum(1) + 1e-3 * key[:, 0]))


def _gaussian(residual: Tensor, factor: Tensor, rows: Rows) -> Tensor:
    """Log-density [..., R] of N(0, L L') at residual [..., R, N], over each row's observed channels."""
    if rows.known is None:
        return _gaussian_block(residual, factor)
    # All patterns at once: a missing channel is one of unit variance, tied to none, whose residual is zero.
    seen, which = rows.patterns
    covariance = (factor @ factor.T) * seen[:, :, None] * seen[:, None] + torch.diag_embed(1 - seen)
    factors = torch.linalg.cholesky(covariance)  # [P, N, N]
    constant = factors.diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * _LOG_2PI * seen.sum(1)
    whitening = torch.linalg.solve_triangular(
        factors, torch.eye(len(factor)).to(factor).expand_as(factors), upper=False
    )
    known = (residual * rows.known).reshape(-1, *rows.known.shape).permute(1, 2, 0)  # [R, N, S]
    pieces = zip(known.split(_PATTERN_ROWS), which.split(_PATTERN_ROWS), strict=True)
    squares = torch.cat([(whitening[at] @ part).square().sum(1) for part, at in pieces])  # [R, S]
    return (-0.5 * squares.T - constant[which]).reshape(residual.shape[:-1])


def _gaussian_block(residual: Tensor, factor: Tensor) -> Tensor:
    flat = residual.reshape(-1, residual.shape[-1])
    white = torch.linalg.solve_triangular(factor, flat.T, upper=False)
    constant = factor.diagonal().log().sum() + 0.5 * _LOG_2PI * factor.shape[0]
    return (-0.5 * white.square().sum(0) - constant).reshape(residual.shape[:-1])


# ---- bounds -----------------------------------------------------------------------------------------------------
def sampled_elbo(module: GdmModule, rows: Rows, noise: Tensor, temperature: float) -> Tensor:
    """[R] unbiased estimate of each row's share of the ELBO; the divergence takes one draw per sample, not z itself."""
    view = module.view(rows)
    log_z, posterior = module.sample_posterior(view, rows, noise, temperature)
    z = log_z.exp()
    delta = module.prior_logits(view.context, z, rows) - posterior  # [S, R, K]
    fit = module.log_likelihood(z, view.design, rows)
    return (fit - sampled_kl(delta, torch.log_softmax(-noise, -1))).mean(0)


def importance_objective(module: GdmModule, rows: Rows, noise: Tensor, temperature: float) -> Tensor:
    """[R] log of the average importance weight of each row over S samples, for training.

    Its gradient is that of reweighted wake-sleep: the draws stay where they are, the model moves towards the weighted
    draws, and so does q. Without stickiness its value bounds log p(y) more tightly than the ELBO does; with it each
    row sees one sampled predecessor, so it is never reported.
    """
    view = module.view(rows)
    with torch.no_grad():
        log_z, _ = module.sample_posterior(view, rows, noise, temperature)
        z = log_z.exp()
    posterior = module.posterior.logits_given(rows, view.posterior, z)
    prior = module.prior_logits(view.context, z, rows)
    log_q = log_density(log_z, posterior, temperature)
    joint = module.log_likelihood(z, view.design, rows) + log_density(log_z, prior, temperature)
    log_weights = (joint - log_q).detach()
    weights = torch.softmax(log_weights, 0)
    moving = (weights * (joint + log_q)).sum(0)
    return torch.logsumexp(log_weights, 0) - math.log(len(weights)) + moving - moving.detach()


def _sampled_bound(module: GdmModule, rows: Rows, view: RowsView, temperature: float, n_samples: int) -> Tensor:
    """[R] each row's share of the ELBO, averaged over samples of z_{t-1}; in pieces, so that memory stays bounded."""
    generator = torch.Generator(device=view.x.device).manual_seed(0)
    k = module.n_states
    if module.posterior.sequential:  # a draw needs the whole history, so all of it is drawn at once
        pieces = [(0, len(rows))]
    else:
        step = max(1, _BOUND_ELEMENTS // (n_samples * (k * view.design.shape[1] + rows.y.shape[1])))
        pieces = [(begin, min(begin + step, len(rows))) for begin in range(0, len(rows), step)]
    parts, before = [], torch.full((n_samples, 1, k), 1 / k, dtype=view.x.dtype, device=view.x.device)
    for begin, end in pieces:
        here, look = rows.piece(begin, end), view.piece(begin, end)
        noise = gumbel((n_samples, end - begin, k), generator, view.x.dtype)[..., roles(module.dynamics)]
        log_z, posterior = module.sample_posterior(look, here, noise, temperature)
        z = log_z.exp()
        prior = module.prior_logits(look.context, z, here, before)
        divergence = gumbel_softmax_kl(posterior, prior)
        parts.append((module.log_likelihood(z, look.design, here) - divergence).mean(0))
        before = z[:, -1:]
    return torch.cat(parts)


@torch.no_grad()
def elbo(module: GdmModule, rows: Rows, temperature: float, n_samples: int = 16) -> float:
    """Return the total ELBO of the rows in nats.

    Exact quadrature, with the effect of a sticky z_{t-1} bounded from the safe side, wherever the transition is affine
    in z_{t-1} with a small factor, states share their noise and q(z_t | y) does not look at z_{t-1}; averaged over seeded
    samples otherwise.
    """
    view = module.view(rows)
    reach = float(module.transition.gamma * module.transition.scale)
    if (
        module.posterior.sequential
        or module.has_state_noise
        or reach > _MAX_REACH
        or not module.transition.affine_in_state
    ):
        return float(_sampled_bound(module, rows, view, temperature, n_samples).double().sum())
    step = max(1, _BOUND_ELEMENTS // (4 * module.n_states * rows.y.shape[1]))
    total = 0.0
    for begin in range(0, len(rows), step):  # a piece looks one row back
        head, end = max(0, begin - 1), min(begin + step, len(rows))
        shares = _exact_bound(module, rows.piece(head, end), view.piece(head, end), temperature)[begin - head :]
        total += float(shares.double().sum())
    return total


def _exact_bound(module: GdmModule, rows: Rows, view: RowsView, temperature: float) -> Tensor:
    """[R] each row's share of the ELBO, from exact moments of q."""
    exact = moments(view.posterior, temperature, second=True)
    fit = module.expected_log_likelihood(exact.mean, exact.covariance, view, rows)
    delta = module.prior_logits(view.context, exact.mean[None], rows)[0] - view.posterior
    started = (rows.age > 0).to(view.x.dtype)
    covariance = shift(exact.covariance.flatten(1), 1).reshape(exact.covariance.shape) * started[:, None, None]
    divergence = sticky_kl_bound(delta, float(module.transition.gamma * module.transition.scale), covariance)
    return fit - divergence
