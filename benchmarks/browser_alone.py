"""What one visitor waits for: the first page, a slider, a fit, a drawing; and what travels to the browser for it."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from benchmarks.browser_recorder import FIGURE, SCRIPT, move, wait_for_rest
from datasets import nascar
from gdm_studio.plot import figures
from tests.support.browser_server import Server, Visitors, load_average, running_server
from tests.support.plot_probe import RANGE, RUN, draw, zoom_in

HOME_CARDS = ".gdm-result"


def cold_starts(folder: Path, repeats: int) -> list[float]:
    """Seconds from starting the server's process to its healthy answer."""
    times = []
    for i in range(repeats):
        with running_server(folder / f"cold-{i}") as server:
            times.append(server.started)
    return times


def first_visits(visitors: Visitors, repeats: int) -> tuple[list[float], list[dict[str, int]]]:
    """Seconds until Home is a finished picture for a browser that has never been there, and what was sent to it."""
    times, weights = [], []
    for _ in range(repeats):
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
        times.append(time.perf_counter() - began)
        weights.append(weight.read())
        visitors.leave()
    return times, weights


class Weight:
    """Bytes that came over the wire: Streamlit's own files, our files, and what the page's script said."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._addresses: dict[str, str] = {}
        self._sizes: dict[str, float] = {}
        self._session.on(
            "Network.responseReceived", lambda e: self._addresses.update({e["requestId"]: e["response"]["url"]})
        )
        self._session.on(
            "Network.loadingFinished", lambda e: self._sizes.update({e["requestId"]: e["encodedDataLength"]})
        )
        self._session.send("Network.enable")

    def read(self) -> dict[str, int]:
        found = {"streamlit_bytes": 0, "own_bytes": 0}
        for request, size in self._sizes.items():
            theirs = "/static/" in self._addresses.get(request, "") or self._addresses.get(request, "").endswith("/")
            found["streamlit_bytes" if theirs else "own_bytes"] += int(size)
        found["own_bytes"] += int(self._page.evaluate("window.gdmNotes.bytes"))
        return found


class Spent:
    """Milliseconds of processor time of the server and of the page since `start`."""

    def __init__(self, server: Server, page: Page) -> None:
        self._server, self._page = server, page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.rows: list[dict[str, float]] = []
        self._before = self._read()

    def _read(self) -> tuple[float, float, float]:
        metrics = {m["name"]: m["value"] for m in self._session.send("Performance.getMetrics")["metrics"]}
        server, workers = self._server.busy()
        return server, workers, float(metrics["TaskDuration"])

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> None:
        now = self._read()
        names = ("server_ms", "workers_ms", "page_ms")
        self.rows.append({n: 1000 * (b - a) for n, a, b in zip(names, self._before, now, strict=True)})

    def medians(self) -> dict[str, float]:
        return {name: round(statistics.median(row[name] for row in self.rows)) for name in self.rows[0]}


def open_lab(visitors: Visitors) -> tuple[Page, float, dict[str, int]]:
    """The NASCAR lab with its first fit done: the page, seconds until then, and what was sent for it."""
    page = visitors.page(SCRIPT)
    weight = Weight(page)
    began = time.perf_counter()
    page.goto(f"{visitors.server.url}/nascar", wait_until="commit")
    again = page.get_by_role("button", name="Try again")
    for _ in range(3):  # on a crowded machine the workers may miss their deadline
        page.locator(f"{FIGURE}[data-state=fresh][data-updates]").or_(again).first.wait_for(state="attached")
        if again.count() == 0:
            break
        visitors.errors.append("the first fit failed and was asked for again")
        again.click()
        again.wait_for(state="detached")
    wait_for_rest(page)
    return page, time.perf_counter() - began, weight.read()


SERIES = ("tau", "K", "seen")


def series(page: Page, server: Server, name: str, repeats: int) -> dict[str, Any]:
    """tau or K moved to settings that were never fitted, or ("seen") K to those that were."""
    taus = [0.4 + 0.23 * i for i in range(repeats)]
    unseen = [5.0, 6.0, 3.0, 7.0, 8.0, 2.0, 9.0, 10.0][:repeats]
    back = [*reversed(unseen[:-1]), unseen[-1]]
    slider = "Softness (τ)" if name == "tau" else "States (K)"
    values = {"tau": taus, "K": unseen, "seen": back}[name]
    spent = Spent(server, page)
    moves = []
    for value in values:
        spent.start()
        moves.append(move(page, slider, value))
        spent.stop()
        if moves[-1].finished:
            wait_for_rest(page)
        page.wait_for_timeout(600)  # else it counts as one movement with the last
    return {
        "moves": moves,
        "spent": spent.medians(),
        "bytes": statistics.median(m.bytes for m in moves),
        "draw_ms": statistics.median([ms for m in moves for ms in m.draws] or [0.0]),
        "unfinished": sum(not m.finished for m in moves),
        "load": load_average(),
    }


def live_updates(visitors: Visitors, rounds: int) -> dict[str, Any]:
    """Milliseconds of one update of a track and a strip of 1,000 points, zoomed in before."""
    first, second = (nascar.simulate("soft", T=1000, seed=seed) for seed in (0, 1))
    scenes = [
        (figures.track(t.position, t.states), figures.state_strips({"inferred": t.states})) for t in (first, second)
    ]
    page = visitors.page()
    page.goto(f"{visitors.server.url}/playground")
    page.wait_for_selector(".gdm-figure[data-updates]", state="attached")
    page.wait_for_timeout(1_000)
    draw(page, *scenes)
    zoomed = zoom_in(page)
    spent = Spent(visitors.server, page)
    result = page.evaluate(RUN, rounds)
    spent.stop()
    kept = all(abs(a - b) < 1e-6 for a, b in zip(page.evaluate(RANGE), zoomed, strict=True))
    visitors.leave()
    return {
        "ms": result["times"],
        "page_ms": spent.medians()["page_ms"] / rounds,
        "node_kept": bool(result["same"]),
        "zoom_kept": kept,
        "load": load_average(),
    }
