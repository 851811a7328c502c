"""Compare: settings side by side, what can be told of them, and what a visitor does with it."""

from __future__ import annotations

from typing import Any

import pytest

from gdm_core.engine.compare import CompareJob, Comparison
from gdm_core.errors import ConfigError
from pages.compare import grid, settings
from pages.ui import navigation
from tests.support.compared import fits, lines, made_up
from tests.support.drawn import record
from tests.support.nascar_page import live_of, settled, text
from tests.support.offered import offered
from tests.support.page import opened, pressed


@pytest.fixture(autouse=True)
def _made_up(engine, monkeypatch):
    fits.clear()
    settings.simulated.clear()
    monkeypatch.setattr("gdm_core.engine.compare.fitted_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.lines_to_beat", lines)
    monkeypatch.setattr(settings, "T", 240)


def test_a_first_visit_finds_what_can_be_told_and_what_cannot():
    app = opened("compare")
    said = text(app)
    assert "A GDM and C rSLDS cannot be told apart here; A GDM is ahead of B AR-HMM by" in said
    assert "95 % intervals over 12 blocks of the new trials and 3 seeds" in said
    assert "linear AR(1)" in said
    assert "Forecast density is what a forecast, made before the sample" in said
    assert "evidence" not in said.lower(), "that word was one for this and for the bound on a lab's card"
    assert len(fits) == 9


def test_another_setting_costs_only_its_own_fits():
    app = pressed(opened("compare"), "Add model")
    assert app.query_params["settings"] == "4"
    app.number_input(key="K-D").set_value(6).run()
    assert len(fits) == 12, "one more GDM; before, with the K of the first, it was known"
    assert "A GDM, K 4" in text(app)
    assert "D GDM, K 6" in text(app)


def test_a_setting_is_not_compared_with_itself():
    app = pressed(opened("compare"), "Add model")
    assert "D is the same setting as A, and is left out" in text(app)
    assert "D GDM" not in text(app)
    assert "A GDM and C rSLDS cannot be told apart here" in text(app)
    app.selectbox(key="stay-D").set_value("fix").run()
    app.number_input(key="gamma-D").set_value(0.9).run()
    assert "the same setting" not in text(app)
    assert "D GDM, γ 0.9" in text(app), "and keeps its name"
    pressed(app, "Remove model")
    assert app.query_params["settings"] == "3"


def test_a_fit_that_fails_leaves_the_others_standing():
    app = opened("compare", **{"model-B": "Decomposed LDS (p-dLDS)"})
    assert "B p-dLDS is left out" in text(app)
    assert "The fit diverged." in text(app)
    assert "C rSLDS" in text(app)
    assert "B p-dLDS by" not in text(app)


@pytest.mark.parametrize("tab", ["Differences", "Where they disagree", "Seeds", "Export"])
def test_every_tab_draws(tab):
    app = opened("compare", view=tab)
    assert "Nothing fitted yet" not in text(app)
    if tab == "Export":
        assert offered(app) >= {"Scores (CSV)", "Every block (CSV)"}


def test_moments_of_disagreement_come_one_after_the_other(monkeypatch):
    drawn = record(monkeypatch)
    app = opened("compare", view="Where they disagree", settings="3")
    app.selectbox(key="disagree-other").set_value("C rSLDS").run()
    assert "Moment" not in text(app)
    app = pressed(app, "Next moment")
    assert "Moment 1 of" in text(app)
    first = drawn["disagree-strips"][0]["layout"]["xaxis"]["range"]
    assert first[1] - first[0] < 240
    assert {"disagree-map-one", "disagree-map-the other"} <= set(drawn)
    app = pressed(app, "Next moment")
    assert "Moment 2 of" in text(app)
    assert drawn["disagree-strips"][0]["layout"]["xaxis"]["range"] != first


def test_other_numbers_of_states_fill_a_map_where_a_failure_is_a_mark(engine):
    app = opened("compare", view="Other K")
    assert len(fits) == 9
    app = pressed(app, "Fit 24 models")
    app.run()
    assert len(fits) == 9 + 23, "one of them was compared already"
    assert "24 fits of one seed" not in text(app)
    app.selectbox(key="model-B").set_value("pdlds").run()
    app.selectbox(key="grid-of").set_value("B").run()
    app = pressed(app, "Fit 6 models")
    app.run()
    asked = grid.settings_of(settings.ComparedSetting("B", "pdlds", "pdlds", {"n_states": 4, "n_latent": 2}), None)
    source = settings.simulated("nascar-soft", 0)
    made = grid.heat(CompareJob(Comparison(asked, (0,), source.train, source.test), engine, "one").poll(), None, "ten")
    assert [mark["text"] for mark in made["layout"]["annotations"]] == ["×"] * 6


