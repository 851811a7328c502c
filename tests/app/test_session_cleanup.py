"""After a visitor has left: their jobs end, and everything else stays for a connection that comes back."""

from __future__ import annotations

import pytest

from pages.lab.live import Live, session_cleanup
from tests.support.live_engine import QuickEngine


@pytest.fixture(autouse=True)
def _without_streamlit(monkeypatch):
    monkeypatch.setattr(session_cleanup, "_mark", lambda visitor: visitor)


def test_jobs_of_a_visitor_end_when_the_connection_ends():
    engine = QuickEngine(auto=False)
    mine, theirs = Live(engine, "me/nascar"), Live(engine, "they/nascar")
    session_cleanup.watch_over("me", mine)
    session_cleanup.watch_over("they", theirs)
    session_cleanup.left("me")
    assert engine.forgotten == ["me/nascar"]
    session_cleanup.left("me")
    assert engine.forgotten == ["me/nascar"]


def test_interrupted_fit_starts_again_after_a_reconnect(monkeypatch):
    live = Live(QuickEngine(auto=False), "me/nascar")
    started = []
    monkeypatch.setattr(Live, "running", property(lambda self: True))
    monkeypatch.setattr(live, "retry", lambda: started.append("again"))
    session_cleanup.watch_over("me", live)
    assert started == []
    session_cleanup.left("me")
    session_cleanup.watch_over("me", live)
    assert started == ["again"]
    session_cleanup.watch_over("me", live)
    assert started == ["again"]
