"""The Formula 1 page as a script: first visit, choice of session, drivers and laps, links and exports."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import streamlit as st
import torch

from datasets.f1 import loader
from datasets.formula1 import FeedError, Reason
from gdm_core import GDM
from gdm_core.analysis.state_scores import majority_map, mapped_accuracy
from gdm_core.engine.results import from_levels
from pages import lab
from pages.formula1 import data, sessions
from pages.formula1.controls import FIFTH
from pages.formula1.selection import CAR_CHANNELS, Selection
from pages.ui import settings, shipped
from tests.support.drawn import verdicts
from tests.support.formula1_page import (
    FUTURE,
    PAPER,
    RING,
    WEEKEND,
    box,
    drivers,
    fails,
    one_of,
    ring_race,
    visit,
    visit_states,
    words,
)
from tests.support.offered import script_of
from tests.support.scripts import run_script
from tests.support.sliders import slider

pytestmark = pytest.mark.usefixtures("feed")


# ---- a first visit ------------------------------------------------------------------------------------------------
def test_first_visit_shows_precomputed_result_without_a_fit(feed):
    app = visit_states()
    shown = app.session_state["fit-formula1"].poll()
    assert shown.status == "fresh"
    assert shipped.load(data.SHIPPED).result.model_bytes == shown.result.model_bytes
    assert drivers(app) == ("FLT", "RGL")
    assert verdicts(app)
    assert [job for job in feed.jobs if job.name == "fit" and job.poll().result is None] == []


def test_precomputed_scores_are_those_of_the_states():
    found = shipped.load(data.SHIPPED)
    session, selection = sessions.simulated(data.FIRST_CIRCUIT), Selection("racing", CAR_CHANNELS)
    train, laps = (data.laps_of(session, code, selection) for code in (session.codes[0], session.codes[FIFTH]))
    ours, theirs = (
        np.concatenate(side).argmax(axis=1) for side in (found.result.states.train, found.result.states.test)
    )
    known, truth = (np.concatenate([trial.labels for trial in one.trials]) for one in (train, laps))
    measured = mapped_accuracy(majority_map(ours, known, 3), theirs, truth)
    assert measured == pytest.approx(found.result.scores["scores"]["majority_map_accuracy"], abs=0.01)
    supervised = found.result.scores["supervised"]
    assert max(0.75, supervised["decision tree"] - 0.15) < measured < supervised["random forest"]


def test_stored_race_is_offered_first(feed):
    app = visit(source="")
    assert app.segmented_control(key="source").value == "real"
    assert box(app, "Session").value == "Race"
    assert one_of(app.query_params["source"]) == "real"


def test_each_goal_keeps_its_own_number_of_states(feed):
    app = visit_states(source="real")
    assert (slider(app, "K").value, app.segmented_control(key="sees").value) == (3, "position")
    app.radio(key="watch").set_value("paper").run()
    assert (slider(app, "K-map").value, app.segmented_control(key="sees-map").value) == (8, "dynamics")
    assert [job.work.trials.n_channels for job in feed.jobs if job.name == "fit"][-1] == 10
    app.radio(key="watch").set_value("car").run()
    assert slider(app, "K").value == 3


# ---- one fit at a time --------------------------------------------------------------------------------------------
def test_other_test_driver_starts_no_fit(feed):
    app = visit_states(source="real", **PAPER)
    fits = sum(job.name == "fit" for job in feed.jobs)
    assert drivers(app) == ("AAA", "BBB")
    box(app, "Compare with").set_value("CCC").run()
    assert drivers(app) == ("AAA", "CCC")
    assert sum(job.name == "fit" for job in feed.jobs) == fits


# ---- the cascade --------------------------------------------------------------------------------------------------
def test_choices_depend_on_earlier_choices():
    app = visit(source="real")
    assert box(app, "Year").value == "2024"
    assert box(app, "Event").options == ["Ring Grand Prix · stored"], "future events are not offered"
    assert box(app, "Session").options == ["Qualifying", "Race · stored"]
    assert box(app, "Session").value == "Race"
    assert box(app, "Reference driver").value == "AAA"
    assert drivers(app) == ("AAA", "BBB"), "the drivers who raced closest"


def test_link_sets_session_and_drivers():
    app = visit(source="real", year="2024", session="Race", train="BBB", test="AAA")
    assert box(app, "Reference driver").value == "BBB"
    assert box(app, "Compare with").value == "AAA"
    assert drivers(app) == ("BBB", "AAA")


def test_driver_switch_survives_other_drivers(feed):
    app = visit_states(source="real", who="test")
    for fitted, applied in (("AAA", "BBB"), ("CCC", "BBB")):
        box(app, "Reference driver").set_value(fitted).run()
        (switch,) = (one for one in app.get("button_group") if one.proto.id.endswith(f"who~{fitted}-{applied}"))
        assert [option.content for option in switch.proto.options] == [f"{fitted} (training)", f"{applied} (held-out)"]
        assert list(switch.proto.default) == [1]
        assert one_of(app.query_params["who"]) == "test"


def test_default_year_is_the_newest_with_a_session(monkeypatch):
    newest, before = loader.years()[:2]
    calendars = {newest: (FUTURE,), before: (WEEKEND,)}
    monkeypatch.setattr(loader, "schedule", lambda year, **more: calendars.get(year, ()))
    assert box(visit(source="real"), "Year").value == "2024", "the year of the stored session"
    monkeypatch.setattr(loader, "stored_sessions", lambda: ())
    app = visit(source="real")
    assert box(app, "Year").value == str(before), "the newest year has no session yet"
    calendars[newest] = (WEEKEND, FUTURE)
    sessions.request_again(newest)
    assert box(visit(source="real"), "Year").value == str(newest)


def test_choices_are_kept_in_the_address():
    app = visit(source="real")
    box(app, "Compare with").set_value("CCC").run()
    assert app.query_params["test"] in ("CCC", ["CCC"])
    box(app, "Laps").set_value("all").run()
    assert app.query_params["laps-of"] in ("all", ["all"])
    box(app, "Laps").set_value("racing").run()
    assert "laps-of" not in app.query_params, "defaults are left out"


def test_link_to_a_session_ignores_what_is_stored(monkeypatch):
    app = visit(source="real")
    link = {name: one_of(app.query_params[name]) for name in app.query_params}
    assert {"year": "2024", "event": "Ring Grand Prix", "session": "Race", "train": "AAA"}.items() <= link.items()
    monkeypatch.setattr(
        loader, "stored_sessions", lambda: ((2025, "Newer Grand Prix", "Race"), (2024, RING.event, "Race"))
    )
    later = visit(**link)
    assert box(later, "Year").value == "2024"
    assert box(later, "Event").value == "Ring Grand Prix"


def test_invalid_link_values_are_reported():
    app = visit_states(source="real", year="1999", event="nonsense", train="ZZZ", watch="x-ray")
    said = " ".join(toast.value for toast in app.toast)
    for value in ("`1999`", "`nonsense`", "`ZZZ`", "`x-ray`"):
        assert said.count(value) == 1
    assert box(app, "Event").value == "Ring Grand Prix"


def test_lap_range_is_limited_to_driven_laps():
    app = visit(source="real", **{"laps-of": "range", "laps": "2-99"})
    assert app.slider[0].value == (2, 4)
    assert "`2-99` to 2-4" in app.toast[0].value
    app.slider[0].set_value((3, 3)).run()
    assert one_of(app.query_params["laps"]) == "3-3"


def test_event_in_link_waits_for_the_calendar(monkeypatch):
    heard, go = threading.Event(), threading.Event()

    def calendar(year, **more):
        heard.set()
        go.wait(20)
        return (replace(WEEKEND, name="Late Grand Prix"),)

    loads = []
    monkeypatch.setattr(loader, "schedule", calendar)
    monkeypatch.setattr(loader, "load_session", lambda *where, **more: loads.append(where) or ring_race())
    app = visit(source="real", year="2024", event="Late Grand Prix")
    assert heard.wait(5)
    assert loads == [], "no stored race is loaded instead"
    assert one_of(app.query_params["event"]) == "Late Grand Prix"
    go.set()
    assert sessions.request_calendar(2024).wait(5)
    app.run()
    assert box(app, "Event").value == "Late Grand Prix"


def test_interrupted_run_loses_no_choice(monkeypatch):
    """The first run ends among the controls, before the browser knows any of them."""
    asked = {"source": "real", "test": "BBB", "train": "CCC", "watch": "channels", "channels": ["X", "Y"]}
    laps = {"laps-of": "range", "laps": "2-3"}
    real = settings.keep
    calls = []

    def keep(*arguments, **more):
        calls.append(arguments)
        if len(calls) == 11:
            st.rerun()
        real(*arguments, **more)

    monkeypatch.setattr(settings, "keep", keep)
    app = visit_states(**asked, **laps)
    assert len(calls) >= 11
    for label, value in (("Reference driver", "CCC"), ("Compare with", "BBB")):
        one = box(app, label)
        assert one.value == value
        assert not one.proto.set_value, "a value sent only once may be lost"
        assert one.options[one.proto.default].startswith(value)
    assert drivers(app) == ("CCC", "BBB")
    assert app.slider[0].value == (2, 3)


def test_session_is_downloaded_on_request_only(monkeypatch):
    loads = []
    monkeypatch.setattr(loader, "load_session", lambda *where, **more: loads.append(where) or ring_race())
    app = visit(source="real", session="Qualifying")
    assert loads == []
    app.button(key="f1-load").click().run()
    app.run()
    assert loads == [(2024, "Ring Grand Prix", "Qualifying")]
    assert drivers(app)[0] == "AAA"


def test_downloaded_session_opens_at_once(monkeypatch):
    monkeypatch.setattr(loader, "is_stored", lambda *where: False)  # downloaded, but not extracted yet
    assert drivers(visit(source="real"))[0] == "AAA"


def test_offline_user_can_open_the_simulated_race(monkeypatch):
    fails(monkeypatch, "load_session", FeedError(Reason.NO_NETWORK, "No service answers; open a simulated race."))
    app = visit(source="real")
    assert "No network" in words(app)
    app.button(key="f1-simulated").click().run()
    assert drivers(app)[0] == "FLT"
    assert app.segmented_control(key="source~1").value == "simulated"
    assert one_of(app.query_params["source"]) == "simulated"


def test_year_without_events_disables_event():
    app = visit(source="real", year="2019")
    assert box(app, "Event").disabled


def test_goal_and_channels_change_the_fit(feed):
    app = visit_states(source="real", watch="car")
    app.radio(key="watch").set_value("both").run()
    app.radio(key="watch").set_value("where").run()
    app.radio(key="watch").set_value("channels").run()
    app.multiselect(key="channels").set_value(["X", "speed"]).run()
    box(app, "Laps").set_value("range").run()
    fits = [job.work.trials[0] for job in feed.jobs if job.name == "fit"]
    seen = list(dict.fromkeys(fit.channels for fit in fits))
    assert seen[0] == ("speed", "gear"), "the channels that both cars sent"
    assert {("X", "Y", "speed", "gear"), ("X", "Y"), ("X", "speed")} <= set(seen)
    assert fits[-1].n_samples != fits[-2].n_samples
    assert app.query_params["channels"] == ["X", "speed"]


# ---- exports --------------------------------------------------------------------------------------------------------
def test_exported_delta_has_the_states_of_the_page(monkeypatch):
    tables = {}
    monkeypatch.setattr(lab, "show_export", lambda *shown, **more: tables.update(more["tables"]))
    visit(view="Export")
    assert {"Corner", "Minisector", "State"} <= set(tables["Time gained"]()["Delta by"])


@pytest.mark.bulk
def test_every_figure_can_be_exported():
    app = visit(view="Export", K="4")  # K = 3 has a precomputed result
    for _ in range(4):
        app.run()
    names = app.selectbox(key="formula1-export-figure").options
    assert {"Transition matrix", "States along the lap", "Telemetry", "Gap to leader", "Field", "Delta by phase"} < set(
        names
    )
    assert {"Picture to share", "Differences on the map", "Long runs", "Tyres", "Usage by lap"} < set(names)
    files = {button.proto.label.removesuffix(" (CSV)") for button in app.get("download_button")}
    assert {
        "Time gained",
        "Telemetry",
        "Corners",
        "Driving style",
        "Differences",
        "Stints",
        "Long runs",
        "Minisectors",
    } < files
    for name in names:
        app.selectbox(key="formula1-export-figure").set_value(name).run()


@pytest.mark.bulk
def test_script_of_the_first_visit_loads_the_precomputed_fit(tmp_path):
    """A refit on another machine may differ, so the script loads the stored model."""
    app = visit(view="Export").run().run()
    shown = app.session_state["fit-formula1"].poll()
    (tmp_path / "formula1-model.safetensors").write_bytes(shown.result.model_bytes)
    run_script(script_of(app), tmp_path)
    with np.load(tmp_path / "states.npz") as file:
        ours, theirs = file["trial_0"], file["new_trial_0"]
    np.testing.assert_allclose(ours, shown.states[0], atol=0.02, err_msg="drawn states have eight bits")
    kept = from_levels(shipped.load(data.SHIPPED).result.states.test[0])
    np.testing.assert_allclose(theirs, kept[:, list(shown.order)], atol=0.02)


@pytest.mark.bulk
def test_refit_of_precomputed_result_is_as_good():
    """Processors round differently, which hundreds of steps amplify a little."""
    found = shipped.load(data.SHIPPED)
    session, selection = sessions.simulated(data.FIRST_CIRCUIT), Selection("racing", CAR_CHANNELS)
    laps, other = (data.laps_of(session, code, selection) for code in (session.codes[0], session.codes[FIFTH]))
    assert (laps.trials.fingerprint, other.trials.fingerprint) == found.fingerprint
    torch.set_num_threads(1)
    model = GDM(**data.FIRST_CONFIG).fit(laps.trials)
    assert model.elbo_ == pytest.approx(found.result.elbo, rel=1e-3)  # 0.0002 apart on a processor without AVX
    states, *_ = model.predict_proba(laps.trials)
    assert (np.asarray(states).argmax(axis=1) == found.result.states.train[0].argmax(axis=1)).mean() > 0.9


# ---- tabs -------------------------------------------------------------------------------------------------------------
def test_link_to_an_earlier_tab_opens_compare():
    app = visit(view="Telemetry")
    assert any("`Telemetry` to Compare" in toast.value for toast in app.toast)
    assert "f1-corners" in words(app)


@pytest.mark.parametrize("tab", ["Compare", "Corners", "Laps", "Field"])
def test_tab_without_states_starts_no_job(feed, tab):
    app = visit(view=tab)
    assert "fit-formula1" not in app.session_state
    assert feed.jobs == []
