"""Loading Formula 1: deadlines, stored sessions, damage and the data folder."""

import errno
import json
import socket
import sqlite3
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import requests
from fastf1 import Cache

from datasets import formula1
from datasets.f1 import feed, loader
from datasets.f1.trials import FOUND_CORNERS
from datasets.formula1 import FeedError, Reason, simulate_race
from datasets.storage import cache_dir, data_dir, file_lock
from gdm_core.errors import DataError
from tests.support.formula1 import feed_schedule, raises, ring_driver, ring_session

pytestmark = pytest.mark.usefixtures("home")


# --- processes, deadlines, caches ----------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch):
    """A proxy that answers each connection with the next of `says`, or stays silent."""
    with ExitStack() as held, socket.create_server(("127.0.0.1", 0)) as listening:
        made = SimpleNamespace(says=[], taken=0)

        def answer():
            with suppress(OSError):
                while True:
                    connection = held.enter_context(listening.accept()[0])
                    made.taken += 1
                    if made.says:
                        with connection, suppress(OSError):
                            connection.recv(4096)
                            connection.sendall(made.says[made.taken % len(made.says)])

        threading.Thread(target=answer, daemon=True).start()
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{listening.getsockname()[1]}")
        yield made
        listening.shutdown(socket.SHUT_RDWR)


def test_stalled_load_ends_at_the_deadline(home, monkeypatch):
    stalled, heard = home / "python", []
    stalled.write_text(
        '#!/bin/sh\necho \'{"kind": "progress", "share": 0.0, "text": "starting FastF1"}\'\nexec sleep 60\n'
    )
    stalled.chmod(0o755)
    monkeypatch.setattr(loader.sys, "executable", str(stalled))
    with raises(Reason.DEADLINE, "Ring Grand Prix 2024, Race", "longer than 1 s", "was starting FastF1", "Try again"):
        formula1.load_session(2024, "Ring Grand Prix", "Race", deadline_s=0.8, progress=lambda *p: heard.append(p))
    assert heard == [(0.0, "starting FastF1")]


def test_offline_load_without_cache_is_refused():
    with raises(Reason.NO_NETWORK, "2024 calendar", "simulated race"):
        formula1.load_session(2024, "Ring Grand Prix", "Race")
    assert not formula1.is_stored(2024, "Ring Grand Prix", "Race")


def test_stored_calendar_works_offline(log, monkeypatch):
    monkeypatch.setattr(feed, "get_event_schedule", lambda year, include_testing: feed_schedule(year))
    loader.write_schedule(feed.fetch_schedule(2024, log), loader.schedule_path(2024))
    assert [event.name for event in formula1.schedule(2024)] == ["Ring Grand Prix", "Oval Grand Prix"]
    this_year = formula1.years()[0]
    path = loader.schedule_path(this_year)
    loader.write_schedule(feed.fetch_schedule(this_year, log), path)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"saved": 0.0}))  # stale, and kept offline
    assert len(formula1.schedule(this_year)) == 2
    path.write_text("{")
    with raises(Reason.NO_NETWORK):
        formula1.schedule(this_year)
    assert path.with_name(path.name + ".damaged").read_text() == "{"


def test_years_before_telemetry_are_refused():
    assert formula1.years()[-1] == 2018
    with pytest.raises(DataError, match="no telemetry for 2017; choose a year from 2018"):
        formula1.schedule(2017)


def test_crashed_load_is_reported(monkeypatch):
    monkeypatch.setattr(loader.sys, "executable", "/bin/false")
    with raises(Reason.CRASHED, "exit code 1", "fastf1"):
        formula1.load_session(2024, "Ring Grand Prix", "Race", deadline_s=5)


def test_stored_session_opens_during_another_load(home):
    loader.write_session(ring_session(ring_driver("AAA")), loader.session_path(2024, "Ring Grand Prix", "Race"))
    with file_lock(cache_dir("formula1") / ".loading.lock", 1, "A load"):
        session = formula1.load_session(2024, "Ring Grand Prix", "Race", deadline_s=1.0)
    assert session.drivers[0].code == "AAA"


def test_waiting_load_can_be_cancelled(home):
    cancel, heard = threading.Event(), []

    def progress(share, text):
        heard.append(text)
        cancel.set()

    with file_lock(cache_dir("formula1") / ".loading.lock", 1, "A load"), raises(Reason.CANCELLED, "was cancelled"):
        formula1.load_session(2024, "Ring Grand Prix", "Race", cancel=cancel, progress=progress)
    assert heard == ["waiting for another session to be loaded"]


def test_second_load_times_out():
    with (
        file_lock(cache_dir("formula1") / ".loading.lock", 1, "A load"),
        pytest.raises(DataError, match="Loading another Formula 1 session is still running"),
    ):
        formula1.load_session(2024, "Ring Grand Prix", "Race", deadline_s=0.2)


