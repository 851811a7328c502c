"""The threads of the web server share a few heaps, counted by the allocator itself."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest

from pages.ui import heaps

MANY = 12
COUNT = f"""
import ctypes, sys, threading
if sys.argv[1] == "shared":
    from pages.ui import heaps
    assert heaps.share() == (sys.argv[2] == "asked")
libc, here, kept = ctypes.CDLL(None), threading.Barrier({MANY}), []
libc.malloc.restype = ctypes.c_void_p
def work():
    here.wait()  # all at once: a thread that has ended lends its heap to the next
    kept.append(libc.malloc(2000))
    here.wait()
threads = [threading.Thread(target=work) for _ in range({MANY})]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.malloc_stats()
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps for threads")


def count(*how: str, **more: str) -> int:
    environment = {name: value for name, value in os.environ.items() if name != heaps.SETTING} | more
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *how], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return len(re.findall(r"^Arena \d+:", done.stderr, re.MULTILINE))


def test_threads_share_a_few_heaps_in_place_of_one_each():
    assert count("alone", "") > heaps.HEAPS, "or there is nothing to mend"
    assert count("shared", "asked") <= heaps.HEAPS


def test_a_number_that_the_operator_has_set_stands():
    assert count("shared", "left alone", MALLOC_ARENA_MAX="4") <= 4
