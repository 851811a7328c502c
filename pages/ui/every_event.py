"""A patch of Streamlit 1.67, the only one: it loses a click or a key if the next request comes before the run has begun.

Streamlit checks for a waiting request before it applies the values of a run, and at each use of the session in a callback. If
there is one, it drops the run together with the click. https://github.com/streamlit/streamlit/pull/16765 fixes a related race.
"""

from __future__ import annotations

from typing import Any

from streamlit.runtime.state.safe_session_state import SafeSessionState


def take_every_event() -> None:
    """Apply the values of a request and call its callbacks before the next request is handled."""
    plain = SafeSessionState.on_script_will_rerun
    if getattr(plain, "whole", False):
        return

    def on_script_will_rerun(self: SafeSessionState, *args: Any, **kwargs: Any) -> None:
        look = self._yield_callback
        object.__setattr__(self, "_yield_callback", lambda: None)  # plain setting would go to the visitor's session
        try:
            plain(self, *args, **kwargs)
        finally:
            object.__setattr__(self, "_yield_callback", look)

    on_script_will_rerun.whole = True  # type: ignore[attr-defined]
    SafeSessionState.on_script_will_rerun = on_script_will_rerun  # type: ignore[method-assign]
