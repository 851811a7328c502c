"""Gumbel Dynamical Models whose every parameter speaks, and small data for them."""

from __future__ import annotations

import numpy as np
import torch

from gdm_core.maths.rows import Rows, make_rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.model import GDM
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.start import start_random

CPU = torch.device("cpu")

# Axes of each parameter that count states.
STATE_AXES = {
    "dynamics": (0,),
    "word_logits": (0,),
    "initial": (0,),
    "transition.weight": (1,),
    "transition.bias": (0,),
    "transition.recurrent_weight": (1,),
    "transition.state_weight": (0,),
    "transition.out": (1,),
    "posterior.weight": (1,),
    "posterior.bias": (0,),
    "posterior.out": (1,),
    "posterior.memory": (0, 1),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_rows(
    *lengths: int, n_channels: int = 3, missing: float = 0.0, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Rows:
    rng = np.random.default_rng(seed)
    ys = [0.3 * rng.normal(size=(n, n_channels)).cumsum(0) for n in lengths]
    for y in ys:
        y[rng.random(y.shape) < missing] = np.nan
    return make_rows(ys, CPU, dtype)


def random_module(
    config: GDMConfig,
    n_channels: int = 3,
    seed: int = 0,
    scale: float = 0.5,
    dtype: torch.dtype = torch.float64,
    n_words: int = 0,
) -> GdmModule:
    """Random numbers in every parameter, noise of about one, stickiness as configured or about 0.6."""
    module = GdmModule(n_channels, config, n_words)
    start_random(module, seed)
    g = generator(seed + 1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim == 0:
                parameter.fill_(0.4)
            elif not name.startswith("transition.gru"):
                parameter.copy_(scale * torch.randn(parameter.shape, generator=g))
        for name, buffer in module.named_buffers():
            if name.endswith("move_scale"):
                buffer.copy_(0.5 + torch.rand(buffer.shape, generator=g))
            elif name == "first_log_noise":
                buffer.copy_(scale * torch.randn(buffer.shape, generator=g))
    return module.to(dtype)


def relabelled_module(module: GdmModule, config: GDMConfig, order: list[int]) -> GdmModule:
    """The same model with its states renamed: new state i is the old state order[i]."""
    n_words = 0 if module.word_logits is None else module.word_logits.shape[1]
    other = GdmModule(module.projection.shape[1], config, n_words).to(module.projection.dtype)
    other.load_state_dict({name: _reordered(name, value, order) for name, value in module.state_dict().items()})
    return other


def relabelled(model: GDM, order: list[int]) -> GDM:
    """The same fitted model with its states renamed: new state i is the old state order[i]."""
    other = GDM.from_config(model.config)
    other.scaler_, other.calibration_, other.status_ = model.scaler_, model.calibration_, model.status_
    other.params_ = {
        name: _reordered(name, torch.as_tensor(value), order).numpy() for name, value in model.params_.items()
    }
    return other


def _reordered(name: str, value: torch.Tensor, order: list[int]) -> torch.Tensor:
    for axis in STATE_AXES.get(name, ()):
        value = value.index_select(axis, torch.tensor(order))
    return value
