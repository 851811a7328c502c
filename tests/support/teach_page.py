"""The tab Teach of Your data under test: a file of three behaviours, and its controls."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
from streamlit.testing.v1 import AppTest

from gdm_core.trials import Trials
from pages.lab.teach import lessons
from pages.lab.teach.lessons import Entry
from tests.support import page
from tests.support.controls import control as by_name
from tests.support.sliders import sliders
from tests.support.taught import NAMES, labelled
from tests.support.your_data_page import html, upload

DATA = labelled(3, 400, seed=2)


def table(labels: bool = True) -> bytes:
    """The recordings as a file."""
    parts = []
    for i, trial in enumerate(DATA):
        columns = {"trial": i + 1, "time": (np.arange(trial.n_samples) / 30).round(4)}
        columns |= {name: trial.y[:, j].round(3) for j, name in enumerate("abcd")}
        parts.append(pd.DataFrame(columns | ({"label": np.array(NAMES)[trial.labels]} if labels else {})))
    return pd.concat(parts).to_csv(index=False).encode()


def opened(labels: bool = True, in_fitted: bool = True) -> AppTest:
    """The page on a file, with the tab open and a fitted trial chosen."""
    app = upload(page.opened("your_data", view="Teach"), "walk.csv", table(labels))
    app.button(key="fit").click().run()
    if not in_fitted:
        control(app, "selectbox", "trial").set_value("new-2").run()
    return app


def tab(app: AppTest, name: str) -> AppTest:
    """Turn to another tab."""
    app.query_params["view"] = name
    app.session_state["view"] = name
    return app.run()


def mark(app: AppTest, *stretches: tuple[float, float, str]) -> AppTest:
    """Stretches of the trial that is looked at, (from, to, word) in seconds, as the desk says them at once."""
    where = name(trial(app))
    return do(app, *(Entry("mark", where, round(30 * begin), round(30 * end), word) for begin, end, word in stretches))


def taught(app: AppTest, n: int = 5) -> AppTest:
    """As many bouts marked, in one message of the desk: one lesson."""
    return mark(app, *((round(begin, 2), round(end, 2), word) for begin, end, word in bouts()[:n]))


def do(app: AppTest, *entries: Entry) -> AppTest:
    """What the desk says; the page runs once."""
    lesson = kept(app)
    for entry in entries:
        lesson = lessons.after(lesson, entry, fitted())
    app.session_state[place(app)] = lesson
    app.run()
    return app


def fitted() -> Trials:
    """What marks may lie in, as the page calls them: all but the last of the trials."""
    return replace(DATA, trials=tuple(replace(one, name=name(i)) for i, one in enumerate(DATA.trials[:-1])))


def name(index: int) -> str:
    """What the page calls a trial of the file."""
    return f"trial {index + 1}"


def desk(app: AppTest) -> dict:
    """What the desk was given last."""
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return next(data for data in found if "clips" in data)


def word_buttons(app: AppTest, word: str) -> list:
    """The button of a word, on a page without a desk."""
    return [button for button in app.button if str(button.key).startswith("teach-is-") and button.label == word]


def control(app: AppTest, kind: str, name: str):
    """The one control whose key begins so."""
    shown = sliders(app) if kind == "slider" else getattr(app, kind)
    found = [one for one in shown if str(one.key).startswith(f"{name}-")] if "teach" in name else []
    return found[0] if len(found) == 1 else by_name(app, kind, name)


def trial(app: AppTest) -> int:
    return int(str(control(app, "selectbox", "trial").value).split("-")[1])


def place(app: AppTest) -> str:
    of = str(control(app, "file_uploader", "teach-file").key).rsplit("-", 1)[1]
    return f"_marks-{of}"


def kept(app: AppTest) -> lessons.Lesson:
    return app.session_state[place(app)] if place(app) in app.session_state else lessons.Lesson()


said = html


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
