"""Work that takes longer than a page may wait: done in a thread, while pages go on and say how far it is."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from gdm_core.errors import FitError, GdmError

log = logging.getLogger(__name__)


class Stopped(Exception):
    """Somebody asked for the end of it."""


def _unforeseen(error: Exception) -> GdmError:
    said = f"Something went wrong that should not ({type(error).__name__}). The server's log tells more."
    return FitError(said)


class Work:
    """One piece of work, under way or done. Plain values that any thread may read.

    do          is given the work, to say with `tell` or `go_on` how far it is
    unforeseen  what is said of an error that is none of ours, which the log has in full
    stopping    set once somebody has stopped it
    """

    def __init__(self, do: Callable[[Work], Any], unforeseen: Callable[[Exception], GdmError] = _unforeseen) -> None:
        self.said: tuple[str, float] = ("Beginning", 0.0)
        self.value: Any = None
        self.error: GdmError | None = None
        self.stopping, self._ended = threading.Event(), threading.Event()
        self._do, self._unforeseen = do, unforeseen
        threading.Thread(target=self._run, name="work", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait a moment for the end; whether it came."""
        return self._ended.wait(seconds)

    def stop(self) -> None:
        """End it at the next thing that it says, or sooner where it looks at `stopping` itself."""
        self.stopping.set()

    def tell(self, what: str, share: float) -> None:
        """Say what is done now, and how much of all is."""
        self.said = what, share

    def go_on(self, what: str, share: float) -> None:
        """The same, ending the work here where somebody has stopped it."""
        self.tell(what, share)
        if self.stopping.is_set():
            raise Stopped

    def _run(self) -> None:
        try:
            self.value = self._do(self)
        except Stopped:
            self.error = FitError("Stopped.")
        except GdmError as error:
            self.error = error
        except Exception as error:  # told to the visitor, and in full in the log
            log.exception("work of a page failed")
            self.error = self._unforeseen(error)
        finally:
            self._ended.set()


class Works:
    """Pieces of work by what they are about. Those that go on stay, and of the others the latest few."""

    def __init__(self, most: int, unforeseen: Callable[[Exception], GdmError] = _unforeseen) -> None:
        self._most, self._unforeseen = most, unforeseen
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Work] = OrderedDict()

    def get(self, key: Hashable, do: Callable[[Work], Any]) -> Work:
        """The work of that key, begun now if there is none."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = Work(do, self._unforeseen)
            self._kept.move_to_end(key)
            done = [name for name, work in self._kept.items() if work.done]
            for old in done[: max(0, len(self._kept) - self._most)]:
                del self._kept[old]
            return self._kept[key]

    def known(self, key: Hashable) -> bool:
        """Whether there is work of that key."""
        with self._lock:
            return key in self._kept

    def under_way(self) -> dict[Any, Work]:
        """What has not ended."""
        with self._lock:
            return {key: work for key, work in self._kept.items() if not work.done}

    def forget(self, key: Hashable) -> None:
        """Begin anew the next time."""
        with self._lock:
            self._kept.pop(key, None)
