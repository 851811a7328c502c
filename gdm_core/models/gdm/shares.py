"""One fit over several shares of the data, each held by a process of its own: gradients are summed at every step.

A share draws windows of its own rows and answers a step with three things that add up: the sum of the objective, its
gradient, and how many rows that was. Adam takes the step where the fit was asked for. The sum is taken in the order of
the shares in double precision, so a fit is the same to the bit wherever its shares are held.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.rows import make_rows
from gdm_core.maths.threads import on_one_thread, one_thread, one_torch_thread
from gdm_core.models.base import Array, Progress
from gdm_core.models.gdm import fit as svi
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.start import start
from gdm_core.models.gdm.streamed import EXCERPT_ROWS, StreamedModel, StreamRows
from gdm_core.models.scaling import Scaler
from gdm_core.streams import Span, StreamedTrials

ELBO_SHARE = 2 / 3  # of the steps climb the ELBO, the rest the importance-weighted objective
_IMPORTANCE_BATCH_SHARE = 4  # the weighted phase sees this many times fewer rows a step
_LEAST_BATCH = 1024
_PARTS = 100  # stretches of an excerpt
_OWN_SEED = 1_000_003


@dataclass(frozen=True)
class Contribution:
    """What a share adds to a step: sums over its rows of the objective and of its gradient."""

    value: float
    gradient: npt.NDArray[np.float64]
    n_rows: int


@dataclass(frozen=True)
class About:
    """Rows, channels and the shortest trial of a share."""

    n_samples: int
    channels: tuple[str, ...]
    shortest: Span


class Share:
    """The rows of one process. `opened` opens them there."""

    def __init__(self, opened: Callable[[], StreamedTrials], number: int) -> None:
        self.source, self.number = opened(), number

    def about(self) -> About:
        """What the fit as a whole has to know."""
        shortest = min(self.source, key=lambda span: span.n_samples)
        return About(self.source.n_samples, self.source.channels, shortest)

    def sums(self, center: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
        """[2, N] observed values and their sum; with `center` [1, N] squares of the distance from it."""
        total = np.zeros((2 if center is None else 1, self.source.n_channels))
        for _, begin, end in self.source.blocks():
            y = self.source.read(begin, end)
            if center is None:
                total += [np.isfinite(y).sum(axis=0), np.nansum(y, axis=0, dtype=np.float64)]
            else:
                total += np.nansum((y - center) ** 2, axis=0, dtype=np.float64)
        return total

    def excerpt(self, n_rows: int, n_parts: int) -> list[Array]:
        """Evenly spread stretches of about `n_rows` rows, or all."""
        return self.source.excerpt(n_rows, n_parts)

    def begin(self, config: GDMConfig, scaler: Scaler, state: dict[str, Array], n_shares: int) -> None:
        """Make ready for steps."""
        self.config = config
        self.module = GdmModule(self.source.n_channels, config)
        self.module.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})
        self.objective = fused.FusedObjective(self.module, config)
        seed = config.seed + _OWN_SEED * self.number
        self.noise, generator = fused.Noise(seed), torch.Generator().manual_seed(seed)
        size = max(_LEAST_BATCH, config.batch_size // n_shares)
        if self.source.n_samples <= size:
            ys = [self.source.read(span.first, span.first + span.n_samples) for span in self.source]
            rows: Any = make_rows([scaler.apply(y) for y in ys], torch.device("cpu"))
        else:
            rows = StreamRows(self.source, scaler, torch.device("cpu"))
        quarter = max(_LEAST_BATCH, size // _IMPORTANCE_BATCH_SHARE)
        self.batches = {
            False: svi._batches(rows, config, size, generator),
            True: svi._batches(rows, config, quarter, generator),
        }

    def contribute(self, flat: Array, temperature: float, weighted: bool) -> Contribution:
        """What this share's next batch adds at the parameters `flat`."""
        rows = self.batches[weighted]()
        n_samples = self.config.n_samples or (svi.IMPORTANCE_SAMPLES if weighted else 1)
        with one_thread(), one_torch_thread(), np.errstate(all="ignore"):  # what is not finite is reported as such
            self.objective.flat[:] = flat
            noise = self.noise.draw(self.config.n_states, n_samples, len(rows))
            value = self.objective(fused.Batch(rows, self.config.lags), noise, temperature, weighted)
            gradient = self.objective.gradient * self.objective.trainable
        return Contribution(value * rows.n_scored, gradient.astype(np.float64) * rows.n_scored, rows.n_scored)


