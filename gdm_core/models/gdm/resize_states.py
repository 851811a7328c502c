"""Starting a fit from another one whose number of states differs: busy states split, idle ones merge into the rest."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdm_core.maths.moments import moments
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule

# Axes of each parameter that count states.
_STATE_AXES: dict[str, tuple[int, ...]] = {
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
_LOGIT_BIASES = ("initial", "transition.bias", "posterior.bias")


@torch.no_grad()
def resize_states(previous: GdmModule, module: GdmModule, rows: Rows, config: GDMConfig, seed: int) -> None:
    """Copy `previous` into `module`, splitting or merging states until the numbers agree."""
    old, new = previous.n_states, module.n_states
    parents = _parents(_usage(previous, rows, config.temperature), new)
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, value in module.state_dict().items():
        source = previous.state_dict().get(name)
        if name == "word_logits" and (source is None or source.shape[1] != value.shape[1]):
            state[name] = value  # other words: their map starts anew
            continue
        if source is None:  # gamma changed between fixed and learned: keep the module's own
            state[name] = _stickiness(name, previous, value)
            continue
        axes = _STATE_AXES.get(name, ())
        for axis in axes if old != new else ():
            source = source.index_select(axis, parents.to(source.device))
        if new > old and axes:
            source = _separate(source, axes[-1], parents, generator, is_bias=name in _LOGIT_BIASES)
        state[name] = source if name != "transition.fixed_stickiness" else value
    module.load_state_dict(state)


def _stickiness(name: str, previous: GdmModule, value: Tensor) -> Tensor:
    if name != "transition.stickiness_logit":
        return value
    gamma = min(max(float(previous.transition.gamma), 1e-3), 0.99)
    return torch.tensor(math.log(gamma / (1 - gamma)))


def _usage(module: GdmModule, rows: Rows, temperature: float) -> Tensor:
    """[K] average soft state over the rows."""
    posterior = module.view(rows).posterior
    return moments(posterior[:: max(1, len(posterior) // 5000)], temperature).mean.mean(0).cpu()


def _parents(usage: Tensor, new: int) -> Tensor:
    """[new] the old state each new one comes from: the most used are split first, the least used are dropped."""
    old = len(usage)
    if new <= old:
        return torch.sort(torch.topk(usage, new).indices).values
    load, copies = usage.clone(), torch.ones(old)
    extra = []
    for _ in range(new - old):
        busiest = int((load / copies).argmax())
        extra.append(busiest)
        copies[busiest] += 1
    return torch.cat([torch.arange(old), torch.tensor(extra, dtype=torch.long)])


def _separate(value: Tensor, axis: int, parents: Tensor, generator: torch.Generator, is_bias: bool) -> Tensor:
    """Push copies of one state apart a little, and let them share their parent's probability."""
    copies = torch.bincount(parents, minlength=int(parents.max()) + 1)[parents]  # [new]
    shared = (copies > 1).float()
    shape = [1] * value.ndim
    shape[axis] = -1
    scale = value.float().std() if value.numel() > 1 else torch.tensor(0.0)
    nudge = 0.05 * scale * torch.randn(value.shape, generator=generator).to(value) * shared.reshape(shape).to(value)
    if is_bias:
        nudge = nudge - copies.float().log().reshape(shape).to(value)
    return value + nudge
