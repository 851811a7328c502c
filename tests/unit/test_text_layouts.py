"""Text tables as instruments and spreadsheets write them: what stands above the header, what separates the fields,
and numbers and times as people write them: too large, in percent, with thousands apart, as dates under any name.
"""

from __future__ import annotations

import io
import warnings

import numpy as np
import pandas as pd
import pytest

from datasets import tables
from datasets.features import principal_components
from datasets.readers import delimited
from datasets.readers.quality import ChannelQuality, QualityReport
from datasets.tables import Role
from gdm_core.errors import DataError
from tests.support import table_files
from tests.support.table_files import NUMBERS, read


def csv(**options: object) -> str:
    return NUMBERS.to_csv(index=False, **options)  # type: ignore[call-overload,no-any-return]


def check(text: str | bytes, name: str = "a.csv") -> tables.Table:
    return table_files.check(tables.read(text.encode() if isinstance(text, str) else text, name))


@pytest.mark.parametrize("first", ["sep=;\n", "sep=;\r\n", '"sep=;"\n', "SEP=;\n"])
def test_the_line_by_which_excel_names_the_delimiter_is_honoured(first: str):
    check(first + csv(sep=";"))
    check(first + csv(sep=";", decimal=","))
    check("sep=\t\n" + csv(sep="\t"))
    odd = pd.DataFrame({"a;b": [1, 2, 4], "c;d": [5, 3, 3]})  # commas separate, whatever else is common
    assert tables.read(("sep=,\n" + odd.to_csv(index=False)).encode(), "a.csv").columns == ("a;b", "c;d")


@pytest.mark.parametrize("gap", ["  ", " ", "      "])
def test_fields_between_spaces(gap: str):
    lines = [gap.join(NUMBERS.columns)] + [gap.join(f"{v:.4f}" for v in row) for row in NUMBERS.to_numpy()]
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
    header = delimiter.join(NUMBERS.columns)
    np.savetxt(out, NUMBERS.to_numpy(), delimiter=delimiter, header=f"recorded today\n{header}", comments=comments)
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
    assert clock.rate_hz == pytest.approx(1)
    assert np.flatnonzero(np.isnan(clock.seconds)).tolist() == [12]


# ---- numbers and times as people write them -------------------------------------------------------------------------
N = 300
A, B = np.sin(np.arange(N) / 9), np.cos(np.arange(N) / 7)


def said(table: tables.Table) -> str:
    return "\n".join(table.report().sentences())


