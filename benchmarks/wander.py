"""Many people on all pages at once: they turn pages, move sliders, upload and fit, against one server. Loopback only.

`python -m benchmarks.wander [--people 25] [--seconds 600] [--json]`. Nobody draws: they say and hear what browsers would.
Each carries a name in what he uploads, and nobody may be sent another's.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.browser_crowd import growth, quantile
from benchmarks.wire_visitor import Slider, Wire, WireVisitor
from tests.support.browser_server import Server, Watch, load_average, running_server

MOST_PEOPLE, MOST_SECONDS = 100, 900.0
EVERY_S = 8.0  # somebody does something this often
SETTLE_S = 45.0  # for what is under way once everybody has let go
MARKS = r"visitor-\d+-of-this-run"
PAGES: dict[str, dict[str, float | str]] = {
    "": {},
    "nascar": {},
    "formula1": {},
    "behaviour": {},
    "your-data": {},
    "compare": {"settings": "2", "seeds": "1"},
    "playground": {},
    "paper": {},
}
MOVED = ("K", "tau", "softness")  # sliders by the beginnings of their keys


@dataclass
class Person:
    """One visitor, what he waits for, and how long he has waited, by page and act."""

    number: int
    visitor: WireVisitor
    hand: random.Random
    page: str = ""
    act: str = ""
    began: float = 0.0
    waits: dict[str, list[float]] = field(default_factory=dict)
    overtaken: int = 0
    unanswered: int = 0

    def take_in(self, last: bool = False) -> None:
        """Whether what was done last has been answered: by a figure that is new, or where a page has none, its end."""
        if not self.act:
            return
        seen: dict[str, int] = {}
        answer = None
        for at, which, look in self.visitor.figures:
            if at > self.began and seen.get(which) != look:
                answer = at
                break
            seen[which] = look
        if answer is None and self.act in ("turn", "upload"):
            answer = next((at for at in self.visitor.ended if at > self.began), None)
        if answer is None:
            self.unanswered += last
            return
        self.waits.setdefault(f"{self.page or 'home'}, {self.act}", []).append(answer - self.began)
        self.act = ""

    def do(self, wire: Wire) -> None:
        """Turn to another page once in three times, or where there is nothing to move; else move a slider."""
        self.take_in()
        self.overtaken += bool(self.act)
        sliders = [key for key in self.visitor.sliders if key.split("-")[0] in MOVED]
        visitor, hand = self.visitor, self.hand
        del visitor.figures[:-40]
        if self.page == "your-data" and "Fit it" in visitor.buttons:
            self.act, self.began = "fit", wire.do(visitor.press("Fit it"))
            del visitor.buttons["Fit it"]
        elif self.page == "your-data" and not sliders and self.act != "upload" and visitor.can_upload:
            self.act, self.began = "upload", wire.do(visitor.upload(f"{self.mark}.csv", recording(hand, self.mark)))
        elif sliders and hand.random() < 0.67:
            key = hand.choice(sorted(sliders))
            self.act, self.began = "move", wire.do(visitor.move(key, place(hand, visitor.sliders[key])))
        else:
            self.page = hand.choice([page for page in PAGES if page != self.page])
            self.act, self.began = "turn", wire.do(visitor.turn(self.page, PAGES[self.page]))

    @property
    def mark(self) -> str:
        return f"visitor-{self.number}-of-this-run"


def place(hand: random.Random, slider: Slider) -> float:
    """Somewhere else on a slider: of states at most eight, as people do."""
    most = min(slider.max, 8.0)
    places = [slider.min + slider.step * i for i in range(round((most - slider.min) / slider.step) + 1)]
    return hand.choice([at for at in places if abs(at - slider.value) > slider.step / 2])


def recording(hand: random.Random, mark: str) -> bytes:
    """A table of 600 rows that switch between three kinds of moves, with the visitor's name over a column."""
    rng = np.random.default_rng(hand.randrange(1 << 30))
    kinds = np.repeat(rng.integers(0, 3, 20), 30)
    moves = np.array([[0.1, 0.0], [-0.1, 0.1], [0.0, -0.1]])[kinds] + 0.02 * rng.normal(size=(600, 2))
    lines = [f"time,{mark},y", *(f"{i / 30:.4f},{x:.5f},{y:.5f}" for i, (x, y) in enumerate(moves.cumsum(axis=0)))]
    return "\n".join(lines).encode()


def wander(server: Server, people: int, seconds: float) -> dict[str, Any]:
    """What everybody waited for, and what it cost the server."""
    wire = Wire()
    everybody = []
    before, busy = server.memory(), server.busy()
    for number in range(people):
        mark = f"visitor-{number}-of-this-run"
        everybody.append(Person(number, WireVisitor(server.url, mark, MARKS), random.Random(number)))
        wire.do(everybody[-1].visitor.arrive(""))
    with Watch(server) as watch:
        began, turn = time.monotonic(), 0
        while (due := turn * EVERY_S / people) < seconds:
            time.sleep(max(0.0, began + due - time.monotonic()))
            everybody[turn % people].do(wire)
            turn += 1
        load = load_average()
        end = time.monotonic() + SETTLE_S
        while any(person.act for person in everybody) and time.monotonic() < end:
            time.sleep(0.5)
            for person in everybody:
                person.take_in()
        for person in everybody:
            person.take_in(last=True)
        watch.weigh()
        spent = [round(now - then, 1) for then, now in zip(busy, server.busy(), strict=True)]
        for person in everybody:
            wire.do(person.visitor.leave())
    wire.close()
    waits: dict[str, list[float]] = {}
    for person in everybody:
        for act, found in person.waits.items():
            waits.setdefault(act, []).extend(found)
    every = [wait for found in waits.values() for wait in found]
    return {
        "people": people,
        "seconds": seconds,
        "acts": turn,
        "answered": len(every),
        "overtaken": sum(person.overtaken for person in everybody),
        "unanswered": sum(person.unanswered for person in everybody),
        "picture_median_s": quantile(every, 0.5),
        "picture_p95_s": quantile(every, 0.95),
        "by_act": {act: [len(f), quantile(f, 0.5), quantile(f, 0.95)] for act, f in sorted(waits.items())},
        "health_p95_ms": 1000 * quantile(watch.health, 0.95),
        "errors": [*(e for p in everybody for e in p.visitor.errors), *watch.failures, *server.complaints()],
        "strangers": sorted(name.decode() for p in everybody for name in p.visitor.foreign),
        "processor_s": {"server": spent[0], "workers": spent[1]},
        "memory_before": before,
        "memory": watch.memory,
        "growth_last_third_mb": growth(watch.memory),
        "load": load,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    people, seconds = min(arguments.people, MOST_PEOPLE), min(arguments.seconds, MOST_SECONDS)
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        found = wander(server, people, seconds)
    if arguments.json:
        json.dump(found, sys.stdout)
        return
    for act, (count, median, late) in found.pop("by_act").items():
        print(f"{act:<24}{count:>6}{median:>9.2f} s median{late:>9.2f} s p95")
    memory = found.pop("memory")
    for name, value in found.items():
        print(f"{name:<24}{value if not isinstance(value, float) else round(value, 2)}")
    totals = [f"{row['server_mb'] + row['workers_mb']:.0f}" for row in memory]
    print("memory, MB:", *totals[:: max(1, len(totals) // 12)])


if __name__ == "__main__":
    main()
