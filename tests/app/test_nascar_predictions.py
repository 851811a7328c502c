"""Maps and predictions of the NASCAR lab: the last answer stays until the next, addresses, and moments that are held."""

from __future__ import annotations

import pytest

from gdm_core.engine.jobs import Job
from tests.support.drawn import record
from tests.support.nascar_page import opened, settled, text
from tests.support.sliders import slider


@pytest.fixture
def drawn(monkeypatch):
    return record(monkeypatch)


# ---- maps and predictions -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("view", "key"), [("Transitions", "plane"), ("Prediction", "envelope")])
def test_the_last_answer_stays_until_the_next_is_there(engine, drawn, view, key):
    app = opened(view=view)
    before, state = drawn[key]
    assert state == "fresh"
    engine.auto = False
    drawn.clear()
    slider(app, "K").set_value(6)
    app.run()
    assert drawn[key] == (before, "stale")
    engine.run(*engine.waiting("main"))
    drawn.clear()
    app.run()
    assert drawn[key] == (before, "stale"), "also while the new answer is worked out"
    assert "being worked out" not in text(app)
    engine.run_all()
    settled(app.run())
    assert drawn[key][1] == "fresh"


def test_a_figure_to_export_keeps_its_place_while_it_is_worked_out(engine, drawn):
    app = opened()
    engine.auto = False
    app.session_state["view"] = "Export & reproduce"
    app.run().selectbox(key="nascar-export-figure").set_value("Prediction").run()
    assert drawn["nascar-export-preview"][0] is None, "what is drawn in the place of the last figure"
    assert "This figure is being worked out." in text(app)
    engine.run_all()
    settled(app.run())
    assert drawn["nascar-export-preview"][0] is not None


@pytest.mark.bulk
def test_a_prediction_of_longer_data_stands_beside_its_own_observations(engine, drawn):
    app = opened(T="1000", view="Prediction", moment="900")
    before, _ = drawn["envelope"]
    engine.auto = False
    slider(app, "T").set_value(200)
    app.run()
    engine.run(*engine.waiting("main"))
    app.run()
    assert drawn["envelope"] == (before, "stale")


# ---- the address of a prediction ----------------------------------------------------------------------------------
def test_the_moment_of_a_prediction_is_in_the_address(engine, drawn):
    app = opened(view="Prediction", moment="40")
    assert slider(app, "moment").value == 40
    assert drawn["envelope"][0]["layout"]["shapes"][0]["x0"] == 40


def test_bands_learn_on_the_way_unless_they_are_kept_as_calibrated(engine, drawn):
    app = opened(view="Prediction")
    learning = drawn["envelope"][0]
    assert "with bands that learn on the way" in text(app)
    assert "90 % bands as calibrated hold" in text(app)
    app.toggle(key="adaptive").set_value(False)
    settled(app.run())
    assert "with bands as calibrated" in text(app)
    assert "90 % bands that learn on the way hold" in text(app)
    fixed = drawn["envelope"][0]
    middle = next(i for i, trace in enumerate(fixed["data"]) if "predicted" in trace.get("hovertemplate", ""))
    assert fixed["data"][middle]["y"] == learning["data"][middle]["y"], "the prediction itself is the same"
    assert fixed["data"] != learning["data"]


def test_an_address_may_keep_the_bands_as_calibrated(engine):
    assert "with bands as calibrated" in text(opened(view="Prediction", adaptive="false"))


@pytest.mark.parametrize("moment", ["99999", "-4", "soon"])
def test_an_address_may_name_any_moment(engine, moment):
    app = opened(view="Prediction", moment=moment)
    assert 0 <= slider(app, "moment").value <= 198


def test_a_shorter_trial_brings_the_moment_inside(engine):
    app = opened(T="1000", view="Prediction", moment="900")
    slider(app, "T").set_value(300)
    settled(app.run())
    assert 0 <= slider(app, "moment").value <= 298


def test_a_held_moment_or_horizon_waits_for_its_answer_and_nothing_else_does(engine, drawn, monkeypatch):
    app = opened(view="Prediction")
    engine.auto = False
    monkeypatch.setattr(Job, "wait", lambda job, timeout=None: engine.run(job).poll().status.final)
    slider(app, "moment").hold(60).run()
    assert (drawn["envelope"][0]["layout"]["shapes"][0]["x0"], drawn["envelope"][1]) == (60, "fresh")
    slider(app, "moment").set_value(61)
    slider(app, "horizon").hold(5).run()
    assert drawn["envelope"][0]["layout"]["shapes"][0]["x0"] == 61
    assert "5 steps ahead" in text(app)
    assert "moment" in app.query_params
    assert "horizon" not in app.query_params
    slider(app, "horizon").set_value(7).run()
    assert [job.slot for job in engine.waiting()] == ["ask-envelope-0"], "nobody waits for what comes after a release"
    assert drawn["envelope"][1] == "stale"
    engine.run_all()
    settled(app.run())
    assert "7 steps ahead" in text(app)
    assert app.query_params["horizon"] == "7"
