"""The Formula 1 page as a script: the cascade, and what a load may run into."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from datasets import formula1
from datasets.formula1 import FeedError, Reason
from pages import lab
from pages.formula1 import accuracy, choices, data, loading, state_names
from pages.formula1.data import Looked, Place
from pages.lab import shipped
from pages.lab.live import session as live_session
from pages.ui import navigation
from tests.support.formula1 import ring_driver, ring_session
from tests.support.formula1_page import RING, WEEKEND, arrange, ring_race
from tests.support.sliders import slider

APP = str(navigation.ROOT / "app.py")


@pytest.fixture(autouse=True)
def feed(monkeypatch, tmp_path):
    return arrange(monkeypatch, tmp_path)


def visit(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run().switch_page(str(navigation.info("formula1").path)).run()


def words(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def box(app: AppTest, label: str):
    return next(one for one in app.selectbox if one.label == label)


def one_of(value: str | list[str]) -> str:
    """What the address holds: a text until the page has written it, a list afterwards."""
    return value if isinstance(value, str) else value[0]


# ---- a first visit ------------------------------------------------------------------------------------------------
def test_a_first_visit_shows_the_simulated_race_without_a_fit(feed):
    app = visit()
    assert not app.exception
    text = words(app)
    assert "Simulated race" in text
    assert "Real sessions" in text
    assert "simulated race · fitted on FLT" in text
    assert "One segment a state" in text, "scores come with the bundled result"
    fits = [job for job in feed.jobs if job.slot == "main" and job.poll().result is None]
    assert fits == []
    done = next(job for job in feed.jobs if job.slot == "main")
    assert shipped.load(data.SHIPPED).stands(done.poll().result)


def test_the_bundled_states_are_those_of_its_model():
    from gdm_core.analysis.looks import soft_states
    from gdm_core.analysis.metrics import paper_accuracy
    from gdm_core.trials import Trials

    found = shipped.load(data.SHIPPED)
    place = Place(circuit=data.FIRST_CIRCUIT)
    codes = data.open_session(place).codes
    train, laps = (data.laps_of(place, code, Looked()) for code in (codes[0], codes[data.FIFTH]))
    model_bytes, (ours,), (theirs,) = found.result.model_bytes, found.look.train, found.look.test
    # The start of the race is enough, and quick.
    part = laps.trials[0].slice(0, 1500)
    (states,) = soft_states(model_bytes, Trials((part,)))
    # Reading out draws samples; another length draws others.
    kept = theirs[:1490]
    assert np.abs(kept - states[:1490]).mean() < 0.03
    assert (kept.argmax(axis=1) == states[:1490].argmax(axis=1)).mean() > 0.85
    measured = paper_accuracy(ours, train.segment, theirs, laps.segment)
    assert measured == pytest.approx(found.more["scores"]["paper_accuracy"], abs=0.01)
    assert measured > 0.8


# ---- what a state is ----------------------------------------------------------------------------------------------
def test_states_are_named_by_what_the_car_does_in_them(feed):
    app = visit(view="What a state is")
    assert not app.exception
    (table,) = [frame.value for frame in app.dataframe]
    assert list(table["State"]) == [f"S{k}" for k in range(1, 9)]
    assert table["Of the time"].sum() == pytest.approx(100)
    assert table["Speed"].between(50, 340).all()
    fast, slow = table.loc[table["Speed"].idxmax()], table.loc[table["Speed"].idxmin()]
    assert fast["Name"].startswith("flat out")
    assert slow["In corners"] > 50 > fast["In corners"]
    text = words(app)
    for state, name in zip(table["State"], table["Name"], strict=True):
        assert f"{state} {name}" in text, "the legend"
    assert "right for 56% of the samples of RGL. Without a model: 8 equal stretches of the lap 58%" in text


def test_a_name_of_ones_own_stands_in_the_legend_and_in_exports_until_it_is_emptied(feed, monkeypatch):
    app = visit(view="What a state is")
    shown = app.session_state["live-formula1"].poll()
    fit, order = shown.result.key, shown.order
    proposed = app.dataframe[0].value["Name"][0]
    state: dict[str, object] = {"editor": {"edited_rows": {0: {"Name": "  into   the hairpin "}}}}
    with monkeypatch.context() as patched:
        patched.setattr(state_names, "st", SimpleNamespace(session_state=state))
        state_names.keep_names("editor", fit, order)
        typed = dict(state[state_names._NAMES][fit])
        state["editor"] = {"edited_rows": {0: {"Name": None}}}
        state_names.keep_names("editor", fit, order)
    assert typed == {order[0]: "into the hairpin"}
    assert state[state_names._NAMES][fit] == {}
    app.session_state[state_names._NAMES] = {fit: typed}
    app.run()
    assert not app.exception
    assert "S1 into the hairpin" in words(app)
    assert f"S1 {proposed}<" not in words(app)
    handed = []
    monkeypatch.setattr(lab.export, "panel", handed.append)
    visit_again = visit(view="Export & reproduce")
    (export,) = handed[-1:]
    assert not visit_again.exception
    assert export.names[0] == proposed
    made = export.figures["Map of FLT"]()
    assert f"S1 {proposed}" in [trace.get("name") for trace in made["data"]]


# ---- one fit at a time --------------------------------------------------------------------------------------------
def test_the_second_driver_can_be_changed_while_the_fit_stays(feed):
    app = visit(source="real")
    fits = sum(job.slot == "main" for job in feed.jobs)
    assert "between AAA lap 1 and CCC lap 1" in words(app)
    box(app, "Apply to (test)").set_value("BBB").run()
    assert not app.exception
    assert "between AAA lap 1 and BBB lap 1" in words(app), "not the driver who was chosen before"
    assert sum(job.slot == "main" for job in feed.jobs) == fits


def test_answers_that_come_late_never_meet_those_of_another_fit(feed, monkeypatch):
    """Every job ends when the test says so: the page is looked at after each of them, in both orders."""
    monkeypatch.setattr(live_session, "WARM_WORTH_S", 0.0)
    app = visit(source="real")
    assert not app.exception
    feed.auto = False
    for latest_first, n_states, other in ((False, 9, "BBB"), (True, 6, "CCC"), (False, 5, "BBB"), (True, 8, "BBB")):
        slider(app, "K").set_value(n_states).run()
        assert not app.exception
        box(app, "Apply to (test)").set_value(other).run()
        assert not app.exception
        while waiting := feed.waiting():
            feed.run(waiting[-1 if latest_first else 0])
            app.run()
            assert not app.exception, app.exception[0].message
        assert f"between AAA lap 1 and {other} lap 1" in words(app)


# ---- the cascade --------------------------------------------------------------------------------------------------
def test_each_step_offers_what_the_step_before_leaves():
    app = visit(source="real")
    assert not app.exception
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


def test_a_choice_is_kept_in_the_address():
    app = visit(source="real")
    box(app, "Apply to (test)").set_value("BBB").run()
    assert app.query_params["test"] in ("BBB", ["BBB"])
    app.segmented_control(key="f1-laps-of").set_value("racing").run()
    assert app.query_params["laps-of"] in ("racing", ["racing"])
    app.segmented_control(key="f1-laps-of").set_value("all").run()
    assert "laps-of" not in app.query_params, "what anybody finds there needs no word"


def test_the_link_of_a_real_session_does_not_depend_on_the_day_or_on_what_is_stored(monkeypatch):
    app = visit(source="real")
    link = {name: one_of(app.query_params[name]) for name in app.query_params}
    assert {"year": "2024", "event": "Ring Grand Prix", "session": "Race", "train": "AAA"}.items() <= link.items()
    monkeypatch.setattr(
        formula1, "stored_sessions", lambda: ((2025, "Newer Grand Prix", "Race"), (2024, RING.event, "Race"))
    )
    later = visit(**link)
    assert not later.exception
    assert box(later, "Year").value == "2024"
    assert box(later, "Event").value == "Ring Grand Prix"
    assert "not to be had" not in words(later)


def test_what_the_address_asks_for_in_vain_is_said_in_one_line():
    app = visit(source="real", year="1999", event="nonsense", train="ZZZ", watch="x-ray")
    text = words(app)
    assert not app.exception
    assert text.count("The address asked for") == 1
    for asked in ("year “1999”", "event “nonsense”", "“ZZZ”", "“x-ray”"):
        assert asked in text
    assert box(app, "Event").value == "Ring Grand Prix"
    app.run()
    assert "year “1999”" in words(app), "it stays until something else is chosen"
    box(app, "Fit on (train)").set_value("BBB").run()
    assert "“ZZZ”" not in words(app)
    assert "year “1999”" in words(app)
    box(app, "Fit on (train)").set_value("AAA").run()
    assert "“ZZZ”" not in words(app), "what was chosen by hand is no stand-in"


def test_laps_beyond_those_driven_are_said():
    app = visit(source="real", **{"laps-of": "range", "laps": "2-99"})
    assert "laps from, to “2-99”" in words(app)
    assert app.slider(key=next(s.key for s in app.slider if s.label == "Laps from, to")).value[0] == 2


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
    assert not app.exception
    assert len(calls) >= where
    for label, value in (("Fit on (train)", "CCC"), ("Apply to (test)", "BBB")):
        one = box(app, label)
        assert one.value == value
        assert not one.proto.set_value, "what the browser is told just once may be lost on the way"
        assert one.options[one.proto.default].startswith(value), "a browser that has heard nothing begins with this"
    assert "fitted on CCC, applied to BBB · laps 2 to 3" in words(app)


def test_a_session_that_is_not_stored_is_fetched_when_asked_for(monkeypatch):
    loads = []
    monkeypatch.setattr(formula1, "is_stored", lambda *where: False)
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: loads.append(where) or ring_race())
    app = visit(source="real")
    assert loads == []
    app.button(key="f1-load").click().run()
    app.run()
    assert loads == [(2024, "Ring Grand Prix", "Race")]
    assert "fitted on AAA" in words(app)


def test_without_a_network_the_simulated_race_is_a_click_away(monkeypatch):
    def fail(*where, **more):
        raise FeedError(Reason.NO_NETWORK, "A long story about hosts.")

    monkeypatch.setattr(formula1, "load_session", fail)
    app = visit(source="real")
    assert "A long story" not in words(app)
    app.button(key="f1-simulated").click().run()
    assert not app.exception
    assert "simulated race · fitted on FLT" in words(app)
    assert app.segmented_control(key="f1-source-1").value == "simulated"
    assert "source" not in app.query_params
    app.segmented_control(key="f1-source-1").set_value("real").run()
    assert loading.TITLES[Reason.NO_NETWORK] in words(app), "and back"


def test_a_year_without_events_disables_what_follows():
    app = visit(source="real", year="2019")
    assert box(app, "Event").disabled
    assert not app.exception


def test_what_the_model_sees_is_a_choice_in_words(feed):
    app = visit(source="real", watch="car")
    assert not app.exception
    fits = [job.work.trials[0] for job in feed.jobs if job.slot == "main"]
    assert fits[-1].channels == ("speed", "gear"), "what both cars sent"
    app.segmented_control(key="f1-watch").set_value("both").run()
    app.segmented_control(key="f1-watch").set_value("where").run()
    assert not app.exception
    fits = [job.work.trials[0] for job in feed.jobs if job.slot == "main"]
    assert [fit.channels for fit in fits[-2:]] == [("X", "Y", "speed", "gear"), ("X", "Y")]


def test_laps_and_channels_change_what_is_fitted(feed):
    app = visit(source="real")
    whole = feed.jobs[-1]
    app.segmented_control(key="f1-watch").set_value("channels").run()
    assert not app.exception
    app.multiselect(key="f1-channels").set_value(["X", "Y"]).run()
    app.segmented_control(key="f1-laps-of").set_value("range").run()
    assert not app.exception
    fits = [job.work for job in feed.jobs if job.slot == "main"]
    assert fits[-1].trials.n_channels == 2
    assert fits[0].trials.n_channels == 10
    assert whole is not feed.jobs[-1]
    assert app.query_params["channels"] in ("X-Y", ["X-Y"])


# ---- what a load may run into -------------------------------------------------------------------------------------
@pytest.mark.parametrize("reason", list(Reason))
def test_every_failure_has_a_message_and_a_way_on(monkeypatch, reason):
    tries = []

    def fail(*where, **more):
        tries.append(where)
        raise FeedError(reason, f"It went wrong ({reason.value}).")

    monkeypatch.setattr(formula1, "load_session", fail)
    app = visit(source="real")
    text = words(app)
    assert not app.exception
    assert text.count('role="alert"') == 1
    assert loading.TITLES[reason] in text
    assert loading.WAYS_ON[reason][:40] in text
    assert len(tries) == 1
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: ring_race())
    app.button(key="f1-retry").click().run()
    app.run()
    assert "fitted on AAA" in words(app)


def test_the_account_is_explained_and_no_password_asked_for(monkeypatch):
    monkeypatch.delenv("F1_PASSWORD", raising=False)

    def fail(*where, **more):
        raise FeedError(Reason.ACCOUNT, "The timing service wants an account.")

    monkeypatch.setattr(formula1, "load_session", fail)
    app = visit(source="real")
    assert "F1_USERNAME and F1_PASSWORD" in words(app)
    assert not app.text_input


def test_a_load_under_way_says_how_far_it_is_and_can_be_cancelled(monkeypatch):
    heard = threading.Event()

    def slow(*where, progress, cancel, **more):
        progress(0.4, "reading positions")
        heard.set()
        cancel.wait(20)
        raise FeedError(Reason.CANCELLED, "Cancelled.")

    monkeypatch.setattr(formula1, "load_session", slow)
    app = visit(source="real")
    assert heard.wait(5)
    app.run()
    assert "reading positions" in words(app)
    app.button(key="f1-cancel").click().run()
    load = loading.session(RING.year, RING.event, RING.name)
    assert load.wait(5)
    app.run()
    assert loading.TITLES[Reason.CANCELLED] in words(app)


def test_an_error_that_nobody_foresaw_does_not_hang_the_page(capsys):
    def broken(report, cancel):
        raise RuntimeError("boom")

    threading.excepthook, kept = (lambda arguments: None), threading.excepthook
    try:
        load = loading.Load(broken)
        assert load.wait(5)
    finally:
        threading.excepthook = kept
    assert load.error.reason is Reason.CRASHED


def test_loads_are_shared_and_bounded():
    loads = loading.Loads(limit=2)
    first = loads.get(("a",), lambda report, cancel: 1)
    assert first.wait(5)
    assert loads.get(("a",), lambda report, cancel: 2) is first
    for name in "bcd":
        assert loads.get((name,), lambda report, cancel: 1).wait(5)
    assert loads.get(("a",), lambda report, cancel: 3) is not first


def test_a_driver_without_positions_is_left_out_and_named(monkeypatch):
    empty = ring_driver("NIL")
    object.__setattr__(empty, "time", empty.time[:0])
    object.__setattr__(empty, "position", empty.position[:0])
    monkeypatch.setattr(
        formula1, "load_session", lambda *where, **more: ring_session(ring_driver("AAA"), empty, ring_driver("BBB"))
    )
    app = visit(source="real")
    assert box(app, "Fit on (train)").options == ["AAA · Driver AAA", "BBB · Driver BBB"]
    assert any("NIL" in caption.value for caption in app.caption)


def test_a_session_without_corners_is_drawn_without_segments(monkeypatch):
    monkeypatch.setattr(
        formula1,
        "load_session",
        lambda *where, **more: ring_session(ring_driver("AAA"), ring_driver("BBB"), corners=()),
    )
    app = visit(source="real")
    assert not app.exception
    assert "no segments and no state scores" in words(app)


# ---- many fits ----------------------------------------------------------------------------------------------------
def test_the_tab_starts_the_fits_only_when_asked(feed, monkeypatch):
    asked = []
    monkeypatch.setattr(feed, "bulk", lambda key: asked.append(key))
    app = visit(source="real", view="Accuracy against K")
    assert not app.exception
    assert len(set(asked)) == 2, "it looks whether they run already, for both models"
    assert any(button.label == "Fit 54 models" for button in app.button)


def _end_fits(feed, n: int) -> None:
    """The first `n` fits of sweeps that wait come to their end."""
    for job in [job for job in feed.waiting() if job.slot is None][:n]:
        scores = {name: 0.5 for name in accuracy.SCORES}
        value = {"elbo_train": 0.0, "elbo_test": 0.0, "scores": scores, "seconds": 0.1}
        feed.values[job.work.cache_key] = value
        job.succeed(value)


def _sweep_buttons(app: AppTest) -> list[str]:
    return [button.label for button in app.button if str(button.key).startswith("f1-sweep")]


def _press(app: AppTest, label: str) -> AppTest:
    assert _sweep_buttons(app) == [label]
    return next(button for button in app.button if str(button.key).startswith("f1-sweep")).click().run()


def test_a_stopped_sweep_says_so_and_goes_on_where_it_was(feed):
    app = visit(source="real", view="Accuracy against K", seeds="2", rslds="false")
    feed.auto = False
    _press(app, "Fit 18 models")
    _end_fits(feed, 5)
    app.run()
    _press(app, "Stop")
    assert not app.exception
    assert "Stopped after 5 of 18 fits" in words(app)
    assert feed.waiting() == []
    _press(app, "Go on with 13 fits")
    assert len([job for job in feed.waiting() if job.slot is None]) == 8, "only what is missing, a few at a time"
    while feed.waiting():
        _end_fits(feed, 8)
    app.run()
    assert not app.exception
    assert _sweep_buttons(app) == []


def test_nobody_stops_the_sweep_of_somebody_else(feed, monkeypatch):
    link = {"source": "real", "view": "Accuracy against K", "seeds": "1", "rslds": "false"}
    app, other = visit(**link), visit(**link)
    feed.auto = False

    def of(name: str) -> None:
        monkeypatch.setattr(accuracy, "_visitor", lambda: name)

    of("one")
    _press(app, "Fit 9 models")
    of("two")
    other.run()
    assert "fits go on here" in words(other)
    _press(other, "Go on with 9 fits")
    of("one")
    _press(app, "Stop")
    assert feed.waiting(), "the other has asked for them too"
    of("two")
    other.run()
    _press(other, "Stop")
    assert feed.waiting() == []
