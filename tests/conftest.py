"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Tests on a cluster share one, and those of the package what is built and installed. Both take minutes; as the largest group
# they begin first.
LONG = ("test_engine", "test_spread", "test_service", "test_package")


class Together(LoadScopeScheduling):
    """Which tests go to the same process of xdist: besides the above those of a page, where what one of them has fitted the
    next finds (tests/support/live_engine.py). All others go wherever there is time.

    xdist 3.8 would learn that from its mark `xdist_group`, by way of names of tests that pytest 9.2 no longer lets it change:
    all tests went wherever there was time, and nothing said so.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        if path.parent.name == "unit" and path.stem.startswith(LONG):
            return "long"
        return str(path) if path.parent.name in ("app", "browser") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Tests run side by side: threads of torch would only wait for each other."""
    from gdm_core.maths.threads import one_torch_thread

    with one_torch_thread():
        yield
