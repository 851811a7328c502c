"""Dates and clock times from text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

# with points days come before months; with slashes after them, unless a day is past the 12th
_DATES = ("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y.%m.%d")
_TIMES = ("", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M", ", %H:%M:%S", " %I:%M:%S %p", " %I:%M %p")
_SAMPLE = 200
_ENDLESS = r"(?:^|[^.\d])\d{9}"


def moments(text: pd.Series[Any]) -> pd.Series[Any] | None:
    """Dates, or clock times such as 1:02:03.5, from text; None where less than half of it reads so."""
    # pandas fails on hours without end, or counts them wrongly
    durations = pd.to_timedelta(text.mask(text.str.contains(_ENDLESS, regex=True)), errors="coerce")
    if durations.notna().mean() > 0.5:
        return durations
    dates = pd.to_datetime(text, errors="coerce", utc=True, format="ISO8601")
    if dates.notna().mean() > 0.5:
        return dates
    sample = text.iloc[np.unique(np.linspace(0, len(text) - 1, _SAMPLE).astype(int))].str.strip()
    formats = [date + time for date in _DATES for time in _TIMES]
    shares = [pd.to_datetime(sample, errors="coerce", utc=True, format=way).notna().mean() for way in formats]
    if max(shares) > 0.5:
        return pd.to_datetime(text.str.strip(), errors="coerce", utc=True, format=formats[int(np.argmax(shares))])
    if pd.to_datetime(sample, errors="coerce", utc=True, format="mixed").notna().mean() > 0.5:
        return pd.to_datetime(text, errors="coerce", utc=True, format="mixed")
    return None


def are_moments(column: pd.Series[Any]) -> bool:
    """Whether a column of text is a clock: nearly all of a sample reads as dates or as times with colons."""
    there = column.dropna()
    sample = there.iloc[np.unique(np.linspace(0, len(there) - 1, _SAMPLE).astype(int))].astype(str)
    if sample.str.contains(r"\d[:./-]\d", regex=True).mean() < 0.9:  # words such as "5 days" are no clock
        return False
    found = moments(sample)
    return found is not None and bool(found.notna().mean() >= 0.9)
