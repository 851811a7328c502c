"""One fit over several parts of the data, each held by a process of its own: gradients are summed at every step.

A part draws windows of its own rows and answers a step with three things that add up: the sum of the objective, its
gradient, and how many rows that was. Adam takes the step where the fit was asked for. The sum is taken in the order of
the parts in double precision, so a fit is the same to the bit wherever its parts are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.rows import RowSource, make_rows
from gdm_core.maths.threads import one_thread, one_torch_thread
from gdm_core.models.base import Array
from gdm_core.models.gdm import fit as svi
from gdm_core.models.gdm import streaming
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.scaling import Scaler
from gdm_core.streams import Span, StreamedTrials

_ELBO_SHARE = 2 / 3  # of the steps climb the ELBO, the rest the importance-weighted objective
_IMPORTANCE_BATCH_SHARE = 4  # the weighted phase sees this many times fewer rows a step
_LEAST_BATCH = 1024
_EXCERPT_STRETCHES = 100
_OWN_SEED = 1_000_003


class DataPart:
    """The rows that one process holds. `opened` opens them there."""

    def __init__(self, opened: Callable[[], StreamedTrials], number: int) -> None:
        self.source, self.number = opened(), number

    def facts(self) -> tuple[int, tuple[str, ...], Span]:
        """What the fit as a whole has to know: rows, channels and the shortest trial."""
        return self.source.n_samples, self.source.channels, min(self.source, key=lambda span: span.n_samples)

    def channel_sums(self, center: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
        """As `StreamedTrials.channel_sums`."""
        return self.source.channel_sums(center)

    def excerpt(self, n_rows: int, n_parts: int) -> list[Array]:
        """As `StreamedTrials.excerpt`."""
        return self.source.excerpt(n_rows, n_parts)

    def begin(self, config: GDMConfig, scaler: Scaler, state: dict[str, Array], n_parts: int) -> None:
        """Make ready for steps."""
        module, cpu = GdmModule(self.source.n_channels, config), torch.device("cpu")
        module.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})
        size = max(_LEAST_BATCH, config.batch_size // n_parts)
        if self.source.n_samples <= size:
            ys = [self.source.read(span.first, span.first + span.n_samples) for span in self.source]
            rows: RowSource = make_rows([scaler.apply(y) for y in ys], cpu)
        else:
            rows = streaming.StreamRows(self.source, scaler, cpu)
        seed = config.seed + _OWN_SEED * self.number
        generator = torch.Generator().manual_seed(seed)
        sizes = {False: size, True: max(_LEAST_BATCH, size // _IMPORTANCE_BATCH_SHARE)}
        drawn = {weighted: svi.batches(rows, config, size, generator) for weighted, size in sizes.items()}
        self.climber = svi.FusedClimber(module, config, drawn, seed)

    def contribute(self, flat: Array, temperature: float, weighted: bool) -> tuple[float, npt.NDArray[np.float64], int]:
        """What this part's next batch adds at the parameters `flat`: sums over its rows of the objective and of its gradient, and
        how many rows those are."""
        objective = self.climber.objective
        with one_thread(), one_torch_thread(), np.errstate(all="ignore"):  # what is not finite is reported as such
            objective.flat[:] = flat
            value = self.climber.value(temperature, weighted)
            gradient = objective.gradient * objective.trainable
        n_rows = self.climber.n_scored
        return value * n_rows, gradient.astype(np.float64) * n_rows, n_rows


class DataParts(Protocol):
    """All parts, wherever they are."""

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of every part answers, in their order."""


class PartsInProcess:
    """Parts that this process holds, one after the other."""

    def __init__(self, opened: list[Callable[[], StreamedTrials]]) -> None:
        self.parts = [DataPart(one, number) for number, one in enumerate(opened)]

    def each(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(part, method)(*arguments) for part in self.parts]


class DistributedFit:
    """A fit to all parts together: how much data they hold, an excerpt of it, and the steps."""

    def __init__(self, parts: DataParts, config: GDMConfig, warm: bool) -> None:
        streaming.require_streamable(config)
        if config.preset != "fast" or config.covariance != "diagonal" or config.n_restarts > 1 or warm:
            raise ConfigError(
                "A fit over shares is a cold start with preset='fast', covariance='diagonal' and n_restarts=1; this one is not."
            )
        self.parts, self.config = parts, config
        sizes, channels, self.shortest = zip(*parts.each("facts"), strict=True)
        self.channels: tuple[str, ...] = channels[0]
        if odd := next((one for one in channels if one != self.channels), None):
            raise DataError(
                f"Shares have different channels: {', '.join(self.channels[:8])}, and {', '.join(odd[:8])}."
            )
        self.n_channels, self.n_samples, self.n_parts = len(self.channels), sum(sizes), len(sizes)

    def __iter__(self) -> Iterator[Span]:
        """The shortest trial of each part."""
        return iter(self.shortest)

    def channel_sums(self, center: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
        """As `StreamedTrials.channel_sums`, over all parts."""
        total: npt.NDArray[np.float64] = sum(self.parts.each("channel_sums", center))
        return total

    def excerpt(self, scaler: Scaler) -> list[Array]:
        """What a fit starts from, in standardised units."""
        most = streaming.EXCERPT_ROWS
        n_rows = self.n_samples if self.n_samples <= most else -(-most // self.n_parts)
        of_parts = self.parts.each("excerpt", n_rows, -(-_EXCERPT_STRETCHES // self.n_parts))
        return [scaler.apply(stretch) for stretches in of_parts for stretch in stretches]

    def steps(self, module: GdmModule, scaler: Scaler, state: dict[str, Array]) -> Iterator[svi.Step]:
        """The fast recipe with Adam from the parameters `state` of `module`, each step a sum over the parts."""
        self.parts.each("begin", self.config, scaler, state, self.n_parts)
        return svi.climb(_SummedClimber(module, self.parts), self.config, self.config.steps, _ELBO_SHARE)


class _SummedClimber:
    """Objective and gradient as sums over the parts."""

    def __init__(self, module: GdmModule, parts: DataParts) -> None:
        self.module, self.parts = module, parts
        self.flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        self.optimiser = torch.optim.Adam([self.flat], betas=(0.9, 0.99))

    def value(self, temperature: float, weighted: bool) -> float:
        found = self.parts.each("contribute", self.flat.numpy().copy(), temperature, weighted)
        values, gradients, rows = zip(*found, strict=True)
        self.flat.grad = torch.as_tensor(-sum(gradients) / sum(rows), dtype=self.flat.dtype)
        return float(sum(values) / sum(rows))

    def ascend(self, rate: float, done: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()

    @torch.no_grad()
    def write_back(self) -> None:
        torch.nn.utils.vector_to_parameters(self.flat.clone(), self.module.parameters())
