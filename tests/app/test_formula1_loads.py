"""Loading a Formula 1 session: failures, progress and incomplete data."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from datasets.f1 import loader
from datasets.formula1 import FeedError, Reason
from pages.formula1 import sessions
from pages.lab.live.background import Jobs, Task
from tests.support.formula1 import ring_driver
from tests.support.formula1_page import RING, box, driven_by, drivers, fails, ring_race, visit, visit_states, words

pytestmark = pytest.mark.usefixtures("feed")


@pytest.mark.parametrize("reason", [Reason.NO_NETWORK, Reason.STORAGE])
def test_failed_load_has_a_message_and_can_be_retried(monkeypatch, reason):
    tries = fails(monkeypatch, "load_session", FeedError(reason, f"It went wrong ({reason.value})."))
    app = visit(source="real")
    text = words(app)
    assert text.count('role="alert">') == 1
    assert reason.value in text
    assert len(tries) == 1
    monkeypatch.setattr(loader, "load_session", lambda *where, **more: ring_race())
    app.button(key="f1-retry").click().run()
    app.run()
    assert drivers(app)[0] == "AAA"


def test_offline_default_year_is_the_last_finished_one(monkeypatch):
    """The calendar of the running season cannot be read."""
    fails(monkeypatch, "schedule", FeedError(Reason.NO_NETWORK, "No way out."))
    monkeypatch.setattr(loader, "stored_sessions", lambda: ())
    app = visit(source="real")
    app.run()
    assert box(app, "Year").value == str(loader.years()[1])


def test_sign_in_failure_names_the_environment_variables(monkeypatch):
    monkeypatch.delenv("F1_PASSWORD", raising=False)
    fails(monkeypatch, "load_session", FeedError(Reason.ACCOUNT, "The timing service wants an account."))
    app = visit(source="real")
    assert "F1_USERNAME and F1_PASSWORD" in words(app)
    assert not app.text_input


def test_running_load_shows_progress_and_can_be_cancelled(monkeypatch):
    heard = threading.Event()

    def slow(*where, progress, cancel, **more):
        progress(0.4, "reading positions")
        heard.set()
        cancel.wait(20)
        raise FeedError(Reason.CANCELLED, "Cancelled.")

    monkeypatch.setattr(loader, "load_session", slow)
    monkeypatch.setattr(loader, "is_stored", lambda *where: False)
    app = visit(source="real")
    assert heard.wait(5)
    app.run()
    assert "reading positions" in words(app)
    app.button(key="f1-cancel").click().run()
    load = sessions.request_session(RING)
    assert load.wait(5)
    app.run()
    assert Reason.CANCELLED.value in words(app)


def test_unexpected_load_error_is_reported(monkeypatch):
    fails(monkeypatch, "load_session", KeyError("boom"))
    load = sessions.request_session(RING)
    assert load.wait(5)
    assert "KeyError" in str(load.error)


def test_loads_are_shared_and_bounded():
    loads = Jobs(2)
    first = loads.get(("a",), lambda: Task(lambda load: 1))
    assert first.wait(5)
    assert loads.get(("a",), lambda: Task(lambda load: 2)) is first
    for name in "bcd":
        assert loads.get((name,), lambda: Task(lambda load: 1)).wait(5)
    assert loads.get(("a",), lambda: Task(lambda load: 3)) is not first


def test_driver_without_positions_is_left_out_and_named(monkeypatch):
    empty = ring_driver("NIL")
    object.__setattr__(empty, "time", empty.time[:0])
    object.__setattr__(empty, "position", empty.position[:0])
    driven_by(monkeypatch, ring_driver("AAA"), empty, ring_driver("BBB"))
    app = visit(source="real")
    assert box(app, "Reference driver").options == ["AAA · Driver AAA", "BBB · Driver BBB"]
    assert any("NIL" in caption.value for caption in app.caption)


def test_session_without_corners_has_no_segments(monkeypatch):
    driven_by(monkeypatch, ring_driver("AAA"), ring_driver("BBB"), corners=())
    app = visit_states(source="real")
    assert app.session_state["fit-formula1"].poll().spec.dataset.source.train.segment is None


def test_stored_session_opens_without_a_calendar(monkeypatch):
    fails(monkeypatch, "schedule", FeedError(Reason.NO_NETWORK, "no calendar service answered"))
    app = visit(source="real")
    assert drivers(app)[0] == "AAA"


def test_missing_and_deleted_lap_times_are_reported(monkeypatch):
    silent = ring_driver("BBB")
    silent = replace(silent, laps=replace(silent.laps, seconds=np.full(len(silent.laps), np.nan)))
    deleted = ring_driver("AAA")
    deleted.laps.deleted[1] = True
    driven_by(monkeypatch, deleted, silent)
    text = words(visit(source="real"))
    assert "BBB set no time" in text
    assert "lap 2 of AAA" in text
