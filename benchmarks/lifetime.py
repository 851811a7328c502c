"""What a server holds after a long life: fits, sessions that were opened and left, uploads. Loopback only.

`python -m benchmarks.lifetime [--fits 2000] [--sessions 300] [--uploads 100] [--rounds 20] [--json FILE]`. After each
round everybody has left, and memory (shared pages divided among those that share them), threads, open files and
sockets of each process are counted. At a plateau the last third of the rounds holds no more than the third before it.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report
from benchmarks.wander import PAGES, recording
from benchmarks.wire_visitor import Wire, WireVisitor
from tests.support.browser_server import Server, running_server
from tests.support.browser_server import held as memory_held
from tests.support.local_cluster import command

PEOPLE = 4  # who fit at the same time: enough for two workers, few enough that nobody's fit is overtaken
PATIENCE_S = 300.0
SETTLE_S = 20.0  # sessions are given up a while after their visitor has left
COUNTS = ("MB", "threads", "files", "sockets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=2000, help="in all (2000)")
    parser.add_argument("--sessions", type=int, default=300, help="opened and left, in all (300)")
    parser.add_argument("--uploads", type=int, default=100, help="in all, each of a table that is then fitted (100)")
    parser.add_argument("--rounds", type=int, default=20, help="among which these are spread (20)")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        found = lifetime(server, arguments.fits, arguments.sessions, arguments.uploads, arguments.rounds)
    print(report.table("Held after each round", found["columns"], found["rows"]))
    columns = ["process", *(f"{count} {when}" for count in COUNTS for when in ("middle", "last third"))]
    print(report.table("At a plateau?", columns, found["thirds"]))
    print(*found["errors"], sep="\n")
    report.write(arguments.json, found)
    if found["errors"]:
        sys.exit(1)


def lifetime(server: Server, fits: int, sessions: int, uploads: int, rounds: int) -> dict[str, Any]:
    wire, errors = Wire(), list[str]()
    rows: list[list[Any]] = []
    done = {"fits": 0, "sessions": 0, "uploads": 0}

    def note(number: int) -> None:
        time.sleep(SETTLE_S)
        for kind, counts in held(server).items():
            rows.append([number, *done.values(), kind, *counts])
            print(*rows[-1], sep="\t", file=sys.stderr, flush=True)

    note(0)
    for number in range(1, rounds + 1):

        def share(total: int, number: int = number) -> int:
            return total * number // rounds - total * (number - 1) // rounds

        everybody = [WireVisitor(server.url) for _ in range(PEOPLE)]
        done["fits"] += fit_on_nascar(wire, everybody, share(fits), number)
        here = [visit(wire, server, done["sessions"] + i) for i in range(share(sessions))]
        done["sessions"] += len(here) + PEOPLE
        here += [upload(wire, server, done["uploads"] + i) for i in range(share(uploads))]
        done["uploads"] += share(uploads)
        errors += [error for visitor in [*everybody, *here] for error in visitor.errors]
        note(number)
    wire.close()
    columns = ["round", *done, "process", *COUNTS]
    return {"columns": columns, "rows": rows, "thirds": thirds(rows), "errors": [*errors, *server.complaints()]}


def fit_on_nascar(wire: Wire, everybody: list[WireVisitor], count: int, number: int) -> int:
    """Everybody moves softness of a track of his own, again once the fit stands: none of these fits was seen before."""
    for i, visitor in enumerate(everybody):
        wire.do(visitor.arrive(""))
        wire.do(visitor.turn("nascar", {"T": "300", "seed": str(number * PEOPLE + i)}))
        wait(lambda visitor=visitor: finished(visitor, 0.0))  # type: ignore[misc]
    released = [0.0] * len(everybody)
    for step in range(count // PEOPLE):
        for i, visitor in enumerate(everybody):
            wait(lambda visitor=visitor, i=i: finished(visitor, released[i]))  # type: ignore[misc]
            del visitor.pictures[:], visitor.figures[:], visitor.ended[:]
            released[i] = wire.do(visitor.move("tau", round(0.3 + 0.01 * step, 2)))
    for i, visitor in enumerate(everybody):
        wait(lambda visitor=visitor, i=i: finished(visitor, released[i]))  # type: ignore[misc]
        wire.do(visitor.leave())
    return count // PEOPLE * len(everybody)


def finished(visitor: WireVisitor, released: float) -> bool:
    """Whether the picture of the fit stands, of the settings that were asked for last."""
    return any(at > released and state == "fresh" for at, state, _ in visitor.pictures)


def visit(wire: Wire, server: Server, number: int) -> WireVisitor:
    """Open a page in a session of its own and leave it, half of the time before it has been answered."""
    visitor, hand = WireVisitor(server.url), random.Random(number)
    wire.do(visitor.arrive(""))
    page = hand.choice(list(PAGES))
    turned = wire.do(visitor.turn(page, PAGES[page]))
    if hand.random() < 0.5:
        wait(lambda: any(at > turned for at in visitor.ended))
    wire.do(visitor.leave())
    return visitor


def upload(wire: Wire, server: Server, number: int) -> WireVisitor:
    """Upload a table nobody has seen, fit it, and leave once there are figures."""
    visitor = WireVisitor(server.url)
    wire.do(visitor.arrive(""))
    wire.do(visitor.turn("your-data", {}))
    wait(lambda: visitor.can_upload)
    wire.do(visitor.upload(f"recording-{number}.csv", recording(random.Random(number), f"channel-{number}")))
    wait(lambda: "Fit it" in visitor.buttons)
    pressed = wire.do(visitor.press("Fit it"))
    wait(lambda: any(at > pressed for at, _, _ in visitor.figures))
    wire.do(visitor.leave())
    return visitor


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {PATIENCE_S:g} s")
        time.sleep(0.05)


def held(server: Server) -> dict[str, list[float]]:
    """COUNTS of each kind of process, of all workers together."""
    found: dict[str, list[float]] = {}
    for process in server.family():
        try:
            counts = [
                memory_held(process) / 1e6,
                process.num_threads(),
                process.num_fds(),
                len(process.net_connections("inet")),
            ]
            kind = role(process, server)
        except psutil.NoSuchProcess:  # it ended while it was looked at
            continue
        found[kind] = [before + now for before, now in zip(found.get(kind, [0.0] * len(COUNTS)), counts, strict=True)]
    return {kind: [round(counts[0], 1), *map(int, counts[1:])] for kind, counts in found.items()}


def role(process: psutil.Process, server: Server) -> str:
    if process.pid == server.process.pid:
        return "server"
    said = command(process)
    if "gdm_core.engine.host" in said:
        return "scheduler"
    if "forkserver" in said:  # workers are copies of it, and are called what it is
        parent = process.parent()
        return "workers" if parent is not None and "forkserver" in command(parent) else "warm process"
    return "others"


def thirds(rows: list[list[Any]]) -> list[list[Any]]:
    """Of each kind of process, the mean of each count over the middle third of the rounds and over the last."""
    rounds = max(row[0] for row in rows)
    kinds = list(dict.fromkeys(row[4] for row in rows))
    table = []
    for kind in kinds:
        last = [row[5:] for row in rows if row[4] == kind and row[0] > rounds * 2 / 3]
        middle = [row[5:] for row in rows if row[4] == kind and rounds / 3 < row[0] <= rounds * 2 / 3]
        line: list[Any] = [kind]
        for i in range(len(COUNTS)):
            line += [round(statistics.mean(part[i] for part in third), 1) if third else "" for third in (middle, last)]
        table.append(line)
    return table


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
