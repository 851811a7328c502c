"""Tensor code of the 3-level mixture (paper, equation 2.2 and Appendix C).

    z_t ~ GS(pi_t, tau)   x_t ~ N(sum_k z_tk (A_k x_{t-1} + b_k), Q(z_t))   y_t ~ N(C x_t + d, R)

pi_t = (1 - gamma) (W x_{t-1} + w) + gamma z_{t-1}; Q(z) is diagonal, and z mixes its logarithm. q(x | z) is the Gaussian
posterior of x without the transitions. Its block-tridiagonal precision follows from A, b, Q of the states and from the
information C' R^-1 (y - d) of each sample. Then

    ELBO = E_q(z) [ log p(y | z) - E_q(x|z) sum_t KL(q(z_t) || p(z_t | z_{t-1}, x_{t-1})) ]

where log p(y | z) and the divergences have closed forms; z is sampled, and x for the transitions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gdm_core.maths.gaussian import GaussianPath
from gdm_core.maths.gru import find_starts
from gdm_core.maths.relaxed import gumbel, gumbel_softmax_kl, moments, sampled_kl
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import roles
from gdm_core.models.gdm.posteriors import POSTERIORS
from gdm_core.models.gdm.transitions import LinearTransition

_LOG_2PI = math.log(2 * math.pi)
_LEAST_LOG_NOISE = math.log(1e-3)
_LEAST_LOG_STEP = math.log(1e-3)  # of the latent's unit of length
_UNKNOWN_START = 1e-2  # precision of x where a window of rows begins inside a trial
_SETTLED = 1e-6  # change of logits


class Path(NamedTuple):
    """Gaussian of a path with precision J and linear term h, and a draw from it."""

    linear: Tensor  # [R, D] h
    mean: Tensor  # [R, D] J^-1 h
    draw: Tensor  # [R, D]
    log_determinant: Tensor  # [] of J


class _Solve(torch.autograd.Function):
    """Solve for (J^-1 h, J^-1 (h + e), log |J|); the second is a draw if e ~ N(0, J)."""

    @staticmethod
    def forward(ctx: Any, diagonal: Tensor, below: Tensor, linear: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        path = GaussianPath(*(part.numpy(force=True) for part in (diagonal, below, linear)))
        both = np.stack([path.linear, path.linear + noise.numpy(force=True)], -1)  # [R, D, 2]
        ctx.path, ctx.solved = path, path.solve(both)
        mean, draw = np.moveaxis(ctx.solved, -1, 0)
        return torch.as_tensor(mean), torch.as_tensor(draw), linear.new_tensor(path.log_determinant)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        of_mean, of_draw, of_determinant = (part.numpy(force=True) for part in upstream)
        pulled = ctx.path.solve(np.stack([of_mean, of_draw], -1))  # [R, D, 2]
        solved = ctx.solved
        diagonal = -pulled @ np.swapaxes(solved, 1, 2)
        below = np.zeros_like(diagonal)
        below[1:] = -pulled[1:] @ np.swapaxes(solved[:-1], 1, 2) - solved[1:] @ np.swapaxes(pulled[:-1], 1, 2)
        if of_determinant != 0:
            variance, lagged = ctx.path.covariances
            diagonal += of_determinant * variance
            below += 2 * of_determinant * lagged
        diagonal = (diagonal + np.swapaxes(diagonal, 1, 2)) / 2
        return tuple(map(torch.as_tensor, (diagonal, below, pulled.sum(-1), pulled[..., 1])))  # type: ignore[return-value]


def solve_path(diagonal: Tensor, below: Tensor, linear: Tensor, noise: Tensor) -> Path:
    """Return the Gaussian of precision blocks [R, D, D] and linear term [R, D]; `noise` ~ N(0, J) gives the draw."""
    return Path(linear, *_Solve.apply(diagonal, below, linear, noise))


class Drive(NamedTuple):
    """Dynamics of x given z, in S R rows."""

    matrix: Tensor  # [S R, D, D] mixed A, zero in rows without a predecessor
    offset: Tensor  # [S R, D] mixed b, or mu at the start of a trial
    precision: Tensor  # [S R, D] diagonal of Q^-1


class SampleInformation(NamedTuple):
    """Information of each observation about its x."""

    information: Tensor  # [R, D, D] C' R^-1 C over the observed channels
    linear: Tensor  # [R, D] C' R^-1 (y - d)
    constant: Tensor  # [R] terms of log p(y_t | x_t) without x_t
    roots: Tensor  # [R, N, D] R^-1/2 C, zero where nothing was observed: information = roots' roots


class MixtureModule(nn.Module):
    """Parameters of a 3-level mixture and its posterior of z, in float64."""

    def __init__(self, n_channels: int, config: GDMConfig, deterministic: bool, posterior: str) -> None:
        super().__init__()
        self.config = config
        k, d, n = config.n_states, config.n_dimensions, n_channels
        self.deterministic = deterministic
        self.emission = nn.Parameter(torch.zeros(n, d))  # C
        self.offset = nn.Parameter(torch.zeros(n))  # d
        self.log_noise = nn.Parameter(torch.zeros(n))
        self.dynamics = nn.Parameter(torch.zeros(k, d + 2, d))  # per state: A' (D rows), b, mu
        if deterministic:
            self.register_parameter("log_step", None)
        else:
            self.log_step = nn.Parameter(torch.zeros(k, d))  # log of the diagonal of Q_k^(1/2)
        self.initial = nn.Parameter(torch.zeros(k))
        self.transition = LinearTransition(config)
        self.posterior = POSTERIORS[posterior](n, config)
        self.double()

    @property
    def n_states(self) -> int:
        return int(self.initial.shape[0])

    @property
    def n_latent(self) -> int:
        return int(self.emission.shape[1])

    def noise_precision(self) -> Tensor:
        """Return the diagonal [N] of R^-1."""
        return torch.exp(-2 * self.log_noise.clamp_min(_LEAST_LOG_NOISE))

    def step_deviation(self, z: Tensor) -> Tensor:
        """Return the standard deviations [..., D] of Q(z)."""
        if self.deterministic:
            return z.new_zeros(*z.shape[:-1], self.n_latent)
        return torch.exp(z @ self.log_step.clamp_min(_LEAST_LOG_STEP))

    # ---- q(z) -------------------------------------------------------------------------------------------------------
    def projected(self, rows: Rows) -> Tensor:
        """Return F (y - d) [R, D], where F is the pseudoinverse of C."""
        gram = self.emission.T @ self.emission
        gram = gram + 1e-9 * torch.eye(self.n_latent, dtype=gram.dtype, device=gram.device)
        return (rows.past - self.offset) @ torch.linalg.solve(gram, self.emission.T).T

    def sample_posterior(self, rows: Rows, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return samples of z and their logits, [S, R, K] each, from Gumbel noise [S, R, K]."""
        base = self.posterior(rows, self.projected(rows))
        log_z, logits = self.posterior.sample_log(rows, base, noise, self.config.temperature)
        return log_z.exp(), logits

    @torch.no_grad()
    def posterior_logits(self, rows: Rows) -> Tensor:
        """Return the logits [R, K] of each q(z_t), at the mean of z_{t-1} where they depend on it."""
        base: Tensor = self.posterior(rows, self.projected(rows))
        logits = base
        for _ in range(len(rows) if self.posterior.sequential else 0):  # each sweep makes one more row exact
            mean = moments(logits, self.config.temperature).mean
            updated = self.posterior.logits_given(rows, base, mean[None])[0]
            settled = bool((updated - logits).abs().max() < _SETTLED)
            logits = updated
            if settled:
                break
        return logits

    def prior_logits(self, x: Tensor, z: Tensor, rows: Rows) -> Tensor:
        """Return prior logits [S, R, K] from x [S, R, D] and z [S, R, K]; pi_1 where a trial starts."""
        logits = self.transition.logits(shift(x, 1) @ self.transition.weight + self.transition.bias, shift(z, 1))
        return torch.where((rows.age > 0)[:, None], logits, self.initial)

    # ---- x given z --------------------------------------------------------------------------------------------------
    def drive(self, z: Tensor, rows: Rows, new: Tensor | None = None) -> Drive:
        """Return the dynamics of x under states z [S, R, K]; `new` [R] marks rows without a predecessor."""
        s, d = len(z), self.n_latent
        new, start = find_starts(rows) if new is None else new, (rows.age == 0).to(z.dtype)
        mixed = (z @ self.dynamics.flatten(1)).reshape(s, len(rows), d + 2, d)
        inside = (~new).to(z.dtype)[:, None]
        matrix = mixed[..., :d, :].transpose(-1, -2) * inside[..., None]
        offset = mixed[..., d, :] * inside + mixed[..., d + 1, :] * start[:, None]
        precision = self.step_deviation(z).clamp_min(math.exp(_LEAST_LOG_STEP)).pow(-2)
        unknown = (new & (rows.age != 0))[:, None]
        precision = torch.where(unknown, torch.full_like(precision, _UNKNOWN_START), precision)
        return Drive(matrix.flatten(0, 1), offset.flatten(0, 1), precision.flatten(0, 1))

    def information(self, rows: Rows) -> SampleInformation:
        precision = self.noise_precision()
        known = torch.ones_like(rows.y) if rows.known is None else rows.known
        counted = known * (rows.age >= 0)[:, None]  # [R, N], zero on padding
        weight = counted * precision
        residual = rows.y - self.offset
        log_noise = self.log_noise.clamp_min(_LEAST_LOG_NOISE)
        constant = -0.5 * (weight * residual.square()).sum(-1) - counted @ (log_noise + 0.5 * _LOG_2PI)
        roots = counted[..., None] * (precision.sqrt()[:, None] * self.emission)
        return SampleInformation(roots.transpose(1, 2) @ roots, (weight * residual) @ self.emission, constant, roots)

    def path(self, drive: Drive, samples: SampleInformation, generator: torch.Generator) -> Path:
        """Return q(x | z) [S R, D] of all samples, and a draw.

        J is a sum of outer products, one for each step of x and one for each observation. Their square roots times
        normal noise have covariance J, so J^-1 (h + noise) is a draw.
        """
        diagonal, below, linear = precision_blocks(drive, samples)
        step = normal(linear.shape, generator) / drive.precision.sqrt()
        seen = normal((len(linear) // len(samples.linear), *samples.roots.shape[:2]), generator)
        seen = torch.einsum("srn,rnd->srd", seen, samples.roots).flatten(0, 1)
        noise = drive.precision * step - _towards_previous(drive, step) + seen
        return solve_path(diagonal, below, linear, noise)

    def log_likelihood(self, drive: Drive, samples: SampleInformation, path: Path) -> Tensor:
        """Return the sum [] of log p(y | z) over samples and rows."""
        copies = len(drive.offset) // len(samples.linear)
        quadratic = (path.linear * path.mean).sum() - (drive.precision * drive.offset.square()).sum()
        return 0.5 * (quadratic - path.log_determinant + drive.precision.log().sum()) + copies * samples.constant.sum()


def precision_blocks(drive: Drive, samples: SampleInformation) -> tuple[Tensor, Tensor, Tensor]:
    """Return diagonal [S R, D, D], lower blocks [S R, D, D] and linear term [S R, D] of q(x | z)."""
    copies = len(drive.offset) // len(samples.linear)
    onto_next, towards_previous = from_next_row(drive)
    diagonal = torch.diag_embed(drive.precision) + samples.information.repeat(copies, 1, 1) + onto_next
    linear = drive.precision * drive.offset - towards_previous
    return diagonal, -drive.precision[..., None] * drive.matrix, linear + samples.linear.repeat(copies, 1)


def from_next_row(drive: Drive) -> tuple[Tensor, Tensor]:
    """Return A' Q^-1 A [S R, D, D] and A' Q^-1 b [S R, D] of the next row."""
    weighted = drive.precision[..., None] * drive.matrix
    return led(drive.matrix.mT @ weighted), _towards_previous(drive, drive.offset)


def _towards_previous(drive: Drive, offset: Tensor) -> Tensor:
    """Return A' Q^-1 offset [S R, D] of the next row."""
    weighted = drive.precision[..., None] * drive.matrix
    return led((weighted.mT @ offset[..., None])[..., 0])


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return standard normal noise."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def led(values: Tensor) -> Tensor:
    """Shift rows back by one; the last row becomes zero."""
    return torch.cat([values[1:], torch.zeros_like(values[:1])])


def determined_path(drive: Drive) -> Tensor:
    """Return x_t = A_t x_{t-1} + b_t [R, D] by composing neighbouring maps (log2 R levels)."""
    matrix, offset = drive.matrix, drive.offset
    span, n = 1, len(offset)
    while span < n:
        further = (matrix[span:] @ offset[:-span, :, None])[..., 0]
        offset = torch.cat([offset[:span], offset[span:] + further])
        matrix = torch.cat([matrix[:span], matrix[span:] @ matrix[:-span]])
        span *= 2
    return offset


# ---- bounds -----------------------------------------------------------------------------------------------------
def _fit_and_path(module: MixtureModule, rows: Rows, z: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the sum of log p(y | z) over samples, and a draw of x [S, R, D] for each."""
    drive, samples = module.drive(z, rows), module.information(rows)
    if module.deterministic:
        x = determined_path(drive)
        copies = len(z)
        information = samples.information.repeat(copies, 1, 1)
        explained = (information @ x[..., None])[..., 0]
        fit = (x * (samples.linear.repeat(copies, 1) - 0.5 * explained)).sum() + copies * samples.constant.sum()
        return fit, x.reshape(copies, len(rows), -1)
    path = module.path(drive, samples, generator)
    return module.log_likelihood(drive, samples, path), path.draw.reshape(len(z), len(rows), -1)


def mixture_elbo(module: MixtureModule, rows: Rows, noise: Tensor, generator: torch.Generator, exact: bool) -> Tensor:
    """Return an unbiased estimate [] of the rows' ELBO from Gumbel noise [S, R, K].

    exact  divergences by quadrature, for reports; otherwise from one draw each, for training
    """
    z, posterior = module.sample_posterior(rows, noise)
    fit, x = _fit_and_path(module, rows, z, generator)
    prior = module.prior_logits(x, z, rows)
    weights = torch.log_softmax(-noise, -1)
    divergence = gumbel_softmax_kl(posterior, prior) if exact else sampled_kl(prior - posterior, weights)
    # Other windows count the divergence of a row that has lost its predecessor.
    counted = ((rows.age == 0) | ~find_starts(rows)).to(z.dtype)
    return (fit - (divergence * counted).sum()) / len(z)


@torch.no_grad()
def bound(module: MixtureModule, rows: Rows, n_samples: int = 16, seed: int = 0) -> float:
    """Return the ELBO of whole trials in nats, averaged over samples."""
    generator = torch.Generator().manual_seed(seed)
    total = 0.0
    for _ in range(n_samples):  # one at a time to bound memory
        noise = gumbel((1, len(rows), module.n_states), generator, torch.float64)[..., roles(module.dynamics)]
        total += float(mixture_elbo(module, rows, noise, generator, exact=True))
    return total / n_samples
