"""The GDM on recordings that stay in files: a fit draws windows of rows, everything else goes through blocks.

A step of the fast recipe looks at some thousand rows, whatever the length of the recording, so a fit needs no more than
these at a time. Where it starts, its bound and the calibration of its forecasts come from an excerpt, which is the whole
recording up to EXCERPT_ROWS rows: up to there the fit is the one in memory.

One fit may also go over several parts of the data, each held by a process of its own: gradients are summed at every step.
A part draws windows of its own rows and answers a step with three things that add up: the sum of the objective, its
gradient, and how many rows that was. Adam takes the step where the fit was asked for. The sum is taken in the order of
the parts in double precision, so a fit is the same to the bit wherever its parts are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.errors import ConfigError, DataError
from gdm_core.files import write_whole
from gdm_core.maths.gaps import carried_forward
from gdm_core.maths.rows import Rows, RowSource, as_numpy, make_rows
from gdm_core.maths.threads import one_thread, one_torch_thread
from gdm_core.models.base import Array
from gdm_core.models.gdm import fit as svi
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, elbo
from gdm_core.models.gdm.readout import n_candidates, read_out, soft_states
from gdm_core.models.scaling import Scaler
from gdm_core.streams import BLOCK_ROWS, Span, StreamedTrials

EXCERPT_ROWS = 200_000
_HALO = 64  # rows on either side of a block; what lies beyond no longer reaches its inside (readout.py)
_GAP_MARK = 1024  # rows between two places at which the last known value of each channel is kept
_POSTERIORS = ("window", "window_linear", "linear")
_IN_MEMORY = "needs whole trials in memory. Recordings that stay in their files take"
# Of a fit over several processes.
_ELBO_SHARE = 2 / 3  # of the steps climb the ELBO, the rest the importance-weighted objective
_IMPORTANCE_BATCH_SHARE = 4  # the weighted phase sees this many times fewer rows a step
_LEAST_BATCH = 1024
_EXCERPT_STRETCHES = 100
_OWN_SEED = 1_000_003


@dataclass(frozen=True)
class StateBlock:
    """Soft states of a stretch of a trial.

    trial    its name
    begin    number of the first sample in the trial
    states   [n, K]
    """

    trial: str
    begin: int
    states: Array


class StreamRows:
    """Rows of a stream in a model's units, as `Rows` would hold them."""

    def __init__(self, source: StreamedTrials, scaler: Scaler, device: torch.device) -> None:
        self.source, self.scaler, self.device = source, scaler, device
        self._gaps = any(bool(np.isnan(source.read(begin, end)).any()) for _, begin, end in source.blocks())
        self._marks = self._last_known() if self._gaps else np.zeros((0, source.n_channels), np.float32)  # [marks, N]

    def __len__(self) -> int:
        return self.source.n_samples

    def windows(self, index: Tensor, outside: Tensor, scored: Tensor) -> Rows:
        """Rows `index` [W, L], as W sequences; those `outside` [W, L] are padding."""
        at = index.numpy(force=True)
        raw = np.empty((*at.shape, self.source.n_channels), np.float32)
        for window, rows in zip(raw, at, strict=True):
            begin, end = int(rows[0]), int(rows[-1]) + 1
            stretch = self.source.read(begin, end)
            window[:] = stretch if len(stretch) == len(rows) else stretch[rows - begin]
        y = self.scaler.apply(raw)
        past = y.copy() if self._gaps else None
        if past is not None:
            for window, rows in zip(past, at, strict=True):
                if np.isnan(window).any():
                    window[:] = self._carried(int(rows[0]), int(rows[-1]) + 1)[rows - rows[0]]
        age = np.where(outside.numpy(force=True), -1, self._age(at))
        rows = Rows.of(y, past, age, (at.shape[1],) * len(at), self.device)
        return replace(rows, scored=scored, n_scored=max(1, int(scored.sum())))

    def stretch(self, begin: int, end: int) -> Rows:
        """Rows begin to end of one trial as one sequence, which need not be its start."""
        y = self.scaler.apply(self.source.read(begin, end))
        past = self._carried(begin, end) if self._gaps else None
        return Rows.of(y, past, self._age(np.arange(begin, end)), (end - begin,), self.device)

    def _age(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        firsts = self.source.trial_firsts
        age: npt.NDArray[np.int64] = rows - firsts[np.searchsorted(firsts, rows, side="right") - 1]
        return age

    # ---- gaps ---------------------------------------------------------------------------------------------------
    def _last_known(self) -> Array:
        """[marks, N] what a gap that reaches over row i * _GAP_MARK takes there; 0 where the trial had no value yet."""
        n = self.source.n_samples // _GAP_MARK + 1
        marks = np.zeros((n, self.source.n_channels), np.float32)
        before: Any = 0.0
        for span, begin, end in self.source.blocks():
            if begin == span.first:
                before = 0.0
            values = carried_forward(self.scaler.apply(self.source.read(begin, end)), before)
            at = np.arange(-(-(begin + 1) // _GAP_MARK), end // _GAP_MARK + 1)  # marks of rows begin + 1 to end
            marks[at] = values[at * _GAP_MARK - 1 - begin]
            before = values[-1]
        return marks

    def _carried(self, begin: int, end: int) -> Array:
        """[end - begin, N] observations with gaps carried forward; rows may lie in several trials."""
        parts = []
        at = begin
        while at < end:
            span = self.source.span_at(at)
            stop = min(end, span.first + span.n_samples)
            mark = at // _GAP_MARK
            head = max(span.first, mark * _GAP_MARK)
            before: Any = 0.0 if head == span.first else self._marks[mark]
            values = carried_forward(self.scaler.apply(self.source.read(head, stop)), before)
            parts.append(values[at - head :].astype(np.float32))
            at = stop
        return np.concatenate(parts)


def require_streamable(config: GDMConfig) -> None:
    """Refuse what looks at whole trials."""
    if config.transition != "linear":
        raise ConfigError(f"transition={config.transition!r} {_IN_MEMORY} transition='linear'.")
    if config.reads not in _POSTERIORS:
        raise ConfigError(f"posterior={config.reads!r} {_IN_MEMORY} posterior={', '.join(map(repr, _POSTERIORS))}.")


def require_fit_from_files(config: GDMConfig) -> None:
    """Refuse what a fit to files cannot do."""
    require_streamable(config)
    if config.preset != "fast":
        raise ConfigError(f"preset={config.preset!r} {_IN_MEMORY} preset='fast'.")
    if config.n_restarts > 1:
        raise ConfigError(f"n_restarts={config.n_restarts} {_IN_MEMORY} n_restarts=1.")


def excerpt(source: StreamedTrials, scaler: Scaler) -> list[Array]:
    """What a fit starts from, in standardised units."""
    return [scaler.apply(part) for part in source.excerpt(EXCERPT_ROWS)]


class StreamReader:
    """What a fitted GDM says of a recording that stays in its files.

    module, scaler   of the fit
    config           with the posterior that is in use
    """

    def __init__(self, module: GdmModule, scaler: Scaler, config: GDMConfig, source: StreamedTrials) -> None:
        require_streamable(config)
        self.module, self.scaler, self.config, self.source = module, scaler, config, source

    @cached_property
    def _rows(self) -> StreamRows:
        return StreamRows(self.source, self.scaler, self.module.projection.device)  # which looks for gaps in all of it

    def states(self) -> Iterator[StateBlock]:
        """Soft states from the first trial to the last, in stretches that fit into memory."""
        for span, begin, end in self.source.blocks():
            head, tail = _with_halo(span, begin, end)
            states = soft_states(self.module, self._rows.stretch(head, tail), self.config, n_candidates(span.n_samples))
            yield StateBlock(span.name, begin - span.first, as_numpy(states)[begin - head : end - head])

    def write_states(self, path: Path) -> None:
        """Write the states to a .npy or .parquet file, which is whole or not there."""
        if path.suffix not in (".npy", ".parquet"):
            raise ConfigError(f"{path.name} must end in .npy or .parquet, so that its format is known.")
        write = _write_npy if path.suffix == ".npy" else _write_parquet
        write_whole(path, lambda file: write(file, self.states(), self.source.n_samples, self.config.n_states))

    def score(self) -> float:
        """The bound per time step in nats, in the user's units."""
        total = sum(self._bound(span) for span in self.source)
        for _, begin, end in self.source.blocks():
            total -= self.scaler.log_jacobian(self.source.read(begin, end))
        return total / self.source.n_samples

    def _bound(self, span: Span) -> float:
        """The bound of a trial, in nats: the same numbers as in memory, drawn as they are needed."""
        k, temperature = self.config.n_states, self.config.temperature
        generator = torch.Generator().manual_seed(0)
        moved, first = torch.empty((0, k), dtype=torch.float64), span.first
        last, total = span.first + span.n_samples, 0.0
        for begin in range(span.first, last, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, last)
            head, tail = _with_halo(span, begin, end)
            part = self._rows.stretch(head, tail)
            if self.config.corrects:
                fresh = torch.rand((tail - first - len(moved), k), generator=generator, dtype=torch.float64)
                moved, first = torch.cat([moved, fresh])[head - first :], head
                draws = n_candidates(span.n_samples)
                bounds = read_out(self.module, part, temperature, draws, moved, states=False).log_bound
                total += float(bounds[begin - head : end - head].double().sum())
            else:
                total += elbo(self.module, part.piece(0, end - head), temperature, skip=begin - head)
        return total


def _with_halo(span: Span, begin: int, end: int) -> tuple[int, int]:
    return max(span.first, begin - _HALO), min(span.first + span.n_samples, end + _HALO)


def _write_npy(file: BinaryIO, blocks: Iterator[StateBlock], n_samples: int, n_states: int) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, header | {"shape": (n_samples, n_states)})
    for block in blocks:
        file.write(np.ascontiguousarray(block.states, np.float32).tobytes())


def _write_parquet(file: BinaryIO, blocks: Iterator[StateBlock], n_samples: int, n_states: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"S{i + 1}" for i in range(n_states)]
    schema = pa.schema([("trial", pa.string()), ("sample", pa.int64()), *((name, pa.float32()) for name in names)])
    with pq.ParquetWriter(file, schema) as writer:
        for block in blocks:
            n = len(block.states)
            columns = [pa.array(column) for column in np.ascontiguousarray(block.states.T)]
            trial, sample = pa.array([block.trial] * n), pa.array(np.arange(block.begin, block.begin + n))
            writer.write_table(pa.Table.from_arrays([trial, sample, *columns], schema=schema))


# ---- over several processes --------------------------------------------------------------------------------------
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
            rows = StreamRows(self.source, scaler, cpu)
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
        require_streamable(config)
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
        most = EXCERPT_ROWS
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
