"""Waiting times of the dashboard in a real browser: `python -m benchmarks.browser [PART ...] [--quick] [--json FILE]`.

Starts and stops a server with an empty cache, and Chromium. Each number comes with the load average: above the number of
cores, times are upper bounds. Exits with 1 after errors on a page, and with 2 without Chromium.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from benchmarks import report
from benchmarks.crowd import run_crowd
from benchmarks.recorder import FIGURE, SCRIPT, Thumb, move, wait_for_rest
from tests.support.browser_server import FLAGS, Visitors, find_chromium, load_average, running_server

TAU, STATES = "Temperature (τ)", "States (K)"
HOME_CARDS = ".gdm-result"
TRIANGLE = ".st-key-triangle figure"
STRIPS = ".st-key-strips figure"  # drawn in the same frame as the map or the poses
WORKERS_START_S = 10.0
HOVER_S = 6.0  # before a slider is dragged
HELD_PATIENCE_S = 5.0  # for one picture while the slider is held


@dataclass(frozen=True)
class Row:
    """A measured value, its goal (None without one) and the load average."""

    what: str
    value: float
    unit: str
    goal: float | None
    load: float


@dataclass(frozen=True)
class Effort:
    """Numbers of repetitions, and size and duration of the crowd."""

    starts: int = 3
    visits: int = 5
    moves: int = 8
    held: int = 20
    held_s: float = 8.0
    people: int = 5
    seconds: float = 120.0
    every: float = 5.0


QUICK = Effort(starts=1, visits=2, moves=3, held=8, held_s=4.0, people=3, seconds=30.0)
Rows = Iterator[Row]


# ---- one visitor ----------------------------------------------------------------------------------------------------
class Weight:
    """Bytes that a page downloads."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._urls: dict[str, str] = {}
        self._sizes: dict[str, float] = {}
        session = page.context.new_cdp_session(page)
        session.on("Network.responseReceived", lambda e: self._urls.update({e["requestId"]: e["response"]["url"]}))
        session.on("Network.loadingFinished", lambda e: self._sizes.update({e["requestId"]: e["encodedDataLength"]}))
        session.send("Network.enable")

    def megabytes(self) -> float:
        """Return the megabytes without Streamlit's own files."""
        urls = {request: self._urls.get(request, "") for request in self._sizes}
        own = sum(self._sizes[r] for r, url in urls.items() if "/static/" not in url and not url.endswith("/"))
        return (own + self._page.evaluate("window.gdmNotes.bytes")) / 1e6


def first_visit(visitors: Visitors) -> tuple[float, float]:
    """Return the seconds until Home is drawn in a new browser, and its megabytes."""
    page = visitors.page(SCRIPT)
    weight = Weight(page)
    began = time.perf_counter()
    page.goto(visitors.server.url, wait_until="commit")
    page.wait_for_function(
        f"document.querySelectorAll('{HOME_CARDS} svg, {HOME_CARDS} img').length >= 3 && "
        "document.querySelector('.gdm-lap') && "
        "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'",
        polling="raf",
    )
    seconds = time.perf_counter() - began
    megabytes = weight.megabytes()
    visitors.leave()
    return seconds, megabytes


def visits(visitors: Visitors, effort: Effort) -> Rows:
    """Measure first visits of Home and of the NASCAR lab, and its sliders."""
    first_visit(visitors)
    time.sleep(WORKERS_START_S)
    found = [first_visit(visitors) for _ in range(effort.visits)]
    yield Row("first visit of Home", statistics.median(s for s, _ in found), "s", 2.0, load_average())
    heaviest = max(megabytes for _, megabytes in found)
    yield Row("download of Home, without Streamlit's own files", heaviest, "MB", 6.0, load_average())
    page = visitors.page(SCRIPT)
    weight = Weight(page)
    began = time.perf_counter()
    page.goto(f"{visitors.server.url}/nascar", wait_until="commit")
    page.wait_for_selector(f"{FIGURE}[data-state=fresh][data-updates]", state="attached")
    yield Row("NASCAR lab opened", time.perf_counter() - began, "s", None, load_average())
    wait_for_rest(page)
    megabytes = weight.megabytes()
    yield Row("download of the NASCAR lab, without Streamlit's own files", megabytes, "MB", 6.0, load_average())
    states = [5.0, 3.0, 6.0, 7.0, 8.0, 2.0, 9.0, 10.0][: effort.moves]
    moves = release_at(page, TAU, [0.4 + 0.23 * i for i in range(effort.moves)])
    yield Row("temperature released, fit finished", median(moves, "finished"), "s", None, load_average())
    moves = release_at(page, STATES, states)
    yield Row("K released, fit finished", median(moves, "finished"), "s", 0.8, load_average())
    moves = release_at(page, STATES, [*reversed(states[:-1]), states[-1]])
    yield Row("K released, fit in the cache", median(moves, "finished"), "s", 0.3, load_average())
    visitors.leave()


def release_at(page: Page, slider: str, values: Sequence[float]) -> list[Any]:
    """Release a slider at each value, and wait for each fit."""
    moves = []
    for value in values:
        moves.append(move(page, slider, value))
        wait_for_rest(page)
    return moves


def median(moves: Sequence[Any], field: str) -> float:
    return float(statistics.median(getattr(one, field) for one in moves))


