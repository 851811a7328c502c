"""Starts of a fit: from clusters and closed-form regressions, or random."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gdm_core.arrays import Bool, Float, Ints, Values
from gdm_core.maths.pca import balance_channels, principal_axes
from gdm_core.maths.relaxed import moments
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.posteriors import LinearPosterior, discriminant
from gdm_core.models.starts import cluster_samples

_POSITION_WEIGHT = 0.7  # of position relative to steps in the first clustering
_MAX_SPREAD = 4.0  # of the first logits of positions, as a standard deviation
_LEAST_RIDGE = 1e-12
_SHARED_ROWS = 2.0  # weight of the noise of all states in the noise of each


def whitening_projection(values: Tensor, n_latent: int, weighted: bool) -> Tensor:
    """Return the leading principal directions [D, N] of [R, N], each scaled to unit variance.

    weighted  weight channels by the inverse of their noise
    """
    centered = (values - values.mean(0)).double()
    covariance = (centered.T @ centered / len(values)).numpy(force=True)
    weight = balance_channels(covariance, n_latent) if weighted else np.ones(len(covariance))
    eigenvalues, vectors = (part[..., :n_latent] for part in principal_axes(covariance, weight))
    scale = np.sqrt(np.maximum(eigenvalues, 1e-6 * eigenvalues.max()))
    directions = torch.as_tensor(vectors * weight[:, None] / scale, device=values.device)
    signs = torch.sign(directions.gather(0, directions.abs().argmax(0, keepdim=True)))
    return (directions * signs).T.to(values.dtype)


def regress(design: Tensor, member: Tensor, y: Tensor) -> Tensor:
    """Return ridge regressions [K, P, N] of y on the design for each state, shrunk towards a shared one; y has no gaps."""
    k, p = member.shape[1], design.shape[1]
    ridge = 1e-3 * len(y) / k
    eye = torch.eye(p, dtype=y.dtype, device=y.device)
    shared = torch.linalg.solve(design.T @ design + 1e-4 * len(y) * eye, design.T @ y)  # [P, N]
    gram = torch.einsum("rk,rp,rq->kpq", member, design, design)
    target = torch.einsum("rk,rp,rn->kpn", member, design, y)
    return torch.linalg.solve(gram + ridge * eye, target + ridge * shared)


def _limit_spread(weight: Tensor, bias: Tensor, inputs: Tensor) -> None:
    """Scale logits down where their standard deviation over states exceeds the limit."""
    logits = torch.addmm(bias, inputs, weight)
    spread = float((logits - logits.mean(-1, keepdim=True)).std())
    if spread > _MAX_SPREAD:
        weight *= _MAX_SPREAD / spread
        bias *= _MAX_SPREAD / spread


@torch.no_grad()
def start(module: GdmModule, rows: Rows, seed: int, member: Tensor | None = None) -> None:
    """Set the parameters of a module from states [R, K], or from clusters of the rows."""
    config, generator = module.config, torch.Generator().manual_seed(seed)
    values = rows.past
    if rows.noise_floor is not None:  # neither projection nor clusters may follow what the noise will hide
        normal = torch.randn(values.shape, generator=generator).to(values)
        values = values + normal * torch.as_tensor(rows.noise_floor).to(values)
    # Noise must not hide the size of steps, so channels are weighted unless states depend on positions.
    module.projection.copy_(whitening_projection(values, config.n_dimensions, config.effective_posterior != "linear"))
    x, moved, move_scale = _moves(module, rows, rows.past)
    features = torch.cat([x, moved / move_scale], -1)
    if member is None:
        clustered, n_tries = values, 4  # by the channels that a linear posterior sees, as they are
        if config.effective_posterior != "linear":
            seen, steps, scale = _moves(module, rows, values)
            clustered, n_tries = torch.cat([steps / scale, _POSITION_WEIGHT * seen], -1), 2
        labels = torch.as_tensor(
            cluster_samples(clustered.numpy(force=True), config.n_states, seed, n_tries), device=x.device
        )
        member = nn.functional.one_hot(labels, config.n_states).to(x.dtype)

    design = module.design(rows, x)
    module.dynamics.copy_(regress(design, member, rows.past))
    _start_noise(module, rows, (rows.y - module.mean(member[None], design)[0]).square(), member)
    after = rows.age > 0
    weight, bias = discriminant(shift(x, 1)[after], member[after])
    module.transition.start(generator, weight, bias)
    module.posterior.start(rows.past, features, member, move_scale, generator)
    if isinstance(module.posterior, LinearPosterior):
        # Many clusters have extreme logits, which q and the prior would need thousands of steps to leave.
        _limit_spread(module.posterior.weight, module.posterior.bias, rows.past)
        _limit_spread(module.transition.weight, module.transition.bias, x)
        # A soft q explains much less of a channel that is on or off than the clusters do.
        states = moments(module.posterior(rows, x), config.temperature, second=True)
        of_state = torch.einsum("rd,kdn->rkn", design, module.dynamics)
        spread = ((states.covariance @ of_state) * of_state).sum(1)
        _start_noise(module, rows, (rows.y - module.mean(states.mean[None], design)[0]).square() + spread)


def _moves(module: GdmModule, rows: Rows, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return projections [R, D] of values, their steps, and the scale [D] of the steps."""
    x = values @ module.projection.T
    moved = (x - shift(x, 1)) * (rows.age > 0)[:, None]
    return x, moved, moved.square().mean(0).sqrt().clamp_min(1e-4)


