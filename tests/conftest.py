"""Which tests share a process, and fixtures of all tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Files whose tests share a cluster, an installed package, or a server with fits. The largest group runs first.
GROUPS = {
    "unit": ("test_engine", "test_service", "test_package"),
    "browser": ("test_nascar", "test_pages", "test_slider_preview"),
}


class GroupScheduling(LoadScopeScheduling):
    """Run tests of one file or group, which share fits, in the same xdist process.

    The mark `xdist_group` of xdist 3.8 has no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        folder, stem = Path(file).parent.name, Path(file).stem
        if folder == "contract":  # a family
            return test.partition("[")[2].partition("-")[0].rstrip("]")
        return folder if stem.startswith(GROUPS.get(folder, ())) else file


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
    import torch  # noqa: F401 (limited where it is loaded)

    from gdm_core.maths.threads import one_thread

    with one_thread():
        yield
