"""Patch of Streamlit 1.67, which loses a click or key if another request arrives before the script runs.

Streamlit drops a run, together with its click, if another request is waiting when it applies widget values or when a callback
uses the session. This is the only patch in the project; remove it and its call in main.py once Streamlit is fixed.
https://github.com/streamlit/streamlit/pull/16765 fixes a related race.
"""

from __future__ import annotations

from typing import Any

from streamlit.runtime.state.safe_session_state import SafeSessionState


def take_every_event() -> None:
    """Apply the values of a request and call its callbacks before the next request is handled."""
    plain = SafeSessionState.on_script_will_rerun
    if getattr(plain, "is_patched", False):
        return

    def on_script_will_rerun(self: SafeSessionState, *args: Any, **kwargs: Any) -> None:
        original = self._yield_callback
        object.__setattr__(self, "_yield_callback", lambda: None)  # a plain assignment would write to the session
        try:
            plain(self, *args, **kwargs)
        finally:
            object.__setattr__(self, "_yield_callback", original)

    on_script_will_rerun.is_patched = True  # type: ignore[attr-defined]
    SafeSessionState.on_script_will_rerun = on_script_will_rerun  # type: ignore[method-assign]
