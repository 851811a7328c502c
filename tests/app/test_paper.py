"""Paper: every table and figure draws from what ships, and is run anew on request."""

from __future__ import annotations

import pytest

from gdm_studio import paper
from gdm_studio.plot.figures.base import untyped
from pages.paper import numbers, panels
from tests.support.compared import lines, made_up
from tests.support.drawn import record
from tests.support.nascar_page import text
from tests.support.page import opened


@pytest.fixture(autouse=True)
def _made_up(engine, monkeypatch):
    monkeypatch.setattr("gdm_core.engine.compare.fitted_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.lines_to_beat", lines)


def test_the_table_stands_at_once_beside_the_papers_numbers():
    app = opened("paper")
    (table,) = app.table
    shown = table.value
    assert shown.loc["GDM", "paper"] == f"**{numbers.PAPER['soft']['GDM']}**", "the best of its column"
    assert shown.loc["rSLDS (RO)", "paper"] == numbers.PAPER["soft"]["rSLDS (RO)"]
    assert shown.loc["GDM, untrained", "paper"] == "–"
    assert shown.loc["GDM, untrained", "released code"] == numbers.RELEASED["soft"]["GDM, untrained"]
    ours = [
        cell.scores["paper_accuracy"] for one in paper.load().cells["table/soft/fair"] for cell in one["GDM"].values()
    ]
    assert shown.loc["GDM", "ours, fair"].startswith(f"**{sum(ours) / len(ours):.3f} ± ")


def test_all_that_are_printed_as_the_best_are_marked():
    rows = {"a": {"x": "0.90 ± 0.01", "y": ""}, "b": {"x": "0.90", "y": ""}, "c": {"x": "0.89 ± 0.20"}}
    assert panels.with_best(rows) == {
        "a": {"x": "**0.90 ± 0.01**", "y": ""}, "b": {"x": "**0.90**", "y": ""}, "c": {"x": "0.89 ± 0.20"},
    }  # fmt: skip


@pytest.mark.parametrize("panel", ["nascar", "formula1", "usage", "mice"])
def test_every_figure_draws_from_what_ships(panel):
    app = opened("paper")
    app.radio(key="panel").set_value(panel).run()
    assert "What to make of it" in text(app)
    assert "under way" not in text(app)


def test_the_race_names_the_states_of_each_segment_and_the_mice_have_a_dot_for_each_trial(monkeypatch):
    drawn = record(monkeypatch)
    app = opened("paper")
    app.radio(key="panel").set_value("formula1").run()
    named = app.table[0].value
    assert list(named.columns) == ["GDM", "rSLDS (RO)"]
    assert len(named) == 16
    assert named["GDM"].str.startswith("S").all(), "the paper's rule names a state for every segment"
    app.radio(key="panel").set_value("mice").run()
    traces = drawn["paper-by-trial"][0]["data"]
    assert {trace["mode"] for trace in traces} == {"markers"}, "nothing lies between two trials"
    means = [untyped(trace["x"]) for trace in traces if trace.get("error_y")]
    assert len(means) == 2, "GDM and rSLDS"
    assert not set(means[0]) & set(means[1]), "side by side"


def test_a_table_is_run_anew_and_what_is_stored_comes_back():
    app = opened("paper")
    stored = app.table[0].value.loc["GDM", "ours, fair"]
    (button,) = [each for each in app.button if each.label.startswith("Run it now")]
    assert button.label == "Run it now: 12 fits"
    button.click().run()
    app.run()
    assert "Measured now: 12 fits" in text(app)
    assert "p-dLDS is left out: The fit diverged." in text(app)
    assert app.table[0].value.loc["p-dLDS", "ours, fair"] == "–"
    (button,) = [each for each in app.button if each.label == "Show what is stored"]
    button.click().run()
    assert app.table[0].value.loc["GDM", "ours, fair"] == stored


def test_data_of_ones_own_are_asked_for_where_none_are_open():
    app = opened("paper")
    app.radio(key="panel").set_value("formula1").run()
    app.radio(key="on-formula1").set_value("open").run()
    assert "Nothing is open on Formula 1 in this session." in text(app)


def test_an_experiment_runs_on_data_of_ones_own():
    lap, another = (
        paper.experiment("table/soft/paper", 1, 100).comparisons[0].train,
        paper.experiment("formula1", 1).comparisons[0].test,
    )
    asked = paper.on("formula1", lap, another, 2, keep=False)
    assert asked.name == "formula1/open"
    assert asked.comparisons[0].settings == paper.experiment("formula1").comparisons[0].settings
    assert asked.comparisons[0].train is lap
    assert not asked.comparisons[0].keep
