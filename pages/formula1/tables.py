"""Sortable tables with CSV download, and lap-time formatting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import csv, harmless
from pages.ui.downloads import download

MOST_ROWS = 20  # visible rows


def clock(seconds: Any) -> str:
    """Format a lap time as m:ss.mmm."""
    return f"{int(seconds // 60)}:{seconds % 60:06.3f}" if np.isfinite(seconds) else "–"


def table_with_csv(
    table: pd.DataFrame,
    name: str,
    stem: str,
    *,
    times: Sequence[str] = (),
    seconds: Sequence[str] = (),
    shapes: Mapping[str, str] | None = None,
    on_row: Callable[[int], None] | None = None,
) -> None:
    """Show a sortable table with a CSV button.

    times     columns of lap times in seconds; `seconds` of other times
    shapes    formats of other columns, such as "%.1f"
    on_row    called with the clicked row before the page reruns
    """
    shown = table.map(harmless).style.format({column: clock for column in times}, na_rep="–")
    numbers = dict.fromkeys(seconds, "%.3f") | dict(shapes or {})
    columns = {column: st.column_config.NumberColumn(column, format=shape) for column, shape in numbers.items()}
    more: dict[str, Any] = {}
    if on_row is not None:
        more = {
            "key": f"{name}-rows",
            "on_select": partial(_row, f"{name}-rows", on_row),
            "selection_mode": "single-row",
        }
    height: Any = "content" if len(table) <= MOST_ROWS else 35 * (MOST_ROWS + 1) + 4
    st.dataframe(shown, hide_index=True, column_config=columns, height=height, **more)
    download("This table (CSV)", lambda: csv(table), f"{stem}-{name}.csv", key=f"{name}-csv")


def _row(key: str, call: Callable[[int], None]) -> None:
    chosen = st.session_state.get(key)
    for row in [] if chosen is None else chosen["selection"]["rows"]:
        call(int(row))
