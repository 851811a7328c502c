"""Workbooks: the sheet with the numbers is found among others, can be chosen, and may begin below its remarks."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from datasets import keypoints, tables
from gdm_core.errors import ConfigError, DataError

N = 40
DATA = pd.DataFrame({"time": np.arange(N) / 25, "a": np.sin(np.arange(N)).round(3), "b": np.cos(np.arange(N)).round(3)})
REMARKS = pd.DataFrame({"info": ["read me", "by me", "in spring"]})


def book(**sheets: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    with pd.ExcelWriter(out) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return out.getvalue()


def check(table: tables.Table, frame: pd.DataFrame = DATA) -> None:
    trial = table.to_trials()[0]
    assert trial.channels == ("a", "b")
    assert trial.rate_hz == pytest.approx(25)
    np.testing.assert_allclose(trial.y, frame[["a", "b"]], atol=1e-6)


def test_the_first_sheet_with_numbers_is_read_and_named():
    table = tables.read(book(Empty=pd.DataFrame(), Info=REMARKS, First=DATA, Second=DATA * 2), "a.xlsx")
    check(table)
    assert table.sheets == ("Empty", "Info", "First", "Second")
    assert table.sheet == "First"
    assert table.notes[0] == "only the sheet 'First' was read; there are also Empty, Info, Second"
    assert tables.read(book(Only=DATA), "a.xlsx").notes == ()
    words = tables.read(book(Empty=pd.DataFrame(), Info=REMARKS), "a.xlsx")  # without any numbers, the first with rows
    assert words.sheet == "Info"


def test_a_sheet_can_be_chosen():
    slow = DATA.assign(time=DATA["time"], a=DATA["a"] * 3)
    data = book(Info=REMARKS, First=DATA, Second=slow)
    for read in (tables.read, keypoints.read_any):
        table = read(data, "a.xlsx", sheet="Second")
        assert isinstance(table, tables.Table)
        assert table.sheet == "Second"
        check(table, slow)
    assert tables.read(data, "a.xlsx", sheet="Info").columns == ("info",)
    assert tables.read(data, "a.xlsx", sheet="Second", every=2).n_rows == N // 2
    with pytest.raises(ConfigError, match="no sheet 'Third'; it has Info, First, Second"):
        tables.read(data, "a.xlsx", sheet="Third")
    with pytest.raises(ConfigError, match="no workbook"):
        tables.read(DATA.to_csv(index=False).encode(), "a.csv", sheet="First")
    with pytest.raises(DataError, match=r"The sheet 'Empty' of a\.xlsx holds no row"):
        tables.read(book(Empty=pd.DataFrame(), First=DATA), "a.xlsx", sheet="Empty")
    with pytest.raises(DataError, match=r"Each sheet of a\.xlsx holds no row"):
        tables.read(book(One=pd.DataFrame(), Two=pd.DataFrame({"a": []})), "a.xlsx")


@pytest.mark.parametrize("above", [[], [["Exported by Foo"]], [["Subject", "M1"], [None], ["a remark"]]])
def test_a_table_below_remarks(above: list[list[str | None]]):
    rows = [row + [None] * (3 - len(row)) for row in above] + [list(DATA.columns), *DATA.to_numpy().tolist()]
    out = io.BytesIO()
    pd.DataFrame(rows, dtype=object).to_excel(out, index=False, header=False, startrow=2)
    table = tables.read(out.getvalue(), "a.xlsx")
    check(table)
    assert any(f"{len(above)} lines before the header" in note for note in table.notes) == bool(above)


def test_a_workbook_saved_with_row_numbers():
    out = io.BytesIO()
    DATA.to_excel(out)
    check(tables.read(out.getvalue(), "a.xlsx"))
    narrow = io.BytesIO()
    DATA[["a"]].to_excel(narrow)
    assert tables.read(narrow.getvalue(), "a.xlsx").to_trials()[0].channels == ("a",)
