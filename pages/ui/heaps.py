"""How the web server's threads share memory."""

from __future__ import annotations

import ctypes
import os
import platform

HEAPS = 2
SETTING = "MALLOC_ARENA_MAX"  # glibc's own
_M_ARENA_MAX = -8  # its number in malloc.h


def share() -> bool:
    """Have all threads take memory from a few heaps; whether that could be asked for.

    glibc gives each of some twenty threads a heap of its own, and what one has given back no other takes: a tenth of
    what the server held after 2,000 fits. Whoever has set the variable himself knows better. Other systems have one heap.
    """
    if SETTING in os.environ or platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS))
