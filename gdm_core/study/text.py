"""Numbers, values and lists in sentences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.text import MINUS, first_of, plural

MOST_LISTED = 8  # names in a list


def format_p(p: float) -> str:
    """Return a p value in APA form, such as "p = .012" or "p < .001"."""
    if not np.isfinite(p):
        return "not tested"
    if p < 0.001:
        return "p < .001"
    return "p > .999" if p > 0.999 else f"p = {p:.3f}".replace("0.", ".")


def bare_p(p: float) -> str:
    """Return a p value for a table, without "p =" where it is a number."""
    return format_p(p).removeprefix("p ").removeprefix("= ")


def format_effect(value: float, in_points: bool) -> str:
    """Format an effect, in percentage points for shares."""
    if not np.isfinite(value):
        return "–"
    return (f"{100 * value:.1f}" if in_points else f"{value:.3g}").replace("-", MINUS)


def format_difference(value: float, in_points: bool) -> str:
    """Format an effect with its unit."""
    return f"{format_effect(value, in_points)}{' percentage points' if in_points else ''}"


def format_d(value: float) -> str:
    """Format Cohen's d."""
    return "–" if np.isnan(value) else f"{value:.2f}".replace("-", MINUS)


def format_rates(low: float, high: float) -> str:
    """Return sampling rates as text; below 1 Hz, the time between samples."""
    if low >= 1:
        return _range(low, high, "Hz")
    if (seconds := 1 / low) < 60:
        return f"one sample every {_range(1 / high, seconds, 's')}"
    return f"one sample every {_range(1 / high / 60, seconds / 60, 'min')}"


def format_minutes(low: float, high: float) -> str:
    """Return durations as text, in a unit that suits them."""
    per, unit = next(
        (per, unit) for per, unit in ((1440, "days"), (60, "hours"), (1, "minutes"), (0, "s")) if low >= 2 * per
    )
    return _range(low / per, high / per, unit) if per else _range(60 * low, 60 * high, unit)


def _range(low: float, high: float, unit: str) -> str:
    words = dict.fromkeys(f"{value:.3g}" for value in (low, high))
    return f"{' to '.join(words)} {unit}"


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Return the sizes of groups, such as "control n = 8, treated n = 9"."""
    return ", ".join(f"{name} n = {n}" for name, n in sizes.items())


def did_you_mean(name: str, known: Iterable[Any]) -> str:
    """Return " (did you mean ...?)" if `known` has similar names, else an empty string."""
    by_folded = {str(one).casefold(): str(one) for one in known}
    found = get_close_matches(name.casefold(), by_folded, n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(by_folded[one]) for one in found)}?)" if found else ""


def format_value(value: Any, column: pd.Series[Any] | None = None) -> str:
    """Format a value; numbers keep 12 digits, for dates such as 20251003."""
    if isinstance(value, pd.Timestamp | np.datetime64):
        return str(pd.Timestamp(value)).removesuffix(" 00:00:00")
    if isinstance(value, str) and column is not None and pd.api.types.is_numeric_dtype(column.dtype):
        with contextlib.suppress(ValueError):  # "0.3" matches 0.3 in a numeric column
            value = float(value)
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    return f"{value:.12g}" if number else str(value)


def format_count(n: int, word: str) -> str:
    """Return a phrase such as "1 row is" or "2 rows are"."""
    return f"{plural(n, word)} {'is' if n == 1 else 'are'}"


def format_items(items: Sequence[Any], word: str, status: str) -> str:
    """Return a sentence such as "2 rows are empty: a, b."."""
    return f"{format_count(len(items), word)} {status}: {format_list(items)}."


def format_list(values: Sequence[Any]) -> str:
    """Join values with commas; after the first few, state how many more there are."""
    return first_of([str(value) for value in values], MOST_LISTED)
