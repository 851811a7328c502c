"""What a visitor asks for outlasts what a page does by itself.

Where two requests wait for the same run, Streamlit (1.67) makes one of them, with the page, the address and the step through
the browser's history of the later one. Two of these are nobody's wish:

- A script asks to be run again, at the end of a fit say, and names its own page and address. A click on another page or a step
  Back, which waited just then, was forgotten.
- A part of a page that looks again by itself. The browser names the page that it shows, and sends along the values of all
  controls, although it may have asked for another page, or a step Back may be changing these values at that moment. The next
  run took them for the visitor's own, and undid the step.
"""

from __future__ import annotations

from dataclasses import replace

from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests, ScriptRequestType


def keep() -> None:
    """Have all sessions put the visitor first; at once, and again without effect."""
    if hasattr(ScriptRequests, "_joined_by_streamlit"):
        return
    join = ScriptRequests._joined_by_streamlit = ScriptRequests._request_rerun_locked  # type: ignore[attr-defined]

    def request(self: ScriptRequests, new_data: RerunData) -> bool:
        waiting = self._rerun_data if self._state is ScriptRequestType.RERUN else None
        if new_data.is_auto_rerun:
            if waiting is not None and not (waiting.fragment_id or waiting.fragment_id_queue):
                return True  # a run of the whole page draws this part, too
            new_data = replace(new_data, widget_states=None if waiting is not None else WidgetStates())
        elif waiting is not None and _asked(waiting) and _again(new_data):
            new_data = replace(
                new_data,
                page_script_hash=waiting.page_script_hash,
                page_name=waiting.page_name,
                query_string=waiting.query_string,
                is_history_navigation=waiting.is_history_navigation,
            )
        return join(self, new_data)

    ScriptRequests._request_rerun_locked = request  # type: ignore[method-assign]


def _asked(data: RerunData) -> bool:
    """Whether a visitor did. Only a browser says what controls show."""
    return data.widget_states is not None and not data.is_auto_rerun


def _again(data: RerunData) -> bool:
    """Whether the script that runs asks for itself, and not for another page."""
    running = get_script_run_ctx(suppress_warning=True)
    return data.widget_states is None and running is not None and running.page_script_hash == data.page_script_hash