def test_values_beyond_single_precision_are_missing_and_called_too_large():
    one = np.where(np.arange(N) == 100, 1e39, A)
    table = read(
        {
            "time": np.arange(N) / 50,
            "a": one,
            "b": B,
            "c": A * 1e300,
            "d": ["1e300", "x"] + ["1.5", "2.5"] * (N // 2 - 1),
        }
    )
    assert table.roles["c"] is Role.IGNORE  # not a label with the words inf and -inf
    assert np.flatnonzero(np.isnan(table.to_trials()[0].y[:, 0])).tolist() == [100]
    text = said(table)
    assert "1 values of 'a' are too large" in text
    assert f"{int((np.abs(A * 1e300) > 4e38).sum())} values of 'c' are too large" in text
    assert "1 values of 'd' are too large" in text
    assert "1 cells of 'd' are not numbers" in text


def test_large_numbers_vary_without_overflow():
    trials = read({"a": A, "b": B * 1e38}).to_trials()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held = principal_components(trials).variance_held
    plain = principal_components(read({"a": A, "b": B}).to_trials()).variance_held
    np.testing.assert_allclose(held, plain, rtol=1e-3)


def test_percent_and_thousands_are_read_and_said():
    values = np.round(A * 20_000, 2)
    english = [f"{v:,.2f}" for v in values]
    german = [v.translate(str.maketrans(",.", ".,")) for v in english]
    for written, wanted, says in (
        ([f"{v:.2f}%" for v in values / 100], np.round(values / 100, 2), "'a' is written in percent"),
        ([f"{v:.2f} %" for v in values / 100], np.round(values / 100, 2), "'a' is written in percent"),
        (english, values, "'a' separates thousands by commas, as in"),
        ([v.split(".")[0] for v in english[:1]] + english[1:], values, "separates thousands by commas"),
        (german, values, "'a' separates thousands by points, as in"),
    ):
        table = read({"a": written, "b": B}, sep=";")
        y = table.to_trials()[0].y[:, 0]
        np.testing.assert_allclose(y, wanted, atol=1, rtol=1e-6)
        assert says in said(table)


def test_a_comma_that_may_be_a_decimal_sign_stays_one():
    table = read({"a": [f"{v:.3f}".replace(".", ",") for v in A * 3], "b": B}, sep="\t")
    np.testing.assert_allclose(table.to_trials()[0].y[:, 0], A * 3, atol=1e-3)
    assert "thousands" not in said(table)


def test_a_column_with_too_many_words_is_left_out_with_a_reason():
    table = read({"a": [f"bad {i}" if i % 2 else v for i, v in enumerate(A)], "b": B})
    assert table.roles["a"] is Role.IGNORE
    assert f"{N // 2} cells of 'a' are not numbers, too many for a channel" in said(table)
    chosen = read({"a": [f"bad {i}" if i < 3 else v for i, v in enumerate(A)], "b": B})
    assert chosen.report({"b": "channel"}).notes == ()  # left out by choice


@pytest.mark.parametrize("name", ["when", "Datum", "recorded at", "B1"])
@pytest.mark.parametrize(
    "way",
    [
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S.%fZ",
        "%d.%m.%Y %H:%M:%S",
        "%d/%m/%Y %H:%M:%S",
        "%m/%d/%Y %I:%M:%S %p",
        "%H:%M:%S",
    ],
)
def test_dates_under_any_name_are_the_time(name: str, way: str):
    start = "2024-03-01 00:00" if way == "%H:%M:%S" else "2024-03-11 23:50"  # over a day's end, with days past the 12th
    step = 60 if way == "%H:%M:%S" else 600
    when = pd.date_range(start, periods=N, freq=f"{step}s").strftime(way)
    table = read({"a": A, name: when, "b": B})
    assert table.roles[name] is Role.TIME
    clock = table.clock()
    assert clock.rate_hz == pytest.approx(1 / step)
    assert clock.irregular == clock.backwards == 0


def test_points_put_the_day_first_even_in_the_first_days_of_a_month():
    when = pd.date_range("2024-03-01", periods=10, freq="D").strftime("%d.%m.%Y")
    clock = read({"Datum": when, "a": A[:10]}).clock()
    assert clock.rate_hz == pytest.approx(1 / 86_400)


@pytest.mark.parametrize("cell", ["999999999999999999999 10:00:00", "1:99999999999999999999:00", "99999999999:00:00"])
def test_a_time_without_end_is_missing(cell: str):
    when = [f"{i // 60}:{i % 60:02d}:00" for i in range(N)]
    when[7] = cell
    table = read({"a": A, "when": when})
    clock = table.clock()
    assert clock.rate_hz == pytest.approx(1 / 60)
    assert np.flatnonzero(np.isnan(clock.seconds)).tolist() == [7]


def test_words_and_days_of_sessions_are_no_time():
    table = read(
        {
            "a": A,
            "note": [f"seen at 5 s, no. {i}" for i in range(N)],
            "name": [f"M-{i}-{i}" for i in range(N)],
            "session": ["2024-03-01"] * (N // 2) + ["2024-03-02"] * (N // 2),
            "dose": [f"{i} m" for i in range(N)],  # pandas would take them for minutes
        }
    )
    assert Role.TIME not in table.roles.values()
    assert table.roles["session"] is Role.GROUP


@pytest.mark.parametrize("jump", [10.0, 0.07])
def test_a_single_jump_of_the_clock_is_named(jump: float):
    seconds = np.arange(N) / 50 + jump * (np.arange(N) > 200)
    assert f"the longest step is {jump + 0.02:.3g} s, where 0.02 s is usual" in said(read({"time": seconds, "a": A}))
    small = np.arange(N) / 50 + 0.03 * (np.arange(N) > 200)
    assert "longest" not in said(read({"time": small, "a": A}))


def test_a_jump_of_counted_frames_is_named():
    frames = np.arange(N) + 40 * (np.arange(N) > 200)
    assert "its longest step has 41 frames" in said(read({"time": frames, "a": A}))


@pytest.mark.parametrize(
    ("missing", "says"), [(1000, "100 %"), (999, "99 %"), (131, "13 %"), (12, "1.2 %"), (1, "0.1 %")]
)
def test_shares_are_plain_percent(missing: int, says: str):
    report = QualityReport(1000, (ChannelQuality("a", missing, 3, 0, 0.0, 1.0),))
    assert any(sentence.startswith(f"{says} of the values are missing") for sentence in report.sentences())
