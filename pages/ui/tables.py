"""Tables on the screen, and moments of a recording that a row of one leads to."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import streamlit as st
from streamlit.components.v2 import component

from gdm_core.analysis.tables import harmless

_JUMP = """
export default function ({ data, parentElement }) {
  const asked = JSON.stringify(data);
  if (parentElement.gdmAsked === asked) return; // the page ran again, and nobody asked anew
  parentElement.gdmAsked = asked;
  const detail = { group: "page", time: data.time, from: parentElement, follow: true };
  window.dispatchEvent(new CustomEvent("gdm:cursor", { detail }));
  document.querySelector(".st-key-player, .st-key-strips")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
}
"""
_jump = component("gdm_jump", js=_JUMP)


def rows_high(n: int, most: int) -> int | Literal["content"]:
    """How high a table of `n` rows is: as its rows, so that no empty one shows below, and at the most so many pixels."""
    return "content" if 35 * (n + 1) <= most else most


def show_table(table: pd.DataFrame, most: int, key: str, **more: Any) -> Any:
    """A table that can be looked at and, as every table of Streamlit, saved as CSV: no cell of it is a formula."""
    shown = table.map(harmless).rename(columns=harmless)
    return st.dataframe(shown, hide_index=True, height=rows_high(len(table), most), key=key, **more)


def clicked_row(chosen: Any, n_rows: int) -> int | None:
    """The row of the cell that was clicked; None where none was, or where the browser names one that there is not."""
    cells = chosen.selection.cells
    row = cells[0][0] if cells and cells[0] else None
    return row if type(row) is int and 0 <= row < n_rows else None


def jump(time: float, recording: str) -> None:
    """Move the cursor of the page, and the poses with it, to a moment of `recording`, once."""
    _jump(key="jump", data={"time": time, "recording": recording})
