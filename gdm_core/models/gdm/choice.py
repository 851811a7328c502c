"""Choice of start, posterior and noise by the bound of short fits.

Soft or fast switching is fitted best from clusters of steps with the window alone; states that last, from an AR-HMM's
states, with a chain of states and noise per state.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import torch

from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import fast_steps
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.readout import log_bound
from gdm_core.models.gdm.start import start
from gdm_core.models.switching.arhmm_em import find_lasting_states

_EXCERPT_ROWS, _EXCERPT_BLOCKS = 2_000, 4
_ROWS_PER_STATE = 20
_SHORT_STEPS = 30
_BOUND_DRAWS = 8
_CLEAR_GAIN = 0.05  # nats per sample: smaller differences are ties, which go to states that last
_LEAST_STAY = 0.95  # states that last 20 samples on average


class Choice(NamedTuple):
    """A module to fit, its configuration, and the number of steps it has taken."""

    module: GdmModule
    config: GDMConfig
    n_steps: int = 0


def choose(rows: Rows, config: GDMConfig, seed: int) -> Choice:
    """Start a module; the bound of short fits decides what `config` leaves open."""
    plain = dataclasses.replace(config, informed=bool(config.informed), state_noise=bool(config.state_noise))
    some = excerpt(rows)
    if not config.adapts or config.n_states == 1 or len(some) < _ROWS_PER_STATE * config.n_states:
        return _started(rows, plain, seed)
    lasting = dataclasses.replace(
        config, informed=config.informed is not False, state_noise=config.state_noise is not False
    )
    states = _autoregressive_states(some, config, seed)
    first, second = _started(some, plain, seed), _started(some, lasting, seed, states)
    reached, tie = _short_fit(first, some, seed), _CLEAR_GAIN * len(some)
    gain = _short_fit(second, some, seed) - reached
    if second.module.informed:
        if float(second.module.stay) > _LEAST_STAY and gain > -tie:
            return second._replace(n_steps=_SHORT_STEPS)
        if gain > tie and float(second.module.stay) <= _LEAST_STAY:
            second = _started(some, plain, seed, states)
            gain = _short_fit(second, some, seed) - reached
    return second._replace(n_steps=_SHORT_STEPS) if gain > tie else _started(rows, plain, seed)


def excerpt(rows: Rows, n_rows: int = _EXCERPT_ROWS) -> Rows:
    """Return evenly spread stretches of long recordings, as separate recordings."""
    if len(rows) <= n_rows:
        return rows
    size = n_rows // _EXCERPT_BLOCKS
    begins = np.linspace(0, len(rows) - size, _EXCERPT_BLOCKS).astype(int)
    index = torch.as_tensor((begins[:, None] + np.arange(size)).ravel(), device=rows.device)
    age = torch.minimum(rows.age[index], torch.arange(size, device=rows.device).repeat(_EXCERPT_BLOCKS))
    return rows.select(index, age=age, n_scored=len(index), lengths=(size,) * _EXCERPT_BLOCKS)


def _started(rows: Rows, config: GDMConfig, seed: int, member: torch.Tensor | None = None) -> Choice:
    module = GdmModule(rows.y.shape[1], config).to(rows.device)
    start(module, rows, config, seed, member)
    return Choice(module, config)


def _autoregressive_states(rows: Rows, config: GDMConfig, seed: int) -> torch.Tensor:
    """Return the states [R, K] that an AR-HMM finds quickly."""
    past, begins = rows.past.numpy(force=True), np.flatnonzero(rows.age.numpy(force=True) <= 0)
    trials = np.split(past, begins[begins > 0])
    return torch.as_tensor(find_lasting_states(trials, config.n_states, config.n_latent, seed)).to(rows.past)


def _short_fit(choice: Choice, rows: Rows, seed: int) -> float:
    """Fit for a few steps; return the bound less the BIC penalty of the noise parameters."""
    module, config, _ = choice
    generator = torch.Generator(device=rows.device).manual_seed(seed)
    for _ in fast_steps(module, rows, config, _SHORT_STEPS, generator):
        pass
    bound = float(log_bound(module, rows, config.temperature, _BOUND_DRAWS).double().sum())
    return bound - 0.5 * module.log_noise.numel() * math.log(len(rows)) if math.isfinite(bound) else -math.inf
