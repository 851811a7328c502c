"""Cleaning up after a visitor who has left: jobs end and the session is dropped."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from streamlit import runtime
from streamlit.runtime.caching.ttl_cache import TTLCache

from pages.lab.live import Live, session_cleanup
from tests.support.live_engine import QuickEngine


class Server:
    """The parts of Streamlit's runtime that the cleanup uses."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.now = 0.0
        self.kept: TTLCache[str, object] = TTLCache(maxsize=9, ttl=120, timer=lambda: self.now)
        storage = SimpleNamespace(_cache=self.kept)
        self._session_mgr = SimpleNamespace(
            _session_storage=storage, _storage_lock=threading.Lock(), get_session_info=self.info
        )

    def info(self, session: str) -> object:
        """Return a session that is connected or may reconnect, as Streamlit does."""
        return session if session in self.active else self.kept.get(session)


@pytest.fixture
def server(monkeypatch) -> Server:
    made = Server()
    monkeypatch.setattr(runtime, "exists", lambda: True)
    monkeypatch.setattr(runtime, "get_instance", lambda: made)
    monkeypatch.setattr(session_cleanup, "_mark", lambda session: session)
    return made


def test_expired_session_is_cleaned_up(server):
    engine = QuickEngine(auto=False)
    mine, also_mine, theirs = (Live(engine, name) for name in ("me/nascar", "me/your_data", "they/nascar"))
    session_cleanup.watch_over("me", mine)
    session_cleanup.watch_over("me", also_mine)
    session_cleanup.watch_over("they", theirs)
    server.active = {"they"}
    ended = []
    state = {"your-data": "a long table"}
    server.kept["me"] = SimpleNamespace(
        session=SimpleNamespace(session_state=state, shutdown=lambda: ended.append("me"))
    )
    server.now = 121.0
    assert session_cleanup.gone("me")
    assert ended == ["me"]
    assert state == {}
    assert sorted(engine.forgotten) == ["me/nascar", "me/your_data"]
    assert server.kept._data == {}, "Streamlit has dropped the session"
    assert session_cleanup.gone("me"), "a second cleanup changes nothing"
    assert len(engine.forgotten) == 2


def test_reconnected_session_keeps_its_jobs(server):
    engine = QuickEngine(auto=False)
    live = Live(engine, "me/nascar")
    session_cleanup.watch_over("me", live)
    server.active = {"me"}
    assert not session_cleanup.gone("me")
    assert engine.forgotten == []
    server.active = set()
    assert session_cleanup.gone("me")
    assert engine.forgotten == ["me/nascar"]


def test_released_fit_is_closed_once(server):
    engine = QuickEngine(auto=False)
    live = Live(engine, "me/your_data")
    session_cleanup.watch_over("me", live)
    session_cleanup.let_go("me", live)
    assert engine.forgotten == ["me/your_data"]
    assert session_cleanup.gone("me")
    assert engine.forgotten == ["me/your_data"]
