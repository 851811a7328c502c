"""What happens when a visitor has left: his fits end, and Streamlit is made to look through what it keeps."""

from __future__ import annotations

import gc
import logging
import threading
from types import SimpleNamespace

import pytest
from streamlit import runtime
from streamlit.runtime.caching.ttl_cache import TTLCache

from pages.lab.live import Live, session_cleanup
from tests.support.live_engine import QuickEngine


class Server:
    """As much of Streamlit's runtime as a departure meets."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.now = 0.0
        self.kept: TTLCache[str, object] = TTLCache(maxsize=9, ttl=120, timer=lambda: self.now)
        storage = SimpleNamespace(_cache=self.kept)
        self._session_mgr = SimpleNamespace(
            _session_storage=storage, _storage_lock=threading.Lock(), get_session_info=self.info
        )

    def info(self, session: str) -> object:
        """As Streamlit has it: of a session that is here, or may still come back."""
        return session if session in self.active else self.kept.get(session)


@pytest.fixture
def server(monkeypatch) -> Server:
    made = Server()
    monkeypatch.setattr(runtime, "exists", lambda: True)
    monkeypatch.setattr(runtime, "get_instance", lambda: made)
    monkeypatch.setattr(session_cleanup, "_mark", lambda session: session)
    return made


def test_who_has_left_for_good_is_forgotten_and_nobody_else(server):
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
    assert server.kept._data == {}, "Streamlit holds the session no longer"
    assert session_cleanup.gone("me"), "twice does no harm"
    assert len(engine.forgotten) == 2


def test_who_is_back_keeps_everything(server):
    engine = QuickEngine(auto=False)
    live = Live(engine, "me/nascar")
    session_cleanup.watch_over("me", live)
    server.active = {"me"}
    assert not session_cleanup.gone("me")
    assert engine.forgotten == []
    server.active = set()
    assert session_cleanup.gone("me"), "and is watched over still"
    assert engine.forgotten == ["me/nascar"]


def test_a_live_fit_that_its_page_let_go_of_is_closed_once(server):
    engine = QuickEngine(auto=False)
    live = Live(engine, "me/your_data")
    session_cleanup.watch_over("me", live)
    session_cleanup.let_go("me", live)
    assert engine.forgotten == ["me/your_data"]
    assert session_cleanup.gone("me")
    assert engine.forgotten == ["me/your_data"]


def test_a_live_fit_whose_session_was_dropped_early_is_closed_all_the_same(server):
    engine = QuickEngine(auto=False)
    session_cleanup.watch_over("me", Live(engine, "me/nascar"))
    gc.collect()
    assert engine.forgotten == []
    assert session_cleanup.gone("me")
    assert engine.forgotten == ["me/nascar"]


def test_who_left_twice_may_still_come_back_when_the_first_timer_rings(server):
    engine = QuickEngine(auto=False)
    live = Live(engine, "me/nascar")
    session_cleanup.watch_over("me", live)
    server.now = 110.0
    server.kept["me"] = SimpleNamespace(session=SimpleNamespace(session_state={}, shutdown=lambda: None))
    server.now = 125.0
    assert not session_cleanup.gone("me")
    assert engine.forgotten == []
    server.now = 235.0
    assert session_cleanup.gone("me")
    assert engine.forgotten == ["me/nascar"]


@pytest.fixture
def left(monkeypatch):
    """End a connection without a timer."""
    monkeypatch.setattr(session_cleanup.threading, "Timer", lambda *_: SimpleNamespace(start=lambda: None))
    return session_cleanup._left


def test_what_was_held_goes_once_to_who_comes_back_with_the_token_of_a_session_that_has_ended(server, left):
    engine = QuickEngine(auto=False)
    live = Live(engine, "me/your_data")
    session_cleanup.watch_over("me", live)
    held = {"live-your_data": live, "your-data": "a long table"}
    session_cleanup.may_return("me", "secret", held)
    session_cleanup.may_return("they", "theirs", {"your-data": "another table"})
    assert session_cleanup.is_open("secret")
    assert session_cleanup.returned("me-again", "secret") is None, (
        "a copied tab takes nothing from the one that is open"
    )
    left("me")
    assert session_cleanup.returned("me-again", "secre") is None
    assert session_cleanup.returned("me-again", "theirs") is None
    assert session_cleanup.returned("me-again", "secret") == held
    assert session_cleanup.returned("somebody", "secret") is None
    assert session_cleanup.gone("me")
    assert engine.forgotten == [], "the fit went along"
    assert session_cleanup.gone("me-again")
    assert engine.forgotten == ["me/your_data"]
    session_cleanup.no_return("theirs")


def test_nothing_waits_for_longer_than_the_session_does(server, left):
    session_cleanup.may_return("me", "secret", {"your-data": "a long table"})
    left("me")
    assert session_cleanup.gone("me")
    assert session_cleanup.returned("me-again", "secret") is None
    assert "secret" not in session_cleanup._visits


def test_a_connection_that_ends_is_looked_at_once_it_cannot_come_back(monkeypatch):
    seen = []
    timers = []

    class Timer:
        def __init__(self, seconds, function, arguments):
            timers.append((seconds, self))
            self.start = lambda: seen.append(function(*arguments))

    monkeypatch.setattr(session_cleanup.threading, "Timer", Timer)
    monkeypatch.setattr(session_cleanup, "gone", lambda session: session)
    session_cleanup._left("me")
    assert seen == ["me"]
    assert timers[0][0] == session_cleanup.KEPT_S + session_cleanup.MARGIN_S
    assert timers[0][1].daemon


def test_another_streamlit_is_told_apart(server, caplog):
    del server._session_mgr._session_storage
    with caplog.at_level(logging.WARNING):
        assert session_cleanup.gone("me")
    assert "stay in memory" in caplog.text


def test_streamlit_still_has_what_this_relies_on():
    import inspect

    import streamlit as st
    from streamlit.runtime.app_session import AppSession
    from streamlit.runtime.memory_session_storage import MemorySessionStorage
    from streamlit.runtime.websocket_session_manager import WebsocketSessionManager

    assert isinstance(MemorySessionStorage()._cache, TTLCache)
    assert hasattr(MemorySessionStorage()._cache, "_data")
    assert isinstance(AppSession.session_state, property)
    assert callable(AppSession.shutdown)
    assert callable(WebsocketSessionManager.get_session_info)
    source = inspect.getsource(WebsocketSessionManager.__init__)
    assert "self._session_storage" in source
    assert "self._storage_lock" in source
    assert {"scope", "on_release"} <= set(inspect.signature(st.cache_resource.__call__).parameters)
