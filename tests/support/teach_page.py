"""The tab Teach of Your data under test: a file of three behaviours, and its controls."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from pages.lab.live import screen
from pages.recording.teach import lessons
from pages.ui import navigation
from tests.support.controls import control as by_name
from tests.support.live_engine import QuickEngine
from tests.support.sliders import sliders
from tests.support.taught import NAMES, labelled
from tests.support.your_data_page import ROOT, html

DATA = labelled(3, 400, seed=2)


def table(labels: bool = True) -> bytes:
    """The recordings as a file."""
    parts = []
    for i, trial in enumerate(DATA):
        columns = {"trial": i + 1, "time": (np.arange(trial.n_samples) / 30).round(4)}
        columns |= {name: trial.y[:, j].round(3) for j, name in enumerate("abcd")}
        parts.append(pd.DataFrame(columns | ({"label": np.array(NAMES)[trial.labels]} if labels else {})))
    return pd.concat(parts).to_csv(index=False).encode()


def real_engine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> QuickEngine:
    """What pages fit on: the models themselves, in this process."""
    made = QuickEngine(real=True)
    monkeypatch.setattr(screen, "engine", lambda: made)
    monkeypatch.setenv("GDM_DATA_DIR", str(folder))
    return made


def opened(labels: bool = True, fitted: bool = True) -> AppTest:
    """The page on a file, with the tab open and a fitted trial chosen."""
    app = AppTest.from_file(str(ROOT / "app.py")).run()
    app.query_params["view"] = "Teach"
    app = app.switch_page(str(navigation.info("your_data").path)).run()
    app.file_uploader(key="upload").upload("walk.csv", table(labels)).run()
    app.button(key="fit").click().run()
    assert not app.exception, app.exception[0].value
    if fitted:
        app.button(key="teach-go-fitted").click().run()
        assert not app.exception, app.exception[0].value
    return app


def mark(app: AppTest, begin: float, end: float, word: str) -> AppTest:
    """From, To, and the button of the word, or the word typed."""
    control(app, "number_input", f"teach-from-{trial(app)}").set_value(begin)
    control(app, "number_input", f"teach-to-{trial(app)}").set_value(end)
    known = word_buttons(app, word)
    if known:
        known[0].click().run()
    else:
        control(app, "text_input", "teach-word").set_value(word).run()
        app.button(key="teach-name").click().run()
    assert not app.exception, app.exception[0].value
    return app


def word_buttons(app: AppTest, word: str) -> list:
    """The button of a word, which may have the number of its key behind it."""
    known = [button for button in app.button if str(button.key).startswith("teach-is-")]
    return [button for button in known if re.fullmatch(rf"{re.escape(word)}( \(\d\))?", button.label)]


def control(app: AppTest, kind: str, name: str):
    """The one control whose key begins so."""
    shown = sliders(app) if kind == "slider" else getattr(app, kind)
    found = [one for one in shown if str(one.key).startswith(f"{name}-")] if "teach" in name else []
    return found[0] if len(found) == 1 else by_name(app, kind, name)


def trial(app: AppTest) -> int:
    return int(str(control(app, "selectbox", "trial").value).split("-")[1])


def kept(app: AppTest) -> lessons.Lesson:
    of = str(control(app, "file_uploader", "teach-file").key).rsplit("-", 1)[1]
    place = f"_marks-{of}"
    return app.session_state[place] if place in app.session_state else lessons.Lesson()


def said(app: AppTest) -> str:
    return html(app)


def bouts(index: int = 0) -> list[tuple[float, float, str]]:
    """What was seen when, in seconds, without the edges."""
    known = np.asarray(DATA[index].labels)
    edges = (np.flatnonzero(np.diff(known)) + 1).tolist()
    return [((a + 3) / 30, (b - 3) / 30, NAMES[known[a]]) for a, b in itertools.pairwise(edges)]


def drawn(app: AppTest, key: str) -> dict:
    for element in app.get("bidi_component"):
        data = json.loads(element.proto.json) if element.proto.json else {}
        if key in str(element.proto.id) and "figure" in data:
            return dict(data["figure"])
    raise AssertionError(f"no figure {key}")
