"""Controls of a page under test, by the first part of a key that may also name the recording they belong to."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest


def control(app: AppTest, kind: str, name: str) -> Any:
    """The one control of that kind ("slider") and name ("K")."""
    found = [one for one in getattr(app, kind) if one.key == name or str(one.key).rsplit("-", 1)[0] == name]
    assert len(found) == 1, f"{len(found)} controls {name!r} among {[one.key for one in getattr(app, kind)]}"
    return found[0]
