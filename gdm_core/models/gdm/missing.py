"""Posterior of missing observations under the dynamics of a fitted GDM."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gdm_core.arrays import Float, Ints, Values
from gdm_core.maths.completion import MissingEntries, Steps, missing_entries, steps_needed
from gdm_core.maths.relaxed import moments
from gdm_core.maths.rows import Rows, make_rows
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.readout import bound, posterior_mean

_MAX_SWEEPS = 10
_TOLERANCE = 3e-3  # root mean square change, in standard deviations of the data
_DIFFERENCE = 1e-3  # step of the finite differences in x
_BOUND_DRAWS = 4
PIECE_SAMPLES = 4096
_MIN_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Completion:
    """A recording with its gaps filled.

    y       [T, N] observations; missing ones have their posterior mean
    states  [T, K] expected soft states
    pieces  posterior of the missing entries, by stretch of time
    """

    y: Float
    states: Float
    pieces: tuple[tuple[slice, MissingEntries], ...]

    def draw(self, rng: np.random.Generator) -> tuple[Float, float]:
        """Return y with the missing entries drawn from their posterior, and the log-density of the draw."""
        drawn, log_density = self.y.copy(), 0.0
        for part, entries in self.pieces:
            values, log_densities = entries.draw(1, rng)
            drawn[part] = entries.fill(drawn[part], values[0])
            log_density += float(log_densities[0])
        return drawn, log_density

    def std(self, rng: np.random.Generator, n_draws: int = 400) -> Float:
        """Return the standard deviation of each entry [T, N], estimated from draws; 0 where observed."""
        std = np.zeros_like(self.y)
        for part, entries in self.pieces:
            std[part][entries.missing] = entries.draw(n_draws, rng)[0].std(axis=0)
        return std


@torch.no_grad()
def complete(module: GdmModule, y: Values, filled: Float) -> Completion:
    """Fill the missing entries of y [T, N], starting from a first guess `filled`.

    Missing entries are Gaussian for dynamics and transitions linearised around a path, with the spread of the soft states
    counted as noise. Path and states are updated in turn until they converge.
    """
    missing = np.isnan(y)
    current = np.where(missing, filled, y).astype(np.float64)
    states = posterior_mean(module, _rows(module, y, current)).double().numpy(force=True)  # [T, K]
    pieces: list[tuple[slice, MissingEntries]] = []
    for _ in range(_MAX_SWEEPS):
        pieces, updated = [], current.copy()
        for begin in range(0, len(y), PIECE_SAMPLES):
            end = min(begin + PIECE_SAMPLES, len(y))
            part = slice(max(0, begin - 1), min(end + 1, len(y)))
            unknown = missing[part].copy()
            unknown[: begin - part.start] = False
            unknown[end - part.start :] = False
            if not unknown.any():
                continue
            steps, prior, spread = _linearise(module, current, states, part.start + steps_needed(unknown))
            entries = missing_entries(current[part], unknown, replace(steps, rows=steps.rows - part.start))
            updated[part][unknown] = entries.mean
            surprise = steps.precision @ steps.residual(updated)[..., None]
            shares = np.maximum(prior + (spread @ surprise)[..., 0], _MIN_SHARE)
            states[steps.rows] = shares / shares.sum(axis=1, keepdims=True)
            pieces.append((part, entries))
        change = np.sqrt(np.square(updated - current)[missing].mean())
        current = updated
        if change < _TOLERANCE:
            break
    return Completion(current, states, tuple(pieces))


def missing_data_bound(module: GdmModule, y: Values, filled: Float, seed: int = 0) -> float:
    """Return a lower bound on the log-density of the observed entries of y [T, N], in nats.

    The bound of completed recordings, averaged over draws of the missing entries, less the log-density of the draws.
    """
    completion = complete(module, y, filled)
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(_BOUND_DRAWS):
        drawn, log_density = completion.draw(rng)
        values.append(bound(module, _rows(module, drawn, drawn)) - log_density)
    return float(np.mean(values))


def _rows(module: GdmModule, y: Values, filled: Values) -> Rows:
    return make_rows([y], module.initial.device, module.initial.dtype, lambda _: filled)


def _linearise(module: GdmModule, y: Float, states: Float, rows: Ints) -> tuple[Steps, Float, Float]:
    """Linearise the dynamics into `rows` [M] around a path y [T, N] with expected states [T, K], which are integrated out.

    Returns the steps, expected states [M, K] given the samples before, and their covariance [M, K, N] with observations.
    """
    dynamics = module.dynamics.double().numpy(force=True)  # [K, D + 2, N]
    projection = module.projection.double().numpy(force=True)
    x = y @ projection.T
    inside = rows > 0
    before = x[np.maximum(rows - 1, 0)]  # [M, D]
    before[~inside] = 0.0
    means = np.einsum("md,kdn->mkn", before, dynamics[:, :-2]) + dynamics[:, -2]  # of each state
    means[~inside] = dynamics[:, -1]
    prior, spread_of_states, change = _prior_states(module, x, states, rows)

    spread = spread_of_states @ means
    noise = _noise_covariance(module, prior)
    if module.own_start_noise:
        noise[~inside] = np.diag(np.exp(2 * module.first_log_noise.double().numpy(force=True)))
    gain = np.einsum("mk,kdn->mdn", prior, dynamics[:, :-2])
    gain += change @ means
    gain[~inside] = 0.0
    offset = np.einsum("mk,mkn->mn", prior, means) - np.einsum("md,mdn->mn", before, gain)
    covariance = noise + means.swapaxes(1, 2) @ spread
    precision = np.linalg.inv(covariance).astype(np.float64)
    return Steps(rows, projection, gain, offset, precision), prior, spread


def _noise_covariance(module: GdmModule, prior: Float) -> Float:
    """Return the expected covariance of the noise [M, N, N] for states with mean [M, K]."""
    if module.has_state_noise:
        # exp is convex, so this is an upper bound, and close to equality for hard states and for states with similar noise.
        variance: Float = prior @ np.exp(2 * module.log_noise.double().numpy(force=True))
    else:
        variance = np.tile(module.log_deviation().exp().double().numpy(force=True) ** 2, (len(prior), 1))
    return variance[:, :, None] * np.eye(variance.shape[1])


def _prior_states(module: GdmModule, x: Float, states: Float, rows: Ints) -> tuple[Float, Float, Float]:
    """Return mean [M, K] and covariance [M, K, K] of states given the samples before, and the mean's slope in x [M, D, K]."""
    transition, dtype, temperature = module.transition, module.initial.dtype, module.config.temperature
    path = torch.as_tensor(x, dtype=dtype, device=module.initial.device)
    memory = transition.memory(_rows(module, x, x), path)
    before = torch.as_tensor(np.maximum(rows - 1, 0), device=path.device)
    carried = None if memory is None else memory[before]
    previous = torch.as_tensor(states, dtype=dtype, device=path.device)[before]
    starts = torch.as_tensor(rows == 0, device=path.device)[:, None]
    # States that last are nearly pure: their next logits are averaged over pure states, not taken at the mean.
    lasting = float(transition.gamma * transition.scale) > 1
    pure = torch.eye(previous.shape[1], dtype=dtype, device=path.device)
    befores = [one.expand_as(previous) for one in pure] if lasting else [previous]

    def logits(x_before: Tensor, z_before: Tensor) -> Tensor:
        context, _ = transition.next_context(x_before, carried)
        return torch.where(starts, module.initial, transition.logits(context, z_before))

    axes = _DIFFERENCE * torch.eye(path.shape[1], dtype=dtype, device=path.device)
    means, seconds, slopes = [], [], []
    for z in befores:
        found = moments(logits(path[before], z), temperature, second=True)
        moved = [logits(path[before] + axis, z) - logits(path[before] - axis, z) for axis in axes]
        assert found.second is not None
        means.append(found.mean)
        seconds.append(found.second)
        slopes.append(torch.stack(moved, 1) @ found.slope(temperature) / (2 * _DIFFERENCE))

    def average(parts: list[Tensor]) -> Float:
        mean = torch.einsum("mj,jm...->m...", previous, torch.stack(parts)) if lasting else parts[0]
        return mean.double().numpy(force=True)

    expected = average(means)
    return expected, average(seconds) - expected[:, :, None] * expected[:, None, :], average(slopes)
