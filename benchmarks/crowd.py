"""Several visitors dragging sliders of the NASCAR lab at once: `python -m benchmarks.browser crowd`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page

from benchmarks.recorder import FIGURE, SCRIPT, drag, notes
from tests.support.browser_server import Visitors, Watch, load_average

PATIENCE_S = 30.0  # for the last pictures
# Visitors start at different values: most need a new fit, some are in the cache.
STATES = (5.0, 3.0, 6.0, 7.0, 4.0, 8.0, 2.0)


@dataclass
class Visitor:
    """An open page, and the seconds from each release to the next change of the picture."""

    number: int
    page: Page
    moves: int = 0
    waits: list[float] = field(default_factory=list)
    is_waiting: bool = False

    def act(self) -> None:
        """Drag temperature twice, then the number of states."""
        self.collect()
        turn = self.moves + self.number
        if self.moves % 3 == 2:
            drag(self.page, "States (K)", STATES[(self.moves // 3 + self.number) % len(STATES)])
        else:
            drag(self.page, "Temperature (τ)", 0.3 + (0.37 * turn + 0.11 * self.number) % 2.2)
        self.moves += 1
        self.is_waiting = True

    def collect(self) -> bool:
        """Return True if the picture has changed since the last release."""
        if self.is_waiting:
            found = notes(self.page)
            released, events = found["released"], found["events"]
            before = [event["look"] for event in events if event["at"] <= released]
            later = [e["at"] for e in events if e["at"] > released and (not before or e["look"] != before[-1])]
            if later:
                self.waits.append((later[0] - released) / 1000)
                self.is_waiting = False
        return not self.is_waiting


def open_lab(visitors: Visitors, number: int) -> Visitor:
    """Open the NASCAR lab and wait for its first result."""
    page = visitors.page(SCRIPT)
    page.goto(f"{visitors.server.url}/nascar", wait_until="commit")
    page.wait_for_selector(f"{FIGURE}[data-state=fresh][data-updates]", state="attached")
    return Visitor(number, page)


def run_crowd(visitors: Visitors, n: int, seconds: float, every: float) -> dict[str, Any]:
    """Let `n` visitors each drag a slider every `every` seconds, for `seconds`."""
    server = visitors.server
    complaints = len(server.complaints())
    members = [open_lab(visitors, number) for number in range(n)]
    with Watch(server) as watch:
        start, turn = time.monotonic(), 0
        while turn * every / n < seconds:
            left = start + turn * every / n - time.monotonic()
            members[0].page.wait_for_timeout(1000 * max(0.0, left))
            members[turn % n].act()
            turn += 1
        load = load_average()
        end = time.monotonic() + PATIENCE_S
        while not all([visitor.collect() for visitor in members]) and time.monotonic() < end:
            members[0].page.wait_for_timeout(200)
        memory = server.memory_mb()
    visitors.leave()
    waits = sorted(wait for visitor in members for wait in visitor.waits)
    return {
        "moves": turn,
        "answered": len(waits),
        "unanswered": sum(visitor.is_waiting for visitor in members),
        "picture_p95_s": quantile(waits, 0.95),
        "health_p95_ms": 1000 * quantile(sorted(watch.health), 0.95),
        "memory_mb": memory,
        "errors": [*visitors.errors, *watch.failures, *server.complaints()[complaints:]],
        "load": load,
    }


def quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of sorted values, infinity if there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")