class Shares(Protocol):
    """All shares, wherever they are."""

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of every share answers, in their order."""


class SharesHere:
    """Shares that this process holds, one after the other."""

    def __init__(self, opened: list[Callable[[], StreamedTrials]]) -> None:
        self.shares = [Share(one, number) for number, one in enumerate(opened)]

    def each(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(share, method)(*arguments) for share in self.shares]


class SharedModel(StreamedModel):
    """The verb for shares."""

    def fit_shares(self, shares: Shares, finish: bool = True) -> Iterator[Progress]:
        """Fit to all shares together, step by step; `gdm_core.engine.spread` is how to come by them.

        Closing the iterator early leaves a usable model with status CANCELLED.

        shares   of the data, wherever they are held
        finish   whether there are a score and a calibration in the end
        """
        config = self.config
        self._require_streamable(config)
        warm = self._warm_from is not None
        if config.preset != "fast" or config.covariance != "diagonal" or config.n_restarts > 1 or warm:
            raise ConfigError(
                "A fit over shares is a cold start with preset='fast', covariance='diagonal' and n_restarts=1; this one is not."
            )
        self._labels, self.word_evidence_, self.class_names_ = None, None, ()
        about = shares.each("about")
        total, channels = sum(one.n_samples for one in about), about[0].channels
        if odd := next((one.channels for one in about if one.channels != channels), None):
            raise DataError(f"Shares have different channels: {', '.join(channels[:8])}, and {', '.join(odd[:8])}.")
        self._check_lengths(cast(Any, [one.shortest for one in about]))
        self._check_trials(cast(Any, SimpleNamespace(n_channels=len(channels), n_samples=total)))
        n, added = sum(shares.each("sums"))
        self.scaler_ = scaler = Scaler.from_sums(n, added, lambda center: sum(shares.each("sums", center))[0], channels)
        wanted = total if total <= EXCERPT_ROWS else -(-EXCERPT_ROWS // len(about))
        parts = shares.each("excerpt", wanted, -(-_PARTS // len(about)))
        ys = [scaler.apply(part) for of_share in parts for part in of_share]

        def steps() -> Iterator[Progress]:
            module = GdmModule(len(channels), config)
            start(module, make_rows(ys, torch.device("cpu")), config, config.seed)
            self._keep(module)
            shares.each("begin", config, scaler, self.params_, len(about))
            return self._climbed(module, _steps(module, shares, config, config.steps), config.steps)

        def score() -> float:
            return sum(self._bound(y) - scaler.log_jacobian(y) for y in ys) / sum(len(y) for y in ys)

        yield from self._run(on_one_thread(steps()), ys, score if finish else None)

    @abstractmethod
    def _climbed(self, module: GdmModule, steps: Iterator[svi.Step], total: int) -> Iterator[Progress]:
        """Follow the steps of a recipe, keep what is good, and set the status."""


def _steps(module: GdmModule, shares: Shares, config: GDMConfig, total: int) -> Iterator[svi.Step]:
    """The fast recipe with Adam, each step a sum over shares."""
    climb = round(ELBO_SHARE * total) if config.corrects else total
    flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    optimiser = torch.optim.Adam([flat], betas=(0.9, 0.99))
    for index in range(total):
        temperature = svi._temperature(config, index, total)
        found: list[Contribution] = shares.each("contribute", flat.numpy().copy(), temperature, index >= climb)
        n_rows = sum(one.n_rows for one in found)
        value = sum(one.value for one in found) / n_rows
        finite = math.isfinite(value)
        if finite:
            flat.grad = torch.as_tensor(-sum(one.gradient for one in found) / n_rows, dtype=flat.dtype)
            for group in optimiser.param_groups:
                group["lr"] = svi.one_cycle(index, total, svi.PEAK_RATE)
            optimiser.step()
        if index + 1 == total or (index + 1) % svi.REPORT_EVERY == 0:
            with torch.no_grad():
                torch.nn.utils.vector_to_parameters(flat.clone(), module.parameters())
        yield svi.Step(index + 1, total, value, value, finite)
        if not finite:
            return
