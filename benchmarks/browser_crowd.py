"""Several people at once, each with a slider of the NASCAR lab under the finger, against one server. Loopback only.

One of them (or as many as asked for) sits at a real Chromium. The others say and hear what a browser would without
drawing: ten browsers beside the server would leave it a third of the machine, and people bring their own.
"""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from typing import Any

from playwright.sync_api import Page

from benchmarks.browser_recorder import SCRIPT, drag, notes
from benchmarks.wire_visitor import Wire, WireVisitor
from tests.support.browser_server import Server, Visitors, Watch, load_average

MOST_PEOPLE, MOST_SECONDS = 20, 600.0
ARRIVAL_S = 120.0
PATIENCE_S = 30.0  # for the last pictures, once everybody has let go
# Each person goes through these, from a place of his own: most moves are new fits, some have been seen by somebody.
STATES = (5.0, 3.0, 6.0, 7.0, 4.0, 8.0, 2.0)

LABELS = {"K": "States (K)", "tau": "Softness (τ)"}

Look = tuple[float, Any]  # when it was there, and what it showed


class Person(ABC):
    """One visitor. `waits` are seconds from each release to the next change of the picture."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.moves = 0
        self.waits: list[float] = []
        self.waiting = False
        self.unanswered = 0

    def act(self) -> None:
        """Take in what happened after the last move, and make the next: softness twice, then the number of states."""
        self.take_in()
        turn = self.moves + self.number
        if self.moves % 3 == 2:
            self.move("K", STATES[(self.moves // 3 + self.number) % len(STATES)])
        else:
            self.move("tau", 0.3 + (0.37 * turn + 0.11 * self.number) % 2.2)
        self.moves += 1
        self.waiting = True

    def take_in(self, last: bool = False) -> bool:
        """Whether the picture has followed the last release. An unanswered one goes on waiting under the next."""
        if not self.waiting:
            return True
        released, looks = self.seen()
        before = [look for at, look in looks if at <= released]
        changed = [at - released for at, look in looks if at > released and (not before or look != before[-1])]
        if changed:
            self.waits.append(changed[0])
            self.waiting = False
        elif last:
            self.unanswered += 1
        return bool(changed)

    @abstractmethod
    def move(self, slider: str, value: float) -> None:
        """Let go of a slider."""

    @abstractmethod
    def seen(self) -> tuple[float, list[Look]]:
        """(when the slider was let go, all pictures so far), in seconds of one clock."""


class AtBrowser(Person):
    def __init__(self, number: int, visitors: Visitors) -> None:
        super().__init__(number)
        self.page: Page = visitors.page(SCRIPT)
        self.page.goto(f"{visitors.server.url}/nascar", wait_until="commit")
        self.page.wait_for_selector(
            ".st-key-inferred-track .gdm-figure[data-state=fresh][data-updates]", state="attached"
        )

    def move(self, slider: str, value: float) -> None:
        drag(self.page, LABELS[slider], value)

    def seen(self) -> tuple[float, list[Look]]:
        found = notes(self.page)
        return found["released"] / 1000, [(event["at"] / 1000, event["look"]) for event in found["events"]]


class OnTheWire(Person):
    def __init__(self, number: int, wire: Wire, server: Server) -> None:
        super().__init__(number)
        self._wire, self.visitor = wire, WireVisitor(server.url)
        self._released = 0.0
        wire.do(self.visitor.arrive())
        end = time.monotonic() + ARRIVAL_S
        while not any(state == "fresh" for _, state, _ in self.visitor.pictures):
            if time.monotonic() > end:
                raise RuntimeError(f"visitor {number} saw no picture within {ARRIVAL_S:g} s: {self.visitor.errors}")
            time.sleep(0.05)

    def move(self, slider: str, value: float) -> None:
        self._released = self._wire.do(self.visitor.move(slider, value))

    def seen(self) -> tuple[float, list[Look]]:
        return self._released, [(at, look) for at, _, look in self.visitor.pictures]


def crowd(
    visitors: Visitors, people: int, browsers: int, seconds: float, every: float, settle: float
) -> dict[str, Any]:
    """`people` move a slider every `every` seconds, evenly spread, for `seconds`; then everybody leaves."""
    people, seconds = min(people, MOST_PEOPLE), min(seconds, MOST_SECONDS)
    server = visitors.server
    visitors.errors.clear()
    complaints = len(server.complaints())
    empty = server.memory()
    before = server.busy()
    wire = Wire()
    here: list[Person] = [AtBrowser(number, visitors) for number in range(min(browsers, people))]
    there = [OnTheWire(number, wire, server) for number in range(len(here), people)]
    everybody: list[Person] = [*here, *there]
    arrived = server.memory()
    middle = server.busy()

    def wait(until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            if here:  # its events come in while the page is waited on
                here[0].page.wait_for_timeout(1000 * min(left, 0.5))  # type: ignore[attr-defined]
            else:
                time.sleep(min(left, 0.5))

    with Watch(server) as watch:
        began = time.monotonic()
        turn = 0
        while (due := turn * every / people) < seconds:
            wait(began + due)
            everybody[turn % people].act()
            turn += 1
        lasted = time.monotonic() - began
        busy = server.busy()
        load = load_average()
        end = time.monotonic() + PATIENCE_S
        while not all([person.take_in() for person in everybody]) and time.monotonic() < end:
            wait(time.monotonic() + 0.2)
        for person in everybody:
            person.take_in(last=True)
        watch.weigh()
        visitors.leave()
        for person in there:
            wire.do(person.visitor.leave())
        time.sleep(settle)
        watch.weigh()
    wire.close()
    waits = [wait for person in everybody for wait in person.waits]
    said = [error for person in there for error in person.visitor.errors]
    return {
        "people": people,
        "browsers": len(here),
        "seconds": round(lasted, 1),
        "moves": turn,
        "answered": len(waits),
        "superseded": turn - len(waits) - sum(person.unanswered for person in everybody),
        "unanswered": sum(person.unanswered for person in everybody),
        "picture_median_s": quantile(waits, 0.5),
        "picture_p95_s": quantile(waits, 0.95),
        "browser_p95_s": quantile([wait for person in here for wait in person.waits], 0.95),
        "health_median_ms": 1000 * quantile(watch.health, 0.5),
        "health_p95_ms": 1000 * quantile(watch.health, 0.95),
        "errors": [*visitors.errors, *said, *watch.failures, *server.complaints()[complaints:]],
        "memory_before": empty,
        "memory_arrived": arrived,
        "memory": watch.memory,
        "growth_last_third_mb": growth(watch.memory[:-2]),
        "server_cores": round((busy[0] - middle[0]) / lasted, 2),
        "workers_cores": round((busy[1] - middle[1]) / lasted, 2),
        "arrival_server_s": round(middle[0] - before[0], 2),
        "mb_a_move": round(
            sum(person.visitor.bytes for person in there) / 1e6 / max(1, sum(p.moves for p in there)), 2
        ),
        "load": load,
    }


def growth(memory: list[dict[str, float]]) -> float:
    """Megabytes that all processes together gained from the middle third of the time to the last one."""
    totals = [row["server_mb"] + row["workers_mb"] for row in memory]
    third = max(1, len(totals) // 3)
    return round(statistics.mean(totals[-third:]) - statistics.mean(totals[-2 * third : -third] or totals), 1)


def quantile(values: list[float], share: float) -> float:
    """The value that a share of all values does not exceed; nothing measured is infinitely slow."""
    if not values:
        return float("inf")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