# ---- a held slider --------------------------------------------------------------------------------------------------
def hold(page: Page, slider: str, figure: str, values: Sequence[float], seconds: float) -> tuple[float, float]:
    """Return the median milliseconds from value to picture, and pictures per second while dragging."""
    page.evaluate("selector => window.gdmWatch(selector)", figure)
    thumb = Thumb(page, slider)
    thumb.press()
    after = []
    for value in values:
        page.evaluate("window.gdmNotes.events.splice(0, window.gdmNotes.events.length - 1)")
        thumb.go(value)
        try:
            changed = "window.gdmNotes.events.find((event, i, all) => event.look !== all[0].look)"
            page.wait_for_function(f"{changed} !== undefined", polling=5, timeout=1000 * HELD_PATIENCE_S)
            after.append(float(page.evaluate(f"{changed}.after")))
        except PlaywrightTimeout:
            after.append(1000 * HELD_PATIENCE_S)
    page.evaluate("window.gdmNotes.events.splice(0, window.gdmNotes.events.length - 1)")
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        thumb.go(min(values) + (max(values) - min(values)) * abs(2 * (passed % 1) - 1))  # 20 values of K a second
        page.wait_for_timeout(16)
    looks = page.evaluate("window.gdmNotes.events.map(({ look }) => look)")
    page.mouse.up()
    return statistics.median(after), sum(a != b for a, b in pairwise(looks)) / passed


def hold_sliders(visitors: Visitors, effort: Effort) -> Rows:
    """Measure pictures while a slider is held, on each page with sliders."""
    taus = [0.4 + 0.08 * i for i in range(effort.held)]
    states = [2.0 + (5 * i + 3) % 11 for i in range(11)]
    pages = (
        ("NASCAR", "nascar", FIGURE),
        ("Formula 1", "formula1?view=States", STRIPS),
        ("Behaviour", "behaviour", STRIPS),
    )
    cases = [
        (f"{title}, {what} dragged", path, figure, slider, values)
        for title, path, figure in pages
        for what, slider, values in (("temperature", TAU, taus), ("K", STATES, states))
    ]
    for name, path, figure, slider, values in [*cases, ("Playground dragged", "playground", TRIANGLE, TAU, taus)]:
        page = visitors.page(SCRIPT)
        page.goto(f"{visitors.server.url}/{path}", wait_until="commit")
        page.wait_for_selector(f"{figure}[data-updates]", state="attached")
        wait_for_rest(page, f"{figure}[data-updates]")
        page.get_by_role("slider", name=slider).hover()
        page.wait_for_timeout(1000 * HOVER_S)
        after, rate = hold(page, slider, figure, values, effort.held_s)
        visitors.leave()
        yield Row(f"{name}, value to picture", after, "ms", None, load_average())
        yield Row(f"{name}, pictures per second", rate, "", None, load_average())


# ---- all parts ------------------------------------------------------------------------------------------------------
def start(folder: Path, effort: Effort) -> Rows:
    """Measure the start of a server up to its first health check."""
    times = []
    for i in range(effort.starts):
        with running_server(folder / f"start-{i}") as server:
            times.append(server.started)
    yield Row("server start to first health check", statistics.median(times), "s", 8.0, load_average())


def several(visitors: Visitors, effort: Effort) -> Rows:
    """Measure several visitors at once."""
    found = run_crowd(visitors, effort.people, effort.seconds, effort.every)
    visitors.errors[:] = found["errors"]
    people = f"{effort.people} visitors"
    yield Row(f"{people}, action to picture, 95th percentile", found["picture_p95_s"], "s", 5.0, found["load"])
    yield Row(f"{people}, actions without a picture", float(found["unanswered"]), "", 0.0, found["load"])
    yield Row(f"{people}, health check, 95th percentile", found["health_p95_ms"], "ms", 100.0, found["load"])
    yield Row(f"{people}, memory of all processes", found["memory_mb"], "MB", None, found["load"])


PARTS: dict[str, Callable[[Visitors, Effort], Rows]] = {"visits": visits, "held": hold_sliders, "crowd": several}


def measure(chromium: str, folder: Path, effort: Effort, parts: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Measure some parts, printing each row, and return the rows and errors."""
    rows: list[Row] = []
    errors: list[str] = []

    def keep(found: Rows) -> None:
        for row in found:
            rows.append(row)
            print(f"{row.what}: {row.value:.3g} {row.unit}", file=sys.stderr, flush=True)

    keep(start(folder, effort))
    with running_server(folder / "app") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        visitors = Visitors(browser, server)
        for name in parts:
            keep(PARTS[name](visitors, effort))
            errors += visitors.errors
            visitors.errors.clear()
        errors += server.complaints()
        browser.close()
    return rows, errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to measure; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and a smaller crowd")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("No Chromium was found. Install one (Debian: apt-get install chromium).", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows, errors = measure(
            chromium, Path(folder), QUICK if options.quick else Effort(), options.parts or list(PARTS)
        )
    cells = [[row.what, row.value, row.unit, "" if row.goal is None else row.goal, row.load] for row in rows]
    print(report.table("Waiting times of visitors", ["what", "measured", "unit", "goal", "load"], cells))
    print("\n".join(f"error: {error}" for error in errors))
    report.write(options.json, {"rows": [asdict(row) for row in rows], "errors": errors})
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
