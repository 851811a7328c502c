"""Formatting for messages, and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from statistics import fmean, stdev
from typing import Any

_PLURALS = {"mouse": "mice", "person": "people"}
MINUS = "\N{MINUS SIGN}"  # spreadsheets read a leading hyphen as a formula


def listed(parts: Sequence[str]) -> str:
    """Join parts as "a, b and c"."""
    return " and ".join([part for part in (", ".join(parts[:-1]), *parts[-1:]) if part])


def format_number(value: float, digits: int = 3) -> str:
    """Format a number with `digits` decimals up to 1, and with three significant digits above."""
    if not math.isfinite(value):
        return "unknown"
    if abs(value) <= 1:
        return f"{value:.{digits}f}".replace("-", MINUS)
    size = math.floor(math.log10(abs(value)))
    text = f"{value:.{min(digits, 2 - size)}f}" if size < 3 else f"{round(value, 2 - size):,.0f}"
    return text.replace("-", MINUS)


def format_signed(value: float, digits: int) -> str:
    """Format a difference with its sign."""
    return f"{value:+.{digits}f}".replace("-", MINUS)


def format_percent(share: float, digits: int = 0) -> str:
    """Format a share as a percentage, such as "97%"."""
    return f"{100 * share:.{digits}f}%"


def pluralise(noun: str) -> str:
    """Return the plural of a noun, such as "mice"."""
    return _PLURALS.get(noun, f"{noun}s")


def plural(count: int, noun: str, many: str = "") -> str:
    """Format a count with its noun, such as "1 bout" or "1,204 bouts"."""
    return f"{count:,} {noun if count == 1 else many or pluralise(noun)}"


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


def flatten_scores(scores: Any, prefix: str = "") -> dict[str, float]:
    """Return all numbers in a record of scores by name, nested names joined with dots."""
    if is_dataclass(scores) and not isinstance(scores, type):
        scores = {one.name: getattr(scores, one.name) for one in fields(scores)}
    found: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping) or is_dataclass(value):
            found |= flatten_scores(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) or getattr(value, "shape", None) == ():
            found[f"{prefix}{name}"] = float(value)
    return found
