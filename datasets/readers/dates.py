"""Text as dates and times: explicit formats, chosen on a sample and applied once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

# with points the day comes first; slashes and hyphens have both orders
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d.%m.%y", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d", "%d-%m-%Y",
          "%m-%d-%Y", "%d-%b-%Y", "%d %b %Y", "%b %d %Y", "%d %B %Y", "%B %d %Y", "%Y%m%d")  # fmt: skip
_TIMES = ("", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M", " %I:%M:%S %p", " %I:%M:%S.%f %p", " %I:%M %p", " %H%M%S",
          " %H:%M:%S%z", " %H:%M:%S.%f%z", "%H%M%S", "%H%M")  # fmt: skip
_TWINS = {"%m/%d": "%d/%m", "%d/%m": "%m/%d", "%d-%m": "%m-%d", "%m-%d": "%d-%m"}
CLOCKS = ("minutes and seconds", "hours and minutes")  # readings of two numbers
_ORDERS = {"%d": "day first", "%m": "month first"}
_CLOCK = r"^[-+]?\d{1,4}:\d{1,2}(:\d{1,2})?([.,]\d+)?$"
_SPAN = r"^([-+]?\d+ days?)?( ?[-+]?\d+:\d+:\d+(\.\d+)?)?$"  # as pandas and Python write it
_HALF_DAY = r"^\d{1,2}:\d{2}(:\d{2})?(\.\d+)? ?[apAP]\.?[mM]\.?$"
_LAST_COLON = re.compile(r"(?<=:\d\d):(?=\d{3,6}$)")
_DAYS_AND_CLOCK = re.compile(r"^([-+]?\d{1,3}) (?=\d{1,2}:\d{2}:\d{2}(\.\d+)?$)")
_ZONED = r"^\d{1,2}:\d{2}:\d{2}(\.\d+)?[-+]\d\d:?\d\d$"  # a time of day with its time zone
_SAMPLE = 200

Readings = dict[str, "pd.Series[Any]"]


def parse_times(text: pd.Series[Any]) -> Readings | None:
    """Return the readings of texts as dates or durations, most likely first; None if under half are valid.

    A single reading has the key "". Dates can be read as "day first" or "month first", and clocks of two numbers as
    "minutes and seconds" or "hours and minutes".
    """
    text = text.astype(str).str.strip(" '")
    sample = sample_of(text)
    if sample.str.match(_ZONED).mean() > 0.5:
        text = text.str.replace(r"[-+]\d\d:?\d\d$", "", regex=True)
        sample = sample_of(text)
    if sample.str.contains(_LAST_COLON).any():  # milliseconds after a colon
        text = text.str.replace(_LAST_COLON, ".", regex=True)
        sample = sample_of(text)
    if sample.str.match(_DAYS_AND_CLOCK).mean() > 0.5:
        text = text.str.replace(_DAYS_AND_CLOCK, r"\1 days ", regex=True)
        sample = sample_of(text)
    if sample.str.contains("day").any():
        spans = text.str.replace("(?<=day),|(?<=days),", "", regex=True)
        if (spanned := spans.str.match(_SPAN)).mean() > 0.5:
            return {"": pd.to_timedelta(spans.where(spanned), errors="coerce")}
    if sample.str.match(_CLOCK).mean() > 0.5:
        return _parse_clock(text)
    if sample.str.match(_HALF_DAY).mean() > 0.5:
        return parse_times("1970-01-01 " + text.str.replace(r" ?([ap])\.?m\.?$", r" \1m", regex=True, case=False))
    if _valid(sample, "ISO8601") > 0.5:
        return {"": _parse_dates(text, "ISO8601")}
    plain = _plain(sample)
    return _parse_formats(text if plain.equals(sample) else _plain(text), plain)


def sample_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return evenly spread values of a long column."""
    return column.iloc[np.unique(np.linspace(0, len(column) - 1, min(_SAMPLE, len(column))).astype(int))]


def is_clock(text: pd.Series[Any]) -> bool:
    """Return True for times of day, without a date."""
    return bool(sample_of(text).str.match(f"{_CLOCK}|{_HALF_DAY}").mean() > 0.5)


