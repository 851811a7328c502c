"""The GDM on recordings that stay in files: a fit draws windows of rows, everything else goes through blocks.

A step of the fast recipe looks at some thousand rows, whatever the length of the recording, so a fit needs no more than
these at a time. Where it starts, its bound and the calibration of its forecasts come from an excerpt, which is the whole
recording up to EXCERPT_ROWS rows: up to there the fit is the one in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.errors import ConfigError
from gdm_core.files import write_whole
from gdm_core.maths.gaps import carried_forward
from gdm_core.maths.rows import Rows
from gdm_core.models.base import Array
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, elbo
from gdm_core.models.gdm.readout import n_candidates, read_out, soft_states
from gdm_core.models.gdm.soft import as_numpy
from gdm_core.models.scaling import Scaler
from gdm_core.streams import BLOCK_ROWS, Span, StreamedTrials

EXCERPT_ROWS = 200_000
_HALO = 64  # rows on either side of a block; what lies beyond no longer reaches its inside (readout.py)
_GAP_MARK = 1024  # rows between two places at which the last known value of each channel is kept
_POSTERIORS = ("window", "window_linear", "linear")
_IN_MEMORY = "needs whole trials in memory. Recordings that stay in their files take"


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
