"""The GDM on recordings that stay in files: a fit draws windows of rows, everything else goes through blocks.

A step of the fast recipe looks at some thousand rows, whatever the length of the recording, so a fit needs no more than
these at a time. Where it starts, its bound and the calibration of its forecasts come from an excerpt, which is the whole
recording up to EXCERPT_ROWS rows: up to there the fit is the one in memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.errors import ConfigError, DataError
from gdm_core.files import write_whole
from gdm_core.maths.gaps import carried_forward
from gdm_core.maths.rows import Rows, RowSource, make_rows
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import Array, Progress
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, elbo
from gdm_core.models.gdm.readout import n_candidates, posterior_states, read_out
from gdm_core.models.gdm.soft import SoftModel, as_numpy
from gdm_core.models.gdm.teachable import TeachableModel
from gdm_core.models.scaling import Scaler, scaler_for
from gdm_core.streams import BLOCK_ROWS, Span, StreamedTrials
from gdm_core.trials import TrialsLike

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
        self.source, self.scaler, self._device = source, scaler, device
        self._marks = self._last_known() if self._has_gaps() else None  # [marks, N]

    def __len__(self) -> int:
        return self.source.n_samples

    @property
    def device(self) -> torch.device:
        return self._device

    def windows(self, index: Tensor, outside: Tensor, scored: Tensor) -> Rows:
        """Rows `index` [W, L], as W sequences; those `outside` [W, L] are padding."""
        at = index.numpy(force=True)
        raw = np.empty((*at.shape, self.source.n_channels), np.float32)
        for window, rows in zip(raw, at, strict=True):
            begin, end = int(rows[0]), int(rows[-1]) + 1
            stretch = self.source.read(begin, end)
            window[:] = stretch if len(stretch) == len(rows) else stretch[rows - begin]
        y = self.scaler.apply(raw)
        past = y
        if self._marks is not None:
            past = y.copy()
            for window, rows in zip(past, at, strict=True):
                if np.isnan(window).any():
                    window[:] = self._carried(int(rows[0]), int(rows[-1]) + 1)[rows - rows[0]]
        age = np.where(outside.numpy(force=True), -1, self._age(at))
        return self._rows(y, past, age, scored, (at.shape[1],) * len(at))

    def stretch(self, begin: int, end: int) -> Rows:
        """Rows begin to end of one trial as one sequence, which need not be its start."""
        y = self.scaler.apply(self.source.read(begin, end))
        past = y if self._marks is None else self._carried(begin, end)
        return self._rows(y, past, self._age(np.arange(begin, end)), None, (end - begin,))

    def _rows(
        self, y: Array, past: Array, age: npt.NDArray[np.int64], scored: Tensor | None, lengths: tuple[int, ...]
    ) -> Rows:
        n = age.size

        def tensor(values: npt.NDArray[Any]) -> Tensor:
            return torch.as_tensor(values.reshape(n, -1), dtype=torch.float32, device=self._device)

        observed, known = tensor(y), None
        if self._marks is not None:
            known = tensor(~np.isnan(y))
            observed = observed.nan_to_num(0.0)
        return Rows(
            y=observed,
            known=known,
            past=observed if known is None else tensor(past),
            age=torch.as_tensor(age.reshape(-1), device=self._device),
            scored=scored,
            n_scored=n if scored is None else max(1, int(scored.sum())),
            lengths=lengths,
        )

    def _age(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        firsts = self.source.trial_firsts
        age: npt.NDArray[np.int64] = rows - firsts[np.searchsorted(firsts, rows, side="right") - 1]
        return age

    # ---- gaps ---------------------------------------------------------------------------------------------------
    def _has_gaps(self) -> bool:
        return any(bool(np.isnan(self.source.read(begin, end)).any()) for _, begin, end in self.source.blocks())

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
        assert self._marks is not None
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


class StreamedModel(SoftModel[GdmModule], TeachableModel):
    """The verbs for recordings that stay in files."""

    config: GDMConfig

    def fit_iter(
        self,
        trials: TrialsLike,
        labels: Any = None,
        class_names: Sequence[str] | None = None,
        *,
        finish: bool = True,
    ) -> Iterator[Progress]:
        """Fit to `trials` step by step, with `labels` and `class_names` as in `fit`.

        Closing the iterator early leaves a usable model with status CANCELLED. Without `finish`
        there is no score and no calibration in the end. Trials that stay in files are never loaded as a whole.
        """
        if not isinstance(trials, StreamedTrials):
            return super().fit_iter(trials, labels, class_names, finish=finish)
        if labels is not None:
            raise ConfigError("Labels need recordings in memory. Teach the words on a part: data.read(begin, end).")
        self._labels, self.word_evidence_, self.class_names_ = None, None, ()
        return self._fit_stream(trials, finish)

    def _fit_stream(self, source: StreamedTrials, finish: bool) -> Iterator[Progress]:
        config = self.config
        self._require_streamable(config)
        if config.preset != "fast":
            raise ConfigError(f"preset={config.preset!r} {_IN_MEMORY} preset='fast'.")
        if config.n_restarts > 1:
            raise ConfigError(f"n_restarts={config.n_restarts} {_IN_MEMORY} n_restarts=1.")
        self._check_lengths(source)
        self._check_trials(source)
        self.scaler_ = scaler = scaler_for(None if self._warm_from is None else self._warm_from.scaler_, source)
        ys = [scaler.apply(part) for part in source.excerpt(EXCERPT_ROWS)]

        def steps() -> Iterator[Progress]:
            device = self._device
            small = source.n_samples <= config.batch_size
            windows = None if small else StreamRows(source, scaler, device)
            return self._fit_once(make_rows(ys, device), config, 0, windows)

        def score() -> float:
            return sum(self._bound(y) - scaler.log_jacobian(y) for y in ys) / sum(len(y) for y in ys)

        yield from self._run(on_one_thread(steps()), ys, score if finish else None)

    def _require_streamable(self, config: GDMConfig) -> None:
        """Refuse what looks at whole trials."""
        if config.transition != "linear":
            raise ConfigError(f"transition={config.transition!r} {_IN_MEMORY} transition='linear'.")
        if config.reads not in _POSTERIORS:
            raise ConfigError(f"posterior={config.reads!r} {_IN_MEMORY} posterior={', '.join(map(repr, _POSTERIORS))}.")

    # ---- reading ------------------------------------------------------------------------------------------------
    def score(self, data: TrialsLike, y: Any = None) -> float:
        """ELBO per time step of `data` in nats, in its units: a lower bound on its log-likelihood. `y` is ignored, as in `fit`."""
        if not isinstance(data, StreamedTrials):
            return super().score(data, y)
        rows = self._stream_rows(data)
        total = sum(self._span_bound(rows, span) for span in data)
        for _, begin, end in data.blocks():
            total -= self._scaler.log_jacobian(data.read(begin, end))
        return total / data.n_samples

    def predict_blocks(self, data: StreamedTrials) -> Iterator[StateBlock]:
        """Soft states of `data` from its first trial to its last, in stretches that fit into memory."""
        rows = self._stream_rows(data)
        for span, begin, end in data.blocks():
            head, tail = _with_halo(span, begin, end)
            part, draws = rows.stretch(head, tail), n_candidates(span.n_samples)
            yield StateBlock(span.name, begin - span.first, self._states_of(part, draws)[begin - head : end - head])

    def predict_to(self, path: str | Path, data: StreamedTrials) -> Path:
        """Write the soft states of `data` to `path`, block by block: the file is whole, or it is not there.

        path   a .npy file [T, K] for all trials one after the other; or a .parquet file with columns trial, sample, S1 to SK
        data   a recording that stays in its files
        """
        path = Path(path)
        if path.suffix not in (".npy", ".parquet"):
            raise ConfigError(f"{path.name} must end in .npy or .parquet, so that its format is known.")
        blocks = self.predict_blocks(data)
        write = _write_npy if path.suffix == ".npy" else _write_parquet
        write_whole(path, lambda file: write(file, blocks, data.n_samples, self.config.n_states))
        return path

    def _stream_rows(self, data: StreamedTrials) -> StreamRows:
        self._require_fitted()
        if data.n_channels != self.n_channels:
            raise DataError(f"The model was fitted on {self.n_channels} channels, this data has {data.n_channels}.")
        self._require_streamable(self._resolved)
        self._check_lengths(data)
        return StreamRows(data, self._scaler, self._device)

    def _states_of(self, rows: Rows, n_draws: int) -> Array:
        if self._resolved.corrects:
            return as_numpy(posterior_states(self._net, rows, self.config.temperature, n_draws))
        return as_numpy(self._posterior_mean(rows))

    def _span_bound(self, rows: StreamRows, span: Span) -> float:
        """The bound of a trial, in nats: the same numbers as in memory, drawn as they are needed."""
        k, temperature = self.config.n_states, self.config.temperature
        generator = torch.Generator().manual_seed(0)
        moved, first = torch.empty((0, k), dtype=torch.float64), span.first
        last, total = span.first + span.n_samples, 0.0
        for begin in range(span.first, last, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, last)
            head, tail = _with_halo(span, begin, end)
            part = rows.stretch(head, tail)
            if self._resolved.corrects:
                fresh = torch.rand((tail - first - len(moved), k), generator=generator, dtype=torch.float64)
                moved, first = torch.cat([moved, fresh])[head - first :], head
                draws = n_candidates(span.n_samples)
                evidence = read_out(self._net, part, temperature, draws, moved, states=False).log_evidence
                total += float(evidence[begin - head : end - head].double().sum())
            else:
                total += elbo(self._net, part.piece(0, end - head), temperature, skip=begin - head)
        return total

    # ---- what the GDM brings ------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def _resolved(self) -> GDMConfig:
        """The configuration with the posterior that is in use."""

    @property
    @abstractmethod
    def _device(self) -> torch.device:
        """Where tensors lie."""

    @abstractmethod
    def _fit_once(
        self, rows: Rows, config: GDMConfig, restart: int, windows: RowSource | None = None
    ) -> Iterator[Progress]:
        """Start from `rows`, and climb on them or on `windows` of what they are an excerpt of."""

    @abstractmethod
    def _posterior_mean(self, rows: Rows) -> Tensor:
        """[R, K] mean of q(z)."""


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
