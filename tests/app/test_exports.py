"""Exported tables, figures and scripts."""

import ast
import io
import json
import re
import subprocess
import sys
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pandas as pd
import pytest
import streamlit as st

from datasets.nascar import train_test
from gdm_core import load_model
from gdm_core.analysis.tables import states_table
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials
from gdm_core.units import STEPS
from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures import state_entropy
from pages.lab import Dataset
from pages.lab.export import files_of
from pages.ui import exports, legend, wheel
from tests.support.engine_requests import PATIENCE_S
from tests.support.offered import offered, script_of
from tests.support.page import opened
from tests.support.recording import reading_of
from tests.support.scripts import run_script

RECIPE = exports.Recipe(
    ["from gdm_studio.datasets.nascar import train_test"],
    ["train, test = ([trial] for trial in train_test('soft', seed=1, T=200))"],
)
FIT = exports.Fit("gdm", {"n_states": 3, "temperature": 0.5, "seed": 2, "n_latent": 2, "n_steps": 20}, (2, 0, 1))
STATES = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.5, 0.25, 0.25]], np.float32)
TRIAL = Trial(np.zeros((4, 2)), rate_hz=2.0, name="lap 1")


def file(label: str, trial: Trial, names: tuple[str, ...] = (), **more: Any) -> io.BytesIO:
    """Return an exported file of a trial whose states are `STATES`."""
    files = files_of(
        Dataset("laps", Trials((trial,)), Trials((trial,)), RECIPE), reading_of(trial, STATES, names, **more)
    )
    return io.BytesIO(dict((name, make) for name, make, _ in files)[label]())


# ---- tables -------------------------------------------------------------------------------------------------------
def test_states_csv_has_times_shares_and_entropy():
    table = pd.read_csv(file("States (CSV)", TRIAL))
    assert list(table.columns) == ["time", "frame", "p_1", "p_2", "p_3", "state", "entropy", "bout"]
    np.testing.assert_allclose(table["time"], [0, 0.5, 1, 1.5])
    np.testing.assert_allclose(table[["p_1", "p_2", "p_3"]], STATES, atol=1e-6)
    np.testing.assert_array_equal(table["state"], [1, 1, 2, 1])
    np.testing.assert_allclose(table["entropy"], state_entropy(STATES), atol=1e-6)


def test_bouts_cover_the_trial_without_gap():
    table = pd.read_csv(file("Bouts (CSV, as in BORIS)", TRIAL, ("rest", "run", "turn")))
    assert list(table["Behavior"]) == ["rest", "run", "rest"]
    np.testing.assert_allclose(table["Start (s)"], [0, 1, 1.5])
    np.testing.assert_allclose(table["Stop (s)"], [1, 1.5, 2])
    np.testing.assert_allclose(table["Duration (s)"], table["Stop (s)"] - table["Start (s)"])
    np.testing.assert_allclose(table["Mean share"], [0.65, 0.8, 0.5], atol=1e-4)
    assert {"Observation id", "Subject", "Behavior type"} <= set(table.columns)
    assert (table["Behavior type"] == "STATE").all()


def test_times_of_a_late_part_keep_their_precision():
    late = Trial(np.zeros((4, 2)), rate_hz=30.0, name="hours later", start_seconds=20_000.0)
    times = 20_000 + np.arange(5) / 30
    table = pd.read_csv(file("States (CSV)", late))
    np.testing.assert_allclose(table["time"], times[:4], atol=1e-6, rtol=0)
    bouts = pd.read_csv(file("Bouts (CSV, as in BORIS)", late))
    np.testing.assert_allclose(bouts["Start (s)"], times[[0, 2, 3]], atol=1e-6, rtol=0)
    np.testing.assert_allclose(bouts["Stop (s)"], times[[2, 3, 4]], atol=1e-6, rtol=0)


def test_bouts_without_a_clock_are_counted_in_steps():
    part = Trial(np.zeros((8, 2))).slice(4, 8)
    bouts = pd.read_csv(file("Bouts (CSV, as in BORIS)", part, unit=STEPS))
    assert not [name for name in bouts if "(s)" in name]
    assert bouts[["Start (step)", "Stop (step)", "Duration (step)"]].to_numpy().tolist() == [
        [4, 6, 2],
        [6, 7, 1],
        [7, 8, 1],
    ]


def test_states_of_another_trial_raise_data_error():
    with pytest.raises(DataError, match="4 samples"):
        states_table(STATES[:3], TRIAL)


def test_samples_without_observation_are_marked():
    assert "observed" not in states_table(STATES, TRIAL)
    y = np.zeros((len(STATES), 2))
    y[1], y[2, 0] = np.nan, np.nan
    assert states_table(STATES, Trial(y))["observed"].tolist() == [i != 1 for i in range(len(STATES))]


