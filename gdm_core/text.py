"""Words for messages and sentences, and values for files of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from statistics import fmean, stdev
from typing import Any


def listed(parts: Sequence[str]) -> str:
    """As in a sentence: "a, b and c"; "" of nothing."""
    return " and ".join([part for part in (", ".join(parts[:-1]), *parts[-1:]) if part])


def mean_and_spread(values: Iterable[float], digits: int) -> str:
    """As it is printed: the mean ± the standard deviation, which one value alone does not have; "" of nothing."""
    known = [value for value in values if math.isfinite(value)]
    spread = f" ± {stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{fmean(known):.{digits}f}{spread}" if known else ""


def first_of(parts: Sequence[str], most: int) -> str:
    """The first of many: "a, b, c and 4 more"."""
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def shortened(what: object, most: int = 160) -> str:
    """As much of a text as one reads, in `most` letters."""
    text = str(what)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def for_json(value: Any) -> Any:
    """What JSON can hold: records become mappings, a number that is not finite None."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
