"""The process that loads a session: what it answers when the disk or the network fails it."""

from __future__ import annotations

import errno
import io
import json
import sqlite3

import pytest
import requests

from datasets.f1 import worker
from datasets.formula1 import Reason
from datasets.storage import StorageError

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "readonly database"),
        (StorageError("x.npz is damaged, and cannot be moved aside."), "cannot be moved aside"),
    ],
)
def test_a_disk_that_takes_nothing_is_told_by_the_loading_process(monkeypatch, error, words):
    stream = io.StringIO()
    monkeypatch.setattr(worker, "_private_output", lambda: stream)
    monkeypatch.setattr(worker.faulthandler, "dump_traceback_later", lambda *_, **__: None)

    def fail(request, progress):
        raise error

    monkeypatch.setattr(worker, "_load", fail)
    assert worker.main('{"deadline_s": 5}') == 0
    answer = json.loads(stream.getvalue().splitlines()[-1])
    assert answer["kind"] == "error"
    assert answer["reason"] == Reason.STORAGE.value
    assert words in answer["message"]


def test_errors_of_the_network_are_none_of_the_disk(monkeypatch):
    monkeypatch.setattr(worker, "_private_output", io.StringIO)
    monkeypatch.setattr(worker.faulthandler, "dump_traceback_later", lambda *_, **__: None)

    def fail(request, progress):
        raise requests.ConnectionError("nobody there")

    monkeypatch.setattr(worker, "_load", fail)
    with pytest.raises(requests.ConnectionError):
        worker.main('{"deadline_s": 5}')