# ---- legends ------------------------------------------------------------------------------------------
def test_legend_names_every_colour_and_adds_height():
    plain = figures.state_strips({"a": STATES, "b": STATES})
    states = legend.states(3, ["rest", "run", "turn"], [0, 2])
    keyed = legend.with_key(plain, {"states": states, "expert": []})
    shown = [(trace["name"], trace["marker"]["color"]) for trace in keyed["data"] if trace.get("showlegend")]
    assert shown == [("rest", palette.colours(3)[0]), ("turn", palette.colours(3)[2])]
    assert keyed["height"] > plain["height"]
    many = legend.with_key(plain, {"states": states, "expert": [(f"label {i}", "#000000") for i in range(9)]})
    assert many["height"] > keyed["height"]
    assert many["widths"][0]["height"] > many["height"]
    assert [t["name"] for t in many["data"] if t.get("showlegend")][1:3] == ["states: turn", "expert: label 0"]
    assert legend.with_key(plain, {}) == plain


# ---- script and notebook ------------------------------------------------------------------------------------------
def test_script_and_notebook_hold_the_same_code():
    code = exports.script(RECIPE, FIT, "Title", "http://x/?K=3")
    ast.parse(code)
    book = json.loads(exports.notebook(RECIPE, FIT, "Title", "http://x/?K=3"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        ast.parse(cell)
        assert cell in code
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])


def test_title_with_quotes_is_escaped_in_the_script():
    title = 'Your data: a"""\\N{odd} "name".csv"'
    assert title in ast.get_docstring(ast.parse(exports.script(RECIPE, FIT, title)), clean=False)


@pytest.fixture
def page(engine, monkeypatch):
    """Open the export tab of the NASCAR lab with a real fit."""
    engine.real = True
    monkeypatch.setattr(type(st.context), "url", "http://localhost/nascar")  # without the query, as in a browser
    app = opened("nascar", T="200", K="3", seed="1", view="Export")
    for _ in range(3):
        app.run()
    return app


def test_script_reproduces_the_states_of_the_page(page, tmp_path):
    live = page.session_state["fit-nascar"]
    shown = live.poll()
    assert shown.status == "fresh"
    code = script_of(page)
    link = code.split('"""')[1].splitlines()[1]
    assert link.startswith("http://localhost/nascar?")
    query = dict(parse_qsl(urlsplit(link).query))
    assert {"T": "200", "K": "3", "seed": "1", "view": "Export"}.items() <= query.items()
    said = run_script(code, tmp_path)
    assert "Training trials: 1, samples: 200, channels: " in said
    assert re.search(r"State accuracy, held-out: 0\.\d{3} \(.+: 0\.\d{3}\)", said)
    with np.load(tmp_path / "states.npz") as file:
        again, new = file["trial_0"], file["new_trial_0"]
    table = pd.read_csv(tmp_path / "states.csv")
    np.testing.assert_allclose(table[["p_1", "p_2", "p_3"]], again, atol=1e-4)
    assert "plotly" in (tmp_path / "states.html").read_text(encoding="utf-8").lower()
    look = live.queries.latest("exact-states").value
    exact = look.train[0][:, list(shown.order)]
    np.testing.assert_allclose(again, exact, atol=1e-4)
    np.testing.assert_allclose(new, look.test[0][:, list(shown.order)], atol=1e-4)
    np.testing.assert_allclose(exact, shown.states[0], atol=0.01)
    model = load_model(tmp_path / "model.safetensors")
    train, _ = train_test("soft", 0, 200)
    np.testing.assert_allclose(model.predict_proba(train)[:, list(shown.order)], exact, atol=1e-4)


def test_script_without_the_package_tells_how_to_install_it(tmp_path):
    (tmp_path / "reproduce.py").write_text(exports.script(RECIPE, FIT, "T"))
    (tmp_path / "gdm_core.py").write_text("raise ModuleNotFoundError(\"No module named 'gdm_core'\")")
    done = subprocess.run(
        [sys.executable, "reproduce.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("No module named 'gdm_core'.")
    assert f"pip install {wheel.FILE}" in line


def test_every_figure_can_be_exported(page):
    page.run()  # the map and the prediction arrive with the next run
    names = page.selectbox(key="nascar-export-figure").options
    assert {"State map", "Transition matrix", "Prediction"} < set(names)
    for name in names:
        page.selectbox(key="nascar-export-figure").set_value(name).run()


def test_nothing_is_offered_before_the_first_result(engine):
    engine.auto = False
    app = opened("nascar", view="Export", seed="1")  # seed 0 has a precomputed result
    assert not offered(app)
