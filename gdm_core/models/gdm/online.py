"""Reader of a GDM for `online`: it keeps the last few rows, the filter of missing values and the memory of the transition."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from gdm_core.arrays import Array
from gdm_core.compiled import guide
from gdm_core.errors import ConfigError
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.relaxed import moments
from gdm_core.maths.rows import Rows, as_numpy, make_rows
from gdm_core.models.gdm.chain import log_probabilities
from gdm_core.models.gdm.module import GdmModule, RowsView
from gdm_core.models.gdm.readout import N_CANDIDATES, even_noise, find_candidates
from gdm_core.models.online import Candidates

_N_ROWS = 3  # the row before needs its own step


class GdmReader:
    """Reader of a GDM."""

    def __init__(self, module: GdmModule, factors: FactorModel) -> None:
        if module.posterior.sequential or not module.posterior.causal:
            raise ConfigError(
                f"posterior={module.config.effective_posterior!r} needs whole recordings, so it cannot infer states while one is "
                "made. Fit with posterior='window' or 'linear' instead."
            )
        self.module, self._factors = module, factors
        self._device = module.initial.device
        self._noise = even_noise(module, N_CANDIDATES)
        n = module.projection.shape[1]
        self._seen = np.zeros((0, n), np.float32)  # NaN where missing, newest last
        self._past = np.zeros((0, n), np.float32)  # with gaps filled from the past
        self._age = 0  # of the next sample
        self._factor_belief = list(factors.filter_start())
        self._carried = module.transition.memory_at_start()
        self._chain = np.full((1, module.n_states), 1 / module.n_states)  # filtered probabilities

    @torch.inference_mode()
    def read(self, y: Array) -> Candidates:
        rows = self._rows(y)
        if self.module.informed:
            rows = self._informed(rows)
        view = self._view(rows)
        if self.module.config.weighs_samples:
            begin, end = max(0, len(rows) - 2), len(rows)
            found = find_candidates(self.module, rows.piece(begin, end), view.piece(begin, end), self._noise)
            transfer = found.transfer[-1] if end > 1 else found.transfer[-1].mean(0, keepdims=True)
            return Candidates(transfer, found.z[-1].T)
        shares = moments(view.posterior[-1:], self.module.config.temperature).mean
        return Candidates(np.ones((1, 1)), as_numpy(shares))  # no other sample changes them

    def _rows(self, y: Array) -> Rows:
        """Return the sample with the samples before it that a view of it needs."""
        *self._factor_belief, past = self._factors.filter(y[None], *self._factor_belief)
        self._seen = np.concatenate([self._seen, y[None]])[-_N_ROWS:]
        self._past = np.concatenate([self._past, past.astype(np.float32)])[-_N_ROWS:]
        self._age += 1
        rows = make_rows([self._seen], self._device, fill=lambda _: self._past)
        return dataclasses.replace(rows, age=rows.age + self._age - len(rows))

    def _informed(self, rows: Rows) -> Rows:
        """Advance the chain of states by one sample."""
        evidence = self.module.evidence(rows, rows.past @ self.module.projection.T)[:, -1]
        now, weight = np.empty((2, len(evidence)))
        guide.advance(self._chain[-1], evidence, float(self.module.stay), now, weight)
        self._chain = np.concatenate([self._chain, now[None]])[-_N_ROWS:]
        chain = torch.as_tensor(
            log_probabilities(self._chain[-len(rows) :]), dtype=rows.past.dtype, device=self._device
        )
        return dataclasses.replace(rows, chain=chain)

    def _view(self, rows: Rows) -> RowsView:
        view = self.module.view(rows)
        if self._carried is None or len(rows) == 1:
            return view
        context, self._carried = self.module.transition.next_context(view.x[-2], self._carried)
        return view._replace(context=torch.cat([view.context[:-1], context[None]]))
