"""Words of a table as numbers, and values as words."""

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
