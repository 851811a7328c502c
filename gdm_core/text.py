"""Formatting for messages, and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from statistics import fmean, stdev
from typing import Any


def listed(parts: Sequence[str]) -> str:
    """Join parts as "a, b and c"."""
    return " and ".join([part for part in (", ".join(parts[:-1]), *parts[-1:]) if part])


def format_mean_sd(values: Iterable[float], digits: int) -> str:
    """Format values as mean ± standard deviation, if there are two or more; "" if empty."""
    known = [value for value in values if math.isfinite(value)]
    spread = f" ± {stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{fmean(known):.{digits}f}{spread}" if known else ""


def first_of(parts: Sequence[str], most: int) -> str:
    """Join the first parts, as "a, b, c and 4 more"."""
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def shorten(what: object) -> str:
    """Shorten a text to at most 160 characters."""
    text = str(what)
    return text if len(text) <= 160 else f"{text[:157]}..."


def for_json(value: Any) -> Any:
    """Convert a value for JSON: dataclasses become mappings, and non-finite numbers None."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
