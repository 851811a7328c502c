"""Starts of a fit, scored on an excerpt of fixed size; the optimiser of the winner goes on.

Soft or fast switching is fitted best from clusters of steps with the window alone; states that last, from an AR-HMM's
states, with a chain of states and noise per state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch

from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.ascent import Ascent, begin
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import Plan, Step, optimise
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.readout import log_bound
from gdm_core.models.gdm.start import start
from gdm_core.models.switching.arhmm_em import find_lasting_states

_EXCERPT_ROWS = 2_000
_ROWS_PER_STATE = 20
_TRIAL, _FIRST_STEPS = Plan((15, 15), 15), 10
_BOUND_DRAWS = 8
_HOPELESS = 4.0  # nats per sample that a start may lag behind after its first steps
_FLEETING = 0.8  # with a smaller probability of keeping a state, it may not lag behind at all
_CLEAR_GAIN = 0.05  # nats per sample: smaller differences are ties, which go to states that last
_LEAST_STAY = 0.95  # states that last 20 samples on average


def candidates(rows: Rows, config: GDMConfig, seed: int) -> Ascent:
    """Return the optimiser of the best start, which decides on what `config` leaves open."""
    some = rows.excerpt(_EXCERPT_ROWS)
    if not config.may_last or config.n_states == 1 or len(some) < _ROWS_PER_STATE * config.n_states:
        return _begin(rows, config, config.lasting is True, seed)
    best = _best(some, config, seed)
    if some is not rows:
        best.use(rows)
    return best


def _best(rows: Rows, config: GDMConfig, seed: int) -> Ascent:
    states = _autoregressive_states(rows, config, seed)
    if config.lasting is True:
        return _begin(rows, config, True, seed, states)
    soft, other = _begin(rows, config, False, seed), _begin(rows, config, config.lasting == "auto", seed, states)
    trials = {one: optimise(one, _TRIAL) for one in (soft, other)}
    _advance(trials[soft], _FIRST_STEPS)
    _advance(trials[other], _FIRST_STEPS)
    fleeting = other.module.informed and other.stay < _FLEETING
    if other.bound(False) < soft.bound(False) - (0 if fleeting else _HOPELESS):
        _advance(trials[soft])
        return soft
    tie, reached = _CLEAR_GAIN * len(rows), _score(soft, trials[soft], rows)
    gain = _score(other, trials[other], rows) - reached
    if other.stay > _LEAST_STAY and gain > -tie:
        return other
    if other.module.informed and gain > tie:
        other = _begin(rows, config, False, seed, states)
        gain = _score(other, optimise(other, _TRIAL), rows) - reached
    return other if gain > tie and not other.module.informed else soft


def _begin(rows: Rows, config: GDMConfig, lasting: bool, seed: int, member: torch.Tensor | None = None) -> Ascent:
    module = GdmModule(rows.y.shape[1], config, lasting).to(rows.device)
    start(module, rows, seed, member)
    return begin(module, rows, seed)


def _autoregressive_states(rows: Rows, config: GDMConfig, seed: int) -> torch.Tensor:
    """Return the states [R, K] that an AR-HMM finds quickly."""
    y, begins = rows.y, np.flatnonzero(rows.age.numpy(force=True) <= 0)
    if rows.known is not None:
        y = torch.where(rows.known > 0, y, torch.nan)
    trials = np.split(y.numpy(force=True), begins[begins > 0])
    states = find_lasting_states(trials, config.n_states, config.n_dimensions, seed, rows.noise_floor)
    return torch.as_tensor(states).to(rows.past)


def _advance(steps: Iterator[Step], n_steps: int | None = None) -> None:
    for _ in islice(steps, n_steps):
        pass


def _score(one: Ascent, trial: Iterator[Step], rows: Rows) -> float:
    """Take the steps that are left; return the bound less the BIC penalty of the noise parameters."""
    _advance(trial)
    bound = float(log_bound(one.module, rows, _BOUND_DRAWS).double().sum())
    return bound - 0.5 * one.module.log_noise.numel() * math.log(len(rows)) if math.isfinite(bound) else -math.inf