def _start_noise(module: GdmModule, rows: Rows, squares: Tensor, member: Tensor | None = None) -> None:
    """Set the noise, shared or per state, from the squared errors [R, N] of observed values."""
    known = torch.ones_like(squares) if rows.known is None else rows.known
    variance = (squares * known).sum(0) / known.sum(0).clamp_min(1)
    if module.has_state_noise:
        assert member is not None
        total = member.T @ (squares * known) + _SHARED_ROWS * variance
        variance = total / (member.T @ known + _SHARED_ROWS)
    module.log_noise.copy_((variance + 1e-6).sqrt().log())
    rows.raise_noise(module.log_noise)


def left_out_changes(design: Values, values: Values, folds: Ints, usable: Bool) -> list[Float]:
    """Return the change of coefficients [P, M] without each fold; zero without usable rows.

    design    [T, P]
    values    [T, M]
    folds     [T] the fold of each row
    usable    [T] rows to use
    """
    x, y = design.astype(np.float64), values.astype(np.float64)
    grams, targets = [], []
    for fold in range(int(folds.max()) + 1):
        rows = usable & (folds == fold)
        grams.append(x[rows].T @ x[rows])
        targets.append(x[rows].T @ y[rows])
    gram, target = np.sum(grams, axis=0), np.sum(targets, axis=0)
    ridge = max(1e-4 * np.trace(gram) / len(gram), _LEAST_RIDGE) * np.eye(len(gram))
    everything = np.linalg.solve(gram + ridge, target)
    return [
        np.linalg.solve(gram - own + ridge, target - its) - everything for own, its in zip(grams, targets, strict=True)
    ]


@torch.no_grad()
def start_random(module: GdmModule, seed: int) -> None:
    """Draw all parameters at random, as in the paper; also used as the untrained baseline."""
    generator = torch.Generator().manual_seed(seed)

    def normal(tensor: Tensor, scale: float) -> Tensor:
        return torch.randn(tensor.shape, generator=generator).to(tensor) * scale

    k, (d, n) = module.n_states, module.projection.shape
    module.projection.copy_(normal(module.projection, 0.1))
    rotations = torch.linalg.qr(torch.randn(k, d, d, generator=generator)).Q
    module.dynamics.zero_()
    module.dynamics[:, :d] = (rotations @ torch.randn(d, n, generator=generator)).to(module.dynamics)
    module.dynamics[:, -1] = normal(module.dynamics[:, -1], 1.0)
    module.log_noise.copy_((-1.0 + torch.rand(n, generator=generator)) / 2)
    module.transition.start_random(generator)
    module.posterior.start_random(generator)
