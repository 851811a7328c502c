"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what drives a browser; engine tests start clusters, so they stay together on one worker. So do the tests of a
    page: what one of them has fitted, the next finds (tests/support/live_engine.py)."""
    for item in items:
        path = Path(str(item.fspath))
        if path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)
        elif path.stem.startswith("test_engine"):
            item.add_marker(pytest.mark.xdist_group("engine"))
        elif path.parent.name == "app":
            item.add_marker(pytest.mark.xdist_group(path.stem))


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Tests run side by side: threads of torch would only wait for each other."""
    from gdm_core.maths.threads import one_torch_thread

    with one_torch_thread():
        yield
