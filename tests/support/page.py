"""A page without a browser: opened at an address, turned to another, a button pressed.

A run that shows an exception fails its test by itself: `_no_exceptions` in tests/app/conftest.py.
"""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from pages.ui import navigation

APP = str(navigation.ROOT / "app.py")


def opened(folder: str, /, **address: str) -> AppTest:
    """The page in that folder, at an address."""
    return turned(AppTest.from_file(APP).run(), folder, **address)


def turned(app: AppTest, folder: str, /, **address: str) -> AppTest:
    """Turn to another page, as a browser does: of the address before nothing stays."""
    app.query_params.clear()
    app.query_params.update(address)
    return app.switch_page(str(navigation.info(folder).path)).run()


def pressed(app: AppTest, label: str) -> AppTest:
    """Press the one button that says so."""
    (button,) = [each for each in app.button if each.label == label]
    return button.click().run()
