"""The Compare page as a script, with fits that take no time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdm_core.engine.compare import Compared, Comparison
from gdm_core.errors import ConfigError
from gdm_core.trials import Trial, Trials
from pages.compare import grid, pictures, results, settings
from pages.lab.card import OPEN_ON
from pages.ui import navigation
from tests.support.compared import fits, lines, made_up
from tests.support.drawn import record
from tests.support.nascar_page import live_of, settled, text
from tests.support.page import opened, pressed


@pytest.fixture(autouse=True)
def _made_up(engine, monkeypatch):
    fits.clear()
    settings.simulated.clear()
    monkeypatch.setattr("gdm_core.engine.compare.fit_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.measure_baselines", lines)
    monkeypatch.setattr(settings, "T", 240)


def test_first_visit_compares_three_models_over_three_seeds():
    app = opened("compare")
    for name in ("A GDM", "B AR-HMM", "C rSLDS"):
        assert name in text(app)
    assert "linear AR(1)" in app.table[0].value.index
    assert len(fits) == 9


def test_every_tab_draws_its_figures(monkeypatch):
    drawn, made = record(monkeypatch), list[Any]()
    app = opened("compare")
    app.session_state["view"] = "Differences"
    app.run()
    assert "differences" in drawn
    monkeypatch.setattr(results, "download_all", lambda name, make, **_: made.append(make()))
    app.session_state["view"] = "Export"
    app.run()
    ((figures, files),) = made
    assert set(figures) >= {"track-ground-truth", "strips", "differences-states"}
    assert set(files) == {"scores.csv", "scores.tex", "blocks.csv", "blocks.parquet"}


def test_added_model_starts_only_its_own_fits():
    app = pressed(opened("compare"), "Add model")
    assert app.query_params["settings"] == "4"
    app.number_input(key="K-D").set_value(6).run()
    assert len(fits) == 12, "the added copy of A needed no fits"
    assert "A GDM, K 4" in text(app)
    assert "D GDM, K 6" in text(app)


def test_duplicate_model_is_left_out():
    app = pressed(opened("compare"), "Add model")
    assert "D GDM" not in text(app)
    app.selectbox(key="stay-D").set_value("fix").run()
    app.number_input(key="gamma-D").set_value(0.9).run()
    assert "D GDM, γ 0.9" in text(app)
    pressed(app, "Remove model")
    assert "settings" not in app.query_params, "the default is left out"


def test_failed_model_is_left_out():
    app = opened("compare", **{"model-B": "Decomposed LDS (p-dLDS)"})
    assert "B p-dLDS failed" in text(app)
    assert "The fit diverged." in text(app)
    assert "C rSLDS" in text(app)
    assert "B p-dLDS by" not in text(app)
    scores = app.table[0].value
    assert scores.loc["B p-dLDS", "failed"] == "The fit diverged."
    assert (scores.loc["B p-dLDS"].drop("failed") == "–").all()


def test_scores_show_four_columns_until_all_are_requested():
    app = opened("compare")
    assert list(app.table[0].value.columns) == [
        "State accuracy",
        "Forecast density (nats)",
        "Forecast R², 10 steps",
        "90% coverage",
    ]
    app = next(box for box in app.toggle if box.label == "All scores").set_value(True).run()
    assert {"Forecast R², 1 step", "Parameters"} <= set(app.table[0].value.columns)


def test_long_recording_is_shown_in_days():
    trials = Trials((Trial(np.zeros((20_000, 1), np.float32), 1 / 60),), name="home cage")
    axis = pictures.timing(settings.ComparedData("", trials, trials, unit="s"), 2)
    assert axis == {"step": pytest.approx(2 / 1440), "unit": "days"}


def test_map_over_k_marks_failed_fits(engine):
    app = opened("compare", view="Number of states")
    assert len(fits) == 9
    app = pressed(app, "Fit 24 models")
    app.run()
    assert len(fits) == 9 + 23, "one of them was fitted already"
    app.selectbox(key="model-B").set_value("pdlds").run()
    app.selectbox(key="grid-of").set_value("B").run()
    app = pressed(app, "Fit 6 models")
    app.run()
    asked = grid.settings_of(settings.ComparedSetting("B", "pdlds", "pdlds", {"n_states": 4, "n_latent": 2}), None)
    source = settings.simulated("nascar-soft", 0)
    made = grid.heat(Comparison(asked, (0,), source.train, source.test).run(engine), None, "ten")
    assert [mark["text"] for mark in made["layout"]["annotations"]] == ["×"] * 6


def test_cell_of_the_map_links_to_its_fit(engine):
    chosen = settings.ComparedSetting(
        "A", "gdm", "gdm", {"n_states": 4, "n_latent": 2, "temperature": 0.99, "stickiness": "learn"}
    )
    cell = grid.cell_at(chosen, "stickiness", {"x": "6", "y": "0.7"})
    assert cell is not None
    assert (cell.config["n_states"], cell.config["stickiness"]) == (6, 0.7)
    assert grid.cell_at(chosen, "stickiness", {"x": "6", "y": "none such"}) is None
    assert grid.cell_at(chosen, None, None) is None
    source = settings.simulated("nascar-standard", 3)
    wanted = live_of(settled(opened("nascar", **source.query(cell) | {"T": "240"}))).spec
    assert wanted.trials.fingerprint == source.train.fingerprint
    assert {**wanted.config, "seed": 0} == {**cell.config, "posterior": "window", "seed": 0}


def test_long_comparison_waits_for_a_click(monkeypatch):
    monkeypatch.setattr("pages.compare.results.AT_ONCE", 100)
    app = opened("compare")
    assert not fits
    pressed(app, "Compare")
    assert len(fits) == 9


def test_data_of_an_open_page_can_be_compared(engine):
    opened("compare", data=OPEN_ON.format("NASCAR lab"))
    assert not fits
    app = settled(opened("nascar", T="200", scenario="Standard"))
    app.switch_page(str(navigation.info("compare").path)).run()
    app.selectbox(key="data").set_value("nascar").run()
    assert len(fits) > 0


def test_current_fit_is_added_as_a_model(engine):
    assert opened("compare").button(key="add-fit").disabled
    fitted = {"T": "200", "K": "5", "tau": "0.5", "stay": "Set by hand", "gamma": "0.31", "sees": "Position"}
    app = settled(opened("nascar", **fitted))
    app.switch_page(str(navigation.info("compare").path)).run()
    app.button(key="add-fit").click().run()
    assert app.query_params["settings"] == "4"
    assert "D GDM, K 5, τ 0.5, γ 0.31, states by position" in text(app)
    for _ in range(2):
        app.button(key="add-fit").click().run()
    assert app.button(key="add-fit").disabled, "six models at most"


def test_comparison_of_uploaded_data_is_not_cached(engine):
    source = settings.simulated("nascar-soft", 0)
    asked = Comparison({"A": ("gdm", {"n_states": 4})}, (0,), source.train, source.test, keep=False)
    asked.start(engine, "one")
    asked.start(engine, "another")
    assert len(fits) == 2


def test_impossible_comparison_raises_config_error():
    source = settings.simulated("nascar-soft", 0)
    sides = (source.train, source.test)
    with pytest.raises(ConfigError, match="no setting"):
        Comparison({}, (0,), *sides)
    with pytest.raises(ConfigError, match="each once"):
        Comparison({"A": ("gdm", {"n_states": 2})}, (0, 0), *sides)
    with pytest.raises(ConfigError, match="the limit is 200"):
        Comparison({"A": ("gdm", {"n_states": 2})}, tuple(range(300)), *sides)


def test_model_labels_name_only_what_differs():
    def one(letter: str, name: str, **config: Any) -> settings.ComparedSetting:
        return settings.ComparedSetting(letter, name, "gdm", config)

    same = [one("A", "gdm", n_states=4, temperature=0.5), one("B", "arhmm", n_states=4)]
    assert settings.labels(same) == ["A GDM", "B AR-HMM"]
    differ = [one("A", "gdm", n_states=4, temperature=0.5), one("B", "gdm", n_states=4, temperature=0.9)]
    assert settings.labels(differ) == ["A GDM, τ 0.5", "B GDM, τ 0.9"]


def test_truth_and_shipped_states_are_there_before_any_fit(engine, monkeypatch):
    monkeypatch.setattr(settings, "T", 1000)
    source = settings.simulated("nascar-soft", 0)
    one = settings.ComparedSetting(
        "A", "gdm", "gdm",
        {"n_states": 4, "n_latent": 2, "temperature": 0.99, "stickiness": "learn", "posterior": "window"},
    )  # fmt: skip
    known = pictures.find_shipped(source, [one, replace(one, letter="B", config=one.config | {"temperature": 0.6})])
    (label,) = known
    found = Compared(2, False, {label: {}, "B": {}}, {}, {})
    assert list(pictures.align(source, found, 1, known)) == [pictures.TRUTH, label]
