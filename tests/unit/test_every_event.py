"""A click is handled even if the next request of the browser arrives first."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.scriptrunner import RerunData, RerunException
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState
from streamlit.runtime.state import SessionState
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.safe_session_state import SafeSessionState

from pages.ui.every_event import take_every_event

CLICKED = WidgetStates(widgets=[WidgetState(id="button", trigger_value=True)])


def session(clicks: list[int]) -> SafeSessionState:
    """Return the state of a page with a button, for which another request always waits."""
    waits = False

    def look() -> None:
        if waits:
            raise RerunException(RerunData())

    def click() -> None:
        clicks.append(state["K"] + 1)

    state = SafeSessionState(SessionState(), look)
    state["K"] = 4
    button = WidgetMetadata("button", bool, bool, "trigger_value", callback=click)
    state.register_widget(button, None)
    waits = True
    return state


def run_as_script(run: Callable[..., None], *args: Any) -> None:
    """Call `run` in the context of a script thread."""

    def run_in_context() -> None:
        ThreadState.initialize()
        run(*args)

    copy_context().run(run_in_context)


def test_click_is_handled_although_another_request_waits():
    take_every_event()
    clicks: list[int] = []
    state = session(clicks)
    run_as_script(state.on_script_will_rerun, CLICKED)
    assert clicks == [5]
    with pytest.raises(RerunException):  # the waiting request follows
        state["K"]
