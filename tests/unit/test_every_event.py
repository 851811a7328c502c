"""A click or a key is heard whole, also where the browser's next request is there before it has been."""

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

from pages.ui.streamlit_internals import take_every_event

CLICKED = WidgetStates(widgets=[WidgetState(id="button", trigger_value=True)])


def session(heard: list[int]) -> SafeSessionState:
    """One with a button, of a page that has run once; from now on another request always waits."""
    waits = False

    def look() -> None:
        if waits:
            raise RerunException(RerunData())

    def click() -> None:
        heard.append(state["K"] + 1)

    state = SafeSessionState(SessionState(), look)
    state["K"] = 4
    button = WidgetMetadata("button", bool, bool, "trigger_value", callback=click)
    state.register_widget(button, None)
    waits = True
    return state


def as_a_script(run: Callable[..., None], *args: Any) -> None:
    """Call it as a thread of a script does, and leave nothing of that behind."""

    def called() -> None:
        ThreadState.initialize()
        run(*args)

    copy_context().run(called)


def test_what_was_clicked_is_heard_although_another_request_waits():
    take_every_event()
    heard: list[int] = []
    state = session(heard)
    as_a_script(state.on_script_will_rerun, CLICKED)
    assert heard == [5]
    with pytest.raises(RerunException):  # and then the other one has its turn
        state["K"]


def test_streamlit_alone_still_loses_it():
    """Where it no longer does, `take_every_event` can go."""
    take_every_event()
    plain = SafeSessionState.on_script_will_rerun.__closure__
    assert plain is not None
    (alone,) = [cell.cell_contents for cell in plain]
    heard: list[int] = []
    with pytest.raises(RerunException):
        as_a_script(alone, session(heard), CLICKED)
    assert heard == []
