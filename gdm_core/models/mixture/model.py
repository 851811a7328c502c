"""Estimator of the 3-level mixture.

A fit starts as the equivalent of a fitted 2-level model (Appendix B of the paper), then maximises its own ELBO. Dynamics and
transitions of the states learn slowly: where q(z) is broad, the ELBO counts its breadth as noise of x, and would in time
draw the states together to reduce it (docs/method.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from gdm_core.arrays import Array, Float, Ints
from gdm_core.errors import FitError
from gdm_core.maths.relaxed import gumbel
from gdm_core.maths.rows import Rows, as_numpy, make_rows
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.gdm.config import GDMConfig, SoftConfig
from gdm_core.models.gdm.fit import JUDGED_FROM, Step, is_flat, learning_rate
from gdm_core.models.gdm.model import SoftModel, first_fit
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.posteriors import PreviousPosterior
from gdm_core.models.gdm.start import start_random
from gdm_core.models.mixture.module import MixtureModule, bound, determined_path, mixture_elbo
from gdm_core.models.mixture.readout import mixture_paths, mixture_sample, settled_belief, smoothed, weighed_states
from gdm_core.models.parameters import one_of, parameter, parameters_of, whole
from gdm_core.models.progress import Progress
from gdm_core.models.registry import ADJUSTABLE

Dynamics = Literal["noisy", "deterministic"]
MixturePosterior = Literal["window", "linear", "previous"]

_CPU = torch.device("cpu")
_START_STEPS = 300  # of the 2-level fit
_OWN_STEPS = 80
_DETERMINISTIC_STEPS = 150
PEAK_RATE = 0.01
_WINDOW = 256
_FIRST_STEP = 2.0  # initial noise of x, relative to the error of x given one observation
_RISE = 0.2  # share of the steps in which the rate rises
_JUDGED_ROWS, _JUDGED_DRAWS = 500, 4
_SLOW = 0.03  # relative rate of dynamics and transitions


@dataclass(frozen=True)
class GDMMixtureConfig(SoftConfig):
    """Every parameter of a `GDMMixture`."""

    dynamics: Dynamics = parameter(
        "noisy",
        "'noisy' adds noise to x, different for each state; with 'deterministic', z determines x (paper, equation 2.2).",
        one_of(Dynamics),
    )
    posterior: MixturePosterior = parameter(
        "window",
        "Input of q(z): 'window' (position and step), 'linear' (position), or 'previous' (previous position and state, as "
        "in the paper's Appendix C; for 'noisy' dynamics).",
        one_of(MixturePosterior),
    )
    n_steps: int | None = parameter(
        None, "Training steps after the 2-level fit; None is the default for `dynamics`.", whole()
    )
    n_samples: int = parameter(1, "Posterior samples per training step.", whole())
    batch_size: int = parameter(8192, "Samples per training step.", whole(512))

    @property
    def two_levels(self) -> GDMConfig:
        """Return the 2-level model from which a fit starts."""
        shared: dict[str, Any] = {one.name: getattr(self, one.name) for one in dataclasses.fields(SoftConfig)}
        posterior = "window" if self.posterior == "previous" else self.posterior
        own = {"lasting": False, "stickiness_scale": 1.0, "n_steps": _START_STEPS, "device": "cpu"}
        return GDMConfig(**shared | own, posterior=posterior)

    @property
    def own_steps(self) -> int:
        if self.n_steps is not None:
            return self.n_steps
        return _DETERMINISTIC_STEPS if self.dynamics == "deterministic" else _OWN_STEPS


@torch.no_grad()
def start_from_two_levels(module: MixtureModule, two: GdmModule, rows: Rows) -> None:
    """Start from a fitted 2-level model: A_k = F S_k, b_k = F b_k, mu_k = F mu_k and C = F^+."""
    projection, dynamics = two.projection.double(), two.dynamics.double()  # [D, N], [K, D + 2, N]
    guess = rows.past @ projection.T  # [R, D]
    # F^+ by regression of y on F y, with normal equations: the last bits of torch's lstsq vary on a busy machine.
    gram = guess.T @ guess
    gram.diagonal().mul_(1 + 1e-12)
    module.emission.copy_(torch.linalg.solve(gram, guess.T @ rows.past).T)
    module.offset.zero_()
    module.dynamics.copy_(dynamics @ projection.T)
    module.initial.copy_(two.initial.double())
    for name, value in two.transition.state_dict().items():
        getattr(module.transition, name).copy_(value.double())
    if isinstance(module.posterior, PreviousPosterior):
        module.posterior.start_from(module.transition, module.initial)
    else:
        module.posterior.load_state_dict(two.posterior.state_dict())
    residual = rows.y - module.projected(rows) @ module.emission.T
    known = torch.ones_like(rows.y) if rows.known is None else rows.known
    noise = (residual.square() * known).sum(0) / known.sum(0).clamp_min(1)
    freedom = 1 - module.n_latent / len(module.log_noise)  # x follows some of the noise
    module.log_noise.copy_((noise / max(freedom, 0.1) + 1e-6).sqrt().log())
    if module.deterministic:
        # Observations do not correct the path, so R covers the errors of one draw.
        noise = gumbel((len(rows), module.n_states), torch.Generator().manual_seed(0), torch.float64)
        z, _ = module.sample_posterior(rows, noise[None])
        path = determined_path(module.drive(z, rows))
        missed = (rows.y - path @ module.emission.T).square() * known
        module.log_noise.copy_((missed.sum(0) / known.sum(0).clamp_min(1) + 1e-6).sqrt().log())
    else:
        precision = (module.emission.T * module.noise_precision()) @ module.emission
        left = torch.linalg.inv(precision).diagonal().sqrt()  # [D]
        module.log_step.copy_((_FIRST_STEP * left).log().expand_as(module.log_step))


def mixture_steps(module: MixtureModule, rows: Rows, c: GDMMixtureConfig) -> Iterator[Step]:
    """Maximise the ELBO; a step that is not finite is reported and not applied."""
    generator, total = torch.Generator().manual_seed(c.seed), c.own_steps
    slow = [module.dynamics, *module.transition.parameters()]
    slow_ids = {id(parameter) for parameter in slow}
    fast = [parameter for parameter in module.parameters() if id(parameter) not in slow_ids]
    groups = [{"params": fast, "share": 1.0}, {"params": slow, "share": _SLOW}]
    optimiser = torch.optim.Adam(groups, lr=PEAK_RATE, betas=(0.9, 0.99))
    excerpt, n_windows = rows.excerpt(_JUDGED_ROWS), max(1, c.batch_size // (_WINDOW + 1))
    bounds: list[float] = []
    for index in range(total):
        batch = rows if len(rows) <= c.batch_size else rows.draw(_WINDOW, n_windows, 1, generator)
        n_rows = max(1, int((batch.age >= 0).sum()))
        noise = gumbel((c.n_samples, len(batch), module.n_states), generator, torch.float64)
        value = mixture_elbo(module, batch, noise, generator, exact=False) / n_rows
        optimiser.zero_grad(set_to_none=True)
        (-value).backward()
        seen = value.item()
        if math.isfinite(seen):
            for group in optimiser.param_groups:
                group["lr"] = group["share"] * learning_rate(index, _RISE * total, _RISE * total, total, PEAK_RATE)
            optimiser.step()
            rows.raise_noise(module.log_noise)
        if index + 1 in (round(JUDGED_FROM * total), total):
            bounds.append(_judge(module, excerpt))
        yield Step(index + 1, total, seen, seen, is_flat(bounds, 2 * excerpt.y.shape[1]))
        if not math.isfinite(seen):
            return


@torch.no_grad()
def _judge(module: MixtureModule, rows: Rows) -> float:
    """Return the bound per sample, always with the same random numbers."""
    generator = torch.Generator().manual_seed(0)
    noise = gumbel((_JUDGED_DRAWS, len(rows), module.n_states), generator, torch.float64)
    return float(mixture_elbo(module, rows, noise, generator, exact=False)) / len(rows)


class GDMMixture(SoftModel[MixtureModule]):
    """3-level mixture: soft states mix linear dynamics of a latent path, observed with noise."""

    family: ClassVar[str] = "gdm_mixture"
    config_class: ClassVar[type] = GDMMixtureConfig
    adjustable = ADJUSTABLE[family]
    why_not_online = "its shares are weighed by a path that is smoothed over whole recordings. A GDM can"
    config: GDMMixtureConfig

    @parameters_of(GDMMixtureConfig)
    def __init__(self) -> None: ...

    def _new_module(self, n_channels: int) -> MixtureModule:
        config = self.config
        return MixtureModule(n_channels, config.two_levels, config.dynamics == "deterministic", config.posterior)

    def _blank(self) -> MixtureModule:
        return self._new_module(self.n_channels)

    # ---- fitting ----------------------------------------------------------------------------------------------------
    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        return on_one_thread(self._steps(ys))  # more threads would round sums differently when the machine is busy

    def _steps(self, ys: list[Array]) -> Iterator[Progress]:
        config = self.config
        rows = dataclasses.replace(make_rows(ys, _CPU, torch.float64, self._fill), noise_floor=self._noise_floor)
        module = self._new_module(rows.y.shape[1])
        total = _START_STEPS + config.own_steps
        try:
            for progress, two in first_fit(config.two_levels, ys, self.scaler_, self.repeats_):
                start_from_two_levels(module, two, rows)
                self._keep(module)
                yield Progress(progress.step, total, progress.elbo, progress.objective)
        except FitError as error:
            self._fail(str(error))
            return
        self._keep(module)
        yield from self._record_steps(module, mixture_steps(module, rows, config), done=_START_STEPS)

    def _random(self, ys: list[Array], seed: int) -> MixtureModule:
        rows = make_rows(ys, _CPU, torch.float64, self._fill)
        two, module = GdmModule(rows.y.shape[1], self.config.two_levels), self._new_module(rows.y.shape[1])
        start_random(two, seed)
        start_from_two_levels(module, two, rows)
        return module

    def _state_noise(self) -> Float | None:
        if "log_step" not in self.params_:
            return None
        variance = np.exp(2 * self.params_["log_step"])
        return np.asarray(variance[:, :, None] * np.eye(variance.shape[1]), np.float64)

    # ---- hooks ------------------------------------------------------------------------------------------------------
    def _rows(self, y: Array) -> Rows:
        return make_rows([y], _CPU, torch.float64, self._fill)

    def _soft_states(self, y: Array) -> Array:
        return as_numpy(weighed_states(self._net, self._rows(y)))

    @torch.no_grad()
    def _smoothed_path(self, y: Array) -> torch.Tensor:
        """Return the posterior mean of x [T, D]."""
        module, rows = self._net, self._rows(y)
        if module.deterministic:
            states = weighed_states(module, rows)
            return determined_path(module.drive(states[None], rows))
        return smoothed(module, rows, settled_belief(module, rows, sweeps=2)).mean

    def _reconstruct(self, y: Array) -> Array:
        module = self._net
        return as_numpy(self._smoothed_path(y) @ module.emission.T + module.offset)

    def _latent(self, y: Array) -> Array:
        return as_numpy(self._smoothed_path(y))

    def _bound(self, y: Array) -> float:
        return bound(self._net, self._rows(y))

    def _paths(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        seen = y[: int(origins.max()) + 1]
        rows = make_rows([seen], _CPU, torch.float64, self._fill_causally)
        return as_numpy(mixture_paths(self._net, rows, origins, horizon, n_paths, seed))

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        y, z, x = mixture_sample(self._net, n_samples, seed)
        return as_numpy(y), as_numpy(z), as_numpy(x)
