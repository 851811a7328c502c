"""What tests of pages share."""

from __future__ import annotations

import pytest

from pages.ui import server
from pages.ui.live import session


@pytest.fixture(autouse=True)
def _unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test changes controls faster than a person can. Only the tests of that waiting itself should meet it."""
    if request.path.name != "test_live.py":
        monkeypatch.setattr(session, "HURRY_S", 0.0)


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script run by a test starts no workers in the background."""
    monkeypatch.setattr(server, "get_ready", lambda: None)