def _stored_ring() -> Path:
    path = loader.session_path(2031, "Ring Grand Prix", "Race")
    loader.write_session(replace(ring_session(ring_driver("AAA"), ring_driver("BBB")), notes=("kept",)), path)
    return path


def test_session_round_trips_through_the_cache():
    _stored_ring()
    before = ring_session(ring_driver("AAA"), ring_driver("BBB"))
    after = formula1.load_session(2031, "Ring Grand Prix", "Race")
    assert after.notes == ("kept",)
    assert after.corners == before.corners
    assert formula1.stored_sessions() == ((2031, "Ring Grand Prix", "Race"),)
    for one, other in zip(before.drivers, after.drivers, strict=True):
        np.testing.assert_array_equal(one.time, other.time)
        np.testing.assert_array_equal(one.position, other.position)
        np.testing.assert_array_equal(one.lap, other.lap)
        assert one.available_channels == other.available_channels
        np.testing.assert_array_equal(one.laps.accurate, other.laps.accurate)
    trials = [formula1.to_trials(session, "BBB", channels=("X", "speed")) for session in (before, after)]
    assert trials[0].fingerprint == trials[1].fingerprint


def test_stored_session_without_corners_gets_the_found_ones():
    race = simulate_race("suzuka", drivers=["FLT"], laps=2)
    stored = replace(race, corners=(), notes=("No corner data for Suzuka: none.", "Another note."))
    loader.write_session(stored, loader.session_path(2024, "Suzuka", "Race"))
    opened = formula1.load_session(2024, "Suzuka", "Race", offline=True)
    assert len(opened.corners) > 10
    assert opened.notes[0] == "Another note."
    assert opened.notes[1].startswith(FOUND_CORNERS)
    assert len(opened.notes) == 2


def test_damaged_session_is_moved_aside():
    path = _stored_ring()
    other = loader.session_path(2031, "Ring Grand Prix", "Sprint")
    other.write_bytes(path.read_bytes())
    path.write_bytes(path.read_bytes()[:5000])
    session, note = loader.read_or_move_aside(path)
    assert session is None
    assert "2031_ring-grand-prix_race.npz.damaged" in note
    assert path.with_name(path.name + ".damaged").stat().st_size == 5000
    assert not path.exists()
    assert loader.read_session(other).codes == ("AAA", "BBB")
    assert formula1.stored_sessions() == ((2031, "Ring Grand Prix", "Race"),)


def test_fastf1_log_drives_the_progress(log, home):
    """The progress depends on log messages of FastF1, which may change."""
    heard = []
    log.progress = lambda share, text: heard.append(text)

    def car_data(path):
        return {"answer": 1}

    fetched = Cache.api_request_wrapper(car_data)
    fetched("/static/x/")  # nothing stored
    fetched("/static/x/")  # stored
    assert heard[:2] == ["downloading speed, throttle, brake, gear", "reading speed, throttle, brake, gear"]


# --- storage -------------------------------------------------------------------------------------------------------


def test_invalid_data_folder_raises_data_error(home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("GDM_DATA_DIR", str(home / "file" / "below"))
    with pytest.raises(DataError, match="Set GDM_DATA_DIR to a folder"):
        data_dir()


GARBAGE = (b"", b"HTTP/1.1 200 OK\r\n\r\n<html>no TLS</html>", b"HTTP/1.1 403 Forbidden\r\n\r\n", b"\x00\xff" * 900)


def test_garbage_from_server_is_reported(server):
    server.says += GARBAGE
    with raises(Reason.NO_NETWORK, "2024 calendar", "simulated race"):
        formula1.schedule(2024, deadline_s=120)
    assert server.taken > 1


def test_file_lock_is_released(home):
    for _ in range(2):
        with (
            file_lock(home / "lock", 0.1, "It"),
            pytest.raises(DataError, match="It is still running"),
            file_lock(home / "lock", 0.1, "It"),
        ):
            pytest.fail("two held one lock")


# ---- the process that loads a session -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "readonly database"),
        (FeedError(Reason.ACCOUNT, 'sign-in with a"secret\u00e9 failed'), "sign-in with *** failed"),
        (requests.ConnectionError("nobody there"), ""),
    ],
)
def test_worker_reports_full_disk_and_masks_the_password(monkeypatch, capsys, error, words):
    monkeypatch.setattr(feed.faulthandler, "dump_traceback_later", lambda *_, **__: None)
    monkeypatch.setenv("F1_PASSWORD", 'a"secret\u00e9')

    def fail(request, progress):
        print("FastF1 may print anything")
        raise error

    monkeypatch.setattr(feed, "load", fail)
    if not words:  # a network error
        with pytest.raises(type(error)):
            feed.main('{"deadline_s": 5}')
        return
    assert feed.main('{"deadline_s": 5}') == 0
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    reason = error.reason if isinstance(error, FeedError) else Reason.STORAGE
    assert (answer["kind"], answer["reason"]) == ("error", reason.value)
    assert words in answer["message"]
