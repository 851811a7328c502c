"""When a visitor leaves: their running jobs are cancelled."""

from __future__ import annotations

from collections import defaultdict
from weakref import WeakSet

import streamlit as st

from pages.lab.live.session import Live

_lives: defaultdict[str, WeakSet[Live]] = defaultdict(WeakSet)  # by visitor
_interrupted: WeakSet[Live] = WeakSet()


def watch_over(visitor: str, live: Live) -> None:
    """Cancel the jobs of `live` when the visitor leaves, and start a fit again that a lost connection has ended."""
    _lives[visitor].add(live)
    _mark(visitor)
    if live in _interrupted:
        _interrupted.discard(live)
        live.retry()


def left(visitor: str) -> None:
    """Cancel the jobs of a visitor. The connection may come back, so everything else stays in the session."""
    for live in _lives.pop(visitor, ()):
        if live.running:
            _interrupted.add(live)
        live.close()


@st.cache_resource(scope="session", show_spinner=False, on_release=left)
def _mark(visitor: str) -> str:
    """Streamlit releases what is kept for a session whenever its connection ends."""
    return visitor
