"""The Formula 1 page as a script: the cascade, and what a load may run into."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import streamlit as st
import torch

from datasets import formula1
from datasets.formula1 import FeedError, Reason
from gdm_core import GDM
from gdm_core.engine import FitRequest
from pages.formula1 import choices, data, loading
from pages.formula1.data import Observation, Place
from pages.lab import shipped
from pages.lab.live import session as live_session
from tests.support.formula1_page import FUTURE, PAPER, RING, WEEKEND, box, fails, one_of, ring_race, visit, words
from tests.support.scripts import run_script
from tests.support.sliders import Slider, slider, sliders

pytestmark = pytest.mark.usefixtures("feed")


# ---- a first visit ------------------------------------------------------------------------------------------------
def test_a_first_visit_shows_the_simulated_race_without_a_fit(feed):
    app = visit()
    text = words(app)
    assert "Simulated race" in text
    assert "Real sessions" in text
    assert "simulated race · fitted on FLT, applied to RGL · racing laps" in text
    assert "Says what the car does" in text, "scores come with the bundled result"
    assert "Names the segment" not in text, "states of driving are no places"
    assert "a forest that is told" in text
    assert "cuts at thresholds" in text
    assert "over 5 seeds" in text, "as do those of further fits"
    assert "Time won along the lap: FLT against RGL" in text, "beside the map"
    fits = [job for job in feed.jobs if job.slot == "main" and job.poll().result is None]
    assert fits == []
    done = next(job for job in feed.jobs if job.slot == "main")
    assert shipped.load(data.SHIPPED).stands(done.poll().result)


def test_the_bundled_states_are_those_of_its_model():
    from gdm_core.analysis.looks import soft_states
    from gdm_core.analysis.metrics import majority_map, mapped_accuracy
    from gdm_core.trials import Trials

    found = shipped.load(data.SHIPPED)
    place, looked = Place(circuit=data.FIRST_CIRCUIT), Observation("racing", data.CAR_CHANNELS)
    codes = data.open_session(place).codes
    train, laps = (data.laps_of(place, code, looked) for code in (codes[0], codes[data.FIFTH]))
    # The start of the race is enough, and quick.
    part = laps.trials[0].slice(0, 1500)
    (states,) = soft_states(found.result.model_bytes, Trials((part,)))
    # Reading out draws samples; another length draws others.
    kept = found.look.test[0][:1490]
    assert np.abs(kept - states[:1490]).mean() < 0.03
    assert (kept.argmax(axis=1) == states[:1490].argmax(axis=1)).mean() > 0.85
    ours, theirs = (np.concatenate(part).argmax(axis=1) for part in (found.look.train, found.look.test))
    known, truth = (np.concatenate([trial.labels for trial in one.trials]) for one in (train, laps))
    measured = mapped_accuracy(majority_map(ours, known, 3), theirs, truth)
    assert measured == pytest.approx(found.more["scores"]["majority_map_accuracy"], abs=0.01)
    told = found.more["told"]
    assert max(0.75, told["cuts at thresholds"] - 0.15) < measured < told["a forest that is told"]


def test_what_is_stored_is_offered_first_and_of_that_a_race(feed):
    app = visit(source="")
    assert app.segmented_control(key="f1-source").value == "real"
    assert box(app, "Session").value == "Race"
    assert one_of(app.query_params["source"]) == "real", "another server may have nothing stored"


def test_the_papers_setting_is_one_click_away_with_its_own_number_of_states(feed):
    app = visit(source="real")
    assert (slider(app, "K").value, app.segmented_control(key="sees").value) == (3, "places")
    app.radio(key="f1-watch").set_value("paper").run()
    assert (slider(app, "K-map").value, app.segmented_control(key="sees-map").value) == (8, "moves")
    assert [job.work.trials.n_channels for job in feed.jobs if job.slot == "main"][-1] == 10
    app.radio(key="f1-watch").set_value("car").run()
    assert slider(app, "K").value == 3


# ---- one fit at a time --------------------------------------------------------------------------------------------
def test_the_second_driver_can_be_changed_while_the_fit_stays(feed):
    app = visit(source="real", **PAPER)
    fits = sum(job.slot == "main" for job in feed.jobs)
    assert "between AAA lap 1 and CCC lap 1" in words(app)
    box(app, "Apply to (test)").set_value("BBB").run()
    assert "between AAA lap 1 and BBB lap 1" in words(app), "not the driver who was chosen before"
    assert sum(job.slot == "main" for job in feed.jobs) == fits


def test_fits_of_other_seeds_are_scored_on_another_driver_without_being_fitted_again(feed):
    app = visit(source="real", **PAPER)
    fits, calls = fitted(feed), [job for job in feed.jobs if job.slot == "ask-seed-4"]
    assert (len(fits), len(calls)) == (1 + 4, 1)
    box(app, "Apply to (test)").set_value("BBB").run()
    assert fitted(feed) == fits
    assert len([job for job in feed.jobs if job.slot == "ask-seed-4"]) == 2, "scored anew, on other laps"


def fitted(feed) -> list[str]:
    """What has been fitted, by key, each as often as it was begun."""
    return [job.work.key for job in feed.jobs if isinstance(job.work, FitRequest)]


def test_answers_that_come_late_never_meet_those_of_another_fit(feed, monkeypatch):
    """Every job ends when the test says so: the page is looked at after each of them, in both orders."""
    monkeypatch.setattr(live_session, "WARM_WORTH_S", 0.0)
    app = visit(source="real", **PAPER)
    feed.auto = False
    for latest_first, n_states, other in ((False, 9, "BBB"), (True, 6, "CCC"), (False, 5, "BBB"), (True, 8, "BBB")):
        slider(app, "K-map").set_value(n_states).run()
        box(app, "Apply to (test)").set_value(other).run()
        while waiting := feed.waiting():
            feed.run(waiting[-1 if latest_first else 0])
            app.run()
        assert f"between AAA lap 1 and {other} lap 1" in words(app)


# ---- the cascade --------------------------------------------------------------------------------------------------
def test_each_step_offers_what_the_step_before_leaves():
    app = visit(source="real")
    assert box(app, "Year").value == "2024", "the season of what is stored"
    assert box(app, "Event").options == ["Ring Grand Prix · stored"], "the future is not offered"
    assert any("1 event of 2024 lies in the future" in caption.value for caption in app.caption)
    assert box(app, "Session").options == ["Qualifying", "Race · stored"]
    assert box(app, "Session").value == "Race"
    assert box(app, "Fit on (train)").value == "AAA"
    assert box(app, "Apply to (test)").value == "CCC", "the fifth, or the last of fewer"
    assert "Ring Grand Prix 2031 · Race · fitted on AAA, applied to CCC" in words(app)


def test_a_link_brings_the_whole_choice():
    app = visit(source="real", year="2024", session="Race", train="BBB", test="AAA", laps_of="x", watch="channels")
    app.query_params["channels"] = "X-Y"
    assert box(app, "Fit on (train)").value == "BBB"
    assert box(app, "Apply to (test)").value == "AAA"
    assert "fitted on BBB, applied to AAA" in words(app)


@pytest.mark.parametrize("who", ["test", "RGL, applied"])
def test_the_switch_above_the_map_stands_at_whose_laps_are_drawn_whoever_they_are(feed, who):
    app = visit(source="real", who=who)  # a link of before named the driver, who may not be in this race
    for fitted, applied in (("AAA", "CCC"), ("BBB", "CCC")):
        box(app, "Fit on (train)").set_value(fitted).run()
        (switch,) = (one for one in app.get("button_group") if one.proto.id.endswith(f"f1-who-{fitted}-{applied}"))
        assert [option.content for option in switch.proto.options] == [f"{fitted}, fitted", f"{applied}, applied"]
        assert list(switch.proto.default) == [1], "what the browser begins with"
        assert one_of(app.query_params["who"]) == "test"
    assert "not to be had here" not in words(app)


def test_the_year_is_the_newest_with_anything_to_open(monkeypatch):
    newest, before = formula1.years()[:2]
    calendars = {newest: (FUTURE,), before: (WEEKEND,)}
    monkeypatch.setattr(formula1, "schedule", lambda year, **more: calendars.get(year, ()))
    assert box(visit(source="real"), "Year").value == "2024", "what is stored"
    monkeypatch.setattr(formula1, "stored_sessions", lambda: ())
    app = visit(source="real")
    assert box(app, "Year").value == str(before), "nothing has been driven in the newest"
    assert "stored" not in box(app, "Event").help
    calendars[newest] = (WEEKEND, FUTURE)
    loading.again("calendar", newest)
    assert box(visit(source="real"), "Year").value == str(newest)


def test_a_choice_is_kept_in_the_address():
    app = visit(source="real")
    box(app, "Apply to (test)").set_value("BBB").run()
    assert app.query_params["test"] in ("BBB", ["BBB"])
    box(app, "Laps").set_value("all").run()
    assert app.query_params["laps-of"] in ("all", ["all"])
    box(app, "Laps").set_value("racing").run()
    assert "laps-of" not in app.query_params, "what anybody finds there needs no word"


def test_the_link_of_a_real_session_does_not_depend_on_the_day_or_on_what_is_stored(monkeypatch):
    app = visit(source="real")
    link = {name: one_of(app.query_params[name]) for name in app.query_params}
    assert {"year": "2024", "event": "Ring Grand Prix", "session": "Race", "train": "AAA"}.items() <= link.items()
    monkeypatch.setattr(
        formula1, "stored_sessions", lambda: ((2025, "Newer Grand Prix", "Race"), (2024, RING.event, "Race"))
    )
    later = visit(**link)
    assert box(later, "Year").value == "2024"
    assert box(later, "Event").value == "Ring Grand Prix"
    assert "not to be had" not in words(later)


def test_what_the_address_asks_for_in_vain_is_said():
    app = visit(source="real", year="1999", event="nonsense", train="ZZZ", watch="x-ray")
    text = words(app)
    for asked in ("Year in the link is “1999”", "Event in the link is “nonsense”", "“ZZZ”", "“x-ray”"):
        assert text.count(asked) == 1
    assert box(app, "Event").value == "Ring Grand Prix"
    app.run()
    assert "Year in the link is “1999”" in words(app), "it stays until something else is chosen"
    box(app, "Fit on (train)").set_value("BBB").run()
    assert "“ZZZ”" not in words(app)
    assert "Year in the link is “1999”" in words(app)
    box(app, "Fit on (train)").set_value("AAA").run()
    assert "“ZZZ”" not in words(app), "what was chosen by hand is no stand-in"


def test_laps_beyond_those_driven_are_said():
    app = visit(source="real", **{"laps-of": "range", "laps": "2-99"})
    assert "Laps from, to in the link is “2-99”" in words(app)
    assert [end.value for end in ends_of(app)] == [2, 4]


def ends_of(app) -> list[Slider]:
    return [one for one in sliders(app) if one.label in ("First lap", "Last lap")]


def test_neither_end_of_a_range_of_laps_passes_the_other():
    app = visit(source="real", **{"laps-of": "range", "laps": "1-2"})
    ends_of(app)[0].set_value(3).run()
    assert [end.value for end in ends_of(app)] == [3, 3]
    assert one_of(app.query_params["laps"]) == "3-3"
    assert "laps 3 to 3" in words(app)
    ends_of(app)[1].set_value(4).run()
    assert one_of(app.query_params["laps"]) == "3-4"
    ends_of(app)[1].set_value(1).run()
    assert [end.value for end in ends_of(app)] == [1, 1]
    assert one_of(app.query_params["laps"]) == "1-1"
    box(app, "Laps").set_value("all").run()
    box(app, "Laps").set_value("range").run()
    assert [end.value for end in ends_of(app)] == [1, 1], "they begin with what the address says"
    again = visit(source="real", **{"laps-of": "range", "laps": "1-1"})
    assert [end.value for end in ends_of(again)] == [1, 1], "and so does a copied link"


def test_an_event_of_the_address_waits_for_the_calendar(monkeypatch):
    heard, go = threading.Event(), threading.Event()

    def calendar(year, **more):
        heard.set()
        go.wait(20)
        return (replace(WEEKEND, name="Late Grand Prix"),)

    loads = []
    monkeypatch.setattr(formula1, "schedule", calendar)
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: loads.append(where) or ring_race())
    app = visit(source="real", year="2024", event="Late Grand Prix")
    assert heard.wait(5)
    assert loads == [], "a stored race must not stand in for it"
    assert one_of(app.query_params["event"]) == "Late Grand Prix"
    go.set()
    assert loading.calendar(2024).wait(5)
    app.run()
    assert box(app, "Event").value == "Late Grand Prix"


@pytest.mark.parametrize("where", range(1, 12))
def test_a_run_that_is_overtaken_loses_no_choice(monkeypatch, where):
    """The first run ends somewhere among the controls, before the browser has heard of any of them."""
    asked = {"source": "real", "test": "BBB", "train": "CCC", "watch": "channels", "channels": "X-Y"}
    laps = {"laps-of": "range", "laps": "2-3"}
    real = choices._remember
    calls = []

    def remember(*arguments):
        calls.append(arguments)
        if len(calls) == where:
            st.rerun()
        real(*arguments)

    monkeypatch.setattr(choices, "_remember", remember)
    app = visit(**asked, **laps)
    assert len(calls) >= where
    for label, value in (("Fit on (train)", "CCC"), ("Apply to (test)", "BBB")):
        one = box(app, label)
        assert one.value == value
        assert not one.proto.set_value, "what the browser is told just once may be lost on the way"
        assert one.options[one.proto.default].startswith(value), "a browser that has heard nothing begins with this"
    assert "fitted on CCC, applied to BBB · laps 2 to 3" in words(app)


def test_a_session_that_is_not_stored_is_fetched_when_asked_for(monkeypatch):
    loads = []
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: loads.append(where) or ring_race())
    app = visit(source="real", session="Qualifying")
    assert loads == []
    app.button(key="f1-load").click().run()
    app.run()
    assert loads == [(2024, "Ring Grand Prix", "Qualifying")]
    assert "fitted on AAA" in words(app)


def test_what_was_downloaded_opens_without_a_question(monkeypatch):
    monkeypatch.setattr(formula1, "is_stored", lambda *where: False)  # nothing of it was extracted yet
    assert "fitted on AAA" in words(visit(source="real"))


def test_without_a_network_the_simulated_race_is_a_click_away(monkeypatch):
    fails(monkeypatch, "load_session", FeedError(Reason.NO_NETWORK, "A long story about hosts."))
    app = visit(source="real")
    assert "A long story" not in words(app)
    app.button(key="f1-simulated").click().run()
    assert "simulated race · fitted on FLT" in words(app)
    assert app.segmented_control(key="f1-source-1").value == "simulated"
    assert one_of(app.query_params["source"]) == "simulated"
    app.segmented_control(key="f1-source-1").set_value("real").run()
    assert loading.SAID[Reason.NO_NETWORK][0] in words(app), "and back"


def test_a_year_without_events_disables_what_follows():
    app = visit(source="real", year="2019")
    assert box(app, "Event").disabled


def test_what_the_model_sees_is_a_choice_in_words(feed):
    app = visit(source="real", watch="car")
    fits = [job.work.trials[0] for job in feed.jobs if job.slot == "main"]
    assert fits[-1].channels == ("speed", "gear"), "what both cars sent"
    app.radio(key="f1-watch").set_value("both").run()
    app.radio(key="f1-watch").set_value("where").run()
    fits = [job.work.trials[0] for job in feed.jobs if job.slot == "main"]
    assert [fit.channels for fit in fits[-2:]] == [("X", "Y", "speed", "gear"), ("X", "Y")]


def test_laps_and_channels_change_what_is_fitted(feed):
    app = visit(source="real", watch="paper")
    whole = feed.jobs[-1]
    app.radio(key="f1-watch").set_value("channels").run()
    app.multiselect(key="f1-channels").set_value(["X", "Y"]).run()
    box(app, "Laps").set_value("range").run()
    fits = [job.work for job in feed.jobs if job.slot == "main"]
    assert fits[-1].trials.n_channels == 2
    assert fits[0].trials.n_channels == 10
    assert whole is not feed.jobs[-1]
    assert app.query_params["channels"] in ("X-Y", ["X-Y"])


# ---- what the page lets go of ---------------------------------------------------------------------------------------
@pytest.mark.bulk
def test_every_figure_of_the_panel_can_be_made():
    app = visit(view="Export & reproduce", K="4")  # that of the first visit ships with the app
    for _ in range(4):
        app.run()
    names = app.selectbox(key="formula1-export-figure").options
    assert {"What follows what", "Prediction", "States along the lap"} < set(names)
    for name in names:
        app.selectbox(key="formula1-export-figure").set_value(name).run()
    assert "being worked out" not in words(app)


@pytest.mark.bulk
def test_the_script_of_the_first_visit_loads_the_fit_that_ships(tmp_path):
    """Fitted anew on another machine it would be another fit: the page says which one stands, and the script reads it."""
    app = visit(view="Export & reproduce").run().run()
    assert "ships with the app" in words(app)
    shown = app.session_state["live-formula1"].poll()
    (tmp_path / "formula1-model.safetensors").write_bytes(shown.result.model_bytes)
    assert "fitting anew" not in run_script(app.code[0].value, tmp_path)
    with np.load(tmp_path / "states.npz") as file:
        ours, theirs = file["trial_0"], file["new_trial_0"]
    np.testing.assert_allclose(ours, shown.train[0], atol=0.02, err_msg="what is drawn has eight bits")
    kept = shipped.load(data.SHIPPED).look.test[0]
    np.testing.assert_allclose(theirs, kept[:, list(shown.order)], atol=0.02)


@pytest.mark.bulk
def test_what_ships_is_what_a_fit_gives_here_but_for_the_machine():
    """Processors round differently, and a fit of hundreds of steps carries that on; another code or data would do more."""
    found = shipped.load(data.SHIPPED)
    place = Place(circuit=data.FIRST_CIRCUIT)
    codes = data.open_session(place).codes
    laps, other = (
        data.laps_of(place, code, Observation("racing", data.CAR_CHANNELS)) for code in (codes[0], codes[data.FIFTH])
    )
    assert shipped.both(laps.trials, other.trials) == found.fingerprint
    torch.set_num_threads(1)
    model = GDM(**data.FIRST_CONFIG).fit(laps.trials)
    assert model.elbo_ == pytest.approx(found.result.elbo, rel=1e-3)  # 0.0002 apart on a processor without AVX
    states, *_ = model.predict_proba(laps.trials)
    assert (np.asarray(states).argmax(axis=1) == found.look.train[0].argmax(axis=1)).mean() > 0.9
