"""Tables from which the browser draws while a slider is held, or replays training."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from streamlit.testing.v1 import AppTest

from datasets.nascar import train_test
from gdm_core import GDM
from gdm_core.analysis import inference
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.variants import infer_quickly, with_parameters
from gdm_core.trials import Trials, as_trials
from gdm_studio.plot.figures.base import untyped
from pages.formula1.data import along_lap
from pages.lab import preview_figures, slider_preview
from tests.support import formula1_page, labelling_page
from tests.support.controls import control
from tests.support.drawn import record
from tests.support.nascar_page import live_of, opened
from tests.support.sliders import slider
from tests.support.your_data_page import uploaded


def offers(app: AppTest) -> dict[str, str]:
    """Return the sliders with tables, each with the name of its fit."""
    (found,) = (each.proto for each in app.get("bidi_component") if each.proto.component_name == "gdm_slider_preview")
    return dict(json.loads(found.json)["offers"])


def tables(app: AppTest, key: str, thumb: float | None = 0.0, *, times: int = 3) -> dict[str, Any]:
    """Return the tables of a slider that is held at a value, or only hovered (None)."""
    ask = app.session_state["_channel"].scene.tables
    for _ in range(times):
        found = ask(key, thumb is not None, thumb or 0.0)
    return {"source": found.source, "tables": list(found.tables.values()), "more": found.more, **found.how}


def shares(part: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return soft states [V, S, K]."""
    return _levels(part, "states").reshape(part["shape"]) / 255


