"""What visitors of the dashboard wait for, in a real browser: first pages, sliders, live drawings, and a crowd.

`python -m benchmarks.app [--quick] [--skip-load | --only-load | --only-held] [--json FILE]` (or `make bench-app`).
It starts servers and a Chromium of its own on loopback, with an empty store of results, and ends them. The load average
stands beside every number: where it is above the number of cores, something else ran, and times on the clock are upper
bounds. Processor time says what the work itself took.

It exits with 2 where no Chromium is found, and with 1 where a visitor met an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks.browser_alone import SERIES, cold_starts, first_visits, live_updates, open_lab, series
from benchmarks.browser_crowd import crowd
from benchmarks.browser_held import SLIDERS, Held, elsewhere, hold, playground
from benchmarks.browser_recorder import FIGURE, PATIENCE_S, wait_for_rest
from tests.support.browser_server import FLAGS, Visitors, find_chromium, load_average, running_server

NO_BROWSER = 2
MEGA = 1e6
WORKERS_START_S = 10.0


@dataclass(frozen=True)
class Row:
    """One number beside its goal (None: there is none) and the load average at the time."""

    what: str
    value: float
    unit: str
    goal: float | None
    load: float
    note: str = ""

    @property
    def met(self) -> str:
        return "" if self.goal is None else "met" if self.value <= self.goal else "missed"


@dataclass(frozen=True)
class Effort:
    """How often things are repeated, and how long the crowd stays."""

    starts: int = 3
    visits: int = 5
    moves: int = 8
    updates: int = 30
    held: int = 20
    held_s: float = 8.0
    people: int = 10
    browsers: int = 1
    seconds: float = 120.0
    every: float = 5.0
    settle: float = 20.0


QUICK = Effort(starts=1, visits=2, moves=3, updates=10, held=8, held_s=4.0, people=4, seconds=30.0, settle=5.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all that was measured to FILE ('-': print it)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, a smaller crowd for a shorter time")
    parser.add_argument("--skip-load", action="store_true", help="leave the crowd out")
    parser.add_argument("--browsers", type=int, default=1, help="how many of the crowd sit at a real browser")
    parser.add_argument("--only-load", action="store_true", help="the crowd alone")
    parser.add_argument("--only-held", action="store_true", help="what is seen while a thumb is held, alone")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print(
            "No Chromium was found. Install one (Debian: apt-get install chromium) to measure the app.", file=sys.stderr
        )
        return NO_BROWSER
    effort = replace(QUICK if arguments.quick else Effort(), browsers=arguments.browsers)
    with tempfile.TemporaryDirectory() as folder:
        parts = {"alone": not arguments.only_load, "load": not arguments.skip_load, "held": False}
        if arguments.only_held:
            parts = {"alone": False, "load": False, "held": True}
        rows, details = measure(chromium, Path(folder), effort, **parts)
    told = json.dumps(
        {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "numbers": [asdict(row) | {"met": row.met} for row in rows],
            "details": details,
        },
        indent=1,
    )
    if arguments.json is not None and str(arguments.json) == "-":
        print(told)
    else:
        print(table(rows))
        for error in details["errors"]:
            print(f"error: {error}")
        if arguments.json is not None:
            arguments.json.write_text(told + "\n")
    return 1 if details["errors"] else 0


def measure(
    chromium: str, folder: Path, effort: Effort, *, alone: bool, load: bool, held: bool
) -> tuple[list[Row], dict[str, Any]]:
    """All numbers, told on the error stream as they come: of one visitor alone, of the crowd, of a held thumb alone."""
    rows: list[Row] = []
    details: dict[str, Any] = {"effort": asdict(effort), "errors": []}

    def tell(*found: Row) -> None:
        rows.extend(found)
        print(table(list(found), head=False), file=sys.stderr, flush=True)

    if alone:
        starts = cold_starts(folder, effort.starts)
        details["cold_starts_s"] = starts
        tell(Row("cold server to healthy", statistics.median(starts), "s", 8.0, load_average()))
    with running_server(folder / "app") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        visitors = Visitors(browser, server)
        try:
            if alone:
                details |= one_visitor(visitors, effort, tell)
                details["errors"] += [*visitors.errors, *server.complaints()]
            if held:
                details["held"] = while_held(visitors, open_lab(visitors)[0], effort, tell)
                details["errors"] += [*visitors.errors, *server.complaints()]
            if load:
                met = crowd(visitors, effort.people, effort.browsers, effort.seconds, effort.every, effort.settle)
                details["crowd"] = met
                details["errors"] += met["errors"]
                tell(*crowd_rows(met))
        finally:
            browser.close()
    return rows, details


def one_visitor(visitors: Visitors, effort: Effort, tell: Callable[..., None]) -> dict[str, Any]:
    """What somebody waits for who has the server to himself."""
    first_visits(visitors, 1)
    visitors.page().wait_for_timeout(1000 * WORKERS_START_S)  # the server is warm from here on
    visitors.leave()
    times, weights = first_visits(visitors, effort.visits)
    heaviest = max(weights, key=lambda weight: weight["own_bytes"])
    tell(
        Row("first visit of Home, warm server, to a finished picture", statistics.median(times), "s", 2.0, load_average()),
        Row("weight of Home beyond Streamlit's own", heaviest["own_bytes"] / MEGA, "MB", 6.0, load_average(),
            f"Streamlit's own {heaviest['streamlit_bytes'] / MEGA:.1f} MB"),
    )  # fmt: skip
    page, opened, weight = open_lab(visitors)
    tell(
        Row("NASCAR lab opened, with its first result", opened, "s", None, load_average()),
        Row("weight of the lab beyond Streamlit's own", weight["own_bytes"] / MEGA, "MB", 6.0, load_average()),
    )
    sliders = {}
    for name in SERIES:
        found = series(page, visitors.server, name, effort.moves)
        sliders[name] = found | {"moves": [asdict(m) for m in found["moves"]]}
        tell(*slider_rows(name, found))
    holds = while_held(visitors, page, effort, tell)
    drawn = live_updates(visitors, effort.updates)
    kept = " and ".join(f"{n} {'kept' if drawn[f'{n}_kept'] else 'LOST'}" for n in ("node", "zoom"))
    tell(
        Row("one live update, track and strip of 1,000 points", statistics.median(drawn["ms"]), "ms", 30.0,
            drawn["load"], f"{kept}; {drawn['page_ms']:.0f} ms of processor time"),
    )  # fmt: skip
    return {
        "first_visits": {"s": times, "weights": weights},
        "lab": {"opened_s": opened, "weight": weight},
        "sliders": sliders,
        "held": holds,
        "live_update": drawn,
    }


def while_held(visitors: Visitors, page: Page, effort: Effort, tell: Callable[..., None]) -> dict[str, Any]:
    """What is seen of the lab, which is open on `page`, and then of other pages while a thumb moves."""
    holds = {}
    all_k = [2.0 + (5 * i + 3) % 11 for i in range(11)]  # the hand that moves on passes ten numbers of states a second
    for name, slider, values in (
        ("softness", SLIDERS["softness"], [0.4 + 0.08 * i for i in range(effort.held)]),
        ("K", SLIDERS["K"], all_k),
    ):
        holds[name] = hold(page, slider, FIGURE, values, effort.held_s)
        tell(*held_rows(name, holds[name]))
        wait_for_rest(page)
    visitors.leave()
    for page_name, slider, values in (
        ("Formula 1", "softness", [0.4 + 0.08 * i for i in range(effort.held)]),
        ("Formula 1", "K", all_k),
        ("Behaviour", "softness", [0.4 + 0.08 * i for i in range(effort.held)]),
        ("Behaviour", "K", all_k),
    ):
        name = f"{page_name}, {slider}"
        holds[name] = elsewhere(visitors, page_name.lower().replace(" ", ""), slider, values, effort.held_s)
        tell(*held_rows(name, holds[name]))
    holds["Playground"] = playground(visitors, [0.4 + 0.1 * i for i in range(effort.held)], effort.held_s)
    tell(*held_rows("Playground", holds["Playground"]))
    return {name: asdict(found) for name, found in holds.items()}


def held_rows(name: str, found: Held) -> list[Row]:
    """While the thumb is held. More pictures are better, so their number has its goal in the note."""
    note = f"{found.unseen} of {found.values} values brought no new picture" if found.unseen else ""
    most, least = (None, 3.0) if name.endswith("K") else (100.0, 8.0)
    many = f"goal {least:g} or more: {'met' if found.per_s >= least else 'missed'}"
    return [
        Row(f"{name} held, thumb to picture", found.after_ms, "ms", most, found.load, note),
        Row(f"{name} held, pictures a second", found.per_s, "", None, found.load, many),
    ]


def slider_rows(name: str, found: dict[str, Any]) -> list[Row]:
    """Medians over the moves; the note holds what the work itself took."""
    spent = found["spent"]
    note = f"processor: server {spent['server_ms']}, workers {spent['workers_ms']}, page {spent['page_ms']} ms"
    note += f"; {found['bytes'] / 1000:,.0f} kB"
    if found["unfinished"]:
        note += f"; {found['unfinished']} of {len(found['moves'])} not finished within {PATIENCE_S:.0f} s"

    def row(what: str, field: str, goal: float | None) -> Row:
        value = statistics.median(getattr(move, field) for move in found["moves"]) / 1000
        return Row(what, value, "s", goal, found["load"], note)

    if name == "seen":
        return [row("K released, a fit already seen", "stands", 0.3)]
    tau = name == "tau"
    return [
        row(f"{name} released, picture changed", "changed", 0.3 if tau else None),
        row(f"{name} released, finished fit stands", "stands", None if tau else 0.8),
    ]


def crowd_rows(met: dict[str, Any]) -> list[Row]:
    """The crowd's numbers beside their goals."""
    load, last = met["load"], met["memory"][-2]
    who = f"{met['people']} people, {met['seconds']:.0f} s"
    return [
        Row(f"{who}: picture p95", met["picture_p95_s"], "s", 5.0, load,
            f"median {met['picture_median_s']:.2f} s, {met['answered']} of {met['moves']} answered, "
            f"{met['superseded']} superseded, {met['unanswered']} never; at the browser p95 {met['browser_p95_s']:.2f} s"),
        Row(f"{who}: health p95", met["health_p95_ms"], "ms", 100.0, load,
            f"median {met['health_median_ms']:.0f} ms; server {met['server_cores']}, workers {met['workers_cores']} cores"),
        Row(f"{who}: errors", float(len(met["errors"])), "", 0.0, load),
        Row(f"{who}: memory of all processes at the end", last["server_mb"] + last["workers_mb"], "MB", None, load,
            f"{met['growth_last_third_mb']:+.0f} MB from the middle to the last third; server {last['server_mb']:.0f} MB"),
    ]  # fmt: skip


def table(rows: list[Row], *, head: bool = True) -> str:
    lines = [f"{'what':<58}{'measured':>11}{'goal':>10}  {'':<7}{'load':>5}"] if head else []
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal:g} {row.unit}".strip()
        lines.append(
            f"{row.what:<58}{f'{row.value:.3g} {row.unit}':>11}{goal:>10}  {row.met:<7}{row.load:>5}  {row.note}"
        )
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main())
