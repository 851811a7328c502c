"""Small GDM modules with random parameters, and data for them."""

from dataclasses import replace

import numpy as np
import torch

from gdm_core.maths.rows import Rows, make_rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.model import GDM
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.start import start_random

CPU = torch.device("cpu")
TAU = 0.8

# Axes of each parameter that index states.
_STATE_AXES: dict[str, tuple[int, ...]] = {
    "dynamics": (0,),
    "initial": (0,),
    "transition.weight": (1,),
    "transition.bias": (0,),
    "transition.recurrent_weight": (1,),
    "transition.state_weight": (0,),
    "transition.out": (1,),
    "posterior.weight": (1,),
    "posterior.bias": (0,),
    "posterior.initial": (0,),
    "posterior.out": (1,),
    "posterior.memory": (0, 1),
}


def state_axes(name: str, n_axes: int) -> tuple[int, ...]:
    """Return the axes of a parameter that index states."""
    if name == "log_noise":
        return (0,) if n_axes == 2 else ()
    return _STATE_AXES.get(name, ())


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
    lasting: bool = False,
    temperature: float = TAU,
) -> GdmModule:
    """Return a module with random parameters and noise near one."""
    module = GdmModule(n_channels, replace(config, temperature=temperature), lasting)
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


def fitted_module(model: GDM, device: str = "cpu") -> GdmModule:
    """Return a module with the parameters of a fitted model."""
    module = GdmModule(model.n_channels, model.config, model.lasting_)
    module.load_state_dict({name: torch.as_tensor(value) for name, value in model.params_.items()})
    return module.to(device).eval()
