"""Words of a table as numbers, or as dates and clock times, and values as words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

# Pandas' parser writes past its memory on such an exponent, which ends the whole server; as a number it is 0 or infinite.
_LONG_EXPONENT = r"[eE][+-]?\d{5}"


_PERCENT = r"^\s*[-+]?\d[\d.,]*\s*%\s*$"
# 1,234.5 or 1,234,567 and 1.234,5: only what cannot be a decimal comma or point shows how a column is written
_COMMA_GROUPS = r"^\s*[-+]?(\d{1,3}(,\d{3})+\.\d*|\d{1,3}(,\d{3}){2,})\s*$"
_POINT_GROUPS = r"^\s*[-+]?\d{1,3}(\.\d{3})+,\d*\s*$"
# with points days come before months; with slashes after them, unless a day is past the 12th
_DATES = ("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y.%m.%d")
_TIMES = ("", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M", ", %H:%M:%S", " %I:%M:%S %p", " %I:%M %p")
_SAMPLE = 200
_ENDLESS = r"(?:^|[^.\d])\d{9}"


def numbers_of(words: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Different words of a column as numbers, NaN where they are none. A comma may be the decimal sign or, where others
    of the words show it, separate thousands; a percent sign is dropped. The only way here from text to numbers."""
    text = words.astype(str)
    numbers = _parsed(text)
    lost = ~np.isfinite(numbers)
    if lost.any():
        rest = text[lost].str.replace(r"\s*%\s*$", "", regex=True)
        if rest.str.match(_COMMA_GROUPS).any():
            rest = rest.str.replace(r",(?=\d{3}(\D|$))", "", regex=True)
        grouped = rest.str.match(_POINT_GROUPS)
        rest = rest.mask(grouped, rest.str.replace(".", "", regex=False))
        numbers[lost] = _parsed(rest.str.replace(",", ".", regex=False))
    return numbers


def _parsed(text: pd.Series[Any]) -> npt.NDArray[np.float64]:
    safe = text.mask(text.str.contains(_LONG_EXPONENT, regex=True), "")
    return np.array(pd.to_numeric(safe, errors="coerce"), dtype=np.float64)


def writing(words: pd.Series[Any]) -> str:
    """How the numbers of a column are written, in a few words, where that had to be guessed; else empty."""
    text = words.astype(str)
    for pattern, said in (
        (_PERCENT, "is written in percent, and {} counts as the number before the sign"),
        (_COMMA_GROUPS, "separates thousands by commas, as in {}"),
        (_POINT_GROUPS, "separates thousands by points, as in {}"),
    ):
        found = text[text.str.match(pattern)]
        if len(found):
            return said.format(found.iloc[0].strip()[:40])
    return ""


def word(value: object) -> str:
    """A value as a word for people: 3.0, which a column of whole numbers with gaps holds, is 3."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


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
