"""Progress on stderr, so that stdout holds results alone."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from gdm_core.engine.estimate import Estimate, in_words

_WIDTH = 28
_REDRAW_SECONDS = 0.1  # on a terminal
_LINE_SECONDS = 5.0  # in a log file, where every update is a line of its own


class Bar:
    """A bar of `total` units. On a terminal it redraws itself; elsewhere it writes a line now and then."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self.label, self.total = label, max(total, 1)
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._estimate = Estimate()
        self._estimate.left_s(0, self.total)
        self._shown = -float("inf") if self._live else time.monotonic()
        self._width = 0

    def update(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now - self._shown < (_REDRAW_SECONDS if self._live else _LINE_SECONDS):
            return
        self._shown = now
        filled = round(min(1.0, done / self.total) * _WIDTH)
        seconds = self._estimate.left_s(done, self.total)
        left = "" if seconds is None else f", {in_words(seconds)} left"
        text = f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{self.total}{left}  {note}".rstrip()
        if self._live:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line, so that what follows starts at its beginning."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