def labels(part: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """Return states [V, S], -1 for none."""
    codes = _levels(part, "labels").astype(np.int64).reshape(part["shape"][:2])
    return np.where(codes == 255, -1, codes)


def _levels(part: Mapping[str, Any], kind: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(base64.b64decode(part[kind]["bdata"]), np.uint8)


def exact_states(model_bytes: bytes, trials: Trials, **changes: Any) -> list[npt.NDArray[np.float32]]:
    """Return soft states of a fitted model with other parameters."""
    model = with_parameters(model_from_bytes(model_bytes), **changes)
    return [infer_quickly(model, trial) for trial in trials]


def test_temperature_table_holds_the_states_at_each_value(engine):
    app = opened(seed="1")
    assert set(offers(app)) == {"K", "tau", "gamma", "replay"}
    result, jobs, order = live_of(app).poll().result, len(engine.jobs), list(live_of(app).poll().order)
    sent = tables(app, "tau")
    assert set(sent["figures"]) == {"inferred-track", "overview", "strips", "proportions"}
    (table,) = sent["tables"]
    states = shares(table["parts"]["states"])
    assert states.shape == (len(table["values"]), 200, 4)
    for i in (0, 20):
        trials = live_of(app).spec.trials
        (exact,) = exact_states(result.model_bytes, trials, temperature=table["values"][i])
        np.testing.assert_allclose(states[i], exact[:, order], atol=0.003)
    assert tables(app, "tau") == sent
    assert len(engine.jobs) == jobs + 1, "computed once per fit"


def test_temperature_table_follows_the_new_trial(engine):
    app = opened(seed="1", trial="Held-out")
    shown, trials = live_of(app).poll(), live_of(app).spec.dataset.test
    (table,) = tables(app, "tau")["tables"]
    (exact,) = exact_states(shown.result.model_bytes, trials, temperature=table["values"][20])
    np.testing.assert_allclose(shares(table["parts"]["states"])[20], exact[:, list(shown.order)], atol=0.003)


@pytest.mark.parametrize(("scenario", "key"), [("Levels", "K-levels"), ("Rotations", "tau")])
def test_table_covers_every_sample_of_the_picture(engine, monkeypatch, scenario, key):
    drawn = record(monkeypatch)
    sent = tables(opened(scenario=scenario), key, 3)
    part = sent["tables"][0]["parts"][sent["figures"]["inferred-track"]["part"]]
    x = untyped(drawn["inferred-track"][0]["data"][0]["x"])
    assert shares(part).shape[1:] == (len(x), 3)


def test_table_for_k_equals_the_fit_after_release(engine):
    app = opened()
    (table,) = (table for table in tables(app, "K", 7)["tables"] if table["values"] == [7])
    (sent,) = shares(table["parts"]["states"])
    slider(app, "K").set_value(7).run()
    shown = live_of(app).poll()
    assert (shown.status, shown.n_states) == ("fresh", 7)
    np.testing.assert_allclose(sent, shown.states[0], atol=0.503 / 255)


def test_fit_that_ends_after_the_script_gets_tables(engine):
    app = opened(seed="1")
    engine.auto = False
    slider(app, "K").set_value(5).run()
    assert offers(app)["tau"] == ""
    assert not tables(app, "tau")["tables"]
    engine.auto = True
    engine.run_all()
    (table,) = tables(app, "tau")["tables"]
    assert shares(table["parts"]["states"]).shape[2] == 5


def test_table_of_a_long_trial_is_thinned(engine, monkeypatch):
    monkeypatch.setattr(preview_figures, "MAX_SHARES", 300)
    monkeypatch.setattr(slider_preview, "FINE", 100)
    (table,) = tables(opened(seed="1"), "tau")["tables"]
    part = table["parts"]["states"]
    assert (part["stride"], part["shape"]) == (3, [17, 67, 4])
    assert [table["values"][0], table["values"][-1]] == [0.01, 3.0]
    assert table["values"] == sorted(table["values"])


def test_formula1_tables_hold_the_laps_of_both_drivers(monkeypatch, tmp_path):
    formula1_page.arrange(monkeypatch, tmp_path, formula1_page.driven_race)
    app = formula1_page.visit_states(source="real", K="3")
    for _ in range(3):
        app.run()
    live = app.session_state["fit-formula1"]
    race, result, order = live.spec.dataset.source, live.poll().result, list(live.poll().order)
    sent = tables(app, "tau")
    (table,) = sent["tables"]
    assert set(sent["figures"]) == {"map", "strips", "shares"}
    for side, laps in (("train", race.train), ("test", race.test)):
        soft = exact_states(result.model_bytes, laps.trials, temperature=table["values"][9])
        exact = np.concatenate(soft)[:, order]
        lap = along_lap(laps.distance, exact, race.circuit.n_bins, race.circuit.length)
        np.testing.assert_allclose(shares(table["parts"][side])[9], lap, atol=0.005)
        if side == "train":
            part = table["parts"]["train laps"]
            np.testing.assert_allclose(shares(part)[9], exact[:: part["stride"]], atol=0.005)
    place = sent["figures"]["map"]
    np.testing.assert_allclose(np.column_stack([untyped(place[axis]) for axis in "xy"]), race.train.place)


def recording() -> AppTest:
    """Return the page of a labelled recording with a fit."""
    app = uploaded("walk.csv", labelling_page.table())
    return app.button(key="fit").click().run().run()


def test_bouts_in_a_table_follow_the_rule_of_the_page(engine):
    app = recording()
    live = app.session_state["fit-your_data"]
    data, result, order = live.spec.dataset, live.poll().result, list(live.poll().order)
    (table,) = tables(app, "tau")["tables"]
    soft, bouts = (table["parts"][name] for name in ("states", "bouts"))
    assert soft["shape"][1] == data.test[0].n_samples
    for i in (3, 20):
        exact = exact_states(result.model_bytes, data.test, temperature=table["values"][i])[0][:, order]
        used = shares(soft)[i].sum(axis=0) > 0
        np.testing.assert_allclose(np.sort(shares(soft)[i][:, used]), np.sort(exact), atol=0.005)
        again = data.expert_rule.labels(shares(soft)[i].astype(np.float32), data.test[0].rate_hz)
        assert np.mean(labels(bouts)[i] == again) > 0.999, "up to rounding to 1/255"


def test_merged_states_stay_merged_in_the_table(engine):
    app = recording()
    control(app, "selectbox", "into2").set_value("S1").run()
    (table,) = tables(app, "tau")["tables"]
    used = (shares(table["parts"]["states"]).max(axis=(0, 1)) > 0.01).sum()
    assert used == app.session_state["fit-your_data"].poll().n_states - 1


# Another stickiness comes from the first steps of a fit.
MAX_ERROR = {"temperature": 0.005, "stickiness": 0.02}


@pytest.mark.parametrize("name", slider_preview.VALUES)
def test_linear_interpolation_between_values_is_close(name):
    train, _ = train_test("standard", 3, 150)
    trials = as_trials(train)
    model = GDM(4, 2, stickiness=0.3, n_steps=60).fit(trials).to_bytes()
    values = slider_preview.VALUES[name][1]

    def sweep(values: list[float]) -> np.ndarray:
        return np.stack([soft for (soft,) in inference.sweep(model, trials, trials, [0], name, values)]) / 255.0

    states = sweep(values)
    exact = sweep([(v + w) / 2 for v, w in pairwise(values)])
    off = [np.abs((low + high) / 2 - at).mean() for low, high, at in zip(states[:-1], states[1:], exact, strict=True)]
    assert max(off) < MAX_ERROR[name]
    assert np.mean(off) < MAX_ERROR["temperature"], "large errors are rare"


# ---- training replay -----------------------------------------------------------------------------------------------
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
    (table,) = tables(opened(seed="1"), "replay")["tables"]
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
