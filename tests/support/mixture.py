"""Small random modules of the 3-level mixture, and data for them."""

from __future__ import annotations

import numpy as np
import torch

from gdm_core.maths.rows import Rows, make_rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.mixture.module import MixtureModule

CPU = torch.device("cpu")


def generator_of(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_rows(*lengths: int, n_channels: int = 3, gaps: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    ys = [rng.normal(size=(n, n_channels)).cumsum(0) * 0.3 for n in lengths]
    if gaps:
        ys[0][1, 0] = ys[0][2] = np.nan
    return make_rows(ys, CPU, torch.float64)


def some_module(
    k: int = 3, d: int = 2, n: int = 3, deterministic: bool = False, gamma: float = 0.3, recurrent: bool = True
) -> MixtureModule:
    config = GDMConfig(n_states=k, n_latent=d, stickiness=gamma, posterior="window", n_hidden=4)
    module = MixtureModule(n, config, deterministic)
    generator = generator_of(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        module.dynamics[:, :d] += 0.5 * torch.eye(d, dtype=torch.float64)
        if not recurrent:
            module.transition.weight.zero_()
    return module


def some_states(*shape: int) -> torch.Tensor:
    return torch.softmax(2 * torch.randn(shape, generator=generator_of(5), dtype=torch.float64), -1)
