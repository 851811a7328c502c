"""Tables from which the browser replays training."""

from __future__ import annotations

import numpy as np
import pytest

from pages.lab import slider_preview
from tests.support import formula1_page
from tests.support.held import offers, shares, tables
from tests.support.nascar_page import live_of, opened


def test_replay_table_holds_the_states_at_each_snapshot(engine, monkeypatch):
    app = opened(seed="1")
    shown = live_of(app).poll()
    sent = tables(app, "replay")
    assert "replay" in offers(app)
    assert set(sent["figures"]) == {"inferred-track", "overview", "strips", "proportions"}
    (table,) = sent["tables"]
    snapshots = shown.result.snapshots
    assert table["values"] == [snapshot.step for snapshot in snapshots]
    states = shares(table["parts"]["states"])
    for at, snapshot in enumerate(snapshots):
        np.testing.assert_allclose(states[at], snapshot.states()[:, list(shown.order)], atol=0.51 / 255)
    monkeypatch.setattr(slider_preview, "MAX_SNAPSHOTS", 2)
    shown._memory.clear()
    (table,) = tables(app, "replay")["tables"]
    assert table["values"] == [snapshots[0].step, snapshots[-1].step], "many snapshots are thinned"


@pytest.mark.parametrize("controls", [{"trial": "Held-out"}, {"then": "true"}])
def test_pictures_of_other_states_have_no_replay(engine, controls):
    app = opened(seed="1", **controls)
    assert "replay" not in offers(app)
    assert not tables(app, "replay")["tables"]


def test_formula1_replays_the_driver_it_was_fitted_to(monkeypatch, tmp_path):
    formula1_page.arrange(monkeypatch, tmp_path, formula1_page.driven_race)
    app = formula1_page.visit_states(source="real", K="3")
    for _ in range(3):
        app.run()
    sent = tables(app, "replay")
    (table,) = sent["tables"]
    assert set(table["parts"]) == {"train", "train laps"}
    assert list(sent["figures"]["strips"]["rows"].values()) == ["train"]
    result = app.session_state["fit-formula1"].poll().result
    assert table["values"] == [snapshot.step for snapshot in result.snapshots]
