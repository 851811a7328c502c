"""Find controls of a page by name, ignoring scope and turn."""

from typing import Any

from streamlit.testing.v1 import AppTest

from tests.support.sliders import sliders


def control(app: AppTest, kind: str, name: str) -> Any:
    """Return the control of a kind ("slider") and name ("K")."""
    shown = sliders(app) if kind == "slider" else list(getattr(app, kind))
    keys = [str(one.key).partition("~")[0] for one in shown]
    found = [one for one, key in zip(shown, keys, strict=True) if key == name or key.rsplit("-", 1)[0] == name]
    if kind == "file_uploader":
        found = found[-1:]  # the first one of Your data stays, hidden
    assert len(found) == 1, f"{len(found)} controls {name!r} among {keys}"
    return found[0]
