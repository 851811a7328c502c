"""What a run says last, where a request comes before the server's loop has passed it on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession, AppSessionState
from streamlit.runtime.scriptrunner import ScriptRunnerEvent

from pages.ui import last_messages


class Runner:
    """One that accepts no request any more. `_execing`: it is in the middle of a page."""

    def __init__(self, execing: bool) -> None:
        self._execing = execing

    def request_rerun(self, data: object) -> bool:
        return False


class Session(AppSession):
    """Streamlit's own, of which only what passes messages on is there."""

    def __del__(self) -> None:
        """Nothing was begun that would have to end."""


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> AppSession:
    """One whose next runner is `following` and whose messages are `sent`; Streamlit is as it was afterwards."""
    monkeypatch.setattr(
        AppSession, "_create_scriptrunner", lambda self, data: setattr(self, "_scriptrunner", following)
    )
    monkeypatch.setattr(
        AppSession,
        "_handle_scriptrunner_event_on_event_loop",
        AppSession._handle_scriptrunner_event_on_event_loop,
    )
    monkeypatch.delattr(AppSession, "_keeps_last_messages", raising=False)
    made = Session.__new__(Session)
    following = Runner(execing=True)
    made.__dict__ |= {
        "_state": AppSessionState.APP_IS_RUNNING,
        "_client_state": SimpleNamespace(),
        "_enqueue_forward_msg": (sent := []).append,
        "following": following,
        "sent": sent,
    }
    return made


def say(session: AppSession, sender: Runner, text: str) -> None:
    """As the server's loop passes on what a runner said."""
    message = ForwardMsg()
    message.delta.new_element.text.body = text

    async def on_the_loop() -> None:
        session._event_loop = asyncio.get_running_loop()
        session._handle_scriptrunner_event_on_event_loop(sender, ScriptRunnerEvent.ENQUEUE_FORWARD_MSG, message)

    asyncio.run(on_the_loop())


def said(session: AppSession) -> list[str]:
    return [message.delta.new_element.text.body for message in session.sent]


@pytest.mark.parametrize(("execing", "expected"), [(False, ["last", "next"]), (True, ["next"])])
def test_a_run_that_had_ended_is_heard_to_its_end_and_one_that_was_stopped_is_not(session, execing, expected):
    before = session._scriptrunner = Runner(execing)
    last_messages.keep()
    session.request_rerun(None)
    assert session._scriptrunner is session.following
    say(session, before, "last")
    say(session, session.following, "next")
    assert said(session) == expected
    assert session._scriptrunner is session.following


def test_streamlit_still_loses_them_by_itself(session):
    """Once this fails, the mend can go."""
    before = session._scriptrunner = Runner(execing=False)
    session.request_rerun(None)
    say(session, before, "last")
    assert said(session) == []


def test_twice_is_once(session):
    last_messages.keep()
    patched = AppSession._create_scriptrunner
    last_messages.keep()
    assert AppSession._create_scriptrunner is patched
