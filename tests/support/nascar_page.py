"""The NASCAR lab as a script, on tracks short enough for tests."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from pages.lab.live import Live
from pages.ui import navigation
from tests.support import drawn

APP = str(navigation.ROOT / "app.py")
PAGE = str(navigation.info("nascar").path)
SHORT = {"T": "200", "setting": "Standard"}


def opened(**address: str) -> AppTest:
    """The page at an address, and all its reruns."""
    app = AppTest.from_file(APP).run().switch_page(PAGE)
    for name, value in (SHORT | address).items():
        app.query_params[name] = value
    return settled(app.run())


def settled(app: AppTest) -> AppTest:
    for _ in range(4):
        if app.exception or not live_of(app).busy:
            break
        app.run()
    assert not app.exception, app.exception[0].message
    return app.run()


def live_of(app: AppTest) -> Live:
    live: Live = app.session_state["live-nascar"]
    return live


def text(app: AppTest) -> str:
    return drawn.words(app)
