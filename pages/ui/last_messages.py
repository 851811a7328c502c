"""What a run of a page says last reaches the browser.

A run hands its messages to the server's event loop, one by one. Where the browser asks for something just as a run ends,
and the loop comes to that request before it comes to the last of those messages, Streamlit (1.67) starts another runner and
ignores all that is still to come of the one before. Where the request was for a part of the page that looks again by itself,
nobody says it again: a finished fit was never shown.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import ScriptRunner, ScriptRunnerEvent

_ended: WeakSet[ScriptRunner] = WeakSet()  # runners that had run to their end when another one took their place


def keep() -> None:
    """Have sessions take what a runner said that has come to its end; at once, and again without effect."""
    if getattr(AppSession, "_keeps_last_messages", False):
        return
    AppSession._keeps_last_messages = True  # type: ignore[attr-defined]
    create, handle = AppSession._create_scriptrunner, AppSession._handle_scriptrunner_event_on_event_loop

    def create_scriptrunner(session: AppSession, *args: Any, **named: Any) -> None:
        before = session._scriptrunner
        if before is not None and not before._execing:  # else it was stopped in the middle, and its page is given up
            _ended.add(before)
        create(session, *args, **named)

    def handle_event(session: AppSession, sender: Any, event: ScriptRunnerEvent, *args: Any, **named: Any) -> None:
        now = session._scriptrunner
        if sender is now or sender not in _ended or event is ScriptRunnerEvent.SHUTDOWN:
            handle(session, sender, event, *args, **named)
            return
        session._scriptrunner = sender
        try:
            handle(session, sender, event, *args, **named)
        finally:
            session._scriptrunner = now

    AppSession._create_scriptrunner = create_scriptrunner  # type: ignore[method-assign, assignment]
    AppSession._handle_scriptrunner_event_on_event_loop = handle_event  # type: ignore[method-assign, assignment]
