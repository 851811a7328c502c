"""The Paper page as a script: stored tables and figures, and refits on request."""

from __future__ import annotations

import pytest

from gdm_studio import paper
from gdm_studio.plot.figures.base import untyped
from pages.paper import numbers, panels
from tests.support.compared import lines, made_up
from tests.support.drawn import record
from tests.support.page import opened


@pytest.fixture(autouse=True)
def _made_up(engine, monkeypatch):
    monkeypatch.setattr("gdm_core.engine.compare.fit_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.measure_baselines", lines)


def test_stored_table_is_shown_next_to_the_paper():
    app = opened("paper")
    (table,) = app.table
    shown = table.value
    assert shown.loc["GDM", "paper"] == f"**{numbers.PAPER['soft']['GDM']}**", "the best value is bold"
    assert shown.loc["rSLDS (RO)", "paper"] == numbers.PAPER["soft"]["rSLDS (RO)"]
    assert shown.loc["GDM, untrained", "paper"] == "–"
    assert shown.loc["GDM, untrained", "released code"] == numbers.RELEASED["soft"]["GDM, untrained"]
    ours = [
        cell.scores["paper_accuracy"] for one in paper.load().cells["table/soft/fair"] for cell in one["GDM"].values()
    ]
    assert shown.loc["GDM", "ours, fair"].startswith(f"**{sum(ours) / len(ours):.3f} ± ")


def test_best_values_are_bold():
    rows = {"a": {"x": "0.90 ± 0.01", "y": ""}, "b": {"x": "0.90", "y": ""}, "c": {"x": "0.89 ± 0.20"}}
    assert panels.with_best(rows) == {
        "a": {"x": "**0.90 ± 0.01**", "y": ""}, "b": {"x": "**0.90**", "y": ""}, "c": {"x": "0.89 ± 0.20"},
    }  # fmt: skip


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
    assert len(means) == 2, "GDM and rSLDS"
    assert not set(means[0]) & set(means[1]), "next to each other"


def test_table_can_be_refitted_and_restored():
    app = opened("paper")
    stored = app.table[0].value.loc["GDM", "ours, fair"]
    (button,) = [each for each in app.button if each.label.startswith("Run it now")]
    button.click().run()
    app.run()
    assert app.table[0].value.loc["GDM", "ours, fair"] != stored
    assert app.table[0].value.loc["p-dLDS", "ours, fair"] == "–"
    (button,) = [each for each in app.button if each.label == "Show what is stored"]
    button.click().run()
    assert app.table[0].value.loc["GDM", "ours, fair"] == stored


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
