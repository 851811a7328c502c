"""Shared by commands: reading recordings, the progress bar, worker processes and JSON output."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from datasets import cohort_files, tables, windows
from datasets.cohort_files import PathOrFile
from datasets.readers.transforms import find_skewed, find_turns, is_composition
from datasets.tables import Role, Table
from gdm_core.analysis.time_scale import ScaleChoice, choose_scale
from gdm_core.engine import Engine
from gdm_core.engine.estimate import Estimate, format_duration
from gdm_core.errors import ConfigError, DataError
from gdm_core.text import first_of, for_json
from gdm_core.trials import Trial, Trials
from gdm_studio.cli.options import NONE


def choose_time_scale(trials: Trials, options: argparse.Namespace) -> ScaleChoice:
    """Set `--scale` to the recommended one and print the reason to stderr."""
    choice = choose_scale(trials)
    print(*choice.sentences, file=sys.stderr)
    options.scale = "samples" if choice.scale is None else f"{choice.scale / trials[0].rate_hz:.6g}"
    return choice


def summarise(trials: Trials, options: argparse.Namespace) -> Trials:
    """Return recordings at the chosen time scale, and set defaults of the model that suit it."""
    if options.scale == "auto":
        choose_time_scale(trials, options)
    defaults: dict[str, Any] = {"model": "gdm", "models": ["gdm", "arhmm-sticky"]}
    if options.scale != "samples":
        try:
            length = windows.window_length(float(options.scale), trials[0].rate_hz)
        except ValueError:
            raise ConfigError(f"--scale is {options.scale!r}; give a number of seconds, 'samples' or 'auto'.") from None
        print(f"Windows of {length} samples: --scale {length / trials[0].rate_hz:.6g}", file=sys.stderr)
        trials = windows.summarise(trials, length)
        defaults = {
            "model": windows.MODEL,
            "models": [windows.MODEL],
            "latent": min(windows.N_LATENT, trials.n_channels),
        }
    for name, value in defaults.items():
        if getattr(options, name, value) is None:
            setattr(options, name, value)
    return trials


def read_recordings(paths: list[PathOrFile], options: argparse.Namespace) -> dict[str, Trial]:
    """Read recordings and print notes on filled body parts to stderr."""
    notes: list[str] = []
    found = cohort_files.read_recordings(paths, options.rate, options.features, notes, dict(options.answer))
    for note in notes:
        print(note, file=sys.stderr)
    return found


def read_trials(options: argparse.Namespace, channels: Sequence[str] = ()) -> Trials:
    """Read the table and print to stderr how its columns were interpreted.

    channels   channels of a fitted model, whose angles are fitted here too
    """
    table = tables.read(options.data, sheet=options.sheet, answers=dict(options.answer))
    roles = _roles(table, options.columns, options.trial_column)
    angles = find_turns(channels) if channels or options.keep_angles else None
    trials = table.to_trials(roles, rate_hz=options.rate, log=options.log, log_ratio=options.log_ratio, angles=angles)
    for line in _describe_reading(table, roles, trials):
        print(line, file=sys.stderr)
    y = np.concatenate([trial.y for trial in trials])
    if is_composition(y):
        print("The channels are parts of a whole; --log-ratio suits them.", file=sys.stderr)
    elif skewed := find_skewed(y, trials[0].channels):
        print(f"Positive and skewed channels: --log {','.join(skewed)} suits them.", file=sys.stderr)
    return trials


def _roles(table: Table, columns: list[str] | None, trial_column: str | None) -> dict[str, Role]:
    """Return the guessed roles, overridden by the options."""
    for name in [*(columns or []), *([trial_column] if trial_column and trial_column != NONE else [])]:
        if name not in table.columns:
            raise ConfigError(f"{table.name} has no column {name!r}; it has {', '.join(table.columns[:20])}.")
    if columns and trial_column in columns:
        raise ConfigError(f"The column {trial_column!r} cannot be a channel and identify trials; choose one of them.")
    roles = dict(table.roles)
    if columns:
        roles = {name: Role.IGNORE if role in (Role.CHANNEL, Role.POSITION) else role for name, role in roles.items()}
        roles |= dict.fromkeys(columns, Role.CHANNEL)
    if not {Role.CHANNEL, Role.POSITION} & set(roles.values()):
        found = ", ".join(f"{name} ({role})" for name, role in list(table.roles.items())[:20])
        raise DataError(f"{table.name}: no column looks like a channel: {found}. Name channels with --columns.")
    if trial_column:
        roles = {name: Role.IGNORE if role is Role.GROUP else role for name, role in roles.items()}
        if trial_column != NONE:
            roles[trial_column] = Role.GROUP
    return roles


def _describe_reading(table: Table, roles: dict[str, Role], trials: Trials) -> list[str]:
    """Return a sentence on the role of each column, and the reader's notes."""

    def columns_with(role: Role) -> str:
        return ", ".join(name for name, its in roles.items() if its is role)

    channels = trials[0].channels
    parts = [f"{trials.n_samples:,} samples at {trials[0].rate_hz:g} Hz", f"channels {first_of(channels, 8)}"]
    for role, words in ((Role.TIME, "time"), (Role.GROUP, "trials by"), (Role.LABEL, "labels")):
        if found := columns_with(role):
            parts.append(f"{words} {found}")
    if ignored := columns_with(Role.IGNORE):
        parts.append(f"ignored {ignored}")
    notes = (*table.notes, *table.understand(roles).order.notes)
    lines = (*(f"{note}." for note in notes), *trials.notes)
    return [f"{table.name}: {'; '.join(parts)}.", *(f"{table.name}: {line}" for line in lines)]


def print_json(value: Any) -> None:
    print(json.dumps(for_json(value), indent=2, allow_nan=False))


_WIDTH = 28
_REDRAW_SECONDS = 0.1  # on a terminal
_LINE_SECONDS = 5.0  # in a log file, where each update adds a line


class Bar:
    """Progress bar on stderr: redrawn on a terminal, an occasional line elsewhere."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total = label, max(total, 1)
        self._stream = sys.stderr
        self._live = self._stream.isatty()
        self._estimate = Estimate()
        self._estimate.left_s(0, self.total)
        self._shown = -float("inf") if self._live else time.monotonic()
        self._width = 0

    def update(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now - self._shown < (_REDRAW_SECONDS if self._live else _LINE_SECONDS):
            return
        self._shown = now
        filled = round(min(1.0, done / self.total) * _WIDTH)
        seconds = self._estimate.left_s(done, self.total)
        left = "" if seconds is None else f", {format_duration(seconds)} left"
        text = f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{self.total}{left}  {note}".rstrip()
        if self._live:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


START_S = 300.0  # to start the worker processes on a busy machine


def require_positive(**counts: int) -> None:
    """Raise ConfigError for a count below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count}; at least 1 is needed.")


@contextmanager
def open_engine(label: str, total: int, jobs: int) -> Iterator[tuple[Engine | None, Callable[[int, int], None]]]:
    """Yield an engine of `jobs` processes (None for one) and a progress callback."""
    require_positive(jobs=jobs)
    bar = Bar(label, total)

    def progress(done: int, _: int) -> None:
        bar.update(done)

    try:
        if jobs == 1:
            yield None, progress
            return
        os.environ["GDM_WORKERS"] = str(jobs)  # for local processes; an external cluster keeps its size
        with Engine() as engine:
            engine.start().result(START_S)
            yield engine, progress
    finally:
        bar.close()
