"""Find controls of a page under test by the first part of their key."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from tests.support.sliders import sliders


def control(app: AppTest, kind: str, name: str) -> Any:
    """Return the control of a kind ("slider") and name ("K")."""
    shown = sliders(app) if kind == "slider" else list(getattr(app, kind))
    found = [one for one in shown if one.key == name or str(one.key).rsplit("-", 1)[0] == name]
    assert len(found) == 1, f"{len(found)} controls {name!r} among {[one.key for one in shown]}"
    return found[0]
