"""Tables, and jumps from a row to a time of a recording."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import streamlit as st
from streamlit.components.v2 import component

from gdm_core.analysis.tables import harmless

_JUMP = """
export default function ({ data, parentElement }) {
  const asked = JSON.stringify(data);
  if (parentElement.gdmAsked === asked) return; // the page ran again
  parentElement.gdmAsked = asked;
  const detail = { group: "page", time: data.time, from: parentElement, follow: true };
  window.dispatchEvent(new CustomEvent("gdm:cursor", { detail }));
  document.querySelector(".st-key-player, .st-key-strips")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
}
"""
_jump = component("gdm_jump", js=_JUMP)


def rows_high(n: int, most: int) -> int | Literal["content"]:
    """Return the height of a table of `n` rows: that of its rows, at most so many pixels."""
    return "content" if 35 * (n + 1) <= most else most


def show_table(table: pd.DataFrame, most: int, key: str, **more: Any) -> Any:
    """Show a table; a cell that a spreadsheet would take for a formula is escaped."""
    shown = table.map(harmless).rename(columns=harmless)
    return st.dataframe(shown, hide_index=True, height=rows_high(len(table), most), key=key, **more)


def clicked_row(chosen: Any, n_rows: int) -> int | None:
    """Return the row of the clicked cell, None if there is none."""
    cells = chosen.selection.cells
    row = cells[0][0] if cells and cells[0] else None
    return row if type(row) is int and 0 <= row < n_rows else None


def jump(time: float, recording: str) -> None:
    """Move the cursor of the page and the pose player to a time of `recording`, once."""
    _jump(key="jump", data={"time": time, "recording": recording})
