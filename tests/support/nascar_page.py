"""The NASCAR lab on short tracks."""

from streamlit.testing.v1 import AppTest

from pages.lab.live import FitSession
from tests.support import drawn, page

SHORT = {"T": "200", "scenario": "Standard"}


def opened(**address: str) -> AppTest:
    """Open the page at an address and run it until nothing is pending."""
    return settled(page.opened("nascar", **SHORT | address))


def settled(app: AppTest) -> AppTest:
    for _ in range(4):
        if not (live_of(app).running or live_of(app).queries.pending):
            break
        app.run()
    return app.run()


def live_of(app: AppTest) -> FitSession:
    live: FitSession = app.session_state["fit-nascar"]
    return live


text = drawn.words
