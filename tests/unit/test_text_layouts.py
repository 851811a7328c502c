"""Text tables as instruments and spreadsheets write them: what stands above the header, and what separates the fields."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from datasets import tables
from datasets.readers import delimited
from gdm_core.errors import DataError

N = 50
FRAME = pd.DataFrame(
    {"time": np.arange(N) / 25, "a": np.sin(np.arange(N)).round(4), "b": np.cos(np.arange(N)).round(4)}
)


def csv(**options: object) -> str:
    return FRAME.to_csv(index=False, **options)  # type: ignore[call-overload,no-any-return]


def check(text: str | bytes, name: str = "a.csv") -> tables.Table:
    table = tables.read(text.encode() if isinstance(text, str) else text, name)
    trial = table.to_trials()[0]
    assert trial.channels == ("a", "b")
    assert trial.rate_hz == pytest.approx(25)
    np.testing.assert_allclose(trial.y, FRAME[["a", "b"]], atol=1e-6)
    return table


@pytest.mark.parametrize("first", ["sep=;\n", "sep=;\r\n", '"sep=;"\n', "SEP=;\n"])
def test_the_line_by_which_excel_names_the_delimiter_is_honoured(first: str):
    check(first + csv(sep=";"))
    check(first + csv(sep=";", decimal=","))
    check("sep=\t\n" + csv(sep="\t"))
    odd = pd.DataFrame({"a;b": [1, 2, 4], "c;d": [5, 3, 3]})  # commas separate, whatever else is common
    assert tables.read(("sep=,\n" + odd.to_csv(index=False)).encode(), "a.csv").columns == ("a;b", "c;d")


@pytest.mark.parametrize("gap", ["  ", " ", "      "])
def test_fields_between_spaces(gap: str):
    lines = [gap.join(("time", "a", "b"))] + [gap.join(f"{v:.4f}" for v in row) for row in FRAME.to_numpy()]
    table = check("\n".join(f"  {line}" for line in lines), "a.txt")
    assert any("separated by spaces" in note for note in table.notes)
    bare = tables.read("\n".join(lines[1:]).encode(), "a.txt")
    assert bare.columns == ("column 1", "column 2", "column 3")


def test_sentences_are_not_split_at_their_spaces():
    table = tables.read(b"note\n" + b"mouse sits still\nmouse runs away\n" * 20, "a.csv")
    assert table.columns == ("note",)
    with pytest.raises(DataError, match="one field only: separate fields by commas"):
        table.to_trials()


@pytest.mark.parametrize(
    "above",
    [
        "Exported by Foo\nDate: 2024\n\n",
        "Exported by Foo\n",
        "Subject;M1\nBox;3\n",
        'He said: 5" wide\n\n\n',
        "Serial,12\n",
    ],
)
def test_lines_before_the_header_are_skipped_and_counted(above: str):
    for sep in (",", ";"):
        table = check(above + csv(sep=sep))
        n = sum(bool(line) for line in above.split("\n"))
        assert any(f"{n} lines before the header" in note for note in table.notes)


def test_a_quote_in_a_comment_does_not_swallow_the_table():
    check('# 5" wide\n' + csv())


def test_lines_before_numbers_without_a_header_are_named():
    text = "Exported by Foo\nDate: 2024\n" + csv().split("\n", 1)[1]
    with pytest.raises(DataError, match=r"line 3 has 3 fields where 1 are expected. If the lines above it are no part"):
        tables.read(text.encode(), "a.csv")


def test_a_bad_line_is_named_by_its_place_in_the_file():
    lines = ("# one\n# two\n" + csv()).split("\n")
    lines[20] += ",9,9"
    with pytest.raises(DataError, match="line 21 has 5 fields where 3 are expected"):
        tables.read("\n".join(lines).encode(), "a.csv")


def test_row_names_without_a_header_of_their_own_are_no_lines_before_the_header():
    text = "a,b\n" + "".join(f"r{i},{i % 5},{i % 7}\n" for i in range(30))
    table = tables.read(text.encode(), "a.csv")
    assert table.columns == ("row", "a", "b")
    assert table.to_trials()[0].channels == ("a", "b")


@pytest.mark.parametrize("delimiter", [",", " ", ";", "\t"])
@pytest.mark.parametrize("comments", ["# ", "#"])
def test_the_header_that_numpy_writes_as_a_comment_names_the_columns(delimiter: str, comments: str):
    out = io.BytesIO()
    header = delimiter.join(("time", "a", "b"))
    np.savetxt(out, FRAME.to_numpy(), delimiter=delimiter, header=f"recorded today\n{header}", comments=comments)
    check(out.getvalue(), "a.txt")


def test_a_comment_that_names_no_columns_stays_a_comment():
    table = tables.read(b"# made, by me\n1,2,3\n4,5,5\n6,7,7\n", "a.csv")
    assert table.columns == ("column 1", "column 2", "column 3")
    check("# time,x,y\n" + csv())  # a header is there, so the comment is none


def test_a_first_row_of_very_many_fields_is_refused_before_pandas_makes_an_index_of_each(monkeypatch):
    monkeypatch.setattr(delimited, "read_body", None)
    with pytest.raises(DataError, match="more fields than the 2 columns"):
        tables.read(b"a,b\n" + b"1,2," * 10_000 + b"\n", "wide.csv")


@pytest.mark.parametrize("missing", ["", "inf", "nan", "?"])
def test_a_column_of_dates_may_lack_one(missing):
    dates = [f"2024-01-01 00:00:{i:02d}" for i in range(30)]
    dates[12] = missing
    text = "time,a,b\n" + "".join(f"{date},{i},{i % 7}\n" for i, date in enumerate(dates))
    clock = tables.read(text.encode(), "dates.csv").clock()
    assert clock is not None
    assert clock.rate_hz == pytest.approx(1)
    assert np.flatnonzero(np.isnan(clock.seconds)).tolist() == [12]