def test_a_cell_of_the_map_leads_to_its_fit_on_the_page_of_the_data(engine):
    chosen = settings.ComparedSetting(
        "A", "gdm", "gdm", {"n_states": 4, "n_latent": 2, "temperature": 0.99, "stickiness": "learn"}
    )
    cell = grid.cell_at(chosen, "stickiness", {"x": "6", "y": "0.7"})
    assert cell is not None
    assert (cell.config["n_states"], cell.config["stickiness"]) == (6, 0.7)
    assert grid.cell_at(chosen, "stickiness", {"x": "6", "y": "none such"}) is None
    assert grid.cell_at(chosen, None, None) is None
    source = settings.simulated("nascar-standard", 3)
    wanted = live_of(settled(opened("nascar", **source.query(cell) | {"T": "240"})))._wanted
    assert wanted.train.fingerprint == source.train.fingerprint
    assert {**wanted.config, "seed": 0} == {**cell.config, "posterior": "window", "seed": 0}


def test_one_setting_and_one_seed_say_what_is_missing():
    app = opened("compare", settings="1", seeds="1", view="Where they disagree")
    assert "Add a second one" in text(app)
    app = opened("compare", settings="1", seeds="1", view="Seeds")
    assert "With two seeds or more" in text(app)


def test_links_that_ask_for_what_is_not_offered_say_so():
    app = opened("compare", settings="9", seeds="99")
    assert "1 to 6 are offered: 6 are shown" in text(app)
    assert "1 to 5 is offered: 5 is used" in text(app)


def test_much_work_waits_for_a_button(monkeypatch):
    monkeypatch.setattr("pages.compare.results.AT_ONCE", 100)
    app = opened("compare")
    assert "9 fits of 240 samples" in text(app)
    assert "That takes about 5 s" in text(app)
    assert not fits
    app = pressed(app, "Compare")
    assert len(fits) == 9
    app.run()
    assert "cannot be told apart" in text(app)


def test_data_of_another_page_are_compared_on_once_that_page_was_opened(engine):
    empty = opened("compare", data="What is open on: NASCAR lab")
    assert "Nothing is open on NASCAR lab in this session." in text(empty)
    assert not fits
    app = settled(opened("nascar", T="200", setting="Standard"))
    app.switch_page(str(navigation.info("compare").path)).run()
    app.selectbox(key="data").set_value("nascar").run()
    assert "standard track, 200 steps" in text(app)
    assert len(fits) > 0


def test_current_fit_is_added_as_a_model(engine):
    assert opened("compare").button(key="add-fit").disabled
    fitted = {"T": "200", "K": "5", "tau": "0.5", "stay": "Set it", "gamma": "0.31", "sees": "Places"}
    app = settled(opened("nascar", **fitted))
    app.switch_page(str(navigation.info("compare").path)).run()
    app.button(key="add-fit").click().run()
    assert app.query_params["settings"] == "4"
    assert "D GDM, K 5, τ 0.5, γ 0.31, states of places" in text(app)
    for _ in range(2):
        app.button(key="add-fit").click().run()
    assert app.button(key="add-fit").disabled, "six models at most"


def test_finished_fits_are_found_again_by_the_next_visitor():
    opened("compare")
    before = len(fits)
    opened("compare")
    assert len(fits) == before


def test_what_was_uploaded_is_not_kept(engine):
    source = settings.simulated("nascar-soft", 0)
    asked = Comparison({"A": ("gdm", {"n_states": 4})}, (0,), source.train, source.test, keep=False)
    CompareJob(asked, engine, "one")
    CompareJob(asked, engine, "another")
    assert len(fits) == 2, "nobody finds the answers of another visitor's upload"


def test_impossible_comparisons_are_refused():
    source = settings.simulated("nascar-soft", 0)
    sides = (source.train, source.test)
    with pytest.raises(ConfigError, match="no setting"):
        Comparison({}, (0,), *sides)
    with pytest.raises(ConfigError, match="each once"):
        Comparison({"A": ("gdm", {"n_states": 2})}, (0, 0), *sides)
    with pytest.raises(ConfigError, match="200 may be compared at once"):
        Comparison({"A": ("gdm", {"n_states": 2})}, tuple(range(300)), *sides)


def test_labels_name_what_differs_and_nothing_else():
    def one(letter: str, name: str, **config: Any) -> settings.ComparedSetting:
        return settings.ComparedSetting(letter, name, "gdm", config)

    same = [one("A", "gdm", n_states=4, temperature=0.5), one("B", "arhmm", n_states=4)]
    assert settings.labels(same) == ["A GDM", "B AR-HMM"]
    differ = [one("A", "gdm", n_states=4, temperature=0.5), one("B", "gdm", n_states=4, temperature=0.9)]
    assert settings.labels(differ) == ["A GDM, τ 0.5", "B GDM, τ 0.9"]
