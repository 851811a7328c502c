"""What hangs is ended, and says where it hung; a busy machine is given its time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import MOST_IN_VAIN, InVain
from tests.support import patience

HANGS = """
import os, time
from tests.support.patience import WaitedInVainError, Watch

def waits_for_what_never_comes():
    time.sleep(60)

with Watch(2, step_s=0.2, look_s=0.02).over("A test", gently={gently}):
    try:
        waits_for_what_never_comes()
    except WaitedInVainError as error:
        print(error)
        {then}
"""


@pytest.mark.parametrize(
    ("gently", "then", "code"),
    [(True, "pass", 0), (True, "waits_for_what_never_comes()", 1), (False, "pass", 1)],
    ids=["told", "told, and deaf", "not to be told"],
)
def test_what_hangs_is_ended(gently, then, code, monkeypatch):
    done = subprocess.run(
        [sys.executable, "-c", HANGS.format(gently=gently, then=then)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == code
    assert ("A test has not ended within 0.2 quiet seconds." in done.stdout) == gently
    assert ("in waits_for_what_never_comes" in done.stderr) == (code == 1)


def test_a_test_that_stands_aside_says_where_it_waits():
    aside = """
import time
from greenlet import greenlet, getcurrent
from tests.support.patience import Watch

def the_test_waits_for_its_browser():
    getcurrent().parent.switch()

with Watch(2, step_s=0.2, look_s=0.02).over("A test", gently=False):
    test = greenlet(the_test_waits_for_its_browser)
    test.switch()
    time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", aside],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == 1
    assert "in the_test_waits_for_its_browser" in done.stderr


def test_seconds_pass_more_slowly_where_processes_queue(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(patience.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    clock = patience.Clock()
    for load, seconds in ((0.5, 10.0), (16.0, 11.25), (2.0, 21.25)):
        monkeypatch.setattr(patience.os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        now[0] += 10.0
        assert clock.look() == pytest.approx(seconds)

    monkeypatch.setattr(patience.os, "getloadavg", lambda: (16.0, 0.0, 0.0))
    assert patience.patience_s() == pytest.approx(8 * patience.WAIT_S)
    began_busy = patience.Clock()
    monkeypatch.setattr(patience.os, "getloadavg", lambda: (0.5, 0.0, 0.0))
    now[0] += 8 * patience.WAIT_S
    assert began_busy.look() == pytest.approx(patience.WAIT_S)


def test_a_wait_in_vain_says_what_was_there(monkeypatch):
    monkeypatch.setattr(patience, "WAIT_S", 0.0)
    with pytest.raises(AssertionError, match=r"Not so within 0 quiet seconds\. The log is empty\."):
        patience.until(lambda: False, lambda: "The log is empty.")


def test_a_run_ends_where_one_test_after_another_waits_in_vain():
    def report(took: float, when: str = "call", failed: bool = True) -> SimpleNamespace:
        return SimpleNamespace(failed=failed, duration=took, when=when, nodeid="a test")

    heard = InVain()
    for _ in range(MOST_IN_VAIN):
        heard.pytest_runtest_logreport(report(5.0))
        heard.pytest_runtest_logreport(report(500.0, failed=False))
    for _ in range(MOST_IN_VAIN - 1):
        heard.pytest_runtest_logreport(report(patience.WAIT_S))
    with pytest.raises(pytest.exit.Exception, match="Something hangs: 3 tests waited in vain"):
        heard.pytest_runtest_logreport(report(patience.WAIT_S))


def test_a_run_ends_with_the_process_that_was_ended(tmp_path):
    (tmp_path / "test_that_goes.py").write_text(
        "import os, pytest\n\n@pytest.mark.parametrize('number', range(4))\ndef test(number):\n    os._exit(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", "2", str(tmp_path)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=patience.patience_s(),
    )  # fmt: skip
    assert done.returncode == 1
    assert "The process that ran it is gone, and the other tests are not run." in done.stdout
    assert "test_that_goes.py::test[" in done.stdout
