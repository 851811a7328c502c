"""Labelling on Your data, with a file of three behaviours and a fake desk."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.testing.v1 import AppTest

from pages.lab.labelling import labels
from pages.lab.labelling.labels import Labels
from pages.lab.upload import file as intake
from tests.support import page
from tests.support.controls import control as control
from tests.support.labelled import NAMES, simulate
from tests.support.your_data_page import html as html
from tests.support.your_data_page import upload

DATA = simulate(3, 400, seed=2)


class Desk:
    """A fake desk that stores the page's last data and sends marks."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.message: Any = None

    def __call__(self, key: str, data: dict[str, Any], on_marks_change: Any) -> None:
        self.data = data
        if self.message is not None:
            st.session_state[key] = {"marks": self.message}
            self.message = None
            on_marks_change()

    def send(self, app: AppTest, marks: Any, **fields: Any) -> AppTest:
        """Send the marks of the chosen trial, as the browser does."""
        self.message = {"trial": self.data["trial"], "revision": self.data["revision"], "marks": marks, **fields}
        app.run()
        return app.run()

    def label(self, app: AppTest, n: int) -> AppTest:
        """Label the first bouts of the trial as the expert does."""
        return self.send(app, bouts()[:n])


def table(known: bool = True) -> bytes:
    """Return the recordings as a file."""
    parts = []
    for i, trial in enumerate(DATA):
        columns = {"trial": i + 1, "time": (np.arange(trial.n_samples) / 30).round(4)}
        columns |= {f"c{j}": trial.y[:, j].round(3) for j in range(4)}
        parts.append(pd.DataFrame(columns | ({"label": np.array(NAMES)[trial.labels]} if known else {})))
    return pd.concat(parts).to_csv(index=False).encode()


def opened(known: bool = True) -> AppTest:
    """Open the page on a file, with the tab open and a training trial selected."""
    app = upload(page.opened("your_data", view="Labels", labels="Labelling"), "walk.csv", table(known))
    app.button(key="fit").click().run()
    return choose(app, "fit-0")


def choose(app: AppTest, trial: str) -> AppTest:
    return control(app, "selectbox", "trial").set_value(trial).run()


def trial(app: AppTest) -> str:
    return str(control(app, "selectbox", "trial").value)


def stored_labels(app: AppTest) -> Labels:
    of = labels.key_of(app.session_state[f"{intake.KEPT}-made"][1])
    return app.session_state[f"_labels-{of}"] if f"_labels-{of}" in app.session_state else Labels()


def bouts(index: int = 0) -> list[list[Any]]:
    """Return the expert's bouts without their edges, as [start, stop, label]."""
    known = np.asarray(DATA[index].labels)
    edges = (np.flatnonzero(np.diff(known)) + 1).tolist()
    return [[a + 3, b - 3, NAMES[known[a]]] for a, b in itertools.pairwise(edges)]
