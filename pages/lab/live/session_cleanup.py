"""When a visitor has left: what was kept for the visitor goes, here and on the workers.

Streamlit keeps a session for two minutes, for one whose connection broke, and lets go of it when it next has a reason to
look. On a quiet server that may be never: neither an uploaded file nor its copies on the workers would go.
"""

from __future__ import annotations

import gc
import threading
from collections import defaultdict

import streamlit as st

from pages.lab.live.session import Live
from pages.ui.streamlit_internals import end_session, is_connected

MARGIN_S = 5.0
KEPT_S = 120.0  # how long Streamlit keeps a session where its configuration does not say


# session -> name -> its live fit. Held here until it is closed: Streamlit may drop a session before its timer rings.
_lives: defaultdict[str, dict[str, Live]] = defaultdict(dict)


def watch_over(session: str, live: Live | None = None) -> None:
    """Let go of all that `session` holds when it has been gone for so long that it cannot come back; close `live` then."""
    if live is not None:
        _lives[session][live.session] = live
    _mark(session)


def let_go(session: str, live: Live) -> None:
    """Close `live` now: its visitor is done with it, and still here."""
    if _lives[session].get(live.session) is live:
        del _lives[session][live.session]
    live.close()


def _left(session: str) -> None:
    """The connection is gone. It may be back in a moment."""
    kept = st.get_option("server.disconnectedSessionTTL") or KEPT_S
    timer = threading.Timer(kept + MARGIN_S, gone, (session,))
    timer.daemon = True
    timer.start()


@st.cache_resource(scope="session", show_spinner=False, on_release=_left)
def _mark(session: str) -> str:
    """Streamlit releases what is kept for a session as soon as its connection ends."""
    return session


def gone(session: str) -> bool:
    """Let go of everything of this session, unless it is back or may be still; whether it is gone.

    Somebody who came back and left once more has another timer running, and is dealt with when that one rings.
    """
    if is_connected(session):
        return False
    for live in _lives.pop(session, {}).values():
        live.close()
    end_session(session)
    # Sessions end, and their files go, when they are collected. What was set aside with the modules (server.py) may be
    # one of them, so everything is looked through, this once.
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return True
