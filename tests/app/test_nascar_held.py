"""The NASCAR lab while a thumb is held: what the server shows at once, and what the browser draws by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdm_core.analysis import looks
from pages.lab import held
from pages.lab.live import session
from tests.support.drawn import record
from tests.support.held import offers, shares, tables
from tests.support.nascar_page import live_of, opened, settled
from tests.support.sliders import slider


def test_a_held_slider_of_the_track_shows_the_data_at_once(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened()
    jobs, before = len(engine.jobs), drawn["channels"][0]["data"][0]["z"]["bdata"]
    address = dict(app.query_params)
    slider(app, "standard.noise").hold(0.5).run()
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
    assert set(offers(app)) == {"K", "tau", "gamma"}
    fitted, jobs = live_of(app).poll().result, len(engine.jobs)
    sent = tables(app, "tau")
    assert len(engine.jobs) == jobs + 1, "nobody pays for a slider that is not moved"
    (table,) = sent["tables"]
    states = shares(table["parts"]["states"])
    assert states.shape == (len(table["values"]), 200, 4)
    assert set(sent["figures"]) == {"inferred-track", "overview", "strips"}
    shown = live_of(app).poll()
    trials = live_of(app)._wanted.train
    for i in (0, 20):
        (exact,) = looks.first_look(fitted.model_bytes, trials, {"temperature": table["values"][i]})
        np.testing.assert_allclose(states[i], exact[:, list(shown.order)], atol=0.003)
    assert tables(app, "tau") == sent
    assert len(engine.jobs) == jobs + 1, "asked once for a movement"
    assert tables(app, "no such slider") == {"of": "", "tables": [], "more": False}, "anybody may send anything"


def test_a_new_trial_follows_as_the_standing_fit_reads_it(engine):
    app = opened(seed="1", trial="New trial")
    fitted, trials = live_of(app).poll().result, live_of(app)._wanted.test
    (table,) = tables(app, "tau")["tables"]
    (exact,) = looks.first_look(fitted.model_bytes, trials, {"temperature": table["values"][20]})
    order = list(live_of(app).poll().order)
    np.testing.assert_allclose(shares(table["parts"]["states"])[20], exact[:, order], atol=0.003)


def test_only_the_server_draws_what_is_too_much_to_read_at_every_value(engine, monkeypatch):
    monkeypatch.setattr(held, "MOST_SAMPLES", 100)
    assert offers(opened(seed="1")) == {}


def test_a_long_trial_is_thinned_in_time_and_in_values(engine, monkeypatch):
    monkeypatch.setattr(held, "MOST", 300)
    monkeypatch.setattr(held, "FINE", 100)
    app = opened(seed="1")
    (table,) = tables(app, "tau")["tables"]
    part = table["parts"]["states"]
    assert (part["stride"], part["shape"]) == (3, [17, 67, 4])
    assert [table["values"][0], table["values"][-1]] == [0.01, 3.0]
    assert table["values"] == sorted(table["values"])


def test_of_a_long_trial_some_values_come_first(engine, monkeypatch):
    monkeypatch.setattr(held, "FINE", 100)
    app = opened(seed="1")
    engine.auto = False
    assert tables(app, "tau")["more"]
    some, rest = engine.waiting()
    engine.run(some)
    sent = tables(app, "tau")
    assert (len(sent["tables"][0]["values"]), sent["more"]) == (5, True)
    engine.run(rest)
    whole = tables(app, "tau")
    assert len(whole["tables"][0]["values"]) == 17
    assert not whole["more"]
    assert whole["of"] != sent["of"], "the browser throws the first ones away"


def test_a_held_k_brings_the_first_steps_of_fits_that_would_take_long(engine, monkeypatch):
    monkeypatch.setattr(session, "AHEAD_S", -1.0)
    monkeypatch.setattr(held, "SOON_S", -1.0)
    app = opened(seed="1")
    fitted, trials = live_of(app).poll().result, live_of(app)._wanted.train
    found = {table["values"][0]: table["parts"]["states"] for table in tables(app, "K")["tables"]}
    assert {k: part["shape"] for k, part in found.items()} == {k: [1, 200, k] for k in range(2, 13)}
    (begun,) = looks.first_look(fitted.model_bytes, trials, {"n_states": 6})
    (sent,) = shares(found[6])
    np.testing.assert_allclose(np.sort(sent.mean(axis=0)), np.sort(begun.mean(axis=0)), atol=0.003)
    np.testing.assert_allclose(sent.max(axis=1), begun.max(axis=1), atol=0.003)
    assert len(engine.waiting()) == 0
    assert live_of(app).prefetch.known(replace(live_of(app)._wanted, config=fitted_with(app, 6))) is None, (
        "nothing is fitted for it"
    )


def fitted_with(app, n_states):
    return {**live_of(app)._wanted.config, "n_states": n_states}
