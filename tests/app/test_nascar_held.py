"""The NASCAR lab while a thumb is held: what the server shows at once, and what the browser draws by itself."""

from __future__ import annotations

import base64

import numpy as np

from gdm_core.analysis import looks
from pages.lab import held
from pages.nascar import pictures
from tests.support.drawn import record
from tests.support.nascar_page import browser_draws, live_of, opened, settled
from tests.support.sliders import slider


def test_a_held_slider_of_the_track_shows_the_data_at_once(engine, monkeypatch):
    drawn = record(monkeypatch, pictures)
    app = opened()
    jobs, before = len(engine.jobs), drawn["channels"][0]["data"][0]["z"]["bdata"]
    address = dict(app.query_params)
    slider(app, "standard.noise").hold(0.5).run()
    assert not app.exception
    assert drawn["channels"][0]["data"][0]["z"]["bdata"] != before
    assert drawn["inferred-track"][1] == "preview"
    assert len(engine.jobs) == jobs, "nothing is fitted before it is let go"
    assert app.query_params == address
    slider(app, "T").hold(400).run()
    assert live_of(app).poll().wanted.train.n_samples == 400
    assert drawn["true-track"][0]["alt"] != ""
    slider(app, "T").set_value(400)
    settled(slider(app, "standard.noise").set_value(0.5).run())
    assert len(engine.jobs) > jobs
    assert drawn["inferred-track"][1] == "fresh"
    assert app.query_params["standard.noise"] == "0.5"


# ---- what the browser draws by itself -------------------------------------------------------------------------------
def test_a_held_softness_brings_the_states_of_the_standing_fit_at_all_values_once(engine):
    app = opened(seed="1")
    assert set(browser_draws(app)) == {"offers"}, "nobody pays for a slider that is not moved"
    fitted = live_of(app).poll().result
    slider(app, "tau").hold(0.5).run()
    sent = browser_draws(app.run())
    assert (sent["slider"], sent["shape"]) == ("tau", [len(sent["values"]), 200, 4])
    assert set(sent["figures"]) == {"inferred-track", "overview", "strips"}
    shown = live_of(app).poll()
    trials = live_of(app)._wanted.train
    states = np.frombuffer(base64.b64decode(sent["states"]["bdata"]), np.uint8).reshape(sent["shape"])
    for i in (0, 20):
        (exact,) = looks.first_look(fitted.model_bytes, trials, {"temperature": sent["values"][i]})
        np.testing.assert_allclose(states[i] / 255, exact[:, list(shown.order)], atol=0.003)
    jobs = len(engine.jobs)
    slider(app, "tau").hold(0.9).run()
    assert browser_draws(app.run()) == sent
    assert len(engine.jobs) == jobs, "asked once for a movement"
    slider(app, "tau").set_value(0.9).run()
    assert set(browser_draws(app)) == {"offers"}


def test_only_the_server_draws_what_the_browser_has_no_states_of(engine, monkeypatch):
    app = opened(seed="1", trial="New trial")
    slider(app, "tau").hold(0.5).run()
    assert browser_draws(app.run()) == {"offers": {}}, "a new trial is read when the fit is done"
    app = opened(seed="1")
    monkeypatch.setattr(held, "MOST", 100)
    slider(app, "tau").hold(0.5).run()
    assert browser_draws(app.run()) == {"offers": {}}, "states of long trials are too much to send"
    slider(app, "K").hold(5).run()
    assert browser_draws(app.run()) == {"offers": {}}
