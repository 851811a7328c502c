"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.patience import WAIT_S, Watch

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


# A test that waits in vain for something costs minutes. Where so many do, the same is broken for all of them. Where the process
# of one had to be ended, the run ends with it: xdist 3.8 would run the same test again in the next process, and waits for
# ever where it was the last of its group.
MOST_IN_VAIN = 3
WATCH = pytest.StashKey[Watch]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WATCH] = Watch(os.dup(2))  # pytest catches what tests write to the other
    if not hasattr(config, "workerinput"):  # where several processes run tests, the one that gathers what they say
        config.pluginmanager.register(InVain())


def _watched(item: pytest.Item, step: str) -> AbstractContextManager[None]:
    return item.config.stash[WATCH].over(f"{item.nodeid} ({step})", item.get_closest_marker("browser") is None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _watched(item, "what it needs"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _watched(item, "the test itself"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with _watched(item, "what is taken down after it"):
        return (yield)


class InVain:
    """Ends the run, and says so, where one test after another waits in vain, or a process is gone."""

    def __init__(self) -> None:
        self._tests: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.when not in ("setup", "call", "teardown"):
            pytest.exit(f"The process that ran it is gone, and the other tests are not run.\n{report.nodeid}", 1)
        if report.failed and report.duration >= WAIT_S:
            self._tests.append(report.nodeid)
        if len(self._tests) == MOST_IN_VAIN:
            tests = "\n".join(self._tests)
            pytest.exit(
                f"Something hangs: {MOST_IN_VAIN} tests waited in vain, and the others are not run.\n{tests}", 1
            )


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
    """Tests run side by side: threads of torch would only wait for each other."""
    from gdm_core.maths.threads import one_torch_thread

    with one_torch_thread():
        yield
