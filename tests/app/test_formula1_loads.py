"""What loading a session may run into, on the page."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from datasets import formula1
from datasets.formula1 import FeedError, Reason
from pages.formula1 import loading
from pages.lab.live.background import Works
from tests.support.formula1 import ring_driver, ring_session
from tests.support.formula1_page import RING, box, ring_race, visit, words

pytestmark = pytest.mark.usefixtures("feed")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_failure_has_a_message_and_a_way_on(monkeypatch, reason):
    tries = []

    def fail(*where, **more):
        tries.append(where)
        raise FeedError(reason, f"It went wrong ({reason.value}).")

    monkeypatch.setattr(formula1, "load_session", fail)
    app = visit(source="real")
    text = words(app)
    assert text.count('role="alert"') == 1
    assert loading.SAID[reason][0] in text
    assert loading.SAID[reason][1][:40] in text
    assert len(tries) == 1
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: ring_race())
    app.button(key="f1-retry").click().run()
    app.run()
    assert "fitted on AAA" in words(app)


def test_with_no_network_and_nothing_stored_the_year_is_the_last_that_is_over(monkeypatch):
    """The running season's calendar cannot be read, and least of all is it kept in a cache."""

    def fail(year, **more):
        raise FeedError(Reason.NO_NETWORK, "No way out.")

    monkeypatch.setattr(formula1, "schedule", fail)
    monkeypatch.setattr(formula1, "stored_sessions", lambda: ())
    app = visit(source="real")
    app.run()
    assert box(app, "Year").value == str(formula1.years()[1])
    assert "No network" in words(app)


@pytest.mark.parametrize("stored", [True, False])
def test_nothing_is_called_stored_where_nothing_is_marked_as_such(monkeypatch, stored):
    if not stored:
        monkeypatch.setattr(formula1, "stored_sessions", lambda: ())
    _, text = loading.explain(FeedError(Reason.NO_NETWORK, "No way out."))
    assert ("marked as stored" in text) is stored


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
    assert loading.SAID[Reason.CANCELLED][0] in words(app)


def test_an_error_that_nobody_foresaw_does_not_hang_the_page(monkeypatch):
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: {}["boom"])
    load = loading.session(RING.year, RING.event, RING.name)
    assert load.wait(5)
    assert load.error.reason is Reason.CRASHED


def test_loads_are_shared_and_bounded():
    loads = Works(2)
    first = loads.get("a", lambda load: 1)
    assert first.wait(5)
    assert loads.get("a", lambda load: 2) is first
    for name in "bcd":
        assert loads.get(name, lambda load: 1).wait(5)
    assert loads.get("a", lambda load: 3) is not first


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
    assert "no segments and no state scores" in words(app)


def test_a_season_without_a_calendar_still_opens_what_is_stored(monkeypatch):
    def none(year, **more):
        raise FeedError(Reason.NO_NETWORK, "no calendar service answered")

    monkeypatch.setattr(formula1, "schedule", none)
    app = visit(source="real")
    assert any("Only stored sessions are listed: no network" in caption.value for caption in app.caption)
    assert "fitted on AAA" in words(app)


def test_what_is_wanting_in_the_chosen_laps_is_said_above_the_picture(monkeypatch):
    silent = ring_driver("BBB")
    silent = replace(silent, laps=replace(silent.laps, seconds=np.full(len(silent.laps), np.nan)))
    deleted = ring_driver("AAA")
    deleted.laps.deleted[1] = True
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: ring_session(deleted, silent))
    for view in ("Telemetry", "Drivers compared", "Corners"):
        app = visit(source="real", view=view)
        assert "BBB set no time" in words(app)
        assert "Race control deleted lap 2 of AAA" in words(app)
