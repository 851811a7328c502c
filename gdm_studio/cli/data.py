"""Recordings for a command: options that say how a table is to be read, and the reading."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdm_core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from datasets.tables import Role, Table
    from gdm_core.trials import Trials

NONE = "none"


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The file and how to read it."""
    parser.add_argument(
        "data", type=Path, help="CSV, TSV, Parquet, NPZ, NPY or XLSX: one row a sample, one column a channel"
    )
    parser.add_argument(
        "--columns", type=names, help="channels to use, comma-separated; they keep the file's order (default: guessed)"
    )
    parser.add_argument(
        "--trial-column", metavar="NAME", help=f"column that tells trials apart, or '{NONE}' (default: guessed)"
    )
    parser.add_argument(
        "--rate", type=float, metavar="HZ", help="samples per second (default: from a time column, else 1)"
    )
    parser.add_argument("--sheet", help="sheet of a workbook (default: the first with numbers)")


def add_recordings_options(parser: argparse.ArgumentParser) -> None:
    """How files of recordings are to be read."""
    parser.add_argument("--rate", type=float, metavar="HZ", help="samples per second (default: what files say)")
    parser.add_argument(
        "--features", choices=["egocentric", "keypoints"], default="egocentric", help="of poses (default: egocentric)"
    )


def names(text: str) -> list[str]:
    """Comma-separated names as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_trials(options: argparse.Namespace) -> Trials:
    """The recordings that the options name; how they were understood goes to stderr."""
    from datasets import tables

    table = tables.read(options.data, sheet=options.sheet)
    roles = _roles(table, options.columns, options.trial_column)
    trials = table.to_trials(roles, rate_hz=options.rate)
    for line in _understood(table, roles, trials):
        print(line, file=sys.stderr)
    return trials


def _roles(table: Table, columns: list[str] | None, trial_column: str | None) -> dict[str, Role]:
    """The guessed roles, with what the options say in their place."""
    from datasets.tables import Role

    asked = [*(columns or []), *([trial_column] if trial_column and trial_column != NONE else [])]
    for name in asked:
        if name not in table.columns:
            raise ConfigError(f"{table.name} has no column {name!r}; it has {', '.join(table.columns[:20])}.")
    if columns and trial_column in columns:
        raise ConfigError(f"The column {trial_column!r} cannot be a channel and tell trials apart; choose one of them.")
    roles = dict(table.roles)
    if columns:
        roles = {name: Role.IGNORE if role in (Role.CHANNEL, Role.POSITION) else role for name, role in roles.items()}
        roles |= dict.fromkeys(columns, Role.CHANNEL)
    if not {Role.CHANNEL, Role.POSITION} & set(roles.values()):
        found = ", ".join(f"{name} ({role})" for name, role in list(table.roles.items())[:20])
        raise DataError(f"{table.name}: no column was taken for a channel, but: {found}. Name channels with --columns.")
    if trial_column:
        roles = {name: Role.IGNORE if role is Role.GROUP else role for name, role in roles.items()}
        if trial_column != NONE:
            roles[trial_column] = Role.GROUP
    return roles


def _understood(table: Table, roles: dict[str, Role], trials: Trials) -> list[str]:
    """One sentence on what each column was taken for, and the reader's own notes."""
    from datasets.tables import Role

    def having(role: Role) -> str:
        return ", ".join(name for name, its in roles.items() if its is role)

    channels = trials[0].channels
    shown = ", ".join(channels[:8]) + (f" and {len(channels) - 8} more" if len(channels) > 8 else "")
    parts = [f"{trials.n_samples:,} samples at {trials[0].rate_hz:g} Hz", f"channels {shown}"]
    for role, words in ((Role.TIME, "time"), (Role.GROUP, "trials by"), (Role.LABEL, "labels")):
        if found := having(role):
            parts.append(f"{words} {found}")
    if left := having(Role.IGNORE):
        parts.append(f"left out {left}")
    return [f"{table.name}: {'; '.join(parts)}.", *(f"{table.name}: {note}." for note in table.notes)]


def model_parameters(options: Any) -> dict[str, Any]:
    """Parameters that were given; a model keeps its own defaults for the rest."""
    found = {name: getattr(options, name, None) for name in ("temperature", "stickiness")}
    return {name: value for name, value in found.items() if value is not None}
