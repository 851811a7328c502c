"""Numbers in sentences: p values, rates, durations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

MINUS = "\N{MINUS SIGN}"  # spreadsheets read a leading hyphen as a formula


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
