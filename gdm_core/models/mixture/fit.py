"""Fits of the 3-level mixture: it starts as the equivalent of a fitted 2-level model, then climbs its own ELBO.

Appendix B of the paper gives the equivalent. From there the emission, both noises and q(z) move freely while the
dynamics and transitions of the states move slowly: wherever q(z) has to be a broad Gumbel-Softmax, the ELBO takes its
breadth for noise of x, and given time it would pull the states together to save on it (docs/recurrent.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from gdm_core.maths.relaxed import gumbel, log_sample
from gdm_core.maths.rows import Rows, WindowSampler
from gdm_core.maths.threads import one_torch_thread
from gdm_core.models.gdm.fit import Step, one_cycle
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.mixture.module import MixtureModule, determined_path, mixture_elbo

PEAK_RATE = 0.01
_WINDOW = 256
_FIRST_STEP = 2.0  # times the noise that one observation leaves in x: where the noise of x starts
_SLOW = 0.03  # of the rate of everything else


@torch.no_grad()
def start_from_two_levels(module: MixtureModule, two: GdmModule, rows: Rows, temperature: float) -> None:
    """A_k = F S_k, b_k = F b_k, mu_k = F mu_k and C = F^+, for the F and S of a fitted 2-level model."""
    projection, dynamics = two.projection.double(), two.dynamics.double()  # [D, N], [K, D + 2, N]
    guess = rows.past @ projection.T  # [R, D]
    # F^+ as the data has it: the regression of y on F y, which a noisy F leaves unmoved.
    # By its normal equations: torch's lstsq differs in the last bits from call to call when the machine is busy.
    gram = guess.T @ guess
    gram.diagonal().mul_(1 + 1e-12)
    module.emission.copy_(torch.linalg.solve(gram, guess.T @ rows.past).T)
    module.offset.zero_()
    module.dynamics.copy_(dynamics @ projection.T)
    module.initial.copy_(two.initial.double())
    for name, value in two.transition.state_dict().items():
        getattr(module.transition, name).copy_(value.double())
    for name, value in two.posterior.state_dict().items():
        getattr(module.posterior, name).copy_(value.double())
    residual = rows.y - module.projected(rows) @ module.emission.T
    known = torch.ones_like(rows.y) if rows.known is None else rows.known
    noise = (residual.square() * known).sum(0) / known.sum(0).clamp_min(1)
    freedom = 1 - module.n_latent / len(module.log_noise)  # x was free to follow some of the noise
    module.log_noise.copy_((noise / max(freedom, 0.1) + 1e-6).sqrt().log())
    if module.deterministic:
        # Nothing corrects the path on its way, so what one draw of it misses is what R has to cover.
        noise = gumbel((len(rows), module.n_states), torch.Generator().manual_seed(0), torch.float64)
        z = log_sample(module.posterior_logits(rows), temperature, noise).exp()
        path = determined_path(module.drive(z[None], rows))
        missed = (rows.y - path @ module.emission.T).square() * known
        module.log_noise.copy_((missed.sum(0) / known.sum(0).clamp_min(1) + 1e-6).sqrt().log())
    else:
        precision = (module.emission.T * module.noise_precision()) @ module.emission
        left = torch.linalg.inv(precision).diagonal().sqrt()  # [D]
        module.log_step.copy_((_FIRST_STEP * left).log().expand_as(module.log_step))


def mixture_steps(
    module: MixtureModule, rows: Rows, temperature: float, total: int, n_samples: int, batch_size: int, seed: int
) -> Iterator[Step]:
    """Climb the ELBO; a step that is not finite is reported and not applied."""
    generator = torch.Generator().manual_seed(seed)
    slow = [module.dynamics, *module.transition.parameters()]
    held = {id(parameter) for parameter in slow}
    free = [parameter for parameter in module.parameters() if id(parameter) not in held]
    groups = [{"params": free, "share": 1.0}, {"params": slow, "share": _SLOW}]
    optimiser = torch.optim.Adam(groups, lr=PEAK_RATE, betas=(0.9, 0.99))
    sampler = None
    if len(rows) > batch_size:
        sampler = WindowSampler(rows, _WINDOW, max(1, batch_size // (_WINDOW + 1)), 1, generator)
    for index in range(total):
        batch = rows if sampler is None else sampler.draw()
        n_rows = max(1, int((batch.age >= 0).sum()))
        noise = gumbel((n_samples, len(batch), module.n_states), generator, torch.float64)
        with one_torch_thread():
            value = mixture_elbo(module, batch, noise, temperature, generator, exact=False) / n_rows
            optimiser.zero_grad(set_to_none=True)
            (-value).backward()
            seen = value.item()
            finite = math.isfinite(seen)
            if finite:
                for group in optimiser.param_groups:
                    group["lr"] = group["share"] * one_cycle(index, total, PEAK_RATE)
                optimiser.step()
        yield Step(index + 1, total, seen, seen, finite)
        if not finite:
            return
