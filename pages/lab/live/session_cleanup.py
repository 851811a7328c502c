"""When a visitor has left: what was kept for the visitor goes, here and on the workers.

Streamlit keeps a session for two minutes, for one whose connection broke, and lets go of it when it next has a reason to
look. On a quiet server that may be never: neither an uploaded file nor its copies on the workers would go.
"""

from __future__ import annotations

import gc
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.lab.live.session import Live
from pages.ui.streamlit_internals import end_session, is_connected

MARGIN_S = 5.0
KEPT_S = 120.0  # how long Streamlit keeps a session where its configuration does not say


@dataclass
class Visit:
    """What waits for somebody who comes back with its token: what the session held by name, and whether that session has ended."""

    session: str
    held: Mapping[str, Any]
    left: bool = False


# session -> name -> its live fit. Held here until it is closed: Streamlit may drop a session before its timer rings.
_lives: defaultdict[str, dict[str, Live]] = defaultdict(dict)
_visits: dict[str, Visit] = {}  # by their tokens, which are secret
_handing_over = threading.Lock()  # whoever comes back and the timer that ends the visit may meet


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


def may_return(session: str, token: str, held: Mapping[str, Any]) -> None:
    """Have `held` wait for whoever comes back with `token` once this session has lost its connection."""
    _visits[token] = Visit(session, held)


def no_return(token: str) -> None:
    """Nothing waits any more: the visitor is done with it."""
    _visits.pop(token, None)


def is_open(token: str) -> bool:
    """Whether the session that the token belongs to is still connected."""
    visit = _visits.get(token)
    return visit is not None and not visit.left


def returned(session: str, token: str) -> Mapping[str, Any] | None:
    """What waits for the holder of `token`, who is in `session` now, once; None where nothing does. Live fits come along."""
    with _handing_over:
        visit = _visits.get(token)
        if visit is None or not visit.left or visit.session == session:
            return None
        del _visits[token]
        for live in visit.held.values():
            if isinstance(live, Live):
                _lives[session][live.session] = _lives[visit.session].pop(live.session, live)
        return visit.held


def _left(session: str) -> None:
    """The connection is gone. It may be back in a moment."""
    for visit in [visit for visit in list(_visits.values()) if visit.session == session]:
        visit.left = True
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
    with _handing_over:
        for token in [token for token, visit in list(_visits.items()) if visit.session == session]:
            del _visits[token]
        lives = _lives.pop(session, {})
    for live in lives.values():
        live.close()
    end_session(session)
    # Sessions end, and their files go, when they are collected. What was set aside with the modules (server.py) may be
    # one of them, so everything is looked through, this once.
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return True
