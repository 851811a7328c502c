"""What an expert saw, in pictures: more labels than colours, only one of them, and what can then be said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from pages.lab.labels import OTHERS, Words
from pages.ui import navigation
from tests.support.drawn import words

ROOT = Path(__file__).resolve().parents[2]
TABS = ["Bouts", "Shares", "Transitions", "Trials", "Features", "Export & reproduce"]


def table(labels: list[str]) -> bytes:
    """Two channels at 50 a second, with a label for each row."""
    turn = np.arange(len(labels)) / 9
    columns = {"time": np.arange(len(labels)) / 50, "a": np.cos(turn), "b": np.sin(turn), "label": labels}
    return pd.DataFrame(columns).to_csv(index=False).encode()


def fitted(content: bytes, tab: str = "Bouts") -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py")).run()
    app.query_params["view"] = tab
    app = app.switch_page(str(navigation.info("your_data").path)).run()
    app.file_uploader(key="upload").upload("walk.csv", content).run()
    app.button(key="fit").click().run()
    assert not app.exception, app.exception[0].value
    return app


def html(app: AppTest) -> str:
    return words(app)


# ---- words --------------------------------------------------------------------------------------------------------
def test_twelve_labels_keep_a_colour_each():
    names = [f"L{k}" for k in range(12)]
    words = Words.of(names, [np.arange(12), None])
    assert words.names == tuple(names)
    assert words.remark == ""
    np.testing.assert_array_equal(words.grouped([3, -1, 11, 99]), [3, -1, 11, -1])


def test_of_more_labels_the_commonest_keep_their_colour_and_the_rest_share_one():
    labels = np.repeat(np.arange(20), np.r_[np.full(9, 2), np.full(11, 9)])
    words = Words.of([f"L{k}" for k in range(20)], [labels])
    assert words.names == (*(f"L{k}" for k in range(9, 20)), OTHERS)
    assert words.grouped([0, 8, 9, 19, -1]).tolist() == [11, 11, 0, 10, -1]
    assert "other 9 share one" in words.remark
    hot = words.hot(labels)
    assert hot.shape == (len(labels), 12)
    np.testing.assert_allclose(hot[:, 11].sum(), 18)


def test_labels_without_a_name_are_numbered_and_no_labels_are_no_words():
    assert Words.of(["rest"], [np.array([0, 2])]).names == ("rest", "behaviour 2", "behaviour 3")
    assert Words.of(["rest"], [np.array([-1, -1]), None]) is None
    assert Words.of([], []) is None


# ---- the page -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tab", TABS)
def test_thirty_labels_are_drawn_in_every_tab(engine, tab):
    labels = [f"L{k}" for _ in range(10) for k in range(30) for _ in range(1 + (k > 18))]
    app = fitted(table(labels), tab)
    text = html(app)
    assert "Macro-F1" in text
    assert f"{OTHERS}</span>" in text
    assert "L29</span>" in text
    assert "L3</span>" not in text, "a rare one has no colour of its own"
