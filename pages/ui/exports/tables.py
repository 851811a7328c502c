"""Tables as files that other programs read."""

from __future__ import annotations

import io

import pandas as pd


def parquet(table: pd.DataFrame) -> bytes:
    """A table as Parquet."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()
