"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what drives a browser; engine tests start clusters, so they stay together on one worker."""
    for item in items:
        path = Path(str(item.fspath))
        if path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)
        elif path.stem.startswith("test_engine"):
            item.add_marker(pytest.mark.xdist_group("engine"))
