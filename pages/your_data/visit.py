"""A reload keeps the file, its fit and its marks: the browser's tab holds a token, and the server what the token opens.

What is kept is what the session itself holds, by reference, and for no longer than Streamlit keeps a session that has lost
its connection (pages/lab/live/session_cleanup.py): nothing is copied, and nothing waits for more than two minutes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from pages.lab import live
from pages.lab.live import session_cleanup
from pages.ui import shell
from pages.your_data import intake

TOKEN, HEARD, NOTE = "_visit-token", "_visit-heard", "_visit-note"
# Beside what the page keeps by itself: how the file is read, what was marked, where K and D began, the live fits.
ALSO = ("_sheet-", "_every-", "_marks-", "_model-your_data", f"{live.screen.LIVE}your_data")
LONGEST_TOKEN = 64
GONE = "The file of before the reload is no longer here: it waits for two minutes. Choose it again."
OPEN = "The file is still open in another window of this browser: it stays there."
LEAVES_WITHIN_S = 3.0  # that the server takes to notice that a connection has ended, on a busy machine
LOOK_EVERY_S = 0.1

_kept = component("gdm_kept_visit", js=(Path(__file__).parent / "kept_visit.js").read_text(encoding="utf-8"))


def outlive_reload() -> None:
    """Have the tab hold a token while there is a file, and take up what it opens in a session that has none."""
    state = st.session_state
    keep()
    here = intake.private()
    data = {"token": state[TOKEN] if here else None, "over": not here and HEARD in state}
    kept = _kept(key="kept-visit", data=data, default={"kept": None}, on_kept_change=lambda: None).kept
    if HEARD not in state and isinstance(kept, str):
        state[HEARD] = True
        if (found := _waiting_for(kept[:LONGEST_TOKEN])) is None:
            state[NOTE] = OPEN if session_cleanup.is_open(kept) else GONE
        for name, value in (found or {}).items():
            state[name] = value
        st.rerun()
    if NOTE in state and not here:
        shell.quiet(state[NOTE])


def keep() -> None:
    """Have what stands now wait for a reload; call it also when the page has run, which may have made more."""
    state = st.session_state
    if intake.private():
        state[HEARD] = True
        session_cleanup.may_return(live.visitor(), state.setdefault(TOKEN, secrets.token_urlsafe(24)), _held())
    elif TOKEN in state:
        session_cleanup.no_return(state.pop(TOKEN))


def _held() -> dict[str, Any]:
    """All that belongs to the file. An editor's own state cannot be set: it is drawn anew with what was changed in it."""
    names = [str(name) for name in st.session_state]
    editors = {name.removesuffix("-changed") for name in names if name.endswith("-changed")}
    left_out = editors | {f"{name}-drawn" for name in editors}
    return {
        name: st.session_state[name] for name in names if name.startswith((intake.KEPT, *ALSO)) and name not in left_out
    }


def _waiting_for(token: str) -> Mapping[str, Any] | None:
    """What the token opens. The connection of before may end a moment after the page was opened again."""
    until = time.monotonic() + LEAVES_WITHIN_S
    while (found := session_cleanup.returned(live.visitor(), token)) is None:
        if not session_cleanup.is_open(token) or time.monotonic() > until:
            return None
        time.sleep(LOOK_EVERY_S)
    return found
