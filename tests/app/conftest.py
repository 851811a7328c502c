"""What tests of pages share."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages.lab import card
from pages.lab.live import screen, session
from pages.ui import server
from tests.support.live_engine import QuickEngine


@pytest.fixture(autouse=True)
def _unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test changes controls faster than a person can. Only the tests of that waiting itself should meet it."""
    if request.path.name != "test_live.py":
        monkeypatch.setattr(session, "HURRY_S", 0.0)


@pytest.fixture(autouse=True)
def _one_seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """More seeds are fitted in the background, for minutes of all tests together. Only tests of them should pay."""
    if "seeds" not in request.node.name:
        monkeypatch.setattr(card, "MORE_SEEDS", 0)


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script run by a test starts no workers in the background."""
    monkeypatch.setattr(server, "get_ready", lambda: None)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> QuickEngine:
    """What pages fit on: in this process, at once, and with an empty data folder."""
    made = QuickEngine()
    monkeypatch.setattr(screen, "engine", lambda: made)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    return made
