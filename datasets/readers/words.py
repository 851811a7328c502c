"""Words of a table as numbers, and values as words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

# Pandas' parser writes past its memory on such an exponent, which ends the whole server; as a number it is 0 or infinite.
_LONG_EXPONENT = r"[eE][+-]?\d{5}"


def numbers_of(words: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Text as numbers, NaN where it is none. The only way here from text to numbers: see above."""
    text = words.astype(str)
    safe = text.mask(text.str.contains(_LONG_EXPONENT, regex=True), "")
    return np.array(pd.to_numeric(safe, errors="coerce"), dtype=np.float64)


def word(value: object) -> str:
    """A value as a word for people: 3.0, which a column of whole numbers with gaps holds, is 3."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)
