"""The labs while a thumb is held: what the server shows at once, and what the browser is given for drawing by itself."""

from __future__ import annotations

import numpy as np
import pytest

from gdm_core.analysis import looks
from gdm_studio.plot.figures.base import untyped
from pages.formula1.data import along_lap
from pages.lab import held
from pages.lab.live import session
from tests.support import formula1_page
from tests.support.controls import control
from tests.support.held import labels, offers, shares, tables
from tests.support.page import opened
from tests.support.sliders import slider


def test_a_race_is_followed_sample_by_sample_and_along_the_lap_of_both_drivers(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "AHEAD_S", -1.0)
    monkeypatch.setattr(held, "SOON_S", -1.0)
    formula1_page.arrange(monkeypatch, tmp_path, formula1_page.driven_race)
    app = formula1_page.visit(source="real", K="3")
    for _ in range(3):
        app.run()
    live = app.session_state["live-formula1"]
    wanted, fitted, order = live._wanted, live.poll().result, list(live.poll().order)
    race = wanted.where.data.source
    sent = tables(app, "tau")
    (table,) = sent["tables"]
    assert set(sent["figures"]) == {"map", "strips", "shares"}
    value = table["values"][9]
    for side, laps in (("train", race.train), ("test", race.test)):
        soft = looks.first_look(fitted.model_bytes, laps.trials, {"temperature": value})
        exact = np.concatenate(soft)[:, order]
        lap = along_lap(laps.distance, exact, race.circuit.n_bins, race.circuit.length)
        np.testing.assert_allclose(shares(table["parts"][side])[9], lap, atol=0.005)
        if side == "train":
            part = table["parts"]["train laps"]
            np.testing.assert_allclose(shares(part)[9], exact[:: part["stride"]], atol=0.005)
    where = sent["figures"]["map"]
    np.testing.assert_allclose(np.column_stack([untyped(where[axis]) for axis in "xy"]), race.train.place)

    found = tables(app, "K")["tables"]
    assert {table["values"][0] for table in found} >= {2, 3, 4}
    for table in found:
        assert {part["shape"][2] for part in table["parts"].values()} == set(table["values"])


def test_bouts_of_a_held_slider_are_read_by_the_rule_of_the_page(engine):
    app = opened("behaviour").run()
    live = app.session_state["live-behaviour"]
    data, fitted, order = live.setting.data, live.poll().result, list(live.poll().order)
    sent = tables(app, "tau")
    assert sent["figures"]["strips"]["rows"] == {"bouts": "bouts", "states": "states"}
    assert sent["figures"]["strips"]["waiting"] == ["as labels", "as you say"]
    assert (sent["figures"]["player"]["part"], sent["figures"]["player"]["bouts"]) == ("states", "bouts")
    (table,) = sent["tables"]
    soft, bouts = (table["parts"][name] for name in ("states", "bouts"))
    assert soft["shape"][1] == data.test[0].n_samples, "the new trial that the page looks at"
    for i in (3, 20):
        exact = looks.first_look(fitted.model_bytes, data.test, {"temperature": table["values"][i]})[0][:, order]
        used = shares(soft)[i].sum(axis=0) > 0
        np.testing.assert_allclose(np.sort(shares(soft)[i][:, used]), np.sort(exact), atol=0.005)
        rule = data.expert_rule
        again = rule.labels(shares(soft)[i].astype(np.float32), data.test[0].rate_hz)
        assert np.mean(labels(bouts)[i] == again) > 0.999, "but for rounding to steps of 1/255"
    assert len({bouts["shape"][2], soft["shape"][2]}) == 1


@pytest.mark.bulk
def test_states_of_another_k_have_the_colours_that_they_get_once_it_is_let_go(engine):
    app = opened("behaviour").run()
    for k in (4, 5):  # the fit of 4 is there, and the hand is at 5: first steps from 5 may end elsewhere
        slider(app, "K").set_value(k).run()
        app.run()
    (other,) = (table["parts"] for table in tables(app, "K")["tables"] if table["values"] == [4])
    slider(app, "K").set_value(4).run()
    app.run()
    (table,) = tables(app, "tau")["tables"]
    near = int(np.abs(np.array(table["values"]) - 0.99).argmin())
    (before,), after = shares(other["states"]), shares(table["parts"]["states"])[near]
    assert before.shape == after.shape
    np.testing.assert_allclose(before.mean(axis=0), after.mean(axis=0), atol=0.05)
    assert np.ptp(after.mean(axis=0)) > 0.15


def test_what_the_visitor_merged_is_merged_while_softness_is_held_and_other_k_are_the_servers(engine):
    app = opened("behaviour").run()
    control(app, "selectbox", "into2").set_value("S1").run()
    (table,) = tables(app, "tau")["tables"]
    used = (shares(table["parts"]["states"]).max(axis=(0, 1)) > 0.01).sum()
    assert used == app.session_state["live-behaviour"].poll().n_states - 1
    assert "K" not in offers(app), "nobody knows what of another K he would merge"


def test_the_fit_that_stands_is_there_at_once_and_the_states_of_others_come_before_fits_of_them(engine):
    """On a busy machine a hand waited for half a minute: fits of other K took the workers, and the one that stood was asked for."""
    app = opened("behaviour").run()
    engine.auto, asked = False, len(engine.jobs)
    near = tables(app, "K", None, times=1)
    live = app.session_state["live-behaviour"]
    assert [table["values"] for table in near["tables"]] == [[live.poll().n_states]]
    assert near["more"]
    assert {job.slot.partition("-")[0] for job in engine.jobs[asked:]} == {"ask"}, "nothing is fitted meanwhile"