def _plain(text: pd.Series[Any]) -> pd.Series[Any]:
    """Write dates and times with one space between them, a decimal point and no time zone name that all share."""
    text = text.str.replace(r" ?\[[^\]]*\]$", "", regex=True)
    zones = text.str.extract(r"(?<=\d) ?([A-Z]{3,4})$")[0]
    if zones.nunique() == 1:
        text = text.str.removesuffix(zones.dropna().iloc[0])
    rules = (
        (r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? ", ""),
        (r"(?<=\d),(?=\d+:)", " "),
        (r"(?<=\d),(?=\d)", "."),
        (r"(?<=\d)[,T_ ]+(?=\d)", " "),
        (r" ?Z?$", ""),
    )
    for pattern, new in rules:
        text = text.str.replace(pattern, new, regex=True)
    return text


def _parse_formats(text: pd.Series[Any], sample: pd.Series[Any]) -> Readings | None:
    shares: dict[str, float] = {}
    for way in (date + time for date in _DATES for time in _TIMES):
        shares[way] = _valid(sample, way)
        if shares[way] == 1:
            break
    best = max(shares, key=lambda way: shares[way])
    date = next(date for date in _DATES if best.startswith(date))
    if sum(share for way, share in shares.items() if way.startswith(date)) <= 0.5:
        return None
    # times without decimals, or without seconds, may be among the others
    ways = [best, *(date + time for time in _TIMES)]
    found = _parse_all(text, ways)
    twin = next((date.replace(old, new) for old, new in _TWINS.items() if date.startswith(old)), None)
    if twin is None:
        return {"": found}
    other = _parse_all(text, [way.replace(date, twin) for way in ways])
    pairs = {_ORDERS[date[:2]]: found, _ORDERS[twin[:2]]: other}
    most = max(pairs[name].notna().sum() for name in pairs)
    kept = {name: values for name, values in pairs.items() if values.notna().sum() == most}
    return kept if len(kept) > 1 else {"": next(iter(kept.values()))}


def _parse_all(text: pd.Series[Any], ways: list[str]) -> pd.Series[Any]:
    found = _parse_dates(text, ways[0])
    for way in ways[1:]:
        if found.notna().all():
            break
        found = found.fillna(_parse_dates(text[found.isna()], way))
    return found


def _parse_dates(text: pd.Series[Any], way: str) -> pd.Series[Any]:
    return pd.to_datetime(text, errors="coerce", utc=True, format=way)


def _valid(sample: pd.Series[Any], way: str) -> float:
    return float(_parse_dates(sample, way).notna().mean())


def _parse_clock(text: pd.Series[Any]) -> Readings:
    """Parse h:m:s, m:s.fff, and the ambiguous m:s or h:m."""
    parts = text.str.replace(",", ".").str.extract(r"^([-+]?)(\d{1,4}):(\d{1,2})(?::(\d{1,2}))?(\.\d+)?$")
    sign = np.where(parts[0] == "-", -1.0, 1.0)
    first, second, third = (parts[j].astype(float) for j in (1, 2, 3))
    fraction = parts[4].fillna("0").astype(float)
    short = third.isna()  # two numbers
    low = second.where(short, third) < 60
    minutes = (first * 60 + second).where(short, first * 3600 + second * 60 + third) + fraction
    hours = (first * 3600 + second * 60 + fraction).where(short, minutes)
    seconds, other = (pd.Series(pd.to_timedelta(sign * values.where(low), unit="s")) for values in (minutes, hours))
    certain = not short.any() or not short.all() or fraction.any() or first.max() > 23
    return {"": seconds} if certain else dict(zip(CLOCKS, (seconds, other), strict=True))


def compact_dates(values: npt.NDArray[np.float64]) -> pd.Series[Any] | None:
    """Return dates that are written as numbers, such as 20260328235800, or None for other numbers."""
    seen = values[np.isfinite(values)]
    for digits, way in ((8, "%Y%m%d"), (12, "%Y%m%d%H%M"), (14, "%Y%m%d%H%M%S")):
        unit = 10.0 ** (digits - 4)
        if len(seen) and (np.mod(seen, 1) == 0).all() and (seen >= 1900 * unit).all() and (seen < 2100 * unit).all():
            text = pd.Series(np.where(np.isfinite(values), values, 0).astype(np.int64).astype(str))
            dates = _parse_dates(text, way)
            return dates if dates.notna().sum() >= 0.9 * len(seen) else None
    return None


def compact_clock(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Return seconds of times of day that are written as numbers, such as 162950.4, if only that makes steps regular."""
    known = values[np.isfinite(values)]
    seconds = values // 10_000 * 3600 + values // 100 % 100 * 60 + values % 100
    valid = (known % 100 < 60) & (known // 100 % 100 < 60) & (known >= 0) & (known < 240_000)
    if len(known) < 3 or not valid.all():
        return None
    steps, plain = np.diff(seconds[np.isfinite(values)]), np.diff(known)
    regular, same = (np.allclose(each, np.median(each), rtol=0.1) for each in (steps, plain))
    return seconds if regular and not same else None
