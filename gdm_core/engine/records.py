"""What a sweep found, fit by fit, and what its seeds have in common."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from gdm_core.errors import ConfigError


@dataclass(frozen=True)
class Record:
    """One fit of a sweep. A fit that failed has a message, and nan where numbers would be."""

    config: dict[str, Any]
    seed: int
    elbo_train: float = math.nan
    elbo_test: float = math.nan
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    message: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.message)

    def row(self) -> dict[str, Any]:
        """Flat, for a table: configuration, seed, numbers, message."""
        return {**self.config, "seed": self.seed, **self.numbers(), "message": self.message}

    def numbers(self) -> dict[str, float]:
        """Everything measured, by name."""
        own = {"elbo_train": self.elbo_train, "elbo_test": self.elbo_test, "seconds": self.seconds}
        return {**self.scores, **own}


class Records(tuple[Record, ...]):
    """What a sweep found, fit by fit."""

    def to_frame(self) -> pd.DataFrame:
        """A row for each fit: configuration, seed, everything measured, and why it failed, if it did."""
        return pd.DataFrame([record.row() for record in self])

    def __str__(self) -> str:
        frame = self.to_frame()
        varied = [name for name in frame if name in self[0].config and frame[name].astype(str).nunique() > 1]
        shown = [*varied, "seed", *(name for name in ("elbo_test", "matched_accuracy") if name in frame), "message"]
        ended = sum(not record.failed for record in self)
        return f"{ended} of {len(self)} fits\n{frame[shown].to_string(float_format='{:.3f}'.format, na_rep='-')}"


@dataclass(frozen=True)
class Aggregate:
    """What the seeds of one configuration have in common. `std` is nan where there is one value only."""

    config: dict[str, Any]
    n: int
    failed: int
    mean: dict[str, float]
    std: dict[str, float]


def aggregate(records: Iterable[Record], by: Sequence[str]) -> list[Aggregate]:
    """Mean and spread over seeds (and whatever else is not in `by`) for each configuration, in order of appearance.

    Failed fits are counted, not averaged.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        missing = [name for name in by if name not in record.config]
        if missing:
            known = ", ".join(record.config)
            raise ConfigError(f"There is no parameter {missing[0]!r} in the records; there are {known}.")
        groups.setdefault(repr([record.config[name] for name in by]), []).append(record)
    return [_aggregate(group, by) for group in groups.values()]


def _aggregate(group: list[Record], by: Sequence[str]) -> Aggregate:
    good = [record for record in group if not record.failed]
    values: dict[str, list[float]] = {}
    for record in good:
        for name, number in record.numbers().items():
            if math.isfinite(number):
                values.setdefault(name, []).append(number)
    return Aggregate(
        {name: group[0].config[name] for name in by},
        len(good),
        len(group) - len(good),
        {name: fmean(numbers) for name, numbers in values.items()},
        {name: stdev(numbers) if len(numbers) > 1 else math.nan for name, numbers in values.items()},
    )


def numbers_in(scores: Any, prefix: str = "") -> dict[str, float]:
    """Every single number in a record of scores, by its name; names of nested ones are joined with dots."""
    if dataclasses.is_dataclass(scores) and not isinstance(scores, type):
        scores = {f.name: getattr(scores, f.name) for f in dataclasses.fields(scores)}
    found: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
            found |= numbers_in(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) or getattr(value, "shape", None) == ():
            found[f"{prefix}{name}"] = float(value)
    return found
