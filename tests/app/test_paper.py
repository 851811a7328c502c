"""The Paper page as a script: stored tables and figures, and refits on request."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gdm_core.analysis.comparisons import Cell
from gdm_studio import paper
from gdm_studio.plot.figures.base import untyped
from pages.paper import numbers, panels
from pages.paper.notes import write_note
from pages.paper.panels import Material
from pages.ui.shipped import load_card
from pages.ui.table_files import table_files
from tests.support.compared import lines, made_up
from tests.support.drawn import record
from tests.support.page import opened


@pytest.fixture(autouse=True)
def _made_up(engine, monkeypatch):
    monkeypatch.setattr("gdm_core.engine.compare.fit_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.measure_baselines", lines)


def test_stored_table_is_shown_next_to_the_paper():
    app = opened("paper")
    shown, reconstructions = (table.value for table in app.table)
    assert shown.loc["GDM", "paper"] == f"**{numbers.PAPER['soft']['GDM']}**", "the best value is bold"
    assert shown.loc["rSLDS (RO)", "paper"] == numbers.PAPER["soft"]["rSLDS (RO)"]
    assert shown.loc["GDM, untrained", "paper"] == "–"
    assert shown.loc["GDM, untrained", "released code"] == numbers.RELEASED["soft"]["GDM, untrained"]
    ours = [
        cell.scores["paper_accuracy"] for one in paper.load().cells["table/soft/fair"] for cell in one["GDM"].values()
    ]
    assert shown.loc["GDM", "ours, new tracks"].startswith(f"**{sum(ours) / len(ours):.3f} ± ")
    assert list(reconstructions.index) == list(paper.TABLE_1)
    held_out, kept = (
        reconstructions[name].str.split().str[0].astype(float)
        for name in ("R², states of the held-out trial, new tracks", "R², states of the training trial, new tracks")
    )
    assert (held_out > 0.99).all()
    assert (kept < held_out).all()


def panel(name: str, **changes) -> Material:
    """Return the stored results of a panel, with other fits if given."""
    stored = paper.load()
    return Material(replace(stored, cells=stored.cells | changes), paper.experiment(name, 1), "soft", [])


def with_shares(shares: list[float]) -> Material:
    """Return results whose GDM of eight states uses them by these shares."""
    fit = Cell({}, {}, np.tile(np.array(shares, np.float32), (20, 1)), 1, 1, 0.0)
    return panel("formula1", formula1=[{f"GDM, K = {paper.SHOWN_STATES}": {0: fit}}])


def test_usage_note_counts_the_states_that_are_drawn():
    assert write_note("usage", with_shares([0.125] * 8)).startswith("All 8 states are used, 12% to 12%")
    assert write_note("usage", with_shares([0.5, 0.3, 0.2, 0, 0, 0, 0, 0])).startswith(
        "3 of 8 states are used, 20% to 50%"
    )


def test_notes_state_the_numbers_of_their_tables():
    app = opened("paper")
    row, untrained = (
        app.table[0].value.loc[name, "new tracks, matched accuracy"] for name in ("GDM", "GDM, untrained")
    )
    values = [float(cell.strip("*").split()[0]) for cell in (row, untrained)]
    assert "{:.2f} and {:.2f} by matched accuracy".format(*values) in write_note("table", panel("table/soft/fair"))
    app.radio(key="panel").set_value("mice").run()
    table, note = app.table[0].value["10-NN accuracy"], write_note("mice", panel("mice"))
    assert all(table[row] in note for row in ("GDM, ours", "majority class, ours", "majority class"))
    assert f"{load_card('behaviour').score.value:.3f}" in note, "the value on Home"


def test_note_waits_for_its_fits():
    assert write_note("usage", panel("formula1", formula1=[])) == ""
    assert write_note("table", panel("table/soft/fair", **{"table/soft/fair": []})) == ""


def test_best_values_are_bold():
    table = pd.DataFrame({"x": ["0.90 ± 0.01", "0.90", "0.89 ± 0.20"], "y": ["–"] * 3})
    assert panels.mark_best(table).to_dict("list") == {
        "x": ["**0.90 ± 0.01**", "**0.90**", "0.89 ± 0.20"],
        "y": ["–"] * 3,
    }


def test_every_panel_draws_from_stored_results(engine):
    app = opened("paper")
    for panel in ("nascar", "formula1", "usage", "mice"):
        app.radio(key="panel").set_value(panel).run()
        assert not engine.jobs, panel


def test_race_and_mice_panels_show_segments_and_trials(monkeypatch):
    drawn = record(monkeypatch)
    app = opened("paper")
    app.radio(key="panel").set_value("formula1").run()
    named = app.table[0].value
    assert list(named.columns) == ["GDM", "rSLDS (RO)"]
    assert len(named) == 16
    assert named["GDM"].str.startswith("S").all(), "every segment has a state"
    app.radio(key="panel").set_value("mice").run()
    traces = drawn["paper-by-trial"][0]["data"]
    assert {trace["mode"] for trace in traces} == {"markers"}, "no line joins two trials"
    means = [untyped(trace["x"]) for trace in traces if trace.get("error_y")]
    assert len(means) == len(paper.FIGURE_4)
    assert not set(means[0]) & set(means[1]), "next to each other"


def test_table_can_be_refitted_and_restored():
    app = opened("paper")
    stored = app.table[0].value.loc["GDM", "ours, new tracks"]
    (button,) = [each for each in app.button if each.label.startswith("Run ")]
    button.click().run()
    app.run()
    assert app.table[0].value.loc["GDM", "ours, new tracks"] != stored
    assert app.table[0].value.loc["p-dLDS", "ours, new tracks"] == "–"
    (button,) = [each for each in app.button if each.label == "Show stored results"]
    button.click().run()
    assert app.table[0].value.loc["GDM", "ours, new tracks"] == stored


def test_mouse_strips_group_states_by_label():
    states = np.array([[0.7, 0.1, 0.2], [0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.0, 0.1, 0.9]], np.float32)
    grouped = panels.group_by_label(states, np.array([2, 2, 0, 0]), 4)
    np.testing.assert_allclose(grouped[:, 2], states[:, 0])
    np.testing.assert_allclose(grouped[:, 0], states[:, 1] + states[:, 2])
    assert not grouped[:, [1, 3]].any()


def test_experiment_runs_on_other_data():
    lap, another = (
        paper.experiment("table/soft/paper", 1, 100).comparisons[0].train,
        paper.experiment("formula1", 1).comparisons[0].test,
    )
    asked = paper.with_data("formula1", lap, another, 2, keep=False)
    assert asked.name == "formula1/open"
    assert asked.comparisons[0].settings == paper.experiment("formula1").comparisons[0].settings
    assert asked.comparisons[0].train is lap
    assert not asked.comparisons[0].keep


def test_tables_are_files_that_typeset_and_read():
    table = pd.DataFrame({"a & b": ["**0.9 ± 0.1**", "–"]}, index=["GDM", "R² 5%"])
    files = table_files({"states": table})
    assert files["states.csv"].decode("utf-8-sig").splitlines()[1:] == ["GDM,0.9 ± 0.1", "R² 5%,–"]
    body = files["states.tex"].decode().splitlines()
    assert body[2] == r" & a \& b \\"
    assert body[4:6] == [r"GDM & \textbf{0.9 $\pm$ 0.1} \\", r"R$^2$ 5\% & -- \\"]
