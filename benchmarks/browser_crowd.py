"""Several people at once, each with a slider of the NASCAR lab under the finger, against one server. Loopback only."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page

from benchmarks.browser_recorder import SCRIPT, drag, notes
from benchmarks.browser_server import Visitors, Watch, load_average

MOST_PEOPLE, MOST_SECONDS = 20, 600.0
PATIENCE_S = 30.0  # for the last pictures, once everybody has let go
# Each person goes through these, from a place of his own: most moves are new fits, some have been seen by somebody.
STATES = (5.0, 3.0, 6.0, 7.0, 4.0, 8.0, 2.0)


@dataclass
class Person:
    """One page. `waits` are milliseconds from each release to the next change of the picture."""

    page: Page
    number: int
    moves: int = 0
    waits: list[float] = field(default_factory=list)
    waiting: bool = False
    unanswered: int = 0

    def act(self) -> None:
        """Take in what happened after the last move, and make the next: softness twice, then the number of states."""
        self.take_in()
        turn = self.moves + self.number
        if self.moves % 3 == 2:
            drag(self.page, "States (K)", STATES[(self.moves // 3 + self.number) % len(STATES)])
        else:
            drag(self.page, "Softness (τ)", 0.3 + (0.37 * turn + 0.11 * self.number) % 2.2)
        self.moves += 1
        self.waiting = True

    def take_in(self, last: bool = False) -> bool:
        """Whether the picture has followed the last release. An unanswered one goes on waiting under the next."""
        if not self.waiting:
            return True
        seen = notes(self.page)
        after = [event["at"] - seen["released"] for event in seen["events"] if event["at"] > seen["released"]]
        looks = [event["look"] for event in seen["events"]]
        before = [e["look"] for e in seen["events"] if e["at"] <= seen["released"]]
        old = before[-1] if before else None
        changed = [wait for wait, look in zip(after, looks[len(before) :], strict=True) if look != old]
        if changed:
            self.waits.append(changed[0])
            self.waiting = False
        elif last:
            self.unanswered += 1
        return bool(changed)


def crowd(visitors: Visitors, people: int, seconds: float, every: float, settle: float) -> dict[str, Any]:
    """`people` move a slider every `every` seconds, evenly spread, for `seconds`; then everybody leaves."""
    people, seconds = min(people, MOST_PEOPLE), min(seconds, MOST_SECONDS)
    server = visitors.server
    visitors.errors.clear()
    complaints = len(server.complaints())
    empty = server.memory()
    before = server.busy()
    crowd_ = [_arrive(visitors, number) for number in range(people)]
    arrived = server.memory()
    middle = server.busy()
    with Watch(server) as watch:
        began = time.monotonic()
        turn = 0
        while (due := turn * every / people) < seconds:
            if (early := began + due - time.monotonic()) > 0:
                crowd_[turn % people].page.wait_for_timeout(1000 * early)
            crowd_[turn % people].act()
            turn += 1
        lasted = time.monotonic() - began
        busy = server.busy()
        end = time.monotonic() + PATIENCE_S
        while not all([person.take_in() for person in crowd_]) and time.monotonic() < end:
            crowd_[0].page.wait_for_timeout(200)
        for person in crowd_:
            person.take_in(last=True)
        load = load_average()
        watch.weigh()
        visitors.leave()
        time.sleep(settle)
        watch.weigh()
    waits = [wait / 1000 for person in crowd_ for wait in person.waits]
    return {
        "people": people,
        "seconds": round(lasted, 1),
        "moves": turn,
        "answered": len(waits),
        "superseded": turn - len(waits) - sum(person.unanswered for person in crowd_),
        "unanswered": sum(person.unanswered for person in crowd_),
        "picture_median_s": _quantile(waits, 0.5),
        "picture_p95_s": _quantile(waits, 0.95),
        "health_median_ms": 1000 * _quantile(watch.health, 0.5),
        "health_p95_ms": 1000 * _quantile(watch.health, 0.95),
        "errors": [*visitors.errors, *watch.failures, *server.complaints()[complaints:]],
        "memory_before": empty,
        "memory_arrived": arrived,
        "memory": watch.memory,
        "growth_last_third_mb": _growth(watch.memory[:-2]),
        "server_cores": round((busy[0] - middle[0]) / lasted, 2),
        "workers_cores": round((busy[1] - middle[1]) / lasted, 2),
        "arrival_server_s": round(middle[0] - before[0], 2),
        "load": load,
    }


def _arrive(visitors: Visitors, number: int) -> Person:
    page = visitors.page(SCRIPT)
    page.goto(f"{visitors.server.url}/nascar", wait_until="commit")
    page.wait_for_selector(".st-key-inferred-track .gdm-figure[data-state=fresh][data-updates]", state="attached")
    return Person(page, number)


def _growth(memory: list[dict[str, float]]) -> float:
    """Megabytes that all processes together gained from the middle third of the time to the last one."""
    totals = [row["server_mb"] + row["workers_mb"] for row in memory]
    third = max(1, len(totals) // 3)
    return round(statistics.mean(totals[-third:]) - statistics.mean(totals[-2 * third : -third] or totals), 1)


def _quantile(values: list[float], share: float) -> float:
    """The value that a share of all values does not exceed; nothing measured is infinitely slow."""
    if not values:
        return float("inf")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
