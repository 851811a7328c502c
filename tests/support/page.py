"""Open pages without a browser; a run that shows an exception fails the test (tests/app/conftest.py)."""

from streamlit.testing.v1 import AppTest

from pages.ui import navigation, server

APP = str(server.MAIN)


def opened(folder: str, /, **address: str) -> AppTest:
    """Open a page, given by its folder, at an address."""
    return turned(AppTest.from_file(APP).run(), folder, **address)


def turned(app: AppTest, folder: str, /, **address: str) -> AppTest:
    """Open another page in the same session; the earlier address is dropped."""
    app.query_params.clear()
    app.query_params.update(address)
    return app.switch_page(str(navigation.info(folder).path)).run()


def pressed(app: AppTest, label: str) -> AppTest:
    """Press the button with this label."""
    (button,) = [each for each in app.button if each.label == label]
    return button.click().run()
