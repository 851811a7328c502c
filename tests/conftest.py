"""Which tests share a process, and fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Tests on a cluster share it, and package tests share the build and installation. The largest group runs first.
LONG = ("test_engine", "test_service", "test_package")


class GroupScheduling(LoadScopeScheduling):
    """Run tests of one page, or those of `LONG`, in the same xdist process; distribute all others freely.

    The mark `xdist_group` of xdist 3.8 has no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        if path.parent.name == "unit" and path.stem.startswith(LONG):
            return "long"
        return str(path) if path.parent.name in ("app", "browser") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return GroupScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tests that failed once and passed on their rerun."""
    failed = {report.nodeid for name in ("failed", "error") for report in terminalreporter.getreports(name)}
    for report in terminalreporter.getreports("rerun"):
        if report.nodeid not in failed:
            terminalreporter.write_line(f"FLAKY {report.nodeid}", yellow=True)
            terminalreporter.write_line(report.longreprtext)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Keep torch to one thread, since tests run in parallel."""
    from gdm_core.maths.threads import one_torch_thread

    with one_torch_thread():
        yield
