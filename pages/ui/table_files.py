"""Tables as CSV and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from gdm_core.analysis.tables import csv

MARKS = str.maketrans({"&": r"\&", "%": r"\%", "_": r"\_", "±": r"$\pm$", "²": "$^2$", "–": "--"})
BOLD = r"\*\*(.+?)\*\*"


def table_files(tables: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """Return tables as CSV and LaTeX."""
    found: dict[str, bytes] = {}
    for name, table in tables.items():
        plain = table.replace(BOLD, r"\1", regex=True).reset_index(names="row")
        found |= {f"{name}.csv": csv(plain), f"{name}.tex": to_latex(table).encode()}
    return found


def to_latex(table: pd.DataFrame) -> str:
    """Return a table as LaTeX for the package booktabs; "**bold**" becomes bold."""

    def mark(cell: object) -> str:
        return re.sub(BOLD, r"\\textbf{\1}", str(cell).translate(MARKS))

    return table.map(mark).rename(index=mark, columns=mark).to_latex()
