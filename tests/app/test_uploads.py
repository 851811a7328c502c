"""Files that a visitor sends are copied out of their control once."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.support.controls import control


def _page() -> None:
    import streamlit as st

    from pages.ui.uploads import uploader

    kept = st.session_state.setdefault("kept", [])
    uploader("Files", kept.extend, key="files", several=True)
    st.text(" ".join(f"{file.name}={file.getvalue().decode()}" for file in kept))


def test_upload_is_kept_and_its_control_is_empty_again():
    app = AppTest.from_function(_page).run()
    control(app, "file_uploader", "files").set_value([("a.csv", b"1", "text/csv"), ("b.csv", b"2", "text/csv")]).run()
    assert app.text[0].value == "a.csv=1 b.csv=2"
    assert control(app, "file_uploader", "files").value == []
    control(app, "file_uploader", "files").set_value([("c.csv", b"3", "text/csv")]).run()
    assert app.text[0].value == "a.csv=1 b.csv=2 c.csv=3"
