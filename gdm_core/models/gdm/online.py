"""Reader of a GDM for `online`: it keeps the last few rows and the memory of the transition."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.errors import ConfigError
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.relaxed import gumbel, moments
from gdm_core.maths.rows import Rows, as_numpy
from gdm_core.models.gdm.chain import advance, log_probabilities
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, RowsView, roles
from gdm_core.models.gdm.readout import candidates_of_last_row, same_noise
from gdm_core.models.online import Arrays, Candidates

_STICKY_DRAWS = 64


class GdmReader:
    """Reader of a GDM; its memory holds rows of the standardised past, newest last."""

    def __init__(
        self,
        module: GdmModule,
        config: GDMConfig,
        factors: FactorModel,
    ) -> None:
        if not module.posterior.causal:
            raise ConfigError(
                f"posterior={config.reads!r} needs whole recordings, so it cannot infer states while one is made. "
                "Fit with posterior='window' or 'linear' instead."
            )
        self.module, self.config, self._factors = module, config, factors
        self._device = module.initial.device
        self._noise = same_noise(module)
        self._n_rows = max(module.lags, 2) + 1  # the row before needs its own step
        n, k = module.projection.shape[1], module.n_states
        self.memory: Arrays = {
            "y": np.zeros((0, n), np.float32),  # 0 where missing
            "known": np.zeros((0, n), np.bool_),
            "past": np.zeros((0, n), np.float32),  # with gaps filled from the past
            "age": np.zeros((1, 1), np.int64),  # of the next sample
        }
        mean, covariance = factors.filter_start()
        self.memory |= {"mean": mean[None], "covariance": covariance[None]}
        start = module.transition.memory_at_start()
        if start is not None:
            self.memory["transition"] = as_numpy(start)[None]
        if module.informed:
            self.memory["chain"] = np.zeros((0, k))  # filtered probabilities
        if module.posterior.sequential:
            self.memory["drawn"] = np.zeros((_STICKY_DRAWS, k), np.float32)

    @torch.inference_mode()
    def read(self, y: npt.NDArray[np.float32]) -> Candidates:
        rows = self._rows(y)
        if self.module.informed:
            rows = self._informed(rows)
        view = self._view(rows)
        if self.module.posterior.sequential:
            return self._sticky(view, rows)
        if self.config.corrects:
            transfer, z = candidates_of_last_row(self.module, rows, view, self._noise, self.config.temperature)
            return Candidates(as_numpy(transfer), as_numpy(z))
        return _one_candidate(moments(view.posterior[-1:], self.config.temperature).mean)

    def _rows(self, y: npt.NDArray[np.float32]) -> Rows:
        """Return the sample with the samples before it that a view of it needs."""
        m, known = self.memory, np.isfinite(y)
        observed = np.where(known, y, np.float32(0))
        age = int(m["age"][0, 0])
        mean, covariance, past = self._factors.filter_step(m["mean"][0], m["covariance"][0], y)
        m["mean"], m["covariance"] = mean[None], covariance[None]
        for name, value in (("y", observed), ("known", known), ("past", past.astype(np.float32))):
            m[name] = np.concatenate([m[name], value[None]])[-self._n_rows :]
        m["age"] = m["age"] + 1
        n = len(m["y"])
        seen = np.where(m["known"], m["y"], np.float32(np.nan))
        carried = None if m["known"].all() else m["past"]
        return Rows.from_arrays(seen, carried, np.arange(age + 1 - n, age + 1), (n,), self._device)

    def _informed(self, rows: Rows) -> Rows:
        """Advance the chain of states by one sample."""
        x = rows.past @ self.module.projection.T
        evidence = self.module.evidence(rows, self.module.design(rows, x))[-1].double().numpy(force=True)
        kept = self.memory["chain"]
        now = advance(kept[-1] if len(kept) else None, evidence, float(self.module.stay))
        self.memory["chain"] = np.concatenate([kept, now[None]])[-self._n_rows :]
        chain = torch.as_tensor(log_probabilities(self.memory["chain"]), dtype=x.dtype, device=self._device)
        return dataclasses.replace(rows, chain=chain)

    def _view(self, rows: Rows) -> RowsView:
        view = self.module.view(rows)
        if "transition" not in self.memory or len(rows) == 1:
            return view
        carried = torch.as_tensor(self.memory["transition"][0], device=self._device)
        context, carried_on = self.module.transition.next_context(view.x[-2], carried)
        assert carried_on is not None
        self.memory["transition"] = as_numpy(carried_on)[None]
        return view._replace(context=torch.cat([view.context[:-1], context[None]]))

    def _sticky(self, view: RowsView, rows: Rows) -> Candidates:
        """Return the mean of draws, each of which continues its own past."""
        noise = sticky_noise(self.module, int(rows.age[-1]))
        logits = view.posterior[-1].expand_as(noise)
        if len(rows) > 1:
            drawn = torch.as_tensor(self.memory["drawn"], device=self._device)
            logits = logits + drawn @ self.module.posterior.memory  # type: ignore[operator]
        z = torch.softmax((logits + noise) / self.config.temperature, -1)
        self.memory["drawn"] = as_numpy(z)
        return _one_candidate(z.mean(0, keepdim=True))


def _one_candidate(shares: Tensor) -> Candidates:
    """Return states [1, K] that no other sample changes."""
    return Candidates(np.ones((1, 1)), as_numpy(shares))


def sticky_noise(module: GdmModule, age: int) -> Tensor:
    """Return the noise [draws, K] of sample number `age` of a recording."""
    generator = torch.Generator(device=module.initial.device).manual_seed(age)
    return gumbel((_STICKY_DRAWS, module.n_states), generator)[:, roles(module.dynamics)]
