"""Files that a visitor sends reach the page once."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from pages.ui import uploads
from tests.support.controls import control


def _page() -> None:
    import streamlit as st

    from pages.ui.uploads import uploader

    kept = st.session_state.setdefault("kept", [])
    uploader("Files", kept.extend, key="files", several=True)
    st.text(" ".join(f"{file.name}={file.getvalue().decode()}" for file in kept))


def _send(app: AppTest, *names: str) -> None:
    files = [(f"{name}.csv", name.encode(), "text/csv") for name in names]
    control(app, "file_uploader", "files").set_value(files).run()


def test_files_are_taken_once():
    app = AppTest.from_function(_page).run()
    _send(app, "a", "b")
    app.run()
    _send(app, "c")
    assert app.text[0].value == "a.csv=a b.csv=b c.csv=c"


def test_control_with_large_files_is_emptied(monkeypatch):
    monkeypatch.setattr(uploads, "LARGE_BYTES", 1)
    app = AppTest.from_function(_page).run()
    _send(app, "a")
    assert [file.name for file in control(app, "file_uploader", "files").value] == ["a.csv"]
    _send(app, "b", "c")
    assert control(app, "file_uploader", "files").value == []
    assert app.text[0].value == "a.csv=a b.csv=b c.csv=c"
